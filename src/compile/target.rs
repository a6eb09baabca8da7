//! Compilation targets, by the names that compilers use. [`super::nvrtc`] reports which of them an
//! NVRTC supports.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::ComputeCapability;

/// A GPU architecture: `sm_90`, or `sm_90a` with its architecture-specific instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Architecture {
    /// The compute capability without its dot: 90 for 9.0.
    pub number: u32,
    /// The instruction set that code may use.
    pub features: Features,
}

/// Instruction set of an architecture, by the suffix of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Features {
    /// No suffix: portable to later revisions.
    #[default]
    Portable,
    /// `f`: family-specific instructions too.
    Family,
    /// `a`: architecture-specific instructions too, such as `wgmma` of `sm_90a`.
    Specific,
}

impl Architecture {
    /// The name without `sm_` or `compute_`: `90a`.
    fn suffix(self) -> String {
        let features = match self.features {
            Features::Portable => "",
            Features::Family => "f",
            Features::Specific => "a",
        };
        format!("{}{features}", self.number)
    }
}

impl From<ComputeCapability> for Architecture {
    fn from(capability: ComputeCapability) -> Self {
        Self { number: capability.major * 10 + capability.minor, features: Features::Portable }
    }
}

impl From<Architecture> for ComputeCapability {
    fn from(architecture: Architecture) -> Self {
        Self { major: architecture.number / 10, minor: architecture.number % 10 }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.suffix())
    }
}

/// Error: a text is not an architecture.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not an architecture: write `sm_` and a number, as in `sm_90` or `sm_90a`")]
pub struct ArchitectureError(String);

impl FromStr for Architecture {
    type Err = ArchitectureError;

    fn from_str(text: &str) -> Result<Self, ArchitectureError> {
        let malformed = || ArchitectureError(text.to_owned());
        let name = text.strip_prefix("sm_").ok_or_else(malformed)?;
        let digits = name.trim_end_matches(['a', 'f']);
        let features = match &name[digits.len()..] {
            "" => Features::Portable,
            "f" => Features::Family,
            "a" => Features::Specific,
            _ => return Err(malformed()),
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(malformed());
        }
        Ok(Self { number: digits.parse().map_err(|_| malformed())?, features })
    }
}

/// Beginnings of PTX instructions that need the instruction set of one architecture (PTX ISA, target notes). Code with
/// them runs on no other one, so that other sources are compiled without.
const SPECIFIC_INSTRUCTIONS: [&str; 2] = ["wgmma.", "setmaxnreg."];

/// Output format and architecture of a compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CompileTarget {
    /// Machine code, which every driver loads without a PTX compiler.
    Cubin(Architecture),
    /// PTX text, for reading and for the cpu device.
    Ptx(Architecture),
    /// PTX text of a source that is also assembled, for the figures in the log. Takes as long as a
    /// cubin: NVRTC gives both from one compile.
    AssembledPtx(Architecture),
}

impl CompileTarget {
    /// The architecture.
    pub fn architecture(self) -> Architecture {
        match self {
            Self::Cubin(architecture)
            | Self::Ptx(architecture)
            | Self::AssembledPtx(architecture) => architecture,
        }
    }

    /// The target for a source: with the architecture's own instructions, where the source has any of them.
    #[must_use]
    pub fn for_source(self, source: &str) -> Self {
        if !SPECIFIC_INSTRUCTIONS.iter().any(|instruction| source.contains(instruction)) {
            return self;
        }
        let specific = |own: Architecture| Architecture { features: Features::Specific, ..own };
        match self {
            Self::Cubin(own) => Self::Cubin(specific(own)),
            Self::Ptx(own) => Self::Ptx(specific(own)),
            Self::AssembledPtx(own) => Self::AssembledPtx(specific(own)),
        }
    }

    /// The NVRTC option: `--gpu-architecture=sm_90`.
    pub fn option(self) -> String {
        match self {
            Self::Cubin(architecture) | Self::AssembledPtx(architecture) => {
                format!("--gpu-architecture=sm_{}", architecture.suffix())
            }
            Self::Ptx(architecture) => {
                format!("--gpu-architecture=compute_{}", architecture.suffix())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_survive_their_names() {
        for name in ["sm_75", "sm_90", "sm_90a", "sm_100f", "sm_120"] {
            assert_eq!(name.parse::<Architecture>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn a_source_with_instructions_of_one_architecture_is_compiled_for_it() {
        let target = CompileTarget::Ptx("sm_90".parse().unwrap());
        assert_eq!(target.for_source("asm(\"mma.sync\");"), target);
        let specific = target.for_source("asm(\"wgmma.fence.sync.aligned;\");");
        assert_eq!(specific.option(), "--gpu-architecture=compute_90a");
    }

    #[test]
    fn other_texts_are_refused_by_name() {
        for name in ["", "90", "sm_", "sm_a", "sm_90b", "sm_90aa", "sm_+9", "compute_90", "sm_9_0"]
        {
            let error = name.parse::<Architecture>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{name}`")), "{error}");
        }
    }

    #[test]
    fn a_target_asks_for_a_real_or_a_virtual_architecture() {
        let architecture = ComputeCapability { major: 9, minor: 0 }.into();
        assert_eq!(CompileTarget::Cubin(architecture).option(), "--gpu-architecture=sm_90");
        assert_eq!(CompileTarget::AssembledPtx(architecture).option(), "--gpu-architecture=sm_90");
        assert_eq!(CompileTarget::Ptx(architecture).option(), "--gpu-architecture=compute_90");
    }
}
