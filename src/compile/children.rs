//! Compiles in child processes: a compile that hangs is killed at its limit, one that crashes or
//! fills the memory ends its own process only.
//!
//! Measurements: `docs/decisions/2026-11-23-compile-children.md`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::compiler::CompileError;
use super::nvrtc::{Nvrtc, NvrtcError, RawCompile};
use super::target::CompileTarget;
use crate::process::{
    ChildCommand, ChildError, ChildPool, ParentPipe, confine, leave_folder, limit_resources,
    read_frame, write_frame,
};

/// Protocol version, raised with every change of a message.
const VERSION: u32 = 1;

/// Address space of a child: four times what the largest kernel of a family takes.
const ADDRESS_SPACE: u64 = 4 << 30;

/// How compiles run in children.
#[derive(Debug, Clone)]
pub struct CompileChildren {
    /// Command of a program that calls [`serve`].
    pub command: ChildCommand,
    /// Time limit of a compile.
    pub limit: Duration,
    /// Ends all compiles once set.
    pub interrupted: Arc<AtomicBool>,
}

/// First message: the library to use.
#[derive(Debug, Serialize, Deserialize)]
struct CompileOpening {
    version: u32,
    nvrtc: PathBuf,
}

/// A source, which is the body of the frame, to compile.
#[derive(Debug, Serialize, Deserialize)]
struct CompileOrder {
    name: String,
    target: CompileTarget,
    options: Vec<String>,
}

/// Answer to an order; the image is the body of the frame.
#[derive(Debug, Serialize, Deserialize)]
enum CompileAnswer {
    Compiled { log: String },
    Source { log: String },
    Environment(NvrtcError),
    Unusable { why: String },
}

/// Children that compile with one NVRTC.
#[derive(Debug)]
pub(super) struct ChildCompiler {
    pool: ChildPool<CompileAnswer>,
    limit: Duration,
}

impl ChildCompiler {
    pub(super) fn new(children: CompileChildren, nvrtc: &Path) -> Self {
        let CompileChildren { command, limit, interrupted } = children;
        // The parent may have opened it by a relative path; the child could have another folder.
        let nvrtc = std::path::absolute(nvrtc).unwrap_or_else(|_| nvrtc.to_owned());
        let opening = CompileOpening { version: VERSION, nvrtc };
        let opening = serde_json::to_value(opening).unwrap_or_default();
        Self { pool: ChildPool::new(command, opening, interrupted), limit }
    }

    /// As [`Nvrtc::compile`], in a child.
    pub(super) fn compile(
        &self,
        source: &str,
        name: &str,
        (target, options): (CompileTarget, &[String]),
        cancelled: &AtomicBool,
    ) -> Result<RawCompile, CompileError> {
        let order = CompileOrder { name: name.to_owned(), target, options: options.to_vec() };
        let answer = self.pool.ask(&order, source.as_bytes(), self.limit, cancelled);
        match answer.map_err(CompileError::from)? {
            (CompileAnswer::Compiled { log }, image) => Ok(RawCompile { image, log }),
            (CompileAnswer::Source { log }, _) => Err(CompileError::Source { log }),
            (CompileAnswer::Environment(error), _) => Err(CompileError::Environment(error)),
            (CompileAnswer::Unusable { why }, _) => Err(CompileError::NoProcess { why }),
        }
    }
}

impl From<ChildError> for CompileError {
    fn from(error: ChildError) -> Self {
        match error {
            ChildError::Unavailable { why } => Self::NoProcess { why },
            ChildError::Exited { how } => Self::Ended { how },
            ChildError::TimedOut { seconds } => Self::TimedOut { seconds },
            ChildError::Cancelled => Self::Cancelled,
        }
    }
}

/// Compiles what the parent sends until its pipe closes: the main function of a child.
///
/// # Errors
/// The pipe to the parent broke or delivered garbage.
pub fn serve() -> io::Result<()> {
    limit_resources(ADDRESS_SPACE);
    let ParentPipe { mut input, mut output } = ParentPipe::open()?;
    let Some((CompileOpening { version, nvrtc }, _)) = read_frame(&mut input)? else {
        return Ok(());
    };
    let nvrtc = match version {
        VERSION => Nvrtc::open(&nvrtc).map_err(CompileAnswer::Environment).inspect(confine_to),
        other => Err(CompileAnswer::Unusable {
            why: format!("this program has protocol version {VERSION}, its parent {other}"),
        }),
    };
    while let Some((order, source)) = read_frame::<CompileOrder>(&mut input)? {
        match &nvrtc {
            Ok(nvrtc) => {
                let (answer, image) = compile(nvrtc, &order, source);
                write_frame(&mut output, &answer, &image)?;
            }
            Err(error) => write_frame(&mut output, error, &[])?,
        }
    }
    Ok(())
}

/// Confines this process to the files of NVRTC, which loads a second library with the first compile.
fn confine_to(nvrtc: &Nvrtc) {
    let resolved = std::fs::canonicalize(nvrtc.path());
    let places = [Some(nvrtc.path()), resolved.as_deref().ok()].into_iter().flatten();
    let folders: Vec<&Path> = places.filter_map(Path::parent).collect();
    leave_folder();
    confine(&folders);
}

fn compile(nvrtc: &Nvrtc, order: &CompileOrder, source: Vec<u8>) -> (CompileAnswer, Vec<u8>) {
    let CompileOrder { name, target, options } = order;
    let source = String::from_utf8_lossy(&source);
    let answer = match nvrtc.compile(&source, name, *target, options) {
        Ok(RawCompile { image, log }) => return (CompileAnswer::Compiled { log }, image),
        Err(CompileError::Environment(error)) => CompileAnswer::Environment(error),
        Err(CompileError::Source { log }) => CompileAnswer::Source { log },
        Err(error) => CompileAnswer::Source { log: error.to_string() },
    };
    (answer, Vec::new())
}
