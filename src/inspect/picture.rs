//! Data movement of the first block of a kernel: which thread loads which element of A and B into
//! shared memory at each stage, the bank of the element, and the elements of C that each thread
//! computes.
//!
//! The picture is traced, so it works for any family: each word of an operand carries its position,
//! and the `cpu` device records every access. A word has several elements of less than 32 bits; loads
//! of fewer bytes than a word are told by their address.

use std::collections::BTreeSet;

use super::inspected::{InspectError, InspectedKernel};
use crate::cpu::{
    BlockSelection, CountingMode, GlobalMemory, KernelParameter, LaunchOptions, MemoryAccess,
    Movement, PtxModule, WriteTracking, launch,
};
use crate::model::{Dtype, Problem};
use crate::validate::HostFailure;
use crate::worker::{EpilogueAddresses, OperandAddresses, Scalars, bind};

/// Upper bits that mark words of A and B; the other 28 bits hold the word's position.
const MATRIX_MARKS: [u32; 2] = [0x1000_0000, 0x2000_0000];
const POSITION_BITS: u32 = 28;

/// Bytes of a word.
const WORD: u64 = 4;

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
    let [a, b, _] = problem.operand_bytes();
    if [a, b].iter().any(|bytes| (bytes / WORD) >> POSITION_BITS != 0) {
        return Err(unsupported(format!("{problem} is too large for a picture")));
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
    let decoder = AccessDecoder { problem, places, threads };
    if decoder.loses_marks(&accesses) {
        return Err(unsupported(format!(
            "{} brings elements of {problem} into shared memory one at a time or converted, and these do not carry \
             their positions",
            subject.family
        )));
    }
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
    let [a, b, c] = problem.operand_bytes();
    let mut marked = |bytes: u64, mark: u32| {
        let words = bytes.div_ceil(WORD);
        let address = memory.allocate(WORD * words)?;
        memory.fill_with(address, words, |at| mark + at as u32)?;
        Ok(address)
    };
    let a = marked(a, MATRIX_MARKS[0])?;
    let b = marked(b, MATRIX_MARKS[1])?;
    let c = memory.allocate(c)?;
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
    places: OperandAddresses,
    threads: u32,
}

impl AccessDecoder<'_> {
    fn picture(&self, entry: String, accesses: &[MemoryAccess]) -> Picture {
        // A matrix that goes through shared memory is loaded where it is stored there; the other
        // one where it is read.
        let staged: BTreeSet<Factor> = (accesses.iter())
            .filter(|access| matches!(access.movement, Movement::SharedStore | Movement::Copy))
            .flat_map(|access| access.words.iter().flatten())
            .filter_map(|word| Some(self.marked(*word)?.0))
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

    /// The matrix and the position of a word.
    fn marked(&self, word: u32) -> Option<(Factor, u64)> {
        let place = u64::from(word & ((1 << POSITION_BITS) - 1));
        let mark = word & !((1 << POSITION_BITS) - 1);
        let factors = [Factor::A, Factor::B];
        let factor = factors.into_iter().zip(MATRIX_MARKS).find(|(_, own)| *own == mark)?.0;
        Some((factor, place))
    }

    /// The elements of A or B that a word holds.
    fn elements(&self, word: u32) -> Vec<(Factor, u64, u64)> {
        let Some((factor, place)) = self.marked(word) else { return Vec::new() };
        let count = WORD / self.dtype(factor).bytes();
        (place * count..(place + 1) * count).filter_map(|at| self.element(factor, at)).collect()
    }

    /// Row and column of an element of the first product.
    fn element(&self, factor: Factor, place: u64) -> Option<(Factor, u64, u64)> {
        let (problem, layout) = (self.problem, self.problem.layout);
        let (elements, width, transposed) = match factor {
            Factor::A => (problem.a_elements(), problem.lda(), layout.a_transposed()),
            Factor::B => (problem.b_elements(), problem.ldb(), layout.b_transposed()),
        };
        let (row, column) = (place / width, place % width);
        let inside = place < elements;
        inside.then_some(if transposed { (factor, column, row) } else { (factor, row, column) })
    }

    fn dtype(&self, factor: Factor) -> Dtype {
        match factor {
            Factor::A => self.problem.types.a,
            Factor::B => self.problem.types.b,
        }
    }

    /// The element that a load of less than a word reads.
    fn element_at(&self, address: u64) -> Option<(Factor, u64, u64)> {
        [(Factor::A, self.places.a), (Factor::B, self.places.b)].into_iter().find_map(
            |(factor, base)| {
                self.element(factor, address.checked_sub(base)? / self.dtype(factor).bytes())
            },
        )
    }

    /// Whether threads store words into shared memory that are no words of the operands: elements that are shorter than
    /// a word, loaded alone or converted.
    fn loses_marks(&self, accesses: &[MemoryAccess]) -> bool {
        if [Factor::A, Factor::B].iter().all(|factor| self.dtype(*factor).bytes() >= WORD) {
            return false;
        }
        let words = |wanted: Movement| {
            let own = accesses.iter().filter(move |access| access.movement == wanted);
            own.flat_map(|access| {
                let is_short = u64::from(access.bytes) < WORD;
                let lanes = Self::lanes(access);
                lanes.flat_map(move |(thread, _, words)| {
                    words.into_iter().map(move |word| (thread, word, is_short))
                })
            })
        };
        let loaded: BTreeSet<(u32, u32)> = words(Movement::GlobalLoad)
            .filter(|(.., is_short)| !is_short)
            .map(|(thread, word, _)| (thread, word))
            .collect();
        // Zeros stand for what is outside of an operand.
        words(Movement::SharedStore).any(|(thread, word, is_short)| {
            word != 0 && (is_short || !loaded.contains(&(thread, word)))
        })
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
                let is_short = u64::from(access.bytes) < WORD;
                let elements = match access.movement {
                    Movement::GlobalLoad if is_short => {
                        self.element_at(address).into_iter().collect()
                    }
                    _ => self.elements(word),
                };
                let own =
                    elements.into_iter().filter(|(factor, ..)| staged.contains(factor) == shares);
                let bank = shares.then_some((address / WORD + at) as u32 % 32);
                let conflict = shares && access.conflicts > 0;
                loaded.extend(own.map(|(factor, row, column)| LoadedElement {
                    factor,
                    row,
                    column,
                    thread,
                    bank,
                    conflict,
                }));
            }
        }
        loaded
    }

    fn computed(&self, access: &MemoryAccess) -> Vec<ComputedElement> {
        let mut computed = Vec::new();
        if access.movement == Movement::GlobalStore {
            let (width, bytes) = (self.problem.ldc(), self.problem.types.d.bytes());
            for (thread, address, _) in Self::lanes(access) {
                let first = address.wrapping_sub(self.places.c) / bytes;
                let places = first..first.saturating_add(u64::from(access.bytes) / bytes);
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
                for (thread, address, words) in Self::lanes(access) {
                    let elements = match u64::from(access.bytes) < WORD {
                        true => self.element_at(address).iter().count(),
                        false => words.iter().map(|word| self.elements(*word).len()).sum(),
                    };
                    if let Some(reads) = reads.get_mut(thread as usize) {
                        *reads += elements as u64;
                    }
                }
            }
        }
        reads.into_iter().max().unwrap_or(0)
    }
}
