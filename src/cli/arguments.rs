//! What can be typed. What it means is decided by the commands.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use super::compare::CompareArguments;
use super::db::DbArguments;
use super::dispatch::DispatchArguments;
use super::explain::ExplainArguments;
use super::export::ExportArguments;
use super::learn::LearnArguments;
use super::lookup::LookupArguments;
use super::regret::RegretArguments;
use super::report::ReportArguments;

/// Finds the fastest correct CUDA matrix-multiplication kernel for a shape on this machine's GPU.
#[derive(Debug, Parser)]
#[command(name = "gemm-tune", version, args_conflicts_with_subcommands = true)]
#[command(after_help = "Exit codes: 0 done, 1 the work failed, 2 wrong usage.")]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) tune: TuneArguments,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Tune one or more shapes: the main job, also done when no command is named
    Tune(TuneArguments),
    /// Execute configurations of families on the host, watched by every check: no GPU is needed
    Check(CheckArguments),
    /// Measure recorded winners beside the libraries, in turn
    Compare(CompareArguments),
    /// Play a search strategy against recorded times, and say how close it comes how soon
    Replay(ReplayArguments),
    /// Learn from journals what kernels take, so that searches and lookup know before they measure
    Learn(LearnArguments),
    /// Say which kernel to use for a shape, tuned or not
    Lookup(LookupArguments),
    /// List, show, merge, prune and verify tuning databases
    Db(DbArguments),
    /// Measure how much slower lookup's answers are than the winners of shapes that are held out
    Regret(RegretArguments),
    /// Choose a few kernels for many shapes, and a decision tree between them
    Dispatch(DispatchArguments),
    /// Write winners and evaluated configurations in the forms that other programs read
    Export(ExportArguments),
    /// Show a kernel or how two differ: source, PTX, machine code, resources, memory traffic
    Inspect(InspectArguments),
    /// Say why a winner wins: what bounds it, what each parameter does, who nearly won
    Explain(ExplainArguments),
    /// Draw winners and what searches saw as one HTML page
    Report(ReportArguments),
    /// Say what this machine can do, and how to fix what it cannot
    Doctor(DoctorArguments),
    /// Serve a device to the program that started this process
    #[command(hide = true)]
    Worker,
}

#[derive(Debug, Args)]
pub(super) struct TuneArguments {
    /// Shape to tune, such as 4096x4096x1024; may be repeated
    #[arg(long, value_name = "MxNxK")]
    pub(super) shape: Vec<String>,
    /// File with one shape a line, layout and batch behind it if they differ: `512x512x512 nt x16`
    #[arg(long, value_name = "FILE")]
    pub(super) shapes: Option<PathBuf>,
    /// Share of --shapes that this process tunes: the Ith of N, I from 1; as /N, the scheduler says
    /// which [default: the task of a Slurm array, else all]
    #[arg(long, value_name = "I/N", requires = "shapes")]
    pub(super) shard: Option<String>,
    #[command(flatten)]
    pub(super) pattern: PatternArguments,
    /// Device to tune on: auto, cuda:N, cuda:all, or cpu, which validates for real and models times
    #[arg(long, default_value = "auto")]
    pub(super) device: String,
    /// Tuning database to write, whose winners are tried first [default: results/<gpu>.toml]
    #[arg(long, value_name = "PATH")]
    pub(super) db: Option<PathBuf>,
    /// Replace a stored record even if it is faster
    #[arg(long)]
    pub(super) force: bool,
    /// Find and measure everything anew, whatever is known from earlier runs and from the database;
    /// only the record of the problem is measured beside what is found
    #[arg(long)]
    pub(super) fresh: bool,
    /// Search kernels too whose bits may differ from run to run, such as those whose blocks add to C with
    /// atomic operations; records of such are marked, and only their own problems are answered with them
    #[arg(long)]
    pub(super) allow_nondeterministic: bool,
    /// Where operands are when a timed launch begins: rotate, not in the L2 cache, or hot, in it
    #[arg(long, default_value = "rotate", value_name = "POLICY")]
    pub(super) cache_policy: String,
    /// Run finalists under compute-sanitizer too, a program of CUDA's toolkit
    #[arg(long)]
    pub(super) sanitize: bool,
    /// How warm the GPU is: burst, with pauses between samples, or sustained, without
    #[arg(long, default_value = "burst", value_name = "STATE")]
    pub(super) power: String,
    /// How long to search: quick, until something 3 % better is rather unlikely to be left (chance below
    /// 20 %); normal, 1 % and below 2 %; full, until nothing is left or 10000 candidates are evaluated
    #[arg(long, default_value = "normal", value_name = "EFFORT")]
    pub(super) effort: String,
    /// End when one better by more than this is unlikely to be left [default: by effort]
    #[arg(long, value_name = "PERCENT")]
    pub(super) stop_within: Option<String>,
    /// Time after which a shape's search ends, such as 60s or 2m [default: none; on the cpu device 1m
    /// for quick and 4m for normal effort]
    #[arg(long, value_name = "TIME")]
    pub(super) budget: Option<String>,
    /// Most candidates to evaluate for a shape [default: by effort 300, 1000 or 10000; a fifth of that
    /// on the cpu device]
    #[arg(long, value_name = "N")]
    pub(super) max_configs: Option<NonZeroUsize>,
    /// How candidates are chosen: auto, exhaustive, random, local, evolve or model
    #[arg(long, default_value = "auto", value_name = "NAME")]
    pub(super) search: String,
    /// Seed of the search and of the operands
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// Compiler threads [default: one for each core]
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(super) families: FamilyArguments,
    /// Show what would be searched, and do nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}

#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    /// Shape to check on, such as 33x65x129; may be repeated [default: shapes with every kind of edge]
    #[arg(long, value_name = "MxNxK")]
    pub(super) shape: Vec<String>,
    /// How elements are stored: f32 or i32
    #[arg(long, default_value = "f32")]
    pub(super) dtype: String,
    /// Arithmetic contract, named as cuBLAS does [default: that of the dtype]
    #[arg(long)]
    pub(super) compute: Option<String>,
    /// Whether A and B are used as stored (n) or transposed (t); may be repeated [default: all four]
    #[arg(long)]
    pub(super) layout: Vec<String>,
    /// Number of independent products
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub(super) batch: u64,
    /// Configurations of each family to check for a shape and layout; `all` takes every legal one
    #[arg(long, default_value = "20", value_name = "N")]
    pub(super) sample: String,
    /// Streaming multiprocessors that kernels are for: with few, what serves products large for a GPU
    /// is executed on small ones [default: an H200's 132]
    #[arg(long, value_name = "COUNT")]
    pub(super) sms: Option<NonZeroU32>,
    /// Seed of the sample and of the operands
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// Compiler threads [default: one for each core]
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(super) families: FamilyArguments,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}

