//! Launches of the validation kernels in `kernels.cu`.

use super::inputs::{OperandLines, ValueKind};
use super::parts::Part;
use super::run::ClassUnits;
use crate::arithmetic::{is_activation, slope};
use crate::model::{Dtype, Epilogue, EpilogueOp, GemmType, Problem};
use crate::worker::{KernelSetup, LaunchArgument as Argument, LaunchCommand, Scalars, WorkItem};

/// Source of the validation kernels.
pub const KERNELS: &str = include_str!("kernels.cu");

/// Compiler options of [`KERNELS`] for a problem.
pub fn compile_options(problem: &Problem) -> Vec<String> {
    let GemmType { a, b, d, .. } = problem.types;
    let dtypes = [("A", a), ("B", b), ("D", d)];
    let mut options =
        dtypes.map(|(operand, dtype)| format!("-DELEMENT_{operand}={dtype}")).to_vec();
    if !problem.epilogue.is_empty() {
        options.push(format!("-DEPILOGUE={}", operations(problem.epilogue)));
        for operation in [EpilogueOp::Gelu, EpilogueOp::GeluTanh, EpilogueOp::Silu] {
            let name = operations(Epilogue::from(operation));
            options.push(format!("-D{name}_SLOPE={}", slope(operation)));
        }
        if problem.epilogue.operations().any(is_activation) {
            options.push("-DHAS_ACTIVATION".to_owned());
        }
    }
    options
}

/// The operations as `kernels.cu` names them: `ROW_SCALE,BIAS`.
fn operations(epilogue: Epilogue) -> String {
    epilogue.text().to_uppercase().replace('-', "_")
}

/// Bytes of one `ComparisonResult` in `kernels.cu`.
pub(super) const RESULT_BYTES: u64 = 40;

const THREADS: u32 = 256;

/// Maximum number of blocks that stride over a buffer: fills any GPU, with few contended atomics.
const MAX_BLOCKS: u64 = 2048;

const ENTRIES: [&str; 18] = [
    "fill_a",
    "fill_b",
    "fill_c",
    "fill_scale",
    "fill_words",
    "count_changed_a",
    "count_changed_b",
    "count_changed_bytes",
    "count_changed_words",
    "count_different_words",
    "reference_small",
    "reference_mixed",
    "compare_small",
    "locate_small",
    "describe_small",
    "compare_mixed",
    "locate_mixed",
    "describe_mixed",
];

/// Lists all kernels for loading the module.
pub(super) fn kernel_setups() -> Vec<KernelSetup> {
    let one = |entry: &str| KernelSetup {
        entry: entry.to_owned(),
        threads: THREADS,
        dynamic_shared_bytes: 0,
    };
    ENTRIES.into_iter().map(one).collect()
}

/// An operand of a product: a matrix, or of the epilogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatrixOperand {
    A(OperandLines),
    B(OperandLines),
    /// C, and what has its dtype.
    C,
    /// A scale of the epilogue.
    Scale,
}

impl MatrixOperand {
    /// The kernels that fill it and that count its changes. What a subject must not change is A and B.
    fn entries(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::A(_) => ("fill_a", Some("count_changed_a")),
            Self::B(_) => ("fill_b", Some("count_changed_b")),
            Self::C => ("fill_c", None),
            Self::Scale => ("fill_scale", None),
        }
    }
}

/// An operand with the values of a seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilledOperand {
    pub(super) operand: MatrixOperand,
    pub(super) address: u64,
    /// Number of elements.
    pub(super) count: u64,
    pub(super) seed: u64,
}

impl FilledOperand {
    fn arguments(&self, values: ValueKind) -> Vec<Argument> {
        let kind = Argument::I32(values.kind());
        let mut arguments = vec![pointer(self.address), long(self.count), kind, long(self.seed)];
        if let MatrixOperand::A(lines) | MatrixOperand::B(lines) = self.operand {
            let OperandLines { length, rows, are_rows, shift } = lines;
            arguments.extend([int(length), int(rows), int(are_rows.into()), int(shift.into())]);
        }
        arguments
    }
}

