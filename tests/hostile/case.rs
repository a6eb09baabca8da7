//! One row of the suite: what is laid out, what is called, and what is expected.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// A file or special node that a case makes in its folder, folders above it included.
#[allow(dead_code, reason = "words for tables")]
#[derive(Debug, Clone)]
pub(crate) enum Node {
    File(Vec<u8>),
    /// A file with permissions, such as 0o000.
    FileWith(Vec<u8>, u32),
    Folder(u32),
    /// A symbolic link to a target, which need not exist.
    Link(String),
    Fifo,
}

/// Where an output stream of the call goes.
#[allow(dead_code, reason = "words for tables")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// To the harness, which checks it.
    Kept,
    /// To `/dev/full`: each write fails for want of space.
    Full,
    /// To a pipe whose reader is gone.
    BrokenPipe,
    /// Closed before the program starts.
    Closed,
}

/// What is called.
#[allow(dead_code, reason = "words for tables")]
pub(crate) enum Subject {
    /// The program.
    Program,
    /// Another program, such as `python3`.
    Other(OsString),
    /// A function of the library, with the case's folder. Its text stands for standard output, its
    /// error for standard error with exit code 1, and a panic for exit code 101.
    Call(fn(&Path) -> Result<String, String>),
}

type Check = Box<dyn Fn(&Path) -> Result<(), String> + Send + Sync>;

/// Whether a moment has come, by the case's folder and the time since the start.
type Moment = Box<dyn Fn(&Path, Duration) -> bool + Send + Sync>;

/// A row. Methods after [`case`] add to it.
pub(crate) struct Case {
    pub(super) name: String,
    pub(super) subject: Subject,
    pub(super) nodes: Vec<(OsString, Node)>,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) stdin: Vec<u8>,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
    pub(super) timeout: Duration,
    /// Options of the shell's `ulimit`, such as `-v 4000000` or `-f 0`.
    pub(super) limits: Vec<String>,
    /// A signal and when it is sent, to the program alone.
    pub(super) signal: Option<(Moment, rustix::process::Signal)>,
    /// Whether a run as root drops to an ordinary user, for whom permissions count.
    pub(super) unprivileged: bool,
    pub(super) nvrtc: bool,
    pub(super) before: Option<Check>,
    pub(super) after: Vec<Check>,
    pub(super) codes: Vec<i32>,
    pub(super) says: Vec<String>,
    pub(super) prints: Vec<String>,
    pub(super) silent_about: Vec<String>,
    pub(super) changed: Vec<String>,
    pub(super) absent: Vec<String>,
    /// Whether a failing call is repeated with `--json`.
    pub(super) json: bool,
}

/// A row by its name. It expects success until it says otherwise.
pub(crate) fn case(name: impl Into<String>) -> Case {
    Case {
        name: name.into(),
        subject: Subject::Program,
        nodes: Vec::new(),
        arguments: Vec::new(),
        environment: Vec::new(),
        stdin: Vec::new(),
        stdout: Output::Kept,
        stderr: Output::Kept,
        timeout: Duration::from_secs(10),
        limits: Vec::new(),
        signal: None,
        unprivileged: false,
        nvrtc: false,
        before: None,
        after: Vec::new(),
        codes: vec![0],
        says: Vec::new(),
        prints: Vec::new(),
        silent_about: Vec::new(),
        changed: Vec::new(),
        absent: Vec::new(),
        json: true,
    }
}

/// Calls that end with an exit code and say words on standard error. The call is the name.
pub(crate) fn rows(code: i32, table: &[(&str, &[&str])]) -> Vec<Case> {
    let row = |(call, words): &(&str, &[&str])| {
        words.iter().fold(case(*call).run(call).fails(code), |row, word| row.says([word]))
    };
    table.iter().map(row).collect()
}

#[allow(dead_code, reason = "words for tables: not every one is in use at all times")]
impl Case {
    /// Adds arguments, separated by blanks. `{folder}` stands for the case's folder and `{root}` for
    /// the repository's root, as absolute paths.
    pub(crate) fn run(mut self, words: &str) -> Self {
        self.arguments.extend(words.split_whitespace().map(OsString::from));
        self
    }

    /// Adds one argument, with whatever it holds.
    pub(crate) fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Calls another program, such as `python3` or `bash`, instead of this one.
    pub(crate) fn program(mut self, program: &str) -> Self {
        self.subject = Subject::Other(program.into());
        self.json = false;
        self
    }

    /// Calls a function of the library instead of the program.
    pub(crate) fn call(mut self, function: fn(&Path) -> Result<String, String>) -> Self {
        self.subject = Subject::Call(function);
        self.json = false;
        self
    }

    /// Makes a file. As everywhere, its name is relative to the case's folder.
    pub(crate) fn file(self, name: impl Into<OsString>, bytes: impl Into<Vec<u8>>) -> Self {
        self.node(name, Node::File(bytes.into()))
    }