#[derive(Debug, Args)]
pub(super) struct ReplayArguments {
    /// Recorded space: a Kernel Tuner cache, T4 results or a journal of this program, plain or .gz
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// Begin as a search of a journal's problem would, with the families' defaults and what is
    /// expected of their configurations; else nothing is known of them
    #[arg(long)]
    pub(super) informed: bool,
    /// File of `gemm-tune learn` to begin with instead of the built-in one
    #[arg(long, requires = "informed", value_name = "FILE")]
    pub(super) experience: Option<PathBuf>,
    /// Strategy to play: auto, exhaustive, random, local, evolve or model
    #[arg(long, default_value = "auto", value_name = "NAME")]
    pub(super) search: String,
    /// How often to play it, each time with another seed
    #[arg(long, default_value = "30", value_name = "R")]
    pub(super) repeats: NonZeroUsize,
    /// Distinct configurations that each play evaluates
    #[arg(long, default_value = "400", value_name = "N")]
    pub(super) max_configs: NonZeroUsize,
    /// Candidates that are asked for before any of them is answered
    #[arg(long, default_value = "12", value_name = "N")]
    pub(super) batch: NonZeroUsize,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// What counts as better where the search says how likely it is that something better is left
    #[arg(long, default_value = "1%", value_name = "PERCENT")]
    pub(super) stop_within: String,
    /// Print an array of {evaluations, mean, median, worst}
    #[arg(long)]
    pub(super) json: bool,
}

/// What a problem is besides its shape.
#[derive(Debug, Args)]
pub(super) struct PatternArguments {
    /// How elements are stored: f32 or i32
    #[arg(long, default_value = "f32")]
    pub(super) dtype: String,
    /// Arithmetic contract, named as cuBLAS does [default: that of the dtype]
    #[arg(long)]
    pub(super) compute: Option<String>,
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
    /// Shape to measure, such as 4096x4096x1024; may be repeated
    #[arg(long, value_name = "MxNxK")]
    pub(super) shape: Vec<String>,
    /// File with one shape a line, layout and batch behind it if they differ: `512x512x512 nt x16`
    #[arg(long, value_name = "FILE")]
    pub(super) shapes: Option<PathBuf>,
    /// How elements are stored: f32 or i32
    #[arg(long, default_value = "f32")]
    pub(super) dtype: String,
    /// Whether A and B are used as stored (n) or transposed (t): nn, nt, tn or tt
    #[arg(long, default_value = "nn")]
    pub(super) layout: String,
}

/// Whose winners are measured, and on what.
#[derive(Debug, Args)]
pub(super) struct RigArguments {
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

#[derive(Debug, Args)]
#[command(after_help = "Without --family and --diff it is the winner of --shape in the database.")]
pub(super) struct InspectArguments {
    /// Shape that the kernel is for, such as 4096x4096x1024 [default: 1024x1024x1024 with --family]
    #[arg(long, value_name = "MxNxK")]
    pub(super) shape: Option<String>,
    /// Family whose kernel to show [default: the winner's]
    #[arg(long, value_name = "NAME")]
    pub(super) family: Option<String>,
    /// Parameters of the family, such as BM=128,BN=64 [default for others: the family's own]
    #[arg(long, value_name = "NAME=VALUE,...", requires = "family")]
    pub(super) set: Option<String>,
    /// What to show of it
    #[arg(long, value_enum, default_value_t = Emit::Cuda)]
    pub(super) emit: Emit,
    /// Compare two kernels, each `winner` or FAMILY:NAME=VALUE,...
    #[arg(long, num_args = 2, value_names = ["X", "Y"], conflicts_with_all = ["family", "emit"])]
    pub(super) diff: Vec<String>,
    #[command(flatten)]
    pub(super) of: KernelArguments,
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

/// What is shown of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Emit {
    /// CUDA C++, ready to compile
    Cuda,
    /// What NVRTC makes of it
    Ptx,
    /// Machine code, through nvdisasm
    Sass,
    /// Registers, spills, shared memory, occupancy, waves, floors
    Resources,
    /// Requests, sectors, wavefronts and bank conflicts of every line, executed on the host
    Memory,
    /// Which thread brings which element into which bank, and computes what
    Picture,
    /// The same as a drawing
    Svg,
}

#[derive(Debug, Args)]
pub(super) struct DoctorArguments {
    /// Device to look at: auto, cuda:N or cpu
    #[arg(long, default_value = "auto")]
    pub(super) device: String,
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
    /// Show results only
    #[arg(short, long, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Show every candidate
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub(super) verbose: bool,
}
