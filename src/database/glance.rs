//! What the text of a record tells without parsing all of it: problem and device, from the lines that
//! this program writes at known places.

use serde::Deserialize;

use super::sections::{StoredPattern, StoredProblem};

/// The header of a record.
pub(super) const HEADER: &str = "[[record]]";

/// Distance of problems whose layouts differ, and of those whose types do: further than any extents.
const OTHER_LAYOUT: f64 = 1e3;
const OTHER_TYPE: f64 = 1e6;

/// Problem and device of a record; `None` where they are laid out otherwise.
pub(super) struct Glance<'t> {
    pub(super) problem: Option<StoredProblem>,
    /// The lines with name and compute capability.
    pub(super) device: Option<&'t str>,
}

#[derive(Deserialize)]
struct ProblemLine {
    problem: StoredProblem,
}

impl<'t> Glance<'t> {
    /// Reads the text of a record, with or without comments above its header.
    pub(super) fn of(text: &'t str) -> Self {
        let line = text.lines().skip_while(|line| line.trim_end() != HEADER).nth(1);
        let line = line.filter(|line| line.starts_with("problem = {"));
        Self { problem: line.and_then(problem), device: device(text) }
    }
}

fn problem(line: &str) -> Option<StoredProblem> {
    as_written(line)
        .or_else(|| toml::from_str(line).ok().map(|ProblemLine { problem }: ProblemLine| problem))
}

/// Reads a line that is exactly as this program writes it for operands of one dtype and no epilogue, fifteen times as fast as the TOML parser.
fn as_written(line: &str) -> Option<StoredProblem> {
    let fields = line.strip_prefix("problem = { ")?.trim_end().strip_suffix(" }")?;
    let mut fields = fields.split(", ");
    let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix(" = ");
    let mut extent = |name: &str| field(name)?.parse().ok();
    let (m, n, k, batch) = (extent("m")?, extent("n")?, extent("k")?, extent("batch")?);
    let mut word = |name: &str| {
        let word = field(name)?.strip_prefix('"')?.strip_suffix('"')?;
        (!word.contains(['"', '\\'])).then(|| word.to_owned())
    };
    let (dtype, compute, layout) = (word("dtype")?, word("compute")?, word("layout")?);
    let pattern =
        StoredPattern { dtype, b_dtype: None, out: None, compute, layout, epilogue: None };
    fields.next().is_none().then_some(StoredProblem { m, n, k, batch, pattern })
}

fn device(text: &str) -> Option<&str> {
    let (_, section) = text.split_once("\n[record.device]\n")?;
    let (name, rest) = section.split_once('\n')?;
    let (capability, _) = rest.split_once('\n')?;
    let known = name.starts_with("name = ") && capability.starts_with("compute_capability = ");
    known.then(|| &section[..name.len() + 1 + capability.len()])
}

/// Distance of problems: the factors between their extents, on a logarithmic scale.
pub(super) fn distance(a: &StoredProblem, b: &StoredProblem) -> f64 {
    let factor = |a: u64, b: u64| (a.max(1) as f64 / b.max(1) as f64).ln().abs();
    let extents = [(a.m, b.m), (a.n, b.n), (a.k, b.k), (a.batch, b.batch)];
    let mut distance: f64 = extents.iter().map(|(a, b)| factor(*a, *b)).sum();
    if a.pattern.layout != b.pattern.layout {
        distance += OTHER_LAYOUT;
    }
    if !a.pattern.has_types_of(&b.pattern) {
        distance += OTHER_TYPE;
    }
    distance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_form_and_the_parser_give_the_same_problem() {
        let written = r#"problem = { m = 4096, n = 1, k = 33, batch = 2, dtype = "bf16", compute = "f32", layout = "nt" }"#;
        let parsed: ProblemLine = toml::from_str(written).unwrap();
        assert_eq!(as_written(written), Some(parsed.problem));
        for (from, to) in
            [("4096", "4_096"), ("m = 4096", "m=4096"), ("\"nt\" }", "\"nt\", x = 1 }")]
        {
            let other = written.replacen(from, to, 1);
            assert_eq!(as_written(&other), None, "{other}");
            assert_eq!(problem(&other), as_written(written), "{other}");
        }
        assert!(problem("problem = { m = 4096 }").is_none());
    }
}
