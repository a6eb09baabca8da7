//! Plain values of gemm-tune: problems, devices, configurations, launch plans, outcomes, measurements, units.
//!
//! A crate of its own, because the crate of the cpu device needs it; the program uses both as rooms.

#[path = "mod.rs"]
pub mod model;
