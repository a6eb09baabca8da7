//! Whether a folder can be trusted with code: nobody but this user and root can have put files into
//! it. Cached libraries are loaded and cached kernels run, so a cache in a folder of someone else
//! would run that person's code.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Bit of a folder whose entries only their owners may rename and remove.
const STICKY: u32 = 0o1000;

/// Why a path is not trusted.
#[derive(Debug, Error)]
pub enum Distrust {
    /// It, or a folder above it, belongs to someone else.
    #[error("`{}` belongs to user {owner}, neither to this user ({user}) nor to root", .path.display())]
    Owner {
        /// The file or folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// This user.
        user: u32,
    },
    /// Others may write to it.
    #[error("other users may write to `{}` (mode {mode:o})", .path.display())]
    Writable {
        /// The file or folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It cannot be examined.
    #[error("`{}`: {error}", .path.display())]
    Unknown {
        /// The file or folder.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
}

/// Checks that only this user and root could have written what is at `path`, or below the nearest
/// folder above it that exists: the owners of it and of every folder above it, and who may write
/// there. A folder above may be writable by all if it is sticky, as `/tmp` is.
///
/// # Errors
/// [`Distrust`], with the first untrusted file or folder.
pub fn trusted(path: &Path) -> Result<(), Distrust> {
    let unknown = |path: &Path, error| Distrust::Unknown { path: path.to_owned(), error };
    let absolute = std::path::absolute(path).map_err(|error| unknown(path, error))?;
    let mut existing = absolute.as_path();
    let resolved = loop {
        match (fs::canonicalize(existing), existing.parent()) {
            (Ok(resolved), _) => break resolved,
            (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
                // A link to nothing could be given a target by someone else.
                if existing.is_symlink() {
                    return Err(unknown(existing, error));
                }
                existing = parent;
            }
            (Err(error), _) => return Err(unknown(existing, error)),
        }
    };
    let user = rustix::process::geteuid().as_raw();
    for (above, place) in resolved.ancestors().enumerate() {
        let metadata = fs::metadata(place).map_err(|error| unknown(place, error))?;
        // What is to be made below an existing folder is safe from others where that is sticky.
        let is_above = above > 0 || existing != absolute;
        judge(place, &metadata, is_above, user)?;
    }
    Ok(())
}

fn judge(path: &Path, metadata: &Metadata, is_above: bool, user: u32) -> Result<(), Distrust> {
    let owner = metadata.uid();
    if owner != user && owner != 0 {
        return Err(Distrust::Owner { path: path.to_owned(), owner, user });
    }
    let mode = metadata.mode() & 0o7777;
    // Many systems give each user a group of the same number, and make files writable by it.
    let group_is_own = metadata.gid() == 0 || metadata.gid() == user;
    let others = if group_is_own { 0o002 } else { 0o022 };
    if mode & others != 0 && !(is_above && mode & STICKY != 0) {
        return Err(Distrust::Writable { path: path.to_owned(), mode });
    }
    Ok(())
}

/// Checks that an open file belongs to this user or root.
///
/// # Errors
/// It does not.
pub fn check_owner(file: &File) -> io::Result<()> {
    let owner = file.metadata()?.uid();
    if owner == 0 || owner == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let message = format!("it belongs to user {owner}");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

/// Makes a folder, and those above it, that only this user may read and write.
///
/// # Errors
/// Of the system.
pub fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn folders_that_others_may_write_to_are_not_trusted() {
        let root = tempfile::tempdir().unwrap();
        let (above, cache) = (root.path().join("above"), root.path().join("above/cache"));
        fs::create_dir_all(&cache).unwrap();
        for (mode_above, mode, is_trusted) in [
            (0o755, 0o755, true),
            (0o755, 0o777, false),
            (0o755, 0o1777, false),
            (0o777, 0o700, false),
            (0o1777, 0o700, true),
        ] {
            set_mode(&above, mode_above);
            set_mode(&cache, mode);
            let found = trusted(&cache);
            assert_eq!(found.is_ok(), is_trusted, "{mode_above:o} {mode:o}: {found:?}");
        }
        set_mode(&above, 0o1777);
        assert!(trusted(&above.join("new/cache")).is_ok(), "made by this user in a sticky folder");
        std::os::unix::fs::symlink("nowhere", above.join("link")).unwrap();
        assert!(trusted(&above.join("link")).is_err());
    }

    #[test]
    fn a_folder_of_another_user_is_not_trusted() {
        let root = tempfile::tempdir().unwrap();
        let cache = root.path().join("cache/below");
        fs::create_dir_all(&cache).unwrap();
        // Only root gives folders away; others see theirs as root's neighbours do.
        if chown(root.path().join("cache"), Some(4242), None).is_ok() {
            let error = trusted(&cache).unwrap_err().to_string();
            assert!(error.contains("cache` belongs to user 4242"), "{error}");
        }
        let metadata = fs::metadata(root.path()).unwrap();
        let user = metadata.uid() + 1;
        let stranger = judge(root.path(), &metadata, false, user);
        assert_eq!(stranger.is_ok(), metadata.uid() == 0, "{stranger:?}");
    }

    #[test]
    fn a_private_folder_is_closed_to_others() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        make_private(&folder).unwrap();
        for folder in [&folder, &root.path().join("a")] {
            assert_eq!(fs::metadata(folder).unwrap().mode() & 0o077, 0);
        }
    }
}
