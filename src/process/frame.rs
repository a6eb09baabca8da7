//! Frames on the pipes between this program and its children: two little-endian lengths, a JSON head
//! and raw bytes (a source, a cubin, or memory contents).

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest part of a frame. Larger lengths indicate garbage: no cubin or read comes near.
const MAX_PART: u32 = 1 << 30;

/// Writes a frame and flushes.
pub(crate) fn write_frame(
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
pub(crate) fn read_frame<T: DeserializeOwned>(
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
        write_frame(&mut pipe, &"load", b"\x7fELF").unwrap();
        write_frame(&mut pipe, &"conditions", b"").unwrap();
        let mut input = pipe.as_slice();
        let (head, body) = read_frame::<String>(&mut input).unwrap().unwrap();
        assert_eq!(head, "load");
        assert_eq!(body, b"\x7fELF");
        assert!(read_frame::<String>(&mut input).unwrap().is_some());
        assert!(read_frame::<String>(&mut input).unwrap().is_none());
    }

    #[test]
    fn garbage_is_an_error_and_no_panic() {
        for garbage in
            [&b"hello world, this is no frame"[..], &[255; 16], &[3, 0, 0, 0, 0, 0, 0, 0, 1]]
        {
            assert!(read_frame::<String>(&mut &garbage[..]).is_err());
        }
    }
}
