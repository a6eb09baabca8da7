//! Tensor stores of the copy engine: boxes of a tensor map from shared to global memory, in bulk groups of a thread.
//!
//! A store reads at issue, the earliest time that PTX allows, and the shadow memory reports writes before its wait. It
//! writes at the wait for its group or at the end of the warp, the latest time, unless too many bytes wait.

use std::sync::atomic::{AtomicU32, Ordering};

use super::bounds::{check_alignment, find_writable};
use super::bulk_stores::PendingStore;
use super::cluster_state::ClusterState;
use super::tensor_box::{BOX_ALIGNMENT, permute, violation};
use super::warp::{SimtFrame, Warp};
use crate::cpu::access_record::GlobalAccess;
use crate::cpu::allocation::Allocation;
use crate::cpu::async_reads::{AsyncEngine, engine_index};
use crate::cpu::checks::{ExecutionCheck, LaneViolation, ViolationKind};
use crate::cpu::lanes::lanes;
use crate::cpu::numeric::addition::{add_bf16_pair, add_f16_pair, add_flushed};
use crate::cpu::operation::{StoreEffect, StoreWait, TensorStore};
use crate::cpu::types::Space;
use crate::model::Dtype;

/// Bytes of a warp's stores beyond which all are written before their wait, which PTX allows too.
const MAX_BYTES: usize = 1 << 20;

/// Limit of a warp's stores that have not been waited for.
const MAX_STORES: usize = 1 << 14;

impl Warp {
    /// `cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor` to global memory.
    pub(super) fn store_tensor<const CHECKED: bool, const COUNTED: bool>(
        &mut self,
        cluster: &mut ClusterState<'_>,
        at: usize,
        store: &TensorStore,
        active: u32,
    ) -> Result<(), LaneViolation> {
        let [from, maps] = [store.from, store.map].map(|address| self.addresses(address));
        for lane in lanes(active) {
            let tensor = self.tensor_box(cluster, (lane, maps[lane]), &store.coordinates)?;
            let (bytes, dtype) = (tensor.bytes(), tensor.map.dtype);
            if store.effect == StoreEffect::Add && dtype == Dtype::I8 {
                return Err(violation(
                    lane,
                    maps[lane],
                    "a tensor store cannot add elements of 8 bits",
                ));
            }
            if let Some(to) = tensor.map.rounds_to {
                let text = format!(
                    "a tensor store through a map that rounds elements to {to}: the elements that it writes are unknown"
                );
                return Err(violation(lane, maps[lane], text));
            }
            check_alignment(Space::Shared, lane, from[lane], BOX_ALIGNMENT)?;
            let place =
                self.find_shared::<CHECKED>(cluster, Space::Shared, lane, from[lane], bytes)?;
            self.stores.started += 1;
            let clock = self.stores.started;
            if CHECKED {
                cluster.shadow.touch_async(
                    &self.clocks,
                    (self.position.number, lane),
                    (place, bytes),
                    (AsyncEngine::Stores, clock),
                )?;
            }
            let words = cluster.shared.get(place as usize / 4..).unwrap_or_default();
            let words = words.get(..bytes as usize / 4).unwrap_or_default();
            // A swizzle is its own inverse.
            let words = permute(words, tensor.map.swizzle, from[lane]);
            let contents: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
            self.note_box::<CHECKED>(cluster, GlobalAccess::Write, lane, &tensor)?;
            let mut rows = Vec::new();
            let mut sectors = 0;
            for row in tensor.rows() {
                find_writable(cluster, lane, row.address, row.bytes as u32)?;
                let part = contents.get(row.place..row.place + row.bytes).unwrap_or_default();
                rows.push((row.address, part.to_vec()));
                sectors += (row.address + row.bytes as u64 - 1) / 32 - row.address / 32 + 1;
            }
            if COUNTED {
                let written = rows.iter().map(|(_, bytes)| bytes.len() as u64).sum();
                cluster.counts[at].copied(sectors, written, u64::from(bytes));
            }
            cluster.spend(u64::from(bytes / 512));
            self.stores.pending.push(PendingStore {
                lane,
                step: at,
                group: self.stores.committed[lane],
                clock,
                was_read: false,
                effect: store.effect,
                dtype,
                rows,
            });
            self.stores.bytes += bytes as usize;
            self.write_if_many::<CHECKED>(cluster)?;
            if self.stores.pending.len() > MAX_STORES {
                let text =
                    format!("more than {MAX_STORES} tensor stores of a warp are never waited for");
                return Err(violation(lane, maps[lane], text));
            }
        }
        Ok(())
    }

    /// Writes the stores if too many wait. Those whose reads are complete need no further wait.
    fn write_if_many<const CHECKED: bool>(
        &mut self,
        cluster: &ClusterState<'_>,
    ) -> Result<(), LaneViolation> {
        if self.stores.bytes <= MAX_BYTES && self.stores.pending.len() <= MAX_STORES {
            return Ok(());
        }
        for store in &mut self.stores.pending {
            write::<CHECKED>(store, cluster)?;
            store.rows.clear();
        }
        self.stores.pending.retain(|store| !store.was_read);
        self.stores.bytes = 0;
        Ok(())
    }

