//! Standard output and standard error: every write of the program goes through here and never panics.
//!
//! The first error of standard output is kept for the exit code, and later writes to it are left out: a
//! reader that has enough closes its pipe, and a full disk must not undo finished work. An error of
//! standard error has no place to be told.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::sync::OnceLock;

use serde::Serialize;

/// Bytes of a document that are written at a time.
const BUFFER: usize = 1 << 16;

/// Why standard output takes no more.
static BROKEN: OnceLock<io::Error> = OnceLock::new();

/// Writes a result, with its colours where a terminal shows them.
pub(super) fn out(text: &str) {
    if BROKEN.get().is_some() {
        return;
    }
    let mut stream = anstream::stdout().lock();
    if let Err(error) = stream.write_all(text.as_bytes()).and_then(|()| stream.flush()) {
        // Only the first one counts.
        let _ = BROKEN.set(error);
    }
}

/// Writes the bytes of a file as they are.
pub(super) fn bytes(bytes: &[u8]) {
    if BROKEN.get().is_some() {
        return;
    }
    let mut stream = io::stdout().lock();
    if let Err(error) = stream.write_all(bytes).and_then(|()| stream.flush()) {
        // Only the first one counts.
        let _ = BROKEN.set(error);
    }
}

/// Writes a JSON document, piece by piece as it is made.
pub(super) fn json(document: &impl Serialize) {
    if BROKEN.get().is_some() {
        return;
    }
    let mut stream = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    let written = serde_json::to_writer_pretty(&mut stream, document).map_err(io::Error::from);
    let written = written.and_then(|()| stream.write_all(b"\n")).and_then(|()| stream.flush());
    if let Err(error) = written {
        // Only the first one counts.
        let _ = BROKEN.set(error);
        // What is left in the buffer is not written.
        drop(stream.into_parts());
    }
}

/// Writes a note or an error.
pub(super) fn err(text: &str) {
    let mut stream = anstream::stderr().lock();
    // A lost message must not undo the work that it is about.
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
}

/// What was lost on standard output; nothing where its reader closed the pipe, which had enough.
pub(super) fn lost() -> Option<String> {
    let error = BROKEN.get().filter(|error| error.kind() != ErrorKind::BrokenPipe)?;
    Some(format!("cannot write to standard output: {error}; what was done is kept"))
}
