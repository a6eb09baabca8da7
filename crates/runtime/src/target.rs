//! Which devices the code of a kernel runs on: machine code of its architecture, else PTX of an earlier one.

use crate::manifest::BundledKernel;
use crate::model::ComputeCapability;

/// The beginning of the line of PTX that names its architecture.
const DIRECTIVE: &str = ".target sm_";

/// The architecture that PTX was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PtxTarget {
    /// The compute capability without its dot.
    number: u32,
    /// `a`, `f` or nothing.
    features: String,
}

impl PtxTarget {
    /// Reads the target of PTX; `None` for text without one.
    pub(crate) fn of(ptx: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(ptx);
        let name = text.lines().find_map(|line| line.trim_start().strip_prefix(DIRECTIVE))?;
        let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
        let features = name.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = name[..name.len() - features.len()].parse().ok()?;
        Some(Self { number, features: features.to_owned() })
    }

    /// Whether a driver can compile it for a device: one of this architecture or a later one; of this architecture only
    /// for `a`, of its family for `f` (PTX ISA, `.target`).
    fn serves(&self, capability: ComputeCapability) -> bool {
        let own = capability.major * 10 + capability.minor;
        match self.features.as_str() {
            "" => own >= self.number,
            "f" => own >= self.number && own / 10 == self.number / 10,
            _ => own == self.number,
        }
    }

    /// For messages: `PTX of sm_80`.
    pub(crate) fn described(&self) -> String {
        format!("PTX of sm_{}{}", self.number, self.features)
    }
}

/// Whether the code of a kernel runs on a device. PTX without a target is left to the driver.
pub(crate) fn runs_on(
    kernel: &BundledKernel,
    ptx: Option<&PtxTarget>,
    capability: ComputeCapability,
) -> bool {
    kernel.files.cubins.contains_key(&capability.architecture())
        || ptx.is_none_or(|target| target.serves(capability))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_serves_its_architecture_and_later_ones() {
        let capability = |text: &str| ComputeCapability::parse(text).unwrap();
        for (line, serves, fails) in [
            (".target sm_80", &["8.0", "8.9", "9.0", "12.0"][..], &["7.5"][..]),
            (".target sm_90a, debug", &["9.0"], &["8.9", "10.0"]),
            (".target sm_100f", &["10.0", "10.3"], &["9.0", "12.0"]),
        ] {
            let text = format!("// PTX\n.version 8.7\n{line}\n.address_size 64\n");
            let target = PtxTarget::of(text.as_bytes()).unwrap();
            assert!(serves.iter().all(|text| target.serves(capability(text))), "{line}");
            assert!(!fails.iter().any(|text| target.serves(capability(text))), "{line}");
        }
        for text in ["", "text", ".target sm_", ".target sm_x"] {
            assert_eq!(PtxTarget::of(text.as_bytes()), None, "{text}");
        }
    }
}
