//! Wheels that pip downloaded: checks the content, then unpacks it. Nothing of a wheel is executed
//! for that, and no name in it leads out of the folder.

use std::fs::{self, OpenOptions};
use std::io::{self, Cursor};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use thiserror::Error;
use zip::ZipArchive;

use crate::files::{self, InputKind};
use crate::quote;

/// Most bytes that a wheel has unpacked: above three times the largest.
const MAX_UNPACKED: u64 = 2 << 30;

/// Why a wheel was not unpacked.
#[derive(Debug, Error)]
pub enum WheelError {
    /// It cannot be read, or its content not written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Its content is not the expected one.
    #[error(
        "its SHA-256 checksum is {found}, not {expected}: it is not the package that NVIDIA published"
    )]
    Checksum {
        /// The expected checksum.
        expected: String,
        /// That of the file.
        found: String,
    },
    /// It is no archive, or has an entry that is not unpacked.
    #[error("it is not unpacked: {0}")]
    Archive(String),
}

impl From<zip::result::ZipError> for WheelError {
    fn from(error: zip::result::ZipError) -> Self {
        Self::Archive(error.to_string())
    }
}

/// Unpacks the wheel at `path` into `folder` if its content has the checksum. What is unpacked was
/// checked: the file is read once.
///
/// # Errors
/// [`WheelError`]; some files may then be in the folder.
pub(super) fn unpack(path: &Path, sha256: &str, folder: &Path) -> Result<(), WheelError> {
    let bytes = files::read(path, InputKind::Package)?;
    let found = hex::encode(Sha256::digest(&bytes));
    if found != sha256 {
        return Err(WheelError::Checksum { expected: sha256.to_owned(), found });
    }
    let mut archive = ZipArchive::new(Cursor::new(bytes))?;
    let mut left = MAX_UNPACKED;
    for at in 0..archive.len() {
        let entry = archive.by_index(at)?;
        let name = entry.name().map_or_else(|_| format!("entry {at}"), |name| quote::line(&name));
        let refuse = |why: &str| Err(WheelError::Archive(format!("`{name}` {why}")));
        let Some(inside) = entry.enclosed_name() else { return refuse("leads out of the folder") };
        if entry.is_symlink() {
            return refuse("is a symbolic link");
        }
        let target = folder.join(inside);
        if entry.is_dir() {
            fs::create_dir_all(target)?;
            continue;
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        // Never an existing file: two entries may have one name.
        let is_program = entry.unix_mode().is_some_and(|mode| mode & 0o100 != 0);
        let mode = if is_program { 0o755 } else { 0o644 };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(target)?;
        let written = io::copy(&mut io::Read::take(entry, left.saturating_add(1)), &mut file)?;
        left = match left.checked_sub(written) {
            Some(left) => left,
            None => return refuse("makes it larger than 2048 MiB unpacked"),
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    /// A wheel with these names, and what unpacking it gives.
    fn unpacked(names: &[&str], is_link: bool) -> (tempfile::TempDir, Result<(), WheelError>) {
        let folder = tempfile::tempdir().unwrap();
        let wheel = folder.path().join("x.whl");
        let mut writer = ZipWriter::new(fs::File::create(&wheel).unwrap());
        for name in names {
            let options = SimpleFileOptions::default().unix_permissions(0o755);
            if is_link {
                writer.add_symlink(*name, "/etc/passwd", options).unwrap();
            } else {
                writer.start_file(*name, options).unwrap();
                writer.write_all(b"content").unwrap();
            }
        }
        writer.finish().unwrap();
        let sha256 = hex::encode(Sha256::digest(fs::read(&wheel).unwrap()));
        let into = folder.path().join("into");
        fs::create_dir(&into).unwrap();
        let result = unpack(&wheel, &sha256, &into);
        (folder, result)
    }

    #[test]
    fn files_and_their_right_to_run_are_unpacked() {
        let (folder, result) = unpacked(&["nvidia/cu13/bin/tool"], false);
        result.unwrap();
        let tool = folder.path().join("into/nvidia/cu13/bin/tool");
        assert_eq!(fs::read(&tool).unwrap(), b"content");
        assert_eq!(fs::metadata(&tool).unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for name in ["../evil", "a/../../evil", "/tmp/evil"] {
            let (folder, result) = unpacked(&[name], false);
            let outside = folder.path().join("evil");
            assert!(!outside.exists(), "{name}");
            // An absolute name may also be taken as one inside.
            assert!(result.is_err() || folder.path().join("into/tmp/evil").exists(), "{name}");
        }
        let (_folder, result) = unpacked(&["link"], true);
        let error = result.unwrap_err().to_string();
        assert_eq!(error, "it is not unpacked: `link` is a symbolic link");
    }

    #[test]
    fn another_content_is_not_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let wheel = folder.path().join("x.whl");
        fs::write(&wheel, "another").unwrap();
        let error = unpack(&wheel, &"0".repeat(64), folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("its SHA-256 checksum is ae448ac86c4e8e4d"), "{error}");
    }
}
