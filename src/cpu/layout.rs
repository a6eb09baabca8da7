//! Where memory lies among 64-bit addresses.

/// Generic addresses of shared memory begin here.
pub(super) const SHARED_WINDOW: u64 = 1 << 24;
/// The most blocks of a cluster: what every GPU that has clusters takes (CUDA C++ Programming
/// Guide, thread block clusters).
pub(super) const MAX_CLUSTER: u32 = 8;
/// Addresses of `.shared::cluster` end here: a window for the thread's own block, then one for each
/// rank of a cluster, and one for a rank that no cluster has. As generic addresses they begin where
/// those of shared memory do.
pub(super) const CLUSTER_END: u64 = (MAX_CLUSTER as u64 + 2) * WINDOW_BYTES;
/// Generic addresses of local memory begin here.
pub(super) const LOCAL_WINDOW: u64 = 1 << 28;
/// Generic addresses of parameters begin here. Only the copy engine reads from there.
pub(super) const PARAMETER_WINDOW: u64 = 1 << 29;
/// Bytes of a window.
pub(super) const WINDOW_BYTES: u64 = 1 << 24;
/// Allocation number n of global memory begins at n << 40: between any two lie so many addresses
/// that belong to nothing that no stray index reaches a neighbour.
pub(super) const ALLOCATION_SHIFT: u32 = 40;
/// Variables of modules are allocations from this address on.
pub(super) const MODULE_BASE: u64 = 1 << 62;
/// Between two variables in shared memory lie this many bytes that belong to nothing, so that an
/// index beyond the end of one does not go unnoticed in the next. Which banks an access meets is
/// not changed by it.
pub(super) const SHARED_GUARD: u64 = 4096;
/// The most shared memory of a block, static or dynamic: more than any GPU has.
pub(super) const MAX_SHARED: u64 = 1 << 20;
/// The most local memory of a thread (CUDA C++ Programming Guide, technical specifications).
pub(super) const MAX_LOCAL: u64 = 512 << 10;
/// The most that a kernel's parameters take (ISA section 5.2.6.1).
pub(super) const MAX_PARAMETERS: u64 = 32_764;
/// The most that the variables of a module take.
pub(super) const MAX_MODULE: u64 = 256 << 20;

/// The first multiple of `alignment`, a power of two, that is not below `address`.
pub(super) fn align(address: u64, alignment: u64) -> u64 {
    address.next_multiple_of(alignment.max(1))
}
