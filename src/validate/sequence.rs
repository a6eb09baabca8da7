//! The work of a validation on a GPU: both runs, references and comparisons.

use super::guarded_buffer::{GuardedBuffer, POISON};
use super::inputs::{OperandLines, ValueKind, uneven_scalars};
use super::kernels::{ComparedPart, FilledOperand, MatrixOperand, MixedRun};
use super::parts::Part;
use super::readback::{MIXED, PART_BYTES, SMALL, guards_changed, operands_changed, readback_bytes};
use super::run::ClassUnits;
use super::validator::{ValidationSubject, Validator};
use crate::arithmetic::error_bound_of_small_integers;
use crate::model::Shape;
use crate::worker::{Scalars, WorkItem};

impl Validator {
    /// Creates both runs and all comparisons, as one sequence of work.
    pub(super) fn work(&self, subject: &ValidationSubject<'_>, bound: f64) -> Vec<WorkItem> {
        let (launches, results) = (self.launches, self.references.address);
        let parts = self.rows.parts(&self.problem);
        let words = readback_bytes(parts.len()) / 4;
        let mut work = vec![launches.fill_words(results, words, 0)];
        let result = |part: usize| results + part as u64 * PART_BYTES;
        for run in (0..parts.len()).flat_map(|part| [result(part) + SMALL, result(part) + MIXED]) {
            // The first index is found as a minimum, so it starts at the maximum.
            work.push(launches.fill_words(run + 16, 2, u32::MAX));
        }
        // Data of an earlier candidate must not look like a result.
        work.extend(self.poisoned(subject.workspaces));
        for values in [ValueKind::Small, ValueKind::Mixed] {
            work.extend(self.filled(values));
            let scalars = match values {
                ValueKind::Small => {
                    work.push(launches.fill_words(self.c.address, self.c.words(), POISON));
                    Scalars::PLAIN
                }
                ValueKind::Uniform | ValueKind::Mixed => {
                    work.push(self.old_c(self.c));
                    self.uneven_scalars()
                }
            };
            work.extend((subject.work)(self.operands(), scalars));
            let changed = results + operands_changed(parts.len());
            let counted = self
                .inputs()
                .map(|operand| launches.count_changed_values(&operand, values, changed));
            work.extend(counted.into_iter().flatten());
            if self.is_in_parts() {
                // References come from the operands, which the subject may have overwritten.
                work.extend(self.filled(values));
            }
            for (number, part) in parts.iter().enumerate() {
                if self.is_in_parts() {
                    work.push(self.reference_of(part, values));
                }
                work.extend(self.compared(part, values, bound, result(number)));
            }
        }
        // What is timed later are uniform values.
        work.extend(self.factors_filled(ValueKind::Uniform));
        for buffer in self.buffers().iter().chain(subject.workspaces) {
            for (address, words) in buffer.guards() {
                let changed = results + guards_changed(parts.len());
                work.push(launches.count_changed_words(address, words, POISON, changed));
            }
            let (address, bytes) = buffer.last_bytes();
            if bytes > 0 {
                let changed = results + guards_changed(parts.len());
                work.push(launches.count_changed_bytes(address, bytes, POISON, changed));
            }
        }
        work
    }

    /// Compares a part of C with its reference.
    fn compared(&self, part: &Part, values: ValueKind, bound: f64, result: u64) -> [WorkItem; 3] {
        let (first, count) = (part.first(&self.problem), part.elements(&self.problem));
        let c = self.c.address + first * self.problem.types.d.bytes();
        let Shape { m, n, .. } = self.problem.shape;
        let epilogue_seed = self.seeds.epilogue();
        let compared = ComparedPart { c, first, count, extents: [m, n], epilogue_seed };
        match values {
            ValueKind::Small => {
                let bound = error_bound_of_small_integers(&self.problem) as f32;
                let sums = self.small_reference();
                self.launches.compare_small(&compared, sums, bound, result + SMALL)
            }
            ValueKind::Uniform | ValueKind::Mixed => {
                let [sums, magnitudes] = self.mixed_reference();
                let (scalars, c_seed) = (self.uneven_scalars(), self.seeds.c());
                let scalar = self.problem.types.scalar();
                let units = ClassUnits::of(&self.problem);
                let run = MixedRun { compared, sums, magnitudes, scalars, c_seed, scalar, units };
                self.launches.compare_mixed(&run, bound as f32, result + MIXED)
            }
        }
    }

