use super::*;
use crate::model::{Configuration, Outcome, Regime};
use crate::tune::{Entry, KernelId, Recorded};

/// Two configurations that do not compile, with markup in the family name.
fn journal() -> Recorded {
    let entry = |number: i64| Entry {
        kernel: KernelId::of_source(&number.to_string()),
        family: "<i>".to_owned(),
        parameters: [("X".to_owned(), crate::model::Value::Int(number))]
            .into_iter()
            .collect::<Configuration>(),
        after_s: None,
        outcome: Outcome::Compile { log: format!("error: <b> {number}") },
    };
    Recorded {
        problem: Problem::new("8x8x8".parse().unwrap(), crate::model::Dtype::F32),
        device: "NVIDIA H200".to_owned(),
        regime: Regime::default(),
        entries: vec![entry(1), entry(2)],
    }
}

#[test]
fn a_search_without_a_correct_configuration_is_a_page() {
    let journal = journal();
    let page = page("t", &[ProblemReport { journal: Some(&journal), ..ProblemReport::default() }]);
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{page}");
    assert!(page.contains("2 configurations, none is correct"), "{page}");
    assert!(page.contains("2 × error: &lt;b&gt; 1"), "{page}");
    assert!(!page.contains("<i>") && !page.contains("<b> "), "{page}");
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
}

#[test]
fn a_page_of_nothing_is_a_page() {
    let page = page("t", &[]);
    assert!(page.ends_with("</html>\n"), "{page}");
}

#[test]
fn bars_are_logarithmic_around_one() {
    for (ratio, x, width) in
        [(1.0, 60.0, 0.0), (2.0, 60.0, 30.0), (0.5, 30.0, 30.0), (9.0, 60.0, 60.0)]
    {
        let bar = ratio_bar(ratio);
        assert_eq!((bar["x"].as_f64(), bar["width"].as_f64()), (Some(x), Some(width)), "{ratio}");
    }
}
