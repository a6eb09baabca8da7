//! Matrix products of a warpgroup: `wgmma`.
//!
//! Each warp computes its own 16 rows when it issues the instruction. [`super::product_state`] checks that nothing uses
//! the registers before the product is complete, and the shadow memory that nothing overwrites its operands.

use super::cluster_state::ClusterState;
use super::descriptor::{CHUNK_BYTES, MatrixDescriptor};
use super::matrix::elements;
use super::registers::FULL;
use super::shared_address::check_shared;
use super::warp::Warp;
use super::warpgroup_order::{GROUP_WARPS, SharedStep};
use crate::cpu::async_reads::{AsyncEngine, engine_index};
use crate::cpu::checks::{ExecutionCheck, LaneViolation, ViolationKind};
use crate::cpu::numeric::float::{BF16, F16, F32, FloatFormat, TF32};
use crate::cpu::numeric::tensor_sum::{Factors, FusedSum};
use crate::cpu::operation::{
    AccumulatorFormat, DescribedMatrix, FactorSource, MajorDimension, MatrixElement, RegisterSlot,
    WarpgroupOrder, WarpgroupProduct, Words,
};

/// Rows of a warp's part of A and D.
const ROWS: usize = 16;

/// Bits of the elements of a matrix, row by row.
struct MatrixBits {
    depth: usize,
    bits: Vec<u32>,
}

impl MatrixBits {
    fn zeros(rows: usize, depth: usize) -> Self {
        Self { depth, bits: vec![0; rows * depth] }
    }

    fn set(&mut self, row: usize, column: usize, bits: u32) {
        if let Some(element) = self.bits.get_mut(row * self.depth + column) {
            *element = bits;
        }
    }

    /// Bits of each row.
    fn rows(&self) -> impl Iterator<Item = &[u32]> {
        self.bits.chunks(self.depth.max(1))
    }
}

/// A matrix in shared memory, and the rows that a warp reads.
#[derive(Clone, Copy)]
struct SharedRows {
    matrix: DescribedMatrix,
    element: MatrixElement,
    first: usize,
    count: usize,
    depth: usize,
}

impl Warp {
    /// Checks the registers that a step other than a product shares with products.
    pub(super) fn check_product_uses(
        &mut self,
        cluster: &ClusterState<'_>,
        at: usize,
    ) -> Result<(), LaneViolation> {
        let code = &cluster.launch.kernel.code;
        if !cluster.launch.options.checks.has(ExecutionCheck::Race) {
            return Ok(());
        }
        match code.product_uses.get(at) {
            Some(uses) if !uses.is_empty() => self.products.check_other(uses, code),
            _ => Ok(()),
        }
    }

    /// `wgmma.fence`, `wgmma.commit_group` and `wgmma.wait_group`.
    pub(super) fn order_products(
        &mut self,
        cluster: &mut ClusterState<'_>,
        at: usize,
        order: WarpgroupOrder,
        active: u32,
    ) -> Result<(), LaneViolation> {
        self.check_all_lanes("wgmma", active)?;
        self.record_in_warpgroup(cluster, SharedStep { step: at, operands: [0; 3] })?;
        match order {
            WarpgroupOrder::Fence => self.products.fence(),
            WarpgroupOrder::Commit => self.products.commit(),
            WarpgroupOrder::Wait { pending } => {
                self.products.wait(pending);
                let number = self.position.number;
                let engine = engine_index(cluster.warps(), AsyncEngine::Products, number);
                self.clocks.observe(engine, self.products.completed);
            }
        }
        Ok(())
    }

