//! Names that try to leave their place: in every format they stay words.

use std::process::Command;

use proptest::prelude::*;

use super::*;
use crate::quote::tests::{PARTS, hostile};
use crate::quote::{self, csv_field};

/// An artifact of one shipped winner, on a device of this name.
fn artifact(device: &str) -> Artifact {
    use std::sync::LazyLock;
    static KERNEL: LazyLock<ExportedKernel> = LazyLock::new(|| {
        let shipped = Database::load_existing(Path::new("results/nvidia-h200.toml")).unwrap();
        let families: Vec<Family> = Families::built_in().unwrap().iter().cloned().collect();
        let (templates, device) = (Templates::built_in().unwrap(), Device::h200());
        let source = source_of(&families, &templates, &device);
        let mut drafts = shipped.records().iter().map(|r| KernelDraft::of_record(r, source));
        let draft = drafts.find_map(Result::ok).unwrap();
        let image: Arc<[u8]> = vec![0; 16].into();
        let cubins = [("sm_90".to_owned(), Arc::clone(&image))].into_iter().collect();
        ExportedKernel { draft, ptx: image, cubins }
    });
    let device = Device { name: device.to_owned(), ..Device::h200() };
    Artifact { device, kernels: vec![KERNEL.clone()], tree: None, libraries: None }
}

/// Texts of the C and the Rust export.
fn texts(device: &str) -> [String; 2] {
    let (c, _) = c(&artifact(device), &["sm_90".parse().unwrap()]);
    let (rust, _) = rust(&artifact(device), "sm_90");
    let rust = String::from_utf8(rust["gemm_tuned.rs"].clone()).unwrap();
    assert_eq!(c["gemm_tuned.h"], include_str!("../artifact/gemm_tuned.h"));
    [c["gemm_tuned.c"].clone(), rust]
}

/// A record whose every name is hostile.
fn record(name: &str) -> Record {
    let mut record = records().swap_remove(1);
    let name = name.to_owned();
    record.device.name.clone_from(&name);
    record.device.driver = Some(name.clone());
    record.device.driver_cuda.clone_from(&name);
    record.device.compute_capability.clone_from(&name);
    record.family.clone_from(&name);
    record.problem.pattern.dtype.clone_from(&name);
    record.problem.pattern.layout.clone_from(&name);
    record.problem.pattern.compute.clone_from(&name);
    record.measurement.cache_policy.clone_from(&name);
    record.provenance.nvrtc.clone_from(&name);
    record.parameters.insert(name.clone(), Value::Text(name.clone()));
    if let Some(baseline) = &mut record.baseline {
        baseline.name = name;
    }
    record
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_device_name_stays_in_its_comment(name in hostile()) {
        // A marker in a comment of its own shows which part of each text is the name.
        let quoted = [quote::c_comment(&name), quote::rust_comment(&name)];
        for ((text, plain), quoted) in texts(&name).iter().zip(texts("MARKER")).zip(quoted) {
            let expected = plain.replacen("MARKER", &quoted, 1);
            prop_assert_eq!(text, &expected);
        }
    }

    #[test]
    fn a_manifest_has_the_name(name in hostile()) {
        let files = bundle(&artifact(&name));
        let manifest: Manifest = serde_json::from_slice(&files[MANIFEST]).unwrap();
        prop_assert_eq!(&manifest.device.name, &name);
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        prop_assert!(files.keys().all(|file| file.chars().all(plain)));
        let (files, _) = python(&artifact(&name), &["sm_90".parse().unwrap()]);
        prop_assert_eq!(&files["gemm_tuned.py"], include_str!("../artifact/gemm_tuned.py"));
    }

    #[test]
    fn tables_and_documents_have_a_record_of_hostile_names(name in hostile()) {
        let record = record(&name);
        let table = csv(&[&record, &record]).unwrap();
        prop_assert_eq!(table.lines().count(), 3);
        let mut reader = ::csv::Reader::from_reader(table.as_bytes());
        for row in reader.records() {
            let row = row.unwrap();
            prop_assert_eq!(&row[8], &csv_field(&name));
            for field in &row {
                let formula = field.trim_start().starts_with(['=', '+', '-', '@']);
                prop_assert!(!formula || field.parse::<f64>().is_ok(), "{}", field);
            }
        }
        let document = json(&[&record]).to_string();
        let back: serde_json::Value = serde_json::from_str(&document).unwrap();
        let back: Record = serde_json::from_value(back["records"][0].clone()).unwrap();
        prop_assert_eq!(&back, &record);
        for (file, text) in wisdom(&[&record]).0 {
            prop_assert!(!file.contains(['/', '\\', '\0', '\n']) && !file.starts_with('.'));
            for line in text.lines() {
                serde_json::from_str::<serde_json::Value>(line).unwrap();
            }
        }
    }

    #[test]
    fn evaluated_configurations_have_hostile_names(name in hostile()) {
        let mut journal = journal();
        journal.device.clone_from(&name);
        for entry in &mut journal.entries {
            entry.family.clone_from(&name);
            entry.parameters.0.insert(name.clone(), Value::Text(name.clone()));
        }
        let space = EvaluatedSpace::of(&journal, None, time()).unwrap();
        let cache: serde_json::Value = serde_json::from_str(&kernel_tuner(&space)).unwrap();
        prop_assert_eq!(&cache["device_name"], &serde_json::json!(name));
        let document: serde_json::Value = serde_json::from_str(&t4(&space).to_string()).unwrap();
        prop_assert_eq!(&document["metadata"]["device"], &serde_json::json!(name));
    }
}

/// Values that look like the names of other values are not replaced again.
#[test]
fn a_name_is_no_placeholder() {
    let [source, ..] = texts("@ARRAYS@ @IMAGE_TABLE@ @KERNEL_TABLE@");
    assert!(source.contains("on @ARRAYS@ @IMAGE_TABLE@ @KERNEL_TABLE@, with"), "{source}");
}

/// gcc and Python read what was written with all hostile words in one name.
#[test]
fn gcc_and_python_read_the_exports() {
    let folder = tempfile::tempdir().unwrap();
    let name: String = PARTS.iter().map(|part| format!("x{part}")).collect();
    for (file, bytes) in bundle(&artifact(&name)) {
        std::fs::write(folder.path().join(file), bytes).unwrap();
    }
    for (file, text) in python(&artifact(&name), &["sm_90".parse().unwrap()]).0 {
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    let script = "import ast, json\n\
        ast.parse(open('gemm_tuned.py').read())\n\
        print(ascii(json.load(open('manifest.json'))['device']['name']))";
    let read = Command::new("python3").args(["-I", "-c", script]).current_dir(&folder).output();
    let read = read.unwrap();
    let said = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success() && read.stdout.len() > name.len(), "{said}");
    let warned = ["-std=gnu99", "-trigraphs", "-Wall", "-Werror", "-fsyntax-only", "gemm_tuned.c"];
    let compiled = Command::new("gcc").args(warned).current_dir(&folder).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}
