//! Formulas against the template engine, whose expressions they are.

use proptest::prelude::*;
use tera::{Context, Kwargs, State};

use super::*;
use crate::model::{Device, Dtype, Layout, Problem, Shape, Storage};
use crate::render::{Templates, render, render_stored, template_language};
use crate::space::{Extents, Families, LegalSpace, Legality};

/// The names that the tests' expressions have, with a value of each kind.
const NAMES: [&str; 6] = ["M", "N", "ZERO", "FAST", "LOADER", "RATIO"];

fn terms(m: i64) -> [Term<'static>; 6] {
    [
        Term::Int(m.into()),
        Term::Int(96),
        Term::Int(0),
        Term::Bool(true),
        Term::Text("tma"),
        Term::Float(0.75),
    ]
}

fn read_open(text: &str) -> Option<Formula> {
    let slot = |name: &str| OPEN.iter().position(|open| *open == name).map(|at| at as Slot);
    read(text, &slot).ok().map(|(formula, _)| formula)
}

fn read_test(text: &str) -> Result<(Formula, Vec<std::ops::Range<usize>>), ReadError> {
    read(text, &|name| NAMES.iter().position(|known| *known == name).map(|at| at as Slot))
}

#[test]
fn lists_in_one_another_take_no_time() {
    let text = format!("M{}", " in [1, 2, 3]".repeat(60));
    assert!(Formula::try_from(text).is_err(), "it has a list for each of 3^60 comparisons");
    let formula = Formula::try_from("M % 8 in [1, 2, 3]".to_owned()).unwrap();
    assert!(formula.holds(&[17, 1, 1, 1, 1, 1, 1]) && !formula.holds(&[16, 1, 1, 1, 1, 1, 1]));
}

#[test]
fn expressions_are_read_with_the_precedence_of_the_engine() {
    for (text, python) in [
        ("M + N * K", "M + (N * K)"),
        ("M | at_most(most=8) + 1", "min(M, 8) + 1"),
        ("2 * M | ceil_div(by=N + 1)", "2 * ceil_div(M, N + 1)"),
        ("not M == 1 and N in [1, 2]", "(M != 1) and ((N == 1) or (N == 2))"),
        ("M if K > 1 else N if K > 0 else 3", "M if (K > 1) else (N if (K > 0) else 3)"),
        ("'a' == 'a' and M not in [3]", "M != 3"),
        ("(M // 4) % 2 == 0 or false", "((M // 4) % 2) == 0"),
        ("-M + 7 // 2", "(-M) + 3"),
        ("max(M, min(N, 3))", "max(M, min(N, 3))"),
        ("M * 1 + 0 if 'x' in ['x', 'y',] else 'none'", "M"),
    ] {
        let formula = read_open(text).unwrap().with(&|_| None);
        assert_eq!(formula.text(Language::Python), python, "{text}");
        let again = read_open(&formula.text(Language::Python)).unwrap().with(&|_| None);
        assert_eq!(again, formula, "{text}");
    }
    for text in ["M / 2", "1.5", "'a'", "M and N", "M in N"] {
        let formula = read_open(text).unwrap().with(&|_| None);
        assert!(!formula.is_closed(), "{text}");
    }
}

#[test]
fn a_choice_between_literals_is_compared_by_its_conditions() {
    let width = "(4 if M % 4 == 0 else 2 if M % 2 == 0 else 1)";
    for (comparison, python) in [
        ("== 4", "(M % 4) == 0"),
        ("== 2", "((M % 4) != 0) and ((M % 2) == 0)"),
        ("== 1", "((M % 4) != 0) and ((M % 2) != 0)"),
        (">= 2", "((M % 4) == 0) or ((M % 2) == 0)"),
        ("> 4", "False"),
    ] {
        let formula = read_open(&format!("{width} {comparison}")).unwrap();
        let folded = formula.with(&|_| None);
        assert_eq!(folded.text(Language::Python), python, "{comparison}");
        for m in 0..8 {
            let open = [m, 1, 1, 1, 1, 1, 1];
            assert_eq!(folded.value(&open), formula.value(&open), "{comparison} for {m}");
        }
    }
}

