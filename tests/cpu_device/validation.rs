//! The validation kernels, executed for all dtypes and compared with the host. They need
//! binary64, 64-bit integers and atomic operations.

use super::harness::{checked, compile};
use KernelParameter::{Long, Word};
use gemm_tune::cpu::{Elements, GlobalMemory, KernelParameter, PtxModule, WriteTracking, launch};
use gemm_tune::model::{Dtype, Epilogue, GemmType, Layout, ProblemPattern, Shape};
use gemm_tune::validate::compile_options;
use half::{bf16, f16};
use rayon::iter::ParallelIterator as _;

const M: u64 = 70;
const N: u64 = 66;
const K: u64 = 19;
const BATCH: u64 = 2;
const PRODUCTS: u64 = BATCH * M * N;

/// Kinds of values, as numbered in `kernels.cu`.
const SMALL: u32 = 0;
const UNIFORM: u32 = 1;
const MIXED: u32 = 2;

/// The bits of an element.
fn bits(dtype: Dtype, value: f64) -> u32 {
    match dtype {
        Dtype::F32 => (value as f32).to_bits(),
        Dtype::I32 => (value as i64 as i32).cast_unsigned(),
        Dtype::F16 => f16::from_f32(value as f32).to_bits().into(),
        Dtype::Bf16 => bf16::from_f32(value as f32).to_bits().into(),
        Dtype::I8 => u32::from((value as i8).cast_unsigned()),
    }
}

/// The value of an element. The host computes in binary64, which represents all of them.
fn value(dtype: Dtype, bits: u32) -> f64 {
    match dtype {
        Dtype::F32 => f32::from_bits(bits).into(),
        Dtype::I32 => bits.cast_signed().into(),
        Dtype::F16 => f16::from_bits(bits as u16).into(),
        Dtype::Bf16 => bf16::from_bits(bits as u16).into(),
        Dtype::I8 => (bits as u8).cast_signed().into(),
    }
}

/// The element that operands have at an index.
fn filled(dtype: Dtype, kind: u32, index: u64, seed: u64) -> f64 {
    let mixed = mix(index, seed);
    match (kind, dtype) {
        (SMALL, _) => [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0][((mixed >> 32) % 6) as usize],
        (_, Dtype::I32) => ((mixed >> 32) % 2001) as f64 - 1000.0,
        (_, Dtype::I8) => ((mixed >> 32) % 256) as f64 - 128.0,
        (_, float) => value(float, bits(float, (mixed >> 40) as f64 / 8_388_608.0 - 1.0)),
    }
}

/// Where the lines of an operand are: the length and number of stored rows, and whether these are the lines.
#[derive(Clone, Copy)]
struct Lines {
    length: u64,
    rows: u64,
    are_rows: bool,
    shift: u32,
}

impl Lines {
    fn of_a(transposed: bool) -> Self {
        let (length, rows) = if transposed { (M, K) } else { (K, M) };
        Self { length, rows, are_rows: !transposed, shift: 0 }
    }

    fn of_b(transposed: bool) -> Self {
        let (length, rows) = if transposed { (K, N) } else { (N, K) };
        Self { length, rows, are_rows: transposed, shift: 0 }
    }

    fn arguments(self) -> [KernelParameter; 4] {
        let Self { length, rows, are_rows, shift } = self;
        [Word(length as u32), Word(rows as u32), Word(are_rows.into()), Word(shift)]
    }

    /// The mixed value of an element: of 16 lines, the second has one value and zeros, the tenth an infinity or a NaN, the
    /// first and every other one positive values.
    fn mixed(self, dtype: Dtype, index: u64, seed: u64) -> f64 {
        let number = (mix(index, seed) >> 40) as f64 / 8_388_608.0 - 1.0;
        let (row, column) = (index / self.length % self.rows, index % self.length);
        let (line, k) = if self.are_rows { (row, column) } else { (column, row) };
        let choice = mix(!line, seed);
        let extent = if self.are_rows { self.length } else { self.rows };
        let number = match line % 16 {
            _ if dtype.is_integer() => return filled(dtype, UNIFORM, index, seed),
            1 if choice % extent == k => number / if choice >> 62 == 0 { 16_384.0 } else { 1.0 },
            1 => 0.0,
            9 if choice % extent == k => {
                [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::NAN][(choice >> 62) as usize]
            }
            odd if odd % 2 == 1 => number,
            _ => {
                let tf32 = f32::from_bits((number.abs() as f32).to_bits() & 0xffff_e000);
                f64::from(tf32) / f64::from(1 << self.shift)
            }
        };
        value(dtype, bits(dtype, number))
    }
}

