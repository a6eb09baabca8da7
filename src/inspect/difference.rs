//! How two kernels differ: in their parameters and in their source. ResourceFigures are put side by side by
//! who shows them.

use similar::{ChangeTag, TextDiff};

use super::inspected::InspectedKernel;

/// Lines of the source around a change that are shown with it.
const CONTEXT: usize = 3;

/// How one kernel differs from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelDifference {
    /// Name of a parameter, its value in the first and in the second, for all that either has. Values
    /// are `None` where a family has no such parameter.
    pub parameters: Vec<(String, Option<String>, Option<String>)>,
    /// The source as groups of lines, each around changes that are near each other.
    pub source: Vec<Vec<SourceChange>>,
}

/// A line of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceChange {
    /// `-` where the first has it alone, `+` where the second has, a blank where both have.
    pub sign: char,
    /// Its number in the first, from 1 on, and in the second.
    pub lines: (Option<usize>, Option<usize>),
    /// Its text.
    pub text: String,
}

/// Compares two subjects.
pub fn difference(first: &InspectedKernel, second: &InspectedKernel) -> KernelDifference {
    let names = first.configuration.0.keys();
    let others = second.configuration.0.keys();
    let others = others.filter(|name| first.configuration.get(name).is_none());
    let value = |subject: &InspectedKernel, name: &str| {
        subject.configuration.get(name).map(|value| value.to_string())
    };
    let parameters = names
        .chain(others)
        .map(|name| (name.clone(), value(first, name), value(second, name)))
        .collect();
    KernelDifference { parameters, source: source(&first.rendered.source, &second.rendered.source) }
}

fn source(first: &str, second: &str) -> Vec<Vec<SourceChange>> {
    let diff = TextDiff::from_lines(first, second);
    let change = |change: similar::Change<&str>| SourceChange {
        sign: match change.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => ' ',
        },
        lines: (change.old_index().map(|at| at + 1), change.new_index().map(|at| at + 1)),
        text: change.value().trim_end().to_owned(),
    };
    let groups = diff.grouped_ops(CONTEXT);
    let lines = groups.iter().map(|group| {
        group.iter().flat_map(|operation| diff.iter_changes(operation)).map(change).collect()
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_stand_with_what_is_around_them() {
        let first: String = (1..=20).map(|line| format!("line {line}\n")).collect();
        let second = first.replace("line 10\n", "line ten\n").replace("line 20\n", "");
        let groups = source(&first, &second);
        let texts: Vec<Vec<String>> = groups
            .iter()
            .map(|group| group.iter().map(|line| format!("{}{}", line.sign, line.text)).collect())
            .collect();
        let expected = [
            &[" line 7", " line 8", " line 9", "-line 10", "+line ten", " line 11", " line 12"][..],
            &[" line 17", " line 18", " line 19", "-line 20"],
        ];
        assert_eq!(texts[0][..7], *expected[0]);
        assert_eq!(texts[1], *expected[1]);
        assert_eq!(groups[0][3].lines, (Some(10), None));
        assert_eq!(groups[0][4].lines, (None, Some(10)));
        assert_eq!(source(&first, &first), Vec::<Vec<SourceChange>>::new());
    }
}
