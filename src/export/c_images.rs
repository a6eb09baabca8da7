//! Machine code in the C source: each image as a stream of deflate, in words.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// Words of an image per line.
const WORDS_A_LINE: usize = 6;

/// Writes the images as arrays: `image_A_I` for image I of architecture A.
pub(super) fn arrays(images: &[Vec<&[u8]>]) -> String {
    let each = images.iter().enumerate().flat_map(|(place, own)| {
        own.iter().enumerate().map(move |(architecture, image)| array(architecture, place, image))
    });
    each.collect()
}

/// Writes the rows of images, one for each architecture.
pub(super) fn image_table(architectures: usize, images: &[Vec<&[u8]>]) -> String {
    let row = |architecture: usize| {
        let each = images.iter().enumerate().map(|(place, own)| {
            let bytes = own.get(architecture).map_or(0, |image| image.len());
            let name = format!("image_{architecture}_{place}");
            format!("{{ {name}, sizeof {name}, {bytes} }}")
        });
        format!("    {{ {} }},\n", each.collect::<Vec<_>>().join(",\n      "))
    };
    (0..architectures).map(row).collect()
}

/// Packs an image as a stream of deflate without a header.
fn packed(image: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail.
    let _ = encoder.write_all(image);
    encoder.finish().unwrap_or_default()
}

/// Writes an image as an array of words, the last one padded with zeros.
fn array(architecture: usize, place: usize, image: &[u8]) -> String {
    let packed = packed(image);
    let words: Vec<String> = packed
        .chunks(8)
        .map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            format!("{:#x}", u64::from_le_bytes(word))
        })
        .collect();
    let lines: Vec<String> =
        words.chunks(WORDS_A_LINE).map(|line| format!("{},\n", line.join(","))).collect();
    format!(
        "static const unsigned long long image_{architecture}_{place}[{}] = {{\n{}}};\n",
        words.len(),
        lines.concat()
    )
}