    /// Makes a copy of a file of the repository.
    pub(crate) fn copy(self, name: &str, from: &str) -> Self {
        let bytes = std::fs::read(from).unwrap_or_else(|error| panic!("{from}: {error}"));
        self.file(name, bytes)
    }

    /// Makes a folder with permissions.
    pub(crate) fn folder(self, name: &str, mode: u32) -> Self {
        self.node(name, Node::Folder(mode))
    }

    /// Makes a symbolic link.
    pub(crate) fn link(self, name: &str, target: &str) -> Self {
        self.node(name, Node::Link(target.to_owned()))
    }

    /// Makes a FIFO.
    pub(crate) fn fifo(self, name: &str) -> Self {
        self.node(name, Node::Fifo)
    }

    /// Makes any node.
    pub(crate) fn node(mut self, name: impl Into<OsString>, node: Node) -> Self {
        self.nodes.push((name.into(), node));
        self
    }

    /// Runs before the call, in the case's folder: what nodes cannot express.
    pub(crate) fn before(
        mut self,
        make: impl Fn(&Path) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.before = Some(Box::new(make));
        self
    }

    /// Sets a variable. `{folder}` and `{root}` are replaced as in arguments.
    pub(crate) fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Gives standard input, which is empty otherwise.
    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    pub(crate) fn stdout(mut self, output: Output) -> Self {
        self.stdout = output;
        self.json = false;
        self
    }

    pub(crate) fn stderr(mut self, output: Output) -> Self {
        self.stderr = output;
        self.json = false;
        self
    }

    /// Replaces the limit of 10 s.
    pub(crate) fn within(mut self, seconds: f64) -> Self {
        self.timeout = Duration::from_secs_f64(seconds);
        self
    }

    /// Adds an option of `ulimit`, such as `-v 4000000` (KiB of address space) or `-f 0` (512-byte
    /// blocks of a file).
    pub(crate) fn ulimit(mut self, option: &str) -> Self {
        self.limits.push(option.to_owned());
        self
    }

    /// Sends a signal to the program after a time. It must end within two seconds of it.
    pub(crate) fn signal(self, after: Duration, signal: rustix::process::Signal) -> Self {
        self.signal_when(move |_, elapsed| elapsed >= after, signal)
    }

    /// Sends a signal to the program as soon as a condition holds, such as that a file exists.
    pub(crate) fn signal_when(
        mut self,
        moment: impl Fn(&Path, Duration) -> bool + Send + Sync + 'static,
        signal: rustix::process::Signal,
    ) -> Self {
        self.signal = Some((Box::new(moment), signal));
        self
    }

    /// Drops root's rights, so that permissions count.
    pub(crate) fn unprivileged(mut self) -> Self {
        self.unprivileged = true;
        self
    }

    /// Gives the call an NVRTC. Skipped where tests may do without one.
    pub(crate) fn with_nvrtc(mut self) -> Self {
        self.nvrtc = true;
        self
    }

    /// Expects an exit code.
    pub(crate) fn fails(mut self, code: i32) -> Self {
        self.codes = vec![code];
        self
    }

    /// Expects one of several exit codes, where the machine decides.
    pub(crate) fn ends_with(mut self, codes: &[i32]) -> Self {
        self.codes = codes.to_vec();
        self
    }

    /// Expects fragments of standard error: what, where, which value, what to do next.
    pub(crate) fn says<const N: usize>(mut self, fragments: [&str; N]) -> Self {
        self.says.extend(fragments.map(str::to_owned));
        self
    }

    /// Expects fragments of standard output.
    pub(crate) fn prints<const N: usize>(mut self, fragments: [&str; N]) -> Self {
        self.prints.extend(fragments.map(str::to_owned));
        self
    }

    /// Expects that neither output has a fragment.
    pub(crate) fn never_says(mut self, fragment: &str) -> Self {
        self.silent_about.push(fragment.to_owned());
        self
    }

    /// A node of the case that the call may change or remove.
    pub(crate) fn changes(mut self, name: &str) -> Self {
        self.changed.push(name.to_owned());
        self
    }

    /// A name that must not exist afterwards, not even as a link.
    pub(crate) fn absent(mut self, name: &str) -> Self {
        self.absent.push(name.to_owned());
        self
    }

    /// Runs after the call, with the case's folder.
    pub(crate) fn after(
        mut self,
        check: impl Fn(&Path) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.after.push(Box::new(check));
        self
    }

    /// Leaves out the second call with `--json`: the command does not know it, or the first call
    /// changes what the second would find.
    pub(crate) fn once(mut self) -> Self {
        self.json = false;
        self
    }

    /// Another name, for a row made of another one.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    pub(super) fn of_module(mut self, module: &str) -> Self {
        self.name = format!("{module}: {}", self.name);
        self
    }
}
