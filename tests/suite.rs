//! All tests that need no GPU and see the library or the program from outside. One binary, so that
//! the library is linked once: `cargo test --test suite families` runs one module.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod built_in;
mod cli;
mod compare;
mod cover;
mod cpu_device;
mod db;
mod emulation;
mod explain;
mod export;
mod families;
mod fleet;
mod forms;
mod harnesses;
mod hostile;
mod inspect;
mod journals;
mod killed;
mod memory;
mod modelled;
mod new_family;
mod packaging;
mod packing;
mod padding;
mod pages;
mod physics;
mod python_package;
mod readme;
mod release;
mod report;
mod searches;
mod support;
mod survival;
mod template_errors;
mod tensor_core_architectures;
mod tensor_core_cost;
mod terminal;
mod trace;
mod tutorial;
