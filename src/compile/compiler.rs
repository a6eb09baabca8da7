//! The compiler of one source: looks in the cache, then calls NVRTC. [`super::pool`] decides on
//! which thread that happens.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use thiserror::Error;

use super::cache::{CacheEntry, CacheKey, CubinCache};
use super::children::{ChildCompiler, CompileChildren};
use super::in_flight::InFlight;
use super::includes::check_includes;
use super::nvrtc::{Nvrtc, NvrtcError, RawCompile};
use super::resources::{KernelResources, parse_log};
use super::target::CompileTarget;
use crate::render::source_name;

/// A source to compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileRequest {
    /// The CUDA C++ text.
    pub source: Arc<str>,
    /// File name that compiler logs show.
    pub name: String,
    /// Options in addition to the standard ones.
    pub options: Vec<String>,
}

impl CompileRequest {
    /// A request for a kernel of a family, without extra options.
    pub fn kernel(family: &str, source: impl Into<Arc<str>>) -> Self {
        Self { source: source.into(), name: source_name(family), options: Vec::new() }
    }
}

/// A compiled source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// The cubin, or the PTX text.
    pub image: Arc<[u8]>,
    /// The compiler's log; a cached image keeps its original log.
    pub log: String,
    /// Resources of each entry function; empty for PTX that was not assembled.
    pub resources: IndexMap<String, KernelResources>,
    /// Source of the image.
    pub origin: ImageOrigin,
    /// Time taken to obtain it.
    pub elapsed: Duration,
}

/// Source of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageOrigin {
    /// Compiled now.
    Compiler,
    /// Read from the cache.
    Cache,
}

/// Reason that there is no image.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum CompileError {
    /// The source or its options are wrong; this concerns one candidate.
    #[error("the source does not compile:\n{log}")]
    Source {
        /// The compiler's log.
        log: String,
    },
    /// The compiler is unusable; no candidate compiles until it is repaired.
    #[error(transparent)]
    Environment(#[from] NvrtcError),
    /// The time limit passed; this concerns one candidate.
    #[error("the compile did not end within {seconds:.1} s; `--compile-timeout` sets the limit")]
    TimedOut {
        /// The limit.
        seconds: f64,
    },
    /// The compiling process ended, by a crash or for want of memory; this concerns one candidate.
    #[error("the compiling process ended: {how}")]
    Ended {
        /// Exit status and last error output.
        how: String,
    },
    /// The compile was cancelled: nobody wants its result.
    #[error("the compile was cancelled")]
    Cancelled,
    /// No compiling process can be started; no candidate compiles.
    #[error("the compiling process cannot be started: {why}")]
    NoProcess {
        /// The reason.
        why: String,
    },
    /// The compiling code panicked: a bug in this program.
    #[error("compiling panicked: {message}; please report this with the kernel's source")]
    Panicked {
        /// The panic message.
        message: String,
    },
}

/// Option that makes the log report each kernel's resources; see [`super::resources`].
const VERBOSE: &str = "--ptxas-options=-v";

/// A compiler: [`Compiler`], or a test double where there is no NVRTC.
pub trait Compile: Send + Sync {
    /// Compiles one source.
    ///
    /// # Errors
    /// See [`CompileError`].
    fn compile(&self, request: &CompileRequest) -> Result<Compiled, CompileError>;

    /// As [`Self::compile`]; gives up soon after `cancelled` is set, if the compiler can.
    ///
    /// # Errors
    /// See [`CompileError`].
    fn compile_unless(
        &self,
        _cancelled: &AtomicBool,
        request: &CompileRequest,
    ) -> Result<Compiled, CompileError> {
        self.compile(request)
    }
}

impl CompileError {
    /// Whether no other candidate compiles either.
    pub fn ends_run(&self) -> bool {
        matches!(self, Self::Environment(_) | Self::NoProcess { .. })
    }
}

/// NVRTC with a cache in front, for one target.
#[derive(Debug)]
pub struct Compiler {
    nvrtc: Nvrtc,
    library_bytes: u64,
    cache: Option<CubinCache>,
    in_flight: InFlight<CacheKey>,
    target: CompileTarget,
    /// `None` compiles in this process.
    children: Option<ChildCompiler>,
}

impl Compiler {
    /// Creates a compiler for `target`; without a cache it compiles everything.
    ///
    /// # Errors
    /// `nvrtc` does not support the target's architecture.
    pub fn new(
        nvrtc: Nvrtc,
        cache: Option<CubinCache>,
        target: CompileTarget,
    ) -> Result<Self, NvrtcError> {
        nvrtc.check_architecture(target.architecture())?;
        let library_bytes = fs::metadata(nvrtc.path()).map_or(0, |metadata| metadata.len());
        let in_flight = InFlight::default();
        Ok(Self { nvrtc, library_bytes, cache, in_flight, target, children: None })
    }

