//! Start of child processes from one thread that never ends. The system ends a child together with
//! the thread that started it, so that a killed parent leaves none behind. A child started by a
//! search thread would end with the search.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

struct SpawnRequest {
    command: Command,
    started: Sender<io::Result<Child>>,
}

/// Starts a process that outlives the calling thread and ends with this program.
///
/// # Errors
/// The operating system's error.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    static REQUESTS: OnceLock<Sender<SpawnRequest>> = OnceLock::new();
    let requests = REQUESTS.get_or_init(|| {
        let (requests, incoming) = channel::<SpawnRequest>();
        thread::spawn(move || {
            for SpawnRequest { mut command, started } in incoming {
                // The requester waits for the answer.
                let _ = started.send(command.spawn());
            }
        });
        requests
    });
    let (started, answer) = channel();
    let gone = || io::Error::other("the thread that starts processes has ended");
    requests.send(SpawnRequest { command, started }).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_outlives_the_thread_that_requested_it() {
        let mut sleep = Command::new("sleep");
        sleep.arg("60");
        let child = thread::spawn(|| spawn(sleep)).join().unwrap();
        let mut child = child.unwrap();
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(spawn(Command::new("/no/such/program")).is_err());
    }
}
