//! Loads and stores of a warp.

use std::sync::atomic::Ordering;

use super::address_space::{count, split};
use super::bounds::{check_alignment, find, find_writable, outside};
use super::cluster_state::ClusterState;
use super::lane_bytes::{Staged, bytes_of, extend, put};
use super::registers::FULL;
use super::shared_address::check_shared;
use super::warp::Warp;
use crate::cpu::access_record::GlobalAccess;
use crate::cpu::checks::{ExecutionCheck, LaneViolation, ViolationKind};
use crate::cpu::lanes::lanes;
use crate::cpu::operation::{Address, Element, Longs, Register, Vector};
use crate::cpu::shadow::SharedAccess;
use crate::cpu::trace::Movement;
use crate::cpu::types::Space;

/// Space, element and address of an access.
type AccessOperands = (Space, Element, Address);

impl Warp {
    /// Address of each lane.
    #[inline(always)]
    pub(super) fn addresses(&self, address: Address) -> Longs {
        let offset = address.offset.cast_unsigned();
        match address.base {
            Some(Register::Long(slot)) => {
                self.registers.long(slot).map(|base| base.wrapping_add(offset))
            }
            // Addresses of 32 bits wrap at 32 bits.
            Some(Register::Word(slot)) => {
                self.registers.word(slot).map(|base| base.wrapping_add(offset as u32).into())
            }
            None => [offset; 32],
        }
    }

    pub(super) fn load<const CHECKED: bool, const COUNTED: bool>(
        &mut self,
        cluster: &mut ClusterState<'_>,
        at: usize,
        (space, element, address): AccessOperands,
        d: Vector,
        active: u32,
    ) -> Result<(), LaneViolation> {
        let mut addresses = self.addresses(address);
        let bytes = element.bytes * d.length;
        let mut staged: Staged = [[0; 32]; 8];
        for (space, mask) in split(space, &mut addresses, active) {
            let staged = &mut staged;
            let accessed = (space, &addresses, mask);
            self.note_global::<CHECKED>(cluster, GlobalAccess::Read, accessed, bytes)?;
            match bytes {
                8 => self.gather::<CHECKED, 2>(cluster, space, &addresses, mask, bytes, staged)?,
                16 => self.gather::<CHECKED, 4>(cluster, space, &addresses, mask, bytes, staged)?,
                32 => self.gather::<CHECKED, 8>(cluster, space, &addresses, mask, bytes, staged)?,
                _ => self.gather::<CHECKED, 1>(cluster, space, &addresses, mask, bytes, staged)?,
            }
            if COUNTED {
                count(cluster, at, space, &addresses, mask, bytes);
                if space == Space::Global {
                    let access = (&addresses, mask, bytes);
                    cluster.trace(self, Movement::GlobalLoad, access, staged);
                }
            }
        }
        for (i, part) in d.parts().iter().enumerate() {
            match (part, element.bytes) {
                (None, _) => {}
                (Some(Register::Word(slot)), 4) => {
                    self.registers.set_word(*slot, &staged[i], active)
                }
                (Some(part), _) => {
                    let values = std::array::from_fn(|lane| {
                        extend(
                            element,
                            bytes_of(&staged, lane, i as u32 * element.bytes, element.bytes),
                        )
                    });
                    self.registers.set_value(*part, &values, active);
                }
            }
        }
        Ok(())
    }

    pub(super) fn store<const CHECKED: bool, const COUNTED: bool>(
        &mut self,
        cluster: &mut ClusterState<'_>,
        at: usize,
        (space, element, address): AccessOperands,
        a: Vector,
        active: u32,
    ) -> Result<(), LaneViolation> {
        let mut addresses = self.addresses(address);
        let bytes = element.bytes * a.length;
        let mut staged: Staged = [[0; 32]; 8];
        for (i, part) in a.parts().iter().enumerate() {
            match (part, element.bytes) {
                (None, _) => {}
                (Some(Register::Word(slot)), 4) => staged[i] = *self.registers.word(*slot),
                (Some(part), _) => {
                    let values = self.registers.value(*part);
                    put(&mut staged, &values, i as u32 * element.bytes, element.bytes);
                }
            }
        }
        for (space, mask) in split(space, &mut addresses, active) {
            let accessed = (space, &addresses, mask);
            self.note_global::<CHECKED>(cluster, GlobalAccess::Write, accessed, bytes)?;
            for lane in lanes(mask) {
                let words: [u32; 8] = std::array::from_fn(|word| staged[word][lane]);
                self.write_words::<CHECKED>(cluster, space, lane, addresses[lane], &words, bytes)?;
            }
            if COUNTED {
                count(cluster, at, space, &addresses, mask, bytes);
                let movement = match space {
                    Space::Global => Some(Movement::GlobalStore),
                    Space::Shared | Space::Cluster => Some(Movement::SharedStore),
                    _ => None,
                };
                if let Some(movement) = movement {
                    cluster.trace(self, movement, (&addresses, mask, bytes), &staged);
                }
            }
        }
        Ok(())
    }

