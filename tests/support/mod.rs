//! What several test binaries need.

use std::path::Path;

use gemm_tune::compile::{Architecture, Network, Nvrtc, NvrtcRequirements, SearchPaths, acquire};

/// An NVRTC of this host, else one that pip installs where this crate's other tests put it too.
pub(crate) fn nvrtc(architecture: Architecture) -> Result<Nvrtc, String> {
    let folders = |name| std::env::var_os(name).map(|v| std::env::split_paths(&v).collect());
    let paths = SearchPaths {
        explicit: std::env::var_os("GEMM_TUNE_NVRTC").map(Into::into),
        cache: Some(std::path::absolute(Path::new("target/test-cache")).unwrap()),
        library_path: folders("LD_LIBRARY_PATH").unwrap_or_default(),
        cuda_homes: folders("CUDA_HOME").unwrap_or_default(),
        python: Some("python3".into()),
    };
    let wanted = NvrtcRequirements { architecture, driver_major: None };
    acquire(&paths, &wanted, Network::Allowed, &mut |_| {}).map_err(|error| error.to_string())
}
