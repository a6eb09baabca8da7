//! State of a warp's bulk stores: those that are not complete, and the groups of each lane.

use crate::cpu::lanes::lanes;
use crate::cpu::operation::StoreEffect;
use crate::model::Dtype;

/// Bulk stores of a warp.
#[derive(Debug, Default)]
pub(super) struct BulkStores {
    pub(super) pending: Vec<PendingStore>,
    /// Bytes of the pending stores.
    pub(super) bytes: usize,
    /// Committed groups of each lane.
    pub(super) committed: [u32; 32],
    /// Stores so far: the time of the warp's engine.
    pub(super) started: u32,
}

/// A store whose group is not complete.
#[derive(Debug)]
pub(super) struct PendingStore {
    pub(super) lane: usize,
    pub(super) step: usize,
    pub(super) group: u32,
    /// Time of the engine.
    pub(super) clock: u32,
    /// Whether a wait for its reads has passed.
    pub(super) was_read: bool,
    pub(super) effect: StoreEffect,
    pub(super) dtype: Dtype,
    /// Addresses and contents of its rows; empty once they are written.
    pub(super) rows: Vec<(u64, Vec<u8>)>,
}

impl BulkStores {
    /// Time up to which all reads are complete.
    pub(super) fn reads_completed(&self) -> u32 {
        let unread = self.pending.iter().filter(|store| !store.was_read);
        unread.map(|store| store.clock - 1).min().unwrap_or(self.started)
    }

    /// Ends the group of each active lane.
    pub(super) fn commit(&mut self, active: u32) {
        lanes(active).for_each(|lane| self.committed[lane] += 1);
    }
}