    /// Reads `N` words, or a part of one, for every lane.
    #[inline(always)]
    fn gather<const CHECKED: bool, const N: usize>(
        &mut self,
        cluster: &mut ClusterState<'_>,
        space: Space,
        addresses: &Longs,
        mask: u32,
        bytes: u32,
        staged: &mut Staged,
    ) -> Result<(), LaneViolation> {
        if mask == FULL {
            for lane in 0..32 {
                let mut words = [0; N];
                self.read_words::<CHECKED>(
                    cluster,
                    space,
                    lane,
                    addresses[lane],
                    &mut words,
                    bytes,
                )?;
                (0..N).for_each(|word| staged[word][lane] = words[word]);
            }
            return Ok(());
        }
        for lane in lanes(mask) {
            let mut words = [0; N];
            self.read_words::<CHECKED>(cluster, space, lane, addresses[lane], &mut words, bytes)?;
            (0..N).for_each(|word| staged[word][lane] = words[word]);
        }
        Ok(())
    }

    /// Reads the bytes of one lane. Less than a word is returned in the lowest bits.
    #[inline(always)]
    pub(super) fn read_words<const CHECKED: bool>(
        &mut self,
        cluster: &mut ClusterState<'_>,
        space: Space,
        lane: usize,
        address: u64,
        words: &mut [u32],
        bytes: u32,
    ) -> Result<(), LaneViolation> {
        check_alignment(space, lane, address, bytes)?;
        match space {
            Space::Shared => {
                check_shared(cluster, lane, address, bytes)?;
                let place = self.position.shared + address;
                self.read_shared::<CHECKED>(cluster, lane, place, words, bytes)?;
            }
            Space::Cluster => self.read_cluster::<CHECKED>(cluster, lane, address, words, bytes)?,
            Space::Local => {
                let at = self.local_word(lane, address, bytes)?;
                if CHECKED && cluster.launch.options.checks.has(ExecutionCheck::Unwritten) {
                    self.check_local(lane, address, bytes)?;
                }
                let from = self.local.get(at..).unwrap_or_default();
                words.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }
            Space::Parameter => {
                let end = address.saturating_add(bytes.into());
                if end > 4 * cluster.launch.parameters.len() as u64 {
                    return Err(outside(space, lane, address, bytes, "the parameters"));
                }
                copy_in(cluster.launch.parameters, address, words);
            }
            Space::Global | Space::Constant | Space::Generic => {
                let (allocation, offset) = find(cluster, lane, address, bytes)?;
                let unwritten =
                    CHECKED && cluster.launch.options.checks.has(ExecutionCheck::Unwritten);
                if unwritten && !allocation.is_written(offset, bytes) {
                    return Err(LaneViolation::access(
                        ViolationKind::Unwritten,
                        lane,
                        address,
                        format!("{bytes} unwritten bytes of global memory are read"),
                    ));
                }
                let from = allocation.words(offset);
                for (to, from) in words.iter_mut().zip(from) {
                    *to = from.load(Ordering::Relaxed);
                }
            }
        }
        if bytes < 4
            && let Some(word) = words.first_mut()
        {
            *word = *word >> (8 * (address % 4)) & (u32::MAX >> (32 - 8 * bytes));
        }
        Ok(())
    }

