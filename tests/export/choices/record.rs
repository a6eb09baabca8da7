//! Images that are no machine code, and a driver of the runtime that records launches in them, as
//! `tests/artifacts/stub_driver.c` does for C and Python.

#![expect(unsafe_code, reason = "drivers take addresses")]

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use gemm_tune::export::KernelDraft;
use gemm_tune::gpu::{GpuError, KernelArgument, Stream};
use gemm_tune::model::{Argument, CopyRounding, Dtype, LaunchShape, PlacedMap, Swizzle, TensorMap};
use gemm_tune::runtime::{Driver, RowsToCopy, RowsToFill};

/// An image: what the source is, and the parameters of its kernels.
pub(super) fn image(draft: &KernelDraft) -> Arc<[u8]> {
    let mut text = format!("\x7fELF {}", blake(&draft.source));
    for launch in &draft.plan.kernels {
        let line =
            format!("\n{} {}", launch.entry, sizes(&launch.arguments, &draft.plan.tensor_maps));
        // Launches of one entry take the same.
        if !text.contains(&line) {
            text.push_str(&line);
        }
    }
    text.push('\n');
    text.into_bytes().into()
}

fn sizes(arguments: &[Argument], maps: &[TensorMap]) -> String {
    let size = |argument: &Argument| match argument {
        Argument::M | Argument::N | Argument::K | Argument::Batch => '4',
        Argument::Lda | Argument::Ldb | Argument::Ldc | Argument::Alpha | Argument::Beta => '4',
        Argument::Named(name) if maps.iter().any(|map| map.name == *name) => 'm',
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

/// Numbers of the driver's header, in the order of what they stand for.
const MAP_DTYPES: [((Dtype, Option<CopyRounding>), u32); 6] = [
    ((Dtype::I8, None), 0),
    ((Dtype::I32, None), 3),
    ((Dtype::F16, None), 6),
    ((Dtype::F32, None), 7),
    ((Dtype::Bf16, None), 9),
    ((Dtype::F32, Some(CopyRounding::Tf32)), 11),
];
const SWIZZLES: [Swizzle; 4] = [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128];

/// A map as the stub writes it.
fn map_text(map: &PlacedMap) -> String {
    let rank = map.rank as usize;
    let own = (map.dtype, map.rounds_to);
    let (_, dtype) = MAP_DTYPES.iter().find(|(known, _)| *known == own).unwrap();
    let swizzle = SWIZZLES.iter().position(|own| *own == map.swizzle).unwrap();
    let mut numbers = vec![u64::from(*dtype), u64::from(map.rank), map.address];
    numbers.extend(&map.extents[..rank]);
    numbers.extend(&map.strides[..rank - 1]);
    numbers.extend(map.tile[..rank].iter().map(|extent| u64::from(*extent)));
    numbers.push(swizzle as u64);
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    format!("<{}>", numbers.join(","))
}

/// The map that a text says.
pub(super) fn map_of(text: &str) -> PlacedMap {
    let numbers: Vec<u64> = text.split(',').map(|number| number.parse().unwrap()).collect();
    let rank = numbers[1] as usize;
    let ((dtype, rounds_to), _) =
        MAP_DTYPES.iter().find(|(_, own)| u64::from(*own) == numbers[0]).unwrap();
    let mut map = PlacedMap {
        address: numbers[2],
        dtype: *dtype,
        rank: rank as u32,
        extents: [1; 5],
        strides: [0; 4],
        tile: [1; 5],
        swizzle: SWIZZLES[*numbers.last().unwrap() as usize],
        rounds_to: *rounds_to,
    };
    map.extents[..rank].copy_from_slice(&numbers[3..3 + rank]);
    map.strides[..rank - 1].copy_from_slice(&numbers[3 + rank..2 + 2 * rank]);
    let tile = numbers[2 + 2 * rank..].iter().zip(&mut map.tile[..rank]);
    tile.for_each(|(from, to)| *to = *from as u32);
    map
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
    type MapHandle = PlacedMap;

    fn load(&self, image: &[u8], kernels: &[(&str, u32)]) -> Result<Vec<(u64, String)>, GpuError> {
        Ok(kernels.iter().map(|(entry, _)| (hash(image), (*entry).to_owned())).collect())
    }

    fn encode(&self, map: &PlacedMap) -> Result<PlacedMap, GpuError> {
        Ok(*map)
    }

    unsafe fn copy_rows(&self, _: Stream, rows: &RowsToCopy) -> Result<(), GpuError> {
        let RowsToCopy { from, to, width, rows } = rows;
        let mut text = self.text.lock().unwrap();
        let _ = write!(text, "copy:{},{}>{},{}:{width},{rows};", from.0, from.1, to.0, to.1);
        Ok(())
    }

    unsafe fn fill_rows(&self, _: Stream, rows: &RowsToFill) -> Result<(), GpuError> {
        let RowsToFill { to, width, rows } = rows;
        let _ = write!(self.text.lock().unwrap(), "fill:{},{}:{width},{rows};", to.0, to.1);
        Ok(())
    }

    unsafe fn launch(
        &self,
        _: Stream,
        (image, entry): &(u64, String),
        LaunchShape { grid, block, dynamic_shared_bytes: shared, programmatic }: LaunchShape,
        arguments: &[KernelArgument],
        maps: &[PlacedMap],
    ) -> Result<(), GpuError> {
        let mut text = self.text.lock().unwrap();
        let three = |sizes: [u32; 3]| sizes.map(|size| size.to_string()).join(",");
        let (grid, block) = (three(grid), three(block));
        text.push_str(if programmatic { "+" } else { "" });
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
                KernelArgument::Map(place) => {
                    text.push_str(&map_text(&maps[place]));
                    continue;
                }
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