#[test]
fn a_mistake_has_a_message_and_a_place() {
    for (text, message, start) in [
        ("M |", "found the end where a filter's name is expected", 3),
        ("(M", "found the end where `)` is expected", 2),
        ("M) + (1", "found `)` where an operation or the end is expected", 1),
        ("M +", "found the end where a value is expected", 3),
        ("M is odd", "found `is` where an operation or the end is expected", 2),
        ("f(M)", "unknown name `f`", 0),
        ("M + WMM", "unknown name `WMM`", 4),
        ("M | round", "unknown filter `round`", 4),
        ("M | ceil_div(with=3)", "found `with` where `by=` is expected", 13),
        ("'a", "this string has no closing '", 0),
        ("M N", "found `N` where an operation", 2),
        ("M ** 2", "found `**` where an operation", 2),
        ("M }} {% for i in x %}", "`}` has no place in an expression", 2),
        ("[1, 2]", "a list stands to the right of `in` only", 0),
        ("99999999999999999999", "does not fit 64 bits", 0),
        ("M not", "found `not` where an operation", 2),
        ("", "found the end where a value is expected", 0),
        ("1 if M", "found the end where `else` is expected", 6),
    ] {
        let error = read_test(text).map(|(formula, _)| formula).unwrap_err();
        assert!(error.message.contains(message), "{text}: {error:?}");
        assert_eq!(error.span.start, start, "{text}: {error:?}");
        assert!(error.span.end <= text.len(), "{text}: {error:?}");
    }
}

#[test]
fn a_value_that_cannot_be_computed_is_blamed_on_an_operand() {
    for (text, message, blamed) in [
        ("N + M // ZERO", "cannot divide by 0", "ZERO"),
        ("M % (N - 96)", "cannot divide by 0", "N - 96"),
        ("1 + (LOADER + 1)", "arithmetic needs numbers, this is a string", "LOADER"),
        ("M < LOADER or FAST", "cannot compare a integer with a string", "M < LOADER"),
        ("3 in N", "`in` needs a list or a string, not a integer", "N"),
        ("M in [1, 2 // ZERO]", "cannot divide by 0", "ZERO"),
        ("M if FAST // 2 else N", "arithmetic needs numbers, this is a boolean", "FAST"),
        ("3 if not FAST else -LOADER", "arithmetic needs numbers", "LOADER"),
        ("(0 - M) | ceil_div(by=2)", "`ceil_div` divides", "0 - M) | ceil_div(by=2"),
        ("RATIO | at_most(most=3)", "this needs an integer of 64 bits, not a float", "RATIO"),
    ] {
        let (formula, places) = read_test(text).unwrap();
        let fault = formula.evaluate(&terms(7)).unwrap_err();
        let said = fault.kind.message(|slot| NAMES[usize::from(slot)].to_owned());
        assert!(said.contains(message), "{text}: {said}");
        assert_eq!(&text[places[fault.node as usize].clone()], blamed, "{text}");
    }
    let (formula, _) = read_test("M + N").unwrap();
    let fault = formula.evaluate(&[Term::Unknown]).unwrap_err();
    assert_eq!(fault, EvaluationFault { kind: FaultKind::Undefined(0), node: 1 });
}

/// What the template engine makes of an expression: its value as text after a letter for its kind.
fn by_the_engine(text: &str, m: i64) -> Result<String, String> {
    let mut engine = template_language();
    engine.register_filter("typed", |value: &tera::Value, _: Kwargs, _: &State<'_>| {
        let kind = match value.name() {
            name if name.contains("bool") => 'b',
            name if name.contains("string") => 's',
            _ if value.as_number().is_some_and(|number| number.is_float()) => 'f',
            _ => 'i',
        };
        format!("{kind}{value}")
    });
    let mut context = Context::new();
    context.insert("M", &m);
    context.insert("N", &96);
    context.insert("ZERO", &0);
    context.insert("FAST", &true);
    context.insert("LOADER", "tma");
    context.insert("RATIO", &0.75);
    let template = format!("{{{{ ({text}) | typed }}}}");
    let added = engine.add_raw_template("expression", &template);
    added.and_then(|()| engine.render("expression", &context)).map_err(|error| error.to_string())
}

