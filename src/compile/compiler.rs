//! Compiles one source: the cache first, then NVRTC. On which thread is not decided here, see
//! [`super::pool`].

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use thiserror::Error;

use super::cache::{CacheKey, CubinCache, Entry};
use super::nvrtc::{Nvrtc, NvrtcError, RawCompile};
use super::queue::Queue;
use super::resources::{KernelResources, parse_log};
use super::target::Target;

/// A source to compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileRequest {
    /// The CUDA C++ text.
    pub source: Arc<str>,
    /// What logs call it, as if it were a file.
    pub name: String,
    /// Options beside those that every compile has.
    pub options: Vec<String>,
}

impl CompileRequest {
    /// A kernel of a family, of which nothing else is asked.
    pub fn kernel(family: &str, source: impl Into<Arc<str>>) -> Self {
        Self { source: source.into(), name: format!("{family}.cu"), options: Vec::new() }
    }
}

/// A compiled source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// The cubin, or the PTX text.
    pub image: Arc<[u8]>,
    /// What the compiler said; when cached, what it said at the time.
    pub log: String,
    /// What each entry function takes; empty for PTX that was not assembled.
    pub resources: IndexMap<String, KernelResources>,
    /// Where the image came from.
    pub origin: Origin,
    /// How long it took to get it.
    pub elapsed: Duration,
}

/// Where an image came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The compiler made it.
    Compiler,
    /// The cache had it.
    Cache,
}

/// Why there is no image.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CompileError {
    /// The source or its options are wrong: the fault of one candidate.
    #[error("the source does not compile:\n{log}")]
    Source {
        /// The compiler's log.
        log: String,
    },
    /// The compiler is: no candidate compiles until that is put right.
    #[error(transparent)]
    Environment(#[from] NvrtcError),
    /// The code that was to compile it panicked: a fault of this program.
    #[error("compiling panicked: {message}; please report this with the kernel's source")]
    Panicked {
        /// What the panic said.
        message: String,
    },
}

/// Asks for what each kernel takes; see [`super::resources`].
const VERBOSE: &str = "--ptxas-options=-v";

/// Something that compiles: [`Compiler`], or a stand-in where a test has no NVRTC.
pub trait Compile: Send + Sync {
    /// Compiles one source.
    ///
    /// # Errors
    /// See [`CompileError`].
    fn compile(&self, request: &CompileRequest) -> Result<Compiled, CompileError>;
}

/// NVRTC behind a cache, for one target.
#[derive(Debug)]
pub struct Compiler {
    nvrtc: Nvrtc,
    library_bytes: u64,
    cache: Option<CubinCache>,
    queue: Queue<CacheKey>,
    target: Target,
}

impl Compiler {
    /// A compiler for `target`; without a cache, it compiles everything anew.
    ///
    /// # Errors
    /// `nvrtc` does not know the target's architecture.
    pub fn new(
        nvrtc: Nvrtc,
        cache: Option<CubinCache>,
        target: Target,
    ) -> Result<Self, NvrtcError> {
        nvrtc.check_architecture(target.architecture())?;
        let library_bytes = fs::metadata(nvrtc.path()).map_or(0, |metadata| metadata.len());
        Ok(Self { nvrtc, library_bytes, cache, queue: Queue::default(), target })
    }

    /// The NVRTC that it uses.
    pub fn nvrtc(&self) -> &Nvrtc {
        &self.nvrtc
    }

    /// The cache, for its figures and its warning.
    pub fn cache(&self) -> Option<&CubinCache> {
        self.cache.as_ref()
    }

    fn options(&self, request: &CompileRequest) -> Vec<String> {
        let mut options = vec!["-std=c++17".to_owned()];
        if !matches!(self.target, Target::Ptx(_)) {
            options.push(VERBOSE.to_owned());
        }
        // PTX is read by what points to the source.
        if !matches!(self.target, Target::Cubin(_)) {
            options.push("--generate-line-info".to_owned());
        }
        // NVRTC's own cache, on by default since it exists, would double ours.
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
    ) -> Result<RawCompile, CompileError> {
        self.nvrtc.compile(&request.source, &request.name, self.target, options)
    }

