//! The child's side: ties the process to its parent, limits it, and opens the pipes.

use std::fs;
use std::io::{self, BufReader, BufWriter, Stdin};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpgrp, getppid, getpriority_process, getrlimit,
    kill_process_group, setpriority_process, setrlimit,
};
use serde::{Deserialize, Serialize};

use super::frame::read_frame;

/// Interval at which a child whose pipe closed looks for its parent.
const POLL: Duration = Duration::from_millis(20);

/// Niceness of children that compile (setpriority(2)): measurements have priority.
const NICENESS: i32 = 10;

/// First message to every child.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Greeting {
    /// Process number of the program that the child works for.
    parent: u32,
}

impl Greeting {
    /// The greeting of this process.
    pub(super) fn new() -> Self {
        Self { parent: std::process::id() }
    }
}

/// The pipes to the parent.
pub(crate) struct ParentPipe {
    /// Requests.
    pub(crate) input: BufReader<Stdin>,
    /// Responses.
    pub(crate) output: BufWriter<fs::File>,
}

impl ParentPipe {
    /// Ties this process to its parent, and opens the pipes to it. Responses go to a copy of
    /// standard output, and what libraries and kernels print to standard error.
    ///
    /// The process ends with the program that it works for, also while it waits for a kernel or a
    /// compile. The system kills it when the thread that started it ends. That misses a parent that
    /// ended before the call below, and one behind a wrapper: both are found by the closed pipe.
    pub(crate) fn open() -> io::Result<Self> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        let mut input = BufReader::new(io::stdin());
        let Some((Greeting { parent }, _)) = read_frame(&mut input)? else {
            return Err(io::Error::other("the parent ended before it sent a message"));
        };
        let is_child = getppid().is_some_and(|own| own.as_raw_pid().cast_unsigned() == parent);
        if !is_child && is_gone(parent) {
            return Err(io::Error::other("the parent has ended"));
        }
        thread::Builder::new()
            .name("parent-watch".to_owned())
            .spawn(move || end_with(parent))
            .map(drop)?;
        let answers = rustix::io::dup(rustix::stdio::stdout())?;
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        Ok(Self { input, output: BufWriter::new(fs::File::from(answers)) })
    }
}

/// Waits until the pipe closes, then until the process has ended, and kills this group. A parent
/// that closes the pipe and goes on waits for an orderly end.
fn end_with(parent: u32) {
    let stdin = io::stdin();
    loop {
        let mut pipe = [PollFd::new(&stdin, PollFlags::empty())];
        // A closed pipe is reported without being asked for.
        let polled = poll(&mut pipe, None);
        if polled.is_ok() && pipe[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            break;
        }
        thread::sleep(POLL);
    }
    while !is_gone(parent) {
        thread::sleep(POLL);
    }
    let _ = kill_process_group(getpgrp(), Signal::KILL);
}

/// Whether a process has ended; one that nobody waited for yet counts as ended.
fn is_gone(process: u32) -> bool {
    if i32::try_from(process).ok().and_then(Pid::from_raw).is_none() {
        return true;
    }
    let Ok(line) = fs::read_to_string(format!("/proc/{process}/stat")) else {
        // Without `/proc` only the death signal is left.
        return fs::exists("/proc/self/stat").unwrap_or(false);
    };
    // The name before the state may contain anything.
    let state = line.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    matches!(state, Some('Z' | 'X'))
}

/// Limits the address space of this process, lowers its priority, and forbids core dumps: a compile
/// or a template that fills the memory ends its own process only.
pub(crate) fn limit_resources(address_space: u64) {
    let lower = |resource, limit: u64| {
        let Rlimit { current, maximum } = getrlimit(resource);
        let most = |old: Option<u64>| Some(old.map_or(limit, |old| old.min(limit)));
        // A refusal leaves the limits of the system.
        let _ = setrlimit(resource, Rlimit { current: most(current), maximum: most(maximum) });
    };
    lower(Resource::As, address_space);
    lower(Resource::Core, 0);
    // Absolute: a child inherits the niceness of the thread that started it, and at twice the value it
    // gets 1.5 % of a busy core, too little to compile within the limit of time.
    let nice = getpriority_process(None).map_or(NICENESS, |own| own.max(NICENESS));
    let _ = setpriority_process(None, nice);
}
