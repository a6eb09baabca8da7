//! Changes bytes of a case: bits, cuts, repeats, numbers at the edges, and parts of another case. Half
//! of the mutations of a text work on lines and words ([`super::words`]): bytes alone seldom hit
//! another word that is understood.

use super::words;

/// Parts that parsers treat in a way of their own.
const TOKENS: [&str; 40] = [
    "0",
    "-1",
    "1e999",
    "-0.0",
    "nan",
    "inf",
    "null",
    "true",
    "9223372036854775807",
    "18446744073709551615",
    "-9223372036854775808",
    "4294967296",
    "2147483648",
    "1e308",
    "\"\"",
    "[]",
    "{}",
    "[[",
    "]]",
    "{{",
    "\\u0000",
    "\\",
    "\"",
    "'",
    "\n",
    "\r\n",
    "\t",
    "#",
    "=",
    ",",
    ":",
    "(",
    ")",
    "//",
    "%",
    " if ",
    " else ",
    "é",
    "\u{202e}",
    "../",
];

/// Longest case: parsers are linear in it.
const MAX_BYTES: usize = 1 << 16;

/// A case with a few changes; `other` is another one of the same corpus.
pub(crate) fn mutated(case: &[u8], other: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    if let (true, Ok(text)) = (random.bool(), std::str::from_utf8(case)) {
        return cut(words::mutated(text, random).into_bytes());
    }
    let mut bytes = case.to_vec();
    for _ in 0..random.usize(1..5) {
        let at = random.usize(..=bytes.len());
        let end = (at + random.usize(..64)).min(bytes.len());
        match random.u8(..9) {
            0 => drop(bytes.drain(at..end)),
            1 => bytes.truncate(at),
            2 => {
                let part = bytes[at..end].to_vec();
                let times = random.usize(1..64);
                bytes.splice(at..at, part.repeat(times));
            }
            3 => {
                let from = random.usize(..=other.len());
                let to = (from + random.usize(..256)).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
            4 | 5 => {
                let token = TOKENS[random.usize(..TOKENS.len())];
                bytes.splice(at..at, token.bytes());
            }
            6 => {
                // A number for a number.
                let digits = |byte: &u8| byte.is_ascii_digit();
                if let Some(first) = bytes[at..].iter().position(digits).map(|first| at + first) {
                    let length = bytes[first..].iter().take_while(|byte| digits(byte)).count();
                    let token = TOKENS[random.usize(..14)];
                    bytes.splice(first..first + length, token.bytes());
                }
            }
            7 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.u8(..);
                }
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.u8(..8);
                }
            }
        }
    }
    cut(bytes)
}

fn cut(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(MAX_BYTES);
    bytes
}
