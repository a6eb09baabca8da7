//! The database that the program has inside: the committed records of one GPU, compressed by `build.rs`. It is
//! decompressed and read where a command needs it, so that others do not pay for it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::error::DatabaseError;
use super::file::Database;
use crate::files::{self, InputKind};
use crate::model::Device;

static COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/built-in.toml.gz"));

/// The device of its records, as file names have it.
const DEVICE: &str = "nvidia-h200";

/// Its name where messages and documents name a file.
pub const BUILT_IN: &str = "built-in database";

impl Database {
    /// Reads the built-in database.
    ///
    /// # Errors
    /// [`DatabaseError`]: never, as a test reads it.
    pub fn built_in() -> Result<Self, DatabaseError> {
        let path = Path::new(BUILT_IN);
        let bytes = files::decompressed(COMPRESSED.to_vec(), InputKind::Database);
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
        let unreadable = |error| DatabaseError::Unreadable { path: PathBuf::from(BUILT_IN), error };
        Self::parse(&text.map_err(unreadable)?, path)
    }

    /// Whether the built-in database has records of a device.
    pub fn is_built_in_for(device: &Device) -> bool {
        device.slug() == DEVICE
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
