//! One run of a candidate on the cpu device, and its expected result. Pure: works on the bits of C.

use super::element::{bits_of, overflow, rounding, value_of};
use super::inputs::{LineClass, Seeds, ValueKind, uneven_scalars};
use super::region::{OperandValues, Region, RowSegment, SegmentSums};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

use crate::arithmetic::{
    ErrorBounds, error_bound_of_small_integers, error_bounds, is_activation, slope,
};
use crate::model::{EpilogueOp, Mismatch, Problem, Shape};
use crate::worker::Scalars;

/// Inputs and bound of a run.
#[derive(Debug, Clone)]
pub(super) struct ValidationRun {
    pub(super) name: String,
    problem: Problem,
    pub(super) values: ValueKind,
    pub(super) scalars: Scalars,
    pub(super) bound: f64,
    /// Bounds of the classes of elements, in units of `bound`.
    units: ClassUnits,
    seeds: Seeds,
}

/// An element that a run is expected to leave in C.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ExpectedElement {
    value: f64,
    /// The unit of its error.
    unit: f64,
    /// Whether an infinity or a NaN is among its terms.
    is_special: bool,
}

/// What multiplies the unit of an element's error, by the lines that it is the product of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ClassUnits {
    /// One line at least has a single value.
    pub(super) single: f64,
    /// Both lines are positive.
    pub(super) positive: f64,
}

impl ClassUnits {
    /// One bound for all elements.
    const ONE: Self = Self { single: 1.0, positive: 1.0 };

    /// Units of mixed values, in units of the bound of signed ones.
    pub(super) fn of(problem: &Problem) -> Self {
        let ErrorBounds { signed, positive, single } = error_bounds(problem);
        if signed == 0.0 {
            return Self::ONE;
        }
        Self { single: single / signed, positive: positive / signed }
    }

    fn at(self, lines: [u64; 2]) -> f64 {
        match lines.map(LineClass::of) {
            [LineClass::Single, _] | [_, LineClass::Single] => self.single,
            [LineClass::Positive, LineClass::Positive] => self.positive,
            _ => 1.0,
        }
    }
}

impl ValidationRun {
    /// A run on small integers, which must be exact.
    pub(super) fn small(problem: &Problem, seeds: Seeds) -> Self {
        Self {
            name: "small integers, alpha = 1, beta = 0".to_owned(),
            problem: *problem,
            values: ValueKind::Small,
            scalars: Scalars::PLAIN,
            bound: error_bound_of_small_integers(problem),
            units: ClassUnits::ONE,
            seeds,
        }
    }

    /// A run on mixed values with other factors, checked against the bounds of their classes.
    pub(super) fn mixed(problem: &Problem, seeds: Seeds) -> Self {
        let scalars = uneven_scalars(problem.types.scalar());
        let Scalars { alpha, beta } = scalars;
        Self {
            name: format!("values of mixed kinds, alpha = {alpha}, beta = {beta}"),
            problem: *problem,
            values: ValueKind::Mixed,
            scalars,
            bound: error_bounds(problem).signed,
            units: ClassUnits::of(problem),
            seeds,
        }
    }

    /// Returns the bits of C at `index` before the run, where beta is not 0.
    pub(super) fn old_bits(&self, index: u64) -> u32 {
        let dtype = self.problem.types.d;
        bits_of(dtype, ValueKind::Uniform.at(dtype, index, self.seeds.c()))
    }

    /// The elements of a region that are expected, by segment.
    pub(super) fn expected_in(&self, region: &Region) -> Vec<Vec<ExpectedElement>> {
        let source = OperandValues { values: self.values, seeds: self.seeds.operands() };
        let sums = region.reference(&self.problem, source);
        let segments = region.runs.iter().zip(&sums);
        segments
            .map(|(segment, sums)| {
                let element = |i| {
                    let (value, unit) = self.expected(segment, sums, i);
                    ExpectedElement { value, unit, is_special: !sums.values[i].is_finite() }
                };
                (0..sums.values.len()).map(element).collect()
            })
            .collect()
    }

