//! Parses words of the command line into problems, families and numbers, for all commands.

use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use super::arguments::{
    FamilyArguments, FolderArguments, PatternArguments, ProblemArguments, SelectionArguments,
    TypeArguments,
};
use super::console::Console;
use super::environment::render_children;
use super::failure::Failure;
use crate::database::RecordFilter;
use crate::files::{self, InputKind};
use crate::model::problem::MAX_BATCH;
use crate::model::{
    CachePolicy, Dtype, Epilogue, GemmType, Layout, PowerState, Problem, ProblemPattern, Regime,
    Shape,
};
use crate::predict::LearnedModel;
use crate::render::Templates;
use crate::space::{Families, Family, LoadError};

/// The families to choose from, and their templates.
pub(super) fn families(wanted: &FamilyArguments) -> Result<(Vec<Family>, Templates), Failure> {
    chosen(&wanted.family, &wanted.folders)
}

/// All families, and their templates.
pub(super) fn all_families(folders: &FolderArguments) -> Result<(Vec<Family>, Templates), Failure> {
    chosen(&[], folders)
}

fn chosen(
    names: &[String],
    folders: &FolderArguments,
) -> Result<(Vec<Family>, Templates), Failure> {
    let families = match &folders.spaces {
        Some(folder) => Families::from_folder(folder),
        None => Families::built_in(),
    }
    .map_err(Failure::work)?;
    let families = if names.is_empty() {
        families.iter().cloned().collect()
    } else {
        // A named family is searched, even if another one supersedes it.
        let named = names.iter().map(|name| families.get(name).cloned());
        let mut named = named.collect::<Result<Vec<Family>, _>>().map_err(Failure::usage)?;
        named.iter_mut().for_each(|family| family.superseded_by = None);
        named
    };
    let templates = match &folders.templates {
        Some(folder) => Templates::with_folder(folder),
        None => Templates::built_in(),
    }
    .map_err(Failure::work)?;
    // What comes from a folder may have loops that do not end.
    let templates = match (&folders.spaces, &folders.templates) {
        (None, None) => templates,
        _ => templates.in_children(render_children()?),
    };
    Ok((families, templates))
}

/// What `gemm-tune learn` wrote to a file.
pub(super) fn learned_model(path: &Path) -> Result<LearnedModel, Failure> {
    let text = files::read_text(path, InputKind::LearnedModel)
        .map_err(|error| Failure::Work(format!("cannot read `{}`: {error}", path.display())))?;
    let named = |error| Failure::Work(format!("`{}`: {error}", path.display()));
    LearnedModel::parse(&text).map_err(named)
}

/// A family by its name.
pub(super) fn family<'f>(families: &'f [Family], name: &str) -> Result<&'f Family, LoadError> {
    let unknown = || LoadError::unknown(name, families.iter().map(|one| &*one.name));
    families.iter().find(|family| family.name == name).ok_or_else(unknown)
}

impl PatternArguments {
    /// The common part of the problems, with a placeholder for the shape.
    pub(super) fn pattern(&self) -> Result<Problem, Failure> {
        let pattern = pattern(&self.types, self.batch)?;
        Ok(Problem { layout: layout(&self.layout)?, ..pattern })
    }
}

impl ProblemArguments {
    /// The common part of the problems, with a placeholder for the shape.
    pub(super) fn pattern(&self) -> Result<Problem, Failure> {
        let pattern = pattern(&self.types, self.batch)?;
        Ok(Problem { layout: layout(&self.layout)?, ..pattern })
    }

    /// All problems. Layout and batch are those of the options unless the file gives others.
    pub(super) fn all(&self) -> Result<Vec<Problem>, Failure> {
        let words = shape_words(&self.shape_words, &self.shape)?;
        problems(&words, self.shapes.as_deref(), self.pattern()?)
    }
}

impl SelectionArguments {
    /// The records that the arguments select.
    pub(super) fn selection(&self) -> Result<RecordFilter, Failure> {
        fn words<T: std::str::FromStr>(words: &[String]) -> Result<Vec<T>, Failure>
        where
            T::Err: std::fmt::Display,
        {
            words.iter().map(|word| word.parse().map_err(Failure::usage)).collect()
        }
        Ok(RecordFilter {
            shapes: shapes(&shape_words(&self.shape_words, &self.shape)?)?,
            dtypes: self.dtype.iter().map(|word| dtype(word)).collect::<Result<_, _>>()?,
            computes: words(&self.compute)?,
            layouts: self.layout.iter().map(|word| layout(word)).collect::<Result<_, _>>()?,
            batches: self.batch.clone(),
            device_name: self.device_name.clone(),
        })
    }
}

/// Parses a layout, `tn` or `TN`.
fn layout(word: &str) -> Result<Layout, Failure> {
    word.to_ascii_lowercase().parse().map_err(Failure::usage)
}

/// The common part of problems, with placeholders for shape and layout.
pub(super) fn pattern(arguments: &TypeArguments, batch: u64) -> Result<Problem, Failure> {
    let types = arguments.types()?;
    let epilogue: Epilogue = arguments.epilogue.parse().map_err(Failure::usage)?;
    let epilogue = epilogue.check(types).map_err(Failure::usage)?;
    check_batch(batch)?;
    let pattern = ProblemPattern { types, layout: Layout::Nn, epilogue };
    Ok(Problem { batch, ..pattern.problem(Shape { m: 1, n: 1, k: 1 }) })
}

