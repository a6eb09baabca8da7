//! Atomic operations on global and shared memory.

use std::sync::atomic::{AtomicU32, Ordering};

use super::address_space::{count, split};
use super::bounds::{check_alignment, find_writable};
use super::cluster_state::ClusterState;
use super::warp::Warp;
use crate::cpu::access_record::GlobalAccess;
use crate::cpu::allocation::Allocation;
use crate::cpu::checks::{ExecutionCheck, LaneViolation, ViolationKind};
use crate::cpu::lanes::lanes;
use crate::cpu::operation::{Address, AtomicUpdate, Register};
use crate::cpu::shadow::SharedAccess;
use crate::cpu::types::Space;

impl Warp {
    pub(super) fn atomic<const CHECKED: bool, const COUNTED: bool>(
        &mut self,
        cluster: &mut ClusterState<'_>,
        at: usize,
        (space, address, alignment): (Space, Address, u32),
        update: AtomicUpdate,
        (a, b, d): (Register, Option<Register>, Option<Register>),
        active: u32,
    ) -> Result<(), LaneViolation> {
        let mut addresses = self.addresses(address);
        let a = self.registers.value(a);
        let b = b.map_or([0; 32], |b| self.registers.value(b));
        let bytes = match update {
            AtomicUpdate::Half(_) => 2,
            AtomicUpdate::Word(_) => 4,
            AtomicUpdate::Long(_) => 8,
        };
        let mut old = [0; 32];
        for (space, mask) in split(space, &mut addresses, active) {
            let accessed = (space, &addresses, mask);
            self.note_global::<CHECKED>(cluster, GlobalAccess::Write, accessed, bytes)?;
            for lane in lanes(mask) {
                let address = addresses[lane];
                check_alignment(space, lane, address, alignment)?;
                old[lane] = if matches!(space, Space::Shared | Space::Cluster) {
                    let place =
                        self.find_shared::<CHECKED>(cluster, space, lane, address, bytes)?;
                    if CHECKED {
                        let place = (place, bytes);
                        cluster.shadow.touch(
                            &self.clocks,
                            self.position.number,
                            lane,
                            place,
                            SharedAccess::Update,
                        )?;
                    }
                    update_shared(&mut cluster.shared, place, update, (a[lane], b[lane]))
                } else {
                    let (allocation, offset) = find_writable(cluster, lane, address, bytes)?;
                    let unwritten =
                        CHECKED && cluster.launch.options.checks.has(ExecutionCheck::Unwritten);
                    if unwritten && !allocation.is_written(offset, bytes) {
                        let text = format!("{bytes} unwritten bytes of global memory are updated");
                        return Err(LaneViolation::access(
                            ViolationKind::Unwritten,
                            lane,
                            address,
                            text,
                        ));
                    }
                    allocation.mark(offset, bytes);
                    update_global(cluster, allocation, offset, update, (a[lane], b[lane]))
                };
            }
            if COUNTED {
                count(cluster, at, space, &addresses, mask, bytes);
            }
        }
        if let Some(d) = d {
            self.registers.set_value(d, &old, active);
        }
        Ok(())
    }
}

fn update_shared(
    shared: &mut [u32],
    address: u64,
    update: AtomicUpdate,
    (a, b): (u64, u64),
) -> u64 {
    let at = address as usize / 4;
    match (update, shared.get_mut(at..)) {
        (AtomicUpdate::Half(update), Some([word, ..])) => {
            let (old, new) = updated_half(*word, address, update, (a, b));
            *word = new;
            old.into()
        }
        (AtomicUpdate::Word(update), Some([word, ..])) => {
            let old = *word;
            *word = update(old, a as u32, b as u32);
            old.into()
        }
        (AtomicUpdate::Long(update), Some([low, high, ..])) => {
            let old = u64::from(*low) | u64::from(*high) << 32;
            let new = update(old, a, b);
            (*low, *high) = (new as u32, (new >> 32) as u32);
            old
        }
        // Bounds were checked before.
        _ => 0,
    }
}

/// Old value of half of a word, and the word with the half updated.
fn updated_half(
    word: u32,
    address: u64,
    update: fn(u32, u32, u32) -> u32,
    (a, b): (u64, u64),
) -> (u32, u32) {
    let shift = 8 * (address as u32 & 2);
    let old = word >> shift & 0xffff;
    let new = update(old, a as u32, b as u32) & 0xffff;
    (old, word & !(0xffff << shift) | new << shift)
}

fn update_global(
    cluster: &mut ClusterState<'_>,
    allocation: &Allocation,
    offset: u64,
    update: AtomicUpdate,
    (a, b): (u64, u64),
) -> u64 {
    let (old, new) = match (update, allocation.words(offset & !3)) {
        (AtomicUpdate::Half(update), [word, ..]) => {
            let of = |old| updated_half(old, offset, update, (a, b));
            let old = replace(word, |old| of(old).1);
            let shift = 8 * (offset as u32 & 2);
            (of(old).0.into(), u64::from(of(old).1 >> shift & 0xffff))
        }
        (AtomicUpdate::Word(update), [word, ..]) => {
            let of = |old| update(old, a as u32, b as u32);
            let old = replace(word, of);
            (old.into(), of(old).into())
        }
        (AtomicUpdate::Long(update), [low, high, ..]) => cluster.launch.memory.update_long(|| {
            let old = u64::from(low.load(Ordering::Acquire))
                | u64::from(high.load(Ordering::Acquire)) << 32;
            let new = update(old, a, b);
            low.store(new as u32, Ordering::Release);
            high.store((new >> 32) as u32, Ordering::Release);
            (old, new)
        }),
        // Bounds were checked before.
        _ => (0, 0),
    };
    // An update without effect may poll for the work of another block.
    cluster.polls += u64::from(old == new);
    old
}

/// Replaces a word atomically and returns its old value.
fn replace(word: &AtomicU32, new: impl Fn(u32) -> u32) -> u32 {
    match word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(new(old))) {
        Ok(old) | Err(old) => old,
    }
}
