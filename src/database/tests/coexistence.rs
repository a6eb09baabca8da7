//! Competing records: by time, by key, and with concurrent writers.

use std::thread;

use super::*;
use crate::database::{ReplacePolicy, StoreOutcome, record_winner};
use crate::model::ComputeCapability;

#[test]
fn a_record_gives_way_to_a_faster_one_or_to_any_on_request() {
    for (new_us, replace, expected, left_us) in [
        (150.0, ReplacePolicy::IfFaster, StoreOutcome::Kept { stored: Micros(100.0) }, 100.0),
        (100.0, ReplacePolicy::IfFaster, StoreOutcome::Kept { stored: Micros(100.0) }, 100.0),
        (f64::NAN, ReplacePolicy::IfFaster, StoreOutcome::Kept { stored: Micros(100.0) }, 100.0),
        (99.999, ReplacePolicy::IfFaster, StoreOutcome::Replaced { before: Micros(100.0) }, 99.999),
        (150.0, ReplacePolicy::Always, StoreOutcome::Replaced { before: Micros(100.0) }, 150.0),
    ] {
        let (_folder, path) = file_with("");
        record_winner(&path, &record(problem(8, 8, 8), 100.0), ReplacePolicy::IfFaster).unwrap();
        let before = read(&path);
        let recorded = record_winner(&path, &record(problem(8, 8, 8), new_us), replace).unwrap();
        assert_eq!(recorded, expected, "{new_us} us, {replace:?}");
        assert_eq!(load(&path)[0].median(), Micros(left_us), "{new_us} us, {replace:?}");
        let kept = matches!(recorded, StoreOutcome::Kept { .. });
        assert_eq!(read(&path) == before, kept, "{new_us} us, {replace:?}");
    }
}

#[test]
fn a_deterministic_kernel_replaces_a_non_deterministic_one() {
    let of = |median_us: f64, deterministic: bool| {
        let mut found = found(problem(8, 8, 8), median_us);
        found.launch.nondeterministic = !deterministic;
        found.record()
    };
    let replaced = StoreOutcome::Replaced { before: Micros(100.0) };
    let kept = StoreOutcome::Kept { stored: Micros(100.0) };
    for (stored, new, new_us, expected) in [
        (false, true, 150.0, replaced),
        (true, false, 150.0, kept),
        (true, false, 90.0, replaced),
        (false, false, 150.0, kept),
        (false, false, 90.0, replaced),
    ] {
        let (_folder, path) = file_with("");
        record_winner(&path, &of(100.0, stored), ReplacePolicy::IfFaster).unwrap();
        assert_eq!(read(&path).contains("\ndeterministic = false\n"), !stored);
        assert!(!read(&path).contains("deterministic = true"), "what is usual is not written");
        let recorded = record_winner(&path, &of(new_us, new), ReplacePolicy::IfFaster).unwrap();
        assert_eq!(recorded, expected, "{stored} {new} {new_us}");
        let left = &load(&path)[0];
        assert_eq!(left.deterministic, if expected == kept { stored } else { new });
        assert_eq!(left.launch_plan().nondeterministic, !left.deterministic);
    }
}

#[test]
fn records_compete_by_problem_device_and_regime() {
    let (_folder, path) = file_with("");
    let base = record(problem(8, 8, 8), 100.0);
    record_winner(&path, &base, ReplacePolicy::IfFaster).unwrap();
    type Change = fn(&mut Record);
    let changes: [(Change, StoreOutcome); 7] = [
        (|record| record.measurement.cache_policy = "hot".to_owned(), StoreOutcome::Added),
        (|record| record.measurement.power = "sustained".to_owned(), StoreOutcome::Added),
        (|record| record.problem.batch = 2, StoreOutcome::Added),
        (|record| record.problem.pattern.dtype = "f8".to_owned(), StoreOutcome::Added),
        (|record| record.device.compute_capability = "9.9".to_owned(), StoreOutcome::Added),
        (|record| record.device.name = "NVIDIA H100".to_owned(), StoreOutcome::Added),
        (|record| record.device.driver = None, StoreOutcome::Replaced { before: Micros(100.0) }),
    ];
    for (change, expected) in changes {
        let mut other = record(problem(8, 8, 8), 50.0);
        change(&mut other);
        assert_eq!(record_winner(&path, &other, ReplacePolicy::IfFaster).unwrap(), expected);
    }
    assert_eq!(load(&path).len(), 7);
}

