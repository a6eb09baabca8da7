//! Python export: a bundle with a Python module that calls its kernels on PyTorch tensors and CuPy
//! arrays. The module is the same for every bundle.

use std::collections::BTreeMap;

use super::bundle::{Artifact, bundle, seal};

/// Makes the files by name.
pub fn python(artifact: &Artifact) -> BTreeMap<String, Vec<u8>> {
    let mut files = bundle(artifact);
    let module = include_str!("artifact/gemm_tuned.py").as_bytes();
    files.insert("gemm_tuned.py".to_owned(), module.to_vec());
    seal(files)
}