    /// Computes the reference of a part from the present operands.
    pub(super) fn reference_of(&self, part: &Part, values: ValueKind) -> WorkItem {
        let (problem, operands) = (&self.problem, [self.a.address, self.b.address]);
        match values {
            ValueKind::Small => {
                self.launches.reference_small(problem, part, operands, self.small_reference())
            }
            ValueKind::Uniform | ValueKind::Mixed => {
                self.launches.reference_mixed(problem, part, operands, self.mixed_reference())
            }
        }
    }

    fn small_reference(&self) -> u64 {
        self.references.address + self.rows.small_sums(&self.problem)
    }

    /// Sums and magnitudes.
    pub(super) fn mixed_reference(&self) -> [u64; 2] {
        [self.rows.mixed_sums(&self.problem), self.rows.magnitudes(&self.problem)]
            .map(|offset| self.references.address + offset)
    }

    /// Fills A, B and the operands of the epilogue.
    pub(super) fn filled(&self, values: ValueKind) -> Vec<WorkItem> {
        let of_epilogue = self.epilogue.iter().filter_map(|(operation, buffer)| {
            let is_scale = operation.operand_dtype(self.problem.types) != self.problem.types.d;
            Some(FilledOperand {
                operand: if is_scale { MatrixOperand::Scale } else { MatrixOperand::C },
                address: buffer.address,
                count: self.problem.epilogue_elements(*operation)?,
                seed: self.seeds.epilogue_operand(*operation),
            })
        });
        let of_epilogue =
            of_epilogue.map(|operand| self.launches.fill_values(&operand, values.beside()));
        self.factors_filled(values).into_iter().chain(of_epilogue).collect()
    }

    /// Fills A and B.
    pub(super) fn factors_filled(&self, values: ValueKind) -> [WorkItem; 2] {
        self.inputs().map(|operand| self.launches.fill_values(&operand, values))
    }

    /// Fills a C with what it holds before the run on mixed values.
    pub(super) fn old_c(&self, c: GuardedBuffer) -> WorkItem {
        let count = self.problem.c_elements() * self.problem.batch;
        let (operand, seed) = (MatrixOperand::C, self.seeds.c());
        let filled = FilledOperand { operand, address: c.address, count, seed };
        self.launches.fill_values(&filled, ValueKind::Uniform)
    }

    pub(super) fn poisoned(&self, workspaces: &[GuardedBuffer]) -> impl Iterator<Item = WorkItem> {
        let fill = |buffer: &GuardedBuffer| {
            self.launches.fill_words(buffer.address, buffer.words(), POISON)
        };
        workspaces.iter().map(fill)
    }

    /// The operands that a kernel must not change, with the seeds of their values.
    fn inputs(&self) -> [FilledOperand; 2] {
        let (problem, seeds) = (&self.problem, self.seeds.operands());
        let counts = [problem.a_elements(), problem.b_elements()];
        let [lines_a, lines_b] = OperandLines::of(problem);
        let operands = [MatrixOperand::A(lines_a), MatrixOperand::B(lines_b)];
        let addresses = [self.a.address, self.b.address];
        [0, 1].map(|at| FilledOperand {
            operand: operands[at],
            address: addresses[at],
            count: counts[at] * problem.batch,
            seed: seeds[at],
        })
    }

    pub(super) fn buffers(&self) -> Vec<GuardedBuffer> {
        let of_epilogue = self.epilogue.iter().map(|(_, buffer)| *buffer);
        [self.a, self.b, self.c, self.references].into_iter().chain(of_epilogue).collect()
    }

    pub(super) fn uneven_scalars(&self) -> Scalars {
        uneven_scalars(self.problem.types.scalar())
    }
}
