//! Data movement of one block, the first of the grid that multiplies: which thread loads which element of A and B into
//! shared memory at each stage, the bank of the element, and the elements of C that each thread
//! computes.
//!
//! The picture is traced, so it works for any family: each word of an operand carries its position,
//! and the `cpu` device records every access. A word has several elements of less than 32 bits; loads
//! of fewer bytes than a word are told by their address.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

use super::inspected::{InspectError, InspectedKernel};
use crate::cpu::{
    BlockSelection, CountingMode, GlobalMemory, KernelParameter, LaunchOptions, MemoryAccess,
    Movement, PtxModule, WriteTracking, launch,
};
use crate::model::{Dtype, Problem};
use crate::validate::HostFailure;
use crate::worker::{EpilogueAddresses, LaunchCommand, OperandAddresses, Scalars, bind};

/// Upper bits that mark words of A and B; the other 28 bits hold the word's position.
const MATRIX_MARKS: [u32; 2] = [0x1000_0000, 0x2000_0000];
const POSITION_BITS: u32 = 28;

/// Bytes of a word.
const WORD: u64 = 4;

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

/// Sums over a part of K, which another kernel or block adds up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialSums {
    /// Name of the workspace that receives them.
    pub workspace: String,
    /// Number of them that the busiest thread stores.
    pub stored: u64,
}

/// What a block has of the product, in ranges of indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockShare {
    /// Rows of C.
    pub rows: Vec<RangeInclusive<u64>>,
    /// Columns of C.
    pub columns: Vec<RangeInclusive<u64>>,
    /// Places along K.
    pub depth: Vec<RangeInclusive<u64>>,
}

/// Data movement of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// The kernel.
    pub entry: String,
    /// Blocks of the grid; the picture is of the first.
    pub grid: [u32; 3],
    /// Threads of the block.
    pub threads: u32,
    /// Loads by stage, in order.
    pub stages: Vec<LoadStage>,
    /// Computed elements of C.
    pub computed: BTreeSet<ComputedElement>,
    /// What the block stores in place of elements of C.
    pub partial: Option<PartialSums>,
    /// Number of elements of A and B that the busiest thread reads from global memory, with
    /// repetitions.
    pub reads: u64,
}

impl Picture {
    /// What the block has of the product: what it loads, and what it stores of C. Blocks of a cluster may load for each
    /// other.
    pub fn share(&self) -> BlockShare {
        let loaded = || self.stages.iter().flat_map(|stage| &stage.loaded);
        let of = |factor: Factor| loaded().filter(move |one| one.factor == factor);
        let (rows, columns) =
            (of(Factor::A).map(|one| one.row), of(Factor::B).map(|one| one.column));
        let depth = of(Factor::A).map(|one| one.column).chain(of(Factor::B).map(|one| one.row));
        BlockShare {
            rows: ranges(rows.chain(self.computed.iter().map(|one| one.row)).collect()),
            columns: ranges(columns.chain(self.computed.iter().map(|one| one.column)).collect()),
            depth: ranges(depth.collect()),
        }
    }
}

/// Ranges of consecutive numbers.
fn ranges(numbers: BTreeSet<u64>) -> Vec<RangeInclusive<u64>> {
    let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some(last) if last.end() + 1 == number => *last = *last.start()..=number,
            _ => ranges.push(number..=number),
        }
    }
    ranges
}