#[test]
fn whole_real_numbers_are_taken_as_the_engine_takes_them() {
    for (text, value) in [
        ("(RATIO * 4) | at_least(least=1)", Some("i3")),
        ("RATIO | at_least(least=1)", None),
        // -2^63 is an integer of 64 bits, the next real number below it and 2^63 are none.
        ("(-9000000000000000000 + RATIO) | at_most(most=0)", Some("i-9000000000000000000")),
        (
            "(-4611686018427387904 * (RATIO + 1.25)) | at_most(most=0)",
            Some("i-9223372036854775808"),
        ),
        ("(-4611686018427388928 * (RATIO + 1.25)) | at_most(most=0)", None),
        ("(4611686018427387904 * (RATIO + 1.25)) | at_least(least=0)", None),
    ] {
        assert_eq!(by_the_formula(text, 7).ok().as_deref(), value, "{text}");
        assert_eq!(by_the_engine(text, 7).ok().as_deref(), value, "{text}");
    }
}

fn by_the_formula(text: &str, m: i64) -> Result<String, String> {
    let (formula, _) = read_test(text).map_err(|error| error.message)?;
    let value = formula.evaluate(&terms(m)).map_err(|fault| format!("{fault:?}"))?;
    let folded = formula.with(&|slot| Formula::literal(terms(m)[usize::from(slot)]));
    // Intermediate results beyond 64 bits are no literals.
    assert_eq!(folded.evaluate(&[]), Ok(value), "{text}");
    Ok(match value {
        Term::Unknown => unreachable!("evaluation gives values"),
        Term::Bool(value) => format!("b{value}"),
        Term::Int(value) => format!("i{value}"),
        Term::Float(value) => format!("f{}", tera::Value::from(value)),
        Term::Text(text) => format!("s{text}"),
    })
}

