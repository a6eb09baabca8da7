//! Check that a cubin is complete, before the driver loads it. Pure.

/// Checks that an image is an ELF file with all its tables. `cuModuleLoadData` takes no length and
/// would read past the end of a truncated file.
///
/// # Errors
/// What is wrong with it.
pub fn check_cubin(image: &[u8]) -> Result<(), &'static str> {
    if image.is_empty() {
        return Err("it is empty");
    }
    if !image.starts_with(b"\x7fELF") {
        return Err("it does not begin as an ELF file");
    }
    // The ELF-64 header: e_phoff and e_shoff are 8 bytes at 32 and 40, then from 54 on e_phentsize,
    // e_phnum, e_shentsize and e_shnum, 2 bytes each.
    let Some(header) = image.first_chunk::<64>() else { return Err("its header is truncated") };
    let field = |at: usize, bytes: usize| {
        header[at..at + bytes].iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
    };
    for (offset, entry_bytes, entries) in
        [(field(32, 8), field(54, 2), field(56, 2)), (field(40, 8), field(58, 2), field(60, 2))]
    {
        if offset.saturating_add(entry_bytes * entries) > image.len() as u64 {
            return Err("it is truncated");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_cubin_is_refused() {
        let mut elf = vec![0; 200];
        elf[..4].copy_from_slice(b"\x7fELF");
        elf[40] = 72; // section headers at 72,
        elf[58] = 64; // of 64 bytes,
        elf[60] = 2; // two of them: up to byte 200
        assert_eq!(check_cubin(&elf), Ok(()));
        for (image, why) in [
            (&[][..], "it is empty"),
            (b".version 9.0", "it does not begin as an ELF file"),
            (&elf[..63], "its header is truncated"),
            (&elf[..199], "it is truncated"),
        ] {
            assert_eq!(check_cubin(image), Err(why));
        }
    }
}