    /// Writes the bytes of one lane.
    #[inline(always)]
    pub(super) fn write_words<const CHECKED: bool>(
        &mut self,
        cluster: &mut ClusterState<'_>,
        space: Space,
        lane: usize,
        address: u64,
        words: &[u32],
        bytes: u32,
    ) -> Result<(), LaneViolation> {
        check_alignment(space, lane, address, bytes)?;
        let whole = bytes as usize / 4;
        match space {
            Space::Shared => {
                check_shared(cluster, lane, address, bytes)?;
                let place = self.position.shared + address;
                self.write_shared::<CHECKED>(cluster, lane, place, words, bytes)?;
            }
            Space::Cluster => {
                self.write_cluster::<CHECKED>(cluster, lane, address, words, bytes)?
            }
            Space::Local => {
                let at = self.local_word(lane, address, bytes)?;
                let marks = if bytes < 4 { ((1 << bytes) - 1) << (address % 4) } else { 0b1111 };
                let written = self.local_written.iter_mut().skip(at);
                written.take(whole.max(1)).for_each(|mark| *mark |= marks);
                copy_out(&mut self.local, at, address, words, bytes);
            }
            Space::Global | Space::Constant | Space::Generic | Space::Parameter => {
                let (allocation, offset) = find_writable(cluster, lane, address, bytes)?;
                allocation.mark(offset, bytes);
                if bytes < 4 {
                    allocation.store_part(offset, bytes, words[0]);
                    return Ok(());
                }
                for (to, from) in allocation.words(offset).iter().zip(&words[..whole]) {
                    to.store(*from, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Reads at a position in the shared memory of the cluster.
    #[inline(always)]
    fn read_shared<const CHECKED: bool>(
        &self,
        cluster: &mut ClusterState<'_>,
        lane: usize,
        place: u64,
        words: &mut [u32],
        bytes: u32,
    ) -> Result<(), LaneViolation> {
        if CHECKED {
            let warp = self.position.number;
            cluster.shadow.touch_read(&self.clocks, warp, lane, (place, bytes))?;
        }
        copy_in(&cluster.shared, place, words);
        Ok(())
    }

    /// Writes at a position in the shared memory of the cluster.
    #[inline(always)]
    fn write_shared<const CHECKED: bool>(
        &self,
        cluster: &mut ClusterState<'_>,
        lane: usize,
        place: u64,
        words: &[u32],
        bytes: u32,
    ) -> Result<(), LaneViolation> {
        if CHECKED {
            let touched = (place, bytes);
            cluster.shadow.touch(
                &self.clocks,
                self.position.number,
                lane,
                touched,
                SharedAccess::Write,
            )?;
        }
        copy_out(&mut cluster.shared, place as usize / 4, place, words, bytes);
        Ok(())
    }

    /// Reads by a `.shared::cluster` address. Inlining it would slow down the loops over the
    /// block's own shared memory.
    #[inline(never)]
    fn read_cluster<const CHECKED: bool>(
        &self,
        cluster: &mut ClusterState<'_>,
        lane: usize,
        address: u64,
        words: &mut [u32],
        bytes: u32,
    ) -> Result<(), LaneViolation> {
        let place = self.find_shared::<CHECKED>(cluster, Space::Cluster, lane, address, bytes)?;
        self.read_shared::<CHECKED>(cluster, lane, place, words, bytes)
    }

    #[inline(never)]
    fn write_cluster<const CHECKED: bool>(
        &self,
        cluster: &mut ClusterState<'_>,
        lane: usize,
        address: u64,
        words: &[u32],
        bytes: u32,
    ) -> Result<(), LaneViolation> {
        let place = self.find_shared::<CHECKED>(cluster, Space::Cluster, lane, address, bytes)?;
        self.write_shared::<CHECKED>(cluster, lane, place, words, bytes)
    }

    /// Index of the word of a lane's local memory at an address.
    fn local_word(&self, lane: usize, address: u64, bytes: u32) -> Result<usize, LaneViolation> {
        let words = self.local.len() / 32;
        if address.saturating_add(bytes.into()) > 4 * words as u64 {
            return Err(outside(Space::Local, lane, address, bytes, "the thread's local memory"));
        }
        Ok(lane * words + address as usize / 4)
    }

    fn check_local(&self, lane: usize, address: u64, bytes: u32) -> Result<(), LaneViolation> {
        let at = self.local_word(lane, address, bytes)?;
        let required = if bytes < 4 { ((1 << bytes) - 1) << (address % 4) } else { 0b1111 };
        let marks = self.local_written.iter().skip(at).take((bytes as usize / 4).max(1));
        if marks.into_iter().all(|mark| mark & required == required) {
            return Ok(());
        }
        let text = format!("{bytes} unwritten bytes of local memory are read");
        Err(LaneViolation::access(ViolationKind::Unwritten, lane, address, text))
    }
}

#[inline(always)]
fn copy_in(from: &[u32], address: u64, words: &mut [u32]) {
    let from = from.get(address as usize / 4..).unwrap_or_default();
    words.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

#[inline(always)]
fn copy_out(to: &mut [u32], at: usize, address: u64, words: &[u32], bytes: u32) {
    let to = to.get_mut(at..).unwrap_or_default();
    if bytes >= 4 {
        to.iter_mut().zip(&words[..bytes as usize / 4]).for_each(|(to, from)| *to = *from);
    } else if let Some(to) = to.first_mut() {
        let shift = 8 * (address % 4);
        let mask = (u32::MAX >> (32 - 8 * bytes)) << shift;
        *to = *to & !mask | words[0] << shift & mask;
    }
}
