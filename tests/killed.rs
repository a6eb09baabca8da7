//! Commands that write files, killed at random moments and on disks that fill up: what is left is
//! read as whole only where it is whole, and the next run does the work.
//!
//! `GEMM_TUNE_TESTS=all` kills 50 times; `GEMM_TUNE_HOSTILE=words` runs the commands that have the words.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use gemm_tune::database::Database;
use gemm_tune::export::open_bundle;
use gemm_tune::predict::LearnedModel;

use crate::support::cases::cases;
use crate::support::{nvrtc_or_skip, program};

/// A command that writes `out`.
struct Writer {
    arguments: &'static str,
    /// What is read of `out`: `Ok(false)` for nothing.
    read: fn(&Path) -> Result<bool, String>,
}

const WRITERS: [Writer; 6] = [
    Writer {
        arguments: "tune --device cpu --family naive --shape 48x40x32 --max-configs 8 --db out",
        read: |out| database(out, &[0, 1]),
    },
    Writer { arguments: "learn journals --spaces spaces -o out", read: model },
    Writer {
        arguments: "export --format bundle --db tuned.toml --modelled --only-tuned -o out",
        read: bundle,
    },
    Writer { arguments: "export --format json --db one.toml -o out", read: json },
    Writer { arguments: "db merge one.toml two.toml -o out", read: |out| database(out, &[0, 3]) },
    Writer { arguments: "report --db one.toml -o out", read: page },
];

/// A database holds all of one write's records.
fn database(out: &Path, counts: &[usize]) -> Result<bool, String> {
    let count = Database::load(out).map_err(|error| error.to_string())?.records().len();
    if counts.contains(&count) { Ok(count > 0) } else { Err(format!("{count} records")) }
}

fn model(out: &Path) -> Result<bool, String> {
    let Ok(text) = fs::read_to_string(out) else { return Ok(false) };
    LearnedModel::parse(&text).map(|_| true).map_err(|error| error.to_string())
}

/// Parts of a bundle are refused; that is what checksums are for.
fn bundle(out: &Path) -> Result<bool, String> {
    Ok(open_bundle(|name| fs::read(out.join(name))).is_ok_and(|(_, files)| !files.is_empty()))
}

fn json(out: &Path) -> Result<bool, String> {
    let Ok(text) = fs::read_to_string(out) else { return Ok(false) };
    let document: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| error.to_string())?;
    Ok(document["records"].as_array().is_some_and(|records| records.len() == 2))
}

fn page(out: &Path) -> Result<bool, String> {
    let Ok(text) = fs::read_to_string(out) else { return Ok(false) };
    if text.trim_end().ends_with("</html>") { Ok(true) } else { Err("half a page".to_owned()) }
}

/// A folder with what the writers read, and the NVRTC to use.
struct Place {
    folder: tempfile::TempDir,
    nvrtc: PathBuf,
}

impl Place {
    fn new() -> Option<Self> {
        let nvrtc = std::path::absolute(nvrtc_or_skip()?.path()).unwrap();
        let place = Self { folder: tempfile::tempdir().unwrap(), nvrtc };
        let folder = place.folder.path();
        for name in ["one.toml", "two.toml"] {
            fs::copy(Path::new("tests/databases").join(name), folder.join(name)).unwrap();
        }
        // Journals of a small family and enough problems to learn from.
        fs::create_dir(folder.join("spaces")).unwrap();
        fs::copy("search-spaces/naive.toml", folder.join("spaces/naive.toml")).unwrap();
        fs::create_dir(folder.join("journals")).unwrap();
        for problem in 0..14 {
            fs::write(folder.join(format!("journals/{problem}.jsonl")), journal(problem)).unwrap();
        }
        let tuned = WRITERS[0].arguments.replace("--db out", "--db tuned.toml");
        assert!(place.command(&tuned, &[]).status().unwrap().success());
        Some(place)
    }

    /// A call in the folder, behind the words of another program.
    fn command(&self, arguments: &str, behind: &[&str]) -> Command {
        let own = std::path::absolute(program::path()).unwrap();
        let mut command = match behind {
            [] => Command::new(own),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(own);
                command
            }
        };
        command.args(arguments.split_whitespace()).current_dir(self.folder.path());
        command.env("GEMM_TUNE_NVRTC", &self.nvrtc).env("NO_COLOR", "1");
        command.env("GEMM_TUNE_CACHE", self.folder.path().join("cache"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn remove_out(&self) {
        let _ = fs::remove_file(self.out());
        let _ = fs::remove_dir_all(self.out());
    }
}

/// A journal of one of several problems.
fn journal(problem: u32) -> String {
    let mut lines = include_str!("hostile/naive.jsonl").lines();
    let heading =
        lines.next().unwrap().replace("\"m\":64", &format!("\"m\":{}", 64 + 16 * problem));
    let line = lines.nth(1).unwrap();
    let mut text = heading + "\n";
    for (kernel, threads) in (0..25_u32).map(|kernel| (kernel, [kernel / 5, kernel % 5])) {
        let [x, y] = [8 << threads[0], 1 << threads[1]];
        let time = f64::from(3 + problem) + 200.0 / f64::from(x * y).sqrt();
        text += &line
            .replace("\"kernel\":\"b\"", &format!("\"kernel\":\"{kernel}\""))
            .replace("\"BLOCK_X\":64,\"BLOCK_Y\":8", &format!("\"BLOCK_X\":{x},\"BLOCK_Y\":{y}"))
            .replace("[3.0,5.0,4.0]", &format!("[{time}]"));
        text.push('\n');
    }
    text
}

/// The writers, or those that `GEMM_TUNE_HOSTILE` names.
fn writers() -> impl Iterator<Item = &'static Writer> {
    let wanted = std::env::var("GEMM_TUNE_HOSTILE").unwrap_or_default();
    WRITERS.iter().filter(move |writer| writer.arguments.contains(&wanted))
}

/// Bytes of each file below a path, by name.
fn files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let Ok(entries) = fs::read_dir(path) else {
        return fs::read(path).map(|bytes| (PathBuf::new(), bytes)).into_iter().collect();
    };
    let names = entries.map(|entry| entry.unwrap().file_name());
    names.map(|name| (PathBuf::from(&name), fs::read(path.join(&name)).unwrap())).collect()
}