    /// Compiles in child processes from now on, which end at a time limit.
    #[must_use]
    pub fn in_children(self, children: CompileChildren) -> Self {
        let children = Some(ChildCompiler::new(children, self.nvrtc.path()));
        Self { children, ..self }
    }

    /// The NVRTC in use.
    pub fn nvrtc(&self) -> &Nvrtc {
        &self.nvrtc
    }

    /// The cache, for its statistics and warning.
    pub fn cache(&self) -> Option<&CubinCache> {
        self.cache.as_ref()
    }

    fn options(&self, request: &CompileRequest) -> Vec<String> {
        let mut options = vec!["-std=c++17".to_owned()];
        if !matches!(self.target, CompileTarget::Ptx(_)) {
            options.push(VERBOSE.to_owned());
        }
        // Readers of PTX need the source lines.
        if !matches!(self.target, CompileTarget::Cubin(_)) {
            options.push("--generate-line-info".to_owned());
        }
        // NVRTC's own cache, on by default, would duplicate this one.
        if self.nvrtc.version() >= (12, 9) {
            options.push("--no-cache".to_owned());
        }
        options.extend(request.options.iter().cloned());
        options
    }

    fn run(
        &self,
        request: &CompileRequest,
        options: &[String],
        cancelled: &AtomicBool,
    ) -> Result<RawCompile, CompileError> {
        let CompileRequest { source, name, .. } = request;
        let target = self.target.for_source(source);
        match &self.children {
            Some(children) => children.compile(source, name, (target, options), cancelled),
            None => self.nvrtc.compile(source, name, target, options),
        }
    }

    /// Replaces a log without an error by one that has it. When the assembler rejects a kernel (for
    /// instance for too much shared memory), its verbose log has the figures but no error; its
    /// plain log has the error (seen with 13.0 and 13.5).
    fn with_cause(
        &self,
        error: CompileError,
        request: &CompileRequest,
        options: &[String],
        cancelled: &AtomicBool,
    ) -> CompileError {
        let CompileError::Source { log } = &error else { return error };
        if ["error", "fatal"].iter().any(|word| log.contains(word)) {
            return error;
        }
        let plain: Vec<String> =
            options.iter().filter(|option| *option != VERBOSE).cloned().collect();
        self.run(request, &plain, cancelled).err().unwrap_or(error)
    }

    /// Forms the cache key. The library size tells apart builds with the same version number, as
    /// there are of 13.0.
    fn key(&self, source: &str, options: &[String]) -> CacheKey {
        let (major, minor) = self.nvrtc.version();
        let compiler = format!("nvrtc {major}.{minor}, {} bytes", self.library_bytes);
        let target = format!("{:?}", self.target.for_source(source));
        let fields = [source, &compiler, &target];
        CacheKey::of(fields.into_iter().chain(options.iter().map(String::as_str)))
    }
}

impl Compile for Compiler {
    fn compile(&self, request: &CompileRequest) -> Result<Compiled, CompileError> {
        self.compile_unless(&AtomicBool::new(false), request)
    }

