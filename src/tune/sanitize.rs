//! Finalists under `compute-sanitizer`, which finds what no comparison of results shows: reads beyond an operand, reads of
//! unwritten memory, hazards in shared memory, misused barriers.
//!
//! Each tool starts a worker of its own, which launches each finalist once. OperandAddresses are allocated at their exact size,
//! because the tools watch the ends of allocations. Where a tool finds something and several finalists were launched, each
//! is launched alone to find the faulty one.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::candidate::CompiledCandidate;
use super::deadlines::patience_seconds;
use crate::files::{self, InputKind};
use crate::model::{Fault, Outcome, Problem};
use crate::worker::{
    EpilogueAddresses, Executor, KernelSetup, OperandAddresses, Scalars, WorkItem, WorkerError,
    bind,
};

/// What is looked for, one tool at a time.
const TOOLS: [&str; 4] = ["memcheck", "initcheck", "racecheck", "synccheck"];

/// The exit status after a finding. The worker itself never ends with it.
const FOUND: i32 = 86;

/// Padding behind every allocation under memcheck. A judgement: it must cover rows that are read too many.
const PADDING_BYTES: u32 = 1 << 20;

/// Largest slow-down of a kernel, for deadlines only. A judgement.
const SLOWDOWN: f64 = 100.0;

/// `compute-sanitizer`, of CUDA's toolkit.
#[derive(Debug, Clone)]
pub struct Sanitizer {
    /// The program.
    pub program: PathBuf,
    /// Where its findings are kept, a file for each finding; made where it is missing.
    pub logs: PathBuf,
}

/// The result for one finalist.
pub(super) enum Sanitized {
    /// No tool found anything.
    Clean,
    /// A tool did.
    Found(Outcome),
    /// It could not run.
    NotRun(String),
}

impl Sanitizer {
    /// The note on a finalist that passed.
    pub(super) fn passed() -> String {
        format!("compute-sanitizer's {}", TOOLS.join(", "))
    }

    /// Launches each candidate once under each tool. `executor` keeps its state; its workers are started beside it.
    pub(super) fn examine(
        &self,
        executor: &dyn Executor,
        problem: &Problem,
        candidates: &[&CompiledCandidate],
    ) -> Vec<Sanitized> {
        let mut verdicts: Vec<Sanitized> = candidates.iter().map(|_| Sanitized::Clean).collect();
        for tool in TOOLS {
            let left =
                || (0..candidates.len()).filter(|at| matches!(verdicts[*at], Sanitized::Clean));
            let group: Vec<usize> = left().collect();
            let launch = |group: &[usize]| {
                let group: Vec<&CompiledCandidate> =
                    group.iter().map(|at| candidates[*at]).collect();
                self.watch(tool, executor, problem, &group)
            };
            match (launch(&group), group.as_slice()) {
                (Sanitized::Clean, _) => {}
                (verdict, [only]) => verdicts[*only] = verdict,
                _ => {
                    for at in group {
                        verdicts[at] = launch(&[at]);
                    }
                }
            }
        }
        verdicts
    }

    /// The verdict of one tool on candidates that are launched one after the other.
    fn watch(
        &self,
        tool: &str,
        executor: &dyn Executor,
        problem: &Problem,
        group: &[&CompiledCandidate],
    ) -> Sanitized {
        if group.is_empty() {
            return Sanitized::Clean;
        }
        let log = self.log(problem, tool);
        let not_run = |why: String| Sanitized::NotRun(format!("{tool}: {why}"));
        if let Err(error) = files::make_private(&self.logs) {
            return not_run(format!("`{}`: {error}", self.logs.display()));
        }
        let launched = (|| {
            let mut watched = executor.start_wrapped(&self.wrapper(tool, &log))?;
            watched.set_deadline(SLOWDOWN + SLOWDOWN * patience_seconds(problem));
            // A finding may end the worker; what ended is in the log.
            let launched = launch(watched.as_mut(), problem, group);
            let status = watched.finish();
            launched.and(status)
        })();
        let text = files::read_text(&log, InputKind::Log).unwrap_or_default();
        let finding = finding(&text);
        if launched == Ok(Some(FOUND)) || finding.is_some() {
            let what = finding.unwrap_or_else(|| "it says so by its exit status".to_owned());
            let message = format!("{what} (all of it: {})", log.display());
            let during = format!("running under compute-sanitizer's {tool}");
            return Sanitized::Found(Outcome::Runtime(Fault { during, message }));
        }
        match launched {
            Ok(Some(0)) => {
                // The log only says that nothing was found.
                let _ = fs::remove_file(&log);
                Sanitized::Clean
            }
            Ok(status) => not_run(format!(
                "it ended with {}; see {}",
                status.map_or_else(|| "a signal".to_owned(), |status| format!("status {status}")),
                log.display()
            )),
            Err(error) => not_run(error.to_string()),
        }
    }

