//! Images that are no machine code, and a driver of the runtime that records launches in them, as
//! `tests/artifacts/stub_driver.c` does for C and Python.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use gemm_tune::export::KernelDraft;
use gemm_tune::gpu::{GpuError, KernelArgument, Stream};
use gemm_tune::model::{Argument, PlacedMap};
use gemm_tune::runtime::Driver;

/// An image: what the source is, and the parameters of its kernels.
pub(super) fn image(draft: &KernelDraft) -> Arc<[u8]> {
    let mut text = format!("\x7fELF {}", blake(&draft.source));
    for launch in &draft.plan.kernels {
        let line = format!("\n{} {}", launch.entry, sizes(&launch.arguments));
        // Launches of one entry take the same.
        if !text.contains(&line) {
            text.push_str(&line);
        }
    }
    text.push('\n');
    text.into_bytes().into()
}

fn sizes(arguments: &[Argument]) -> String {
    let size = |argument: &Argument| match argument {
        Argument::M | Argument::N | Argument::K | Argument::Batch => '4',
        Argument::Lda | Argument::Ldb | Argument::Ldc | Argument::Alpha | Argument::Beta => '4',
        _ => '8',
    };
    arguments.iter().map(size).collect()
}

/// 128 bits of a source.
fn blake(text: &str) -> String {
    format!("{:016x}{:016x}", hash(text.as_bytes()), hash(text.as_bytes().get(1..).unwrap_or(b"")))
}

/// FNV-1a, as the stub computes it.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211);
    bytes.iter().fold(14_695_981_039_346_656_037, step)
}

/// Records launches; has the memory that the call says.
#[derive(Default)]
pub(super) struct Recorder {
    pub(super) text: Mutex<String>,
    pub(super) workspace: Mutex<(u64, u64)>,
    /// Whether the strides of a batch mean something: C and Python pass 0 for a single product.
    pub(super) is_batch: AtomicBool,
}

impl Driver for &Recorder {
    type KernelHandle = (u64, String);
    type Allocation = (u64, u64);
    type MapHandle = ();

    fn load(&self, image: &[u8], kernels: &[(&str, u32)]) -> Result<Vec<(u64, String)>, GpuError> {
        Ok(kernels.iter().map(|(entry, _)| (hash(image), (*entry).to_owned())).collect())
    }

    fn encode(&self, _: &PlacedMap) -> Result<(), GpuError> {
        Ok(())
    }

    fn launch(
        &self,
        _: Stream,
        (image, entry): &(u64, String),
        (grid, block, shared): ([u32; 3], [u32; 3], u32),
        arguments: &[KernelArgument],
        _: &[()],
    ) -> Result<(), GpuError> {
        let mut text = self.text.lock().unwrap();
        let three = |sizes: [u32; 3]| sizes.map(|size| size.to_string()).join(",");
        let (grid, block) = (three(grid), three(block));
        let _ = write!(text, "{image:016x}:{entry}:{grid}:{block}:{shared}:");
        for argument in arguments {
            let bytes = match *argument {
                KernelArgument::Pointer(address) => address.to_le_bytes().to_vec(),
                KernelArgument::I32(value) => value.to_le_bytes().to_vec(),
                KernelArgument::I64(value) if self.is_batch.load(Ordering::Relaxed) => {
                    value.to_le_bytes().to_vec()
                }
                KernelArgument::I64(_) => vec![0; 8],
                KernelArgument::F32(value) => value.to_le_bytes().to_vec(),
                KernelArgument::Map(_) => panic!("no artifact has tensor maps"),
            };
            for byte in bytes {
                let _ = write!(text, "{byte:02x}");
            }
        }
        text.push(';');
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> Result<(u64, u64), GpuError> {
        let (place, room) = *self.workspace.lock().unwrap();
        if bytes > room {
            return Err(GpuError::OutOfMemory { bytes, free: room });
        }
        Ok((place, bytes))
    }

    fn address_and_size(memory: &(u64, u64)) -> (u64, u64) {
        *memory
    }
}
