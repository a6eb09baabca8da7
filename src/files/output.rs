//! Replaces output files in one step: a temporary file beside the target is written, synced and
//! renamed, so that neither a reader nor a crash sees half a file.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tempfile::Builder;

use gemm_tune_runtime::regular_file::{FileKind, flags, refuse_special};

/// A file to write: a regular file or a free name, and its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    path: PathBuf,
    folder: PathBuf,
    name: OsString,
}

impl OutputFile {
    /// Resolves a path. A link to a regular file gives that file, so that the link stays one.
    ///
    /// # Errors
    /// What is no regular file, such as a device or a folder, and a link to nothing: a rename would
    /// put a file in its place.
    pub fn of(path: &Path) -> io::Result<Self> {
        let resolved = match fs::metadata(path) {
            Ok(metadata) => {
                refuse_special(&metadata)?;
                // `NAME/..` and other links in the folder's path stay as they were given.
                if path.is_symlink() { fs::canonicalize(path)? } else { path.to_owned() }
            }
            // A file in place of a folder is found when the folder is made.
            Err(error) if is_absent(&error) => {
                if path.is_symlink() {
                    let message = format!("it is {} to a file that does not exist", FileKind::Link);
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
                }
                path.to_owned()
            }
            Err(error) => return Err(error),
        };
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a file name");
        let name = resolved.file_name().ok_or_else(invalid)?.to_owned();
        let folder = match resolved.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        Ok(Self { path: resolved, folder, name })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of a hidden file beside it: `.NAME.SUFFIX`.
    pub fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(".");
        name.push(suffix);
        self.folder.join(name)
    }

    /// Makes its folder where it is missing.
    ///
    /// # Errors
    /// Of the system.
    pub fn make_folder(&self) -> io::Result<()> {
        fs::create_dir_all(&self.folder)
    }

    /// Checks that it can be made or replaced. Leaves nothing behind.
    ///
    /// # Errors
    /// Of the system; also a file system without locks.
    pub fn check_writable(&self) -> io::Result<()> {
        self.permissions()?;
        match check_folder(&self.folder)?.try_lock() {
            Ok(()) | Err(TryLockError::WouldBlock) => Ok(()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Replaces it, or makes it.
    ///
    /// # Errors
    /// Of the system; the file is then unchanged.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let permissions = self.permissions()?;
        let mut prefix = OsString::from(".");
        prefix.push(&self.name);
        prefix.push(".");
        // New files have the usual permissions; temporary ones are private by default.
        let mut file = Builder::new()
            .prefix(&prefix)
            .suffix(".tmp")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(&self.folder)?;
        file.write_all(bytes)?;
        if let Some(permissions) = permissions {
            file.as_file().set_permissions(permissions)?;
        }
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        Ok(())
    }

    /// Permissions of the existing file. A rename checks those of the folder only, and a read-only
    /// file must not be replaced.
    fn permissions(&self) -> io::Result<Option<Permissions>> {
        let mut options = OpenOptions::new();
        options.append(true).custom_flags(flags(OFlags::NONBLOCK | OFlags::NOFOLLOW));
        match options.open(&self.path) {
            Ok(file) => {
                let metadata = file.metadata()?;
                refuse_special(&metadata)?;
                Ok(Some(metadata.permissions()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Checks that a folder takes files, by a temporary one without a name, which is returned. Of a missing folder, the
/// nearest one above it that exists is checked.
pub(super) fn check_folder(folder: &Path) -> io::Result<File> {
    let mut above = folder.ancestors();
    let existing = above.find(|folder| folder.as_os_str().is_empty() || folder.exists());
    let is_here = |folder: &&Path| !folder.as_os_str().is_empty();
    tempfile::tempfile_in(existing.filter(is_here).unwrap_or(Path::new(".")))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Writes a file whole or not at all. Its folder is made where it is missing, and removed again where the file cannot be
/// written.
///
/// # Errors
/// As [`OutputFile::of`] and [`OutputFile::write`].
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let output = OutputFile::of(path)?;
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let made: Vec<&Path> = output.folder.ancestors().take_while(is_missing).collect();
    let written = output.make_folder().and_then(|()| output.write(bytes));
    if written.is_err() {
        // Folders that are not empty stay.
        made.into_iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_link_to_a_file_stays_and_its_target_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("below")).unwrap();
        fs::write(at("below/file"), "before").unwrap();
        fs::set_permissions(at("below/file"), Permissions::from_mode(0o640)).unwrap();
        symlink("below/file", at("link")).unwrap();
        replace(&at("link"), b"after").unwrap();
        assert!(at("link").is_symlink());
        assert_eq!(fs::read(at("below/file")).unwrap(), b"after");
        assert_eq!(fs::metadata(at("below/file")).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(folder.path()), ["below", "link"]);
    }

    #[test]
    fn what_is_no_regular_file_is_refused_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), fifo, mode, 0).unwrap();
        symlink("nothing", at("dangling")).unwrap();
        // Root gets a device of its own: a failing test would replace the machine's.
        let (kind, number) = (rustix::fs::FileType::CharacterDevice, rustix::fs::makedev(1, 3));
        let own = rustix::fs::mknodat(rustix::fs::CWD, at("device"), kind, mode, number);
        let device = own.map_or_else(|_| "/dev/null".into(), |()| at("device"));
        symlink(&device, at("to-device")).unwrap();
        for (path, message) in [
            (at("fifo"), "it is a FIFO, not a regular file"),
            (at("dangling"), "it is a symbolic link to a file that does not exist"),
            (at("to-device"), "it is a device, not a regular file"),
            (folder.path().to_owned(), "Is a directory (os error 21)"),
            (device.clone(), "it is a device, not a regular file"),
        ] {
            assert_eq!(replace(&path, b"x").unwrap_err().to_string(), message);
        }
        let left: Vec<String> =
            names(folder.path()).into_iter().filter(|n| n != "device").collect();
        assert_eq!(left, ["dangling", "fifo", "to-device"]);
        assert!(fs::symlink_metadata(device).unwrap().file_type().is_char_device());
    }

    #[test]
    fn a_name_need_not_be_utf8() {
        use std::os::unix::ffi::OsStringExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(OsString::from_vec(b"gpu-\xff.toml".to_vec()));
        replace(&path, b"x").unwrap();
        assert_eq!(fs::read(path).unwrap(), b"x");
    }
}
