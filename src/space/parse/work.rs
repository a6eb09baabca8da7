//! The declaration of a kernel's work in a search-space file.

use super::{Builder, Parsing};
use crate::space::expression::Expression;
use crate::space::family::{KernelSpec, StreamSpec, TensorCoreSpec, WorkSpec};
use crate::space::file::{SizeText, StreamFile, TensorCoresFile, WorkFile};

/// Rows and columns.
type TileText = toml::Spanned<Vec<toml::Spanned<SizeText>>>;

impl Builder {
    /// Reads `[work]`. It names its kernel where there are several.
    pub(super) fn work(&self, work: WorkFile, kernels: &[KernelSpec]) -> Parsing<WorkSpec> {
        let entries: Vec<&str> = kernels.iter().map(|kernel| kernel.entry.as_str()).collect();
        let kernel = match &work.kernel {
            Some(name) => {
                let name = self.one_of(name, "kernel", &entries)?;
                entries.iter().position(|entry| *entry == name).unwrap_or(0)
            }
            None if kernels.len() == 1 => 0,
            None => {
                let message = "`kernel` names the one whose blocks compute tiles of C";
                return Err(self.source.error(work.tile.span(), message));
            }
        };
        let span = work.tile.span();
        if let (Some(place), None) = (work.tail.as_ref().or(work.persistent.as_ref()), &work.wave) {
            let message = "`wave` is missing: the number of blocks that run at once";
            return Err(self.source.error(place.span(), message));
        }
        let size = |size: &Option<toml::Spanned<SizeText>>| {
            size.as_ref().map(|size| self.extent(size)).transpose()
        };
        let word = |word: &Option<toml::Spanned<String>>| {
            word.as_ref().map(|word| self.expression(word)).transpose()
        };
        let bytes = &work.workspace_bytes;
        Ok(WorkSpec {
            kernel,
            tile: self.tile(&work.tile)?,
            slice: size(&work.slice)?,
            blocks: size(&work.blocks)?,
            tail: word(&work.tail)?,
            wave: size(&work.wave)?,
            persistent: word(&work.persistent)?,
            resident: size(&work.resident)?,
            cluster: size(&work.cluster)?,
            workspace_bytes: [size(&bytes.a)?, size(&bytes.b)?, size(&bytes.c)?],
            stream: work.stream.as_ref().map(|stream| self.stream(stream)).transpose()?,
            tensor_cores: work
                .tensor_cores
                .as_ref()
                .map(|declared| self.tensor_cores(declared))
                .transpose()?,
            span,
        })
    }

    fn stream(&self, stream: &StreamFile) -> Parsing<StreamSpec> {
        Ok(StreamSpec {
            threads_along_k: self.extent(&stream.threads_along_k)?,
            span: self.extent(&stream.span)?,
            in_flight: self.extent(&stream.in_flight)?,
            registers: self.extent(&stream.registers)?,
        })
    }

    fn tensor_cores(&self, declared: &TensorCoresFile) -> Parsing<TensorCoreSpec> {
        let optional = |size: &Option<toml::Spanned<SizeText>>| {
            size.as_ref().map(|size| self.extent(size)).transpose()
        };
        Ok(TensorCoreSpec {
            tile: self.tile(&declared.tile)?,
            step: self.extent(&declared.step)?,
            stages: self.extent(&declared.stages)?,
            copied: self.extent(&declared.copied)?,
            read: self.extent(&declared.read)?,
            parts: optional(&declared.parts)?,
            tiles_at_once: optional(&declared.tiles_at_once)?,
            packed: optional(&declared.packed)?,
            exchanged: optional(&declared.exchanged)?,
            registers: self.extent(&declared.registers)?,
        })
    }

    fn tile(&self, tile: &TileText) -> Parsing<[Expression; 2]> {
        <[_; 2]>::try_from(self.extents(tile, "tile", 2..=2)?)
            .map_err(|_| self.source.error(tile.span(), "`tile` has rows and columns"))
    }
}