    /// `wgmma.mma_async`. Floating-point sums are those of [`FusedSum`].
    pub(super) fn multiply_as_warpgroup<const CHECKED: bool>(
        &mut self,
        cluster: &mut ClusterState<'_>,
        at: usize,
        product: &WarpgroupProduct,
        active: u32,
    ) -> Result<(), LaneViolation> {
        self.check_all_lanes("wgmma", active)?;
        let accumulates = self.registers.test(product.accumulates);
        if accumulates != FULL && accumulates != 0 {
            return Err(violation("`scale-d` differs between the lanes of a warp"));
        }
        let of_a = match &product.a {
            FactorSource::Registers(_) => 0,
            FactorSource::Shared(matrix) => self.uniform(matrix.descriptor)?,
        };
        let operands = [of_a, self.uniform(product.b.descriptor)?, accumulates.into()];
        self.record_in_warpgroup(cluster, SharedStep { step: at, operands })?;
        if CHECKED && cluster.launch.options.checks.has(ExecutionCheck::Race) {
            let code = &cluster.launch.kernel.code;
            self.products.begin_product(product, at, code)?;
        }
        let WarpgroupProduct { elements: [left, right], columns, depth, .. } = *product;
        let a = match &product.a {
            FactorSource::Registers(slots) => self.fragment(slots, left, depth),
            FactorSource::Shared(matrix) => {
                let first = self.position.index % GROUP_WARPS * ROWS;
                let rows = SharedRows { matrix: *matrix, element: left, first, count: ROWS, depth };
                self.read_rows::<CHECKED>(cluster, rows)?
            }
        };
        let rows =
            SharedRows { matrix: product.b, element: right, first: 0, count: columns, depth };
        let b = self.read_rows::<CHECKED>(cluster, rows)?;
        let results = match left {
            MatrixElement::F16 => self.warpgroup_float_sums(product, F16, (&a, &b)),
            MatrixElement::Bf16 => self.warpgroup_float_sums(product, BF16, (&a, &b)),
            MatrixElement::Tf32 => self.warpgroup_float_sums(product, TF32, (&a, &b)),
            MatrixElement::S8 | MatrixElement::U8 => self.warpgroup_integer_sums(product, (&a, &b)),
        };
        for (slot, values) in product.d.iter().zip(&results) {
            self.registers.set_word(*slot, values, FULL);
        }
        // Charges the budget as for mma.sync of the same size.
        cluster.spend((columns / 8) as u64);
        Ok(())
    }

    fn record_in_warpgroup(
        &self,
        cluster: &mut ClusterState<'_>,
        step: SharedStep,
    ) -> Result<(), LaneViolation> {
        let steps = &cluster.launch.kernel.code.steps;
        let line_of = |at: usize| steps.get(at).map_or(0, |step| step.line);
        cluster.warpgroups.record(self.position.number, step, line_of)
    }

    /// Value of a descriptor, which all lanes share.
    fn uniform(&self, slot: RegisterSlot) -> Result<u64, LaneViolation> {
        let values = self.registers.long(slot);
        match values.iter().all(|value| *value == values[0]) {
            true => Ok(values[0]),
            false => Err(violation("a matrix descriptor differs between the lanes of a warp")),
        }
    }

    /// The warp's rows of A, from registers.
    fn fragment(&self, slots: &[RegisterSlot], element: MatrixElement, depth: usize) -> MatrixBits {
        let mut a = MatrixBits::zeros(ROWS, depth);
        for (at, slot) in slots.iter().enumerate() {
            for (lane, word) in self.registers.word(*slot).iter().enumerate() {
                for (column, bits) in elements(element, lane % 4, at / 2, *word) {
                    a.set(lane / 4 + 8 * (at & 1), column, bits);
                }
            }
        }
        a
    }

    /// Rows of a matrix in the block's shared memory.
    fn read_rows<const CHECKED: bool>(
        &mut self,
        cluster: &mut ClusterState<'_>,
        rows: SharedRows,
    ) -> Result<MatrixBits, LaneViolation> {
        let SharedRows { matrix, element, first, count, depth } = rows;
        let descriptor = MatrixDescriptor::decode(self.registers.long(matrix.descriptor)[0])?;
        let per_word = element.per_register();
        let per_chunk = 4 * per_word;
        let clock = self.products.next_group();
        let mut read = MatrixBits::zeros(count, depth);
        for chunk in descriptor.chunks(matrix.major, (first, count), (depth, per_chunk)) {
            check_shared(cluster, 0, chunk.address, CHUNK_BYTES as u32)?;
            let place = self.position.shared + chunk.address;
            if CHECKED {
                let at = (place, CHUNK_BYTES as u32);
                cluster.shadow.touch_async(
                    &self.clocks,
                    (self.position.number, 0),
                    at,
                    (AsyncEngine::Products, clock),
                )?;
            }
            let words = cluster.shared.get(place as usize / 4..).unwrap_or_default();
            for (at, word) in words.iter().take(4).enumerate() {
                for part in 0..per_word {
                    let width = 32 / per_word;
                    let bits = word >> (width * part) & (u32::MAX >> (32 - width));
                    let along = at * per_word + part;
                    let (row, column) = match matrix.major {
                        MajorDimension::Depth => (chunk.row, chunk.column + along),
                        MajorDimension::Outer => (chunk.row + along, chunk.column),
                    };
                    read.set(row - first, column, bits);
                }
            }
        }
        Ok(read)
    }

