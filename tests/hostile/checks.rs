//! The harness's own test: each promise that is broken is noticed.

use super::case::{Case, case};
use super::runner::failures;

/// A shell call and what the harness says of it; nothing for a call that keeps its promises.
fn expect(row: Case, fault: &str) {
    let found = failures(&[&row], false).concat();
    assert_eq!(found.is_empty(), fault.is_empty(), "{}: {found}", row.name);
    assert!(found.contains(fault), "{}: `{fault}` is not in {found}", row.name);
}

fn shell(script: &str) -> Case {
    case(script).program("sh").run("-c").argument(script)
}

#[test]
fn the_harness_notices_each_broken_promise() {
    let told = || shell("echo wrong `value` >&2; exit 2").fails(2);
    expect(told().says(["wrong"]), "");
    expect(told().says(["right"]), "does not say `right`");
    expect(told().never_says("wrong"), "has `wrong`");
    expect(shell("echo wrong >&2; exit 2").fails(1), "exit code is 2, not [1]");
    expect(shell("exit 2").fails(2), "said nothing");
    expect(shell("echo thread panicked >&2; exit 101").fails(101), "it panicked");
    expect(shell("echo no >&2; exit 101").fails(101), "that of a crash");
    expect(shell("kill -SEGV $$").fails(139), "died of signal 11");
    expect(shell("sleep 60").within(0.3), "did not end in time");
    expect(shell("echo out").prints(["other"]), "standard output does not say `other`");
    expect(shell("rm kept").file("kept", "text"), "`kept` was changed");
    expect(shell("echo x >kept").file("kept", "text"), "`kept` was changed");
    expect(shell("echo x >kept").file("kept", "text").changes("kept"), "");
    expect(shell("echo x >link").file("kept", "text").link("link", "kept"), "`link` was changed");
    expect(shell("rm link; cp kept link").file("kept", "t").link("link", "kept"), "`link` was");
    expect(shell("touch new").absent("new"), "`new` was made");
    expect(shell("mkdir -p a; touch a/.tmpAbc"), "temporary file");
    expect(shell("true").after(|_| Err("  not so".to_owned())), "not so");
    expect(shell("echo $VALUE; cat").env("VALUE", "in {folder}").stdin("in"), "");
    // A second call with `--json` prints one document.
    let json = |printed: &str| {
        let mut row = shell(&format!("echo wrong >&2; echo '{printed}'; exit 1")).fails(1);
        row.json = true;
        row
    };
    expect(json("{ \"error\": \"wrong\" }"), "");
    expect(json("{ \"error\": \"wrong\" } {}"), "one document");
    expect(json("error: wrong"), "one document");
    // A closed output, a limit, and a signal.
    expect(
        shell("echo x || exit 1").stdout(super::case::Output::Full).fails(1).never_says("y"),
        "",
    );
    expect(
        shell("exec head -c 9000 /dev/zero >big").ulimit("-f 1").ends_with(&[1, 153]),
        "signal 25",
    );
    let after = std::time::Duration::from_millis(300);
    let signal = rustix::process::Signal::TERM;
    expect(
        shell("trap 'echo bye >&2; exit 143' TERM; sleep 1 & wait")
            .signal(after, signal)
            .fails(143),
        "",
    );
    expect(shell("trap '' TERM; sleep 9 & wait; wait").signal(after, signal).fails(143), "in time");
}