/// Traces the first block of the launch that multiplies: the first whose block reads elements of both A and B, or the
/// last. Launches before it, which prepare operands, are executed whole; what follows it is not executed. `ptx` is the
/// compiled text.
///
/// # Errors
/// [`InspectError`]: PTX or a plan that the `cpu` device does not execute.
/// [`InspectError::Picture`]: operands whose positions exceed 28 bits, or that a kernel converts on the way.
pub fn picture(subject: &InspectedKernel, ptx: &[u8]) -> Result<Picture, InspectError> {
    let unsupported = |what: String| InspectError::Execution(HostFailure::Unsupported(what));
    let undrawn = InspectError::Picture;
    let (problem, plan) = (&subject.problem, &subject.rendered.plan);
    let [a, b, _] = problem.operand_bytes().map(|bytes| bytes / problem.batch.max(1));
    let most = WORD << POSITION_BITS;
    if let Some((name, bytes)) = [("A", a), ("B", b)].into_iter().find(|(_, bytes)| *bytes > most) {
        return Err(undrawn(format!(
            "operands have at most {most} bytes, and {name} of {problem} has {bytes}: name a smaller \
             shape"
        )));
    }
    let program = subject.program(ptx)?;
    let mut memory = GlobalMemory::new(WriteTracking::Off);
    let (places, workspaces) = allocate(subject, &mut memory).map_err(HostFailure::Memory)?;
    // Words that hold positions are no values to round.
    let mut exact = plan.clone();
    exact.tensor_maps.iter_mut().for_each(|map| map.rounds_to = None);
    let launches = bind(&exact, 0, problem, places, &workspaces, Scalars::PLAIN);
    let launches = launches.map_err(|error| unsupported(error.to_string()))?;
    let execute = |wanted: &LaunchCommand, options: &LaunchOptions| {
        let parameters: Vec<KernelParameter> =
            wanted.arguments.iter().map(|argument| (*argument).into()).collect();
        let kernel = kernel(&program, &wanted.entry).map_err(unsupported)?;
        let extents = (wanted.grid, wanted.block);
        let dynamic = wanted.dynamic_shared_bytes;
        let counts = launch(kernel, extents, dynamic, &parameters, &memory, options);
        counts.map_err(|error| InspectError::Execution(HostFailure::Launch(error)))
    };
    let first_block = LaunchOptions {
        counting: CountingMode::Traced,
        blocks: BlockSelection::Selected(vec![[0; 3]]),
        ..LaunchOptions::default()
    };
    for (at, wanted) in launches.iter().enumerate() {
        let accesses = execute(wanted, &first_block)?.accesses;
        let threads = wanted.block.iter().product();
        let decoder = AccessDecoder { problem, places, threads };
        if !decoder.multiplies(&accesses) && at + 1 < launches.len() {
            execute(wanted, &LaunchOptions::default())?;
            continue;
        }
        if decoder.loses_marks(&accesses) {
            return Err(undrawn(format!(
                "{} brings elements of {problem} into shared memory one at a time or converted, and these do not carry \
                 their positions",
                subject.family
            )));
        }
        let own = plan.workspaces.iter().zip(&workspaces);
        let spaces =
            own.map(|(space, address)| (space.name.as_str(), *address..address + space.bytes));
        return Ok(Picture {
            partial: decoder.partial_sums(&accesses, spaces),
            ..decoder.picture(wanted, &accesses)
        });
    }
    Err(unsupported(format!("{} launches no kernel", subject.family)))
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
        // Words of further products of a batch, which the first block does not read, have no mark.
        let word = |at: u64| if at >> POSITION_BITS == 0 { mark + at as u32 } else { 0 };
        memory.fill_with(address, words, word)?;
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
    /// Whether a block reads elements of A and of B.
    fn multiplies(&self, accesses: &[MemoryAccess]) -> bool {
        let reads = accesses.iter().filter(|access| access.movement != Movement::GlobalStore);
        let mut read = BTreeSet::new();
        for access in reads {
            for (_, address, words) in Self::lanes(access) {
                read.extend(words.iter().filter_map(|word| Some(self.marked(*word)?.0)));
                if u64::from(access.bytes) < WORD && access.movement == Movement::GlobalLoad {
                    read.extend(self.element_at(address).map(|(factor, ..)| factor));
                }
            }
        }
        read.len() == 2
    }

    /// Sums that a block stores into a workspace in place of C.
    fn partial_sums<'a>(
        &self,
        accesses: &[MemoryAccess],
        mut spaces: impl Iterator<Item = (&'a str, Range<u64>)>,
    ) -> Option<PartialSums> {
        let stores = || accesses.iter().filter(|access| access.movement == Movement::GlobalStore);
        if stores().any(|access| !self.computed(access).is_empty()) {
            return None;
        }
        let lanes =
            || stores().flat_map(|access| Self::lanes(access).map(|lane| (access.bytes, lane)));
        let (workspace, place) = spaces
            .find(|(_, place)| lanes().any(|(_, (_, address, _))| place.contains(&address)))?;
        let mut stored: BTreeMap<u32, u64> = BTreeMap::new();
        for (bytes, (thread, address, _)) in lanes() {
            if place.contains(&address) {
                *stored.entry(thread).or_default() += u64::from(bytes) / WORD;
            }
        }
        let stored = stored.into_values().max().unwrap_or(0);
        Some(PartialSums { workspace: workspace.to_owned(), stored })
    }

    fn picture(&self, launch: &LaunchCommand, accesses: &[MemoryAccess]) -> Picture {
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
            let stage = times.binary_search(&access.barriers).ok();
            if let Some(stage) = stage.and_then(|at| stages.get_mut(at)) {
                stage.loaded.extend(self.loaded(access, &staged));
            }
        }
        stages.retain(|stage| !stage.loaded.is_empty());
        Picture {
            entry: launch.entry.clone(),
            grid: launch.grid,
            partial: None,
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
