//! Tests of several files together.

mod learned_model;
