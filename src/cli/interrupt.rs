//! SIGINT (Ctrl-C), SIGTERM and SIGHUP: the first one ends the work with its results so far, the second
//! one ends the program.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use super::failure::Failure;

/// Time to record what was found after the first signal; schedulers give 2 s and more.
const LAST_WORDS: Duration = Duration::from_millis(1900);

/// Set by the first signal.
static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Number of the first signal; 0 before it.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// The flag that the first signal sets, once a command listens.
pub(super) fn flag() -> Arc<AtomicBool> {
    Arc::clone(&STOP)
}

/// Listens from now on: the first signal sets the flag, the second ends the program.
///
/// # Errors
/// The system accepts no handler.
pub(super) fn listen() -> Result<Arc<AtomicBool>, Failure> {
    let unheard = |error| Failure::Work(format!("cannot listen for signals: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(unheard)?;
    let watch = move || {
        for signal in signals.forever() {
            if STOP.swap(true, Ordering::SeqCst) {
                #[expect(clippy::exit, reason = "a second signal ends the program at once")]
                std::process::exit(128 + signal);
            }
            SIGNAL.store(signal, Ordering::SeqCst);
            // What still runs cannot be stopped, such as a long block on the cpu device. Files are
            // written whole or not at all, so that this is safe.
            let ended = move || {
                thread::sleep(LAST_WORDS);
                #[expect(clippy::exit, reason = "a signal ends the program in time")]
                std::process::exit(128 + signal);
            };
            drop(thread::Builder::new().name("deadline".to_owned()).spawn(ended));
        }
    };
    let started = thread::Builder::new().name("signals".to_owned()).spawn(watch);
    started.map_err(unheard)?;
    Ok(flag())
}

/// Exit code after a signal, as shells report it: 130 for SIGINT, 143 for SIGTERM; `None` before one.
pub(super) fn exit_code() -> Option<u8> {
    match SIGNAL.load(Ordering::SeqCst) {
        0 => None,
        signal => u8::try_from(128 + signal).ok(),
    }
}

/// Signals of a command whose work is another program: they do not end this process, which waits for that program.
pub(super) struct WatchedSignals(Signals);

/// Watches from now on.
///
/// # Errors
/// The system accepts no handler.
pub(super) fn watch() -> Result<WatchedSignals, Failure> {
    let unheard = |error| Failure::Work(format!("cannot listen for signals: {error}"));
    Signals::new([SIGINT, SIGTERM, SIGHUP]).map(WatchedSignals).map_err(unheard)
}

impl WatchedSignals {
    /// Passes signals on to a process. A terminal sends SIGINT to the processes of a group itself.
    pub(super) fn pass_to(mut self, process: u32) {
        let watch = move || {
            for signal in self.0.forever() {
                SIGNAL.store(signal, Ordering::SeqCst);
                let own = rustix::process::getpgid(None).ok();
                let process = i32::try_from(process).ok().and_then(Pid::from_raw);
                let has_terminal = own.is_some_and(|own| {
                    rustix::termios::tcgetpgrp(std::io::stdin()).is_ok_and(|front| front == own)
                });
                if let (Some(process), false) = (process, signal == SIGINT && has_terminal) {
                    let signal = match signal {
                        SIGINT => Signal::INT,
                        SIGHUP => Signal::HUP,
                        _ => Signal::TERM,
                    };
                    // The program may have ended.
                    let _ = kill_process(process, signal);
                }
            }
        };
        drop(thread::Builder::new().name("signals".to_owned()).spawn(watch));
    }
}

/// Leaves signals to the parent, which a terminal or a scheduler sends them to as well.
pub(super) fn ignore() {
    // Without handlers the process ends, which its parent notices.
    let _ = Signals::new([SIGINT, SIGTERM, SIGHUP]).map(std::mem::forget);
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) an error. Its signal would end the program
/// and leave temporary files behind.
pub(super) fn survive_file_limits() {
    // Without the handler, the system's action remains.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}
