//! The operands of a product as slices, and the check of their dtypes and lengths.

use std::fmt;

use crate::error::RuntimeError;
use crate::model::{EpilogueOp, Problem};
use crate::needed::{GivenOperand, Rows};
use crate::operands::GemmOperands;
use crate::slices::{DeviceOperand, DeviceResult};

/// Operands of a product D = epilogue(alpha op(A) op(B) + beta C).
///
/// Without further calls, alpha is 1, beta is 0, rows have no gaps between them, and C lies in D.
pub struct Operands<'a> {
    pub(crate) a: &'a dyn DeviceOperand,
    pub(crate) b: &'a dyn DeviceOperand,
    pub(crate) d: &'a mut dyn DeviceResult,
    pub(crate) c: Option<(&'a dyn DeviceOperand, Option<u64>)>,
    pub(crate) leading_dimensions: Option<[u64; 3]>,
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
    pub(crate) epilogue: [Option<&'a dyn DeviceOperand>; EpilogueOp::ALL.len()],
    /// Names of A and B in messages.
    pub(crate) names: [&'static str; 2],
}

impl<'a> Operands<'a> {
    /// A, B and D of a product.
    pub fn new(
        a: &'a dyn DeviceOperand,
        b: &'a dyn DeviceOperand,
        d: &'a mut dyn DeviceResult,
    ) -> Self {
        Self {
            a,
            b,
            d,
            c: None,
            leading_dimensions: None,
            alpha: 1.0,
            beta: 0.0,
            epilogue: [None; EpilogueOp::ALL.len()],
            names: ["A", "B"],
        }
    }

    /// Sets the factors of the product and of C. C is not read where beta is 0, and A and B are not where alpha is 0.
    #[must_use]
    pub fn scaled(self, alpha: f64, beta: f64) -> Self {
        Self { alpha, beta, ..self }
    }

    /// Sets the elements from a row of A, B and D to the next; in a column-major product, from a column to the next.
    #[must_use]
    pub fn leading_dimensions(self, lda: u64, ldb: u64, ldd: u64) -> Self {
        Self { leading_dimensions: Some([lda, ldb, ldd]), ..self }
    }

    /// Gives C in a slice of its own, whose rows lie as those of D do. It is copied to D before the product, unless beta
    /// is 0.
    #[must_use]
    pub fn with_c(self, c: &'a dyn DeviceOperand) -> Self {
        Self { c: Some((c, None)), ..self }
    }

    /// The same with `ldc` elements from a row of C to the next.
    #[must_use]
    pub fn with_c_rows(self, c: &'a dyn DeviceOperand, ldc: u64) -> Self {
        Self { c: Some((c, Some(ldc))), ..self }
    }

    /// Gives the operand of an operation of the problem's epilogue.
    #[must_use]
    pub fn with(mut self, operation: EpilogueOp, operand: &'a dyn DeviceOperand) -> Self {
        self.epilogue[operation as usize] = Some(operand);
        self
    }

    /// The operands of the row-major product with the same memory.
    pub(crate) fn swapped(self) -> Self {
        let Self { a, b, names: [name_a, name_b], leading_dimensions, .. } = self;
        let leading_dimensions = leading_dimensions.map(|[lda, ldb, ldd]| [ldb, lda, ldd]);
        Self { a: b, b: a, names: [name_b, name_a], leading_dimensions, ..self }
    }
}

impl fmt::Debug for Operands<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { alpha, beta, leading_dimensions, .. } = self;
        f.debug_struct("Operands")
            .field("alpha", alpha)
            .field("beta", beta)
            .field("leading_dimensions", leading_dimensions)
            .finish_non_exhaustive()
    }
}

/// Checks dtypes and lengths of all operands.
pub(crate) fn check_operands(
    problem: &Problem,
    rows: &Rows,
    operands: &Operands<'_>,
) -> Result<(), RuntimeError> {
    let Operands { a, b, d, c, epilogue, names: [name_a, name_b], alpha, beta, .. } = operands;
    let types = problem.types;
    let nowhere = GemmOperands { alpha: *alpha, ..GemmOperands::packed(problem, 0, 0, 0) };
    let is_read = !nowhere.reads_no_factors(problem);
    let if_read = |elements: u64| if is_read { elements } else { 0 };
    described(name_a, *a).check(types.a, if_read(rows.elements_of_a(problem)))?;
    described(name_b, *b).check(types.b, if_read(rows.elements_of_b(problem)))?;
    let d = GivenOperand { name: "D", dtype: d.dtype(), elements: d.elements() };
    d.check(types.d, Rows::elements_of_d(problem, rows.ldd))?;
    if let Some((c, ldc)) = c {
        let elements = Rows::elements_of_d(problem, ldc.unwrap_or(rows.ldd));
        described("C", *c).check(types.d, if *beta == 0.0 { 0 } else { elements })?;
    }
    for operation in EpilogueOp::ALL.iter().copied() {
        let is_needed = problem.epilogue.operands().any(|needed| needed == operation);
        match (epilogue[operation as usize], is_needed) {
            (Some(operand), true) => {
                let elements = rows.elements_of_epilogue(problem, operation);
                described(operation.name(), operand)
                    .check(operation.operand_dtype(types), elements)?;
            }
            (None, true) => return Err(RuntimeError::MissingOperand { operation }),
            (Some(_), false) => return Err(RuntimeError::UnusedOperand { operation }),
            (None, false) => {}
        }
    }
    Ok(())
}

/// A slice as it is given.
pub(crate) fn described(name: &'static str, operand: &dyn DeviceOperand) -> GivenOperand {
    GivenOperand { name, dtype: operand.dtype(), elements: operand.elements() }
}
