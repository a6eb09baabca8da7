//! Lookup with the built-in families and made-up records.

mod library;

use jiff::Timestamp;
use proptest::prelude::*;

use super::{AnswerSource, Lookup, NoAnswer, Question, Why};
use crate::cases::cases;
use crate::database::{Provenance, Record, Winner};
use crate::model::{
    CachePolicy, ComputeCapability, Configuration, Device, Dtype, Layout, Measurement, Micros,
    Problem, Regime, Resources, Shape, Storage, Timing, Validation, WarmStart,
};
use crate::predict::least_time;
use crate::render::{Templates, launches};
use crate::space::{Families, Family, LegalSpace};

/// The families that the made-up times are of: what is asked of the ladder does not hang on how
/// good another family's default may be.
fn families() -> Vec<Family> {
    let all = Families::built_in().unwrap();
    ["naive", "tiled", "coarsened", "blocktile"].map(|name| all.get(name).unwrap().clone()).to_vec()
}

fn problem(shape: &str) -> Problem {
    Problem::new(shape.parse().unwrap(), Dtype::F32)
}

/// `name`'s configuration at a place of its legal space, counted in thousandths.
fn configuration(name: &str, problem: &Problem, thousandths: usize) -> Configuration {
    let families = Families::built_in().unwrap();
    let space = LegalSpace::of(families.get(name).unwrap(), problem, &Device::h200()).unwrap();
    space.get(space.len() * thousandths / 1000).unwrap()
}

/// A record of `problem` on `device` by a configuration of `family`.
fn record(
    problem: &Problem,
    device: &Device,
    (name, configuration): (&str, &Configuration),
    median_us: f64,
) -> Record {
    let families = Families::built_in().unwrap();
    let family = families.get(name).unwrap();
    let plan = launches(family, configuration, problem, &Storage::packed(problem), device).unwrap();
    Record::new(Winner {
        problem,
        device,
        family: name,
        configuration,
        launch: &plan,
        measurement: &Measurement {
            samples: vec![Micros(median_us); 11],
            launches_per_sample: 1,
            regime: Regime::default(),
            timing: Timing::Measured,
            sm_clock_mhz: None,
        },
        confidence: None,
        conditions: None,
        also_right_on: &[],
        libraries: &[],
        speedup: None,
        landmarks: &[],
        validation: &Validation { reference: "f64".to_owned(), max_error: 0.0, bound: 1.0 },
        resources: &Resources {
            registers: 128,
            spill_bytes: 0,
            shared_bytes: 16_384,
            occupancy: Some(0.25),
        },
        provenance: Provenance {
            gemm_tune: "0.1.0".to_owned(),
            template_hash: Templates::built_in().unwrap().hash(family),
            nvrtc: "13.0".to_owned(),
            time: Timestamp::UNIX_EPOCH,
            seed: 0,
            interim: false,
            command: None,
        },
    })
}

fn lookup(records: &[Record], device: &Device) -> Lookup {
    Lookup::new(records, &families(), &Templates::built_in().unwrap(), device, Regime::default())
}

/// A tile of 64 x 64 that vectors serve, and the same kernel without vectors.
fn tile(vec: i64) -> Configuration {
    let families = Families::built_in().unwrap();
    let text = format!(
        "BM=64 BN=64 BK=8 TM=8 TN=8 VEC={vec} RUNS_M=2 RUNS_N=2 LANES_M=4 PAD=4 \
         DOUBLE_BUFFER=true UNROLL=8 MIN_BLOCKS=1"
    );
    families.get("blocktile").unwrap().read_configuration(&text).unwrap()
}

/// What a database of one GPU has in these tests: an aligned problem and an odd one.
fn some_records(device: &Device) -> Vec<Record> {
    let (aligned, odd) = (problem("1024x1024x1024"), problem("1023x1025x1027"));
    vec![
        record(&aligned, device, ("blocktile", &tile(4)), 58.0),
        record(&odd, device, ("blocktile", &tile(1)), 90.0),
    ]
}

