//! A family whose kernels all pack A: `pipelined` with one value of its parameter that says what they pack.

const PIPELINED: &str = include_str!("../../search-spaces/pipelined.toml");

/// The lines that say what kernels pack, and those that say that all pack A.
const LINES: [(&str, &str); 2] = [
    ("\nPACK = [\"none\", \"a\", \"b\", \"both\"]\n", "\nPACK = [\"a\"]\n"),
    ("\nPACK = \"none\"\n", "\nPACK = \"a\"\n"),
];

/// The text of its family file, for a folder of search spaces.
pub(crate) fn packing_family() -> String {
    LINES.iter().fold(PIPELINED.to_owned(), |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "lines `{}` of `pipelined`", from.trim());
        text.replacen(from, to, 1)
    })
}
