//! Factors that are packed once for many products, as weights are. A kernel that packs one factor in a launch of its own
//! does so beforehand, and later products launch the rest.

#![expect(unsafe_code, reason = "operands are addresses here")]

use std::fmt;
use std::sync::Arc;

use crate::catalogue::Catalogue;
use crate::driver::Driver;
use crate::error::RuntimeError;
use crate::gemm::{LaunchPart, Runtime, is_nothing};
use crate::gpu::{ForeignContext, Stream};
use crate::model::{Problem, Storage};
use crate::operands::GemmOperands;
use crate::prepared::{PackedSpace, PreparedKernel, WorkspaceAddresses};
use crate::question::Question;

/// A factor of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GemmFactor {
    /// A.
    A,
    /// B.
    B,
}

/// A factor for products of one problem, packed where its kernel packs it.
pub struct PackedFactor<D: Driver = ForeignContext> {
    pub(crate) problem: Problem,
    factor: GemmFactor,
    /// Address of the factor that was packed.
    address: u64,
    packed: Option<PackedCopy<D>>,
}

/// The kernel for operands of this storage, and the copy that it reads.
struct PackedCopy<D: Driver> {
    storage: Storage,
    prepared: Arc<PreparedKernel<D>>,
    space: PackedSpace,
    memory: D::Allocation,
}

impl<D: Driver> fmt::Debug for PackedFactor<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedFactor")
            .field("problem", &self.problem)
            .field("factor", &self.factor)
            .field("is_packed", &self.is_packed())
            .finish_non_exhaustive()
    }
}

impl GemmFactor {
    /// Its name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }
}

impl<D: Driver> PackedFactor<D> {
    /// Checks that a factor is the one that was packed.
    fn check_address(&self, address: u64) -> Result<(), RuntimeError> {
        let operand = self.factor.name();
        if address == self.address { Ok(()) } else { Err(RuntimeError::OtherFactor { operand }) }
    }

    /// Whether there is a packed copy. The kernel of some problems reads the factor where it lies, or packs both factors
    /// in one launch: products are then the same as without packing.
    pub fn is_packed(&self) -> bool {
        self.packed.is_some()
    }
}

impl<C: Catalogue, D: Driver> Runtime<C, D> {
    /// Packs a factor for products of a problem, in the order of the stream. Addresses other than the factor's are not
    /// read; they say which alignment the products' operands will have.
    ///
    /// # Errors
    /// [`RuntimeError`].
    ///
    /// # Safety
    /// As for [`Runtime::gemm`]. Until the last product with the result has run, nothing writes to the factor.
    pub unsafe fn prepack(
        &self,
        stream: Stream,
        problem: &Problem,
        operands: &GemmOperands,
        factor: GemmFactor,
    ) -> Result<PackedFactor<D>, RuntimeError> {
        let address = match factor {
            GemmFactor::A => operands.a,
            GemmFactor::B => operands.b,
        };
        let unpacked = PackedFactor { problem: *problem, factor, address, packed: None };
        if is_nothing(problem) || problem.shape.k == 0 {
            return Ok(unpacked);
        }
        operands.check(problem)?;
        let storage = operands.storage();
        let prepared = self.prepare(Question::new(*problem, storage))?;
        let own = match factor {
            GemmFactor::A => [true, false],
            GemmFactor::B => [false, true],
        };
        let spaces: Vec<PackedSpace> =
            prepared.launches.iter().filter_map(|launch| launch.packs).collect();
        let [space] = spaces[..] else { return Ok(unpacked) };
        if space.factors != own {
            return Ok(unpacked);
        }
        let memory = self.driver.allocate(space.bytes)?;
        let (copy, _) = D::address_and_size(&memory);
        // The launch gets the addresses of the other workspaces too, and does not use them.
        let workspaces = WorkspaceAddresses { base: copy, elsewhere: Some((space.offset, copy)) };
        let packing = (&*prepared, LaunchPart::Packing);
        // SAFETY: the launch reads the factor, which is the caller's, and writes to the new memory.
        unsafe { self.launch(stream, packing, problem, operands, workspaces)? };
        let packed = PackedCopy { storage, prepared, space, memory };
        Ok(PackedFactor { packed: Some(packed), ..unpacked })
    }

    /// Enqueues a product with a packed factor. `operands` have the factor itself too, which is read where it was not
    /// packed, where other operands are less aligned than it was packed for, and where memory is missing.
    ///
    /// # Errors
    /// [`RuntimeError`].
    ///
    /// # Safety
    /// As for [`Runtime::gemm`] and the problem of [`Runtime::prepack`]; the factor is the one that was packed, and its
    /// packing is before the product in the order of the stream.
    pub unsafe fn gemm_packed(
        &self,
        stream: Stream,
        factor: &PackedFactor<D>,
        operands: &GemmOperands,
    ) -> Result<(), RuntimeError> {
        let problem = &factor.problem;
        let given = operands.storage();
        let copy = factor.packed.as_ref().filter(|copy| {
            let Storage { lda, ldb, ldc, alignment } = copy.storage;
            [lda, ldb, ldc] == [given.lda, given.ldb, given.ldc] && given.alignment >= alignment
        });
        let (Some(copy), false) = (copy, operands.reads_no_factors(problem)) else {
            // SAFETY: as the caller's.
            return unsafe { self.gemm(stream, problem, operands) };
        };
        factor.check_address(match factor.factor {
            GemmFactor::A => operands.a,
            GemmFactor::B => operands.b,
        })?;
        operands.check(problem)?;
        let rows_of_c = operands.rows_of_c(problem)?;
        let (address, _) = D::address_and_size(&copy.memory);
        let others =
            copy.prepared.workspace_bytes > copy.space.bytes.next_multiple_of(Storage::ALLOCATED);
        let needed = if others { copy.prepared.workspace_bytes } else { 0 };
        let mut lent = self.workspaces();
        let Some(base) = self.lend(&mut lent, stream, needed)? else {
            drop(lent);
            // SAFETY: as the caller's.
            return unsafe { self.gemm(stream, problem, operands) };
        };
        let workspaces = WorkspaceAddresses { base, elsewhere: Some((copy.space.offset, address)) };
        let rest = (&*copy.prepared, LaunchPart::Rest);
        // SAFETY: C, D and the factors are the caller's; the workspaces are the stream's, and the packed copy lives as
        // long as the factor.
        unsafe {
            if let Some(rows) = rows_of_c {
                self.driver.copy_rows(stream, &rows)?;
            }
            self.launch(stream, rest, problem, operands, workspaces)
        }
    }
}
