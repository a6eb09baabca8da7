//! Asynchronous copies from global to shared memory.

use super::bounds::check_alignment;
use super::cluster_state::ClusterState;
use super::warp::{PendingAsyncCopy, Warp};
use crate::cpu::access_record::GlobalAccess;
use crate::cpu::checks::LaneViolation;
use crate::cpu::lanes::lanes;
use crate::cpu::operation::{Address, RegisterSlot};
use crate::cpu::shadow::SharedAccess;
use crate::cpu::trace::Movement;
use crate::cpu::types::Space;

impl Warp {
    /// `cp.async` (ISA section 9.7.9.25.3). Reads at issue and writes when the kernel waits for it.
    pub(super) fn copy<const CHECKED: bool, const COUNTED: bool>(
        &mut self,
        cluster: &mut ClusterState<'_>,
        at: usize,
        bytes: u32,
        (to, from, source_bytes): (Address, Address, Option<RegisterSlot>),
        active: u32,
    ) -> Result<(), LaneViolation> {
        let (to, from) = (self.addresses(to), self.addresses(from));
        let read_bytes = match source_bytes {
            Some(slot) => self.registers.word(slot).map(|read| read.min(bytes)),
            None => [bytes; 32],
        };
        let mut moved = [[0; 32]; 4];
        for lane in lanes(active) {
            check_alignment(Space::Shared, lane, to[lane], bytes)?;
            let place =
                self.find_shared::<CHECKED>(cluster, Space::Shared, lane, to[lane], bytes)?;
            if CHECKED {
                let place = (place, bytes);
                cluster.shadow.touch(
                    &self.clocks,
                    self.position.number,
                    lane,
                    place,
                    SharedAccess::Pending,
                )?;
            }
            let mut words = [0; 4];
            let (whole, rest) = (read_bytes[lane] / 4, read_bytes[lane] % 4);
            if read_bytes[lane] > 0 {
                check_alignment(Space::Global, lane, from[lane], bytes)?;
                let accessed = (Space::Global, &from, 1 << lane);
                let read = read_bytes[lane];
                self.note_global::<CHECKED>(cluster, GlobalAccess::Read, accessed, read)?;
            }
            for i in 0..whole {
                let (place, words) = (from[lane] + u64::from(4 * i), &mut words[i as usize..]);
                self.read_words::<CHECKED>(
                    cluster,
                    Space::Global,
                    lane,
                    place,
                    &mut words[..1],
                    4,
                )?;
            }
            for byte in 0..rest {
                let mut part = [0];
                let place = from[lane] + u64::from(4 * whole + byte);
                self.read_words::<CHECKED>(cluster, Space::Global, lane, place, &mut part, 1)?;
                words[whole as usize & 3] |= part[0] << (8 * byte);
            }
            if COUNTED {
                (0..4).for_each(|word| moved[word][lane] = words[word]);
            }
            let group = self.groups[lane];
            self.copies.push(PendingAsyncCopy { lane, group, to: to[lane], bytes, words });
        }
        if COUNTED {
            let reading = lanes(active).filter(|lane| read_bytes[*lane] > 0);
            let reading = reading.fold(0, |mask, lane| mask | 1 << lane);
            cluster.counts[at].copy(&from, &to, (active, reading), bytes);
            cluster.trace(self, Movement::Copy, (&to, active, bytes), &moved);
        }
        Ok(())
    }

    /// Completes copies of `active` lanes until `pending` groups are left, or all copies without a
    /// number.
    pub(super) fn finish_copies<const CHECKED: bool>(
        &mut self,
        cluster: &mut ClusterState<'_>,
        active: u32,
        pending: Option<u32>,
    ) -> Result<(), LaneViolation> {
        if self.copies.is_empty() {
            return Ok(());
        }
        let groups = self.groups;
        let is_done = |copy: &PendingAsyncCopy| {
            active >> copy.lane & 1 == 1
                && pending
                    .is_none_or(|pending| copy.group.saturating_add(pending) < groups[copy.lane])
        };
        let (done, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.copies).into_iter().partition(is_done);
        self.copies = left;
        for copy in done {
            let PendingAsyncCopy { lane, to, bytes, words, .. } = copy;
            self.write_words::<CHECKED>(cluster, Space::Shared, lane, to, &words, bytes)?;
        }
        Ok(())
    }
}