    /// Where the assembler refuses a kernel (too much shared memory, say), its verbose log has
    /// the figures but not the error, as seen with 13.0 and 13.5. Its plain log has the error.
    fn with_cause(
        &self,
        error: CompileError,
        request: &CompileRequest,
        options: &[String],
    ) -> CompileError {
        let CompileError::Source { log } = &error else { return error };
        if ["error", "fatal"].iter().any(|word| log.contains(word)) {
            return error;
        }
        let plain: Vec<String> =
            options.iter().filter(|option| *option != VERBOSE).cloned().collect();
        self.run(request, &plain).err().unwrap_or(error)
    }

    /// Two builds of NVRTC with one version number differ in size, as those of 13.0 do.
    fn key(&self, source: &str, options: &[String]) -> CacheKey {
        let (major, minor) = self.nvrtc.version();
        let compiler = format!("nvrtc {major}.{minor}, {} bytes", self.library_bytes);
        let target = format!("{:?}", self.target);
        let fields = [source, &compiler, &target];
        CacheKey::of(fields.into_iter().chain(options.iter().map(String::as_str)))
    }
}

impl Compile for Compiler {
    fn compile(&self, request: &CompileRequest) -> Result<Compiled, CompileError> {
        let start = Instant::now();
        let options = self.options(request);
        let compiled = |entry: Entry, origin| Compiled {
            resources: parse_log(&entry.log),
            image: entry.image,
            log: entry.log,
            origin,
            elapsed: start.elapsed(),
        };

        let cache = self.cache.as_ref().map(|cache| (cache, self.key(&request.source, &options)));
        let _turn = cache.as_ref().map(|(_, key)| self.queue.turn(*key));
        if let Some(entry) = cache.as_ref().and_then(|(cache, key)| cache.get(key)) {
            return Ok(compiled(entry, Origin::Cache));
        }
        let raw = self
            .run(request, &options)
            .map_err(|error| self.with_cause(error, request, &options))?;
        let entry = Entry { image: raw.image.into(), log: raw.log };
        if let Some((cache, key)) = &cache {
            cache.put(key, &entry);
        }
        Ok(compiled(entry, Origin::Compiler))
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
        Compiler::new(nvrtc, cache, Target::Cubin("sm_90".parse().unwrap())).unwrap()
    }

    #[test]
    fn a_cubin_comes_with_its_log_and_resources() {
        let Some(nvrtc) = nvrtc_or_skip() else { return };
        let compiled = compiler(nvrtc, None).compile(&request(SCALE)).unwrap();
        assert!(compiled.image.starts_with(b"\x7fELF"));
        assert!(compiled.log.contains("Compiling entry function 'scale'"), "{}", compiled.log);
        assert!(compiled.resources["scale"].registers > 0, "{:?}", compiled.resources);
        assert_eq!(compiled.origin, Origin::Compiler);
    }

    #[test]
    fn ptx_is_text_without_a_nul() {
        let Some(nvrtc) = nvrtc_or_skip() else { return };
        let target = Target::Ptx("sm_90".parse().unwrap());
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
        let plain = image(Target::Ptx(architecture));
        let assembled = image(Target::AssembledPtx(architecture));
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
    fn an_architecture_that_nvrtc_does_not_know_is_an_error_of_the_environment() {
        let Some(nvrtc) = nvrtc_or_skip() else { return };
        let target = Target::Cubin("sm_999".parse().unwrap());
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
        assert_eq!((first.origin, second.origin), (Origin::Compiler, Origin::Cache));
        let said = |compiled: Compiled| (compiled.image, compiled.log, compiled.resources);
        assert_eq!(said(first), said(second));

        let other = CompileRequest { options: vec!["-DX".to_owned()], ..request(SCALE) };
        assert_eq!(compiler.compile(&other).unwrap().origin, Origin::Compiler);
        for _ in 0..2 {
            assert!(compiler.compile(&request("int x = ;")).is_err());
        }
        let stats = compiler.cache().unwrap().stats();
        assert_eq!(stats, CacheStats { hits: 1, misses: 4 });
    }

    #[test]
    fn threads_may_share_one() {
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
