//! The tensor maps of a kernel: they hang on addresses, so that they are encoded when operands are known,
//! and kept for operands that come back.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::{Driver, Operands};
use crate::gpu::GpuError;
use crate::model::{Dtype, TensorMap};

/// How many sets of operands are remembered before all are forgotten. A model has some tens of layers of
/// one shape, each with its own weights.
const MOST_REMEMBERED: usize = 1024;

/// Where what a map describes begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    A,
    B,
    C,
    /// So many bytes into the workspace.
    Workspace(u64),
}

/// The addresses of A, B, C and the workspace.
type Addresses = [u64; 4];

/// The maps of a kernel that is ready for one problem.
#[derive(Debug)]
pub(super) struct Maps<M> {
    dtype: Dtype,
    maps: Vec<(TensorMap, Base)>,
    remembered: RwLock<HashMap<Addresses, Arc<[M]>>>,
}

impl<M> Maps<M> {
    /// Maps that were checked, of elements of a dtype.
    pub(super) fn new(dtype: Dtype, maps: Vec<(TensorMap, Base)>) -> Self {
        Self { dtype, maps, remembered: RwLock::default() }
    }

    /// The maps as kernels are passed them; nothing where there are none. Allocates for operands that
    /// were not seen lately, and for no others.
    pub(super) fn encoded(
        &self,
        driver: &impl Driver<Map = M>,
        operands: &Operands,
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
        let encode = |(map, base): &(TensorMap, Base)| {
            let address = match base {
                Base::A => operands.a,
                Base::B => operands.b,
                Base::C => operands.c,
                Base::Workspace(offset) => workspace + offset,
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