    /// Compares the elements of a region, by segment, with the expected ones. Returns the largest error.
    /// The rounding of C is no part of it.
    ///
    /// # Errors
    /// The mismatch.
    pub(super) fn judge(
        &self,
        region: &Region,
        expected: &[Vec<ExpectedElement>],
        elements: &[Vec<u32>],
    ) -> Result<f64, Box<Mismatch>> {
        let mut worst = Mismatch {
            check: self.name.clone(),
            at: None,
            got: 0.0,
            expected: 0.0,
            error: 0.0,
            bound: self.bound,
            wrong: 0,
        };
        for ((run, expected), elements) in region.runs.iter().zip(expected).zip(elements) {
            for (i, (bits, expected)) in elements.iter().zip(expected).enumerate() {
                let got = value_of(self.problem.types.d, *bits);
                let ExpectedElement { value: expected, unit, is_special } = *expected;
                let error = if is_special {
                    self.special_error(got, expected)
                } else {
                    self.error(got, expected, unit)
                };
                worst.wrong += u64::from(error > self.bound);
                if error > worst.error {
                    let at = Some([run.product, run.row, run.column + i as u64]);
                    worst = Mismatch { at, got, expected, error, ..worst };
                }
            }
        }
        if worst.wrong == 0 { Ok(worst.error) } else { Err(Box::new(worst)) }
    }

    /// Returns the expected value of element `i` of a segment, and the unit of its error.
    fn expected(&self, run: &RowSegment, sums: &SegmentSums, i: usize) -> (f64, f64) {
        let (alpha, beta) = (f64::from(self.scalars.alpha), f64::from(self.scalars.beta));
        let index = run.index(&self.problem) + i as u64;
        let mut scaled_old = 0.0;
        if beta != 0.0 {
            scaled_old = beta * ValueKind::Uniform.at(self.problem.types.d, index, self.seeds.c());
        }
        let exact = alpha * sums.values[i] + scaled_old;
        let dtype = self.problem.types.d;
        if dtype.is_integer() {
            // Integers wrap. Products are below 10^6, so the sum is exact here.
            return (f64::from(self.integer_epilogue(exact as i64 as i32, index)), 1.0);
        }
        let unit = match self.values {
            ValueKind::Small => exact.abs(),
            ValueKind::Uniform | ValueKind::Mixed => {
                alpha.abs() * sums.magnitudes[i] + scaled_old.abs()
            }
        };
        let (value, unit) = self.epilogue(exact, unit, index);
        let unit = unit * self.units.at([run.row, run.column + i as u64]);
        if self.bound == 0.0 {
            (value_of(dtype, bits_of(dtype, value)), 1.0)
        } else {
            (value, unit)
        }
    }

    /// Applies the epilogue to the value of element `index` of C, and to the unit of its error.
    fn epilogue(&self, mut value: f64, mut unit: f64, index: u64) -> (f64, f64) {
        for operation in self.problem.epilogue.operations() {
            let operand = self.operand(operation, index);
            match operation {
                EpilogueOp::Bias | EpilogueOp::Residual => {
                    value += operand;
                    unit += operand.abs();
                }
                EpilogueOp::RowScale | EpilogueOp::ColScale | EpilogueOp::Mul => {
                    value *= operand;
                    unit *= operand.abs();
                }
                EpilogueOp::Relu if value < 0.0 => value = 0.0,
                EpilogueOp::Relu => {} // NaN stays
                EpilogueOp::Gelu => value *= 0.5 * (1.0 + libm::erf(value * FRAC_1_SQRT_2)),
                EpilogueOp::GeluTanh => {
                    let inner = value + 0.044_715 * value.powi(3);
                    value *= 0.5 * (1.0 + ((2.0 / PI).sqrt() * inner).tanh());
                }
                EpilogueOp::Silu => value /= 1.0 + (-value).exp(),
            }
            unit *= slope(operation);
        }
        (value, unit)
    }

    /// The same for integers, modulo 2^32.
    fn integer_epilogue(&self, value: i32, index: u64) -> i32 {
        self.problem.epilogue.operations().fold(value, |value, operation| match operation {
            EpilogueOp::Relu => value.max(0),
            _ => value.wrapping_add(self.operand(operation, index) as i32),
        })
    }

