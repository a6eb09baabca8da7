//! Binding to NVRTC, opened at run time by absolute path. Every call returns a `Result`; a missing
//! library or symbol never panics. [`mod@super::acquire`] selects the library and
//! [`super::compiler`] caches results.

#![expect(unsafe_code, reason = "NVRTC is a C library that is opened at run time")]

use std::error::Error as _;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::Library;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::compiler::CompileError;
use super::target::{Architecture, CompileTarget};

/// Failure of NVRTC itself. Nothing compiles until it is repaired.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum NvrtcError {
    /// The dynamic loader refused the file.
    #[error("cannot load `{}`: {reason}; check that the file is complete and built for this machine", path.display())]
    Open {
        /// The library.
        path: PathBuf,
        /// The loader's message.
        reason: String,
    },
    /// It is not an NVRTC, or an old one.
    #[error(
        "`{}` has no symbol `{symbol}`: it is not an NVRTC of CUDA 11.2 or later; use another one",
        path.display()
    )]
    MissingSymbol {
        /// The library.
        path: PathBuf,
        /// The missing symbol.
        symbol: String,
    },
    /// It cannot compile for the requested architecture.
    #[error(
        "NVRTC {}.{} at `{}` does not support {architecture}, only {}; use {}",
        version.0, version.1, path.display(), list(supported), remedy(*architecture, supported)
    )]
    UnknownArchitecture {
        /// The library.
        path: PathBuf,
        /// Its major and minor version.
        version: (i32, i32),
        /// The requested architecture.
        architecture: Architecture,
        /// The supported architectures.
        supported: Vec<u32>,
    },
    /// A call failed for a reason outside the source.
    #[error(
        "`{call}` of `{}` failed: {reason}{log}; if its installation is damaged, use another NVRTC",
        path.display()
    )]
    Call {
        /// The library.
        path: PathBuf,
        /// The function.
        call: String,
        /// NVRTC's name of the error.
        reason: String,
        /// The program's log after `: `; may be empty.
        log: String,
    },
}

fn list(architectures: &[u32]) -> String {
    let names: Vec<String> = architectures.iter().map(|number| format!("sm_{number}")).collect();
    names.join(", ")
}

fn remedy(wanted: Architecture, supported: &[u32]) -> &'static str {
    if supported.iter().all(|number| *number > wanted.number) {
        "an NVRTC of an earlier major version, which still has it"
    } else {
        "a newer NVRTC, if necessary of the next major version"
    }
}

/// Output of NVRTC for a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawCompile {
    /// The cubin, or the PTX text without a final NUL.
    pub image: Vec<u8>,
    /// Warnings, and the output of options such as `--ptxas-options=-v`.
    pub log: String,
}

/// Result codes of the C interface that the program distinguishes (`nvrtcResult` in `nvrtc.h`).
mod code {
    pub(super) const SUCCESS: i32 = 0;
    pub(super) const INVALID_OPTION: i32 = 5;
    pub(super) const COMPILATION: i32 = 6;
    pub(super) const INTERNAL_ERROR: i32 = 11;
}

type NvrtcHandle = *mut c_void;
type SizeFn = unsafe extern "C" fn(NvrtcHandle, *mut usize) -> c_int;
type ReadFn = unsafe extern "C" fn(NvrtcHandle, *mut c_char) -> c_int;