#[test]
fn sources_are_tried_from_the_most_to_the_least_certain() {
    let h200 = Device::h200();
    let h100 = Device { name: "NVIDIA H100".to_owned(), sms: 114, ..Device::h200() };
    let capability = ComputeCapability { major: 8, minor: 0 };
    let a100 = Device { compute_capability: capability, ..Device::h200() };
    let records = some_records(&h200);
    let (tuned, near) = (problem("1024x1024x1024"), problem("960x1024x1024"));
    let other_layout = Problem { layout: Layout::Tn, ..near };
    for (asked, device, expected) in [
        (tuned, &h200, AnswerSource::Exact),
        (near, &h200, AnswerSource::Neighbour),
        (tuned, &h100, AnswerSource::Sibling),
        (near, &h100, AnswerSource::Sibling),
        (tuned, &a100, AnswerSource::Default),
        (other_layout, &h200, AnswerSource::Default),
        (Problem { batch: 2, ..tuned }, &h200, AnswerSource::Neighbour),
    ] {
        let lookup = lookup(&records, device);
        let answer = lookup.answer(&Question::packed(asked)).unwrap();
        assert_eq!(answer.source, expected, "{asked} on {}: {}", device.name, answer.because());
        assert!(!answer.because().is_empty());
        assert_eq!(answer.predicted.is_some(), expected != AnswerSource::Default);
    }
    let empty = lookup(&[], &h200);
    let answer = empty.answer(&Question::packed(tuned)).unwrap();
    assert_eq!((answer.source, answer.why), (AnswerSource::Default, Why::NoRecords));
}

#[test]
fn a_sibling_is_predicted_by_its_sms_and_clocks() {
    let h200 = Device::h200();
    let half = Device { name: "half".to_owned(), sms: 66, max_sm_clock_mhz: 990, ..Device::h200() };
    let large = problem("8192x8192x1024");
    let records = [record(&large, &h200, ("blocktile", &tile(4)), 3000.0)];
    let lookup = lookup(&records, &half);
    let answer = lookup.answer(&Question::packed(large)).unwrap();
    let times = answer.predicted.unwrap().0 / 3000.0;
    assert!((3.9..4.1).contains(&times), "{times}");
    assert_eq!(answer.error_percent, None, "nothing was measured here");
}

#[test]
fn rows_that_vectors_do_not_fit_get_a_kernel_without_them() {
    let h200 = Device::h200();
    let lookup = lookup(&some_records(&h200), &h200);
    let near = problem("1000x1000x1000");
    let packed = Storage::packed(&near);
    let vectors = |problem, storage| {
        let answer = lookup.answer(&Question::new(problem, storage)).unwrap();
        answer.configuration.get("VEC").is_some_and(|vec| vec.to_string() == "4")
    };
    assert!(vectors(near, packed));
    assert!(!vectors(near, Storage { lda: 1001, ..packed }));
    assert!(!vectors(near, Storage { alignment: 4, ..packed }));
    assert!(vectors(near, Storage { ldc: 1004, alignment: 16, ..packed }));

    // The record of the very problem does not serve padded rows either.
    let tuned = problem("1024x1024x1024");
    let storage = Storage { lda: 1025, ..Storage::packed(&tuned) };
    let answer = lookup.answer(&Question::new(tuned, storage)).unwrap();
    assert_ne!(answer.source, AnswerSource::Exact);
    assert!(!vectors(tuned, storage));
}

#[test]
fn a_non_deterministic_kernel_answers_only_its_own_problem() {
    let h200 = Device::h200();
    let mut records = some_records(&h200);
    records[0].deterministic = false;
    let (own, near) = (problem("1024x1024x1024"), problem("960x1024x1024"));
    let asked = lookup(&records, &h200);
    let answer = asked.answer(&Question::packed(own)).unwrap();
    assert_eq!((answer.source, answer.is_deterministic()), (AnswerSource::Exact, false));
    assert!(answer.because().contains("non-deterministic"), "{}", answer.because());

    // What else there is answers for others, as if the record were not there.
    let without = lookup(&records[1..], &h200);
    let question = Question::packed(near);
    let (answer, alone) = (asked.answer(&question).unwrap(), without.answer(&question).unwrap());
    assert!(answer.is_deterministic());
    assert_eq!((answer.source, answer.configuration), (alone.source, alone.configuration));
    let start_of = |lookup: &Lookup| {
        let start = lookup.warm_start(&near);
        (start.record, start.others)
    };
    assert_eq!(start_of(&asked), start_of(&without));
    assert!(asked.warm_start(&own).record.is_some(), "whoever allows it has it in the final");

    // Pinned likewise.
    let pinned = lookup(&records, &h200).pinned();
    assert!(!pinned.answer(&Question::packed(own)).unwrap().is_deterministic());
    assert!(matches!(pinned.answer(&question), Err(NoAnswer::NotPinned { .. })));

    // Of two records of a problem, the one with the same bits counts, however fast the other is.
    let slower = record(&own, &h200, ("blocktile", &tile(1)), 900.0);
    let both = [records[0].clone(), slower];
    let answer = lookup(&both, &h200).answer(&Question::packed(own)).unwrap().predicted;
    assert_eq!(answer, Some(Micros(900.0)));
}

