//! Data movement of the first block of a kernel: which thread loads which element of A and B into
//! shared memory at each stage, the bank of the element, and the elements of C that each thread
//! computes.
//!
//! The picture is traced, so it works for any family: each operand element carries its position,
//! and the `cpu` device records every access.

use std::collections::BTreeSet;

use super::inspected::{InspectError, InspectedKernel};
use crate::cpu::{
    BlockSelection, CountingMode, GlobalMemory, KernelParameter, LaunchOptions, MemoryAccess,
    Movement, PtxModule, WriteTracking, launch,
};
use crate::model::Problem;
use crate::validate::HostFailure;
use crate::worker::{EpilogueAddresses, OperandAddresses, Scalars, bind};

/// Upper bits that mark words of A and B; the other 28 bits hold an element's position.
const MATRIX_MARKS: [u32; 2] = [0x1000_0000, 0x2000_0000];
const POSITION_BITS: u32 = 28;

/// Largest number of operations for which earlier launches are executed whole.
const MOST_OPERATIONS: f64 = (1_u64 << 28) as f64;

/// An input matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Factor {
    /// op(A), M x K.
    A,
    /// op(B), K x N.
    B,
}

/// An element that a thread loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoadedElement {
    /// Its matrix.
    pub factor: Factor,
    /// Its row.
    pub row: u64,
    /// Its column.
    pub column: u64,
    /// The thread, counted x first.
    pub thread: u32,
    /// Its bank in shared memory; `None` for an element in a register only.
    pub bank: Option<u32>,
    /// Whether the store had bank conflicts.
    pub conflict: bool,
}

/// Loads between two barriers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadStage {
    /// The loaded elements.
    pub loaded: BTreeSet<LoadedElement>,
}

/// An element of C and the thread that computes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ComputedElement {
    /// Its row.
    pub row: u64,
    /// Its column.
    pub column: u64,
    /// The thread.
    pub thread: u32,
}

/// Data movement of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// The kernel.
    pub entry: String,
    /// Threads of the block.
    pub threads: u32,
    /// Loads by stage, in order.
    pub stages: Vec<LoadStage>,
    /// Computed elements of C.
    pub computed: BTreeSet<ComputedElement>,
    /// Number of elements of A and B that the busiest thread reads from global memory, with
    /// repetitions.
    pub reads: u64,
}

/// Executes the first block of a kernel's last launch and traces it. `ptx` is the compiled text.
///
/// # Errors
/// [`InspectError`]: PTX or a plan that the `cpu` device does not execute, or operands whose
/// positions exceed 28 bits.
pub fn picture(subject: &InspectedKernel, ptx: &[u8]) -> Result<Picture, InspectError> {
    let unsupported = |what: String| InspectError::Execution(HostFailure::Unsupported(what));
    let (problem, plan) = (&subject.problem, &subject.rendered.plan);
    let operands = [problem.a_elements(), problem.b_elements()];
    if operands.iter().any(|elements| (elements * problem.batch) >> POSITION_BITS != 0)
        || problem.types.uniform().is_none_or(|dtype| dtype.bytes() != 4)
    {
        return Err(unsupported(format!(
            "{problem} is too large for a picture, or its elements are not 32 bits wide"
        )));
    }
    if plan.kernels.len() > 1 && problem.operations() > MOST_OPERATIONS {
        return Err(unsupported(format!(
            "a picture of a plan with {} kernels needs at most the operations of 512x512x512; {problem} has more",
            plan.kernels.len()
        )));
    }
    let program = subject.program(ptx)?;
    let mut memory = GlobalMemory::new(WriteTracking::Off);
    let (places, workspaces) = allocate(subject, &mut memory).map_err(HostFailure::Memory)?;
    let launches = bind(plan, 0, problem, places, &workspaces, Scalars::PLAIN);
    let launches = launches.map_err(|error| unsupported(error.to_string()))?;
    let mut accesses = Vec::new();
    for (at, wanted) in launches.iter().enumerate() {
        let last = at + 1 == launches.len();
        let options = LaunchOptions {
            counting: if last { CountingMode::Traced } else { CountingMode::Off },
            blocks: if last { BlockSelection::Selected(vec![[0; 3]]) } else { BlockSelection::All },
            ..LaunchOptions::default()
        };
        let parameters: Vec<KernelParameter> =
            wanted.arguments.iter().map(|argument| (*argument).into()).collect();
        let kernel = kernel(&program, &wanted.entry).map_err(unsupported)?;
        let extents = (wanted.grid, wanted.block);
        let dynamic = wanted.dynamic_shared_bytes;
        let counts = launch(kernel, extents, dynamic, &parameters, &memory, &options);
        accesses = counts.map_err(HostFailure::Launch)?.accesses;
    }
    let entry = launches.last().map(|launch| launch.entry.clone()).unwrap_or_default();
    let threads = launches.last().map_or(0, |launch| launch.block.iter().product());
    let decoder = AccessDecoder { problem, c: places.c, threads };
    Ok(decoder.picture(entry, &accesses))
}

fn kernel<'a>(program: &'a PtxModule, entry: &str) -> Result<&'a crate::cpu::PtxKernel, String> {
    program.kernel(entry).ok_or_else(|| format!("the program has no kernel `{entry}`"))
}

