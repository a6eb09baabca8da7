//! What is read of recordings, and what is said of files that are none.

use std::io::Write as _;

use proptest::prelude::*;

use super::*;
use crate::model::Micros;
use crate::predict::Predictor;
use crate::search::Pick;

/// What is read of a file's bytes.
fn parsed(bytes: &[u8]) -> Result<Recording, RecordingFault> {
    text(bytes).and_then(recording)
}

const CACHE: &str = r#"{
"device_name": "D",
"kernel_name": "k",
"problem_size": [64, 64],
"tune_params_keys": ["X", "F"],
"tune_params": {"X": [1, 2], "F": [0.5, 1.5]},
"objective": "time",
"cache": {
"1,0.5": {"X": 1, "F": 0.5, "time": 2.0, "times": [1.9, 2.1], "timestamp": "then"},
"2,0.5": {"X": 2, "F": 0.5, "time": "CompilationFailedConfig"},
"1,1.5": {"X": 1, "F": 1.5, "__error__": "RuntimeFailedConfig"},
"2,1.5": {"X": 2, "F": 1.5, "time": 1e20}
}
}
"#;

const RESULTS: &str = r#"{
"schema_version": "1.0.0",
"metadata": {"timeunit": "milliseconds"},
"results": [
{"configuration": {"X": 1}, "invalidity": "correct", "times": {"runtimes": []},
 "measurements": [{"name": "power", "value": 9, "unit": "W"}, {"name": "time", "value": 3.5, "unit": "us"}]},
{"configuration": {"X": 2}, "invalidity": "correct", "measurements": [{"name": "time", "value": 0.5, "unit": ""}]},
{"configuration": {"X": 3}, "invalidity": "correctness", "measurements": [{"name": "time", "value": "x", "unit": ""}]}
]}"#;

const JOURNAL: &str = concat!(
    r#"{"gemm_tune_journal":2,"problem":{"shape":{"m":4,"n":4,"k":4},"batch":1,"dtype":"f32","compute":"f32","layout":"nn"},"device":"d","compute_capability":"9.0","driver":"1","regime":{"cache":"rotate","power":"burst"}}"#,
    "\n",
    r#"{"kernel":"a","family":"one","parameters":{"X":1},"outcome":"compile","log":"no"}"#,
    "\n",
    r#"{"kernel":"b","family":"one","parameters":{"X":2},"outcome":"correct","validation":{"reference":"r","max_error":0.0,"bound":1.0},"measurement":{"samples":[3.0,5.0,4.0],"launches_per_sample":1,"regime":{"cache":"rotate","power":"burst"},"timing":"measured","sm_clock_mhz":null},"resources":{"registers":1,"spill_bytes":0,"shared_bytes":0,"occupancy":null}}"#,
    "\n",
    r#"{"kernel":"c","family":"two","parameters":{"Y":tru"#,
);

/// The times of a text's configurations, by family and rank.
fn times(text: &str) -> Vec<Vec<Option<f64>>> {
    let recording = parsed(text.as_bytes()).unwrap_or_else(|fault| panic!("{}", fault.reason));
    let search_spaces = recording.search_spaces().iter().enumerate();
    search_spaces
        .map(|(family, search_space)| {
            let ranks = 0..search_space.space.len();
            ranks.map(|rank| recording.time(Pick { family, rank }).map(|time| time.0)).collect()
        })
        .collect()
}

fn fault(text: &str) -> String {
    let fault = parsed(text.as_bytes()).unwrap_err();
    format!("{:?} {}", fault.at, fault.reason)
}

#[test]
fn caches_results_and_journals_are_read() {
    assert_eq!(times(CACHE), [[Some(2000.0), None, None, None]]);
    assert_eq!(times(RESULTS), [[Some(3.5), Some(500.0), None]]);
    assert_eq!(times(JOURNAL), [[None, Some(4.0)]]);
}