/// Expressions of the grammar, most of them with operands of the kinds that operations take.
fn expressions() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        Just("M".to_owned()),
        Just("N".to_owned()),
        Just("ZERO".to_owned()),
        (0..200_i64).prop_map(|value| value.to_string()),
        Just("4611686018427387904".to_owned()),
    ];
    let other =
        prop::sample::select(vec!["FAST", "false", "LOADER", "'tma'", "\"t\"", "RATIO", "2.5"]);
    let leaf = prop_oneof![6 => number, 1 => other.prop_map(str::to_owned)];
    leaf.prop_recursive(5, 40, 3, |inner| {
        let binary = prop::sample::select(vec![
            "+", "-", "*", "//", "%", "/", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "+",
            "*", "//", "%", "<", "and", "or",
        ]);
        let filter = prop::sample::select(vec!["ceil_div(by=", "at_least(least=", "at_most(most="]);
        prop_oneof![
            6 => (inner.clone(), binary.clone(), inner.clone()).prop_map(|(a, o, b)| format!("({a} {o} {b})")),
            3 => (inner.clone(), binary, inner.clone()).prop_map(|(a, o, b)| format!("{a} {o} {b}")),
            2 => (inner.clone(), filter, inner.clone()).prop_map(|(a, f, b)| format!("({a}) | {f}{b})")),
            1 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, c, b)| format!("({a} if {c} else {b})")),
            1 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("{a} not in [{b}, {c}]")),
            1 => inner.clone().prop_map(|a| format!("(not {a})")),
            1 => inner.prop_map(|a| format!("-({a})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::cases::cases(1000, 4000) as u32))]

    /// The value is the engine's, and where one has none the other has none.
    #[test]
    fn formulas_and_the_engine_agree(text in expressions(), m in prop_oneof![-9..9_i64, any::<i64>()]) {
        let (own, engine) = (by_the_formula(&text, m), by_the_engine(&text, m));
        // A list is no operand of arithmetic: formulas refuse it unread, the engine when it gets there.
        prop_assume!(!own.as_ref().is_err_and(|error| error.contains("the end of an operand")));
        // Formulas have `not -x`, lists in lists in lists, and longer expressions than the engine.
        let limits = ["used consecutively", "maximum of 2 dimensions", "too complex"];
        let is_limit = |error: &String| limits.iter().any(|limit| error.contains(limit));
        prop_assume!(!engine.as_ref().is_err_and(is_limit));
        prop_assert_eq!(own.as_ref().ok(), engine.as_ref().ok(), "{}: {:?} {:?}", text, own, engine);
    }

    /// Any text is read or refused with a place inside it.
    #[test]
    fn any_text_is_read_or_refused(text in prop_oneof![
        any::<String>(),
        prop::collection::vec(prop::sample::select(vec![
            "M", "(", ")", "[", "]", "not ", "-", "if", " else ", "in", "|", "at_most(most=", "1", "'", "//", ",", "\\", "é",
        ]), 0..60).prop_map(|parts| parts.concat()),
    ]) {
        match read_test(&text) {
            Ok((formula, places)) => {
                prop_assert_eq!(places.len(), formula.size());
                prop_assert!(places.iter().all(|place| text.get(place.clone()).is_some()));
                let _ = formula.evaluate(&terms(3)).map_err(|fault| places[fault.node as usize].clone());
            }
            Err(error) => prop_assert!(text.get(error.span.clone()).is_some(), "{error:?}"),
        }
    }
}

#[test]
fn deep_nesting_is_refused() {
    for (open, inner, close) in [
        ("(", "1", ")"),
        ("not ", "true", ""),
        ("-", "1", ""),
        ("1 + ", "1", ""),
        ("1 if 1 else ", "2", ""),
        ("M in [", "1", "]"),
    ] {
        let text = format!("{}{inner}{}", open.repeat(100_000), close.repeat(100_000));
        let error = read_test(&text).map(|(formula, _)| formula).unwrap_err();
        assert!(error.message.contains("nested more than"), "{open}: {}", error.message);
        let text = format!("{}{inner}{}", open.repeat(60), close.repeat(60));
        assert!(read_test(&text).is_ok(), "{open}");
    }
}

#[test]
fn formulas_are_written_for_three_languages() {
    let formula = read_open("M | ceil_div(by=4) if K % 2 == 0 and not N < 3 else 5000000000");
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
    assert_eq!(read_open("M // (N - 1)").unwrap().value(&[1; 7]), None);
}

fn shapes() -> impl Strategy<Value = Shape> {
    let extent = || prop_oneof![1..70_u64, Just(256), Just(1024), Just(4096), 200..5000_u64];
    (extent(), extent(), extent()).prop_map(|(m, n, k)| Shape { m, n, k })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::cases::cases(8, 48) as u32))]

    /// Where a kernel that was made for one problem says that it serves another, however that is
    /// stored, the source for that is the same and so are the launches; and it serves its own. Code of
    /// specialized values may be other code, with the shared memory of its own problem.
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
            prop_assert!(legality.permits(family, &Extents::new(&other, &storage)));
            let second = render_stored(family, &templates, &configuration, &other, &storage, &device).unwrap();
            let is_specialized = !family.specialized.is_empty() && first.source != second.source;
            prop_assert!(is_specialized || first.source == second.source);
            prop_assert_eq!(bound.launches.len(), second.plan.kernels.len());
            let own_kernels = first.plan.kernels.iter();
            for ((launch, kernel), own) in bound.launches.iter().zip(&second.plan.kernels).zip(own_kernels) {
                prop_assert_eq!(&launch.entry, &kernel.entry);
                let three = |sizes: &[Formula; 3]| sizes.each_ref().map(|size| size.value(&open).unwrap() as u32);
                prop_assert_eq!(three(&launch.grid), kernel.grid);
                prop_assert_eq!(three(&launch.block), kernel.block);
                let shared = if is_specialized { own } else { kernel }.dynamic_shared_bytes;
                prop_assert_eq!(launch.dynamic_shared_bytes.value(&open), Some(i64::from(shared)));
            }
            let bytes: Vec<_> = bound.workspaces.iter().map(|(name, bytes)| (name.clone(), bytes.value(&open).unwrap() as u64)).collect();
            let planned: Vec<_> = second.plan.workspaces.iter().map(|space| (space.name.clone(), space.bytes)).collect();
            prop_assert_eq!(bytes, planned);
        }
    }
}
