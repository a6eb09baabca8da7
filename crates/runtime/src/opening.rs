//! Opens a bundle: a folder with kernels that programs run without gemm-tune. It holds source, machine code and PTX of
//! each kernel, a manifest that describes the launches, and `SHA256SUMS` of all files, as `sha256sum -c` reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::manifest::{BundledFile, BundledKernel, Manifest, SCHEMA};
use crate::model::{Argument, ProblemPattern, STANDARD_ARGUMENTS};

/// Name of the manifest file.
pub const MANIFEST: &str = "manifest.json";

/// Name of the file with the checksums of all others.
pub const CHECKSUMS: &str = "SHA256SUMS";

/// Errors of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BundleError {
    /// The manifest is not valid.
    #[error("`{MANIFEST}` is not a valid manifest: {0}; export the bundle again")]
    Manifest(String),
    /// An earlier version wrote it.
    #[error(
        "`{MANIFEST}` has schema {0}, of an older gemm-tune: make the bundle again with `gemm-tune export --format bundle`"
    )]
    Older(u64),
    /// A later version wrote it.
    #[error("`{MANIFEST}` has schema {0} and was written by a newer gemm-tune: update gemm-tune")]
    Newer(u64),
    /// A line of the checksums is not valid.
    #[error(
        "`{CHECKSUMS}`, line {line}: `{text}` is not a checksum and a name; export the bundle again"
    )]
    Checksums {
        /// The line, counted from 1.
        line: usize,
        /// Its text.
        text: String,
    },
    /// A name that is not a file name in the folder.
    #[error("{by} names `{name}`, which is not a plain file name: the bundle was tampered with")]
    Name {
        /// The file that contains the name.
        by: &'static str,
        /// The name.
        name: String,
    },
    /// A file without a checksum.
    #[error("`{CHECKSUMS}` does not list `{0}`: the bundle was changed; export it again")]
    Unlisted(String),
    /// A file is missing or unreadable.
    #[error("cannot read `{file}`: {message}; export the bundle again")]
    Missing {
        /// The file.
        file: String,
        /// Error of the operating system.
        message: String,
    },
    /// A file was changed.
    #[error("`{file}` was changed after the export: {what}; export the bundle again")]
    Damaged {
        /// The file.
        file: String,
        /// The difference in length or checksum.
        what: String,
    },
}

/// Opens a bundle and checks that it is complete. `read` returns the bytes of a file of its folder.
/// Returns the manifest and all files.
///
/// # Errors
/// The first [`BundleError`].
pub fn open_bundle(
    read: impl Fn(&str) -> io::Result<Vec<u8>>,
) -> Result<(Manifest, BTreeMap<String, Vec<u8>>), BundleError> {
    let read = |file: &str| {
        read(file).map_err(|error| BundleError::Missing {
            file: file.to_owned(),
            message: error.to_string(),
        })
    };
    let checksums = checksums(&String::from_utf8_lossy(&read(CHECKSUMS)?))?;
    let mut files = BTreeMap::new();
    for (name, expected) in &checksums {
        let bytes = read(name)?;
        let found = sha256(&bytes);
        if found != *expected {
            let what = format!("its SHA-256 checksum is {found}, not {expected}");
            return Err(BundleError::Damaged { file: name.clone(), what });
        }
        files.insert(name.clone(), bytes);
    }
    let text = files.get(MANIFEST).ok_or_else(|| BundleError::Unlisted(MANIFEST.to_owned()))?;
    let manifest = parse(text)?;
    if let Some(tree) =
        manifest.dispatch.as_ref().filter(|tree| tree.last() >= manifest.kernels.len())
    {
        let what = format!("`dispatch` names kernel {}, which does not exist", tree.last());
        return Err(BundleError::Manifest(what));
    }
    let mut names = BTreeSet::new();
    for kernel in &manifest.kernels {
        if !names.insert(&kernel.name) {
            let what = format!("two kernels are named `{}`", kernel.name);
            return Err(BundleError::Manifest(what));
        }
        check_launches(kernel)?;
        for described in kernel.files.all() {
            check_file(described, &files)?;
        }
    }
    Ok((manifest, files))
}

