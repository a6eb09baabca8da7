//! Tests that need a GPU.

fn main() {}
