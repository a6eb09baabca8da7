//! The templates: those built into the program, and a user's own beside or instead of them. The
//! only file of this room that touches a disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use include_dir::{Dir, DirEntry, include_dir};
use tera::Tera;
use thiserror::Error;

use super::RenderError;
use super::children::{
    ChildRenderer, EngineError, Marking, RenderChildren, RenderFailure, context,
};
use super::language::{engine_error, language, reported_error, tidy, values};
use super::marks::marked_engine;
use crate::files::{self, InputKind};
use crate::model::Diagnostic;
use crate::model::diagnostic::did_you_mean;
use crate::process::ChildError;
use crate::space::scope::BUILT_INS;
use crate::space::{Family, Scope};

static BUILT_IN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/templates");

/// Why templates could not be had.
#[derive(Debug, Error)]
pub enum TemplateError {
    /// A template is wrong.
    #[error("{0}")]
    Located(#[from] Box<Diagnostic>),
    /// A file or folder cannot be read.
    #[error("cannot read `{}`: {error}", .path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
}

/// All templates, parsed. Cheap to clone and to share between threads.
#[derive(Debug, Clone)]
pub struct Templates {
    engine: Arc<Tera>,
    /// The same with marks, parsed once something failed; `None` where they do not parse.
    marked: Arc<OnceLock<Option<Tera>>>,
    files: Arc<BTreeMap<String, TemplateFile>>,
    /// `None` renders in this process.
    children: Option<Arc<ChildRenderer>>,
}

#[derive(Debug)]
pub(super) struct TemplateFile {
    /// The file as messages name it.
    pub(super) path: String,
    pub(super) text: String,
}

impl Templates {
    /// The templates that come with the program.
    ///
    /// # Errors
    /// None in a released program: the files are part of it and tested.
    pub fn built_in() -> Result<Self, TemplateError> {
        Self::parse(built_in_files())
    }

    /// The templates of `folder` and its subfolders, on top of the built-in ones, whose parts
    /// they may include and whose names they may take over.
    ///
    /// # Errors
    /// An unreadable folder or file, the first template that is wrong.
    pub fn with_folder(folder: &Path) -> Result<Self, TemplateError> {
        let mut files = built_in_files();
        collect(folder, folder, &mut files)?;
        Self::parse(files)
    }

    fn parse(files: BTreeMap<String, TemplateFile>) -> Result<Self, TemplateError> {
        let mut engine = language();
        let texts = files.iter().map(|(name, file)| (name.as_str(), file.text.as_str()));
        // All at once: a template may include one that comes after it.
        if let Err(error) = engine.add_raw_templates(texts) {
            let fallback = files.keys().next().map_or("templates", String::as_str);
            let text = |name: &str| files.get(name).map(|file| file.text.as_str());
            let error = reported_error(&error, text).unwrap_or_else(|| engine_error(&error));
            return Err(TemplateError::Located(Box::new(located(&files, fallback, error))));
        }
        let (engine, files) = (Arc::new(engine), Arc::new(files));
        Ok(Self { engine, marked: Arc::default(), files, children: None })
    }

    /// Renders in child processes from now on, which end at a time limit: for templates and
    /// parameters of a user, whose loops may not end.
    #[must_use]
    pub fn in_children(self, children: RenderChildren) -> Self {
        let texts = self.files.iter().map(|(name, file)| (name.clone(), file.text.clone()));
        let children = Some(Arc::new(ChildRenderer::new(children, texts)));
        Self { children, ..self }
    }

    /// Checks that a family's template exists and that all names it uses are parameters, derived
    /// values or built in.
    ///
    /// # Errors
    /// [`RenderError::NoTemplate`], or the place of the first unknown name.
    pub fn check(&self, family: &Family) -> Result<(), RenderError> {
        let mut used: Vec<&str> = self
            .engine
            .get_template_variables(&family.template)
            .map_err(|_| no_template(family))?
            .into_iter()
            .collect();
        used.sort_unstable();
        let known: Vec<&str> =
            family.names().chain(BUILT_INS.iter().map(|(name, _)| *name)).collect();
        for name in used {
            if !known.contains(&name) {
                return Err(RenderError::Located(Box::new(
                    self.unknown_name(family, name, &known),
                )));
            }
        }
        Ok(())
    }

