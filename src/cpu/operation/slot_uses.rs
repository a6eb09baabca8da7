//! Slots that each operation reads and writes.

use super::matrix::{MatrixDirection, MatrixProduct};
use super::mbarrier::{MbarrierOperation, PhaseOperand, TensorCopy, TensorStore};
use super::operands::{Address, Combined, Register, RegisterSlot, Vector};
use super::step::Operation;
use super::warp::{BarrierReduction, MatchMode, ReductionResult, VoteMode};
use super::warpgroup::{FactorSource, WarpgroupProduct};
use crate::cpu::types::Class;

/// Use of a slot by an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum SlotUse {
    Read,
    Write,
}

/// Visitor of slots.
type SlotVisitor<'a> = &'a mut dyn FnMut(Class, SlotUse, &mut RegisterSlot);

impl Operation {
    /// Calls `visit` with every slot; it may replace the slot.
    pub(in crate::cpu) fn visit_slots(&mut self, visit: SlotVisitor<'_>) {
        use Class::{Long, Predicate, Word};
        use SlotUse::{Read, Write};
        match self {
            Self::Word1 { d, a, .. } => slots(visit, (Word, d), [(Word, a)]),
            Self::Word2 { d, a, b, .. } => slots(visit, (Word, d), [(Word, a), (Word, b)]),
            Self::Word3 { d, a, b, c, .. } => {
                slots(visit, (Word, d), [(Word, a), (Word, b), (Word, c)]);
            }
            Self::Long1 { d, a, .. } => slots(visit, (Long, d), [(Long, a)]),
            Self::Long2 { d, a, b, .. } => slots(visit, (Long, d), [(Long, a), (Long, b)]),
            Self::Long3 { d, a, b, c, .. } => {
                slots(visit, (Long, d), [(Long, a), (Long, b), (Long, c)]);
            }
            Self::Widen1 { d, a, .. } => slots(visit, (Long, d), [(Word, a)]),
            Self::Widen2 { d, a, b, .. } => slots(visit, (Long, d), [(Word, a), (Word, b)]),
            Self::Widen3 { d, a, b, c, .. } => {
                slots(visit, (Long, d), [(Word, a), (Word, b), (Long, c)]);
            }
            Self::Narrow1 { d, a, .. } => slots(visit, (Word, d), [(Long, a)]),
            Self::Shift { d, a, b, .. } => slots(visit, (Long, d), [(Long, a), (Word, b)]),
            Self::Convert { d, a, .. } => {
                register(visit, Read, a);
                register(visit, Write, d);
            }
            Self::WordCompare { d, opposite, a, b, combined, .. } => {
                slots(visit, (Predicate, d), [(Word, a), (Word, b)]);
                comparison(visit, opposite, combined);
            }
            Self::LongCompare { d, opposite, a, b, combined, .. } => {
                slots(visit, (Predicate, d), [(Long, a), (Long, b)]);
                comparison(visit, opposite, combined);
            }
            Self::WordSelect { d, a, b, test } => {
                slots(visit, (Word, d), [(Word, a), (Word, b), (Predicate, test)]);
            }
            Self::LongSelect { d, a, b, test } => {
                slots(visit, (Long, d), [(Long, a), (Long, b), (Predicate, test)]);
            }
            Self::PredicateMove { d, a } => {
                slots(visit, (Predicate, d), [(Predicate, &mut a.slot)])
            }
            Self::PredicateLogic { d, a, b, .. } => {
                slots(visit, (Predicate, d), [(Predicate, &mut a.slot), (Predicate, &mut b.slot)]);
            }
            Self::Pack { d, parts, .. } => {
                parts.visit(visit, Read);
                register(visit, Write, d);
            }
            Self::Unpack { parts, a, .. } => {
                register(visit, Read, a);
                parts.visit(visit, Write);
            }
            Self::Load { address, d, .. } => {
                address.visit(visit);
                d.visit(visit, Write);
            }
            Self::Store { address, a, .. } => {
                address.visit(visit);
                a.visit(visit, Read);
            }
            Self::Atomic { d, address, a, b, .. } => {
                address.visit(visit);
                register(visit, Read, a);
                b.iter_mut().for_each(|b| register(visit, Read, b));
                d.iter_mut().for_each(|d| register(visit, Write, d));
            }
            Self::Copy { to, from, source_bytes, .. } => {
                to.visit(visit);
                from.visit(visit);
                source_bytes.iter_mut().for_each(|slot| visit(Word, Read, slot));
            }
            Self::TensorCopy(copy) => {
                let TensorCopy { to, map, coordinates, barrier, blocks } = &mut **copy;
                [to, map, barrier].into_iter().for_each(|address| address.visit(visit));
                coordinates.iter_mut().chain(blocks).for_each(|slot| visit(Word, Read, slot));
            }
            Self::TensorStore(store) => {
                let TensorStore { from, map, coordinates, .. } = &mut **store;
                [from, map].into_iter().for_each(|address| address.visit(visit));
                coordinates.iter_mut().for_each(|slot| visit(Word, Read, slot));
            }
            Self::StoreCommit | Self::StoreWait { .. } => {}
            Self::Mbarrier { address, step, .. } => {
                address.visit(visit);
                step.visit(visit);
            }
            Self::Shuffle { d, inside, a, lane, clamp, members, .. } => {
                slots(visit, (Word, d), [(Word, a), (Word, lane), (Word, clamp), (Word, members)]);
                inside.iter_mut().for_each(|slot| visit(Predicate, Write, slot));
            }
            Self::Vote { how, d, a, members } => {
                visit(Predicate, Read, &mut a.slot);
                visit(Word, Read, members);
                if let VoteMode::Ballot(slot) = how {
                    visit(Word, Write, slot);
                }
                d.iter_mut().for_each(|slot| visit(Predicate, Write, slot));
            }
            Self::ActiveMask { d } => visit(Word, Write, d),
            Self::Reduce { d, a, members, .. } => {
                slots(visit, (Word, d), [(Word, a), (Word, members)]);
            }
            Self::Match { how, d, a, members } => {
                register(visit, Read, a);
                slots(visit, (Word, d), [(Word, members)]);
                if let MatchMode::All(Some(same)) = how {
                    visit(Predicate, Write, same);
                }
            }
            Self::Elect { d, chosen, members } => {
                slots(visit, (Predicate, chosen), [(Word, members)]);
                d.iter_mut().for_each(|slot| visit(Word, Write, slot));
            }
            Self::Barrier { id, threads, poll, .. } => {
                visit(Word, Read, id);
                threads.iter_mut().for_each(|slot| visit(Word, Read, slot));
                if let Some(BarrierReduction { result, a }) = poll {
                    visit(Predicate, Read, &mut a.slot);
                    match result {
                        ReductionResult::Count(d) => visit(Word, Write, d),
                        ReductionResult::All(d) | ReductionResult::Any(d) => {
                            visit(Predicate, Write, d)
                        }
                    }
                }
            }
            Self::Clock { d, .. } => register(visit, Write, d),
            Self::MatrixProduct(product) => {
                let MatrixProduct { d, a, b, c, .. } = &mut **product;
                a.iter_mut().chain(b).chain(c).for_each(|slot| visit(Word, Read, slot));
                d.iter_mut().for_each(|slot| visit(Word, Write, slot));
            }
            Self::MatrixMove(moved) => {
                moved.address.visit(visit);
                let how = match moved.direction {
                    MatrixDirection::Load => Write,
                    MatrixDirection::Store => Read,
                };
                moved.registers.iter_mut().for_each(|slot| visit(Word, how, slot));
            }
            Self::WarpgroupProduct(product) => product.visit(visit),
            Self::WarpgroupOrder(_) => {}
            Self::CopyCommit | Self::CopyWait { .. } => {}
            Self::ClusterBarrier(_) | Self::WarpBarrier | Self::Sleep => {}
            Self::Fence | Self::ProxyFence | Self::LaunchWait => {}
            Self::Branch { .. } | Self::Exit | Self::Trap => {}
        }
    }
}

