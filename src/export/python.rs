//! Python export: the C source, and a Python module that calls the library that is built of it on PyTorch tensors
//! and CuPy arrays.

use std::collections::BTreeMap;

use super::bundle::Artifact;
use super::c::c;
use super::left_out::UnfitKernels;
use crate::compile::Architecture;

/// File name of the shared library that the module loads.
pub const LIBRARY: &str = "libgemm_tuned.so";

/// Makes the files by name, and lists the kernels that are left out by their places, each with the reason. Without any
/// kernel, there are no files.
pub fn python(
    artifact: &Artifact,
    architectures: &[Architecture],
) -> (BTreeMap<String, String>, UnfitKernels) {
    let (mut files, left_out) = c(artifact, architectures);
    if !files.is_empty() {
        files.insert("gemm_tuned.py".to_owned(), include_str!("artifact/gemm_tuned.py").to_owned());
    }
    (files, left_out)
}
