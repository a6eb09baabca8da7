//! Every class of operands (row lengths, addresses, memory for workspaces) has a kernel in an artifact that is nearly
//! as good as what lookup would render: by the predictions of the shipped records, without a GPU.
//! `tests/gpu/classes.rs` measures the same on one.

use gemm_tune::export::{KernelDraft, classes};
use gemm_tune::lookup::Question;
use gemm_tune::model::{Configuration, Dtype, Layout, Problem};

use super::choices::Known;

/// Shapes that the exporter asks for, in every class.
const ASKED: [&str; 3] = ["1000x1000x1000", "5000x2000x1000", "2000x5000x2000"];

/// Shapes between these.
const BETWEEN: [&str; 4] = ["1504x1504x1504", "3000x3200x640", "128x4000x4000", "3000x96x2000"];

/// Most that the best kernel of an artifact may take of what lookup's answer takes, where it was asked for.
const WITHIN: f64 = 1.1;

/// Most that the chosen kernel may take, in the geometric mean where it was asked for and between, and between at
/// worst. Programs choose by a formula of a few coefficients, which is less exact than lookup's models.
const MEAN_ASKED: f64 = 1.05;
const MEAN: f64 = 1.15;
const WORST: f64 = 3.0;

/// Times of an artifact's kernels over that of lookup's answer.
struct Compared {
    /// The one that programs choose.
    chosen: f64,
    /// The best one.
    best: f64,
    what: String,
}

fn compare(drafts: &[KernelDraft], question: &Question) -> Compared {
    let known = Known::shipped();
    let answer = known.lookup.answer(question).unwrap();
    let shape = &question.problem.shape;
    let us = |draft: &KernelDraft| draft.expectation.cautious_us(shape, 1, known.device.sms);
    let time = |family: &str, configuration: &Configuration| {
        let time = known.lookup.forecast((family, configuration), question);
        time.map_or(f64::INFINITY, |time| time.0)
    };
    let own = time(&answer.family.name, answer.configuration);
    let ratio = |draft: &KernelDraft| time(&draft.family, &draft.configuration) / own;
    let serving = || drafts.iter().filter(|draft| draft.serves(question));
    let chosen = serving().min_by(|a, b| us(a).total_cmp(&us(b))).unwrap();
    let Question { problem, storage, workspace } = question;
    Compared {
        chosen: ratio(chosen),
        best: serving().map(ratio).fold(f64::INFINITY, f64::min),
        what: format!(
            "{problem} at {} bytes within {workspace}: {} {} instead of {} {}",
            storage.alignment,
            chosen.family,
            chosen.configuration,
            answer.family.name,
            answer.configuration
        ),
    }
}

fn compared(shapes: &[&str]) -> Vec<Compared> {
    let mut all = Vec::new();
    for layout in Layout::ALL {
        let drafts = Known::shipped().kernels(*layout);
        for shape in shapes {
            let problem = Problem::new(shape.parse().unwrap(), Dtype::F32);
            let questions = classes(&Problem { layout: *layout, ..problem });
            all.extend(questions.iter().map(|question| compare(drafts, question)));
        }
    }
    all
}

#[test]
fn every_class_of_operands_has_a_kernel_nearly_as_good_as_lookups() {
    let asked = compared(&ASKED);
    let worse: Vec<String> = asked
        .iter()
        .filter(|one| one.best > WITHIN)
        .map(|one| format!("{:.3} {:.3} {}", one.best, one.chosen, one.what))
        .collect();
    let between = compared(&BETWEEN);
    let mean = |all: &[Compared]| {
        (all.iter().map(|one| one.chosen.ln()).sum::<f64>() / all.len() as f64).exp()
    };
    let worst = between.iter().max_by(|a, b| a.chosen.total_cmp(&b.chosen)).unwrap();
    println!(
        "{} classes asked: {:.3}; {} between: {:.3}",
        asked.len(),
        mean(&asked),
        between.len(),
        mean(&between)
    );
    let best = |all: &[Compared]| {
        (all.iter().map(|one| one.best.ln()).sum::<f64>() / all.len() as f64).exp()
    };
    println!("the best kernels: {:.3}; between {:.3}", best(&asked), best(&between));
    for layout in Layout::ALL {
        println!("{layout}: {} kernels", Known::shipped().kernels(*layout).len());
    }
    println!("worst between: {:.3} {}", worst.chosen, worst.what);
    assert!(worse.is_empty(), "{} of {}: {worse:#?}", worse.len(), asked.len());
    assert!(mean(&asked) <= MEAN_ASKED, "{}", mean(&asked));
    assert!(mean(&between) <= MEAN, "{}", mean(&between));
    assert!(worst.chosen <= WORST, "{} {}", worst.chosen, worst.what);
}
