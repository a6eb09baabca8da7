//! Interpreter loop of a warp.

use std::sync::atomic::{Ordering, fence};

use super::barrier_state::ReductionInput;
use super::cluster_state::ClusterState;
use super::compute::compute;
use super::registers::FULL;
use super::warp::{SimtFrame, Warp, WarpPause};
use crate::cpu::checks::{ExecutionCheck, LaneViolation, ViolationKind};
use crate::cpu::kernel_code::KernelCode;
use crate::cpu::lanes::lanes;
use crate::cpu::operation::{
    BarrierMode, BarrierReduction, KernelStep, MemoryOrder, Operation, RegisterSlot,
};

/// Effect of a step on the loop.
enum StepResult {
    /// Continues with the next step.
    Continue,
    Pause(WarpPause),
}

impl Warp {
    /// Runs at most `turn` steps.
    pub(super) fn run<const CHECKED: bool, const COUNTED: bool>(
        &mut self,
        cluster: &mut ClusterState<'_>,
        turn: u64,
    ) -> Result<WarpPause, LaneViolation> {
        let code: &KernelCode = &cluster.launch.kernel.code;
        let mut left = turn;
        loop {
            let Some(frame) = self.stack.last_mut() else {
                cluster.spend(turn - left);
                self.finish_copies::<CHECKED>(cluster, FULL, None)?;
                self.finish_stores::<CHECKED>(cluster)?;
                return Ok(WarpPause::Ended);
            };
            if frame.at == frame.reconvergence || frame.lanes == 0 {
                self.stack.pop();
                continue;
            }
            if left == 0 {
                cluster.spend(turn);
                return Ok(WarpPause::Turn);
            }
            left -= 1;
            let at = frame.at as usize;
            let lanes = frame.lanes;
            frame.at += 1;
            // An exit always follows the last step.
            let Some(step) = code.steps.get(at) else {
                self.stack.pop();
                continue;
            };
            let active = match step.guard {
                Some(guard) => lanes & self.registers.test(guard),
                None => lanes,
            };
            if COUNTED {
                cluster.counts[at].executed += 1;
            }
            if CHECKED && !code.product_uses.is_empty() && active != 0 {
                self.check_product_uses(cluster, at)?;
            }
            match &step.operation {
                Operation::Branch { target, reconvergence } => {
                    self.branch(lanes, active, *target, *reconvergence)
                }
                Operation::Exit => self.exit(at, active),
                _ if active == 0 => {}
                Operation::Clock { d, shift } => {
                    let done = cluster.executed + turn - left;
                    self.registers.set_value(*d, &[done >> shift; 32], active);
                }
                operation => {
                    if compute(&mut self.registers, operation, active) {
                        continue;
                    }
                    match self.execute_other::<CHECKED, COUNTED>(cluster, step, at, active)? {
                        StepResult::Continue => {}
                        StepResult::Pause(pause) => {
                            cluster.spend(turn - left);
                            return Ok(pause);
                        }
                    }
                }
            }
        }
    }

    /// Branches the lanes in `taken` to `target`; the others continue.
    fn branch(&mut self, lanes: u32, taken: u32, target: u32, reconvergence: u32) {
        let Some(frame) = self.stack.last_mut() else { return };
        if taken == 0 {
            return;
        }
        if taken == lanes {
            frame.at = target;
            return;
        }
        let next = frame.at;
        if reconvergence == frame.reconvergence {
            // They reconverge where this frame ends anyway.
            self.stack.pop();
        } else {
            frame.at = reconvergence;
        }
        self.stack.push(SimtFrame { at: next, lanes: lanes & !taken, reconvergence });
        self.stack.push(SimtFrame { at: target, lanes: taken, reconvergence });
    }

    fn exit(&mut self, at: usize, lanes: u32) {
        self.exit = at;
        self.alive &= !lanes;
        for frame in &mut self.stack {
            frame.lanes &= !lanes;
        }
    }

