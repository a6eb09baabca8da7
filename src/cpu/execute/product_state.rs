//! State of a warp's asynchronous matrix products: their groups, and the registers that they use.
//!
//! A product may read and write its registers until its group has been waited for. Its results are in the registers
//! from the start on this device, so only these rules keep kernels from using them too early.

use crate::cpu::checks::{LaneViolation, ViolationKind};
use crate::cpu::kernel_code::KernelCode;
use crate::cpu::operation::{AccumulatorFormat, RegisterSlot, SlotUse, WarpgroupProduct};

/// Use of a register by a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProductUse {
    role: ProductRole,
    /// Number of the group, from 1.
    group: u32,
    /// Step of the product.
    step: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProductRole {
    Fragment,
    /// An accumulator of a shape, and its place in it.
    Accumulator {
        shape: (usize, usize, AccumulatorFormat),
        at: usize,
    },
}

/// A register that products use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ProductRegister {
    last: Option<ProductUse>,
    /// Whether another instruction has written it since the last `wgmma.fence`.
    written: bool,
}

/// Groups and registers of a warp's products.
#[derive(Debug, Default)]
pub(super) struct ProductState {
    /// Registers by word slot; empty in kernels without products.
    registers: Vec<ProductRegister>,
    /// Committed and completed groups.
    committed: u32,
    pub(super) completed: u32,
    /// Whether the warp has executed a `wgmma.fence`.
    fenced: bool,
}

fn violation(text: String) -> LaneViolation {
    LaneViolation::of_warp(ViolationKind::MatrixUnit, text)
}

impl ProductState {
    pub(super) fn new(code: &KernelCode) -> Self {
        let count = if code.product_uses.is_empty() { 0 } else { code.slots.words as usize };
        Self { registers: vec![ProductRegister::default(); count], ..Self::default() }
    }

    /// Resets the state for the next block.
    pub(super) fn reset(&mut self) {
        self.registers.fill(ProductRegister::default());
        (self.committed, self.completed, self.fenced) = (0, 0, false);
    }

    /// Number of the group that the next product joins, from 1.
    pub(super) fn next_group(&self) -> u32 {
        self.committed + 1
    }

    pub(super) fn fence(&mut self) {
        self.fenced = true;
        self.registers.iter_mut().for_each(|register| register.written = false);
    }

    pub(super) fn commit(&mut self) {
        self.committed += 1;
    }

    /// Completes groups until `pending` are left.
    pub(super) fn wait(&mut self, pending: u32) {
        self.completed = self.completed.max(self.committed.saturating_sub(pending));
    }

    /// The use of a register by a product that may still run.
    fn in_flight(&self, slot: RegisterSlot) -> Option<ProductUse> {
        let register = self.registers.get(slot.0 as usize)?;
        register.last.filter(|last| last.group > self.completed)
    }

    fn written(&self, slot: RegisterSlot) -> bool {
        self.registers.get(slot.0 as usize).is_some_and(|register| register.written)
    }

    /// Checks that products that may still run do not use the registers of another instruction, and records what it
    /// writes.
    pub(super) fn check_other(
        &mut self,
        uses: &[(SlotUse, RegisterSlot)],
        code: &KernelCode,
    ) -> Result<(), LaneViolation> {
        for (how, slot) in uses {
            let running = self
                .in_flight(*slot)
                .filter(|running| *how == SlotUse::Write || running.role != ProductRole::Fragment);
            if let Some(running) = running {
                return Err(violation(format!(
                    "{} of the `wgmma` at PTX line {} is {} with no `wgmma.wait_group` for it in between",
                    running.role.name(),
                    code.steps.get(running.step).map_or(0, |step| step.line),
                    if *how == SlotUse::Write { "written" } else { "read" },
                )));
            }
            if let (SlotUse::Write, Some(register)) = (how, self.registers.get_mut(slot.0 as usize))
            {
                register.written = true;
            }
        }
        Ok(())
    }

    /// Checks the registers of a product, and records their use.
    pub(super) fn begin_product(
        &mut self,
        product: &WarpgroupProduct,
        step: usize,
        code: &KernelCode,
    ) -> Result<(), LaneViolation> {
        if !self.fenced {
            let text = "no `wgmma.fence` is before the warp's first `wgmma`".to_owned();
            return Err(violation(text));
        }
        let shape = (product.columns, product.depth, product.accumulator);
        let of_d = product.d.iter().enumerate();
        let accumulators = of_d.map(|(at, slot)| (*slot, ProductRole::Accumulator { shape, at }));
        let fragment = product.fragment().iter().map(|slot| (*slot, ProductRole::Fragment));
        for (slot, role) in accumulators.clone().chain(fragment.clone()) {
            if self.written(slot) {
                return Err(violation(format!(
                    "{} of this `wgmma` was written by another instruction with no `wgmma.fence` in between; the \
                     compiler moves such a write past the fence unless an empty `asm` before it uses the register",
                    role.name()
                )));
            }
            // Products of one shape may share accumulators, and all may share fragments.
            let running = self.in_flight(slot).filter(|running| running.role != role);
            if let Some(running) = running {
                return Err(violation(format!(
                    "{} of this `wgmma` is {} of the one at PTX line {}, with no `wgmma.wait_group` for it in \
                     between",
                    role.name(),
                    running.role.name(),
                    code.steps.get(running.step).map_or(0, |step| step.line),
                )));
            }
        }
        let group = self.next_group();
        for (slot, role) in accumulators.chain(fragment) {
            if let Some(register) = self.registers.get_mut(slot.0 as usize) {
                register.last = Some(ProductUse { role, group, step });
            }
        }
        Ok(())
    }
}

impl ProductRole {
    fn name(self) -> &'static str {
        match self {
            Self::Fragment => "a register fragment",
            Self::Accumulator { .. } => "an accumulator",
        }
    }
}