#[test]
fn a_record_from_before_a_parameter_answers_with_its_first_value() {
    let h200 = Device::h200();
    let asked = problem("1024x1024x1024");
    let mut record = record(&asked, &h200, ("blocktile", &tile(4)), 58.0);
    record.parameters.shift_remove("MIN_BLOCKS");
    let lookup = lookup(&[record], &h200);
    let answer = lookup.answer(&Question::packed(asked)).unwrap();
    assert_eq!((answer.source, answer.configuration), (AnswerSource::Exact, &tile(4)));
}

#[test]
fn a_tile_that_is_mostly_edge_gives_way_to_the_default() {
    let h200 = Device::h200();
    let families = Families::built_in().unwrap();
    let family = families.get("blocktile").unwrap();
    let square = problem("4096x4096x1024");
    let wide = family
        .read_configuration(
            "BM=128 BN=256 BK=16 TM=16 TN=8 VEC=4 RUNS_M=1 RUNS_N=2 LANES_M=1 PAD=4 \
             DOUBLE_BUFFER=false UNROLL=8 MIN_BLOCKS=1",
        )
        .unwrap();
    let records = [record(&square, &h200, ("blocktile", &wide), 750.0)];
    let lookup = lookup(&records, &h200);
    let small = problem("128x128x1024");
    let answer = lookup.answer(&Question::packed(small)).unwrap();
    assert_eq!(answer.source, AnswerSource::Default, "{}", answer.because());
    let Why::ExpectedFaster { best } = answer.why else { panic!("{:?}", answer.why) };
    assert!(answer.predicted.unwrap() < best);
    let near = lookup.answer(&Question::packed(problem("4096x4096x2048"))).unwrap();
    assert_eq!(near.source, AnswerSource::Neighbour, "{}", near.because());
    let ratio = near.predicted.unwrap().0 / 750.0;
    assert!((1.95..2.05).contains(&ratio), "twice the depth, twice the time: {ratio}");
}

#[test]
fn landmarks_correct_the_analytic_model() {
    let h200 = Device::h200();
    let families = Families::built_in().unwrap();
    let pipelined = families.get("pipelined").unwrap();
    let shapes = ["1000x1000x1000", "900x1100x1000", "1100x900x1000"];
    // One default takes a third of what all others do, on each of them.
    let defaults: Vec<&Configuration> = pipelined
        .defaults(&Device::h200())
        .iter()
        .filter(|default| {
            let legal = |shape: &str| {
                pipelined.forbidden(default, &problem(shape), &h200).unwrap().is_none()
            };
            shapes.iter().all(|shape| legal(shape))
        })
        .collect();
    let (fast, winner) = (defaults[2], defaults[5]);
    let records = shapes.map(|shape| {
        let record = record(&problem(shape), &h200, ("pipelined", winner), 60.0);
        let times = defaults.iter().map(|default| {
            let time = if *default == fast { 30.0 } else { 90.0 };
            (pipelined.short_name(default), time)
        });
        Record { landmarks_us: times.collect(), ..record }
    });
    let asked = Question::packed(problem("980x1010x1000"));
    let all: Vec<Family> = families.iter().cloned().collect();
    let templates = Templates::built_in().unwrap();
    let lookup =
        |records: &[Record]| Lookup::new(records, &all, &templates, &h200, Regime::default());
    let with_landmarks = lookup(&records);
    assert!(with_landmarks.unusable().is_empty(), "{:?}", with_landmarks.unusable());
    let answer = with_landmarks.answer(&asked).unwrap();
    assert_eq!(
        (answer.source, answer.configuration),
        (AnswerSource::Default, fast),
        "{}",
        answer.because()
    );
    let predicted = answer.predicted.unwrap().0;
    assert!((25.0..40.0).contains(&predicted), "{predicted}");
    let Why::ExpectedFaster { best } = answer.why else { panic!("{:?}", answer.why) };
    assert!((50.0..75.0).contains(&best.0), "{best}");

    // Where nobody measured them, the winner is believed.
    let without = records.map(|record| Record { landmarks_us: Default::default(), ..record });
    let without = lookup(&without);
    assert_ne!(without.answer(&asked).unwrap().configuration, fast);
}