#[test]
fn a_cache_whose_writer_was_interrupted_is_read_up_to_there() {
    let line = CACHE.find("\n\"2,0.5\"").unwrap();
    assert_eq!(times(&CACHE[..line]), [[Some(2000.0)]]);
    assert_eq!(times(&CACHE[..=line]), [[Some(2000.0)]]);
    let begun = &CACHE[..CACHE.find("\"1,0.5\"").unwrap()];
    assert!(fault(begun).contains("no entry has a time"));
    // Within a line nothing can be closed.
    assert!(fault(&CACHE[..line + 20]).starts_with("Some((10, "), "{}", fault(&CACHE[..line + 20]));
}

#[test]
fn what_is_wrong_is_said_and_where() {
    for (text, words) in [
        ("", "Some((1, 0)) EOF"),
        ("{}", "None neither a Kernel Tuner cache"),
        ("[1, 2]", "None neither a Kernel Tuner cache"),
        ("schema = 1", "Some((1, 1)) expected value"),
        (
            &CACHE.replace("\"F\": 0.5, \"time\": 2.0", "\"time\": 2.0"),
            "entry `1,0.5` has no value for `F`",
        ),
        (
            &CACHE.replace("\"F\": 0.5, \"time\": 2.0", "\"F\": [], \"time\": 2.0"),
            "the value of `F` is neither",
        ),
        (&CACHE.replace("\"time\": 2.0", "\"time\": null"), "entry `1,0.5` has no `time`"),
        (&CACHE.replace("\"time\": 2.0", "\"time\": -1"), "entry `1,0.5` has the time -1"),
        (&CACHE.replace("\"time\": 2.0", "\"time\": NaN"), "Some((9, "),
        (&CACHE.replace("\"tune_params_keys\"", "\"keys\""), "missing field `tune_params_keys`"),
        (&CACHE.replace("\"time\": 2.0", "\"__error__\": \"x\""), "no entry has a time"),
        (&RESULTS.replace("\"us\"", "\"ells\""), "entry `results[0]`: `ells` is no unit of time"),
        (
            &RESULTS.replace("3.5", "\"fast\""),
            "entry `results[0]`: the time \"fast\" is not above 0",
        ),
        (
            &RESULTS.replace("\"time\", \"value\": 3.5", "\"t\", \"value\": 3.5"),
            "has no measurement `time`",
        ),
        (&RESULTS.replace("{\"X\": 2}", "{\"Y\": 2}"), "entry 2 has the parameters `Y`"),
    ] {
        assert!(fault(text).contains(words), "{}\n{words}", fault(text));
    }
}

#[test]
fn a_file_is_read_compressed_or_not_and_named_where_it_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("space.json");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(CACHE.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    for bytes in [CACHE.as_bytes(), &packed] {
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(read_recording(&path).unwrap().best(), Micros(2000.0));
    }
    for (bytes, words) in [
        (&packed[..packed.len() / 2], "space.json: cannot be read: "),
        (b"{\"cache\":\n \xff".as_slice(), "space.json:2:2: a byte that is no UTF-8"),
        (b"{\"cache\":\n 3", "space.json:2:2: EOF while parsing an object"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = read_recording(&path).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let error = read_recording(&folder.path().join("none")).unwrap_err().to_string();
    assert!(error.contains("none: cannot be read: "), "{error}");
}

#[test]
fn what_a_search_would_know_is_known_of_journals_of_known_devices() {
    let families = Families::built_in().unwrap();
    let reason = |text: &str| {
        informed::recording(text, &families, &|_| Ok(Predictor::default())).unwrap_err().reason
    };
    assert!(reason(CACHE).starts_with("no journal of this program"), "{}", reason(CACHE));
    assert!(reason(JOURNAL).starts_with("of d, whose properties are not known here"));
    for device in Device::known() {
        let known = JOURNAL.replace(r#""device":"d""#, &format!(r#""device":"{}""#, device.name));
        assert!(reason(&known).starts_with("none of its families comes with this program"));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_recording_or_a_located_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parsed(&bytes);
    }

    #[test]
    fn a_damaged_file_is_a_recording_or_a_located_error(
        which in 0usize..3,
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = [CACHE, RESULTS, JOURNAL][which].as_bytes().to_vec();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        let _ = parsed(&bytes);
    }
}
