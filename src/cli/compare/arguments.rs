//! The arguments of `gemm-tune compare`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::arguments::{
    CommonArguments, FamilyArguments, MeasureArguments, ProblemArguments, heading,
};
use crate::cli::failure::Failure;
use crate::cli::request;
use crate::model::Regime;

/// Times the winners of a database again, each in turn with cuBLAS and the fastest of cuBLASLt's
/// routines, and says by how much they are faster. The speed-up is the library's time over the
/// winner's in rounds that both were sampled in, with its interval at a confidence of 96 %. It can
/// differ from the ratio of the medians, which do not come from the same rounds.
#[derive(Debug, Args)]
#[command(
    after_help = "\
Examples:
  gemm-tune compare 4096x4096x1024
  gemm-tune compare 512 1024 2048 --ladder --plot ladder.svg
  gemm-tune compare 1024 --config FAMILY:NAME=VALUE,NAME=VALUE

Exit codes: 0 all were compared, 1 one was not, 2 wrong usage.",
    mut_arg("shape_words", |shape| {
        shape.help("Shape to compare on, such as 4096x4096x1024; may be repeated")
    }),
    mut_arg("device", |device| {
        device.help("Device to compare on: auto, cuda:N, or cpu, which has no libraries")
    })
)]
pub(in crate::cli) struct CompareArguments {
    #[command(flatten)]
    pub(super) problems: ProblemArguments,
    #[command(flatten)]
    pub(super) measure: MeasureArguments,
    /// Where operands are when a timed launch begins, for records of such times: rotate, not in the L2 cache, or hot, in
    /// it
    #[arg(long, default_value = "rotate", value_name = "POLICY", help_heading = heading::DEVICE, hide_short_help = true)]
    pub(super) cache_policy: String,
    /// How warm the GPU is, for records of such times: burst, with pauses between samples, or sustained, without
    #[arg(long, default_value = "burst", value_name = "STATE", help_heading = heading::DEVICE, hide_short_help = true)]
    pub(super) power: String,
    /// Measure each rung of the ladder too: the reference kernels, from one thread an element upwards
    #[arg(long)]
    pub(super) ladder: bool,
    /// Configuration to measure too; may be repeated. What is not named is the family's default
    #[arg(long, value_name = "FAMILY:NAME=VALUE,...")]
    pub(super) config: Vec<String>,
    /// File to draw TFLOP/s over size into, as SVG; needs two sizes at least
    #[arg(long, value_name = "OUT.svg")]
    pub(super) plot: Option<PathBuf>,
    #[command(flatten)]
    pub(super) families: FamilyArguments,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}

impl CompareArguments {
    /// The conditions that times are measured under.
    pub(super) fn regime(&self) -> Result<Regime, Failure> {
        request::regime(&self.cache_policy, &self.power)
    }
}