impl TypeArguments {
    /// The GEMM type that the arguments name.
    pub(super) fn types(&self) -> Result<GemmType, Failure> {
        let mut types = GemmType::of(dtype(&self.dtype)?);
        if let Some(out) = &self.out {
            types.d = dtype(out)?;
        }
        if let Some(compute) = &self.compute {
            types.compute = compute.parse().map_err(Failure::usage)?;
        }
        types.check().map_err(Failure::usage)
    }
}

/// Parses a dtype. Programs that have tf32 as a type are many.
fn dtype(text: &str) -> Result<Dtype, Failure> {
    if text.eq_ignore_ascii_case("tf32") {
        return Err(Failure::Usage(
            "`tf32` is no dtype, it is an arithmetic for f32: write `--dtype f32 --compute tf32`"
                .to_owned(),
        ));
    }
    text.parse().map_err(Failure::usage)
}

/// The conditions that times are measured under.
pub(super) fn regime(cache: &str, power: &str) -> Result<Regime, Failure> {
    let cache =
        CachePolicy::ALL.into_iter().find(|known| known.name() == cache).ok_or_else(|| {
            Failure::Usage(format!("`{cache}` is no cache policy: choose `rotate` or `hot`"))
        })?;
    let power =
        PowerState::ALL.into_iter().find(|known| known.name() == power).ok_or_else(|| {
            Failure::Usage(format!("`{power}` is no power state: choose `burst` or `sustained`"))
        })?;
    Ok(Regime { cache, power })
}

/// Refuses conditions that the cpu device does not model.
pub(super) fn check_modelled(regime: Regime) -> Result<(), Failure> {
    if regime == Regime::default() {
        return Ok(());
    }
    Err(Failure::Usage(
        "the cpu device models times of operands outside the cache and of a device at rest: leave \
         out `--cache-policy` and `--power`"
            .to_owned(),
    ))
}

/// Shapes as plain words, then those of options. A word that begins with no digit is a command that does not exist.
pub(super) fn shape_words(plain: &[String], named: &[String]) -> Result<Vec<String>, Failure> {
    let is_shape = |word: &&String| word.starts_with(|first: char| first.is_ascii_digit());
    if let Some(word) = plain.iter().find(|word| !is_shape(word)) {
        return Err(Failure::Usage(format!(
            "`{word}` is neither a command nor a shape: `gemm-tune --help` lists the commands; a shape is \
             written as in `4096x4096x1024`"
        )));
    }
    Ok([plain, named].concat())
}

/// Whether words are numbers alone, of which each is a cube.
fn are_cubes(words: &[String]) -> bool {
    words.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Refuses three numbers, which are more often one shape than three cubes. Notes that two are cubes.
pub(super) fn check_cubes(plain: &[String], console: Console) -> Result<(), Failure> {
    match plain {
        [m, n, k] if are_cubes(plain) => Err(Failure::Usage(format!(
            "`{m} {n} {k}` are three shapes, each of them a cube: write `{m}x{n}x{k}` for one shape of \
             M x N x K, or `--shape {m} --shape {n} --shape {k}` for the cubes"
        ))),
        [first, second] if are_cubes(plain) => {
            console.note(&format!(
                "`{first}` and `{second}` are two shapes, each of them a cube; one shape is written MxNxK, \
                 as in `{first}x{second}x{first}`"
            ));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Parses shapes.
pub(super) fn shapes(words: &[String]) -> Result<Vec<Shape>, Failure> {
    words.iter().map(|word| word.parse().map_err(Failure::usage)).collect()
}

/// The problems of shapes on the command line, then those of a file. Both are written alike, so that what a file or a
/// table has can be asked for: `'512x512x512 nt x16'`.
pub(super) fn problems(
    words: &[String],
    file: Option<&Path>,
    pattern: Problem,
) -> Result<Vec<Problem>, Failure> {
    let mut problems: Vec<Problem> =
        words.iter().map(|word| listed(word, pattern)).collect::<Result<_, _>>()?;
    if let Some(file) = file {
        problems.extend(shapes_file(file, pattern)?);
    }
    Ok(problems)
}

/// The failure of a command without a shape.
pub(super) fn no_shape(deed: &str, command: &str) -> Failure {
    Failure::Usage(format!(
        "nothing to {deed}: give a shape, as in `{command} 4096x4096x1024`, or `--shapes FILE`"
    ))
}

/// The problems of a file: one shape a line, with what differs from `pattern` behind it, as in
/// `512x512x512 nt x16`; `#` begins a comment.
fn shapes_file(file: &Path, pattern: Problem) -> Result<Vec<Problem>, Failure> {
    let name = file.display();
    let text = files::read_text(file, InputKind::Shapes).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => {
                "; a relative path begins in the current folder, and the lists of this project lie in \
                 `search-spaces/shapes` of its checkout"
            }
            _ => "",
        };
        Failure::Usage(format!("cannot read `{name}`: {error}{advice}"))
    })?;
    parse_shapes(&text, &name.to_string(), pattern)
}

/// The problems of a file's text; `name` is for messages.
fn parse_shapes(text: &str, name: &str, pattern: Problem) -> Result<Vec<Problem>, Failure> {
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if !line.is_empty() {
            let parsed = listed(line, pattern);
            problems.push(parsed.map_err(|failure| {
                Failure::Usage(format!("{name}:{}: {}", number + 1, failure.message()))
            })?);
        }
    }
    if problems.is_empty() {
        return Err(Failure::Usage(format!("`{name}` has no shape: write one a line")));
    }
    Ok(problems)
}

