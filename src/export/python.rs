//! Python export: a bundle with a Python module that calls its kernels on PyTorch tensors and CuPy
//! arrays.

use std::collections::BTreeMap;

use super::bundle::{Artifact, bundle, seal};
use crate::model::problem::{MAX_EXTENT, MAX_OPERAND_BYTES};

/// Makes the files by name.
pub fn python(artifact: &Artifact) -> BTreeMap<String, Vec<u8>> {
    let mut files = bundle(artifact);
    files.insert("gemm_tuned.py".to_owned(), python_module().into_bytes());
    seal(files)
}

/// The module, which is the same for every bundle.
pub fn python_module() -> String {
    include_str!("artifact/gemm_tuned.py")
        .replace("@MAX_EXTENT@", &MAX_EXTENT.to_string())
        .replace("@MAX_OPERAND_BYTES@", &MAX_OPERAND_BYTES.to_string())
}
