//! What a launch did: instructions by class, and what every access to memory cost and moved.

use std::collections::BTreeMap;

use super::error::SourceLine;
use super::trace::Access;

/// What kind of work an instruction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InstructionClass {
    /// Fused multiply-adds of f32.
    Fma,
    /// Other floating-point arithmetic.
    Float,
    /// Integer arithmetic, comparisons, moves and conversions.
    Integer,
    /// Loads from global memory.
    GlobalLoad,
    /// Stores to global memory.
    GlobalStore,
    /// Loads from shared memory, `ldmatrix` among them.
    SharedLoad,
    /// Stores to shared memory.
    SharedStore,
    /// Asynchronous copies from global to shared memory.
    AsyncCopy,
    /// Accesses to local memory, parameters and constants.
    OtherMemory,
    /// Atomic operations.
    Atomic,
    /// Matrix products.
    Matrix,
    /// Shuffles and votes.
    Warp,
    /// Barriers, fences and waits.
    Barrier,
    /// Branches and exits.
    Control,
}

impl InstructionClass {
    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fma => "fma",
            Self::Float => "float",
            Self::Integer => "integer",
            Self::GlobalLoad => "global load",
            Self::GlobalStore => "global store",
            Self::SharedLoad => "shared load",
            Self::SharedStore => "shared store",
            Self::AsyncCopy => "async copy",
            Self::OtherMemory => "other memory",
            Self::Atomic => "atomic",
            Self::Matrix => "matrix",
            Self::Warp => "warp",
            Self::Barrier => "barrier",
            Self::Control => "control",
        }
    }
}

/// What accesses to memory cost and moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryCounts {
    /// Instructions of a warp that reached memory.
    pub requests: u64,
    /// Distinct sectors of 32 bytes of global memory, summed over requests.
    pub sectors: u64,
    /// Passes over the 32 banks of shared memory.
    pub wavefronts: u64,
    /// Those of them that a layout without conflicts would not need.
    pub bank_conflicts: u64,
    /// Bytes that lanes asked for.
    pub bytes_useful: u64,
    /// Bytes that moved: whole sectors, and for shared memory whole wavefronts.
    pub bytes_moved: u64,
}

impl MemoryCounts {
    /// Adds what others did.
    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.sectors += other.sectors;
        self.wavefronts += other.wavefronts;
        self.bank_conflicts += other.bank_conflicts;
        self.bytes_useful += other.bytes_useful;
        self.bytes_moved += other.bytes_moved;
    }
}

/// One kind of access of one source line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessSite {
    /// The line, where the compiler recorded it.
    pub source: Option<SourceLine>,
    /// The kind of access.
    pub class: InstructionClass,
}

/// What a launch did. Without counting, only [`Counts::blocks`] is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// Blocks executed.
    pub blocks: u64,
    /// Instructions that warps executed, by class.
    pub instructions: BTreeMap<InstructionClass, u64>,
    /// Accesses by kind.
    pub memory: BTreeMap<InstructionClass, MemoryCounts>,
    /// Accesses by source line and kind.
    pub by_line: BTreeMap<AccessSite, MemoryCounts>,
    /// Every access but loads from shared memory, warp by warp as they took turns; nothing unless
    /// that was asked for.
    pub accesses: Vec<Access>,
}

impl Counts {
    /// The accesses of a kind; zeros where there were none.
    pub fn of(&self, class: InstructionClass) -> MemoryCounts {
        self.memory.get(&class).copied().unwrap_or_default()
    }

    pub(super) fn add_instructions(&mut self, class: InstructionClass, count: u64) {
        *self.instructions.entry(class).or_default() += count;
    }

    pub(super) fn add_accesses(&mut self, site: AccessSite, counts: MemoryCounts) {
        self.memory.entry(site.class).or_default().add(counts);
        self.by_line.entry(site).or_default().add(counts);
    }
}

/// The counters of one step, as a block runs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StepCounts {
    pub(super) executed: u64,
    pub(super) memory: MemoryCounts,
}

impl StepCounts {
    pub(super) fn add(&mut self, other: &Self) {
        self.executed += other.executed;
        self.memory.add(other.memory);
    }

    /// Counts a request to global memory.
    pub(super) fn global(&mut self, addresses: &[u64; 32], mask: u32, bytes: u32) {
        let mut sectors = [0; 64];
        let mut found = 0;
        for lane in lanes(mask) {
            let first = addresses[lane] / 32;
            let last = (addresses[lane] + u64::from(bytes) - 1) / 32;
            for sector in [first, last] {
                if !sectors[..found].contains(&sector) {
                    sectors[found] = sector;
                    found += 1;
                }
            }
        }
        self.memory.requests += 1;
        self.memory.sectors += found as u64;
        self.memory.bytes_useful += u64::from(bytes) * u64::from(mask.count_ones());
        self.memory.bytes_moved += 32 * found as u64;
    }

