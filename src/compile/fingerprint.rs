//! Identity of compiled kernels: a hash of machine code, constants and kernel attributes, without
//! names, symbols and compiler versions. Configurations with equal fingerprints run the same code
//! and are measured once.

use object::read::elf::{ElfFile64, FileHeader as _, SectionHeader as _};
use object::{LittleEndian, elf};

/// Hash of everything in an image that its kernels' behaviour depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(String);

/// Name prefixes of the sections that belong to kernels; the kernel's name follows. A bare
/// `.nv.info` describes symbols.
const KERNEL_SECTIONS: [&str; 6] =
    [".text.", ".nv.constant", ".nv.shared.", ".nv.local.", ".nv.global", ".nv.info."];

impl Fingerprint {
    /// Hashes a cubin whose kernels are launched in the order of `entries`. The kernel that each
    /// name refers to is part of the hash; the name is not. Hashes all bytes of anything else.
    pub fn of(image: &[u8], entries: &[&str]) -> Self {
        let hash = of_cubin(image, entries).unwrap_or_else(|| blake3::hash(image));
        Self(hash.to_hex().chars().take(32).collect())
    }

    /// The text: 32 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Name prefix of the section with a kernel's machine code.
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
        // The section size is hashed too: shared memory has a size but no bytes.
        hasher.update(kind.as_bytes());
        hasher.update(&section.sh_size(LittleEndian).to_le_bytes());
        hasher.update(section.data(LittleEndian, image).ok()?);
    }
    hasher.update(&header.e_flags(LittleEndian).0.to_le_bytes());
    for entry in entries {
        // A missing kernel hashes to a place that no kernel has.
        let place = kernels.iter().position(|kernel| kernel == entry).unwrap_or(usize::MAX);
        hasher.update(&place.to_le_bytes());
    }
    (!kernels.is_empty()).then(|| hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::super::target::CompileTarget;
    use super::super::testing::nvrtc_or_skip;
    use super::*;

    fn fingerprint(source: &str, entries: &[&str]) -> Option<Fingerprint> {
        let target = CompileTarget::Cubin("sm_90".parse().unwrap());
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
    fn the_kernel_that_a_name_refers_to_matters() {
        let source = "extern \"C\" __global__ void one(float* x) { x[threadIdx.x] = 1.0f; }\n\
                      extern \"C\" __global__ void two(float* x) { x[threadIdx.x] = 2.0f; }";
        let Some(first) = fingerprint(source, &["one", "two"]) else { return };
        for entries in [&["two", "one"][..], &["one", "one"], &["one"], &["one", "three"]] {
            assert_ne!(fingerprint(source, entries).as_ref(), Some(&first), "{entries:?}");
        }
    }

    #[test]
    fn other_images_are_hashed_whole() {
        assert_ne!(Fingerprint::of(b".version 9.0", &[]), Fingerprint::of(b".version 9.1", &[]));
        assert_eq!(Fingerprint::of(b"\x7fELF", &[]), Fingerprint::of(b"\x7fELF", &[]));
    }
}
