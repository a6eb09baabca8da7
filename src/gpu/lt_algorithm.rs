//! A cuBLASLt algorithm as numbers: what `cublasLtMatmulAlgoInit` and `cublasLtMatmulAlgoConfigSetAttribute` make it of
//! again. Records keep the numbers by name.

#![expect(unsafe_code, reason = "cuBLASLt is a C library")]

use cudarc::cublaslt::sys;
use cudarc::cublaslt::sys::cublasLtMatmulAlgoConfigAttributes_t as Attribute;

/// For cuBLASLt: the attributes of [`ATTRIBUTES`] that an algorithm has, `compute` (`cublasComputeType_t`), and
/// `workspace_bytes`.
pub use gemm_tune_runtime::stored::LibraryAlgorithm;

/// Name of the compute type among the numbers.
pub const COMPUTE: &str = "compute";

/// Name of the bytes of workspace among the numbers.
pub const WORKSPACE: &str = "workspace_bytes";

/// An attribute of an algorithm.
#[derive(Debug, Clone, Copy)]
pub struct AlgorithmAttribute {
    /// Its name in records.
    pub name: &'static str,
    /// Its number in `cublasLtMatmulAlgoConfigAttributes_t`.
    pub number: u32,
    /// Its bytes.
    pub bytes: usize,
    /// What stands before it in the name of an algorithm; `None` where the name does without.
    pub label: Option<&'static str>,
}

const fn attribute(
    name: &'static str,
    attribute: Attribute,
    bytes: usize,
    label: Option<&'static str>,
) -> AlgorithmAttribute {
    AlgorithmAttribute { name, number: attribute as u32, bytes, label }
}

/// All attributes that make an algorithm, the identifier first. Shapes of instructions and clusters have 16 bits.
pub const ATTRIBUTES: [AlgorithmAttribute; 9] = [
    attribute("id", Attribute::CUBLASLT_ALGO_CONFIG_ID, 4, Some("#")),
    attribute("tile", Attribute::CUBLASLT_ALGO_CONFIG_TILE_ID, 4, Some(" tile ")),
    attribute("stages", Attribute::CUBLASLT_ALGO_CONFIG_STAGES_ID, 4, Some(" stages ")),
    attribute("split_k", Attribute::CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4, Some(" split-k ")),
    attribute("reduction", Attribute::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4, None),
    attribute("swizzle", Attribute::CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4, None),
    attribute("custom", Attribute::CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4, None),
    attribute("inner_shape", Attribute::CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2, None),
    attribute("cluster_shape", Attribute::CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2, None),
];

/// Reads the attributes of an algorithm. Those that a kernel does not have are left out.
pub(super) fn attributes(algorithm: &sys::cublasLtMatmulAlgo_t) -> LibraryAlgorithm {
    let numbers = [
        Attribute::CUBLASLT_ALGO_CONFIG_ID,
        Attribute::CUBLASLT_ALGO_CONFIG_TILE_ID,
        Attribute::CUBLASLT_ALGO_CONFIG_STAGES_ID,
        Attribute::CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
        Attribute::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
        Attribute::CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING,
        Attribute::CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION,
        Attribute::CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID,
        Attribute::CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID,
    ];
    let mut found = LibraryAlgorithm::new();
    for (own, number) in ATTRIBUTES.iter().zip(numbers) {
        let (mut value, mut written) = (0u32, 0);
        // SAFETY: an attribute has at most 32 bits; those of 16 fill the lower half (little-endian).
        let status = unsafe {
            sys::cublasLtMatmulAlgoConfigGetAttribute(
                algorithm,
                number,
                (&raw mut value).cast(),
                own.bytes,
                &raw mut written,
            )
        };
        // All bits are set where the library decides when it is called.
        let undecided = u32::MAX >> (32 - 8 * own.bytes);
        if status as u32 == 0 && value != undecided {
            found.insert(own.name.to_owned(), u64::from(value));
        }
    }
    found
}

/// Distinguishing name of an algorithm: `cublasLt#20 tile 18 stages 8 split-k 1`, in cuBLASLt's own numbers.
pub fn algorithm_name(algorithm: &LibraryAlgorithm) -> String {
    let mut name = "cublasLt".to_owned();
    for own in ATTRIBUTES {
        if let (Some(label), Some(value)) = (own.label, algorithm.get(own.name)) {
            name += &format!("{label}{value}");
        }
    }
    name
}

/// Reads the numbers that the name of a library routine has, as records without [`LibraryAlgorithm`]s give it:
/// `cuBLASLt, best of 16 (cublasLt#66 tile 12 stages 35 split-k 1)`. `None` for another routine.
pub fn algorithm_of_name(name: &str) -> Option<LibraryAlgorithm> {
    let start = name.find("cublasLt#")?;
    let own = name[start..].trim_end_matches(')');
    let mut found = LibraryAlgorithm::new();
    for attribute in ATTRIBUTES {
        let Some(label) = attribute.label else { continue };
        let Some(at) = own.find(label) else { continue };
        let rest = &own[at + label.len()..];
        let digits = rest.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(rest.len());
        // Earlier versions wrote undecided values as -1 without a sign.
        match rest[..digits].parse::<u64>() {
            Ok(value) if value < u64::from(u32::MAX) => {
                found.insert(attribute.name.to_owned(), value);
            }
            _ => {}
        }
    }
    found.contains_key("id").then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written() {
        let all = [("id", 66), ("tile", 12), ("stages", 35), ("split_k", 1)];
        let own: LibraryAlgorithm =
            all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let name = algorithm_name(&own);
        assert_eq!(name, "cublasLt#66 tile 12 stages 35 split-k 1");
        assert_eq!(algorithm_of_name(&name), Some(own.clone()));
        assert_eq!(algorithm_of_name(&format!("cuBLASLt, best of 16 ({name})")), Some(own));
    }

    #[test]
    fn a_name_without_an_algorithm_has_none_and_undecided_values_are_left_out() {
        for name in ["cuBLAS", "", "cublasLt#", "cublasLt#x tile 3", "cublasLt"] {
            assert_eq!(algorithm_of_name(name), None, "{name}");
        }
        let undecided = algorithm_of_name("cublasLt#12 tile 0 stages 0 split-k 4294967295");
        assert_eq!(undecided.unwrap().keys().collect::<Vec<_>>(), ["id", "tile", "stages"]);
    }
}