    /// The value that an operation's operand has for element `index` of C; 0 where it has no operand.
    fn operand(&self, operation: EpilogueOp, index: u64) -> f64 {
        let Shape { m, n, .. } = self.problem.shape;
        let at = match operation {
            EpilogueOp::RowScale => index / n,
            EpilogueOp::Bias | EpilogueOp::ColScale => index / (m * n) * n + index % n,
            _ => index,
        };
        if operation.operand().is_none() {
            return 0.0;
        }
        let dtype = operation.operand_dtype(self.problem.types);
        self.values.beside().at(dtype, at, self.seeds.epilogue_operand(operation))
    }

    /// The error of a value that an infinity or a NaN became: it is the same, unless activations follow.
    fn special_error(&self, got: f64, expected: f64) -> f64 {
        let is_same = got == expected || got.is_nan() && expected.is_nan();
        let is_free = self.problem.epilogue.operations().any(is_activation);
        if is_same || is_free { 0.0 } else { f64::INFINITY }
    }

    /// Returns the distance in a unit, beyond the rounding of C; infinite for NaN.
    fn error(&self, got: f64, expected: f64, unit: f64) -> f64 {
        if got == expected {
            return 0.0;
        }
        let dtype = self.problem.types.d;
        if got.is_infinite() && expected.is_finite() {
            // From there on a value is rounded to an infinity.
            return ((overflow(dtype) - expected * got.signum()) / unit).max(0.0);
        }
        let is_exact = self.bound == 0.0;
        let rounding = if is_exact { 0.0 } else { rounding(dtype, expected) };
        let error = ((got - expected).abs() - rounding) / unit;
        if error.is_nan() { f64::INFINITY } else { error.max(0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Epilogue, GemmType, Layout, ProblemPattern};

    fn right_words(run: &ValidationRun, expected: &[Vec<ExpectedElement>]) -> Vec<Vec<u32>> {
        let bits = |expected: &ExpectedElement| bits_of(run.problem.types.d, expected.value);
        expected.iter().map(|segment| segment.iter().map(bits).collect()).collect()
    }

    #[test]
    fn a_value_beyond_f16_becomes_an_infinity_of_its_sign() {
        let types = GemmType { d: Dtype::F16, ..GemmType::of(Dtype::I8) };
        let epilogue = "row-scale".parse().unwrap();
        let pattern = ProblemPattern { types, layout: Layout::Nn, epilogue };
        let run = ValidationRun::mixed(&pattern.problem("1x1x1".parse().unwrap()), Seeds::of(1));
        let infinity = f64::INFINITY;
        assert_eq!(run.error(infinity, 70_000.0, 70_000.0), 0.0);
        assert_eq!(run.error(-infinity, -65_520.0, 65_520.0), 0.0);
        assert!(run.error(infinity, 65_519.999, 65_520.0) < run.bound);
        for (got, expected) in [(infinity, 60_000.0), (infinity, -70_000.0), (65_504.0, 70_000.0)] {
            assert!(run.error(got, expected, expected.abs()) > run.bound, "{got} for {expected}");
        }
    }

    #[test]
    fn the_rounded_product_passes_and_one_wrong_element_is_found() {
        let half_out = GemmType { d: Dtype::F16, ..GemmType::of(Dtype::F32) };
        let types = Dtype::ALL.iter().map(|dtype| GemmType::of(*dtype)).chain([half_out]);
        for types in types {
            let pattern = ProblemPattern { types, layout: Layout::Nn, epilogue: Epilogue::NONE };
            let problem = pattern.problem("9x11x300".parse().unwrap());
            let region = Region::of(&problem, &[true; 99]);
            for run in [
                ValidationRun::small(&problem, Seeds::of(5)),
                ValidationRun::mixed(&problem, Seeds::of(5)),
            ] {
                let expected = run.expected_in(&region);
                let mut words = right_words(&run, &expected);
                let error = run.judge(&region, &expected, &words).unwrap();
                assert!(error <= run.bound, "{run:?}");
                words[4][7] ^= 1 << (8 * types.d.bytes() - 12).min(12);
                let mismatch = run.judge(&region, &expected, &words).unwrap_err();
                assert_eq!((mismatch.wrong, mismatch.at), (1, Some([0, 4, 7])), "{mismatch}");
                if !types.d.is_integer() {
                    words[4][7] = bits_of(types.d, f64::NAN);
                    assert!(run.judge(&region, &expected, &words).is_err());
                }
            }
        }
    }
}
