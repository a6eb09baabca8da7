//! How long an answer takes with 10,000 records of one GPU: for problems that were tuned, for others
//! near them, for rows that vectors do not fit, and for batches, for which all kernels are asked about.
//!
//! `cargo bench --bench lookup`
#![expect(clippy::print_stdout, reason = "a program that prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark may fail")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use gemm_tune::database::{Provenance, Record, Winner};
use gemm_tune::lookup::{Lookup, Question};
use gemm_tune::model::{
    Device, Dtype, Measurement, Micros, Problem, Regime, Resources, Shape, Storage, Timing,
    Validation,
};
use gemm_tune::predict::{Landmark, LearnedModel, Predictor};
use gemm_tune::render::{Templates, launches};
use gemm_tune::space::{Families, LegalSpace};

const RECORDS: u64 = 10_000;

/// Numbers that look random and are the same every time.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// Log-uniform over 64 to 8192; two in three are multiples of 64.
fn extent(seed: &mut u64) -> u64 {
    let extent = (64.0 * 128_f64.powf(random(seed) as f64 / (1_u64 << 31) as f64)) as u64;
    if random(seed).is_multiple_of(3) { extent } else { extent.next_multiple_of(64) }
}

fn problem(seed: &mut u64) -> Problem {
    let shape = Shape { m: extent(seed), n: extent(seed), k: extent(seed) };
    Problem::new(shape, Dtype::F32)
}

fn records(families: &Families, templates: &Templates, device: &Device) -> Vec<Record> {
    let family = families.get("pipelined").unwrap();
    let spaces = ["1024x1024x1024", "1023x1025x1027"].map(|shape| {
        let problem = Problem::new(shape.parse().unwrap(), Dtype::F32);
        LegalSpace::of(family, &problem, device).unwrap()
    });
    let mut seed = 1;
    let mut made = Vec::new();
    while (made.len() as u64) < RECORDS {
        let problem = problem(&mut seed);
        let aligned = problem.shape.n.is_multiple_of(4) && problem.shape.k.is_multiple_of(4);
        let space = &spaces[usize::from(!aligned)];
        let configuration = space.get(random(&mut seed) as usize % space.len()).unwrap();
        if family.forbidden(&configuration, &problem, device).unwrap().is_some() {
            continue;
        }
        let storage = Storage::packed(&problem);
        let plan = launches(family, &configuration, &problem, &storage, device).unwrap();
        let time = 5.0 + problem.operations() / 4e7;
        let landmarks: Vec<Landmark> = family
            .defaults(device)
            .iter()
            .map(|default| Landmark {
                family: family.name.clone(),
                configuration: default.clone(),
                name: family.short_name(default),
                time: Micros(time * (1.1 + random(&mut seed) as f64 / (1_u64 << 31) as f64)),
            })
            .collect();
        made.push(Record::new(Winner {
            problem: &problem,
            device,
            family: &family.name,
            configuration: &configuration,
            launch: &plan,
            measurement: &Measurement {
                samples: vec![Micros(time); 20],
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
            landmarks: &landmarks,
            validation: &Validation { reference: String::new(), max_error: 0.0, bound: 1.0 },
            resources: &Resources {
                registers: 128,
                spill_bytes: 0,
                shared_bytes: 16_384,
                occupancy: Some(0.25),
            },
            provenance: Provenance {
                gemm_tune: String::new(),
                template_hash: templates.hash(family),
                nvrtc: String::new(),
                time: jiff::Timestamp::UNIX_EPOCH,
                seed: 0,
                interim: false,
                command: None,
            },
        }));
    }
    made
}

fn benchmark(criterion: &mut Criterion) {
    let (families, templates) = (Families::built_in().unwrap(), Templates::built_in().unwrap());
    let device = Device::h200();
    let records = records(&families, &templates, &device);
    let known: Vec<_> = families.iter().cloned().collect();
    let began = std::time::Instant::now();
    let learned = LearnedModel::built_in(&device).unwrap();
    let lookup = Lookup::new(&records, &known, &templates, &device, Regime::default())
        .with_predictor(Predictor::new(learned, &known, &templates).0);
    println!("{RECORDS} records made ready in {:.2?}", began.elapsed());

    let mut seed = 99;
    let untuned: Vec<Question> = (0..1000).map(|_| Question::packed(problem(&mut seed))).collect();
    let tuned: Vec<Question> = records
        .iter()
        .take(1000)
        .map(|record| Question::packed(Problem::try_from(&record.problem).unwrap()))
        .collect();
    let padded: Vec<Question> = untuned
        .iter()
        .map(|question| {
            let storage = Storage { lda: question.storage.lda | 1, ..question.storage };
            Question { storage, ..*question }
        })
        .collect();
    // Problems that nobody asked about before, a thousand at a time: the first turn, in which what is near
    // is found for most cells of problems, the middle one, and the fastest, where other programs run beside
    // it.
    let (mut listed, mut odd) = (Vec::new(), Vec::new());
    while listed.len() < 30_000 {
        let question = Question::packed(problem(&mut seed));
        let is_odd = question.storage.row_alignment(&question.problem) < 2;
        if is_odd { odd.push(question) } else { listed.push(question) }
    }
    let turn = |questions: &[Question]| {
        let began = std::time::Instant::now();
        for question in questions {
            black_box(lookup.answer(black_box(question)).is_ok());
        }
        began.elapsed() / 1000
    };
    let in_batches =
        |question: &Question| Question::packed(Problem { batch: 2, ..question.problem });
    let batches: Vec<Question> = listed.iter().take(3000).map(in_batches).collect();
    let kinds = [("rows of vectors", &listed), ("other rows", &odd), ("batches", &batches)];
    for (name, questions) in kinds {
        let mut turns: Vec<Duration> = questions.chunks_exact(1000).map(turn).collect();
        let first = turns[0];
        turns.sort_unstable();
        let (middle, best) = (turns[turns.len() / 2], turns[0]);
        println!(
            "untuned, {name}: {middle:.2?}, at best {best:.2?}, the first thousand {first:.2?}"
        );
    }
    let mut group = criterion.benchmark_group("lookup");
    for (name, questions) in [("tuned", &tuned), ("untuned", &untuned), ("odd rows", &padded)] {
        let mut next = questions.iter().cycle();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let question = next.next().unwrap();
                black_box(lookup.answer(black_box(question)).map(|answer| answer.source).ok())
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(3));
    targets = benchmark
}
criterion_main!(benches);
