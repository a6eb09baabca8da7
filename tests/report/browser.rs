//! A headless Chromium, for pages.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::without::skip;

/// A Chromium; `None` for a test that may be skipped for want of one.
pub(super) fn chromium_or_skip() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("GEMM_TUNE_CHROMIUM") {
        return Some(named.into());
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| program.is_file());
    if found.is_none() {
        skip("chromium", "no Chromium is on the PATH, so no page was opened");
    }
    found
}

/// A document after its scripts ran in a window of a width, and what the browser's console said.
pub(super) fn browse(chromium: &Path, page: &Path, width: u32) -> (String, Vec<String>) {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--disable-background-networking", "--enable-logging=stderr"])
        .args(["--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("--window-size={width},1000"))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    let console = complaints.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned);
    (String::from_utf8_lossy(&output.stdout).into_owned(), console.collect())
}

/// What the text between two marks is.
pub(super) fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("no `{from}`"));
    rest.split_once(to).unwrap_or_else(|| panic!("no `{to}`")).0
}
