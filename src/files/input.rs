//! Reads input files: regular files only, up to a limit, without blocking.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use gemm_tune_runtime::regular_file;

use super::kind::InputKind;

/// Opens a regular file within its limit. Links are followed.
///
/// # Errors
/// Anything else than a regular file, and a file above the limit, which the error names.
pub fn open(path: &Path, kind: InputKind) -> io::Result<File> {
    let (file, metadata) = regular_file::open(path)?;
    if metadata.len() > kind.max_bytes() {
        return Err(kind.too_large());
    }
    Ok(file)
}

/// Reads a whole file.
///
/// # Errors
/// As [`open`]; the limit holds for a file that grows meanwhile too.
pub fn read(path: &Path, kind: InputKind) -> io::Result<Vec<u8>> {
    read_open(&open(path, kind)?, kind)
}

/// Reads a whole file as UTF-8.
///
/// # Errors
/// As [`read`], and the place of the first byte that is not UTF-8.
pub fn read_text(path: &Path, kind: InputKind) -> io::Result<String> {
    utf8(read(path, kind)?)
}

/// Bytes as UTF-8; the error has the line of the first byte that is none.
pub(super) fn utf8(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let message = format!("line {line} has a byte that is not UTF-8");
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

/// Reads what is left of an open file.
pub(super) fn read_open(file: &File, kind: InputKind) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(kind.max_bytes() + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > kind.max_bytes() {
        return Err(kind.too_large());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        fs::write(at("latin1"), b"a\n\xe9").unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        File::create(at("large")).unwrap().set_len(InputKind::Shapes.max_bytes() + 1).unwrap();
        for name in ["file", "link"] {
            assert_eq!(read_text(&at(name), InputKind::Shapes).unwrap(), "text", "{name}");
        }
        for (path, message) in [
            (at("fifo"), "it is a FIFO, not a regular file"),
            (at("socket"), "it is a socket, not a regular file"),
            (at("."), "Is a directory (os error 21)"),
            ("/dev/zero".into(), "it is a device, not a regular file"),
            (at("large"), "it is larger than 16 MiB, the limit of a list of shapes"),
            (at("latin1"), "line 2 has a byte that is not UTF-8"),
        ] {
            let error = read_text(&path, InputKind::Shapes).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        let missing = read(&at("missing"), InputKind::Shapes).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