#[test]
fn a_record_of_an_unknown_policy_is_kept_and_answers_nothing() {
    let (_folder, path) = file_with("");
    let mut lukewarm = record(problem(8, 8, 8), 10.0);
    lukewarm.measurement.cache_policy = "lukewarm".to_owned();
    record_winner(&path, &lukewarm, ReplacePolicy::IfFaster).unwrap();
    let find = || {
        let database = Database::load(&path).unwrap();
        database.find(&problem(8, 8, 8), &device(), Regime::default()).cloned()
    };
    assert_eq!(find(), None);

    let rotate = record(problem(8, 8, 8), 20.0);
    assert_eq!(
        record_winner(&path, &rotate, ReplacePolicy::IfFaster).unwrap(),
        StoreOutcome::Added
    );
    assert_eq!(find(), Some(rotate.clone()));
    assert_eq!(load(&path), [lukewarm, rotate]);
}

#[test]
fn a_question_is_answered_for_its_problem_and_device_only() {
    let (_folder, path) = file_with("");
    record_winner(&path, &record(problem(8, 8, 8), 10.0), ReplacePolicy::IfFaster).unwrap();
    let database = Database::load(&path).unwrap();
    let capability = ComputeCapability { major: 10, minor: 0 };
    for (asked, device, found) in [
        (problem(8, 8, 8), device(), true),
        (problem(8, 8, 8), Device { driver: "600.1".to_owned(), ..device() }, true),
        (problem(8, 8, 9), device(), false),
        (problem(8, 8, 8), Device { name: "NVIDIA B200".to_owned(), ..device() }, false),
        (problem(8, 8, 8), Device { compute_capability: capability, ..device() }, false),
    ] {
        let answer = database.find(&asked, &device, Regime::default());
        assert_eq!(answer.is_some(), found, "{asked} on {device:?}");
    }
}

#[test]
fn the_faster_of_two_records_with_one_key_is_found() {
    let (_folder, path) = file_with("");
    record_winner(&path, &record(problem(8, 8, 8), 30.0), ReplacePolicy::IfFaster).unwrap();
    let merged = format!("{0}\n{1}", read(&path), {
        let slow = read(&path).replace("median_us = 30.0", "median_us = 20.0");
        slow[slow.find("[[record]]").unwrap()..].to_owned()
    });
    fs::write(&path, merged).unwrap();
    let database = Database::load(&path).unwrap();
    let answer = database.find(&problem(8, 8, 8), &device(), Regime::default()).unwrap();
    assert_eq!(answer.median(), Micros(20.0));
    assert_eq!(
        record_winner(&path, &record(problem(8, 8, 8), 25.0), ReplacePolicy::IfFaster).unwrap(),
        StoreOutcome::Kept { stored: Micros(20.0) }
    );
}

#[test]
fn records_stand_sorted_and_old_ones_are_not_moved() {
    let (_folder, path) = file_with("");
    let shapes = [(4, 1, 1), (2, 9, 9), (2, 1, 9), (8, 1, 1), (1, 1, 1)];
    for (m, n, k) in shapes {
        record_winner(&path, &record(problem(m, n, k), 1.0), ReplacePolicy::IfFaster).unwrap();
    }
    let order: Vec<_> = load(&path).iter().map(|r| (r.problem.m, r.problem.n)).collect();
    assert_eq!(order, [(1, 1), (2, 1), (2, 9), (4, 1), (8, 1)]);
    // Text and meaning agree: sections stand under their own record.
    let text = read(&path);
    assert!(text.find("m = 2, n = 1").unwrap() < text.find("m = 2, n = 9").unwrap());
}

#[test]
fn eight_writers_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep").join("er").join("gpu.toml");
    thread::scope(|scope| {
        for writer in 0..8 {
            let path = &path;
            scope.spawn(move || {
                for k in 0..10 {
                    let record = record(problem(writer + 1, 1, k + 1), 1.0);
                    let recorded = record_winner(path, &record, ReplacePolicy::IfFaster).unwrap();
                    assert_eq!(recorded, StoreOutcome::Added);
                }
            });
        }
    });
    assert_eq!(load(&path).len(), 80);
    let names: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 2, "only the database and its lock: {names:?}");
}

#[cfg(unix)]
#[test]
fn a_file_keeps_its_permissions_and_a_link_stays_a_link() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let (folder, path) = file_with("");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path().join("link.toml");
    symlink(&path, &link).unwrap();
    record_winner(&link, &record(problem(8, 8, 8), 1.0), ReplacePolicy::IfFaster).unwrap();
    assert!(link.is_symlink());
    assert_eq!(load(&path).len(), 1);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}
