//! Arguments that several commands share. Those of one command stand with the command.

use std::path::PathBuf;

use clap::{ArgAction, Args};

/// How operands are stored and multiplied.
#[derive(Debug, Args)]
pub(super) struct TypeArguments {
    /// How the elements of A and B are stored: f32, f16, bf16, i8 or i32
    #[arg(long, default_value = "f32")]
    pub(super) dtype: String,
    /// How the elements of C are stored [default: as those of A; i32 for i8]
    #[arg(id = "out_dtype", long = "out", value_name = "DTYPE")]
    pub(super) out: Option<String>,
    /// Arithmetic contract, named by what is multiplied, such as tf32 [default: that of the dtype]
    #[arg(long)]
    pub(super) compute: Option<String>,
    /// What follows the product, in order, such as bias,gelu: bias, row-scale, col-scale, relu, gelu, gelu-tanh, silu,
    /// residual, mul
    #[arg(long, default_value = "", hide_default_value = true, value_name = "OPERATIONS")]
    pub(super) epilogue: String,
}

/// What a problem is besides its shape.
#[derive(Debug, Args)]
pub(super) struct PatternArguments {
    #[command(flatten)]
    pub(super) types: TypeArguments,
    /// Whether A and B are used as stored (n) or transposed (t): nn, nt, tn or tt
    #[arg(long, default_value = "nn")]
    pub(super) layout: String,
    /// Number of independent products
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub(super) batch: u64,
}

/// Which problems are measured.
#[derive(Debug, Args)]
pub(super) struct ProblemArguments {
    /// Shape to measure, such as 4096x4096x1024, or 512 for a cube; may be repeated
    #[arg(value_name = "SHAPE")]
    pub(super) shape_words: Vec<String>,
    /// The same as an option
    #[arg(long, value_name = "MxNxK")]
    pub(super) shape: Vec<String>,
    /// File with one shape a line, layout and batch behind it if they differ: `512x512x512 nt x16`
    #[arg(long, value_name = "FILE")]
    pub(super) shapes: Option<PathBuf>,
    #[command(flatten)]
    pub(super) types: TypeArguments,
    /// Whether A and B are used as stored (n) or transposed (t): nn, nt, tn or tt
    #[arg(long, default_value = "nn")]
    pub(super) layout: String,
}

/// Whose winners are measured, and on what.
#[derive(Debug, Args)]
pub(super) struct MeasureArguments {
    /// Database with the winners [default: results/<gpu>.toml]
    #[arg(long, value_name = "FILE")]
    pub(super) db: Option<PathBuf>,
    /// Device to measure on: auto, cuda:N, or cpu, which models times
    #[arg(long, default_value = "auto")]
    pub(super) device: String,
    /// Seed of the operands
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
}

/// Which families there are to choose from.
#[derive(Debug, Args)]
pub(super) struct FamilyArguments {
    /// Family to choose from; may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    pub(super) family: Vec<String>,
    #[command(flatten)]
    pub(super) folders: FolderArguments,
}

/// Where families come from.
#[derive(Debug, Clone, Args)]
pub(super) struct FolderArguments {
    /// Folder of search spaces to use instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    pub(super) spaces: Option<PathBuf>,
    /// Folder of templates to use on top of the built-in ones
    #[arg(long, value_name = "DIR")]
    pub(super) templates: Option<PathBuf>,
}

/// Where a kernel that is looked at comes from, besides its shape.
#[derive(Debug, Args)]
pub(super) struct KernelArguments {
    #[command(flatten)]
    pub(super) pattern: PatternArguments,
    /// Device that it is for: auto, cuda:N or cpu; without a GPU an NVIDIA H200 is assumed
    #[arg(long, default_value = "auto")]
    pub(super) device: String,
    /// Tuning database with the winner [default: results/<gpu>.toml]
    #[arg(long, value_name = "PATH")]
    pub(super) db: Option<PathBuf>,
    #[command(flatten)]
    pub(super) folders: FolderArguments,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}

#[derive(Debug, Args)]
pub(super) struct CommonArguments {
    /// Print one JSON document on standard output, also on failure
    #[arg(long)]
    pub(super) json: bool,
    /// Never install anything: fail if NVRTC is not on this machine
    #[arg(long)]
    pub(super) offline: bool,
    /// NVRTC library to use, a libnvrtc.so
    #[arg(long, value_name = "PATH", env = "GEMM_TUNE_NVRTC")]
    pub(super) nvrtc: Option<PathBuf>,
    /// Folder for compiled kernels and for NVRTC [default: gemm-tune in the user's cache folder]
    #[arg(long, value_name = "DIR", env = "GEMM_TUNE_CACHE")]
    pub(super) cache: Option<PathBuf>,
    /// Time after which a compile is ended, and its candidate counts as one that timed out
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub(super) compile_timeout: String,
    /// Show results only
    #[arg(short, long, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Show every candidate
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub(super) verbose: bool,
}

/// Which records are meant.
#[derive(Debug, Args)]
pub(super) struct SelectionArguments {
    /// Shape of the records, such as 4096x4096x1024; may be repeated
    #[arg(long, value_name = "MxNxK")]
    pub(super) shape: Vec<String>,
    /// How elements are stored, such as f32; may be repeated
    #[arg(long)]
    pub(super) dtype: Vec<String>,
    /// How operands are stored: nn, nt, tn or tt; may be repeated
    #[arg(long)]
    pub(super) layout: Vec<String>,
    /// GPU of the records, or a part of its name
    #[arg(long, value_name = "NAME")]
    pub(super) device_name: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct OutputArguments {
    /// Print one JSON document on standard output, also on failure
    #[arg(long)]
    pub(super) json: bool,
    /// Show results only
    #[arg(short, long)]
    pub(super) quiet: bool,
}
