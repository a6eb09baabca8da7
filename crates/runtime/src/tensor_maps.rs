//! Tensor maps of a kernel. They depend on addresses: they are encoded when operands are known, and
//! cached for operands that are passed again.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::driver::Driver;
use crate::gpu::GpuError;
use crate::model::{GemmType, TensorMap};
use crate::operands::GemmOperands;
use crate::prepared::WorkspaceAddresses;

/// Sets of operands that are cached before the cache is cleared. A model has tens of layers of one
/// shape, each with its own weights.
const MOST_REMEMBERED: usize = 1024;

/// Base address of a tensor map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapBase {
    /// A.
    A,
    /// B.
    B,
    /// C, which is D in place.
    C,
    /// Offset in bytes into the workspace.
    Workspace(u64),
}

/// Addresses of A, B, D and the workspaces.
type MapAddresses = ([u64; 3], WorkspaceAddresses);

/// Tensor maps of a prepared kernel, with a cache of their encodings.
#[derive(Debug)]
pub(crate) struct TensorMapCache<M> {
    types: GemmType,
    maps: Vec<(TensorMap, MapBase)>,
    remembered: RwLock<HashMap<MapAddresses, Arc<[M]>>>,
}

impl<M> TensorMapCache<M> {
    /// Takes maps that were checked, for products of these types.
    pub(crate) fn new(types: GemmType, maps: Vec<(TensorMap, MapBase)>) -> Self {
        Self { types, maps, remembered: RwLock::default() }
    }

    /// Encodes the maps for kernel arguments; `None` for a kernel without maps. Allocates only for
    /// operands that are not in the cache.
    pub(crate) fn encoded(
        &self,
        driver: &impl Driver<MapHandle = M>,
        operands: &GemmOperands,
        workspaces: WorkspaceAddresses,
    ) -> Result<Option<Arc<[M]>>, GpuError> {
        if self.maps.is_empty() {
            return Ok(None);
        }
        let addresses = ([operands.a, operands.b, operands.d], workspaces);
        let remembered = self.remembered.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(maps) = remembered.get(&addresses) {
            return Ok(Some(Arc::clone(maps)));
        }
        drop(remembered);
        let encode = |(map, base): &(TensorMap, MapBase)| {
            let address = match base {
                MapBase::A => operands.a,
                MapBase::B => operands.b,
                MapBase::C => operands.d,
                MapBase::Workspace(offset) => workspaces.of(*offset),
            };
            driver.encode(&map.placed(address, self.types))
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
