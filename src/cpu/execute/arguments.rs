//! Kernel parameters: the values of a launch, and their layout in parameter memory.

use super::error::LaunchError;
use crate::cpu::module::PtxKernel;
use crate::cpu::tensor_map;
use crate::model::PlacedMap;

/// Value of a kernel parameter, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelParameter {
    /// A parameter of 4 bytes: `int`, `unsigned`, `float` by its bits.
    Word(u32),
    /// A parameter of 8 bytes: a pointer, `long long`, `double` by its bits.
    Long(u64),
    /// A tensor map, 128 bytes.
    Map(PlacedMap),
}

impl From<PlacedMap> for KernelParameter {
    fn from(map: PlacedMap) -> Self {
        Self::Map(map)
    }
}

impl From<i32> for KernelParameter {
    fn from(value: i32) -> Self {
        Self::Word(value.cast_unsigned())
    }
}

impl From<f32> for KernelParameter {
    fn from(value: f32) -> Self {
        Self::Word(value.to_bits())
    }
}

impl From<u64> for KernelParameter {
    fn from(value: u64) -> Self {
        Self::Long(value)
    }
}

impl From<i64> for KernelParameter {
    fn from(value: i64) -> Self {
        Self::Long(value.cast_unsigned())
    }
}

/// Lays out the parameters in words, as the kernel reads them.
pub(super) fn parameter_words(
    kernel: &PtxKernel,
    parameters: &[KernelParameter],
) -> Result<Vec<u32>, LaunchError> {
    let size = |parameter: &KernelParameter| match parameter {
        KernelParameter::Word(_) => 4,
        KernelParameter::Long(_) => 8,
        KernelParameter::Map(_) => 8 * tensor_map::WORDS as u64,
    };
    let expected: Vec<u64> = kernel.code.parameters.iter().map(|(_, bytes)| *bytes).collect();
    let given: Vec<u64> = parameters.iter().map(size).collect();
    if expected != given {
        let list = |sizes: &[u64]| {
            let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
            format!("parameters of [{}] bytes", sizes.join(", "))
        };
        return Err(LaunchError::Arguments {
            kernel: kernel.name().to_owned(),
            given: list(&given),
            expected: list(&expected),
        });
    }
    let end = kernel.code.parameters.last().map_or(0, |(start, bytes)| start + bytes);
    let mut words = vec![0; end.div_ceil(4) as usize];
    for ((start, _), parameter) in kernel.code.parameters.iter().zip(parameters) {
        let at = *start as usize / 4;
        match parameter {
            KernelParameter::Word(value) => words[at] = *value,
            KernelParameter::Long(value) => {
                words[at] = *value as u32;
                words[at + 1] = (value >> 32) as u32;
            }
            KernelParameter::Map(map) => {
                let halves = tensor_map::encode(map)
                    .into_iter()
                    .flat_map(|word| [word as u32, (word >> 32) as u32]);
                words[at..].iter_mut().zip(halves).for_each(|(to, half)| *to = half);
            }
        }
    }
    Ok(words)
}
