//! A bundle with a Python module in it that calls its kernels on PyTorch tensors and CuPy arrays.
//! The module is the same for every bundle.

use std::collections::BTreeMap;

use super::bundle::{Shipped, bundle, seal};
use crate::model::Device;

/// The files by name.
pub fn python(device: &Device, kernels: &[Shipped]) -> BTreeMap<String, Vec<u8>> {
    let mut files = bundle(device, kernels);
    let module = include_str!("artifact/gemm_tuned.py").as_bytes();
    files.insert("gemm_tuned.py".to_owned(), module.to_vec());
    seal(files)
}
