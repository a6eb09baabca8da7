//! What needs a GPU. On a machine without one every test says that it is skipped, and why.
//!
//! Runs one test at a time: a device serves one measurement. The worker is the program itself,
//! found by cargo or named by `GEMM_TUNE_BIN` where cargo is not.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test says what it sees and may fail"
)]

mod artifacts;
mod behaviour;
mod classes;
mod correctness;
mod harnesses;
mod library;
mod multiplier;
#[path = "../support/packing_family.rs"]
mod packing_family;
mod rig;
#[path = "../support/rounded_copies.rs"]
mod rounded_copies;
mod same_bits;
mod tensor_cores;
#[path = "../support/tensor_products.rs"]
mod tensor_products;

use std::process::ExitCode;

use artifacts::{
    artifacts_have_types, artifacts_multiply, operators_multiply, products_multiply_in_jax,
    runtime_encodes_maps, runtime_multiplies,
};
use behaviour::{budget, copies_tie, doctor, killed_worker, libraries, memory, program};
use classes::classes_are_as_fast_as_lookups;
use correctness::{
    atomic_sums_are_correct, boxes_are_correct, early_launches_are_correct, family_is_correct,
    hundred_candidates, planted_faults, reference_agrees, sanitized,
};
use gemm_tune::worker::GpuWorker;
use harnesses::harnesses_pass;
use library::library_multiplies;
use libtest_mimic::{Arguments, Failed, Trial};
use multiplier::multiplier_checks_and_multiplies;
use rig::{searched_families, worker_command};
use same_bits::same_bits;
use tensor_cores::{copies_round_alike, products_have_the_same_bits};

type Test = fn() -> Result<(), Failed>;

const TESTS: [(&str, Test); 27] = [
    ("the_device_reference_agrees_with_the_triple_loop", reference_agrees),
    ("boxes_of_the_copy_engine_are_correct", boxes_are_correct),
    ("sums_that_blocks_add_to_c_are_correct", atomic_sums_are_correct),
    ("launches_that_begin_early_are_correct", early_launches_are_correct),
    ("the_cpu_device_gives_the_bits_of_the_gpu", same_bits),
    ("products_of_tensor_cores_have_the_bits_of_the_gpu", products_have_the_same_bits),
    ("copies_round_to_the_bits_of_the_cpu_device", copies_round_alike),
    ("planted_faults_get_their_outcomes", planted_faults),
    ("a_hundred_candidates_of_which_thirty_are_broken", hundred_candidates),
    ("the_sanitizer_sees_what_no_result_shows", sanitized),
    ("a_killed_worker_is_replaced", killed_worker),
    ("a_problem_beyond_the_memory_is_refused", memory),
    ("libraries_are_validated_and_measured", libraries),
    ("copies_of_a_kernel_tie_in_a_final", copies_tie),
    ("the_budget_ends_a_search", budget),
    ("the_program_tunes_and_records", program),
    ("the_program_says_what_the_machine_can_do", doctor),
    ("the_runtime_multiplies_in_the_users_context", runtime_multiplies),
    ("the_runtime_encodes_tensor_maps", runtime_encodes_maps),
    ("the_multiplier_checks_and_multiplies_slices", multiplier_checks_and_multiplies),
    ("exported_artifacts_multiply", artifacts_multiply),
    ("exported_artifacts_call_the_library", library_multiplies),
    ("modules_multiply_other_types_with_epilogues", artifacts_have_types),
    ("operators_multiply_in_pytorch", operators_multiply),
    ("products_multiply_in_jax", products_multiply_in_jax),
    ("emitted_harnesses_check_and_time_themselves", harnesses_pass),
    ("every_class_of_operands_is_as_fast_as_lookups", classes_are_as_fast_as_lookups),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let missing = GpuWorker::start(worker_command()).err().map(|error| error.to_string());
    let families = searched_families().into_iter().map(|family| {
        let name = format!("{}_is_correct_for_awkward_shapes", family.name);
        Trial::test(name, move || family_is_correct(&family))
    });
    let trials = TESTS.into_iter().map(|(name, test)| Trial::test(name, test)).chain(families);
    let trials: Vec<Trial> =
        trials.map(|trial| trial.with_ignored_flag(missing.is_some())).collect();
    if let (Some(why), false) = (&missing, arguments.list) {
        for trial in &trials {
            println!("{} ... skipped: no CUDA device ({why})", trial.name());
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