fn slots<const N: usize>(
    visit: SlotVisitor<'_>,
    written: (Class, &mut RegisterSlot),
    read: [(Class, &mut RegisterSlot); N],
) {
    for (class, slot) in read {
        visit(class, SlotUse::Read, slot);
    }
    visit(written.0, SlotUse::Write, written.1);
}

fn comparison(
    visit: SlotVisitor<'_>,
    opposite: &mut Option<RegisterSlot>,
    combined: &mut Option<Combined>,
) {
    if let Some(combined) = combined {
        visit(Class::Predicate, SlotUse::Read, &mut combined.with.slot);
    }
    if let Some(opposite) = opposite {
        visit(Class::Predicate, SlotUse::Write, opposite);
    }
}

fn register(visit: SlotVisitor<'_>, how: SlotUse, register: &mut Register) {
    match register {
        Register::Word(slot) => visit(Class::Word, how, slot),
        Register::Long(slot) => visit(Class::Long, how, slot),
    }
}

impl MbarrierOperation {
    fn visit(&mut self, visit: SlotVisitor<'_>) {
        match self {
            Self::Init { count: slot } | Self::Expect { bytes: slot } => {
                visit(Class::Word, SlotUse::Read, slot);
            }
            Self::Invalidate => {}
            Self::Arrive { count, bytes, state } => {
                count
                    .iter_mut()
                    .chain(bytes)
                    .for_each(|slot| visit(Class::Word, SlotUse::Read, slot));
                state.iter_mut().for_each(|slot| visit(Class::Long, SlotUse::Write, slot));
            }
            Self::Wait { d, phase, .. } => {
                match phase {
                    PhaseOperand::Parity(slot) => visit(Class::Word, SlotUse::Read, slot),
                    PhaseOperand::State(slot) => visit(Class::Long, SlotUse::Read, slot),
                }
                visit(Class::Predicate, SlotUse::Write, d);
            }
        }
    }
}

impl WarpgroupProduct {
    fn visit(&mut self, visit: SlotVisitor<'_>) {
        match &mut self.a {
            FactorSource::Registers(a) => {
                a.iter_mut().for_each(|slot| visit(Class::Word, SlotUse::Read, slot));
            }
            FactorSource::Shared(a) => visit(Class::Long, SlotUse::Read, &mut a.descriptor),
        }
        visit(Class::Long, SlotUse::Read, &mut self.b.descriptor);
        visit(Class::Predicate, SlotUse::Read, &mut self.accumulates.slot);
        self.c.iter_mut().for_each(|slot| visit(Class::Word, SlotUse::Read, slot));
        self.d.iter_mut().for_each(|slot| visit(Class::Word, SlotUse::Write, slot));
    }
}

impl Vector {
    fn visit(&mut self, visit: SlotVisitor<'_>, how: SlotUse) {
        self.registers.iter_mut().flatten().for_each(|part| register(visit, how, part));
    }
}

impl Address {
    fn visit(&mut self, visit: SlotVisitor<'_>) {
        self.base.iter_mut().for_each(|base| register(visit, SlotUse::Read, base));
    }
}