    /// Executes operations with memory access or synchronisation.
    fn execute_other<const CHECKED: bool, const COUNTED: bool>(
        &mut self,
        cluster: &mut ClusterState<'_>,
        step: &KernelStep,
        at: usize,
        active: u32,
    ) -> Result<StepResult, LaneViolation> {
        if CHECKED {
            cluster.shadow.set_line(step.source);
        }
        match &step.operation {
            Operation::Load { space, element, address, d, order } => {
                self.load::<CHECKED, COUNTED>(
                    cluster,
                    at,
                    (*space, *element, *address),
                    *d,
                    active,
                )?;
                if *order == MemoryOrder::Strong {
                    cluster.polls += 1;
                    fence(Ordering::Acquire);
                }
            }
            Operation::Store { space, element, address, a, order } => {
                if *order == MemoryOrder::Strong {
                    fence(Ordering::Release);
                }
                self.store::<CHECKED, COUNTED>(
                    cluster,
                    at,
                    (*space, *element, *address),
                    *a,
                    active,
                )?;
            }
            Operation::Atomic { space, update, alignment, d, address, a, b } => {
                let place = (*space, *address, *alignment);
                let operands = (*a, *b, *d);
                self.atomic::<CHECKED, COUNTED>(cluster, at, place, *update, operands, active)?;
            }
            Operation::Copy { bytes, to, from, source_bytes } => {
                let addresses = (*to, *from, *source_bytes);
                self.copy::<CHECKED, COUNTED>(cluster, at, *bytes, addresses, active)?;
            }
            Operation::TensorCopy(copy) => {
                self.copy_tensor::<CHECKED, COUNTED>(cluster, at, copy, active)?;
            }
            Operation::TensorStore(store) => {
                self.store_tensor::<CHECKED, COUNTED>(cluster, at, store, active)?;
            }
            Operation::StoreCommit => self.stores.commit(active),
            Operation::StoreWait { pending, what } => {
                self.wait_for_stores::<CHECKED>(cluster, active, (*pending, *what))?;
            }
            Operation::Mbarrier { space, address, step } => {
                let awaited =
                    self.mbarrier::<CHECKED>(cluster, (*space, *address), *step, active)?;
                if let Some(awaited) = awaited {
                    if COUNTED {
                        cluster.counts[at].executed -= 1;
                    }
                    return Ok(StepResult::Pause(WarpPause::Phase(awaited)));
                }
            }
            Operation::CopyCommit => {
                for lane in lanes(active) {
                    self.groups[lane] += 1;
                }
            }
            Operation::CopyWait { pending } => {
                self.finish_copies::<CHECKED>(cluster, active, *pending)?;
            }
            Operation::Shuffle { how, d, inside, a, lane, clamp, members } => {
                self.groups(*members, active)?;
                let (values, valid) = self.shuffled(*how, *a, *lane, *clamp, active);
                self.registers.set_word(*d, &values, active);
                if let Some(inside) = inside {
                    self.registers.set_predicate(*inside, valid, active);
                }
            }
            Operation::Vote { how, d, a, members } => {
                let groups = self.groups(*members, active)?;
                groups.for_each(|group| self.vote(*how, *d, *a, group));
            }
            Operation::ActiveMask { d } => self.registers.set_word(*d, &[active; 32], active),
            Operation::Reduce { run, d, a, members } => {
                let groups = self.groups(*members, active)?;
                groups.for_each(|group| self.reduce(*run, *d, *a, group));
            }
            Operation::Match { how, d, a, members } => {
                let groups = self.groups(*members, active)?;
                groups.for_each(|group| self.match_values(*how, *d, *a, group));
            }
            Operation::Elect { d, chosen, members } => {
                let groups = self.groups(*members, active)?;
                groups.for_each(|group| self.elect(*d, *chosen, group));
            }
            Operation::Barrier { id, threads, mode, poll } => {
                self.check_whole::<CHECKED>(cluster, active)?;
                return self.barrier(*id, *threads, *mode, *poll, active);
            }
            Operation::ClusterBarrier(step) => {
                self.check_whole::<CHECKED>(cluster, active)?;
                return Ok(StepResult::Pause(WarpPause::Cluster(*step)));
            }
            Operation::Sleep => return Ok(StepResult::Pause(WarpPause::Turn)),
            Operation::LaunchWait => self.waited |= active,
            Operation::WarpBarrier => self.clocks.advance(self.position.number),
            Operation::Fence | Operation::ProxyFence => {
                fence(Ordering::SeqCst);
                // Between proxies of a thread, a fence orders accesses, and publishes none to other threads.
                let is_proxy = matches!(step.operation, Operation::ProxyFence);
                if CHECKED && is_proxy {
                    self.clocks.fence_proxy(self.position.number);
                } else if CHECKED && cluster.blocks > 1 {
                    self.fenced = Some(self.clocks.clone());
                    self.clocks.advance(self.position.number);
                }
            }
            Operation::MatrixProduct(product) => {
                self.check_all_lanes("mma", active)?;
                self.multiply(product);
            }
            Operation::MatrixMove(moved) => {
                self.check_all_lanes("ldmatrix or stmatrix", active)?;
                self.move_matrices::<CHECKED, COUNTED>(cluster, at, moved)?;
            }
            Operation::WarpgroupProduct(product) => {
                self.multiply_as_warpgroup::<CHECKED>(cluster, at, product, active)?;
            }
            Operation::WarpgroupOrder(order) => {
                self.order_products(cluster, at, *order, active)?;
            }
            Operation::Trap => {
                return Err(LaneViolation::of_warp(
                    ViolationKind::Trap,
                    "the kernel executed `trap`",
                ));
            }
            _ => {}
        }
        Ok(StepResult::Continue)
    }

