//! Packed machine code: the C source unpacks streams of deflate, and survives damaged ones.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::support::without::skip;

/// Longest stream that is damaged bit by bit.
const DAMAGED: usize = 1000;

/// Builds the program, with checks of every access where the compiler has them; `None` without a compiler.
fn program(folder: &Path) -> Option<PathBuf> {
    fs::copy("src/export/artifact/c/packed.c", folder.join("packed_source.c")).unwrap();
    let (here, program) = (folder.to_str().unwrap(), folder.join("packed"));
    let checked =
        ["-fsanitize=address,undefined", "-fno-sanitize=alignment", "-fno-sanitize-recover"];
    let built = ["-std=c99", "-O1", "-I", here, "tests/artifacts/packed.c", "-o"];
    for options in [&checked[..], &[]] {
        let mut command = Command::new("gcc");
        match command.args(built).arg(&program).args(options).output() {
            Ok(output) if output.status.success() => return Some(program),
            Ok(output) if options.is_empty() => {
                panic!("{}", String::from_utf8_lossy(&output.stderr))
            }
            Ok(_) => {}
            Err(error) => {
                skip("compilers", &format!("no gcc: {error}"));
                return None;
            }
        }
    }
    None
}

/// What the program makes of a stream: its exit code and output.
fn unpacked(program: &Path, stream: &[u8], arguments: &[&str]) -> (Option<i32>, Vec<u8>) {
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(stream).unwrap();
    std::io::Seek::rewind(&mut input).unwrap();
    let output = Command::new(program).args(arguments).stdin(Stdio::from(input)).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    (output.status.code(), output.stdout)
}

#[test]
fn the_c_source_unpacks_every_kind_of_block_and_survives_damage() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    let mut random = fastrand::Rng::with_seed(1);
    let mut noise =
        |count: usize, values: u8| -> Vec<u8> { (0..count).map(|_| random.u8(..values)).collect() };
    // Blocks that are stored, that have the code of the format, and that have codes of their own.
    let images = [
        Vec::new(),
        b"a".to_vec(),
        noise(700, 255),
        noise(5000, 3),
        noise(70_000, 255),
        vec![0; 100_000],
        fs::read("Cargo.lock").unwrap(),
    ];
    for image in images {
        for level in [Compression::best(), Compression::fast(), Compression::none()] {
            let mut encoder = DeflateEncoder::new(Vec::new(), level);
            encoder.write_all(&image).unwrap();
            let stream = encoder.finish().unwrap();
            let bytes = image.len().to_string();
            let told = format!("{bytes} bytes, {level:?}");
            let (code, found) = unpacked(&program, &stream, &[&bytes]);
            assert!(code == Some(0) && found == image, "{told}: {code:?}");
            assert_eq!(unpacked(&program, &stream, &[&(image.len() + 1).to_string()]).0, Some(1));
            if stream.len() <= DAMAGED {
                assert_eq!(unpacked(&program, &stream, &[&bytes, "--damage"]).0, Some(0), "{told}");
            }
        }
    }
}
