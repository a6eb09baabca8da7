//! What two compiled images have in common when they are the same kernels: machine code, constants
//! and what the driver is told about them, but not names, symbols or compiler versions. Two
//! configurations whose fingerprints agree run the same and need to be measured once.

use std::fmt;

use object::read::elf::{ElfFile64, FileHeader as _, SectionHeader as _};
use object::{LittleEndian, elf};

/// A hash over everything in an image that its kernels' behaviour depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(String);

/// Sections that belong to kernels, by the beginnings of their names; a kernel's own name follows.
/// `.nv.info` with nothing behind it is about symbols.
const KERNEL_SECTIONS: [&str; 6] =
    [".text.", ".nv.constant", ".nv.shared.", ".nv.local.", ".nv.global", ".nv.info."];

impl Fingerprint {
    /// That of a cubin of which kernels are launched by these names, in this order: which of its
    /// kernels a name means is part of it, the name itself is not. Of anything else, the hash of
    /// all its bytes.
    pub fn of(image: &[u8], entries: &[&str]) -> Self {
        let hash = of_cubin(image, entries).unwrap_or_else(|| blake3::hash(image));
        Self(hash.to_hex().chars().take(32).collect())
    }

    /// One that was written before.
    pub fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// As text: 32 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a kernel's machine code is in: its name follows.
const CODE: &str = ".text.";

fn of_cubin(image: &[u8], entries: &[&str]) -> Option<blake3::Hash> {
    let file: ElfFile64<'_, LittleEndian> = ElfFile64::parse(image).ok()?;
    let header = file.elf_header();
    if header.e_machine(LittleEndian) != elf::EM_CUDA {
        return None;
    }
    let sections = header.sections(LittleEndian, image).ok()?;
    let mut hasher = blake3::Hasher::new();
    let mut kernels = Vec::new();
    for section in sections.iter() {
        let name = sections.section_name(LittleEndian, section).ok()?;
        let name = std::str::from_utf8(name).ok()?;
        let Some(kind) = KERNEL_SECTIONS.iter().find(|kind| name.starts_with(**kind)) else {
            continue;
        };
        kernels.extend(name.strip_prefix(CODE));
        // The architecture's flags and a section's size say what its bytes do not: shared memory has
        // none.
        hasher.update(kind.as_bytes());
        hasher.update(&section.sh_size(LittleEndian).to_le_bytes());
        hasher.update(section.data(LittleEndian, image).ok()?);
    }
    hasher.update(&header.e_flags(LittleEndian).0.to_le_bytes());
    for entry in entries {
        // A kernel that is not there is told from all that are.
        let place = kernels.iter().position(|kernel| kernel == entry).unwrap_or(usize::MAX);
        hasher.update(&place.to_le_bytes());
    }
    (!kernels.is_empty()).then(|| hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::super::target::Target;
    use super::super::testing::nvrtc_or_skip;
    use super::*;

    fn fingerprint(source: &str, entries: &[&str]) -> Option<Fingerprint> {
        let target = Target::Cubin("sm_90".parse().unwrap());
        let compiled = nvrtc_or_skip()?.compile(source, "kernel.cu", target, &[]).unwrap();
        assert!(of_cubin(&compiled.image, entries).is_some());
        Some(Fingerprint::of(&compiled.image, entries))
    }

    #[test]
    fn names_and_comments_do_not_matter_and_code_does() {
        let kernel = |name: &str, body: &str| {
            format!("extern \"C\" __global__ void {name}(float* x, int n) {{ {body} }}")
        };
        let Some(first) = fingerprint(&kernel("gemm", "x[threadIdx.x] *= 2.0f;"), &["gemm"]) else {
            return;
        };
        let same = fingerprint(&kernel("other", "/* twice */ x[threadIdx.x] *= 2.0f;"), &["other"]);
        assert_eq!(same.as_ref(), Some(&first));
        for body in [
            "x[threadIdx.x] *= 3.0f;",
            "x[threadIdx.x + n] *= 2.0f;",
            "__shared__ float s[64]; s[threadIdx.x] = x[n]; __syncthreads(); x[n] = s[0];",
        ] {
            assert_ne!(
                fingerprint(&kernel("gemm", body), &["gemm"]).as_ref(),
                Some(&first),
                "{body}"
            );
        }
        let bounded = "extern \"C\" __global__ void __launch_bounds__(64, 8) gemm(float* x, int n) \
                       { x[threadIdx.x] *= 2.0f; }";
        assert_ne!(
            fingerprint(bounded, &["gemm"]).as_ref(),
            Some(&first),
            "launch bounds are attributes"
        );
    }

    #[test]
    fn which_kernel_a_name_means_matters() {
        let source = "extern \"C\" __global__ void one(float* x) { x[threadIdx.x] = 1.0f; }\n\
                      extern \"C\" __global__ void two(float* x) { x[threadIdx.x] = 2.0f; }";
        let Some(first) = fingerprint(source, &["one", "two"]) else { return };
        for entries in [&["two", "one"][..], &["one", "one"], &["one"], &["one", "three"]] {
            assert_ne!(fingerprint(source, entries).as_ref(), Some(&first), "{entries:?}");
        }
    }

    #[test]
    fn what_is_no_cubin_is_hashed_whole() {
        assert_ne!(Fingerprint::of(b".version 9.0", &[]), Fingerprint::of(b".version 9.1", &[]));
        assert_eq!(Fingerprint::of(b"\x7fELF", &[]), Fingerprint::of(b"\x7fELF", &[]));
    }
}
