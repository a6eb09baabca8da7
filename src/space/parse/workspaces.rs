//! The workspaces of a search-space file.

use super::{Builder, Parsing};
use crate::model::launch::WORKSPACE_ALIGNMENT;
use crate::space::family::WorkspaceSpec;
use crate::space::file::WorkspaceFile;

impl Builder {
    /// Every workspace has a name of its own, and the alignment that all buffers have unless it asks for less.
    pub(super) fn workspaces(&self, spaces: Vec<WorkspaceFile>) -> Parsing<Vec<WorkspaceSpec>> {
        let mut known: Vec<WorkspaceSpec> = Vec::new();
        for space in spaces {
            let name = self.buffer_name(&space.name, "a workspace's name")?;
            if known.iter().any(|other| other.name == name) {
                let message = format!("two workspaces are named `{name}`");
                return Err(self.source.error(space.name.span(), message));
            }
            let align = match space.align {
                None => WORKSPACE_ALIGNMENT,
                Some(bytes) => u32::try_from(*bytes.get_ref())
                    .ok()
                    .filter(|bytes| bytes.is_power_of_two() && *bytes <= WORKSPACE_ALIGNMENT)
                    .ok_or_else(|| {
                        let message = format!(
                            "`align` is {}: a workspace is aligned to a power of two up to \
                             {WORKSPACE_ALIGNMENT} bytes",
                            bytes.get_ref()
                        );
                        self.source.error(bytes.span(), message)
                    })?,
            };
            known.push(WorkspaceSpec { name, bytes: self.extent(&space.bytes)?, align });
        }
        Ok(known)
    }
}