/// Creates launches of the loaded module.
#[derive(Debug, Clone, Copy)]
pub(super) struct ValidationKernels {
    pub(super) module: u32,
}

fn pointer(address: u64) -> Argument {
    Argument::Pointer(address)
}

fn long(value: u64) -> Argument {
    // A bit pattern: seeds use all 64 bits, counts at most 60.
    Argument::I64(value as i64)
}

fn int(value: u64) -> Argument {
    Argument::I32(value as i32)
}

impl ValidationKernels {
    /// Launches a kernel that strides over `count` elements.
    fn over(self, count: u64, entry: &str, arguments: Vec<Argument>) -> WorkItem {
        let blocks = count.div_ceil(THREADS.into()).clamp(1, MAX_BLOCKS);
        self.kernel(entry, [blocks as u32, 1, 1], THREADS, arguments)
    }

    fn kernel(
        self,
        entry: &str,
        grid: [u32; 3],
        threads: u32,
        arguments: Vec<Argument>,
    ) -> WorkItem {
        WorkItem::Kernel(LaunchCommand {
            module: self.module,
            entry: entry.to_owned(),
            grid,
            block: [threads, 1, 1],
            dynamic_shared_bytes: 0,
            programmatic: false,
            arguments,
        })
    }

    pub(super) fn fill_values(self, operand: &FilledOperand, values: ValueKind) -> WorkItem {
        let (entry, _) = operand.operand.entries();
        self.over(operand.count, entry, operand.arguments(values))
    }

    pub(super) fn fill_words(self, address: u64, count: u64, word: u32) -> WorkItem {
        let word = Argument::I32(word.cast_signed());
        self.over(count, "fill_words", vec![pointer(address), long(count), word])
    }

    /// Counts elements that changed since they were filled; `None` for C.
    pub(super) fn count_changed_values(
        self,
        operand: &FilledOperand,
        values: ValueKind,
        changed: u64,
    ) -> Option<WorkItem> {
        let (_, entry) = operand.operand.entries();
        let mut arguments = operand.arguments(values);
        arguments.push(pointer(changed));
        Some(self.over(operand.count, entry?, arguments))
    }

    /// Counts changed bytes of words that were filled with `word`.
    pub(super) fn count_changed_bytes(
        self,
        address: u64,
        count: u64,
        word: u32,
        changed: u64,
    ) -> WorkItem {
        let word = Argument::I32(word.cast_signed());
        let arguments = vec![pointer(address), long(count), word, pointer(changed)];
        self.over(count, "count_changed_bytes", arguments)
    }

    pub(super) fn count_changed_words(
        self,
        address: u64,
        count: u64,
        word: u32,
        changed: u64,
    ) -> WorkItem {
        let word = Argument::I32(word.cast_signed());
        let arguments = vec![pointer(address), long(count), word, pointer(changed)];
        self.over(count, "count_changed_words", arguments)
    }

    pub(super) fn count_different_words(
        self,
        [a, b]: [u64; 2],
        count: u64,
        different: u64,
    ) -> WorkItem {
        let arguments = vec![pointer(a), pointer(b), long(count), pointer(different)];
        self.over(count, "count_different_words", arguments)
    }

    /// Computes references of a part of C from the operands at `a` and `b`.
    fn reference(
        self,
        entry: &str,
        problem: &Problem,
        part: &Part,
        [a, b]: [u64; 2],
        results: &[u64],
    ) -> WorkItem {
        let tiles = part.rows.div_ceil(64) * problem.shape.n.div_ceil(64);
        let grid = [tiles as u32, 1, part.products.min(65_535) as u32];
        let row = if problem.layout.a_transposed() { part.row } else { part.row * problem.lda() };
        let types = problem.types;
        let a = a + (part.product * problem.a_elements() + row) * types.a.bytes();
        let b = b + part.product * problem.b_elements() * types.b.bytes();
        let mut arguments = vec![pointer(a), pointer(b)];
        arguments.extend(results.iter().copied().map(pointer));
        arguments.extend([
            int(part.rows),
            int(problem.shape.n),
            int(problem.shape.k),
            int(part.products),
            int(problem.lda()),
            int(problem.ldb()),
            Argument::I32(problem.layout.a_transposed().into()),
            Argument::I32(problem.layout.b_transposed().into()),
        ]);
        self.kernel(entry, grid, THREADS, arguments)
    }

