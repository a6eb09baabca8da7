//! What the statistics promise, tried on synthetic noise whose truth is known. All streams are
//! seeded: a test that passes always passes.

mod finals;
mod margin;
mod noise;
mod race;
