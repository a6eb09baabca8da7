//! Test harness: compiles kernels, prepares operands, launches, and computes the expected result.

use std::collections::BTreeMap;

use gemm_tune::compile::CompileTarget;
use gemm_tune::cpu::{
    CountingMode, Counts, ExecutionChecks, GlobalMemory, KernelParameter, LaunchError,
    LaunchOptions, PtxModule, WriteTracking, launch,
};
use gemm_tune::model::{
    Argument, Configuration, Device, Dtype, KernelLaunch, LaunchPlan, Layout, Problem, Value,
};
use gemm_tune::render::{Rendered, Templates, render};
use gemm_tune::space::Families;

use crate::support::nvrtc_or_skip;

/// Compiles CUDA source to PTX with line information; `None` without NVRTC, with a message.
pub(super) fn compile(source: &str, options: &[&str]) -> Option<String> {
    let nvrtc = nvrtc_or_skip()?;
    let mut all = vec!["--generate-line-info".to_owned()];
    all.extend(options.iter().map(|option| (*option).to_owned()));
    let target = CompileTarget::Ptx("sm_90".parse().unwrap()).for_source(source);
    let compiled = nvrtc.compile(source, "kernel.cu", target, &all).unwrap();
    Some(String::from_utf8(compiled.image).unwrap())
}

/// A problem of one product.
pub(super) fn problem(shape: &str, dtype: Dtype, layout: &str) -> Problem {
    let layout: Layout = layout.parse().unwrap();
    Problem { layout, ..Problem::new(shape.parse().unwrap(), dtype) }
}

/// Renders a family's default configuration with some values changed. A text value is given as its
/// index among the parameter's values.
pub(super) fn rendered(family: &str, problem: &Problem, values: &[(&str, i64)]) -> Rendered {
    rendered_for(&Device::h200(), family, problem, values)
}

/// As [`rendered`] for another device, e.g. one with few SMs.
pub(super) fn rendered_for(
    device: &Device,
    family: &str,
    problem: &Problem,
    values: &[(&str, i64)],
) -> Rendered {
    let families = Families::built_in().unwrap();
    let family = families.get(family).unwrap();
    let mut configuration: Configuration = family.default_for(problem, device).unwrap().unwrap();
    for (name, value) in values {
        let value = match configuration.0[*name] {
            Value::Bool(_) => Value::Bool(*value != 0),
            Value::Text(_) => family.parameters[*name][*value as usize].clone(),
            _ => Value::Int(*value),
        };
        configuration.0.insert((*name).to_owned(), value);
    }
    let forbidden = family.forbidden(&configuration, problem, device).unwrap();
    assert!(forbidden.is_none(), "{configuration}: {forbidden:?}");
    render(family, &Templates::built_in().unwrap(), &configuration, problem, device).unwrap()
}

/// Contents of the operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filling {
    /// Any integers, or f32 uniform in [-1, 1), whose sums depend on their order.
    Uniform,
    /// Integers from -8 to 8, whose sums in f32 are exact in any order.
    Exact,
}

/// Value of an element.
fn element(dtype: Dtype, filling: Filling, index: u64, seed: u64) -> u32 {
    let bits = fastrand::Rng::with_seed(index ^ seed << 32).u32(..);
    match (dtype, filling) {
        (Dtype::I32, _) => bits,
        (_, Filling::Uniform) => ((bits >> 8) as f32 / 8_388_608.0 - 1.0).to_bits(),
        (_, Filling::Exact) => ((bits % 17) as f32 - 8.0).to_bits(),
    }
}

/// Input of a launch.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) problem: Problem,
    pub(super) alpha: f32,
    pub(super) beta: f32,
    pub(super) filling: Filling,
}

impl Case {
    pub(super) fn new(problem: Problem) -> Self {
        Self { problem, alpha: 1.0, beta: 0.0, filling: Filling::Uniform }
    }

    /// A, B and C before the launch; C is NaN where it must not be read.
    fn operands(&self) -> [Vec<u32>; 3] {
        let elements = |of_a_product: u64, seed| -> Vec<u32> {
            let element = |index| element(self.problem.types.a, self.filling, index, seed);
            (0..of_a_product * self.problem.batch).map(element).collect()
        };
        let a = elements(self.problem.a_elements(), 1);
        let b = elements(self.problem.b_elements(), 2);
        let c = if self.beta == 0.0 {
            vec![u32::MAX; self.expected_words() as usize]
        } else {
            elements(self.problem.c_elements(), 3)
        };
        [a, b, c]
    }

