//! Where worker processes are started from: one thread that never ends. The system ends a worker
//! with the thread that started it (a parent that is killed leaves no worker behind), so that a
//! worker started by a thread of a search would end with the search.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

struct Order {
    command: Command,
    started: Sender<io::Result<Child>>,
}

/// Starts a process that outlives the calling thread, and ends with this program.
///
/// # Errors
/// What the system says.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (orders, incoming) = channel::<Order>();
        thread::spawn(move || {
            for Order { mut command, started } in incoming {
                // Who ordered it waits for the answer.
                let _ = started.send(command.spawn());
            }
        });
        orders
    });
    let (started, answer) = channel();
    let gone = || io::Error::other("the thread that starts processes is gone");
    orders.send(Order { command, started }).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_outlives_the_thread_that_asked_for_it() {
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
