//! Formulas against the template engine.

use proptest::prelude::*;

use super::*;
use crate::model::{Device, Dtype, Layout, Problem, Shape, Storage};
use crate::render::{Templates, render, render_stored};
use crate::space::{Extents, Families, LegalSpace, Legality};

#[test]
fn expressions_are_read_with_the_precedence_of_the_engine() {
    for (text, python) in [
        ("M + N * K", "M + (N * K)"),
        ("M | at_most(most=8) + 1", "min(M, 8) + 1"),
        ("2 * M | ceil_div(by=N + 1)", "2 * ceil_div(M, N + 1)"),
        ("not M == 1 and N in [1, 2]", "(not (M == 1)) and ((N == 1) or (N == 2))"),
        ("M if K > 1 else N if K > 0 else 3", "M if (K > 1) else (N if (K > 0) else 3)"),
        ("'a' == 'a' and M not in [3]", "not (M == 3)"),
        ("(M // 4) % 2 == 0 or false", "((M // 4) % 2) == 0"),
        ("-M + 7 // 2", "(-M) + 3"),
        ("max(M, min(N, 3))", "max(M, min(N, 3))"),
    ] {
        let formula = Formula::read(text).unwrap().with(&|_| None);
        assert_eq!(formula.text(Language::Python), python, "{text}");
        let again = Formula::read(&formula.text(Language::Python)).unwrap().with(&|_| None);
        assert_eq!(again, formula, "{text}");
    }
    for text in ["M / 2", "1.5", "M |", "(M", "M is odd", "f(M)", "M | round", "'a", "M N"] {
        assert_eq!(Formula::read(text), None, "{text}");
    }
}

#[test]
fn formulas_are_written_for_three_languages() {
    let formula = Formula::read("M | ceil_div(by=4) if K % 2 == 0 and not N < 3 else 5000000000");
    let formula = formula.unwrap();
    for (language, text) in [
        (Language::Python, "ceil_div(M, 4) if (((K % 2) == 0) and (not (N < 3))) else 5000000000"),
        (Language::C, "(((K % 2) == 0) && (!(N < 3))) ? ceil_div(M, 4) : 5000000000LL"),
        (Language::Rust, "if ((k % 2) == 0) && (!(n < 3)) { ceil_div(m, 4) } else { 5000000000 }"),
    ] {
        assert_eq!(formula.text(language), text);
    }
    assert_eq!(formula.value(&[9, 3, 2, 1, 1, 1, 1]), Some(3));
    assert_eq!(formula.value(&[9, 2, 2, 1, 1, 1, 1]), Some(5_000_000_000));
    assert_eq!(formula.reads(), [true, true, true, false, false, false, false]);
    assert_eq!(Formula::read("M // (N - 1)").unwrap().value(&[1; 7]), None);
}

/// Of an expression that cannot be read, an exported kernel knows no more than its own shape.
#[test]
fn the_expressions_of_the_families_can_be_read() {
    let families = Families::built_in().unwrap();
    for family in families.iter() {
        for text in family.expressions.texts() {
            assert!(Formula::read(text).is_some(), "{}: {text}", family.name);
        }
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let extent = || prop_oneof![1..70_u64, Just(256), Just(1024), Just(4096), 200..5000_u64];
    (extent(), extent(), extent()).prop_map(|(m, n, k)| Shape { m, n, k })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Where a kernel that was made for one problem says that it serves another, however that is
    /// stored, the source for that is the same and so are the launches; and it serves its own.
    #[test]
    fn what_is_served_has_the_same_code_and_launches(
        (own, other) in (shapes(), shapes()),
        layout in prop::sample::select(vec![Layout::Nn, Layout::Nt, Layout::Tn, Layout::Tt]),
        pick in any::<prop::sample::Index>(),
        near in any::<bool>(),
        pads in prop_oneof![Just([0; 3]), prop::array::uniform3(0..9_u64)],
        alignment in prop::sample::select(vec![256, 256, 16, 8, 4]),
    ) {
        let device = Device::h200();
        let templates = Templates::built_in().unwrap();
        let own = Problem { layout, ..Problem::new(own, Dtype::F32) };
        let shape = if near { Shape { k: other.k, ..own.shape } } else { other };
        let other = Problem { shape, ..own };
        let Storage { lda, ldb, ldc, .. } = Storage::packed(&other);
        let [lda, ldb, ldc] = [lda + pads[0], ldb + pads[1], ldc + pads[2]];
        let storage = Storage { lda, ldb, ldc, alignment };
        let (packed, open) =
            (open_values(&own, &Storage::packed(&own)), open_values(&other, &storage));
        for family in Families::built_in().unwrap().iter() {
            let space = LegalSpace::of(family, &own, &device).unwrap();
            if family.refusal(&own, &device).is_some() || space.is_empty() {
                continue;
            }
            let configuration = space.get(pick.index(space.len()) as _).unwrap();
            let names = templates.names_used(family).unwrap();
            let solver = Solver::new(family, &configuration, &own, &device);
            let bound = solver.bound(&own, &packed, &names).expect("built-in families are formulas");
            prop_assert!(bound.serves(&packed), "{} {configuration} {own}: {bound:?}", family.name);
            let first = render(family, &templates, &configuration, &own, &device).unwrap();
            if !bound.serves(&open) {
                continue;
            }
            let legality = Legality::of(family, &configuration, &other, &device).unwrap();
            prop_assert!(legality.permits(family, &mut Extents::new(&other, &storage)));
            let second = render_stored(family, &templates, &configuration, &other, &storage, &device).unwrap();
            prop_assert_eq!(&first.source, &second.source);
            prop_assert_eq!(bound.launches.len(), second.plan.kernels.len());
            for (launch, kernel) in bound.launches.iter().zip(&second.plan.kernels) {
                prop_assert_eq!(&launch.entry, &kernel.entry);
                let three = |sizes: &[Formula; 3]| sizes.each_ref().map(|size| size.value(&open).unwrap() as u32);
                prop_assert_eq!(three(&launch.grid), kernel.grid);
                prop_assert_eq!(three(&launch.block), kernel.block);
                prop_assert_eq!(launch.dynamic_shared_bytes.value(&open), Some(i64::from(kernel.dynamic_shared_bytes)));
            }
            let bytes: Vec<_> = bound.workspaces.iter().map(|(name, bytes)| (name.clone(), bytes.value(&open).unwrap() as u64)).collect();
            let planned: Vec<_> = second.plan.workspaces.iter().map(|space| (space.name.clone(), space.bytes)).collect();
            prop_assert_eq!(bytes, planned);
        }
    }
}
