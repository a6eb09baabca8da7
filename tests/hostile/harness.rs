//! Lays out a case's folder, makes the call, and judges what came of it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::case::{Case, Node, Output, Subject};
use crate::support::{nvrtc_or_skip, program};

/// User and group of unprivileged calls.
const NOBODY: u32 = 65534;

/// Time to end after a signal.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What a call left.
struct Outcome {
    /// The exit code, 128 and the signal's number as a shell has it, or none for a call that was
    /// stopped at its limit.
    code: Option<i32>,
    by_signal: bool,
    out: String,
    err: String,
    took: Duration,
}

/// Runs a case.
pub(super) fn check(case: &Case, verbose: bool) -> Result<(), String> {
    if case.nvrtc && nvrtc_or_skip().is_none() {
        return Ok(());
    }
    once(case, &case.arguments, false, verbose)?;
    let fails = !case.codes.contains(&0);
    if case.json && fails && !case.arguments.iter().any(|word| word == "--json") {
        let mut arguments = case.arguments.clone();
        // Before the end of options.
        let at = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
        arguments.insert(at, "--json".into());
        once(case, &arguments, true, verbose)?;
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the test harness shows it with a failure or on request")]
fn once(case: &Case, arguments: &[OsString], json: bool, verbose: bool) -> Result<(), String> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = place.path().join("here");
    let made = lay_out(case, place.path(), &folder);
    made.map_err(|error| format!("  the case's folder cannot be made: {error}"))?;
    if let Some(before) = &case.before {
        before(&folder)?;
    }
    let earlier: Vec<_> =
        case.nodes.iter().map(|(name, _)| (name, picture(&folder.join(name)))).collect();
    let outcome = match &case.subject {
        Subject::Call(function) => called(&folder, *function),
        Subject::Program | Subject::Other(_) => executed(case, arguments, place.path(), &folder)
            .map_err(|error| format!("  the call cannot be made: {error}"))?,
    };
    let mut faults = judged(case, &outcome, json);
    for (name, earlier) in earlier {
        let may_change = case.changed.iter().any(|changed| name == OsStr::new(changed));
        if !may_change && picture(&folder.join(name)) != earlier {
            faults.push(format!("`{}` was changed", name.to_string_lossy()));
        }
    }
    for name in &case.absent {
        if folder.join(name).symlink_metadata().is_ok() {
            faults.push(format!("`{name}` was made"));
        }
    }
    leftovers(place.path(), &mut faults);
    faults.extend(case.after.iter().filter_map(|check| check(&folder).err()));
    open_up(place.path());
    let call: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    let report = || {
        let code = outcome.code.map_or("none".to_owned(), |code| code.to_string());
        format!(
            "  call: {:.400}\n  code: {code} after {:.2} s\n  standard output: {:.600}\n  standard error: {:.1500}",
            call.join(" "),
            outcome.took.as_secs_f64(),
            outcome.out.trim_end(),
            outcome.err.trim_end(),
        )
    };
    if verbose {
        println!("{}\n{}\n", case.name, report());
    }
    if faults.is_empty() {
        return Ok(());
    }
    let faults: Vec<_> = faults.iter().map(|fault| format!("  - {fault}\n")).collect();
    Err(format!("{}{}", faults.concat(), report()))
}

fn lay_out(case: &Case, place: &Path, folder: &Path) -> std::io::Result<()> {
    fs::create_dir(folder)?;
    fs::create_dir(place.join("home"))?;
    for (name, node) in &case.nodes {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        match node {
            Node::File(bytes) | Node::FileWith(bytes, _) => fs::write(&path, bytes)?,
            Node::Folder(_) => fs::create_dir_all(&path)?,
            Node::Link(target) => std::os::unix::fs::symlink(target, &path)?,
            Node::Fifo => {
                let made = Command::new("mkfifo").arg(&path).status()?;
                assert!(made.success(), "mkfifo {}", path.display());
            }
        }
    }
    if case.unprivileged && rustix::process::geteuid().is_root() {
        // The folders of the call are the user's; what the case made is not.
        fs::set_permissions(place, fs::Permissions::from_mode(0o755))?;
        for own in [folder, &place.join("home")] {
            std::os::unix::fs::chown(own, Some(NOBODY), Some(NOBODY))?;
        }
    }
    for (name, node) in &case.nodes {
        if let Node::FileWith(_, mode) | Node::Folder(mode) = node {
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(*mode))?;
        }
    }
    Ok(())
}