    /// Registers of D, for factors of a floating-point format.
    fn warpgroup_float_sums(
        &self,
        product: &WarpgroupProduct,
        format: FloatFormat,
        (a, b): (&MatrixBits, &MatrixBits),
    ) -> Vec<Words> {
        let factors = |matrix: &MatrixBits, negated: bool| -> Vec<Factors> {
            let row = |row: &[u32]| {
                let mut factors = Factors::ZERO;
                row.iter().enumerate().for_each(|(k, bits)| factors.set(k, format, *bits));
                if negated { factors.negated() } else { factors }
            };
            matrix.rows().map(row).collect()
        };
        let [of_a, of_b] = product.negated;
        let (left, right) = (factors(a, of_a), factors(b, of_b));
        let accumulates = self.registers.test(product.accumulates) != 0;
        let sum = |row: usize, column: usize, of_c: FloatFormat, start: u32| {
            // Without it, the sum starts with zero.
            let start = if accumulates { start } else { 0 };
            FusedSum::of(&left[row], &right[column], (of_c, start))
        };
        self.warpgroup_shares(product, |row, column, start| match product.accumulator {
            AccumulatorFormat::F16 => {
                let half =
                    |i: usize| sum(row, column + i, F16, start >> (16 * i) & 0xffff).to_f16();
                half(0) | half(1) << 16
            }
            _ => sum(row, column, F32, start).to_f32(),
        })
    }

    /// Registers of D, for integers.
    fn warpgroup_integer_sums(
        &self,
        product: &WarpgroupProduct,
        (a, b): (&MatrixBits, &MatrixBits),
    ) -> Vec<Words> {
        let value = |element: MatrixElement, bits: u32| match element {
            MatrixElement::S8 => i32::from(bits as u8 as i8),
            _ => i32::from(bits as u8),
        };
        let values = |matrix: &MatrixBits, element: MatrixElement| -> Vec<Vec<i32>> {
            let row = |row: &[u32]| row.iter().map(|bits| value(element, *bits)).collect();
            matrix.rows().map(row).collect()
        };
        let [of_a, of_b] = product.elements;
        let (left, right) = (values(a, of_a), values(b, of_b));
        let accumulates = self.registers.test(product.accumulates) != 0;
        let saturates = product.accumulator == AccumulatorFormat::S32 { saturates: true };
        self.warpgroup_shares(product, |row, column, start| {
            let start = if accumulates { i64::from(start.cast_signed()) } else { 0 };
            let pairs = left[row].iter().zip(&right[column]);
            let sum = i64::from(pairs.map(|(a, b)| a * b).sum::<i32>()) + start;
            let sum = if saturates { sum.clamp(i32::MIN.into(), i32::MAX.into()) } else { sum };
            sum as u32
        })
    }

    /// Computes the registers of D from row, column and register of C.
    fn warpgroup_shares(
        &self,
        product: &WarpgroupProduct,
        share: impl Fn(usize, usize, u32) -> u32,
    ) -> Vec<Words> {
        let is_packed = product.accumulator == AccumulatorFormat::F16;
        let register = |(at, slot): (usize, &RegisterSlot)| {
            let start = self.registers.word(*slot);
            // Pairs of columns: both in a register, or in two.
            let (pair, right) = if is_packed { (at, 0) } else { (at / 2, at % 2) };
            let place = |lane: usize| {
                let row = lane / 4 + 8 * (pair % 2);
                share(row, 8 * (pair / 2) + 2 * (lane % 4) + right, start[lane])
            };
            std::array::from_fn(place)
        };
        product.c.iter().enumerate().map(register).collect()
    }
}

fn violation(text: &str) -> LaneViolation {
    LaneViolation::of_warp(ViolationKind::MatrixUnit, text)
}