    /// The names that a family's template uses, its parts included.
    ///
    /// # Errors
    /// [`RenderError::NoTemplate`].
    pub fn names_used(&self, family: &Family) -> Result<Vec<String>, RenderError> {
        let names = self
            .engine
            .get_template_variables(&family.template)
            .map_err(|_| no_template(family))?;
        let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }

    pub(super) fn render(&self, family: &Family, scope: &Scope<'_>) -> Result<String, RenderError> {
        if !self.files.contains_key(&family.template) {
            return Err(no_template(family));
        }
        let (template, values) = (&family.template, values(family, scope));
        let rendered = match &self.children {
            Some(children) => children.render(template, values, Marking::Off),
            None => {
                let rendered = self.engine.render(template, &context(values));
                rendered.map_err(|error| RenderFailure::Engine(engine_error(&error)))
            }
        };
        let text = rendered.map_err(|failure| match failure {
            RenderFailure::Engine(error) => {
                RenderError::Located(Box::new(located(&self.files, template, error)))
            }
            RenderFailure::Child(error) => failed_child(template, error),
        })?;
        Ok(tidy_blank_lines(&text))
    }

    /// As `render`, with marks; see [`marks`](super::marks). `None` where that fails.
    pub(super) fn render_marked(&self, family: &Family, scope: &Scope<'_>) -> Option<String> {
        let (template, values) = (&family.template, values(family, scope));
        if let Some(children) = &self.children {
            return children.render(template, values, Marking::On).ok();
        }
        let files = self.files.iter().map(|(name, file)| (name.as_str(), file.text.as_str()));
        let engine = self.marked.get_or_init(|| marked_engine(files));
        engine.as_ref()?.render(template, &context(values)).ok()
    }

    /// All templates, by name.
    pub(super) fn files(&self) -> Arc<BTreeMap<String, TemplateFile>> {
        Arc::clone(&self.files)
    }

    /// A fingerprint of a family's template and of the parts it includes, for a record's provenance.
    pub fn hash(&self, family: &Family) -> String {
        self.fingerprint(&family.template)
    }

    fn fingerprint(&self, template: &str) -> String {
        let mut hasher = blake3::Hasher::new();
        for name in self.with_parts(template) {
            hasher.update(name.as_bytes());
            hasher.update(&[0]);
            hasher.update(self.files[name].text.as_bytes());
            hasher.update(&[0]);
        }
        hasher.finalize().to_hex().to_string().split_at(16).0.to_owned()
    }

    /// The names of a template and of all that it includes, or that these do, whatever the condition.
    fn with_parts<'a>(&'a self, template: &'a str) -> BTreeSet<&'a str> {
        let (mut found, mut left) = (BTreeSet::new(), vec![template]);
        while let Some(name) = left.pop() {
            let Some(file) = self.files.get(name) else { continue };
            if found.insert(name) {
                let after = file.text.split("include \"").skip(1);
                left.extend(after.filter_map(|text| text.split_once('"')).map(|(name, _)| name));
            }
        }
        found
    }

