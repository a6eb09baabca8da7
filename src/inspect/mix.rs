//! Instruction mix: instructions and traffic per thousand multiply-adds of a warp, which makes
//! tiles of different sizes comparable.

use std::collections::BTreeMap;

use super::memory::Traffic;
use crate::cpu::{InstructionClass, MemoryCounts};
use crate::model::Problem;

/// Instructions and traffic per thousand multiply-adds of a warp.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InstructionMix {
    /// Instructions by class.
    pub instructions: BTreeMap<InstructionClass, f64>,
    /// Sectors of global memory.
    pub sectors: f64,
    /// Wavefronts of shared memory.
    pub wavefronts: f64,
    /// Wavefronts caused by bank conflicts.
    pub bank_conflicts: f64,
}

impl InstructionMix {
    /// Sums up the launches of a kernel. Blocks that were not executed count as the average of
    /// those that were.
    pub fn of(launches: &[Traffic], problem: &Problem) -> Self {
        let thousands = problem.operations() / 2.0 / 32.0 / 1000.0;
        let mut mix = Self::default();
        for launch in launches {
            let whole = |count| launch.per_block(count) * launch.blocks as f64 / thousands;
            for (class, count) in &launch.instructions {
                *mix.instructions.entry(*class).or_default() += whole(*count);
            }
            let sum =
                |figure: fn(&MemoryCounts) -> u64| whole(launch.memory.values().map(figure).sum());
            mix.sectors += sum(|counts| counts.sectors);
            mix.wavefronts += sum(|counts| counts.wavefronts);
            mix.bank_conflicts += sum(|counts| counts.bank_conflicts);
        }
        mix
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

    #[test]
    fn executed_blocks_represent_the_others() {
        // 32 * 1000 multiply-adds of threads are a thousand of a warp.
        let problem = Problem::new("32x1000x4".parse().unwrap(), Dtype::F32);
        let counts = MemoryCounts { sectors: 3, ..MemoryCounts::default() };
        let instructions: BTreeMap<_, _> =
            [(InstructionClass::Fma, 1000), (InstructionClass::Integer, 100)].into();
        let launch = Traffic {
            entry: "gemm".to_owned(),
            executed: 2,
            blocks: 8,
            instructions,
            memory: [(InstructionClass::GlobalLoad, counts)].into(),
            lines: Vec::new(),
        };
        let mix = InstructionMix::of(&[launch], &problem);
        assert_eq!(mix.instructions[&InstructionClass::Fma], 1000.0);
        assert_eq!(mix.instructions[&InstructionClass::Integer], 100.0);
        assert_eq!((mix.sectors, mix.wavefronts), (3.0, 0.0));
    }
}
