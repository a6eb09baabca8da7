//! Differences between two kernels: parameters and source. `report` shows their figures side by
//! side.

use similar::{ChangeTag, TextDiff};

use super::inspected::InspectedKernel;

/// Context lines around a change.
const CONTEXT: usize = 3;

/// Differences between two kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelDifference {
    /// Each parameter with its value in the first and in the second kernel. A value is `None` where
    /// the family lacks the parameter.
    pub parameters: Vec<(String, Option<String>, Option<String>)>,
    /// The source as groups of lines around neighbouring changes.
    pub source: Vec<Vec<SourceChange>>,
}

/// A source line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceChange {
    /// `-` for a line of the first alone, `+` for one of the second alone, a blank for a common
    /// line.
    pub sign: char,
    /// Its line number, from 1, in the first and in the second source, each with its description above.
    pub lines: (Option<usize>, Option<usize>),
    /// Its text.
    pub text: String,
}

/// Compares two kernels.
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
    let mut source = source(&first.rendered.source, &second.rendered.source);
    // The descriptions above the sources are not compared, but counted.
    let [before_first, before_second] = [first, second].map(InspectedKernel::header_lines);
    for SourceChange { lines: (one, other), .. } in source.iter_mut().flatten() {
        *one = one.map(|line| line + before_first);
        *other = other.map(|line| line + before_second);
    }
    KernelDifference { parameters, source }
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
    fn changes_are_shown_with_their_context() {
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