/// The element of A or B at an index.
fn factor(dtype: Dtype, kind: u32, index: u64, seed: u64, lines: Lines) -> f64 {
    if kind == MIXED { lines.mixed(dtype, index, seed) } else { filled(dtype, kind, index, seed) }
}

/// What rounding a value to C may change, beyond which an error counts.
fn rounding(dtype: Dtype, value: f64) -> f64 {
    match dtype {
        Dtype::F16 => value.abs() / 2048.0 + 0.5_f64.powi(25),
        Dtype::Bf16 => value.abs() / 256.0,
        _ => 0.0,
    }
}

/// The finaliser of splitmix64, as in `kernels.cu`.
fn mix(index: u64, seed: u64) -> u64 {
    let golden = 0x9e37_79b9_7f4a_7c15_u64;
    let mut x = index.wrapping_add(seed.wrapping_mul(golden)).wrapping_add(golden);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Kernels for one GEMM type, and memory.
struct Lab {
    types: GemmType,
    program: PtxModule,
    memory: GlobalMemory,
}

impl Lab {
    /// One for each dtype, and one whose C is wider than A and B; none without a compiler.
    fn all() -> Vec<Self> {
        let source = include_str!("../../src/validate/kernels.cu");
        let lab = |types: GemmType| {
            let problem = ProblemPattern { types, layout: Layout::Nn, epilogue: Epilogue::NONE }
                .problem(Shape { m: M, n: N, k: K });
            let options = compile_options(&problem);
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let program = PtxModule::parse(&compile(source, &options)?).unwrap();
            assert_eq!(program.kernels().len(), 18);
            Some(Self { types, program, memory: GlobalMemory::new(WriteTracking::Written) })
        };
        let wider = GemmType { d: Dtype::F32, ..GemmType::of(Dtype::Bf16) };
        let types = Dtype::ALL.iter().map(|dtype| GemmType::of(*dtype));
        types.chain([wider]).filter_map(lab).collect()
    }

    /// Allocates words and returns their address.
    fn words(&mut self, count: u64) -> u64 {
        self.memory.allocate(4 * count).unwrap()
    }

    /// Allocates elements.
    fn elements(&mut self, dtype: Dtype, count: u64) -> u64 {
        self.memory.allocate(dtype.bytes() * count).unwrap()
    }

    /// Allocates elements of A or B and fills them.
    fn filled(&mut self, operand: char, count: u64, (kind, seed): (u32, u64), lines: Lines) -> u64 {
        let address = self.elements(self.types.a, count);
        let arguments = [Long(address), Long(count), Word(kind), Long(seed)];
        let arguments = [&arguments[..], &lines.arguments()].concat();
        self.call(&format!("fill_{operand}"), 3, &arguments);
        address
    }

    /// Launches a kernel with `blocks` blocks of 256 threads and all checks.
    fn call(&self, name: &str, blocks: u64, parameters: &[KernelParameter]) {
        let kernel = self.program.kernel(name).unwrap();
        let extents = ([blocks as u32, 1, 1], [256, 1, 1]);
        launch(kernel, extents, 0, parameters, &self.memory, &checked())
            .unwrap_or_else(|error| panic!("{} {name}: {error}", self.types));
    }

    /// The bits of elements.
    fn bits(&self, dtype: Dtype, address: u64, count: u64) -> Vec<u32> {
        let elements = Elements { address, count, bytes: dtype.bytes() as u32 };
        self.memory.elements(elements).unwrap().collect()
    }

    fn floats(&self, address: u64, count: u64) -> Vec<f32> {
        self.memory.words(address, count).unwrap().map(f32::from_bits).collect()
    }

    fn longs(&self, address: u64, count: u64) -> Vec<u64> {
        let bytes = self.memory.read(address, 8 * count).unwrap();
        bytes.chunks(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap())).collect()
    }

    fn doubles(&self, address: u64, count: u64) -> Vec<f64> {
        self.longs(address, count).into_iter().map(f64::from_bits).collect()
    }

    fn set(&self, dtype: Dtype, address: u64, index: u64, bits: u32) {
        let bytes = dtype.bytes();
        let written = &bits.to_le_bytes()[..bytes as usize];
        self.memory.write(address + bytes * index, written).unwrap();
    }

    /// Allocates a `Verdict` in its initial state.
    fn verdict(&mut self) -> u64 {
        let verdict = self.words(10);
        self.memory.fill_with(verdict, 10, |_| 0).unwrap();
        self.memory.fill_with(verdict + 16, 2, |_| u32::MAX).unwrap();
        verdict
    }
}