    fn barrier(
        &self,
        id: RegisterSlot,
        threads: Option<RegisterSlot>,
        mode: BarrierMode,
        poll: Option<BarrierReduction>,
        active: u32,
    ) -> Result<StepResult, LaneViolation> {
        let first = active.trailing_zeros() as usize & 31;
        let id = self.registers.word(id)[first] as usize;
        let threads = threads.map(|threads| self.registers.word(threads)[first]);
        if id >= 16 {
            return Err(LaneViolation::of_warp(
                ViolationKind::BarrierDivergence,
                format!("barrier {id} does not exist; a block has 16"),
            ));
        }
        if let Some(threads) = threads
            && (threads % 32 != 0 || !(32..=1024).contains(&threads))
        {
            return Err(LaneViolation::of_warp(
                ViolationKind::BarrierDivergence,
                format!(
                    "barrier {id} is used for {threads} threads, which are not whole warps of a block"
                ),
            ));
        }
        let reduction = poll.map(|BarrierReduction { result, a }| {
            let true_lanes = self.registers.test(a) & active;
            ReductionInput { result, true_lanes, participants: active }
        });
        Ok(StepResult::Pause(WarpPause::Barrier { id, threads, mode, reduction }))
    }

    /// Checks that a warp reaches a barrier converged.
    fn check_whole<const CHECKED: bool>(
        &self,
        cluster: &ClusterState<'_>,
        active: u32,
    ) -> Result<(), LaneViolation> {
        let checked = CHECKED && cluster.launch.options.checks.has(ExecutionCheck::Divergence);
        if checked && active != self.alive { Err(self.diverged(active)) } else { Ok(()) }
    }

    fn diverged(&self, active: u32) -> LaneViolation {
        let missing = self.alive & !active;
        LaneViolation {
            lane: Some(active.trailing_zeros() as usize & 31),
            ..LaneViolation::of_warp(
                ViolationKind::BarrierDivergence,
                format!(
                    "{} lanes of warp {} wait here while {} are at another instruction",
                    active.count_ones(),
                    self.position.index,
                    missing.count_ones()
                ),
            )
        }
    }
}
