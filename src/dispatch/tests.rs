//! Covers and trees for tables with a known best answer.

use super::tree::fit_tree;
use super::*;
use crate::model::{Shape, Value};

/// Shapes in three dimensions, and kernels that are good where a rule says so.
fn table(kernels: &[fn(&Shape) -> Option<f64>]) -> TimeTable {
    let extents = [64, 128, 256, 512, 1024, 2048];
    let mut shapes = Vec::new();
    for m in extents {
        for n in extents {
            for k in [128, 1024] {
                shapes.push(Shape { m, n, k });
            }
        }
    }
    let times = |shape: &Shape| kernels.iter().map(|time| time(shape)).collect();
    let named = |number: usize| DispatchKernel {
        family: "f".to_owned(),
        parameters: [("N".to_owned(), Value::Int(number as i64))].into_iter().collect(),
    };
    TimeTable {
        schema: SCHEMA,
        device: "NVIDIA H200".to_owned(),
        dtype: "f32".to_owned(),
        b_dtype: None,
        out: None,
        compute: "f32".to_owned(),
        layout: "nn".to_owned(),
        epilogue: None,
        times_us: shapes.iter().map(times).collect(),
        kernels: (0..kernels.len()).map(named).collect(),
        shapes,
    }
}

fn wanted(max_kernels: usize, loss: f64) -> CoverGoal {
    CoverGoal { max_kernels, loss }
}

/// One kernel for few rows, one for many, one nearly as good as both, one for deep K alone.
fn four() -> TimeTable {
    table(&[
        |shape| Some(if shape.m < 300 { 10.0 } else { 20.0 }),
        |shape| (shape.m >= 128).then_some(if shape.m < 300 { 20.0 } else { 10.0 }),
        |_| Some(10.8),
        |shape| (shape.k > 500).then_some(9.99),
    ])
}

#[test]
fn the_smallest_set_within_the_loss_is_found() {
    for (most, loss, kernels) in
        [(4, 0.1, vec![2]), (4, 0.05, vec![0, 1]), (4, 0.0006, vec![0, 1]), (4, 0.0, vec![0, 1, 3])]
    {
        assert_eq!(cover(&four(), wanted(most, loss)).unwrap().kernels, kernels, "{loss}");
    }
    let error = cover(&four(), wanted(1, 0.01)).unwrap_err().to_string();
    assert!(error.contains("the best 1 of 4 kernels are 8."), "{error}");
    let halves =
        table(&[|shape| (shape.m < 300).then_some(1.0), |shape| (shape.m > 300).then_some(1.0)]);
    let error = cover(&halves, wanted(1, 0.5)).unwrap_err();
    assert_eq!(error, CoverError::Unserved { kernels: 1 });
    assert_eq!(cover(&halves, wanted(2, 0.0)).unwrap().kernels, [0, 1]);
}

#[test]
fn a_tree_finds_the_rule_and_reports_its_loss() {
    let found = Dispatch::of(&four(), wanted(4, 0.001)).unwrap();
    let DispatchNode::Split { extent, below, then, otherwise } = &found.tree else {
        panic!("{:?}", found.tree)
    };
    assert_eq!((*extent, *below), (Dimension::M, 363), "halfway between 256 and 512");
    assert_eq!(**then, DispatchNode::Leaf { kernels: vec![0, 1] });
    assert_eq!(**otherwise, DispatchNode::Leaf { kernels: vec![1, 0] });
    assert_eq!(found.loss.held_out_percent, found.loss.tree_percent);
    assert_eq!(found.loss.shapes, 72);
    assert!(found.loss.set_percent <= 0.1 && found.loss.tree_percent <= 0.1, "{:?}", found.loss);
    let text = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Dispatch>(&text).unwrap(), found);
}

#[test]
fn noise_makes_no_branches() {
    let noisy = table(&[
        |shape| Some(10.0 + (shape.m * 7 + shape.n * 13 + shape.k) as f64 % 11.0 / 1e4),
        |shape| Some(10.0 + (shape.m * 5 + shape.n * 3 + shape.k) as f64 % 11.0 / 1e4),
    ]);
    assert_eq!(fit_tree(&noisy, &(0..72).collect::<Vec<_>>(), &[0, 1]).leaves(), 1);
}

#[test]
fn large_tables_are_searched_by_exchange() {
    // Kernel i is best for every shape whose number is i modulo 40, and useless elsewhere.
    let mut table = four();
    table.kernels = (0..40).map(|_| table.kernels[0].clone()).collect();
    table.times_us = (0..72)
        .map(|shape| {
            (0..40).map(|kernel| Some(if shape % 40 == kernel { 1.0 } else { 1.5 })).collect()
        })
        .collect();
    let found = cover(&table, wanted(40, 0.3)).unwrap();
    // 32 kernels are best for two shapes each: 13 of these leave 46 of 72 shapes 1.5 times as slow.
    assert_eq!(found.kernels.len(), 13, "{found:?}");
}

#[test]
fn a_table_that_is_none_is_refused() {
    let whole = serde_json::to_value(four()).unwrap();
    let edited = |name: &str, value: serde_json::Value| {
        let mut document = whole.clone();
        document[name] = value;
        TimeTable::parse(&document.to_string())
            .map_or_else(|error| error.to_string(), |_| String::new())
    };
    assert_eq!(edited("schema", 1.into()), "");
    for (name, value, words) in [
        ("schema", 2.into(), "written by a newer gemm-tune"),
        ("schema", 0.into(), "no schema from 1"),
        ("shapes", serde_json::json!([]), "no shape"),
        ("times_us", serde_json::json!([[1.0]]), "not 72 rows of 4"),
        ("extra", 1.into(), "unknown field `extra`"),
    ] {
        let said = edited(name, value);
        assert!(said.contains(words), "{name}: {said}");
    }
    let mut dark = four();
    dark.times_us[3] = vec![None; 4];
    let text = serde_json::to_string(&dark).unwrap();
    assert!(
        TimeTable::parse(&text)
            .unwrap_err()
            .to_string()
            .contains("no kernel has a time for 64x128x1024")
    );
    assert!(TimeTable::parse("{").unwrap_err().to_string().contains("not a table of times"));
}