    /// Counts an asynchronous copy: what is read, and the banks that it is written to.
    pub(super) fn copy(
        &mut self,
        from: &[u64; 32],
        to: &[u64; 32],
        (active, reading): (u32, u32),
        bytes: u32,
    ) {
        if reading != 0 {
            self.global(from, reading, bytes);
        }
        let mut written = Self::default();
        written.shared(to, active, bytes);
        self.memory.wavefronts += written.memory.wavefronts;
        self.memory.bank_conflicts += written.memory.bank_conflicts;
    }

    /// Counts a copy of the copy engine: one request, whatever it moves. Shared memory is written in
    /// whole rows of banks.
    pub(super) fn copied(&mut self, sectors: u64, read: u64, written: u64) {
        self.memory.requests += 1;
        self.memory.sectors += sectors;
        self.memory.wavefronts += written.div_ceil(128);
        self.memory.bytes_useful += read;
        self.memory.bytes_moved += 32 * sectors;
    }

    /// Counts a request to shared memory.
    ///
    /// Of accesses of 8 bytes the hardware serves half a warp at a time, of 16 bytes a quarter.
    /// Two neighbouring groups are served together where each lane shares its address with its
    /// neighbour, or each with its neighbour but one: this rule gives the wavefronts that an H200
    /// counts for `LDS.128` under four maps of lanes to addresses (4, 2, 2 and 2), and that one
    /// address for all lanes costs one.
    pub(super) fn shared(&mut self, addresses: &[u64; 32], mask: u32, bytes: u32) {
        if mask == 0 {
            return;
        }
        let mut wavefronts = 0;
        let mut needed = 0;
        for (first, last) in groups(addresses, mask, bytes) {
            let group = mask & group_mask(first, last);
            if group != 0 {
                needed += 1;
                wavefronts += passes(addresses, group, bytes);
            }
        }
        self.memory.requests += 1;
        self.memory.wavefronts += wavefronts;
        self.memory.bank_conflicts += wavefronts - needed;
        self.memory.bytes_useful += u64::from(bytes) * u64::from(mask.count_ones());
        self.memory.bytes_moved += 128 * wavefronts;
    }
}

/// The ranges of lanes whose accesses are served together.
fn groups(addresses: &[u64; 32], mask: u32, bytes: u32) -> Vec<(usize, usize)> {
    let width = match bytes {
        0..=4 => 32,
        5..=8 => 16,
        _ => 8,
    };
    if width == 32 || uniform(addresses, mask) {
        return vec![(0, 32)];
    }
    let mut groups = Vec::with_capacity(4);
    for first in (0..32).step_by(2 * width) {
        let (middle, last) = (first + width, first + 2 * width);
        if shares_addresses(addresses, mask, (first, last)) {
            groups.push((first, last));
        } else {
            groups.extend([(first, middle), (middle, last)]);
        }
    }
    groups
}

/// The lanes of a mask.
pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let lane = rest.trailing_zeros();
            rest &= rest - 1;
            lane as usize
        })
    })
}

fn group_mask(first: usize, last: usize) -> u32 {
    ((1_u64 << last) - (1_u64 << first)) as u32
}

fn uniform(addresses: &[u64; 32], mask: u32) -> bool {
    let first = addresses[mask.trailing_zeros() as usize & 31];
    lanes(mask).all(|lane| addresses[lane] == first)
}

fn shares_addresses(addresses: &[u64; 32], mask: u32, (first, last): (usize, usize)) -> bool {
    let group = mask & group_mask(first, last);
    [1, 2].into_iter().any(|step| {
        lanes(group).all(|lane| {
            let other = lane ^ step;
            group >> other & 1 == 0 || addresses[lane] == addresses[other]
        })
    })
}

/// How often the banks must be passed over: the most distinct words that fall into one bank.
fn passes(addresses: &[u64; 32], group: u32, bytes: u32) -> u64 {
    let mut words: Vec<u64> = lanes(group)
        .flat_map(|lane| addresses[lane] / 4..=(addresses[lane] + u64::from(bytes) - 1) / 4)
        .collect();
    words.sort_unstable();
    words.dedup();
    let mut banks = [0_u64; 32];
    for word in words {
        banks[word as usize % 32] += 1;
    }
    banks.into_iter().max().unwrap_or(0)
}