/// Functions of the library with their signatures in `nvrtc.h`, unchanged since CUDA 11.2.
#[derive(Debug, Clone, Copy)]
struct NvrtcApi {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    architecture_count: unsafe extern "C" fn(*mut c_int) -> c_int,
    architectures: unsafe extern "C" fn(*mut c_int) -> c_int,
    create: unsafe extern "C" fn(
        *mut NvrtcHandle,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    destroy: unsafe extern "C" fn(*mut NvrtcHandle) -> c_int,
    compile: unsafe extern "C" fn(NvrtcHandle, c_int, *const *const c_char) -> c_int,
    log_size: SizeFn,
    log: ReadFn,
    cubin_size: SizeFn,
    cubin: ReadFn,
    ptx_size: SizeFn,
    ptx: ReadFn,
}

impl NvrtcApi {
    fn of(library: &Library, path: &Path) -> Result<Self, NvrtcError> {
        // SAFETY: each field is declared with the signature that `nvrtc.h` gives for the symbol.
        unsafe {
            Ok(Self {
                version: symbol(library, path, "nvrtcVersion")?,
                error_string: symbol(library, path, "nvrtcGetErrorString")?,
                architecture_count: symbol(library, path, "nvrtcGetNumSupportedArchs")?,
                architectures: symbol(library, path, "nvrtcGetSupportedArchs")?,
                create: symbol(library, path, "nvrtcCreateProgram")?,
                destroy: symbol(library, path, "nvrtcDestroyProgram")?,
                compile: symbol(library, path, "nvrtcCompileProgram")?,
                log_size: symbol(library, path, "nvrtcGetProgramLogSize")?,
                log: symbol(library, path, "nvrtcGetProgramLog")?,
                cubin_size: symbol(library, path, "nvrtcGetCUBINSize")?,
                cubin: symbol(library, path, "nvrtcGetCUBIN")?,
                ptx_size: symbol(library, path, "nvrtcGetPTXSize")?,
                ptx: symbol(library, path, "nvrtcGetPTX")?,
            })
        }
    }
}

/// Looks up one function.
///
/// # Safety
/// `F` must be the function pointer type of the symbol's C declaration.
unsafe fn symbol<F: Copy>(
    library: &Library,
    path: &Path,
    symbol: &'static str,
) -> Result<F, NvrtcError> {
    // SAFETY: the caller guarantees the type; the library is never unloaded (`load`).
    match unsafe { library.get::<F>(symbol) } {
        Ok(function) => Ok(*function),
        Err(_) => {
            Err(NvrtcError::MissingSymbol { path: path.to_owned(), symbol: symbol.to_owned() })
        }
    }
}

/// Loads a library for the lifetime of the process.
fn load(path: &Path) -> Result<&'static Library, NvrtcError> {
    // SAFETY: the initialisers that run are those of NVIDIA's compiler libraries, which have no
    // preconditions.
    let library = unsafe { Library::new(path) }.map_err(|error| {
        // The loader's message is the error's source; the error itself only says that loading
        // failed.
        let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        NvrtcError::Open { path: path.to_owned(), reason }
    })?;
    // Never unloaded: the copied function pointers stay valid on every thread.
    Ok(Box::leak(Box::new(library)))
}

/// An open NVRTC. Clones share the library, which stays loaded until the process ends.
///
/// Several threads may use it at once: NVRTC is thread safe, each program belongs to one thread,
/// and compiles on separate threads run in parallel.
#[derive(Debug, Clone)]
pub struct Nvrtc {
    api: NvrtcApi,
    path: PathBuf,
    version: (i32, i32),
}

impl Nvrtc {
    /// Opens the library at `path`, which should be absolute: a bare name is searched for by the
    /// dynamic loader.
    ///
    /// # Errors
    /// The file cannot be loaded, or is not an NVRTC.
    pub fn open(path: &Path) -> Result<Self, NvrtcError> {
        let api = NvrtcApi::of(load(path)?, path)?;
        let mut nvrtc = Self { api, path: path.to_owned(), version: (0, 0) };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are to live integers.
        let result = unsafe { (api.version)(&raw mut major, &raw mut minor) };
        nvrtc.check("nvrtcVersion", result)?;
        nvrtc.version = (major, minor);
        nvrtc.load_builtins();
        Ok(nvrtc)
    }

    /// Loads the companion library `libnvrtc-builtins` before the first compile needs it. The wheel
    /// of 13.0.88 has no RPATH to find it by, and every compile would fail.
    fn load_builtins(&self) {
        let (major, minor) = self.version;
        let real = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        let builtins = real.with_file_name(format!("libnvrtc-builtins.so.{major}.{minor}"));
        // NVRTC may still find it elsewhere; otherwise its first compile reports the error.
        let _ = load(&builtins);
    }

    /// The major and minor version, such as (13, 0).
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// The file that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lists the supported architectures, as compute capabilities without their dots.
    ///
    /// # Errors
    /// NVRTC does not report them.
    pub fn supported_architectures(&self) -> Result<Vec<u32>, NvrtcError> {
        let mut count = 0;
        // SAFETY: the pointer is to a live integer.
        let result = unsafe { (self.api.architecture_count)(&raw mut count) };
        self.check("nvrtcGetNumSupportedArchs", result)?;
        let mut numbers: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the call writes as many integers as the one above counted.
        let result = unsafe { (self.api.architectures)(numbers.as_mut_ptr()) };
        self.check("nvrtcGetSupportedArchs", result)?;
        Ok(numbers.into_iter().filter_map(|number| u32::try_from(number).ok()).collect())
    }

    /// Checks that this NVRTC compiles for an architecture.
    ///
    /// # Errors
    /// It does not, or does not report its architectures.
    pub fn check_architecture(&self, architecture: Architecture) -> Result<(), NvrtcError> {
        let supported = self.supported_architectures()?;
        if supported.contains(&architecture.number) {
            return Ok(());
        }
        Err(NvrtcError::UnknownArchitecture {
            path: self.path.clone(),
            version: self.version,
            architecture,
            supported,
        })
    }