/// Gives back permissions, so that the folder can be removed.
fn open_up(place: &Path) {
    let _ = Command::new("chmod").arg("-R").arg("u+rwX").arg(place).stderr(Stdio::null()).status();
}

/// All that must not change of a node: its kind, target, bytes, or a folder's names.
fn picture(path: &Path) -> String {
    let Ok(data) = path.symlink_metadata() else { return "absent".to_owned() };
    let kind = data.file_type();
    let content = if kind.is_symlink() {
        let target = fs::read_link(path).unwrap_or_default();
        format!("{} -> {}", target.display(), picture_of_content(path))
    } else {
        picture_of_content(path)
    };
    format!("{kind:?} {content}")
}

fn picture_of_content(path: &Path) -> String {
    let Ok(data) = path.metadata() else { return "nothing".to_owned() };
    if data.is_file() {
        return fs::read(path).map_or_else(
            |error| error.to_string(),
            |bytes| format!("{} bytes, {}", bytes.len(), blake3::hash(&bytes)),
        );
    }
    if data.is_dir() {
        let names = fs::read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        names.sort();
        return format!("{names:?}");
    }
    format!("{:?}", data.file_type())
}

/// Files that a call began and did not finish.
fn leftovers(folder: &Path, faults: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(".tmp") || name.ends_with(".tmp") || name.ends_with(".partial") {
            faults.push(format!("the temporary file `{}` is left", entry.path().display()));
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            leftovers(&entry.path(), faults);
        }
    }
}

fn called(folder: &Path, function: fn(&Path) -> Result<String, String>) -> Outcome {
    let start = Instant::now();
    let (code, out, err) = match catch_unwind(AssertUnwindSafe(|| function(folder))) {
        Ok(Ok(text)) => (0, text, String::new()),
        Ok(Err(error)) => (1, String::new(), error),
        Err(_) => (101, String::new(), "panicked".to_owned()),
    };
    Outcome { code: Some(code), by_signal: false, out, err, took: start.elapsed() }
}

fn executed(
    case: &Case,
    arguments: &[OsString],
    place: &Path,
    folder: &Path,
) -> std::io::Result<Outcome> {
    let (out, err, input) = (tempfile::tempfile()?, tempfile::tempfile()?, tempfile::tempfile()?);
    let mut input = input;
    input.write_all(&case.stdin)?;
    input.rewind()?;
    let mut command = command(case, arguments, place, folder);
    command.stdin(input);
    command.stdout(stream(case.stdout, &out)?).stderr(stream(case.stderr, &err)?);
    // A group of its own, so that what the program starts can be stopped with it.
    command.process_group(0);
    let start = Instant::now();
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    let mut limit = case.timeout;
    let mut signal = case.signal.as_ref();
    let status: Option<ExitStatus> = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        let now = start.elapsed();
        if let Some((_, kind)) = signal.take_if(|(moment, _)| moment(folder, now)) {
            let _ = rustix::process::kill_process(pid, *kind);
            limit = now + LAST_WORDS;
        }
        if now > limit {
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let took = start.elapsed();
    let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    if status.is_none() {
        child.wait()?;
    }
    Ok(Outcome {
        code: status.and_then(|status| status.code().or(status.signal().map(|n| 128 + n))),
        by_signal: status.is_some_and(|status| status.signal().is_some()),
        out: read(out)?,
        err: read(err)?,
        took,
    })
}

fn command(case: &Case, arguments: &[OsString], place: &Path, folder: &Path) -> Command {
    let root = std::env::current_dir().unwrap_or_default();
    let filled = |word: &OsStr| filled(word, folder, &root);
    let mut words: Vec<OsString> = Vec::new();
    if case.unprivileged && rustix::process::geteuid().is_root() {
        let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
        words.extend(["setpriv".into(), "--clear-groups".into()]);
        words.extend(user.map(OsString::from));
    }
    let closed = [(case.stdout, "1>&-"), (case.stderr, "2>&-")];
    let closed: Vec<_> = closed.iter().filter(|(output, _)| *output == Output::Closed).collect();
    if !case.limits.is_empty() || !closed.is_empty() {
        let limits = case.limits.iter().map(|limit| format!("ulimit {limit} && "));
        let closed = closed.iter().map(|(_, word)| format!(" {word}"));
        let script: String =
            limits.chain(["exec \"$0\" \"$@\"".to_owned()]).chain(closed).collect();
        words.extend(["bash".into(), "-c".into(), script.into()]);
    }
    words.push(match &case.subject {
        Subject::Other(program) => filled(program),
        _ => std::path::absolute(program::path()).unwrap_or_default().into_os_string(),
    });
    words.extend(arguments.iter().map(|word| filled(word)));
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(folder);
    for name in
        ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "GEMM_TUNE_NVRTC", "GEMM_TUNE_CACHE"]
    {
        command.env_remove(name);
    }
    command.env("NO_COLOR", "1").env("HOME", place.join("home")).env_remove("XDG_CACHE_HOME");
    // A debug build's backtraces take most of a second.
    command.env("RUST_BACKTRACE", "0");
    if let Some(nvrtc) = case.nvrtc.then(nvrtc_or_skip).flatten() {
        command.env("GEMM_TUNE_NVRTC", std::path::absolute(nvrtc.path()).unwrap_or_default());
    }
    for (name, value) in &case.environment {
        command.env(name, filled(value));
    }
    command
}