    /// Blames an unknown name at its first use, in the template or in one of the parts.
    fn unknown_name(&self, family: &Family, name: &str, known: &[&str]) -> Diagnostic {
        let parts = self.with_parts(&family.template).into_iter();
        let own = std::iter::once(family.template.as_str());
        let (file, at) = own
            .chain(parts)
            .filter_map(|file| self.files.get(file))
            .find_map(|file| word_in_tags(&file.text, name).map(|at| (file, at)))
            .unwrap_or((&self.files[&family.template], 0));
        Diagnostic {
            file: file.path.clone(),
            source: file.text.clone(),
            span: at..at + name.len(),
            message: format!(
                "`{name}` is no parameter or derived value of family `{}`",
                family.name
            ),
            help: did_you_mean(name, known.iter().copied()),
        }
    }
}

fn no_template(family: &Family) -> RenderError {
    RenderError::NoTemplate {
        family: family.name.clone(),
        file: family.file().to_owned(),
        template: family.template.clone(),
    }
}

fn built_in_files() -> BTreeMap<String, TemplateFile> {
    fn walk(dir: &Dir<'_>, files: &mut BTreeMap<String, TemplateFile>) {
        for entry in dir.entries() {
            match entry {
                DirEntry::Dir(dir) => walk(dir, files),
                DirEntry::File(file) => {
                    let name = file.path().to_string_lossy().into_owned();
                    if let (true, Some(text)) = (name.ends_with(".tera"), file.contents_utf8()) {
                        let path = format!("templates/{name}");
                        files.insert(name, TemplateFile { path, text: text.to_owned() });
                    }
                }
            }
        }
    }
    let mut files = BTreeMap::new();
    walk(&BUILT_IN, &mut files);
    files
}

fn collect(
    root: &Path,
    folder: &Path,
    files: &mut BTreeMap<String, TemplateFile>,
) -> Result<(), TemplateError> {
    let unreadable =
        |path: &Path, error| TemplateError::Unreadable { path: path.to_owned(), error };
    for entry in std::fs::read_dir(folder).map_err(|error| unreadable(folder, error))? {
        let entry = entry.map_err(|error| unreadable(folder, error))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(|error| unreadable(&path, error))?;
        if kind.is_dir() {
            collect(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "tera") {
            let text = files::read_text(&path, InputKind::Template)
                .map_err(|error| unreadable(&path, error))?;
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            let path = path.to_string_lossy().into_owned();
            files.insert(name, TemplateFile { path, text });
        }
    }
    Ok(())
}

/// The engine's error as a place in one of our files.
fn located(
    files: &BTreeMap<String, TemplateFile>,
    template: &str,
    error: EngineError,
) -> Diagnostic {
    let EngineError { template: named, message, span, name: referred } = error;
    // The first place where another template is named within quotes.
    let place = |referred: &str, file: &TemplateFile| {
        let quoted = ['"', '\''].map(|quote| format!("{quote}{referred}{quote}"));
        let places = quoted.iter().filter_map(|text| Some((file.text.find(text)?, text.len())));
        places.min().map(|(at, length)| at..at + length)
    };
    // The engine does not say which template refers to one that is missing.
    let referring = referred.as_deref().filter(|_| named.is_none()).and_then(|referred| {
        files
            .iter()
            .find(|(_, file)| place(referred, file).is_some())
            .map(|(name, _)| name.as_str())
    });
    let name = named.as_deref().or(referring).unwrap_or(template);
    let file = files.get(name);
    let missing = referred.as_deref().filter(|referred| !files.contains_key(*referred));
    let span =
        referred.as_deref().zip(file).and_then(|(word, file)| place(word, file)).unwrap_or(span);
    Diagnostic {
        file: file.map_or_else(|| name.to_owned(), |file| file.path.clone()),
        source: file.map(|file| file.text.clone()).unwrap_or_default(),
        span,
        message: missing
            .map_or_else(|| tidy(&message), |name| format!("there is no template `{name}`")),
        help: missing.and_then(|name| did_you_mean(name, files.keys().map(String::as_str))),
    }
}

fn failed_child(template: &str, error: ChildError) -> RenderError {
    let template = template.to_owned();
    match error {
        ChildError::TimedOut { seconds } => RenderError::TimedOut { template, seconds },
        ChildError::Cancelled => RenderError::Cancelled,
        ChildError::Exited { how } | ChildError::Unavailable { why: how } => {
            RenderError::Ended { template, how }
        }
    }
}

/// Where `name` first stands as a whole word inside `{{ }}` or `{% %}`.
fn word_in_tags(text: &str, name: &str) -> Option<usize> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).map(|(at, _)| at).find(|at| {
        let before = &text[..*at];
        let opened = before.rfind("{{").max(before.rfind("{%"));
        let closed = before.rfind("}}").max(before.rfind("%}"));
        opened > closed && !before.ends_with(part) && !text[at + name.len()..].starts_with(part)
    })
}

