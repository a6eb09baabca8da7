//! How the C source is built: files for CMake and pkg-config beside it, and the commands of `cc`.

use super::source::fill;

/// The header, which is the same for every artifact.
pub(super) const HEADER: &str = include_str!("artifact/gemm_tuned.h");

/// File name of the static library.
pub const STATIC_LIBRARY: &str = "libgemm_tuned.a";

/// The object file of which both libraries are made.
const OBJECT: &str = "gemm_tuned.o";

/// The program with its arguments that builds [`LIBRARY`](super::LIBRARY) alone.
pub const SHARED_LIBRARY_COMMAND: (&str, &[&str]) =
    ("cc", &["-O2", "-shared", "-fPIC", "gemm_tuned.c", "-o", super::LIBRARY, "-ldl"]);

/// Programs with their arguments that build [`LIBRARY`](super::LIBRARY) and [`STATIC_LIBRARY`] in the folder of the
/// files, in this order.
pub const LIBRARY_COMMANDS: [(&str, &[&str]); 4] = [
    ("cc", &["-O2", "-fPIC", "-c", "gemm_tuned.c", "-o", OBJECT]),
    ("cc", &["-shared", OBJECT, "-o", super::LIBRARY, "-ldl"]),
    ("ar", &["rcs", STATIC_LIBRARY, OBJECT]),
    ("rm", &[OBJECT]),
];

/// The version of the interface, which the header defines.
fn interface_version() -> &'static str {
    let defined = HEADER.lines().find_map(|line| line.strip_prefix("#define GEMM_TUNED_VERSION "));
    defined.unwrap_or("0")
}

/// The files of builders by name.
pub(super) fn build_files() -> [(String, String); 2] {
    let values = [("@INTERFACE@", interface_version())];
    let filled = |name: &str, template: &str| (name.to_owned(), fill(template, &values));
    [
        filled("CMakeLists.txt", include_str!("artifact/CMakeLists.txt")),
        filled("gemm_tuned.pc", include_str!("artifact/gemm_tuned.pc")),
    ]
}