    /// Compiles `source` for `target`; messages refer to it as `name`.
    ///
    /// # Errors
    /// [`CompileError::Source`] where the source or an option is at fault (also for a NUL byte in
    /// one of the texts), [`CompileError::Environment`] where NVRTC is.
    pub fn compile(
        &self,
        source: &str,
        name: &str,
        target: CompileTarget,
        options: &[String],
    ) -> Result<RawCompile, CompileError> {
        let source = c_string("source", source)?;
        let name = c_string("name", name)?;
        let target_option = target.option();
        let options: Vec<CString> = std::iter::once(&target_option)
            .chain(options)
            .map(|option| c_string("option", option))
            .collect::<Result<_, _>>()?;

        let program = NvrtcProgram::create(self, &source, &name)?;
        program.compile(&options)?;
        let log = program.log()?;
        let image = match target {
            CompileTarget::Cubin(_) => {
                program.read("nvrtcGetCUBIN", self.api.cubin_size, self.api.cubin)?
            }
            CompileTarget::Ptx(_) | CompileTarget::AssembledPtx(_) => {
                text_of(program.read("nvrtcGetPTX", self.api.ptx_size, self.api.ptx)?)
            }
        };
        Ok(RawCompile { image, log })
    }

    fn check(&self, call: &'static str, result: c_int) -> Result<(), NvrtcError> {
        if result == code::SUCCESS {
            return Ok(());
        }
        let path = self.path.clone();
        Err(NvrtcError::Call {
            path,
            call: call.to_owned(),
            reason: self.reason(result),
            log: String::new(),
        })
    }

    fn reason(&self, result: c_int) -> String {
        // SAFETY: the call takes any number and returns a string constant of the library, or null.
        let text = unsafe { (self.api.error_string)(result) };
        if text.is_null() {
            return format!("result {result}");
        }
        // SAFETY: it is not null, ends with a NUL, and lives as long as the library.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// Converts a text for C. A NUL byte in it counts as an error of the source.
fn c_string(what: &str, text: &str) -> Result<CString, CompileError> {
    CString::new(text).map_err(|error| CompileError::Source {
        log: format!("the {what} has a NUL byte at offset {}", error.nul_position()),
    })
}

/// The bytes of a C string up to the NUL that ends it.
fn text_of(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(length);
    bytes
}

/// An NVRTC program, destroyed when dropped. Holds a raw pointer, so it stays on one thread.
struct NvrtcProgram<'nvrtc> {
    nvrtc: &'nvrtc Nvrtc,
    handle: NvrtcHandle,
}

impl<'nvrtc> NvrtcProgram<'nvrtc> {
    fn create(nvrtc: &'nvrtc Nvrtc, source: &CStr, name: &CStr) -> Result<Self, NvrtcError> {
        let mut handle = ptr::null_mut();
        // SAFETY: the strings outlive the call, which copies them; no headers are passed (0, null).
        let result = unsafe {
            (nvrtc.api.create)(
                &raw mut handle,
                source.as_ptr(),
                name.as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        };
        nvrtc.check("nvrtcCreateProgram", result)?;
        Ok(Self { nvrtc, handle })
    }

    fn compile(&self, options: &[CString]) -> Result<(), CompileError> {
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // The count of options is far below 2^31.
        let count = c_int::try_from(pointers.len()).unwrap_or(c_int::MAX);
        // SAFETY: the handle is live; `count` pointers to strings that outlive the call follow.
        let result = unsafe { (self.nvrtc.api.compile)(self.handle, count, pointers.as_ptr()) };
        if result == code::SUCCESS {
            return Ok(());
        }
        let reason = self.nvrtc.reason(result);
        let log = self.log().unwrap_or_default();
        match result {
            // An internal error is specific to one source; others may compile.
            code::COMPILATION | code::INVALID_OPTION | code::INTERNAL_ERROR => {
                let log = if log.trim().is_empty() { reason } else { log };
                Err(CompileError::Source { log })
            }
            _ => Err(CompileError::Environment(NvrtcError::Call {
                path: self.nvrtc.path.clone(),
                call: "nvrtcCompileProgram".to_owned(),
                reason,
                log: if log.is_empty() { log } else { format!(": {}", log.trim()) },
            })),
        }
    }

    fn log(&self) -> Result<String, NvrtcError> {
        let api = &self.nvrtc.api;
        let bytes = text_of(self.read("nvrtcGetProgramLog", api.log_size, api.log)?);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn read(&self, call: &'static str, size: SizeFn, read: ReadFn) -> Result<Vec<u8>, NvrtcError> {
        let mut bytes = 0;
        // SAFETY: the handle is live and the pointer is to a live integer.
        let result = unsafe { size(self.handle, &raw mut bytes) };
        self.nvrtc.check(call, result)?;
        let mut buffer = vec![0_u8; bytes];
        // SAFETY: `read` writes the number of bytes that `size` gave for the same program.
        let result = unsafe { read(self.handle, buffer.as_mut_ptr().cast()) };
        self.nvrtc.check(call, result)?;
        Ok(buffer)
    }
}

impl Drop for NvrtcProgram<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from `nvrtcCreateProgram` and is destroyed only here.
        unsafe { (self.nvrtc.api.destroy)(&raw mut self.handle) };
    }
}
