//! Arguments that several commands share. Those of one command stand with the command.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

/// Headings of options in `--help`.
pub(super) mod heading {
    /// What is multiplied.
    pub(crate) const PROBLEM: &str = "Problem";
    /// The device, and what is known of it.
    pub(crate) const DEVICE: &str = "Device and records";
    /// What candidates there are, and how long they are searched.
    pub(crate) const SEARCH: &str = "Search";
    /// Where kernels come from.
    pub(crate) const FAMILIES: &str = "Families";
    /// What is printed.
    pub(crate) const OUTPUT: &str = "Output";
    /// Compiler and cache.
    pub(crate) const COMPILER: &str = "Compiler and cache";
}

/// How operands are stored and multiplied.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::PROBLEM)]
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
#[command(next_help_heading = heading::PROBLEM)]
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
#[command(next_help_heading = heading::PROBLEM)]
pub(super) struct ProblemArguments {
    /// Shape to measure, such as 4096x4096x1024, 512 for a cube, or '512x512x512 nt x16'; may be repeated
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
    /// Number of independent products
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub(super) batch: u64,
}

/// Device that a command works on or answers for.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::DEVICE)]
pub(super) struct DeviceArguments {
    /// Device to measure on: auto, cuda:N, or cpu, which models times
    #[arg(long, default_value = "auto", conflicts_with = "device_name")]
    pub(super) device: String,
    /// GPU by its name or a part of it, such as h200
    #[arg(long, value_name = "NAME")]
    pub(super) device_name: Option<String>,
}

/// Whose winners are measured, and on what.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::DEVICE)]
pub(super) struct MeasureArguments {
    /// Database with the winners [default: results/<gpu>.toml]
    #[arg(long, value_name = "FILE")]
    pub(super) db: Option<PathBuf>,
    #[command(flatten)]
    pub(super) device: DeviceArguments,
    /// Seed of the operands
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
}

/// Which families there are to choose from.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::FAMILIES)]
pub(super) struct FamilyArguments {
    /// Family to choose from; may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    pub(super) family: Vec<String>,
    #[command(flatten)]
    pub(super) folders: FolderArguments,
}

/// Where families come from.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = heading::FAMILIES)]
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
#[command(mut_arg("device", |device| {
    device.help("Device that it is for: auto, cuda:N or cpu; without a GPU an NVIDIA H200 is assumed")
}))]
pub(super) struct KernelArguments {
    #[command(flatten)]
    pub(super) pattern: PatternArguments,
    #[command(flatten)]
    pub(super) device: DeviceArguments,
    /// Database to answer from; may be repeated [default: all of results/, and the built-in one]
    #[arg(long, value_name = "FILE", help_heading = heading::DEVICE)]
    pub(super) db: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) families: FamilyArguments,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}

/// The form of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// Text and tables for people
    Table,
    /// Comma-separated values, a row for each result
    Csv,
    /// One JSON document, also on failure
    Json,
    /// Text and tables in Markdown
    Md,
}

/// The form of results, with short names for two forms.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct FormatArguments {
    /// Form of the results on standard output
    #[arg(long, value_enum, default_value = "table", value_name = "FORMAT", help_heading = heading::OUTPUT)]
    output_format: OutputFormat,
    /// The same as --output-format json: one JSON document, also on failure
    #[arg(long, conflicts_with_all = ["output_format", "csv"], help_heading = heading::OUTPUT)]
    json: bool,
    /// The same as --output-format csv
    #[arg(long, conflicts_with = "output_format", help_heading = heading::OUTPUT)]
    csv: bool,
}

impl FormatArguments {
    /// The chosen form.
    pub(super) fn format(self) -> OutputFormat {
        match self {
            Self { json: true, .. } => OutputFormat::Json,
            Self { csv: true, .. } => OutputFormat::Csv,
            Self { output_format, .. } => output_format,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct CommonArguments {
    #[command(flatten)]
    pub(super) format: FormatArguments,
    /// Never install anything: fail if NVRTC is not on this machine
    #[arg(long, help_heading = heading::COMPILER, hide_short_help = true)]
    pub(super) offline: bool,
    /// NVRTC library to use, a libnvrtc.so
    #[arg(long, value_name = "PATH", env = "GEMM_TUNE_NVRTC", help_heading = heading::COMPILER, hide_short_help = true)]
    pub(super) nvrtc: Option<PathBuf>,
    /// Folder for compiled kernels and for NVRTC [default: gemm-tune in the user's cache folder]
    #[arg(long, value_name = "DIR", env = "GEMM_TUNE_CACHE", help_heading = heading::COMPILER, hide_short_help = true)]
    pub(super) cache: Option<PathBuf>,
    /// Time after which a compile is ended, and its candidate counts as one that timed out
    #[arg(long, value_name = "TIME", default_value = "60s", help_heading = heading::COMPILER, hide_short_help = true)]
    pub(super) compile_timeout: String,
    /// Show results only
    #[arg(short, long, conflicts_with = "verbose", help_heading = heading::OUTPUT)]
    pub(super) quiet: bool,
    /// Show every candidate
    #[arg(short, long, action = ArgAction::SetTrue, help_heading = heading::OUTPUT)]
    pub(super) verbose: bool,
}

/// Which records are meant.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::PROBLEM)]
pub(super) struct SelectionArguments {
    /// Shape of the records, such as 4096x4096x1024; may be repeated
    #[arg(value_name = "SHAPE")]
    pub(super) shape_words: Vec<String>,
    /// The same as an option
    #[arg(long, value_name = "MxNxK")]
    pub(super) shape: Vec<String>,
    /// How the elements of A and B are stored, such as f32; may be repeated
    #[arg(long)]
    pub(super) dtype: Vec<String>,
    /// Arithmetic contract, such as tf32; may be repeated
    #[arg(long)]
    pub(super) compute: Vec<String>,
    /// Whether A and B are used as stored (n) or transposed (t): nn, nt, tn or tt; may be repeated
    #[arg(long)]
    pub(super) layout: Vec<String>,
    /// Number of independent products; may be repeated
    #[arg(long, value_name = "COUNT")]
    pub(super) batch: Vec<u64>,
    /// GPU of the records by its name or a part of it, such as h200
    #[arg(long, value_name = "NAME", help_heading = heading::DEVICE)]
    pub(super) device_name: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct OutputArguments {
    #[command(flatten)]
    pub(super) format: FormatArguments,
    /// Show results only
    #[arg(short, long, help_heading = heading::OUTPUT)]
    pub(super) quiet: bool,
}
