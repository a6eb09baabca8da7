//! The tensor maps of a kernel: they hang on addresses, so that they are encoded when operands are known,
//! and kept for operands that come back.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::driver::Driver;
use super::operands::GemmOperands;
use crate::gpu::GpuError;
use crate::model::{Dtype, TensorMap};

/// How many sets of operands are remembered before all are forgotten. A model has some tens of layers of
/// one shape, each with its own weights.
const MOST_REMEMBERED: usize = 1024;

/// Where what a map describes begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MapBase {
    A,
    B,
    C,
    /// So many bytes into the workspace.
    Workspace(u64),
}

/// The addresses of A, B, C and the workspace.
type OperandAddresses = [u64; 4];

/// The maps of a kernel that is ready for one problem.
#[derive(Debug)]
pub(super) struct TensorMapCache<M> {
    dtype: Dtype,
    maps: Vec<(TensorMap, MapBase)>,
    remembered: RwLock<HashMap<OperandAddresses, Arc<[M]>>>,
}

impl<M> TensorMapCache<M> {
    /// TensorMapCache that were checked, of elements of a dtype.
    pub(super) fn new(dtype: Dtype, maps: Vec<(TensorMap, MapBase)>) -> Self {
        Self { dtype, maps, remembered: RwLock::default() }
    }

    /// The maps as kernels are passed them; nothing where there are none. Allocates for operands that
    /// were not seen lately, and for no others.
    pub(super) fn encoded(
        &self,
        driver: &impl Driver<MapHandle = M>,
        operands: &GemmOperands,
        workspace: u64,
    ) -> Result<Option<Arc<[M]>>, GpuError> {
        if self.maps.is_empty() {
            return Ok(None);
        }
        let addresses = [operands.a, operands.b, operands.c, workspace];
        let remembered = self.remembered.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(maps) = remembered.get(&addresses) {
            return Ok(Some(Arc::clone(maps)));
        }
        drop(remembered);
        let encode = |(map, base): &(TensorMap, MapBase)| {
            let address = match base {
                MapBase::A => operands.a,
                MapBase::B => operands.b,
                MapBase::C => operands.c,
                MapBase::Workspace(offset) => workspace + offset,
            };
            driver.encode(&map.placed(address, self.dtype))
        };
        let maps: Arc<[M]> = self.maps.iter().map(encode).collect::<Result<_, _>>()?;
        let mut remembered = self.remembered.write().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= MOST_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(addresses, Arc::clone(&maps));
        Ok(Some(maps))
    }
}
