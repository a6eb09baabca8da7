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
        skipped: Vec::new(),
    }
}

#[test]
fn a_search_without_a_correct_configuration_is_a_page() {
    let journal = journal();
    let page =
        page("t", &[ProblemReport { journal: Some(&journal), ..ProblemReport::default() }], None);
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{page}");
    assert!(page.contains("2 configurations, none is correct"), "{page}");
    assert!(page.contains("2 × error: &lt;b&gt; 1"), "{page}");
    assert!(!page.contains("<i>") && !page.contains("<b> "), "{page}");
    let (document, _) = page.split_once("<script>").unwrap();
    assert!(!document.contains("NaN") && !document.contains("inf"), "{document}");
}

#[test]
fn a_page_of_nothing_is_a_page() {
    let page = page("t", &[], None);
    assert!(page.ends_with("</html>\n"), "{page}");
}

#[test]
fn each_roof_of_several_is_named_and_no_peak_is_that_of_all() {
    let path = std::path::Path::new("tests/databases/one.toml");
    let first = crate::database::Database::load_existing(path).unwrap().records()[0].clone();
    let mut others = [first.clone(), first.clone(), first.clone()];
    others[0].problem.m *= 2;
    others[1].problem.pattern.dtype = "f16".to_owned();
    others[1].problem.pattern.compute = "f16".to_owned();
    others[2].measurement.cache_policy = "hot".to_owned();
    let all = [&first, &others[0], &others[1], &others[2]];
    let pages = [&all[..2], &all].map(|records| {
        let case = |record| ProblemReport { record: Some(record), ..ProblemReport::default() };
        let cases: Vec<ProblemReport<'_>> = records.iter().map(|record| case(*record)).collect();
        page("t", &cases, None)
    });
    for (page, count, words) in [
        (&pages[0], 2, &["peak, 66.91", ">f32<", "limits: 4.8 TB/s, 66.91 TFLOP/s"][..]),
        (
            &pages[1],
            4,
            &[
                "f32, limits 4.8 TB/s, 66.91 TFLOP/s",
                "f16, limits 4.8 TB/s, 1071 TFLOP/s",
                "f32, operands in the cache, limits",
            ],
        ),
    ] {
        assert_eq!(page.matches("<circle").count(), count);
        words.iter().for_each(|word| assert!(page.contains(word), "{word}"));
    }
    assert!(!pages[1].contains(">peak, "), "{}", pages[1]);
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

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(32))]

    /// A page of hostile names has the tags and attributes of the same page with plain ones.
    #[test]
    fn hostile_names_add_no_tag(name in crate::quote::tests::hostile()) {
        let of = |name: &str| {
            let mut journal = journal();
            journal.device = name.to_owned();
            for entry in &mut journal.entries {
                entry.family = name.to_owned();
                entry.outcome = Outcome::Compile { log: format!("error: {name}") };
            }
            let path = std::path::Path::new("tests/databases/one.toml");
            let database = crate::database::Database::load_existing(path).unwrap();
            let mut record = database.records()[0].clone();
            record.device.name = name.to_owned();
            record.family = name.to_owned();
            record.validation.reference = name.to_owned();
            record.provenance.nvrtc = name.to_owned();
            let case = ProblemReport {
                journal: Some(&journal),
                record: Some(&record),
                source: Some(name.to_owned()),
                ..ProblemReport::default()
            };
            page(name, &[case], None)
        };
        // The plain name leaves as much room for reasons and titles.
        let plain = of(&"x".repeat(name.chars().count().max(1)));
        let tags = |page: &str| page.matches('<').count();
        let (found, expected) = (of(if name.is_empty() { "x" } else { &name }), tags(&plain));
        proptest::prop_assert_eq!(tags(&found), expected, "{:?}", name);
    }
}