/// op(A) op(B), and the same of magnitudes, summed as in the kernels: in binary64, along K.
fn products(dtype: Dtype, kind: u32, a_transposed: bool, b_transposed: bool) -> Vec<[f64; 2]> {
    let product = |batch: u64, row: u64, column: u64| {
        let (lines_a, lines_b) = (Lines::of_a(a_transposed), Lines::of_b(b_transposed));
        let term = |k: u64| {
            let a = if a_transposed { k * M + row } else { row * K + k };
            let b = if b_transposed { column * K + k } else { k * N + column };
            factor(dtype, kind, batch * M * K + a, 1, lines_a)
                * factor(dtype, kind, batch * K * N + b, 2, lines_b)
        };
        [(0..K).map(term).sum(), (0..K).map(|k| term(k).abs()).sum()]
    };
    (0..PRODUCTS).map(|at| product(at / N / M, at / N % M, at % N)).collect()
}

#[test]
fn operands_are_filled_as_on_the_host_and_changes_are_counted() {
    for mut lab in Lab::all() {
        let count = 100_000;
        let (changed, dtype) = (lab.words(2), lab.types.a);
        // 250 rows of 100 lines each: not all of the same product.
        let of = |are_rows, shift| Lines { length: 100, rows: 250, are_rows, shift };
        for (operand, kind, lines) in [
            ('a', SMALL, of(true, 0)),
            ('a', UNIFORM, of(true, 0)),
            ('a', MIXED, of(true, 3)),
            ('a', MIXED, of(false, 0)),
            ('b', SMALL, of(true, 0)),
            ('b', MIXED, of(false, 1)),
        ] {
            let address = lab.filled(operand, count, (kind, 7), lines);
            for (at, bits) in lab.bits(dtype, address, count).into_iter().enumerate() {
                let expected = factor(dtype, kind, at as u64, 7, lines);
                let got = value(dtype, bits);
                let is_same = got == expected || got.is_nan() && expected.is_nan();
                assert!(is_same, "{} {at}: {got} {expected}", lab.types);
            }
            for (planted, expected) in [(&[][..], 0), (&[0, 511, 999], 3)] {
                planted.iter().for_each(|at| lab.set(dtype, address, *at, bits(dtype, 77.0) ^ 1));
                lab.memory.fill_with(changed, 2, |_| 0).unwrap();
                let filled = [Long(address), Long(count), Word(kind), Long(7)];
                let arguments = [&filled[..], &lines.arguments(), &[Long(changed)]].concat();
                lab.call(&format!("count_changed_{operand}"), 2, &arguments);
                assert_eq!(lab.longs(changed, 1), [expected], "{}", lab.types);
            }
        }
        let guard = lab.words(count);
        lab.call("fill_words", 2, &[Long(guard), Long(count), Word(0xdead_beef)]);
        assert!(lab.memory.words(guard, count).unwrap().all(|word| word == 0xdead_beef));
        // Bytes behind an operand that ends within a word.
        for (planted, expected) in [(None, 0), (Some(guard + 2), 1), (Some(guard + 4), 1)] {
            planted.iter().for_each(|at| lab.memory.write(*at, &[7]).unwrap());
            lab.memory.fill_with(changed, 2, |_| 0).unwrap();
            let arguments = [Long(guard + 1), Long(3), Word(0xdead_beef), Long(changed)];
            lab.call("count_changed_bytes", 1, &arguments);
            assert_eq!(lab.longs(changed, 1), [expected], "{}", lab.types);
        }
        lab.memory.fill_with(guard, 2, |_| 0xdead_beef).unwrap();
        for (planted, expected) in [(&[][..], 0), (&[1, 998], 2)] {
            planted.iter().for_each(|at| lab.set(Dtype::I32, guard, *at, 5));
            lab.memory.fill_with(changed, 2, |_| 0).unwrap();
            let arguments = [Long(guard), Long(count), Word(0xdead_beef), Long(changed)];
            lab.call("count_changed_words", 2, &arguments);
            assert_eq!(lab.longs(changed, 1), [expected], "{}", lab.types);
        }
    }
}

