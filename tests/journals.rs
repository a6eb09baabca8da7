//! Journals, as every command that reads them does: compressed by gzip or not, whatever their names.

use std::fs::{self, File, FileTimes};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flate2::write::GzEncoder;

use crate::support::program::{Said, gemm_tune};

/// The commands, with `JOURNAL` and `OUT` in place of files. `explain` has a test in `explain.rs`.
const READERS: [&str; 5] = [
    "replay JOURNAL --repeats 2 --max-configs 20",
    "learn JOURNAL",
    "export --format t4 --journal JOURNAL -o OUT",
    "export --format kernel-tuner --journal JOURNAL -o OUT",
    "report --journal JOURNAL -o OUT",
];

/// A part of a journal.
fn text() -> String {
    let whole = fs::read("tests/data/journals/64x64x64-x256.jsonl.gz").unwrap();
    let mut text = String::new();
    let mut decoder = flate2::read::GzDecoder::new(&whole[..]);
    std::io::Read::read_to_string(&mut decoder, &mut text).unwrap();
    let lines: Vec<&str> = text.lines().step_by(60).collect();
    lines.join("\n") + "\n"
}

fn compressed(text: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

/// Runs a reader, and returns what it said, with what it wrote.
fn read(reader: &str, journal: &Path) -> (Said, Option<String>) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let words = reader.split(' ').map(|word| match word {
        "JOURNAL" => journal.to_str().unwrap(),
        "OUT" => out.to_str().unwrap(),
        word => word,
    });
    let mut said = gemm_tune(&words.collect::<Vec<_>>());
    for text in [&mut said.out, &mut said.err] {
        *text = text.replace(out.to_str().unwrap(), "OUT");
    }
    (said, fs::read_to_string(&out).ok())
}

fn written(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    let mut file = File::create(&path).unwrap();
    file.write_all(bytes).unwrap();
    // T4 results name it.
    file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH)).unwrap();
    path
}

#[test]
fn every_command_reads_a_journal_alike_compressed_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let text = text();
    for reader in READERS {
        let plain = read(reader, &written(folder.path(), "journal.jsonl.gz", text.as_bytes()));
        let packed = compressed(text.as_bytes());
        let packed = read(reader, &written(folder.path(), "journal.jsonl.gz", &packed));
        assert_eq!(plain.0.code, packed.0.code, "{reader}");
        assert_eq!((&plain.0.out, &plain.0.err), (&packed.0.out, &packed.0.err), "{reader}");
        assert!(plain.1 == packed.1, "{reader} writes something else");
        if reader.contains("learn") {
            assert!(plain.0.err.contains("too few problems to learn of any family (1)"));
        } else {
            assert_eq!(plain.0.code, Some(0), "{reader}: {}", plain.0.err);
        }
    }
}

#[test]
fn a_cut_line_is_left_out_and_damaged_gzip_data_are_refused_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let text = text();
    let lines = text.lines().count();
    let cut = &text[..text.len() - 40];
    let whole = compressed(text.as_bytes());
    let mut wrong = whole.clone();
    let middle = wrong.len() / 2;
    wrong[middle..middle + 8].fill(0xff);
    for reader in READERS {
        for bytes in [cut.as_bytes().to_vec(), compressed(cut.as_bytes())] {
            let (said, out) = read(reader, &written(folder.path(), "journal", &bytes));
            assert!(out.is_some() || said.code == Some(0) || reader.contains("learn"), "{reader}");
            if reader.contains("--journal") {
                let words = format!("journal:{lines}: this line is no outcome and is skipped\n");
                assert!(said.err.contains(&words), "{reader}: {}", said.err);
            }
        }
        for (bytes, words) in [
            (&whole[..whole.len() / 2], "its gzip data end too early, in line "),
            (&wrong[..], "its gzip data are damaged ("),
            (&whole[..4], "its gzip data end too early, in line 1 "),
        ] {
            let (said, out) = read(reader, &written(folder.path(), "journal", bytes));
            assert_eq!(said.code, Some(1), "{reader}");
            assert_eq!(out, None, "{reader}");
            let words = format!("journal: cannot be read: {words}");
            assert!(said.err.contains(&words), "{reader}: {}", said.err);
        }
    }
}
