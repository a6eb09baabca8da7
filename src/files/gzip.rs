//! Input files that gzip may have compressed. Their first bytes decide that, not their name.

use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::input::{open, read, utf8};
use super::kind::InputKind;

/// The first bytes of what gzip compressed.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Longest first line that is read.
const LONGEST_LINE: u64 = 64 << 10;

/// Reads a whole file, and decompresses it where it is compressed. The limit holds for the content too.
///
/// # Errors
/// As [`read`], and the place where compressed data end too early or are damaged.
pub fn read_decompressed(path: &Path, kind: InputKind) -> io::Result<Vec<u8>> {
    decompressed(read(path, kind)?, kind)
}

/// Reads a whole file as UTF-8, and decompresses it where it is compressed.
///
/// # Errors
/// As [`read_decompressed`], and the place of the first byte that is not UTF-8.
pub fn read_decompressed_text(path: &Path, kind: InputKind) -> io::Result<String> {
    utf8(read_decompressed(path, kind)?)
}

/// Decompresses the bytes of a file where they are compressed.
///
/// # Errors
/// As [`read_decompressed`].
pub fn decompressed(bytes: Vec<u8>, kind: InputKind) -> io::Result<Vec<u8>> {
    if !bytes.starts_with(&MAGIC) {
        return Ok(bytes);
    }
    let mut content = Vec::new();
    let mut decoder = MultiGzDecoder::new(bytes.as_slice()).take(kind.max_bytes() + 1);
    decoder.read_to_end(&mut content).map_err(|error| damaged(&content, &error))?;
    if content.len() as u64 > kind.max_bytes() {
        return Err(kind.too_large());
    }
    Ok(content)
}

/// The error for compressed data of which only a part can be read.
fn damaged(content: &[u8], error: &io::Error) -> io::Error {
    let what = match error.kind() {
        io::ErrorKind::UnexpectedEof => "end too early".to_owned(),
        _ => format!("are damaged ({error})"),
    };
    let line = content.iter().filter(|byte| **byte == b'\n').count() + 1;
    let message = format!(
        "its gzip data {what}, in line {line} of the content, behind byte {}: copy or compress the file again",
        content.len()
    );
    io::Error::new(error.kind(), message)
}

/// Reads the first line of a file, decompressed where it is compressed, and no more than 64 KiB of it.
///
/// # Errors
/// As [`read_decompressed`]. What follows the line is not read.
pub fn first_line(path: &Path, kind: InputKind) -> io::Result<Vec<u8>> {
    let mut file = BufReader::new(open(path, kind)?);
    let reader: Box<dyn Read> = if file.fill_buf()?.starts_with(&MAGIC) {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    };
    let mut line = Vec::new();
    BufReader::new(reader.take(LONGEST_LINE))
        .read_until(b'\n', &mut line)
        .map_err(|error| damaged(&line, &error))?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn compressed(text: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn a_file_is_read_alike_compressed_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        // Several compressed parts one behind the other are one file.
        let parts = [compressed(b"first\nsec"), compressed(b"ond\n")].concat();
        for bytes in [b"first\nsecond\n".to_vec(), compressed(b"first\nsecond\n"), parts] {
            fs::write(&path, bytes).unwrap();
            let read = read_decompressed(&path, InputKind::Journal).unwrap();
            assert_eq!(read, b"first\nsecond\n");
            assert_eq!(first_line(&path, InputKind::Journal).unwrap(), b"first\n");
        }
        fs::write(&path, b"").unwrap();
        assert_eq!(read_decompressed(&path, InputKind::Journal).unwrap(), b"");
        assert_eq!(first_line(&path, InputKind::Journal).unwrap(), b"");
    }

    #[test]
    fn damaged_data_name_their_place() {
        // Hardly compressible, so that a part of the data is a part of the content.
        let mut random = fastrand::Rng::with_seed(7);
        let lines: Vec<String> = (0..2000).map(|_| format!("{:x}\n", random.u64(..))).collect();
        let whole = compressed(lines.concat().as_bytes());
        let message = |bytes: &[u8]| {
            let read = decompressed(bytes.to_vec(), InputKind::Journal);
            read.map_or_else(|error| error.to_string(), |_| panic!("it is read"))
        };
        let cut = message(&whole[..whole.len() / 2]);
        assert!(cut.contains("end too early, in line "), "{cut}");
        assert!(!cut.contains("in line 1 "), "{cut}");
        assert!(message(&whole[..4]).contains("end too early, in line 1 "), "{cut}");
        let mut wrong = whole.clone();
        let middle = wrong.len() / 2;
        wrong[middle..middle + 8].fill(0xff);
        assert!(message(&wrong).contains("are damaged ("), "{}", message(&wrong));
    }
}