#[test]
fn two_buffers_are_compared_word_by_word() {
    for mut lab in Lab::all() {
        let count = 1000;
        let [one, other] = [(); 2].map(|()| lab.words(count));
        for address in [one, other] {
            lab.memory.fill_with(address, count, |at| 3 * at as u32).unwrap();
        }
        let different = lab.words(2);
        for (planted, expected) in [(&[][..], 0), (&[0, 256, 999], 3)] {
            planted.iter().for_each(|at| lab.set(Dtype::I32, other, *at, 77));
            lab.memory.fill_with(different, 2, |_| 0).unwrap();
            let arguments = [Long(one), Long(other), Long(count), Long(different)];
            lab.call("count_different_words", 2, &arguments);
            assert_eq!(lab.longs(different, 1), [expected], "{}", lab.types);
        }
    }
}

/// Arguments after the pointers: the problem and the leading dimensions of its layout.
fn shape(a_transposed: bool, b_transposed: bool) -> [KernelParameter; 8] {
    let lda = if a_transposed { M } else { K };
    let ldb = if b_transposed { K } else { N };
    [M, N, K, BATCH, lda, ldb, a_transposed.into(), b_transposed.into()]
        .map(|value| Word(value as u32))
}

#[test]
fn references_are_the_sums_of_the_host_in_every_layout() {
    let blocks = M.div_ceil(64) * N.div_ceil(64);
    for mut lab in Lab::all() {
        for (a_transposed, b_transposed) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            for kind in [SMALL, MIXED] {
                let a = lab.filled('a', BATCH * M * K, (kind, 1), Lines::of_a(a_transposed));
                let b = lab.filled('b', BATCH * K * N, (kind, 2), Lines::of_b(b_transposed));
                let (sums, magnitudes) = (lab.words(2 * PRODUCTS), lab.words(PRODUCTS));
                let shape = shape(a_transposed, b_transposed);
                let expected = products(lab.types.a, kind, a_transposed, b_transposed);
                if kind == SMALL {
                    let arguments = [&[Long(a), Long(b), Long(sums)][..], &shape].concat();
                    lab.call("reference_small", blocks, &arguments);
                    let expected: Vec<_> = expected.iter().map(|[sum, _]| *sum as f32).collect();
                    assert_eq!(lab.floats(sums, PRODUCTS), expected, "{}", lab.types);
                    continue;
                }
                let pointers = [Long(a), Long(b), Long(sums), Long(magnitudes)];
                lab.call("reference_mixed", blocks, &[&pointers[..], &shape].concat());
                let (of_sums, of_magnitudes): (Vec<_>, Vec<_>) = expected
                    .iter()
                    .map(|[sum, magnitude]| (*sum, f64::from(*magnitude as f32)))
                    .unzip();
                let same_sums = all_same(&lab.doubles(sums, PRODUCTS), &of_sums);
                let magnitudes: Vec<f64> =
                    lab.floats(magnitudes, PRODUCTS).into_iter().map(f64::from).collect();
                assert!(same_sums && all_same(&magnitudes, &of_magnitudes), "{}", lab.types);
            }
        }
    }
}

/// Whether numbers are equal, and NaN where the others are.
fn all_same(got: &[f64], expected: &[f64]) -> bool {
    let is_same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
    got.len() == expected.len() && got.iter().zip(expected).all(is_same)
}

/// Rows and columns of C, its first element, and the seed of an epilogue's operands.
fn place(first: u64) -> [KernelParameter; 4] {
    [Word(M as u32), Word(N as u32), Long(first), Long(0)]
}

