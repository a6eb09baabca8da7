//! The arguments of `gemm-tune export`, and the files that its formats give.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::arguments::{CommonArguments, FolderArguments, SelectionArguments};
use crate::export::LeftOut;

/// Files to write: the path and content of each.
pub(super) type Files = Vec<(PathBuf, Vec<u8>)>;

/// What an export writes.
pub(super) struct Exported {
    pub(super) files: Files,
    /// What they hold, counted: `5 records`.
    pub(super) what: String,
    /// What they lack.
    pub(super) left_out: Vec<LeftOut>,
}

/// What another program reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ExportFormat {
    /// A folder with each kernel's source, machine code and PTX, and a manifest of how to launch them
    Bundle,
    /// A C header and source that embed the machine code and need the CUDA driver alone, in a folder, with files for CMake
    /// and pkg-config
    C,
    /// The same with a Python module for PyTorch tensors and CuPy arrays, and the library that it calls, built by cc
    Python,
    /// A Rust module for programs with cudarc, with its cubins, in a folder
    Rust,
    /// Records as one document, with the fields of the database
    Json,
    /// Records as a table, a line each
    Csv,
    /// Every evaluated configuration of a family, in the T4 results format
    T4,
    /// Every evaluated configuration of a family, as a cache file of Kernel Tuner
    KernelTuner,
    /// Records as wisdom files of Kernel Launcher, in a folder
    Wisdom,
}

impl ExportFormat {
    /// Whether it is a folder of files.
    pub(super) fn is_folder(self) -> bool {
        match self {
            Self::Bundle | Self::C | Self::Python | Self::Rust | Self::Wisdom => true,
            Self::Json | Self::Csv | Self::T4 | Self::KernelTuner => false,
        }
    }
}

/// Records come from databases. What is run elsewhere (bundle, c, python, rust) has the winners of one GPU, and
/// other kernels for untuned shapes. Every evaluated configuration (t4, kernel-tuner)
/// comes from the journal of one problem, which tuning keeps below the cache folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gemm-tune export --format c -o tuned-c
  gemm-tune export 4096x4096x1024 --format python -o tuned --only-tuned
  gemm-tune export --format csv -o - --device-name h200")]
pub(in crate::cli) struct ExportArguments {
    /// Form to write
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: ExportFormat,
    /// File to write; for bundle, c, python, rust and wisdom, the folder
    #[arg(short = 'o', long = "output", value_name = "OUT")]
    pub(super) out: PathBuf,
    /// Database to export; may be repeated [default: all of results/, and the built-in one where these have no measured record]
    #[arg(long, value_name = "FILE")]
    pub(super) db: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) selection: SelectionArguments,
    /// Journal to export [default: the one of the shape, dtype, layout and GPU that are given]
    #[arg(long, value_name = "FILE", conflicts_with = "db")]
    pub(super) journal: Option<PathBuf>,
    /// Family to export, where a journal has several
    #[arg(long, value_name = "NAME")]
    pub(super) family: Option<String>,
    /// Architecture to compile for, such as sm_90; may be repeated, rust takes the first. Kernels that one of them cannot
    /// run are left out [default: that of the records' GPU]
    #[arg(long, value_name = "NAME")]
    pub(super) arch: Vec<String>,
    /// Export the kernels and the decision tree that `gemm-tune dispatch` wrote, instead of all winners
    #[arg(long, value_name = "FILE", conflicts_with = "only_tuned")]
    pub(super) dispatch: Option<PathBuf>,
    /// Build libgemm_tuned.so and libgemm_tuned.a beside the C source, with cc and ar
    #[arg(long)]
    pub(super) build: bool,
    /// Let the artifact call cuBLASLt or cuBLAS where that was faster, or where no kernel is predicted to be clearly
    /// faster. The library is opened at run time; where it is missing, kernels compute everything
    #[arg(long)]
    pub(super) with_library: bool,
    /// Leave out kernels for untuned shapes
    #[arg(long)]
    pub(super) only_tuned: bool,
    /// Most kernels for untuned shapes, for each GEMM type and layout: those that shorten the predicted times most. An
    /// artifact gets smaller and slower [default: as many as pay]
    #[arg(long, value_name = "N", conflicts_with = "only_tuned")]
    pub(super) max_kernels: Option<NonZeroUsize>,
    /// Export records too whose times the cpu device modelled
    #[arg(long)]
    pub(super) modelled: bool,
    /// Export winners whose template has changed since too, rendered from the present template
    #[arg(long)]
    pub(super) changed_templates: bool,
    /// Cache policy of the records: rotate or hot
    #[arg(long, default_value = "rotate")]
    pub(super) cache_policy: String,
    /// Power state of the records: burst or sustained
    #[arg(long, default_value = "burst")]
    pub(super) power: String,
    #[command(flatten)]
    pub(super) folders: FolderArguments,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}