/// Allocates operands whose words hold their positions, and workspaces.
fn allocate(
    subject: &InspectedKernel,
    memory: &mut GlobalMemory,
) -> Result<(OperandAddresses, Vec<u64>), crate::cpu::MemoryError> {
    let problem = &subject.problem;
    let mut marked = |elements: u64, mark: u32| {
        let address = memory.allocate(4 * elements * problem.batch)?;
        memory.fill_with(address, elements * problem.batch, |at| mark + at as u32)?;
        Ok(address)
    };
    let a = marked(problem.a_elements(), MATRIX_MARKS[0])?;
    let b = marked(problem.b_elements(), MATRIX_MARKS[1])?;
    let c = memory.allocate(4 * problem.c_elements() * problem.batch)?;
    let workspaces = subject.rendered.plan.workspaces.iter();
    let workspaces = workspaces.map(|one| memory.allocate(one.bytes.next_multiple_of(4)));
    let workspaces = workspaces.collect::<Result<_, _>>()?;
    let mut epilogue = EpilogueAddresses::default();
    for (operation, bytes) in problem.epilogue_bytes() {
        epilogue.set(operation, memory.allocate(bytes)?);
    }
    Ok((OperandAddresses { a, b, c, epilogue }, workspaces))
}

/// Decodes elements and threads from addresses and words.
struct AccessDecoder<'a> {
    problem: &'a Problem,
    c: u64,
    threads: u32,
}

impl AccessDecoder<'_> {
    fn picture(&self, entry: String, accesses: &[MemoryAccess]) -> Picture {
        // A matrix that goes through shared memory is loaded where it is stored there; the other
        // one where it is read.
        let staged: BTreeSet<Factor> = (accesses.iter())
            .filter(|access| matches!(access.movement, Movement::SharedStore | Movement::Copy))
            .flat_map(|access| access.words.iter().flatten())
            .filter_map(|word| Some(self.element(*word)?.0))
            .collect();
        let loads = || accesses.iter().filter(|access| access.movement != Movement::GlobalStore);
        let times: BTreeSet<u32> = loads().map(|access| access.barriers).collect();
        let times: Vec<u32> = times.into_iter().collect();
        let mut stages = vec![LoadStage::default(); times.len()];
        for access in loads() {
            let stage = times.iter().position(|time| *time == access.barriers);
            if let Some(stage) = stage.and_then(|at| stages.get_mut(at)) {
                stage.loaded.extend(self.loaded(access, &staged));
            }
        }
        stages.retain(|stage| !stage.loaded.is_empty());
        Picture {
            entry,
            threads: self.threads,
            stages,
            computed: accesses.iter().flat_map(|access| self.computed(access)).collect(),
            reads: self.reads(accesses),
        }
    }

    /// The element of A or B that a word represents.
    fn element(&self, word: u32) -> Option<(Factor, u64, u64)> {
        let place = u64::from(word & ((1 << POSITION_BITS) - 1));
        let (factor, elements, width, transposed) = match word & !((1 << POSITION_BITS) - 1) {
            mark if mark == MATRIX_MARKS[0] => (
                Factor::A,
                self.problem.a_elements(),
                self.problem.lda(),
                self.problem.layout.a_transposed(),
            ),
            mark if mark == MATRIX_MARKS[1] => (
                Factor::B,
                self.problem.b_elements(),
                self.problem.ldb(),
                self.problem.layout.b_transposed(),
            ),
            _ => return None,
        };
        let (row, column) = (place / width, place % width);
        let inside = place < elements;
        inside.then_some(if transposed { (factor, column, row) } else { (factor, row, column) })
    }

    /// Threads of an access, with the address and the words of each.
    fn lanes<'a>(access: &'a MemoryAccess) -> impl Iterator<Item = (u32, u64, Vec<u32>)> + 'a {
        let taking_part = (0..32_usize).filter(|lane| access.lanes >> lane & 1 == 1);
        taking_part.map(|lane| {
            let words = access.words.iter().map(|words| words[lane]).collect();
            ((32 * access.warp + lane) as u32, access.addresses[lane], words)
        })
    }

    fn loaded(&self, access: &MemoryAccess, staged: &BTreeSet<Factor>) -> Vec<LoadedElement> {
        let shares = access.movement != Movement::GlobalLoad;
        let mut loaded = Vec::new();
        for (thread, address, words) in Self::lanes(access) {
            for (at, word) in (0..).zip(words) {
                let element = self.element(word);
                let Some((factor, row, column)) =
                    element.filter(|(factor, ..)| staged.contains(factor) == shares)
                else {
                    continue;
                };
                let bank = shares.then_some((address / 4 + at) as u32 % 32);
                let conflict = shares && access.conflicts > 0;
                loaded.push(LoadedElement { factor, row, column, thread, bank, conflict });
            }
        }
        loaded
    }

    fn computed(&self, access: &MemoryAccess) -> Vec<ComputedElement> {
        let mut computed = Vec::new();
        if access.movement == Movement::GlobalStore {
            let width = self.problem.ldc();
            for (thread, address, words) in Self::lanes(access) {
                let first = address.wrapping_sub(self.c) / 4;
                let places = (first..).take(words.len());
                let inside = places.filter(|place| *place < self.problem.c_elements());
                computed.extend(inside.map(|place| ComputedElement {
                    row: place / width,
                    column: place % width,
                    thread,
                }));
            }
        }
        computed
    }

    fn reads(&self, accesses: &[MemoryAccess]) -> u64 {
        let mut reads = vec![0_u64; self.threads as usize];
        for access in accesses {
            if matches!(access.movement, Movement::GlobalLoad | Movement::Copy) {
                for (thread, _, words) in Self::lanes(access) {
                    let elements = words.iter().filter(|word| self.element(**word).is_some());
                    if let Some(reads) = reads.get_mut(thread as usize) {
                        *reads += elements.count() as u64;
                    }
                }
            }
        }
        reads.into_iter().max().unwrap_or(0)
    }
}