/// Planted errors (index and size), the number of errors to find, and the index of the largest.
type Planted = (&'static [(u64, f64)], u64, Option<u64>);

/// The comparison must find the largest error at any index, and the first of equal ones.
const PLANTED: [Planted; 5] = [
    (&[], 0, None),
    (&[(777, 2.0)], 1, Some(777)),
    (&[(5, 2.0), (PRODUCTS - 1, 64.0)], 2, Some(PRODUCTS - 1)),
    (&[(300, -64.0), (4000, 2.0)], 2, Some(300)),
    (&[(4003, 8.0), (4002, 8.0), (4004, 8.0)], 3, Some(4002)),
];

#[test]
fn small_products_are_compared_exactly_and_the_worst_element_is_described() {
    for mut lab in Lab::all() {
        let sums: Vec<f64> =
            products(lab.types.a, SMALL, false, false).iter().map(|[sum, _]| *sum).collect();
        let d = lab.types.d;
        let (c, expected) = (lab.elements(d, PRODUCTS), lab.words(PRODUCTS));
        for (planted, wrong, at) in PLANTED {
            for (index, sum) in sums.iter().enumerate() {
                lab.set(d, c, index as u64, bits(d, *sum));
                lab.set(Dtype::F32, expected, index as u64, (*sum as f32).to_bits());
            }
            for (index, by) in planted {
                lab.set(d, c, *index, bits(d, sums[*index as usize] + by));
            }
            let verdict = lab.verdict();
            let buffers = [Long(c), Long(expected)];
            let last = [KernelParameter::from(0.0_f32), Long(verdict)];
            let arguments = [&buffers[..], &[Long(PRODUCTS)], &place(0), &last].concat();
            lab.call("compare_small", 2, &arguments);
            lab.call("locate_small", 2, &arguments);
            lab.call("describe_small", 1, &[&buffers[..], &place(0), &last].concat());
            let largest = planted.iter().map(|(_, by)| by.abs()).fold(0.0, f64::max);
            check_verdict(&lab, verdict, (wrong, largest, at), |at| {
                let by = planted.iter().find(|(index, _)| *index == at).map_or(0.0, |(_, by)| *by);
                (sums[at as usize] + by, sums[at as usize])
            });
        }
    }
}

/// Checks the verdict of a comparison: the number of wrong elements, the largest error, and the
/// value and the expected value of the first element with that error.
fn check_verdict(
    lab: &Lab,
    verdict: u64,
    (wrong, largest, at): (u64, f64, Option<u64>),
    described: impl Fn(u64) -> (f64, f64),
) {
    let found = lab.longs(verdict, 5);
    assert_eq!((found[0], f64::from_bits(found[1])), (wrong, largest), "{}", lab.types);
    assert_eq!(found[2], at.unwrap_or(u64::MAX), "{}", lab.types);
    let (got, expected) = at.map_or((0.0, 0.0), described);
    assert_eq!((f64::from_bits(found[3]), f64::from_bits(found[4])), (got, expected));
}

/// alpha op(A) op(B) + beta C0 and the unit of its error, as in `compare_mixed`.
fn scaled(types: GemmType, sum: f64, magnitude: f64, c0: f64) -> (f64, f64) {
    let [alpha, beta] = factors(types);
    if !types.scalar().is_integer() {
        let expected = alpha * sum + beta * c0;
        return (expected, alpha.abs() * f64::from(magnitude as f32) + (beta * c0).abs());
    }
    let word = |value: f64| bits(Dtype::I32, value);
    let product = word(alpha).wrapping_mul(sum as i64 as u32);
    (value(Dtype::I32, product.wrapping_add(word(beta).wrapping_mul(word(c0)))), 1.0)
}

/// Units of the errors of elements whose lines have single values, and of those whose lines are both positive.
const SINGLE_UNIT: f32 = 0.5;
const POSITIVE_UNIT: f32 = 2.0;

/// The unit of the class of an element of C.
fn class_unit(types: GemmType, at: u64) -> f64 {
    let lines = [at / N % M % 16, at % N % 16];
    if types.d.is_integer() {
        1.0
    } else if lines.contains(&1) {
        SINGLE_UNIT.into()
    } else if lines.iter().all(|line| line % 2 == 0) {
        POSITIVE_UNIT.into()
    } else {
        1.0
    }
}

/// Alpha and beta. Integer products overflow; those of f16 do not.
fn factors(types: GemmType) -> [f64; 2] {
    if types.d == Dtype::F16 { [3.0, -3.0] } else { [65_537.0, -3.0] }
}

#[test]
fn mixed_products_are_compared_within_the_bounds_of_their_classes() {
    let c_seed = 3;
    // A part that begins beyond the indices of 32 bits.
    let first = (1 << 33) + 5;
    for mut lab in Lab::all() {
        let types = lab.types;
        let d = types.d;
        let products = products(types.a, MIXED, false, false);
        let c = lab.elements(d, PRODUCTS);
        let (sums, magnitudes) = (lab.words(2 * PRODUCTS), lab.words(PRODUCTS));
        for (at, [sum, magnitude]) in products.iter().enumerate() {
            lab.memory.write(sums + 8 * at as u64, &sum.to_le_bytes()).unwrap();
            lab.set(Dtype::F32, magnitudes, at as u64, (*magnitude as f32).to_bits());
        }
        let scaled: Vec<(f64, f64)> = (products.iter().enumerate())
            .map(|(at, [sum, magnitude])| {
                let c0 = filled(d, UNIFORM, first + at as u64, c_seed);
                let (expected, unit) = scaled(types, *sum, *magnitude, c0);
                (expected, unit * class_unit(types, first + at as u64))
            })
            .collect();
        for (planted, wrong, at) in PLANTED {
            // Kernel result: rounded once, plus the planted errors in units of the error bound.
            let mut results: Vec<f64> =
                scaled.iter().map(|(sum, _)| value(d, bits(d, *sum))).collect();
            for (index, by) in planted {
                let (sum, unit) = scaled[*index as usize];
                results[*index as usize] = value(d, bits(d, sum + by * unit));
            }
            results.iter().enumerate().for_each(|(at, c_at)| {
                lab.set(d, c, at as u64, bits(d, *c_at));
            });
            let errors: Vec<f64> = (results.iter().zip(&scaled))
                .map(|(got, (sum, unit))| (((got - sum).abs() - rounding(d, *sum)) / unit).max(0.0))
                .collect();
            let largest = errors.iter().copied().fold(0.0, f64::max);
            // No two errors in binary32 are equal.
            let at = at.map(|_| errors.iter().position(|error| *error == largest).unwrap() as u64);

            let verdict = lab.verdict();
            let operands = [Long(c), Long(sums), Long(magnitudes)];
            let [alpha, beta] = factors(types).map(|factor| Word(bits(types.scalar(), factor)));
            let units = [SINGLE_UNIT, POSITIVE_UNIT].map(KernelParameter::from);
            let scale = [&[alpha, beta, Long(c_seed)][..], &place(first), &units].concat();
            let within = [KernelParameter::from(1e-6_f32), Long(verdict)];
            let compared = [&operands[..], &[Long(PRODUCTS)], &scale, &within].concat();
            lab.call("compare_mixed", 2, &compared);
            let located = [&operands[..], &[Long(PRODUCTS)], &scale, &[Long(verdict)]].concat();
            lab.call("locate_mixed", 2, &located);
            let described = [&operands[..], &scale, &[Long(verdict)]].concat();
            lab.call("describe_mixed", 1, &described);
            check_verdict(&lab, verdict, (wrong, largest, at), |at| {
                (results[at as usize], scaled[at as usize].0)
            });
        }
    }
}

#[test]
fn a_nan_is_the_largest_error() {
    for mut lab in Lab::all().into_iter().filter(|lab| lab.types == GemmType::of(Dtype::F32)) {
        let (c, sums) = (lab.words(100), lab.words(100));
        lab.memory.fill_with(c, 100, |_| 0).unwrap();
        lab.memory.fill_with(sums, 100, |_| 0).unwrap();
        lab.set(Dtype::F32, c, 40, f32::MAX.to_bits());
        lab.set(Dtype::F32, c, 50, f32::NAN.to_bits());
        let verdict = lab.verdict();
        let buffers = [Long(c), Long(sums), Long(100)];
        let last = [KernelParameter::from(0.0_f32), Long(verdict)];
        let arguments = [&buffers[..], &place(0), &last].concat();
        lab.call("compare_small", 1, &arguments);
        lab.call("locate_small", 1, &arguments);
        let found = lab.longs(verdict, 3);
        assert_eq!((found[0], f64::from_bits(found[1]), found[2]), (2, f64::INFINITY, 50));
    }
}

#[test]
fn kernels_with_every_operation_of_an_epilogue_compile() {
    let source = include_str!("../../src/validate/kernels.cu");
    for (a, d, text) in [
        (
            Dtype::Bf16,
            Dtype::Bf16,
            "bias,gelu,mul,gelu-tanh,residual,silu,row-scale,col-scale,relu",
        ),
        (Dtype::I8, Dtype::F16, "row-scale,col-scale,bias"),
        (Dtype::I8, Dtype::I32, "bias,relu,residual"),
    ] {
        let types = GemmType { d, ..GemmType::of(a) };
        let pattern = ProblemPattern { types, layout: Layout::Nn, epilogue: text.parse().unwrap() };
        let options = compile_options(&pattern.problem(Shape { m: M, n: N, k: K }));
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let Some(text) = compile(source, &options) else { return };
        assert_eq!(PtxModule::parse(&text).unwrap().kernels().len(), 18);
    }
}