    fn wrapper(&self, tool: &str, log: &Path) -> Vec<OsString> {
        let mut wrapper = vec![
            self.program.clone().into(),
            "--tool".into(),
            tool.into(),
            "--error-exitcode".into(),
            FOUND.to_string().into(),
            // An error of the driver API is an answer of the worker, and no finding.
            "--report-api-errors".into(),
            "no".into(),
            "--log-file".into(),
            log.into(),
        ];
        if tool == "memcheck" {
            // Without padding, memory past one operand may belong to the next.
            wrapper.extend(["--padding".into(), PADDING_BYTES.to_string().into()]);
        }
        wrapper
    }

    /// The log file of a tool.
    fn log(&self, problem: &Problem, tool: &str) -> PathBuf {
        let words = problem.to_string().replace(|letter: char| !letter.is_alphanumeric(), "-");
        self.logs.join(format!("{words}-{tool}-{}.log", std::process::id()))
    }
}

fn launch(
    executor: &mut dyn Executor,
    problem: &Problem,
    group: &[&CompiledCandidate],
) -> Result<(), WorkerError> {
    // Memory is filled in words.
    let [a_bytes, b_bytes, c_bytes] =
        problem.operand_bytes().map(|bytes| bytes.next_multiple_of(4));
    let a = executor.allocate(a_bytes)?;
    let b = executor.allocate(b_bytes)?;
    // Only whether memory is written counts, and not its values.
    executor.fill(a, 0, a_bytes / 4)?;
    executor.fill(b, 0, b_bytes / 4)?;
    let mut epilogue = EpilogueAddresses::default();
    for (operation, bytes) in problem.epilogue_bytes() {
        let words = bytes.div_ceil(4);
        epilogue.set(operation, executor.allocate(4 * words)?);
        executor.fill(epilogue.of(operation), 0, words)?;
    }
    for candidate in group {
        let plan = &candidate.plan;
        // C stays unwritten: with beta = 0 it is not read.
        let c = executor.allocate(c_bytes)?;
        let mut workspaces = Vec::new();
        for workspace in &plan.workspaces {
            workspaces.push(executor.allocate(workspace.bytes)?);
        }
        let loaded = executor.load(&candidate.compiled.image, &KernelSetup::of(plan))?;
        let operands = OperandAddresses { a, b, c, epilogue };
        let launches = bind(plan, loaded.module, problem, operands, &workspaces, Scalars::PLAIN);
        let work: Vec<WorkItem> =
            launches.unwrap_or_default().into_iter().map(WorkItem::Kernel).collect();
        executor.run(&work)?;
        executor.unload(loaded.module)?;
        for address in workspaces.into_iter().chain([c]) {
            executor.free(address)?;
        }
    }
    Ok(())
}

/// The first finding of a log. Its lines begin with `=========`; the first one names the tool, the last one counts.
fn finding(log: &str) -> Option<String> {
    let mut lines = log
        .lines()
        .filter_map(|line| line.strip_prefix("========="))
        .map(str::trim)
        .filter(|line| !line.is_empty() && *line != "COMPUTE-SANITIZER");
    let first = lines.next()?;
    if first.contains("SUMMARY") {
        return None;
    }
    let rest = lines.take_while(|line| !line.starts_with("Saved host backtrace")).take(2);
    Some(std::iter::once(first).chain(rest).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_a_finding_unless_it_only_has_a_summary() {
        for (log, expected) in [
            ("", None),
            ("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", None),
            (
                "========= COMPUTE-SANITIZER\n\
                 ========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n",
                None,
            ),
            (
                "========= COMPUTE-SANITIZER\n\
                 ========= Invalid __global__ read of size 4 bytes\n\
                 =========     at gemm+0x90 in blocktile.cu:12\n\
                 =========     by thread (31,0,0) in block (0,0,0)\n\
                 =========     Address 0x7f is out of bounds\n\
                 ========= ERROR SUMMARY: 1 error\n",
                Some(
                    "Invalid __global__ read of size 4 bytes; at gemm+0x90 in blocktile.cu:12; \
                     by thread (31,0,0) in block (0,0,0)",
                ),
            ),
        ] {
            assert_eq!(finding(log).as_deref(), expected, "{log}");
        }
    }
}