/// Parses names with their checksums.
fn checksums(text: &str) -> Result<Vec<(String, String)>, BundleError> {
    let line = |(number, line): (usize, &str)| {
        let malformed = || BundleError::Checksums { line: number + 1, text: line.to_owned() };
        let (sum, name) = line.split_once("  ").ok_or_else(malformed)?;
        if sum.len() != 64 || !sum.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(malformed());
        }
        plain(CHECKSUMS, name)?;
        Ok((name.to_owned(), sum.to_ascii_lowercase()))
    };
    text.lines().enumerate().map(line).collect()
}

fn parse(bytes: &[u8]) -> Result<Manifest, BundleError> {
    let no_manifest = |error: &dyn std::fmt::Display| BundleError::Manifest(error.to_string());
    // Checks the schema first: a newer manifest may have unknown fields.
    let any: serde_json::Value =
        serde_json::from_slice(bytes).map_err(|error| no_manifest(&error))?;
    match any["schema"].as_u64() {
        Some(SCHEMA) => {}
        Some(newer) if newer > SCHEMA => return Err(BundleError::Newer(newer)),
        Some(older) if older > 0 => return Err(BundleError::Older(older)),
        _ => return Err(no_manifest(&"`schema` is missing or not a number from 1")),
    }
    serde_json::from_value(any).map_err(|error| no_manifest(&error))
}

/// Checks that every argument and every operand of a tensor map is there.
fn check_launches(kernel: &BundledKernel) -> Result<(), BundleError> {
    let refuse =
        |what: String| Err(BundleError::Manifest(format!("kernel `{}` {what}", kernel.name)));
    if kernel.launches.is_empty() {
        return refuse("has no launch".to_owned());
    }
    if !kernel.expectation.is_sound() {
        return refuse("has an expectation with a zero".to_owned());
    }
    let pattern = match ProblemPattern::try_from(&kernel.problem.pattern) {
        Ok(pattern) => pattern,
        Err(unknown) => return refuse(format!("is for a problem of another version: {unknown}")),
    };
    let is_workspace = |name: &String| kernel.workspaces.iter().any(|space| space.name == *name);
    for argument in kernel.launches.iter().flat_map(|launch| &launch.arguments) {
        let is_map = || kernel.tensor_maps.iter().any(|map| map.name == *argument);
        let is_known = match Argument::from(argument.clone()) {
            Argument::Named(_) => is_workspace(argument) || is_map(),
            Argument::Epilogue(own) => pattern.epilogue.operands().any(|known| known == own),
            standard => STANDARD_ARGUMENTS.contains(&standard),
        };
        if !is_known {
            return refuse(format!(
                "takes `{argument}`, which is no standard argument, operand of its epilogue, workspace or tensor map"
            ));
        }
    }
    for packs in kernel.launches.iter().filter_map(|launch| launch.packs.as_ref()) {
        let is_factor = |operand: &String| operand == "A" || operand == "B";
        if packs.operands.is_empty() || !packs.operands.iter().all(is_factor) {
            return refuse(format!("packs {:?}, which are not A, B or both", packs.operands));
        }
        if !is_workspace(&packs.workspace) {
            return refuse(format!("packs operands into `{}`, no workspace", packs.workspace));
        }
    }
    for map in &kernel.tensor_maps {
        if let Err(unknown) = map.bound() {
            return refuse(format!(
                "has a tensor map `{}` of another version: {unknown}",
                map.name
            ));
        }
        if !["A", "B", "C"].contains(&map.operand.as_str()) && !is_workspace(&map.operand) {
            return refuse(format!(
                "has a tensor map of `{}`, which is neither an operand nor a workspace",
                map.operand
            ));
        }
    }
    Ok(())
}

fn check_file(
    described: &BundledFile,
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<(), BundleError> {
    let BundledFile { file, bytes, sha256: expected } = described;
    plain(MANIFEST, file)?;
    let found = files.get(file).ok_or_else(|| BundleError::Unlisted(file.clone()))?;
    let damaged = |what: String| Err(BundleError::Damaged { file: file.clone(), what });
    if found.len() as u64 != *bytes {
        return damaged(format!("it has {} bytes, `{MANIFEST}` says {bytes}", found.len()));
    }
    if sha256(found) != *expected {
        return damaged(format!("its checksum differs from the one in `{MANIFEST}`"));
    }
    Ok(())
}

/// Refuses a name that is not a file name in the folder.
fn plain(by: &'static str, name: &str) -> Result<(), BundleError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(allowed) {
        return Err(BundleError::Name { by, name: name.to_owned() });
    }
    Ok(())
}

/// SHA-256 checksum in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}
