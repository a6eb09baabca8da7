//! Address layout: where each memory space lies among 64-bit addresses, and the size limits of each
//! space.

/// First generic address of shared memory.
pub(super) const SHARED_WINDOW: u64 = 1 << 24;
/// Most blocks of a cluster that every GPU with clusters supports (CUDA C++ Programming Guide,
/// thread block clusters).
pub(super) const MAX_CLUSTER: u32 = 8;
/// End of the `.shared::cluster` addresses. They have a window for the thread's own block, then one
/// for each rank of a cluster, and one that is valid for no rank. Their generic addresses begin
/// where those of shared memory do.
pub(super) const CLUSTER_END: u64 = (MAX_CLUSTER as u64 + 2) * WINDOW_BYTES;
/// First generic address of local memory.
pub(super) const LOCAL_WINDOW: u64 = 1 << 28;
/// First generic address of parameters. Only the copy engine reads from there.
pub(super) const PARAMETER_WINDOW: u64 = 1 << 29;
/// Bytes of a window.
pub(super) const WINDOW_BYTES: u64 = 1 << 24;
/// Allocation number n of global memory begins at n << 40. The unused addresses between two
/// allocations are so many that no stray index reaches the next one.
pub(super) const ALLOCATION_SHIFT: u32 = 40;
/// First address of module variables.
pub(super) const MODULE_BASE: u64 = 1 << 62;
/// Guard bytes between two variables in shared memory. An index beyond the end of one variable hits
/// them, and not the next variable. They do not change the banks of an access.
pub(super) const SHARED_GUARD: u64 = 4096;
/// Limit of a block's shared memory, static or dynamic. No GPU has as much.
pub(super) const MAX_SHARED: u64 = 1 << 20;
/// Limit of a thread's local memory (CUDA C++ Programming Guide, technical specifications).
pub(super) const MAX_LOCAL: u64 = 512 << 10;
/// Limit of a kernel's parameters (ISA section 5.2.6.1).
pub(super) const MAX_PARAMETERS: u64 = 32_764;
/// Limit of the variables of a module.
pub(super) const MAX_MODULE: u64 = 256 << 20;

/// Rounds `address` up to a multiple of `alignment`, which must be a power of two.
pub(super) fn align(address: u64, alignment: u64) -> u64 {
    address.next_multiple_of(alignment.max(1))
}
