//! Registers of warpgroup products: they keep slots of their own, so that other uses can be told apart at run time.

use std::collections::BTreeSet;

use crate::cpu::operation::{KernelStep, Operation, RegisterSlot, SlotUse};
use crate::cpu::types::Class;

/// Slots of the accumulators and register fragments of all warpgroup products.
pub(super) fn product_slots(steps: &[KernelStep]) -> BTreeSet<RegisterSlot> {
    let slots = steps.iter().filter_map(|step| match &step.operation {
        Operation::WarpgroupProduct(product) => Some(product.d.iter().chain(product.fragment())),
        _ => None,
    });
    slots.flatten().copied().collect()
}

/// For each step, the slots of products that it uses otherwise. Empty without products.
pub(super) fn other_uses(steps: &mut [KernelStep]) -> Vec<Vec<(SlotUse, RegisterSlot)>> {
    let slots = product_slots(steps);
    let of_step = |step: &mut KernelStep| {
        let mut uses = Vec::new();
        if !matches!(step.operation, Operation::WarpgroupProduct(_)) {
            step.operation.visit_slots(&mut |class, how, slot| {
                if class == Class::Word && slots.contains(slot) {
                    uses.push((how, *slot));
                }
            });
        }
        uses
    };
    let has_products =
        steps.iter().any(|step| matches!(step.operation, Operation::WarpgroupProduct(_)));
    if has_products { steps.iter_mut().map(of_step).collect() } else { Vec::new() }
}
