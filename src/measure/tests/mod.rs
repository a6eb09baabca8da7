//! Tests of the statistics on synthetic noise with known truth. All streams are seeded, so results
//! are reproducible.

mod finals;
mod margin;
mod noise;
mod race;