    /// Expected words of C by three nested loops, with fused multiply-adds in the kernels' order.
    /// The compiler may fuse either product of alpha sum + beta C, so each word has two valid
    /// values.
    pub(super) fn expected(&self) -> Vec<[u32; 2]> {
        let Problem { shape, types, .. } = self.problem;
        let [a, b, c] = self.operands();
        let (m, n, k) = (shape.m as usize, shape.n as usize, shape.k as usize);
        let mut result = Vec::with_capacity(c.len());
        for product in 0..self.problem.batch as usize {
            let (a, b) = (&a[product * m * k..], &b[product * k * n..]);
            for row in 0..m {
                for column in 0..n {
                    let a_at = |i: usize| {
                        a[if self.problem.layout.a_transposed() {
                            i * m + row
                        } else {
                            row * k + i
                        }]
                    };
                    let b_at = |i: usize| {
                        b[if self.problem.layout.b_transposed() {
                            column * k + i
                        } else {
                            i * n + column
                        }]
                    };
                    let old = c[(product * m + row) * n + column];
                    result.push(if types.d == Dtype::I32 {
                        let sum = (0..k)
                            .fold(0_u32, |sum, i| sum.wrapping_add(a_at(i).wrapping_mul(b_at(i))));
                        let scaled = (self.alpha as u32).wrapping_mul(sum);
                        let added = (self.beta as u32).wrapping_mul(old);
                        [if self.beta == 0.0 { scaled } else { scaled.wrapping_add(added) }; 2]
                    } else {
                        let sum = (0..k).fold(0.0_f32, |sum, i| {
                            f32::from_bits(a_at(i)).mul_add(f32::from_bits(b_at(i)), sum)
                        });
                        let scaled = self.alpha * sum;
                        let old = f32::from_bits(old);
                        if self.beta == 0.0 {
                            [scaled.to_bits(); 2]
                        } else {
                            let first = self.beta.mul_add(old, scaled);
                            [first, self.alpha.mul_add(sum, self.beta * old)].map(f32::to_bits)
                        }
                    });
                }
            }
        }
        result
    }

    /// Launches the kernels of a plan; returns the words of C and the counts of each launch.
    pub(super) fn run(
        &self,
        program: &PtxModule,
        plan: &LaunchPlan,
        options: &LaunchOptions,
    ) -> Result<(Vec<u32>, Vec<Counts>), LaunchError> {
        let mut memory = GlobalMemory::new(WriteTracking::Written);
        let mut addresses = Vec::new();
        for words in self.operands() {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let address = memory.allocate(bytes.len() as u64).unwrap();
            memory.write(address, &bytes).unwrap();
            addresses.push(address);
        }
        let workspaces: BTreeMap<&str, u64> = plan
            .workspaces
            .iter()
            .map(|space| (space.name.as_str(), memory.allocate(space.bytes).unwrap()))
            .collect();
        let mut counts = Vec::new();
        for launched in &plan.kernels {
            let kernel = program.kernel(&launched.entry).unwrap();
            let extents = (launched.grid, launched.block);
            let parameters = self.parameters(launched, &addresses, &workspaces);
            let shared = launched.dynamic_shared_bytes;
            counts.push(launch(kernel, extents, shared, &parameters, &memory, options)?);
        }
        let bytes = memory.read(addresses[2], 4 * self.expected_words()).unwrap();
        let word = |chunk: &[u8]| u32::from_le_bytes(chunk.try_into().unwrap());
        Ok((bytes.chunks(4).map(word).collect(), counts))
    }

    fn expected_words(&self) -> u64 {
        self.problem.c_elements() * self.problem.batch
    }

    fn parameters(
        &self,
        launched: &KernelLaunch,
        addresses: &[u64],
        workspaces: &BTreeMap<&str, u64>,
    ) -> Vec<KernelParameter> {
        let p = &self.problem;
        let int = |value: u64| KernelParameter::Word(value as u32);
        let scalar = |value: f32| match p.types.scalar() {
            Dtype::I32 => KernelParameter::from(value as i32),
            _ => KernelParameter::from(value),
        };
        let value = |argument: &Argument| match argument {
            Argument::A => KernelParameter::Long(addresses[0]),
            Argument::B => KernelParameter::Long(addresses[1]),
            Argument::C => KernelParameter::Long(addresses[2]),
            Argument::M => int(p.shape.m),
            Argument::N => int(p.shape.n),
            Argument::K => int(p.shape.k),
            Argument::Batch => int(p.batch),
            Argument::Lda => int(p.lda()),
            Argument::Ldb => int(p.ldb()),
            Argument::Ldc => int(p.ldc()),
            Argument::StrideA => KernelParameter::Long(p.a_elements()),
            Argument::StrideB => KernelParameter::Long(p.b_elements()),
            Argument::StrideC => KernelParameter::Long(p.c_elements()),
            Argument::Alpha => scalar(self.alpha),
            Argument::Beta => scalar(self.beta),
            Argument::Epilogue(operation) => panic!("no operand of {operation}"),
            Argument::Named(name) => KernelParameter::Long(workspaces[name.as_str()]),
        };
        launched.arguments.iter().map(value).collect()
    }
}

/// Options with all checks.
pub(super) fn checked() -> LaunchOptions {
    LaunchOptions {
        checks: ExecutionChecks::ALL,
        instruction_budget: 1 << 24,
        ..LaunchOptions::default()
    }
}

/// Options with counting.
pub(super) fn counted() -> LaunchOptions {
    LaunchOptions { counting: CountingMode::On, ..LaunchOptions::default() }
}
