//! Ctrl-C: the first one ends the work with its results so far, the second one ends the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::failure::Failure;

/// A flag that the first Ctrl-C sets.
///
/// # Errors
/// The system accepts no handler.
pub(super) fn listen() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let handler = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if handler.swap(true, Ordering::Relaxed) {
            #[expect(clippy::exit, reason = "a second Ctrl-C ends the program at once")]
            std::process::exit(130);
        }
    })
    .map_err(|error| Failure::Work(format!("cannot listen for Ctrl-C: {error}")))?;
    Ok(stop)
}