/// A word with its placeholders replaced.
fn filled(word: &OsStr, folder: &Path, root: &Path) -> OsString {
    let mut bytes = word.as_bytes().to_vec();
    for (placeholder, path) in [("{folder}", folder), ("{root}", root)] {
        let placeholder = placeholder.as_bytes();
        while let Some(at) = bytes.windows(placeholder.len()).position(|part| part == placeholder) {
            bytes.splice(at..at + placeholder.len(), path.as_os_str().as_bytes().iter().copied());
        }
    }
    OsString::from_vec(bytes)
}

fn stream(output: Output, kept: &fs::File) -> std::io::Result<Stdio> {
    Ok(match output {
        Output::Kept | Output::Closed => kept.try_clone()?.into(),
        Output::Full => fs::OpenOptions::new().write(true).open("/dev/full")?.into(),
        Output::BrokenPipe => std::io::pipe()?.1.into(),
    })
}

fn read(mut file: fs::File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What is wrong with an outcome.
fn judged(case: &Case, outcome: &Outcome, json: bool) -> Vec<String> {
    let mut faults = Vec::new();
    match outcome.code {
        None => faults.push("it did not end in time, and was stopped".to_owned()),
        Some(code) if outcome.by_signal => {
            faults.push(format!("it died of signal {}", code - 128));
        }
        Some(code) if !case.codes.contains(&code) => {
            faults.push(format!("its exit code is {code}, not {:?}", case.codes));
        }
        Some(code @ (101 | 134)) => faults.push(format!("its exit code {code} is that of a crash")),
        Some(_) => {}
    }
    for (stream, text) in [("output", &outcome.out), ("error", &outcome.err)] {
        if text.contains("panicked") {
            faults.push(format!("it panicked, as standard {stream} says"));
        }
        for fragment in &case.silent_about {
            if text.contains(fragment) {
                faults.push(format!("standard {stream} has `{fragment}`"));
            }
        }
    }
    let failed = outcome.code.is_some_and(|code| code != 0);
    let said = !outcome.err.trim().is_empty() || !outcome.out.trim().is_empty();
    if failed && case.stderr == Output::Kept && !said {
        faults.push("it failed and said nothing".to_owned());
    }
    for fragment in &case.says {
        if !outcome.err.contains(fragment) {
            faults.push(format!("standard error does not say `{fragment}`"));
        }
    }
    if json {
        let documents = serde_json::Deserializer::from_str(&outcome.out);
        let documents: Result<Vec<serde_json::Value>, _> = documents.into_iter().collect();
        match documents.as_deref() {
            Ok([document]) if document.get("error").is_some_and(|e| e.is_string()) => {}
            _ => {
                faults.push("with `--json` it does not print one document with `error`".to_owned())
            }
        }
    } else {
        for fragment in &case.prints {
            if !outcome.out.contains(fragment) {
                faults.push(format!("standard output does not say `{fragment}`"));
            }
        }
    }
    faults
}
