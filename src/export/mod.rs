//! Export of winners and evaluated configurations, one file per format. Pure: values in, texts out;
//! `cli` writes the files.
//!
//! Formats that run elsewhere (bundle, C, Python, Rust) are made of [`KernelDraft`]s: kernels with
//! the conditions under which they serve a problem, as formulas.

mod bundle;
mod c;
mod c_build;
mod c_images;
mod c_library;
mod c_types;
mod coverage;
mod csv;
mod draft;
mod formulas;
mod json;
mod kernel_tuner;
mod left_out;
mod python;
mod questions;
mod rust;
mod selection;
mod served;
mod source;
mod space;
mod t4;
#[cfg(test)]
mod tests;
mod wisdom;

pub use self::csv::csv;
pub use bundle::{Artifact, ExportedKernel, bundle, seal};
pub use c::c;
pub use c_build::{LIBRARY_COMMANDS, SHARED_LIBRARY_COMMAND, STATIC_LIBRARY};
pub use c_library::LIBRARY_CALL_FROM_PYTHON;
pub use draft::{DraftError, ExportSource, KernelDraft};
pub use gemm_tune_runtime::manifest::{
    BundledDevice, BundledFile, BundledFiles, BundledKernel, BundledLaunch, BundledMap,
    BundledPacking, BundledWorkspace, LaunchFormulas, Manifest,
};
pub use gemm_tune_runtime::opening::{BundleError, CHECKSUMS, MANIFEST, open_bundle};
pub use json::json;
pub use kernel_tuner::kernel_tuner;
pub use left_out::{LeftOut, UnfitKernels, reasons};
pub use python::{LIBRARY, TRACE_MODULE, python};
pub use questions::classes;
pub use rust::rust;
pub use selection::{for_any_shape, of_dispatch};
pub(crate) use source::fill;
pub use space::{EvaluatedSpace, SpaceExportError};
pub use t4::t4;
pub use wisdom::wisdom;
