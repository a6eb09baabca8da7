//! The tensor maps of a search-space file.

use super::{Builder, Checked};
use crate::model::Swizzle;
use crate::model::tensor_map::MAX_RANK;
use crate::space::family::{TensorMapSpec, WorkspaceSpec};
use crate::space::file::TensorMapFile;

impl Builder {
    /// Every map has an extent of its box for each dimension, and strides between all of them.
    pub(super) fn tensor_maps(
        &mut self,
        maps: Vec<TensorMapFile>,
        workspaces: &[WorkspaceSpec],
        known: &[String],
    ) -> Checked<Vec<TensorMapSpec>> {
        let mut operands = vec!["A", "B", "C"];
        operands.extend(workspaces.iter().map(|workspace| workspace.name.as_str()));
        maps.into_iter().map(|map| self.tensor_map(map, &operands, known)).collect()
    }

    fn tensor_map(
        &mut self,
        map: TensorMapFile,
        operands: &[&str],
        known: &[String],
    ) -> Checked<TensorMapSpec> {
        let name = self.identifier(&map.name, "a tensor map's name")?;
        if operands.contains(&name.as_str()) {
            let message = format!("`{name}` is the name of a workspace already");
            return Err(self.source.error(map.name.span(), message));
        }
        let swizzles = Swizzle::NAMES.map(|(name, _)| name);
        let swizzle = match &map.swizzle {
            None => "none".to_owned(),
            Some(word) => self.one_of(word, "swizzle", &swizzles)?,
        };
        let extents = self.extents(&map.extents, "extents", 1..=MAX_RANK, known)?;
        let rank = extents.len();
        let strides = match &map.strides {
            Some(strides) => self.extents(strides, "strides", rank - 1..=rank - 1, known)?,
            None if rank == 1 => Vec::new(),
            None => {
                let message = format!("`strides` has {} extents, this has 0", rank - 1);
                return Err(self.source.error(map.name.span(), message));
            }
        };
        Ok(TensorMapSpec {
            operand: self.one_of(&map.operand, "operand", operands)?,
            when: match &map.when {
                Some(when) => Some(self.expression(when, known)?),
                None => None,
            },
            offset: match &map.offset {
                Some(offset) => Some(self.extent(offset, known)?),
                None => None,
            },
            tile: self.extents(&map.tile, "tile", rank..=rank, known)?,
            name,
            extents,
            strides,
            swizzle,
        })
    }
}
