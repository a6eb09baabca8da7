//! Python export: the C source, a Python module that calls the library that is built of it on PyTorch tensors and CuPy
//! arrays, modules of PyTorch operators, and a module for JAX with the source of its foreign function.

use std::collections::BTreeMap;

use super::bundle::Artifact;
use super::c::c;
use super::left_out::UnfitKernels;
use crate::compile::Architecture;

/// File name of the shared library that the module loads.
pub const LIBRARY: &str = "libgemm_tuned.so";

/// The module that records the products of a PyTorch program: its name and its text.
pub const TRACE_MODULE: (&str, &str) =
    ("gemm_tuned_trace.py", include_str!("artifact/gemm_tuned_trace.py"));

/// The modules, which are the same for every export.
const MODULES: [(&str, &str); 9] = [
    ("gemm_tuned.py", include_str!("artifact/gemm_tuned.py")),
    ("gemm_tuned_library.py", include_str!("artifact/gemm_tuned_library.py")),
    ("gemm_tuned_arrays.py", include_str!("artifact/gemm_tuned_arrays.py")),
    ("gemm_tuned_torch.py", include_str!("artifact/gemm_tuned_torch.py")),
    ("gemm_tuned_products.py", include_str!("artifact/gemm_tuned_products.py")),
    ("gemm_tuned_matmul.py", include_str!("artifact/gemm_tuned_matmul.py")),
    ("gemm_tuned_jax.py", include_str!("artifact/gemm_tuned_jax.py")),
    ("gemm_tuned_jax.cc", include_str!("artifact/gemm_tuned_jax.cc")),
    TRACE_MODULE,
];

/// Makes the files by name, and lists the kernels that are left out by their places, each with the reason. Without any
/// kernel, there are no files.
pub fn python(
    artifact: &Artifact,
    architectures: &[Architecture],
) -> (BTreeMap<String, String>, UnfitKernels) {
    let (mut files, left_out) = c(artifact, architectures);
    if !files.is_empty() {
        for (name, text) in MODULES {
            files.insert(name.to_owned(), text.to_owned());
        }
    }
    (files, left_out)
}