#[test]
fn what_is_not_pinned_is_refused() {
    let h200 = Device::h200();
    let mut records = some_records(&h200);
    let pinned = lookup(&records, &h200).pinned();
    let tuned = problem("1024x1024x1024");
    let answer = pinned.answer(&Question::packed(tuned)).unwrap();
    assert_eq!((answer.source, answer.configuration), (AnswerSource::Exact, &tile(4)));
    let storage = Storage { lda: 1025, ..Storage::packed(&tuned) };
    let refused = pinned.answer(&Question::new(tuned, storage)).unwrap_err();
    assert!(matches!(refused, NoAnswer::NotLegal { .. }), "{refused}");
    let refused = pinned.answer(&Question::packed(problem("1024x1024x1025"))).unwrap_err();
    assert!(matches!(refused, NoAnswer::NotPinned { pinned: 2, .. }), "{refused}");
    records[0].provenance.template_hash = "0".to_owned();
    let pinned = lookup(&records, &h200).pinned();
    let refused = pinned.answer(&Question::packed(tuned)).unwrap_err();
    assert!(matches!(refused, NoAnswer::Changed { .. }), "{refused}");
}

#[test]
fn a_record_that_no_answer_can_use_is_reported() {
    let h200 = Device::h200();
    let mut records = some_records(&h200);
    records[0].family = "gone".to_owned();
    records[1].parameters.insert("BM".to_owned(), crate::model::Value::Int(1));
    let lookup = lookup(&records, &h200);
    let why: Vec<&str> = lookup.unusable().iter().map(|entry| entry.why.as_str()).collect();
    assert_eq!(why.len(), 2, "{why:?}");
    assert!(why.contains(&"no family is named `gone`"), "{why:?}");
    assert!(why.contains(&"its configuration is not legal on NVIDIA H200"), "{why:?}");
}

#[test]
fn a_warm_start_is_the_record_then_near_winners_then_those_of_other_devices() {
    let h200 = Device::h200();
    let h100 = Device { name: "NVIDIA H100".to_owned(), sms: 114, ..Device::h200() };
    let asked = problem("1024x1024x1024");
    let named = |name: &str, thousandths: usize| {
        (name.to_owned(), configuration(name, &asked, thousandths))
    };
    let [own, near, far, alike, sibling] = [
        ("blocktile".to_owned(), tile(4)),
        named("blocktile", 300),
        named("tiled", 0),
        ("blocktile".to_owned(), tile(4)),
        named("blocktile", 700),
    ];
    let made = |shape: &str,
                device: &Device,
                (name, configuration): &(String, Configuration),
                us| { record(&problem(shape), device, (name, configuration), us) };
    let mut records = vec![
        made("1024x1024x1024", &h100, &sibling, 60.0),
        made("1024x1024x2048", &h200, &near, 110.0),
        made("1024x2048x1024", &h200, &far, 900.0),
        made("2048x2048x1024", &h200, &alike, 230.0),
    ];
    let start = lookup(&records, &h200).warm_start(&asked);
    assert_eq!(start.record, None);
    let found = |start: &WarmStart| -> Vec<(String, Configuration)> {
        let others = start.others.iter();
        others.map(|hint| (hint.family.clone(), hint.configuration.clone())).collect()
    };
    let others = found(&start);
    assert_eq!(others.len(), 4, "{others:?}");
    assert_eq!(others[3], sibling, "what won elsewhere comes last");
    assert_eq!(others[2], far, "the model expects most time of it");

    records.push(made("1024x1024x1024", &h200, &own, 58.0));
    let start = lookup(&records, &h200).warm_start(&asked);
    let record = start.record.clone().map(|hint| (hint.family, hint.configuration));
    assert_eq!(record, Some(own));
    assert_eq!(found(&start), [near, far, sibling], "one that is the record is no hint");
    let other_layout = Problem { layout: Layout::Tn, ..asked };
    let start = lookup(&records, &h200).warm_start(&other_layout);
    assert_eq!((start.record, start.others), (None, Vec::new()));
}