#[test]
fn what_a_killed_command_leaves_is_whole_or_nothing() {
    let Some(place) = Place::new() else { return };
    let mut random = fastrand::Rng::with_seed(28);
    let moments = cases(10, 50);
    for (number, writer) in writers().enumerate() {
        place.remove_out();
        let began = Instant::now();
        let status = place.command(writer.arguments, &[]).status().unwrap();
        assert!(status.success(), "{}: {status}", writer.arguments);
        let whole_time = began.elapsed();
        assert_eq!((writer.read)(&place.out()), Ok(true), "{}", writer.arguments);
        let own = (number..moments).step_by(WRITERS.len());
        let mut whole = 0;
        for moment in own.clone() {
            // Every other time an older file stands there.
            if (moment / WRITERS.len()).is_multiple_of(2) {
                place.remove_out();
            }
            let mut child = place.command(writer.arguments, &[]).spawn().unwrap();
            std::thread::sleep(whole_time.mul_f64(random.f64() * 1.05));
            child.kill().unwrap();
            child.wait().unwrap();
            match (writer.read)(&place.out()) {
                Ok(found) => whole += usize::from(found),
                Err(fault) => panic!("{} was killed and left half: {fault}", writer.arguments),
            }
        }
        let status = place.command(writer.arguments, &[]).status().unwrap();
        assert!(status.success(), "after kills: {}: {status}", writer.arguments);
        assert_eq!((writer.read)(&place.out()), Ok(true), "after kills: {}", writer.arguments);
        println!(
            "{}: {whole} of {} kills found a whole file; it takes {:.2} s",
            writer.arguments,
            own.count(),
            whole_time.as_secs_f64()
        );
    }
}

/// Mounts a disk of some KiB below `disk` for the command behind it, and copies what it holds in the
/// end to `copy`. `old` is on the disk first, where it fits.
const SMALL_DISK: &str = r#"
    mount -t tmpfs -o size="$1"k tmpfs disk || exit 99
    cp -r old disk/out 2>/dev/null || rm -rf disk/out
    rm -rf copy; shift; "$@"; code=$?
    cp -r disk copy; exit "$code"
"#;

#[test]
fn what_a_full_disk_leaves_is_whole_or_nothing() {
    let mut mount = Command::new("unshare");
    mount.args(["-rm", "mount", "-t", "tmpfs", "t", "/mnt"]).stderr(Stdio::null());
    if !mount.status().is_ok_and(|status| status.success()) {
        println!("skipped: no small disk can be mounted here");
        return;
    }
    let Some(place) = Place::new() else { return };
    let mut random = fastrand::Rng::with_seed(29);
    for folder in ["disk", "copy"] {
        fs::create_dir(place.folder.path().join(folder)).unwrap();
    }
    let (old, copy) = (place.folder.path().join("old"), place.folder.path().join("copy/out"));
    for writer in writers() {
        place.remove_out();
        assert!(place.command(writer.arguments, &[]).status().unwrap().success());
        let bytes: usize = files(&place.out()).values().map(Vec::len).sum();
        let (mut refused, mut kept) = (0, 0);
        for round in 0..cases(3, 10) {
            let _ = fs::remove_file(&old);
            let _ = fs::remove_dir_all(&old);
            let has_old = round % 2 == 1 && place.out().is_file();
            if has_old {
                fs::copy(place.out(), &old).unwrap();
            }
            // From a page of memory to what holds the output.
            let kib = (4 + random.usize(..=bytes / 1024)).to_string();
            let behind = ["unshare", "-rm", "sh", "-c", SMALL_DISK, "sh", &kib];
            let arguments = writer.arguments.replace(" out", " disk/out");
            let mut command = place.command(&arguments, &behind);
            if writer.arguments.starts_with("tune") {
                // Its journal is on the disk too.
                command.env("GEMM_TUNE_CACHE", place.folder.path().join("disk/cache"));
            }
            let code = command.status().unwrap().code();
            let found = (writer.read)(&copy);
            let context = format!("{} on {kib} KiB: {code:?}, {found:?}", writer.arguments);
            assert!(matches!(code, Some(0 | 1)), "{context}");
            assert!(found.is_ok(), "{context}");
            assert!(code != Some(0) || found == Ok(true), "{context}");
            refused += usize::from(code == Some(1));
            kept += usize::from(code == Some(1) && found == Ok(true));
            let left = fs::read_dir(copy.parent().unwrap()).unwrap().flatten();
            let names = left.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let left: Vec<String> = names.filter(|name| name.contains("tmp")).collect();
            assert!(left.is_empty(), "{context}: {left:?} is left");
        }
        println!("{}: {refused} refused, {kept} of them with the older file", writer.arguments);
    }
}
