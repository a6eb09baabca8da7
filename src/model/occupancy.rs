//! Occupancy: how many blocks of a kernel an SM holds at once, and which resource limits that. The
//! rules of CUDA's occupancy calculator, for use without a driver.

use std::fmt;

use super::device::{ComputeCapability, Device};

/// Resources of one block of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BlockNeeds {
    /// Threads.
    pub threads: u64,
    /// Registers per thread.
    pub registers: u64,
    /// Bytes of shared memory, static and dynamic.
    pub shared_bytes: u64,
}

/// A limited resource of an SM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limiter {
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
    /// Warp slots.
    Warps,
    /// Block slots.
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

/// Occupancy of an SM by a kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Occupancy {
    /// Blocks that an SM holds at once; 0 if not even one fits.
    pub blocks_per_sm: u64,
    /// Number of blocks that each resource allows.
    pub limits: [(Limiter, u64); 4],
    /// Resident warps relative to the warp slots, 0 to 1.
    pub share: f64,
}

impl Occupancy {
    /// Computes the occupancy of a block with these needs on a device.
    pub fn of(needs: &BlockNeeds, device: &Device) -> Self {
        let warps = needs.threads.div_ceil(u64::from(device.warp_size)).max(1);
        let places = u64::from(device.threads_per_sm / device.warp_size);
        // Registers are allocated per warp in units of 256, and each warp belongs to one of the
        // SM's four partitions.
        let of_warp = (needs.registers.clamp(16, 255) * u64::from(device.warp_size))
            .next_multiple_of(REGISTER_UNIT);
        let by_registers = PARTITIONS * (u64::from(device.registers_per_sm) / PARTITIONS / of_warp);
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

    /// Returns the resources that limit the number of blocks.
    pub fn limiters(&self) -> impl Iterator<Item = Limiter> {
        let bound = |(limiter, blocks): &(Limiter, u64)| {
            (*blocks == self.blocks_per_sm).then_some(*limiter)
        };
        self.limits.iter().filter_map(bound)
    }
}

/// Allocation unit of registers per warp, partitions of an SM with their own registers, and
/// allocation unit of shared memory per block in bytes (CUDA occupancy calculator, capabilities 8.0
/// to 9.0).
const REGISTER_UNIT: u64 = 256;
const PARTITIONS: u64 = 4;
const SHARED_UNIT: u64 = 128;

/// Block slots of an SM (CUDA C++ Programming Guide, technical specifications by capability).
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
    fn the_limiting_resource_is_named() {
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
