//! A list of a JSON document that is made entry by entry as it is written: the values of 100,000
//! records fill a gigabyte.

use serde::{Serialize, Serializer};

/// Entries, made anew each time that they are written.
#[derive(Debug, Clone)]
pub(super) struct Sequence<I>(pub(super) I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for Sequence<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}