    fn compile_unless(
        &self,
        cancelled: &AtomicBool,
        request: &CompileRequest,
    ) -> Result<Compiled, CompileError> {
        let start = Instant::now();
        check_includes(&request.source).map_err(|refused| CompileError::Source {
            log: format!("{}: {refused}", request.name),
        })?;
        let options = self.options(request);
        let compiled = |entry: CacheEntry, origin| Compiled {
            resources: parse_log(&entry.log),
            image: entry.image,
            log: entry.log,
            origin,
            elapsed: start.elapsed(),
        };

        let cache = self.cache.as_ref().map(|cache| (cache, self.key(&request.source, &options)));
        let _guard = cache.as_ref().map(|(_, key)| self.in_flight.enter(*key));
        if let Some(entry) = cache.as_ref().and_then(|(cache, key)| cache.get(key)) {
            return Ok(compiled(entry, ImageOrigin::Cache));
        }
        let raw = self
            .run(request, &options, cancelled)
            .map_err(|error| self.with_cause(error, request, &options, cancelled))?;
        let entry = CacheEntry { image: raw.image.into(), log: raw.log };
        if let Some((cache, key)) = &cache {
            cache.put(key, &entry);
        }
        Ok(compiled(entry, ImageOrigin::Compiler))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::cache::{CacheStats, DEFAULT_MAX_BYTES};
    use super::super::testing::nvrtc_or_skip;
    use super::*;

    const SCALE: &str = r#"extern "C" __global__ void scale(float *x) { x[threadIdx.x] *= 2; }"#;

    fn request(source: &str) -> CompileRequest {
        CompileRequest { source: source.into(), name: "scale.cu".to_owned(), options: vec![] }
    }

    fn compiler(nvrtc: Nvrtc, cache: Option<CubinCache>) -> Compiler {
        Compiler::new(nvrtc, cache, CompileTarget::Cubin("sm_90".parse().unwrap())).unwrap()
    }

    #[test]
    fn a_cubin_comes_with_its_log_and_resources() {
        let Some(nvrtc) = nvrtc_or_skip() else { return };
        let compiled = compiler(nvrtc, None).compile(&request(SCALE)).unwrap();
        assert!(compiled.image.starts_with(b"\x7fELF"));
        assert!(compiled.log.contains("Compiling entry function 'scale'"), "{}", compiled.log);
        assert!(compiled.resources["scale"].registers > 0, "{:?}", compiled.resources);
        assert_eq!(compiled.origin, ImageOrigin::Compiler);
    }

    #[test]
    fn ptx_is_text_without_a_nul() {
        let Some(nvrtc) = nvrtc_or_skip() else { return };
        let target = CompileTarget::Ptx("sm_90".parse().unwrap());
        let compiled = Compiler::new(nvrtc, None, target).unwrap().compile(&request(SCALE));
        let ptx = String::from_utf8(compiled.unwrap().image.to_vec()).unwrap();
        assert!(ptx.contains(".target sm_90") && ptx.contains(".entry scale("), "{ptx}");
        assert!(!ptx.contains('\0'));
    }

    #[test]
    fn assembled_ptx_is_the_same_text_with_figures() {
        let Some(nvrtc) = nvrtc_or_skip() else { return };
        let architecture = "sm_90".parse().unwrap();
        let image = |target| {
            let compiler = Compiler::new(nvrtc.clone(), None, target).unwrap();
            compiler.compile(&request(SCALE)).unwrap()
        };
        let plain = image(CompileTarget::Ptx(architecture));
        let assembled = image(CompileTarget::AssembledPtx(architecture));
        assert_eq!(plain.image, assembled.image);
        assert!(plain.resources.is_empty());
        assert!(assembled.resources["scale"].registers > 0, "{}", assembled.log);
    }

    #[test]
    fn a_bad_source_is_an_error_with_its_cause() {
        let Some(nvrtc) = nvrtc_or_skip() else { return };
        let compiler = compiler(nvrtc, None);
        let shared = r#"extern "C" __global__ void big(float *x) {
            __shared__ float s[16384];
            s[threadIdx.x] = x[0];
            __syncthreads();
            x[1] = s[x[0] > 1];
        }"#;
        let option =
            |option: &str| CompileRequest { options: vec![option.to_owned()], ..request(SCALE) };
        for (request, cause) in [
            (request("int x = ;"), "scale.cu(1): error: expected an expression"),
            (request("// a NUL: \0"), "the source has a NUL byte at offset 10"),
            (request(shared), "uses too much shared data"),
            (option("--no-such-option"), "unrecognized option --no-such-option"),
            (option("-DX=\0"), "the option has a NUL byte"),
        ] {
            let error = compiler.compile(&request).unwrap_err();
            let CompileError::Source { log } = error else { panic!("{error:?}") };
            assert!(log.contains(cause), "{log}");
        }
    }

    #[test]
    fn an_unsupported_architecture_is_an_error_of_the_environment() {
        let Some(nvrtc) = nvrtc_or_skip() else { return };
        let target = CompileTarget::Cubin("sm_999".parse().unwrap());
        let error = Compiler::new(nvrtc, None, target).unwrap_err();
        assert!(matches!(error, NvrtcError::UnknownArchitecture { .. }), "{error}");
    }

    #[test]
    fn the_second_compile_comes_from_the_cache_and_a_failure_never_does() {
        let Some(nvrtc) = nvrtc_or_skip() else { return };
        let folder = tempfile::tempdir().unwrap();
        let cache = CubinCache::new(folder.path().to_owned(), DEFAULT_MAX_BYTES);
        let compiler = compiler(nvrtc, Some(cache));
        let first = compiler.compile(&request(SCALE)).unwrap();
        let second = compiler.compile(&request(SCALE)).unwrap();
        assert_eq!((first.origin, second.origin), (ImageOrigin::Compiler, ImageOrigin::Cache));
        let said = |compiled: Compiled| (compiled.image, compiled.log, compiled.resources);
        assert_eq!(said(first), said(second));

        let other = CompileRequest { options: vec!["-DX".to_owned()], ..request(SCALE) };
        assert_eq!(compiler.compile(&other).unwrap().origin, ImageOrigin::Compiler);
        for _ in 0..2 {
            assert!(compiler.compile(&request("int x = ;")).is_err());
        }
        let stats = compiler.cache().unwrap().stats();
        assert_eq!(stats, CacheStats { hits: 1, misses: 4 });
    }

    #[test]
    fn threads_may_share_a_compiler() {
        let Some(nvrtc) = nvrtc_or_skip() else { return };
        let compiler = compiler(nvrtc, None);
        let expected = compiler.compile(&request(SCALE)).unwrap().image;
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    assert_eq!(compiler.compile(&request(SCALE)).unwrap().image, expected);
                });
            }
        });
    }
}
