//! `db prune`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::cli::arguments::OutputArguments;
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::database::{self, PruneConditions, Version};
use crate::report::record_changes::{self, PrunedDocument};

/// Removes records that meet every given condition. The list is always shown; without
/// `--yes` the file is left alone.
#[derive(Debug, Args)]
pub(super) struct PruneArguments {
    /// Database to prune
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// Records that have a better one beside them, for the same problem, GPU and cache policy
    #[arg(long)]
    superseded: bool,
    /// Records of interrupted runs
    #[arg(long)]
    interim: bool,
    /// Records of the GPU with exactly this name
    #[arg(long, value_name = "NAME")]
    device_name: Option<String>,
    /// Records whose kernel an older NVRTC compiled, such as 13.0
    #[arg(long, value_name = "VERSION")]
    nvrtc_before: Option<String>,
    /// Records of an older gemm-tune, such as 0.1.0
    #[arg(long, value_name = "VERSION")]
    gemm_tune_before: Option<String>,
    /// Only say what would go, as without --yes
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Take the records out
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    pub(super) output: OutputArguments,
}

pub(super) fn prune(
    arguments: &PruneArguments,
    console: Console,
) -> Result<impl Serialize + use<>, Failure> {
    let conditions = PruneConditions {
        superseded: arguments.superseded,
        interim: arguments.interim,
        device_name: arguments.device_name.clone(),
        nvrtc_before: arguments.nvrtc_before.as_deref().map(version).transpose()?,
        gemm_tune_before: arguments.gemm_tune_before.as_deref().map(version).transpose()?,
    };
    if conditions.is_empty() {
        return Err(Failure::Usage(
            "nothing says which records go: give `--superseded`, `--interim`, `--device-name NAME`, \
             `--nvrtc-before VERSION` or `--gemm-tune-before VERSION`"
                .to_owned(),
        ));
    }
    let dry_run = !arguments.yes;
    let pruned = database::prune(&arguments.db, &conditions, dry_run).map_err(Failure::work)?;
    if console.is_text() {
        console.result(&record_changes::pruned(&pruned, &arguments.db, dry_run));
    }
    Ok(PrunedDocument { pruned, file: arguments.db.clone(), dry_run })
}

fn version(text: &str) -> Result<Version, Failure> {
    Version::parse(text)
        .ok_or_else(|| Failure::Usage(format!("`{text}` is no version: write one as in `13.0`")))
}
