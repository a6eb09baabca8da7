//! The packages that this program installs: an exact version and checksum for each tool, CUDA major
//! version and platform. A package with another content is not unpacked, wherever pip found it.

use super::provide::Tool;

/// A package of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Release {
    pub(super) tool: Tool,
    /// CUDA major version.
    pub(super) major: u32,
    /// `x86_64` or `aarch64`, both for Linux.
    pub(super) platform: &'static str,
    /// Its name. Up to CUDA 12 the name has the major version; the disassembler has no package
    /// before 13.
    pub(super) package: &'static str,
    pub(super) version: &'static str,
    /// SHA-256 of the wheel.
    pub(super) sha256: &'static str,
}

/// The packages, newest CUDA first. Checksums are those that the package index states; a downloaded
/// wheel of each was compared with it.
pub(super) const RELEASES: &[Release] = &[
    Release {
        tool: Tool::Nvrtc,
        major: 13,
        platform: "x86_64",
        package: "nvidia-cuda-nvrtc",
        version: "13.5.37",
        sha256: "86b4d68058807988b7d9af5b44917a0601e9c337f35ccd657bfb3c759ff8d8bc",
    },
    Release {
        tool: Tool::Nvrtc,
        major: 13,
        platform: "aarch64",
        package: "nvidia-cuda-nvrtc",
        version: "13.5.37",
        sha256: "36e4fa2a8ada293f5693d308e531c196ab6f91cf7a0ff479bf96a537d43a6096",
    },
    Release {
        tool: Tool::Nvrtc,
        major: 12,
        platform: "x86_64",
        package: "nvidia-cuda-nvrtc-cu12",
        version: "12.9.86",
        sha256: "210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4",
    },
    Release {
        tool: Tool::Nvrtc,
        major: 12,
        platform: "aarch64",
        package: "nvidia-cuda-nvrtc-cu12",
        version: "12.9.86",
        sha256: "096d4de6bda726415dfaf3198d4f5c522b8e70139c97feef5cd2ca6d4cd9cead",
    },
    Release {
        tool: Tool::Nvrtc,
        major: 11,
        platform: "x86_64",
        package: "nvidia-cuda-nvrtc-cu11",
        version: "11.8.89",
        sha256: "a8d02f3cba345be56b1ffc3e74d8f61f02bb758dd31b0f20e12277a5a244f756",
    },
    Release {
        tool: Tool::Nvrtc,
        major: 11,
        platform: "aarch64",
        package: "nvidia-cuda-nvrtc-cu11",
        version: "11.8.89",
        sha256: "8ab17ed51e7c4928f7170a0551e3e3b42f89d973bd267ced9688c238b3e10aef",
    },
    Release {
        tool: Tool::Nvdisasm,
        major: 13,
        platform: "x86_64",
        package: "nvidia-cuda-nvdisasm",
        version: "13.5.37",
        sha256: "d3fdbdd49fa53e2e4aacd3db8259d052bd2b049ececdcb69e92e083c6728e7ca",
    },
    Release {
        tool: Tool::Nvdisasm,
        major: 13,
        platform: "aarch64",
        package: "nvidia-cuda-nvdisasm",
        version: "13.5.37",
        sha256: "a3a8248074edb9fba63b74c38a5416b712a91ab09e70b8ab37186c3d293fc605",
    },
];

impl Release {
    /// The newest package of a tool for this platform that is of CUDA `most` or older.
    pub(super) fn newest(tool: Tool, most: u32) -> Option<&'static Self> {
        RELEASES.iter().find(|release| {
            release.tool == tool
                && release.major <= most
                && release.platform == std::env::consts::ARCH
                && std::env::consts::OS == "linux"
        })
    }

    /// The line of a requirements file: `NAME==VERSION --hash=sha256:...`.
    pub(super) fn requirement(&self) -> String {
        format!("{}=={} --hash=sha256:{}\n", self.package, self.version, self.sha256)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_package_for_each_platform() {
        for release in RELEASES {
            let same =
                |other: &&Release| (other.tool, other.major) == (release.tool, release.major);
            let platforms: Vec<&str> =
                RELEASES.iter().filter(same).map(|release| release.platform).collect();
            assert_eq!(platforms, ["x86_64", "aarch64"], "{release:?}");
            assert!(release.sha256.len() == 64, "{release:?}");
            assert!(release.sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
            assert!(release.version.starts_with(&format!("{}.", release.major)), "{release:?}");
        }
        let newest = |most| Release::newest(Tool::Nvrtc, most).map(|release| release.major);
        assert_eq!(
            [99, 13, 12, 11, 10].map(newest),
            [Some(13), Some(13), Some(12), Some(11), None]
        );
    }
}