    pub(super) fn reference_small(
        self,
        problem: &Problem,
        part: &Part,
        operands: [u64; 2],
        sums: u64,
    ) -> WorkItem {
        self.reference("reference_small", problem, part, operands, &[sums])
    }

    pub(super) fn reference_mixed(
        self,
        problem: &Problem,
        part: &Part,
        operands: [u64; 2],
        [sums, magnitudes]: [u64; 2],
    ) -> WorkItem {
        self.reference("reference_mixed", problem, part, operands, &[sums, magnitudes])
    }

    /// Compares the run on small values, and describes the worst wrong element.
    pub(super) fn compare_small(
        self,
        compared: &ComparedPart,
        sums: u64,
        bound: f32,
        result: u64,
    ) -> [WorkItem; 3] {
        let buffers = [pointer(compared.c), pointer(sums)];
        let (count, place) = ([long(compared.count)], compared.place());
        let last = [Argument::F32(bound), pointer(result)];
        let all = [&buffers[..], &count, &place, &last].concat();
        [
            self.over(compared.count, "compare_small", all.clone()),
            self.over(compared.count, "locate_small", all),
            self.kernel("describe_small", [1; 3], 1, [&buffers[..], &place, &last].concat()),
        ]
    }

    /// Compares the run on mixed values, and describes the worst wrong element.
    pub(super) fn compare_mixed(self, run: &MixedRun, bound: f32, result: u64) -> [WorkItem; 3] {
        let compared = &run.compared;
        let buffers = [compared.c, run.sums, run.magnitudes].map(pointer);
        let scalar = |value: f32| match run.scalar {
            Dtype::I32 => Argument::I32(value as i32),
            _ => Argument::F32(value),
        };
        let scaling = [scalar(run.scalars.alpha), scalar(run.scalars.beta), long(run.c_seed)];
        let ClassUnits { single, positive } = run.units;
        let units = [single, positive].map(|unit| Argument::F32(unit as f32));
        let place = [&compared.place()[..], &units].concat();
        let (count, result) = ([long(compared.count)], [pointer(result)]);
        let bound = [Argument::F32(bound)];
        [
            self.over(
                compared.count,
                "compare_mixed",
                [&buffers[..], &count, &scaling, &place, &bound, &result].concat(),
            ),
            self.over(
                compared.count,
                "locate_mixed",
                [&buffers[..], &count, &scaling, &place, &result].concat(),
            ),
            self.kernel(
                "describe_mixed",
                [1; 3],
                1,
                [&buffers[..], &scaling, &place, &result].concat(),
            ),
        ]
    }
}

/// A part of C, and where its elements are.
#[derive(Debug, Clone, Copy)]
pub(super) struct ComparedPart {
    /// Address of the part.
    pub(super) c: u64,
    /// Index of its first element.
    pub(super) first: u64,
    pub(super) count: u64,
    /// Rows and columns of C.
    pub(super) extents: [u64; 2],
    /// Seed of the epilogue's operands.
    pub(super) epilogue_seed: u64,
}

impl ComparedPart {
    /// Arguments that make a `Place`.
    fn place(&self) -> [Argument; 4] {
        let [m, n] = self.extents;
        [int(m), int(n), long(self.first), long(self.epilogue_seed)]
    }
}

/// A part of C after the run on mixed values, with its reference.
#[derive(Debug, Clone, Copy)]
pub(super) struct MixedRun {
    pub(super) compared: ComparedPart,
    pub(super) sums: u64,
    pub(super) magnitudes: u64,
    pub(super) scalars: Scalars,
    pub(super) c_seed: u64,
    /// Dtype of alpha and beta.
    pub(super) scalar: Dtype,
    pub(super) units: ClassUnits,
}
