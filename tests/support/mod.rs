//! Helpers that several modules of the suite use.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gemm_tune::compile::{
    Architecture, CompileTarget, Compiler, CubinCache, Network, Nvrtc, NvrtcRequirements,
    SearchPaths, acquire,
};

pub(crate) mod boxes;
pub(crate) mod cases;
pub(crate) mod emulated;
pub(crate) mod packing_family;
pub(crate) mod program;
pub(crate) mod rounded_copies;
pub(crate) mod small_tiles;
pub(crate) mod tensor_products;
pub(crate) mod without;

/// Cache folder of all tests: an NVRTC that pip installed, cubins, journals.
pub(crate) const CACHE: &str = "target/test-cache";

/// [`CACHE`] as an absolute path.
pub(crate) fn cache() -> PathBuf {
    std::path::absolute(Path::new(CACHE)).unwrap()
}

/// Architecture that tests compile for.
pub(crate) fn architecture() -> Architecture {
    "sm_90".parse().unwrap()
}

/// An NVRTC of this host, else one that pip installs into [`CACHE`]; `None` for a test that may be
/// skipped for want of one.
pub(crate) fn nvrtc_or_skip() -> Option<Nvrtc> {
    static NVRTC: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
    match NVRTC.get_or_init(nvrtc) {
        Ok(nvrtc) => Some(nvrtc.clone()),
        Err(reason) => {
            without::skip("nvrtc", &format!("no NVRTC: {reason}"));
            None
        }
    }
}

/// A compiler to PTX, with the cache of all tests; `None` for a test that may be skipped for want of
/// one.
pub(crate) fn compiler_or_skip() -> Option<Compiler> {
    let cubins = CubinCache::new(cache().join("cubin"), 1 << 30);
    Some(Compiler::new(nvrtc_or_skip()?, Some(cubins), CompileTarget::Ptx(architecture())).unwrap())
}

fn nvrtc() -> Result<Nvrtc, String> {
    let folders = |name| std::env::var_os(name).map(|v| std::env::split_paths(&v).collect());
    let paths = SearchPaths {
        explicit: std::env::var_os("GEMM_TUNE_NVRTC").map(Into::into),
        cache: Some(cache()),
        library_path: folders("LD_LIBRARY_PATH").unwrap_or_default(),
        cuda_homes: folders("CUDA_HOME").unwrap_or_default(),
        python: Some("python3".into()),
    };
    let wanted = NvrtcRequirements { architecture: architecture(), driver_major: None };
    acquire(&paths, &wanted, Network::Allowed, &mut |_| {}).map_err(|error| error.to_string())
}