#[test]
fn no_prediction_is_faster_than_the_device() {
    let h200 = Device::h200();
    let problem = |size| Problem::new(Shape { m: size, n: size, k: size }, Dtype::F32);
    let configuration = configuration("blocktile", &problem(512), 500);
    // Faster than any kernel can be, so that what is expected of it elsewhere is too.
    let records = [record(&problem(512), &h200, ("blocktile", &configuration), 2.5)];
    let lookup = lookup(&records, &h200);
    let answer = lookup.answer(&Question::packed(problem(4096))).unwrap();
    let least = least_time(&problem(4096), &h200, CachePolicy::Rotate);
    assert_eq!(answer.predicted, Some(least));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(8, 32) as u32))]

    /// Whatever is asked, an answer is legal, also for padded rows, and does not hang on the order
    /// of the records.
    #[test]
    fn every_answer_is_legal_and_the_same_for_any_order(
        (m, n, k, batch) in (1..5000_u64, 1..5000_u64, 1..5000_u64, 1..3_u64),
        (pad_a, pad_b, pad_c) in (0..4_u64, 0..4_u64, 0..4_u64),
        alignment in prop::sample::select(vec![4_u64, 8, 16, 256]),
        tuned in prop::collection::vec((1..5000_u64, 1..5000_u64, 0..1000_usize, 0..2_usize), 0..6),
    ) {
        let h200 = Device::h200();
        let mut records: Vec<Record> = tuned
            .into_iter()
            .map(|(m, n, thousandths, family)| {
                let problem = Problem::new(Shape { m, n, k: 512 }, Dtype::F32);
                let name = ["blocktile", "tiled"][family];
                let configuration = configuration(name, &problem, thousandths);
                record(&problem, &h200, (name, &configuration), 50.0 + m as f64)
            })
            .collect();
        let asked = Problem { batch, ..Problem::new(Shape { m, n, k }, Dtype::F32) };
        let packed = Storage::packed(&asked);
        let storage = Storage {
            lda: packed.lda + pad_a,
            ldb: packed.ldb + pad_b,
            ldc: packed.ldc + pad_c,
            alignment,
        };
        let question = Question::new(asked, storage);
        let all: Vec<Family> = Families::built_in().unwrap().iter().cloned().collect();
        let templates = Templates::built_in().unwrap();
        let lookup = |records: &[Record]| {
            Lookup::new(records, &all, &templates, &h200, Regime::default())
        };
        let first = lookup(&records);
        let answer = first.answer(&question).unwrap();
        let plan = launches(answer.family, answer.configuration, &asked, &storage, &h200);
        prop_assert!(plan.is_ok(), "{plan:?}");
        // Rows and addresses that are all alike odd are the hardest that rules can be asked about.
        if pad_a + pad_b + pad_c == 0 && alignment == 256 {
            let broken = answer.family.forbidden(answer.configuration, &asked, &h200).unwrap();
            prop_assert!(broken.is_none(), "{}", answer.configuration);
        }
        // `blocktile` moves vectors of every operand.
        let vec = answer.configuration.get("VEC").filter(|_| answer.family.name == "blocktile");
        if let Some(vec) = vec {
            let vec: u64 = vec.to_string().parse().unwrap();
            for rows in [storage.lda, storage.ldb, storage.ldc] {
                prop_assert!(rows % vec == 0 && alignment >= 4 * vec, "{} for {storage:?}", vec);
            }
        }
        records.reverse();
        let second = lookup(&records);
        let again = second.answer(&question).unwrap();
        prop_assert_eq!((again.source, again.configuration), (answer.source, answer.configuration));
    }
}