    /// `cp.async.bulk.wait_group`: waits until `left` groups are left.
    pub(super) fn wait_for_stores<const CHECKED: bool>(
        &mut self,
        cluster: &ClusterState<'_>,
        active: u32,
        (left, what): (u32, StoreWait),
    ) -> Result<(), LaneViolation> {
        let committed = self.stores.committed;
        let is_done = |store: &PendingStore| {
            active >> store.lane & 1 == 1
                && store.group.saturating_add(left) < committed[store.lane]
        };
        match what {
            StoreWait::Reads => {
                let done = self.stores.pending.iter_mut().filter(|store| is_done(store));
                done.for_each(|store| store.was_read = true);
            }
            StoreWait::Writes => {
                let (done, left): (Vec<_>, Vec<_>) =
                    std::mem::take(&mut self.stores.pending).into_iter().partition(is_done);
                self.stores.pending = left;
                if self.stores.pending.is_empty() {
                    self.stores.bytes = 0;
                }
                done.iter().try_for_each(|store| write::<CHECKED>(store, cluster))?;
            }
        }
        let number = self.position.number;
        let engine = engine_index(cluster.warps(), AsyncEngine::Stores, number);
        self.clocks.observe(engine, self.stores.reads_completed());
        Ok(())
    }

    /// Completes all stores at the end of the warp.
    pub(super) fn finish_stores<const CHECKED: bool>(
        &mut self,
        cluster: &ClusterState<'_>,
    ) -> Result<(), LaneViolation> {
        let checked = CHECKED && cluster.launch.options.checks.has(ExecutionCheck::Race);
        for store in std::mem::take(&mut self.stores.pending) {
            if checked && !store.was_read {
                // The violation is reported at the store.
                let at = store.step as u32 + 1;
                self.stack.push(SimtFrame { at, lanes: 0, reconvergence: u32::MAX });
                let text = "the warp ends while a bulk store may still read shared memory; no \
                            `cp.async.bulk.wait_group` for it is before the end";
                return Err(LaneViolation {
                    lane: Some(store.lane),
                    ..LaneViolation::of_warp(ViolationKind::Race, text)
                });
            }
            write::<CHECKED>(&store, cluster)?;
        }
        Ok(())
    }
}

/// Writes the rows of a store to global memory.
fn write<const CHECKED: bool>(
    store: &PendingStore,
    cluster: &ClusterState<'_>,
) -> Result<(), LaneViolation> {
    let unwritten = CHECKED && cluster.launch.options.checks.has(ExecutionCheck::Unwritten);
    for (address, bytes) in &store.rows {
        let (allocation, offset) =
            find_writable(cluster, store.lane, *address, bytes.len() as u32)?;
        let size = store.dtype.bytes() as usize;
        for (at, element) in (offset..).step_by(size).zip(bytes.chunks(size)) {
            let mut word = [0; 4];
            word.iter_mut().zip(element).for_each(|(to, from)| *to = *from);
            let bits = u32::from_le_bytes(word);
            if store.effect == StoreEffect::Add {
                if unwritten && !allocation.is_written(at, size as u32) {
                    let text = "a tensor store adds to unwritten global memory".to_owned();
                    let kind = ViolationKind::Unwritten;
                    return Err(LaneViolation::access(kind, store.lane, *address, text));
                }
                add(allocation, at, store.dtype, bits);
            } else if size == 4 {
                if let Some(word) = allocation.words(at).first() {
                    word.store(bits, Ordering::Relaxed);
                }
            } else {
                allocation.store_part(at, size as u32, bits);
            }
        }
        allocation.mark_range(offset, bytes.len() as u64);
    }
    Ok(())
}

/// Adds an element atomically.
fn add(allocation: &Allocation, at: u64, dtype: Dtype, bits: u32) {
    let Some(word) = allocation.words(at & !3).first() else { return };
    let half = |sum: fn(u32, u32) -> u32| {
        let shift = 8 * (at as u32 & 2);
        let of = |old: u32| sum(old >> shift & 0xffff, bits) & 0xffff;
        replace(word, |old| old & !(0xffff << shift) | of(old) << shift);
    };
    match dtype {
        Dtype::F16 => half(add_f16_pair),
        Dtype::Bf16 => half(add_bf16_pair),
        Dtype::F32 => replace(word, |old| add_flushed(old, bits)),
        _ => replace(word, |old| old.wrapping_add(bits)),
    }
}

/// Replaces a word atomically.
fn replace(word: &AtomicU32, new: impl Fn(u32) -> u32) {
    // Never fails: there always is a new value.
    let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(new(old)));
}
