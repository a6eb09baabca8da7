//! Sources of kernels, compressed together. Each distinct source is stored once, and the page's script unpacks all of
//! them when the first is opened.

use std::collections::BTreeSet;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::content::ProblemReport;

/// Distinct sources in the order of their texts, which puts kernels of one family next to each other: 225 sources of
/// 4.7 MB then take a third less than in the order of the problems.
pub(super) struct PackedSources<'a>(Vec<&'a str>);

impl<'a> PackedSources<'a> {
    /// Collects the sources of all problems.
    pub(super) fn of(cases: &'a [ProblemReport<'_>]) -> Self {
        let distinct: BTreeSet<&str> =
            cases.iter().filter_map(|case| case.source.as_deref()).collect();
        Self(distinct.into_iter().collect())
    }

    /// The number of a source.
    pub(super) fn number(&self, source: &str) -> Option<usize> {
        self.0.binary_search(&source).ok()
    }

    /// A JSON array of the sources as a zlib stream in base 64; `None` without sources.
    pub(super) fn packed(&self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let text = serde_json::to_string(&self.0).ok()?;
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text.as_bytes()).ok()?;
        Some(STANDARD.encode(encoder.finish().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn equal_sources_are_stored_once_and_are_read_back() {
        let case = |source: &str| ProblemReport {
            source: Some(source.to_owned()),
            ..ProblemReport::default()
        };
        let cases = [case("b </script>"), case("a"), ProblemReport::default(), case("a")];
        let sources = PackedSources::of(&cases);
        assert_eq!(sources.number("a"), Some(0));
        assert_eq!(sources.number("b </script>"), Some(1));
        let packed = STANDARD.decode(sources.packed().unwrap()).unwrap();
        let mut text = String::new();
        flate2::read::ZlibDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
        assert_eq!(text, r#"["a","b </script>"]"#);
        assert_eq!(PackedSources::of(&cases[2..3]).packed(), None);
    }
}