/// Structure tags leave gaps behind: no line ends in blanks, no gap is longer than one line, and
/// none follows an opening or precedes a closing brace.
fn tidy_blank_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut tidy: Vec<&str> = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        let after = tidy.last().copied().unwrap_or("{");
        let next = lines[at + 1..].iter().find(|next| !next.is_empty()).copied().unwrap_or("}");
        let gap = line.is_empty();
        if gap && (after.is_empty() || after.ends_with('{') || next.trim_start().starts_with('}')) {
            continue;
        }
        tidy.push(line);
    }
    tidy.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_left_by_tags_are_closed() {
        let ragged = "\n\nvoid f() {\n\n  a;  \n\n\n  b;\n\n}\n\n\n";
        assert_eq!(tidy_blank_lines(ragged), "void f() {\n  a;\n\n  b;\n}\n");
    }

    #[test]
    fn a_circular_include_is_blamed_on_the_template_that_begins_it() {
        let texts = [
            ("a.cu.tera", "no part of it"),
            ("own.cu.tera", "// own\n{% include \"parts/two.tera\" %}"),
            ("parts/two.tera", "\n\n{% include 'own.cu.tera' %}"),
            ("self.cu.tera", ""),
        ];
        let parse = |texts: [(&str, &str); 4]| {
            let file = |(name, text): (&str, &str)| {
                let file = TemplateFile { path: format!("t/{name}"), text: text.to_owned() };
                (name.to_owned(), file)
            };
            Templates::parse(texts.map(file).into()).unwrap_err().to_string()
        };
        let error = parse(texts);
        assert!(error.contains("circular include: "), "{error}");
        let place = ["t/own.cu.tera:2:12", "t/parts/two.tera:3:12"];
        assert!(place.iter().any(|place| error.contains(place)), "{error}");
        let mut own = texts;
        own[1].1 = "";
        own[3].1 = "{% include \"self.cu.tera\" %}";
        let error = parse(own);
        assert!(error.contains("t/self.cu.tera:1:12"), "{error}");
    }

    #[test]
    fn a_fault_that_the_engine_reports_as_text_has_its_own_place() {
        let error = |own: &str| {
            let texts = [("a.tera", "1"), ("own.cu.tera", own), ("parts/elements.tera", "2")];
            let file = |(name, text): (&str, &str)| {
                let file = TemplateFile { path: format!("t/{name}"), text: text.to_owned() };
                (name.to_owned(), file)
            };
            match Templates::parse(texts.map(file).into()) {
                Err(TemplateError::Located(error)) => error.summary(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            error("// µ\n/* µ */ {% include \"parts/element.tera\" %}"),
            "t/own.cu.tera:2:20: there is no template `parts/element.tera` (did you mean \
             `parts/elements.tera`?)"
        );
        assert_eq!(error("\n {{ 1 | oops }}"), "t/own.cu.tera:2:9: unknown filter `oops`");
    }

    #[test]
    fn a_name_is_found_in_tags_only() {
        let text = "int BM; {{ BMX }} {{ BM }}";
        assert_eq!(word_in_tags(text, "BM"), Some(21));
        assert_eq!(word_in_tags(text, "TM"), None);
    }

    #[test]
    fn a_fingerprint_is_of_what_a_template_includes() {
        let texts = [
            ("own.cu.tera", "{% if a %}{% include \"parts/one\" %}{% endif %}"),
            ("other.cu.tera", "{% include \"parts/three\" %}"),
            ("parts/one", "{%- include \"parts/two\" -%}"),
            ("parts/two", "2"),
            ("parts/three", "3"),
        ];
        let fingerprint = |changed: Option<&str>| {
            let file = |(name, text): (&str, &str)| {
                let text = if changed == Some(name) { format!("{text} ") } else { text.to_owned() };
                (name.to_owned(), TemplateFile { path: name.to_owned(), text })
            };
            Templates::parse(texts.map(file).into()).unwrap().fingerprint("own.cu.tera")
        };
        let before = fingerprint(None);
        for (name, is_part) in [
            ("own.cu.tera", true),
            ("parts/one", true),
            ("parts/two", true),
            ("parts/three", false),
            ("other.cu.tera", false),
        ] {
            assert_eq!(fingerprint(Some(name)) != before, is_part, "{name}");
        }
    }
}
