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
        let hash = of_cubin(image, entries, All).unwrap_or_else(|| blake3::hash(image));
        Self(hash.to_hex().chars().take(32).collect())
    }

    /// As [`Fingerprint::of`], without data that no instruction reads, such as the constants of a source,
    /// and without the numbers of symbols: the same for two sources that differ in these.
    pub fn of_code(image: &[u8], entries: &[&str]) -> Self {
        let hash = of_cubin(image, entries, Read).unwrap_or_else(|| blake3::hash(image));
        Self(hash.to_hex().chars().take(32).collect())
    }

    /// The text: 32 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Name prefix of the section with a kernel's machine code.
const CODE: &str = ".text.";

/// Which global data is part of a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Globals {
    All,
    /// None, where no instruction reads the addresses of global data.
    Read,
}
use Globals::{All, Read};

/// What the addresses of global data are in, one for each variable; code reads them from bank 4.
const ADDRESSES: &str = ".nv.constant4";

/// The attribute of a kernel that names the section of its parameters by the number of a symbol.
const PARAMETER_BANK: [u8; 4] = [4, 10, 8, 0];

fn of_cubin(image: &[u8], entries: &[&str], globals: Globals) -> Option<blake3::Hash> {
    let file: ElfFile64<'_, LittleEndian> = ElfFile64::parse(image).ok()?;
    let header = file.elf_header();
    if header.e_machine(LittleEndian) != elf::EM_CUDA {
        return None;
    }
    let sections = header.sections(LittleEndian, image).ok()?;
    let mut hasher = blake3::Hasher::new();
    let mut kernels = Vec::new();
    let mut named = Vec::new();
    for section in sections.iter() {
        let name = sections.section_name(LittleEndian, section).ok()?;
        named.push((std::str::from_utf8(name).ok()?, section.data(LittleEndian, image).ok()?));
    }
    let reads_globals =
        named.iter().any(|(name, data)| name.starts_with(CODE) && reads_bank_4(data));
    let leaves_globals = globals == Read && !reads_globals;
    for section in sections.iter() {
        let name = sections.section_name(LittleEndian, section).ok()?;
        let name = std::str::from_utf8(name).ok()?;
        let Some(kind) = KERNEL_SECTIONS.iter().find(|kind| name.starts_with(**kind)) else {
            continue;
        };
        if leaves_globals && (name.starts_with(".nv.global") || name.starts_with(ADDRESSES)) {
            continue;
        }
        kernels.extend(name.strip_prefix(CODE));
        // The section size is hashed too: shared memory has a size but no bytes.
        hasher.update(kind.as_bytes());
        hasher.update(&section.sh_size(LittleEndian).to_le_bytes());
        let data = section.data(LittleEndian, image).ok()?;
        if leaves_globals && name.starts_with(".nv.info.") {
            hasher.update(&without_symbols(data));
        } else {
            hasher.update(data);
        }
    }
    hasher.update(&header.e_flags(LittleEndian).0.to_le_bytes());
    for entry in entries {
        // A missing kernel hashes to a place that no kernel has.
        let place = kernels.iter().position(|kernel| kernel == entry).unwrap_or(usize::MAX);
        hasher.update(&place.to_le_bytes());
    }
    (!kernels.is_empty()).then(|| hasher.finalize())
}

/// Whether an instruction has an operand in constant bank 4: the bank is in bits 54 to 58, and bits 9 to 11
/// say that an operand is a constant. An instruction that only looks like one counts too.
fn reads_bank_4(code: &[u8]) -> bool {
    code.chunks_exact(16).any(|instruction| {
        let word = instruction.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let has_constant = matches!(word >> 9 & 7, 3 | 5);
        has_constant && word >> 54 & 31 == 4
    })
}

/// A kernel's attributes with zeros for the number of the symbol that its parameters' section has.
fn without_symbols(attributes: &[u8]) -> Vec<u8> {
    let mut attributes = attributes.to_vec();
    let mut at = 0;
    while let Some(head) = attributes.get(at..at + 4) {
        // Format 4 has a size and so many bytes; the others have two bytes.
        let size =
            if head[0] == 4 { usize::from(u16::from_le_bytes([head[2], head[3]])) } else { 0 };
        if head == PARAMETER_BANK
            && let Some(symbol) = attributes.get_mut(at + 4..at + 8)
        {
            symbol.fill(0);
        }
        at += 4 + size;
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::super::target::CompileTarget;
    use super::super::testing::nvrtc_or_skip;
    use super::*;

    fn fingerprint(source: &str, entries: &[&str]) -> Option<Fingerprint> {
        let target = CompileTarget::Cubin("sm_90".parse().unwrap());
        let compiled = nvrtc_or_skip()?.compile(source, "kernel.cu", target, &[]).unwrap();
        assert!(of_cubin(&compiled.image, entries, All).is_some());
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
    fn constants_that_no_instruction_reads_are_left_out_of_the_code() {
        let compiled = |source: &str| {
            let target = CompileTarget::Cubin("sm_90".parse().unwrap());
            Some(nvrtc_or_skip()?.compile(source, "kernel.cu", target, &[]).unwrap().image)
        };
        let plain = "extern \"C\" __global__ void gemm(float* x) { x[threadIdx.x] *= 2.0f; }";
        let named = plain.replace("2.0f", "TWO");
        let (Some(plain), Some(named)) =
            (compiled(plain), compiled(&format!("constexpr float TWO = 2.0f; {named}")))
        else {
            return;
        };
        let code = |image: &[u8]| Fingerprint::of_code(image, &["gemm"]);
        assert_eq!(code(&plain), code(&named));

        let table = |value: &str| {
            compiled(&format!(
                "__device__ float table[] = {{1.0f, {value}}};\n\
                 extern \"C\" __global__ void gemm(float* x) {{ x[threadIdx.x] = table[threadIdx.x]; }}"
            ))
        };
        let (Some(two), Some(three)) = (table("2.0f"), table("3.0f")) else { return };
        assert_ne!(code(&two), code(&three), "data that is read counts");
    }

    #[test]
    fn other_images_are_hashed_whole() {
        assert_ne!(Fingerprint::of(b".version 9.0", &[]), Fingerprint::of(b".version 9.1", &[]));
        assert_eq!(Fingerprint::of(b"\x7fELF", &[]), Fingerprint::of(b"\x7fELF", &[]));
    }
}
