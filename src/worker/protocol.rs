//! Messages between parent and worker. A frame consists of two little-endian lengths, a JSON head
//! and raw bytes (a cubin, or memory contents).

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Baselines, DeviceConditions, KernelSetup, LoadedModule, WorkItem};
use crate::model::{Device, Problem};

/// Protocol version, raised with every change of a message; parent and worker must agree.
pub(super) const VERSION: u32 = 4;

/// Largest part of a frame. Larger lengths indicate garbage: no cubin or read comes near.
const MAX_PART: u32 = 1 << 30;

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerRequest {
    Open { version: u32, ordinal: usize, libraries: Vec<PathBuf> },
    FreeMemory,
    Allocate { bytes: u64 },
    Free { address: u64 },
    Fill { address: u64, word: u32, words: u64 },
    Read { address: u64, bytes: u64 },
    Load { kernels: Vec<KernelSetup> },
    Unload { module: u32 },
    Run { work: Vec<WorkItem> },
    Record { work: Vec<WorkItem> },
    Replay { sequence: u32, flush: Option<(u64, u64)> },
    Forget { sequence: u32 },
    Baselines { problem: Problem, heuristics: usize },
    Conditions,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerResponse {
    Opened { version: u32, device: Box<Device>, devices: usize },
    Done,
    Number(u64),
    Bytes,
    Loaded(LoadedModule),
    Elapsed { us: f64 },
    Baselines(Baselines),
    Conditions(DeviceConditions),
    Failed { message: String, sticky: bool },
    NoDevice { message: String },
    OutOfMemory { message: String },
}

/// Writes a frame and flushes.
pub(super) fn write_frame(
    out: &mut impl Write,
    head: &impl Serialize,
    body: &[u8],
) -> io::Result<()> {
    let head = serde_json::to_vec(head)?;
    let length = |part: &[u8]| {
        u32::try_from(part.len())
            .ok()
            .filter(|length| *length <= MAX_PART)
            .ok_or_else(|| io::Error::other("a message is too long"))
    };
    out.write_all(&length(&head)?.to_le_bytes())?;
    out.write_all(&length(body)?.to_le_bytes())?;
    out.write_all(&head)?;
    out.write_all(body)?;
    out.flush()
}

/// Reads a frame; `None` at the end of the stream.
pub(super) fn read_frame<T: DeserializeOwned>(
    input: &mut impl Read,
) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut lengths = [0; 8];
    match input.read_exact(&mut lengths) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let [h0, h1, h2, h3, b0, b1, b2, b3] = lengths;
    let head = read_part(input, u32::from_le_bytes([h0, h1, h2, h3]))?;
    let body = read_part(input, u32::from_le_bytes([b0, b1, b2, b3]))?;
    Ok(Some((serde_json::from_slice(&head)?, body)))
}

fn read_part(input: &mut impl Read, length: u32) -> io::Result<Vec<u8>> {
    if length > MAX_PART {
        return Err(io::Error::other("a message has an impossible length"));
    }
    let mut part = Vec::new();
    input.take(length.into()).read_to_end(&mut part)?;
    if part.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_survives_the_pipe() {
        let mut pipe = Vec::new();
        write_frame(&mut pipe, &WorkerRequest::Load { kernels: vec![] }, b"\x7fELF").unwrap();
        write_frame(&mut pipe, &WorkerRequest::Conditions, b"").unwrap();
        let mut input = pipe.as_slice();
        let (head, body) = read_frame::<WorkerRequest>(&mut input).unwrap().unwrap();
        assert!(matches!(head, WorkerRequest::Load { .. }));
        assert_eq!(body, b"\x7fELF");
        assert!(read_frame::<WorkerRequest>(&mut input).unwrap().is_some());
        assert!(read_frame::<WorkerRequest>(&mut input).unwrap().is_none());
    }

    #[test]
    fn garbage_is_an_error_and_no_panic() {
        for garbage in
            [&b"hello world, this is no frame"[..], &[255; 16], &[3, 0, 0, 0, 0, 0, 0, 0, 1]]
        {
            assert!(read_frame::<WorkerRequest>(&mut &garbage[..]).is_err());
        }
    }
}
