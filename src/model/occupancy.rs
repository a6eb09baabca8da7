//! How many blocks of a kernel an SM holds at once, and which of its resources ends first. The rules
//! of CUDA's occupancy calculator, for where no driver can be asked.

use std::fmt;

use super::device::{ComputeCapability, Device};

/// What one block of a kernel takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockNeeds {
    /// Threads.
    pub threads: u64,
    /// Registers of a thread.
    pub registers: u64,
    /// Bytes of shared memory, static and dynamic.
    pub shared_bytes: u64,
}

/// Something of which an SM has only so much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limiter {
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
    /// Places for warps.
    Warps,
    /// Places for blocks.
    Blocks,
}

impl fmt::Display for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Registers => "registers",
            Self::SharedMemory => "shared memory",
            Self::Warps => "warps",
            Self::Blocks => "blocks",
        })
    }
}

/// How well a kernel fills an SM.
#[derive(Debug, Clone, PartialEq)]
pub struct Occupancy {
    /// Blocks that an SM holds at once; 0 where not even one fits.
    pub blocks_per_sm: u64,
    /// How many blocks each resource would allow.
    pub limits: [(Limiter, u64); 4],
    /// Resident warps over the places for them, 0 to 1.
    pub share: f64,
}

impl Occupancy {
    /// What a block with these needs reaches on a device.
    pub fn of(needs: &BlockNeeds, device: &Device) -> Self {
        let warps = needs.threads.div_ceil(u64::from(device.warp_size)).max(1);
        let places = u64::from(device.threads_per_sm / device.warp_size);
        // A warp gets registers in units of 256, and lives in one of the SM's four parts.
        let of_warp = (needs.registers.clamp(16, 255) * u64::from(device.warp_size))
            .next_multiple_of(REGISTER_UNIT);
        let by_registers = PARTS * (u64::from(device.registers_per_sm) / PARTS / of_warp);
        let shared = needs.shared_bytes.next_multiple_of(SHARED_UNIT)
            + u64::from(device.shared_bytes_reserved);
        let limits = [
            (Limiter::Registers, by_registers / warps),
            (Limiter::SharedMemory, u64::from(device.shared_bytes_per_sm) / shared.max(1)),
            (Limiter::Warps, places / warps),
            (Limiter::Blocks, block_places(device.compute_capability)),
        ];
        let blocks_per_sm = limits.iter().map(|(_, blocks)| *blocks).min().unwrap_or(0);
        let share = (blocks_per_sm * warps) as f64 / places.max(1) as f64;
        Self { blocks_per_sm, limits, share }
    }

    /// The resources that allow no more blocks than there are.
    pub fn limiters(&self) -> impl Iterator<Item = Limiter> {
        let bound = |(limiter, blocks): &(Limiter, u64)| {
            (*blocks == self.blocks_per_sm).then_some(*limiter)
        };
        self.limits.iter().filter_map(bound)
    }
}

/// Registers that a warp gets at once, parts of an SM that have registers of their own, and bytes of
/// shared memory that a block gets at once (CUDA occupancy calculator, capabilities 8.0 to 9.0).
const REGISTER_UNIT: u64 = 256;
const PARTS: u64 = 4;
const SHARED_UNIT: u64 = 128;

/// Blocks that an SM has places for (CUDA C++ Programming Guide, technical specifications by
/// capability).
fn block_places(capability: ComputeCapability) -> u64 {
    match (capability.major, capability.minor) {
        (7, 5) | (8, 6 | 7) => 16,
        (8, 9) | (12, _) => 24,
        _ => 32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resource_that_ends_first_is_named() {
        use Limiter::{Blocks, Registers, SharedMemory, Warps};
        let device = Device::h200();
        for (threads, registers, shared_bytes, blocks, share, limiters) in [
            (256, 250, 33_792, 1, 0.125, &[Registers][..]),
            (256, 128, 0, 2, 0.25, &[Registers]),
            (1024, 32, 8192, 2, 1.0, &[Registers, Warps]),
            (64, 16, 0, 32, 1.0, &[Warps, Blocks]),
            (32, 16, 0, 32, 0.5, &[Blocks]),
            (128, 32, 100_000, 2, 0.125, &[SharedMemory]),
            // 168 registers: 3 warps in each part of the SM, 12 in all, so one block of 8.
            (256, 168, 0, 1, 0.125, &[Registers]),
            (128, 32, 300_000, 0, 0.0, &[SharedMemory]),
        ] {
            let occupancy =
                Occupancy::of(&BlockNeeds { threads, registers, shared_bytes }, &device);
            let what = format!("{threads} threads, {registers} registers, {shared_bytes} bytes");
            assert_eq!(occupancy.blocks_per_sm, blocks, "{what}");
            assert_eq!(occupancy.share, share, "{what}");
            assert_eq!(occupancy.limiters().collect::<Vec<_>>(), limiters, "{what}");
        }
    }
}