/// The problem of a line or an argument.
fn listed(line: &str, pattern: Problem) -> Result<Problem, Failure> {
    let mut words = line.split_whitespace();
    let shape: Shape = words.next().unwrap_or("").parse().map_err(Failure::usage)?;
    let mut wanted = Problem { shape, ..pattern };
    for word in words {
        if let Some(batch) = word.strip_prefix('x').and_then(|batch| batch.parse().ok()) {
            wanted.batch = batch;
        } else {
            wanted.layout = word.parse().map_err(|_| {
                Failure::Usage(format!(
                    "`{word}` is neither a layout (nn, nt, tn, tt) nor a batch, as in `x16`"
                ))
            })?;
        }
    }
    check_batch(wanted.batch)?;
    problem(wanted)
}

fn check_batch(batch: u64) -> Result<(), Failure> {
    if (1..=MAX_BATCH).contains(&batch) {
        return Ok(());
    }
    Err(Failure::Usage(format!("batch is {batch}, not within 1 to {MAX_BATCH}")))
}

/// A time above zero, such as `60s`.
pub(super) fn time(text: &str) -> Result<Duration, Failure> {
    let wrong = || Failure::Usage(format!("`{text}` is no time: write `60s`, `2m` or `1h 30m`"));
    let time: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(time).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

/// A percentage as a fraction: `1%` or `0.5%`.
pub(super) fn fraction(word: &str) -> Result<f64, Failure> {
    let number = word.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    number
        .filter(|percent| (0.0..100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| {
            Failure::Usage(format!("`{word}` is no percentage: write `1%` or `0.5%`, below 100%"))
        })
}

/// A problem, if its operands can be addressed.
pub(super) fn problem(problem: Problem) -> Result<Problem, Failure> {
    problem.check_size().map(|()| problem).map_err(Failure::usage)
}

/// Most threads that compile: each has a child process of about 150 MB.
const MAX_JOBS: usize = 1024;

/// Threads that compile.
pub(super) fn jobs(wanted: Option<NonZeroUsize>) -> Result<NonZeroUsize, Failure> {
    match wanted {
        Some(jobs) if jobs.get() > MAX_JOBS => Err(Failure::Usage(format!(
            "`--jobs {jobs}` is more than {MAX_JOBS}, the most that can be given"
        ))),
        Some(jobs) => Ok(jobs),
        None => {
            let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
            Ok(cores.min(NonZeroUsize::new(MAX_JOBS).unwrap_or(cores)))
        }
    }
}

/// The number of problems of a file's text, or what is wrong with it.
///
/// # Errors
/// The message that a user gets.
#[doc(hidden)]
pub fn count_shapes(text: &str) -> Result<usize, String> {
    let pattern = Problem::new(Shape { m: 1, n: 1, k: 1 }, Dtype::F32);
    let problems = parse_shapes(text, "shapes", pattern);
    problems.map(|problems| problems.len()).map_err(|failure| failure.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Layout;

    #[test]
    fn a_line_may_say_layout_and_batch() {
        let (dtype, epilogue) = ("f32".to_owned(), String::new());
        let types = TypeArguments { dtype, out: None, compute: None, epilogue };
        let pattern = pattern(&types, 1).ok().unwrap();
        for (line, expected) in [
            ("512x512x512", "512x512x512 f32 nn"),
            ("512x512x512 nt", "512x512x512 f32 nt"),
            ("8x9x10   tt  x16", "8x9x10 f32 tt x16"),
            ("8x9x10 x3 tn", "8x9x10 f32 tn x3"),
        ] {
            let problem = listed(line, pattern).ok().unwrap();
            assert_eq!(problem.to_string(), expected);
            let arguments = [line.to_owned(), "7".to_owned()];
            let both = problems(&arguments, None, pattern).ok().unwrap();
            assert_eq!(both.len(), 2);
            assert_eq!(both[0], problem);
            assert_eq!(both[1].to_string(), "7x7x7 f32 nn");
        }
        let pattern = Problem { layout: Layout::Tn, batch: 7, ..pattern };
        assert_eq!(listed("1x2x3", pattern).ok().unwrap().to_string(), "1x2x3 f32 tn x7");
        for line in ["", "1x2", "1x2x3 up", "1x2x3 x0", "1x2x3 x-1", "1x2x3 nt nt2"] {
            assert!(matches!(listed(line, pattern), Err(Failure::Usage(_))), "{line}");
        }
    }
}
