//! The tensor maps of a search-space file.

use super::{Builder, Parsing};
use crate::model::Swizzle;
use crate::model::tensor_map::{ADDRESS_ALIGNMENT, MAX_RANK};
use crate::space::family::{TensorMapSpec, WorkspaceSpec};
use crate::space::file::TensorMapFile;

/// Operands of a product; other operands of maps are workspaces.
const OPERANDS: [&str; 3] = ["A", "B", "C"];

impl Builder {
    /// Every map has an extent of its box for each dimension, and strides between all of them.
    pub(super) fn tensor_maps(
        &self,
        maps: Vec<TensorMapFile>,
        workspaces: &[WorkspaceSpec],
    ) -> Parsing<Vec<TensorMapSpec>> {
        let mut operands = OPERANDS.to_vec();
        operands.extend(workspaces.iter().map(|workspace| workspace.name.as_str()));
        let check = |map: &TensorMapFile| {
            let space = workspaces.iter().find(|space| space.name == *map.operand.get_ref());
            match space.filter(|space| u64::from(space.align) < ADDRESS_ALIGNMENT) {
                None => Ok(()),
                Some(WorkspaceSpec { name, align, .. }) => {
                    let message = format!(
                        "workspace `{name}` is aligned to {align} bytes, and a tensor map needs \
                         {ADDRESS_ALIGNMENT}"
                    );
                    Err(self.source.error(map.operand.span(), message))
                }
            }
        };
        maps.into_iter()
            .map(|map| check(&map).and_then(|()| self.tensor_map(map, &operands)))
            .collect()
    }

    fn tensor_map(&self, map: TensorMapFile, operands: &[&str]) -> Parsing<TensorMapSpec> {
        let name = self.buffer_name(&map.name, "a tensor map's name")?;
        if operands.contains(&name.as_str()) {
            let message = format!("`{name}` is the name of a workspace already");
            return Err(self.source.error(map.name.span(), message));
        }
        let extents = self.extents(&map.extents, "extents", 1..=MAX_RANK)?;
        let rank = extents.len();
        let strides = match &map.strides {
            Some(strides) => self.extents(strides, "strides", rank - 1..=rank - 1)?,
            None if rank == 1 => Vec::new(),
            None => {
                let message = format!("`strides` has {} extents, this has 0", rank - 1);
                return Err(self.source.error(map.name.span(), message));
            }
        };
        let operand = self.one_of(&map.operand, "operand", operands)?;
        if let Some(dtype) = map.dtype.as_ref().filter(|_| OPERANDS.contains(&&*operand)) {
            let message = format!("the dtype of {operand} is the problem's: omit `dtype`");
            return Err(self.source.error(dtype.span(), message));
        }
        if let Some(word) = map.rounds_to.as_ref().filter(|_| operand == "C") {
            let message = "operands of products are rounded, and C is none: omit `rounds_to`";
            return Err(self.source.error(word.span(), message.to_owned()));
        }
        Ok(TensorMapSpec {
            dtype: map.dtype.map(|word| self.word(&word)).transpose()?,
            when: map.when.as_ref().map(|when| self.expression(when)).transpose()?,
            offset: map.offset.as_ref().map(|offset| self.extent(offset)).transpose()?,
            tile: self.extents(&map.tile, "tile", rank..=rank)?,
            swizzle: map.swizzle.map_or(Ok(Swizzle::None), |word| self.word(&word))?,
            rounds_to: map.rounds_to.map(|word| self.word(&word)).transpose()?,
            name,
            operand,
            extents,
            strides,
        })
    }
}
