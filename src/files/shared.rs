//! Files that several processes open at the same time: locks, and journals that grow line by line.
//! They are opened in place, so a link at their path is never followed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use gemm_tune_runtime::regular_file::{FileKind, flags, refuse_special};

use super::input::read_open;
use super::kind::InputKind;
use super::output::check_folder;

/// A lock between processes, held from [`LockFile::take`] until it is dropped. Its file stays: a lock on a file that is
/// renamed or removed would stay with that file.
#[derive(Debug)]
pub struct LockFile(File);

impl LockFile {
    /// Opens a lock, without taking it.
    ///
    /// # Errors
    /// What is no regular file, and errors of the system.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        open_in_place(path, &mut options).map(Self)
    }

    /// Takes the lock. Where another process has it, calls `waiting`, then waits.
    ///
    /// # Errors
    /// A file system without locks.
    pub fn take(&self, waiting: impl FnOnce()) -> io::Result<()> {
        match self.0.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => waiting(),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        loop {
            match self.0.lock() {
                Ok(()) => return Ok(()),
                // A signal, such as a terminal resize, interrupts the wait.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A file that grows line by line. It is made with its first line, so that a run that fails before leaves no empty file.
#[derive(Debug)]
pub struct GrowingFile {
    path: PathBuf,
    file: Option<File>,
    /// Whether the next lines replace what it has.
    outdated: bool,
}

impl GrowingFile {
    /// Opens a file with its content, or checks that it can be made.
    ///
    /// # Errors
    /// A link or anything else than a regular file, a file above the limit of journals, and a folder that takes no files.
    pub fn open(path: &Path) -> io::Result<(Self, Vec<u8>)> {
        let (file, bytes) = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                check_folder(path.parent().unwrap_or(path))?;
                (None, Vec::new())
            }
            _ => {
                let (file, bytes) = open_journal(path)?;
                (Some(file), bytes)
            }
        };
        Ok((Self { path: path.to_owned(), file, outdated: false }, bytes))
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes whole lines at its end, at once.
    ///
    /// # Errors
    /// Of the system.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(open_journal(&self.path)?.0),
        };
        if self.outdated {
            file.set_len(0)?;
            self.outdated = false;
        }
        file.write_all(lines)
    }

    /// Makes the next lines replace its content.
    pub fn begin_anew(&mut self) {
        self.outdated = true;
    }
}

/// Opens a journal to append to, and makes it where it is missing. Returns its content too.
fn open_journal(path: &Path) -> io::Result<(File, Vec<u8>)> {
    let file = open_in_place(path, OpenOptions::new().create(true).read(true).append(true))?;
    let bytes = read_open(&file, InputKind::Journal)?;
    Ok((file, bytes))
}

fn open_in_place(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    if path.is_symlink() {
        return Err(FileKind::Link.refused());
    }
    let file = options.custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK)).open(path)?;
    refuse_special(&file.metadata()?)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("target"), "kept").unwrap();
        for target in ["target", "missing"] {
            let link = at(&format!("to-{target}"));
            std::os::unix::fs::symlink(target, &link).unwrap();
            let refusals = [
                open_journal(&link).map(|_| ()).unwrap_err(),
                LockFile::open(&link).map(|_| ()).unwrap_err(),
            ];
            for error in refusals {
                assert_eq!(error.to_string(), "it is a symbolic link, not a regular file");
            }
        }
        assert_eq!(fs::read(at("target")).unwrap(), b"kept");
        assert!(!at("missing").exists());
    }
}
