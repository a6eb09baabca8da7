//! The databases that the program has inside: the committed records of some GPUs, compressed by `build.rs`. One is
//! decompressed and read where a command needs it, so that others do not pay for it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::error::DatabaseError;
use super::file::Database;
use crate::files::{self, InputKind, SHIPPED_GPUS, ShippedGpu};
use crate::model::Device;

/// The name of such a database where messages and documents name a file.
pub const BUILT_IN: &str = "built-in database";

impl Database {
    /// Reads the built-in database of a device; for one that has none, that of the NVIDIA H200.
    ///
    /// # Errors
    /// [`DatabaseError`]: never, as a test reads them.
    pub fn built_in(device: &Device) -> Result<Self, DatabaseError> {
        let path = Path::new(BUILT_IN);
        let [first, ..] = &SHIPPED_GPUS;
        let gpu = shipped(device).unwrap_or(first);
        let bytes = files::decompressed(gpu.database.to_vec(), InputKind::Database);
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
        let unreadable = |error| DatabaseError::Unreadable { path: PathBuf::from(BUILT_IN), error };
        Self::parse(&text.map_err(unreadable)?, path)
    }

    /// Whether a built-in database is of a device.
    pub fn is_built_in_for(device: &Device) -> bool {
        shipped(device).is_some()
    }

    /// Takes out the records whose problem, device and regime others have a record of.
    #[must_use]
    pub fn without_those_of(mut self, others: &[Self]) -> Self {
        let others = others.iter().flat_map(Self::records);
        let known: BTreeSet<_> = others.map(|record| record.record_key()).collect();
        self.retain(|record| !known.contains(&record.record_key()));
        self
    }
}

/// What the program has of a device.
fn shipped(device: &Device) -> Option<&'static ShippedGpu> {
    let slug = device.slug();
    SHIPPED_GPUS.iter().find(|gpu| gpu.slug == slug)
}
