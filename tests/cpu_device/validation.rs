//! The validation kernels, executed for both element types and compared with the host. They need
//! binary64, 64-bit integers and atomic operations.

use super::harness::{checked, compile};
use Element::{F32, I32};
use KernelParameter::{Long, Word};
use gemm_tune::cpu::{GlobalMemory, KernelParameter, PtxModule, WriteTracking, launch};

const M: u64 = 70;
const N: u64 = 66;
const K: u64 = 19;
const BATCH: u64 = 2;
const PRODUCTS: u64 = BATCH * M * N;

/// Kinds of values, as numbered by `fill_values`.
const SMALL: u32 = 0;
const UNIFORM: u32 = 1;

/// Element type. The host computes in binary64, which represents both types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    F32,
    I32,
}

impl Element {
    fn bits(self, value: f64) -> u32 {
        match self {
            F32 => (value as f32).to_bits(),
            I32 => (value as i64 as i32).cast_unsigned(),
        }
    }

    fn value(self, bits: u32) -> f64 {
        match self {
            F32 => f32::from_bits(bits).into(),
            I32 => bits.cast_signed().into(),
        }
    }

    /// The element that `fill_values` writes at an index.
    fn filled(self, kind: u32, index: u64, seed: u64) -> f64 {
        let mixed = mix(index, seed);
        match (kind, self) {
            (SMALL, _) => [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0][((mixed >> 32) % 6) as usize],
            (_, F32) => (mixed >> 40) as f64 / 8_388_608.0 - 1.0,
            (_, I32) => ((mixed >> 32) % 2001) as f64 - 1000.0,
        }
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

/// Kernels for one element type, and memory.
struct Lab {
    element: Element,
    program: PtxModule,
    memory: GlobalMemory,
}

impl Lab {
    /// One for each element type; none without a compiler.
    fn both() -> Vec<Self> {
        let source = include_str!("../../src/validate/kernels.cu");
        let lab = |(element, define): (Element, &str)| {
            let program = PtxModule::parse(&compile(source, &[define])?).unwrap();
            assert_eq!(program.kernels().len(), 13);
            Some(Self { element, program, memory: GlobalMemory::new(WriteTracking::Written) })
        };
        [(F32, "-DELEMENT_F32"), (I32, "-DELEMENT_I32")].into_iter().filter_map(lab).collect()
    }

    /// Allocates words and returns their address.
    fn words(&mut self, count: u64) -> u64 {
        self.memory.allocate(4 * count).unwrap()
    }

    /// Allocates elements and fills them by `fill_values`.
    fn filled(&mut self, count: u64, kind: u32, seed: u64) -> u64 {
        let address = self.words(count);
        self.call("fill_values", 3, &[Long(address), Long(count), Word(kind), Long(seed)]);
        address
    }

    /// Launches a kernel with `blocks` blocks of 256 threads and all checks.
    fn call(&self, name: &str, blocks: u64, parameters: &[KernelParameter]) {
        let kernel = self.program.kernel(name).unwrap();
        let extents = ([blocks as u32, 1, 1], [256, 1, 1]);
        launch(kernel, extents, 0, parameters, &self.memory, &checked())
            .unwrap_or_else(|error| panic!("{:?} {name}: {error}", self.element));
    }

    fn bits(&self, address: u64, count: u64) -> Vec<u32> {
        let bytes = self.memory.read(address, 4 * count).unwrap();
        bytes.chunks(4).map(|chunk| u32::from_le_bytes(chunk.try_into().unwrap())).collect()
    }

    fn floats(&self, address: u64, count: u64) -> Vec<f32> {
        self.bits(address, count).into_iter().map(f32::from_bits).collect()
    }

    fn longs(&self, address: u64, count: u64) -> Vec<u64> {
        let bytes = self.memory.read(address, 8 * count).unwrap();
        bytes.chunks(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap())).collect()
    }

    fn doubles(&self, address: u64, count: u64) -> Vec<f64> {
        self.longs(address, count).into_iter().map(f64::from_bits).collect()
    }

    fn set(&self, address: u64, index: u64, bits: u32) {
        self.memory.write(address + 4 * index, &bits.to_le_bytes()).unwrap();
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
fn products(element: Element, kind: u32, a_transposed: bool, b_transposed: bool) -> Vec<[f64; 2]> {
    let product = |batch: u64, row: u64, column: u64| {
        let term = |k: u64| {
            let a = if a_transposed { k * M + row } else { row * K + k };
            let b = if b_transposed { column * K + k } else { k * N + column };
            element.filled(kind, batch * M * K + a, 1) * element.filled(kind, batch * K * N + b, 2)
        };
        [(0..K).map(term).sum(), (0..K).map(|k| term(k).abs()).sum()]
    };
    (0..PRODUCTS).map(|at| product(at / N / M, at / N % M, at % N)).collect()
}

#[test]
fn operands_are_filled_as_on_the_host_and_changes_are_counted() {
    for mut lab in Lab::both() {
        let count = 1000;
        let changed = lab.words(2);
        for kind in [SMALL, UNIFORM] {
            let filled = lab.filled(count, kind, 7);
            for (at, bits) in lab.bits(filled, count).into_iter().enumerate() {
                let expected = lab.element.filled(kind, at as u64, 7);
                assert_eq!(lab.element.value(bits), expected, "{:?} {at}", lab.element);
            }
            for (planted, expected) in [(&[][..], 0), (&[0, 511, 999], 3)] {
                planted.iter().for_each(|at| lab.set(filled, *at, lab.element.bits(77.0)));
                lab.memory.fill_with(changed, 2, |_| 0).unwrap();
                let arguments = [Long(filled), Long(count), Word(kind), Long(7), Long(changed)];
                lab.call("count_changed_values", 2, &arguments);
                assert_eq!(lab.longs(changed, 1), [expected], "{:?}", lab.element);
            }
        }
        let guard = lab.words(count);
        lab.call("fill_words", 2, &[Long(guard), Long(count), Word(0xdead_beef)]);
        assert!(lab.bits(guard, count).iter().all(|word| *word == 0xdead_beef));
        for (planted, expected) in [(&[][..], 0), (&[1, 998], 2)] {
            planted.iter().for_each(|at| lab.set(guard, *at, 5));
            lab.memory.fill_with(changed, 2, |_| 0).unwrap();
            let arguments = [Long(guard), Long(count), Word(0xdead_beef), Long(changed)];
            lab.call("count_changed_words", 2, &arguments);
            assert_eq!(lab.longs(changed, 1), [expected], "{:?}", lab.element);
        }
    }
}

#[test]
fn two_buffers_are_compared_word_by_word() {
    for mut lab in Lab::both() {
        let count = 1000;
        let (one, other) = (lab.filled(count, UNIFORM, 7), lab.filled(count, UNIFORM, 7));
        let different = lab.words(2);
        for (planted, expected) in [(&[][..], 0), (&[0, 256, 999], 3)] {
            planted.iter().for_each(|at| lab.set(other, *at, lab.element.bits(77.0)));
            lab.memory.fill_with(different, 2, |_| 0).unwrap();
            let arguments = [Long(one), Long(other), Long(count), Long(different)];
            lab.call("count_different_words", 2, &arguments);
            assert_eq!(lab.longs(different, 1), [expected], "{:?}", lab.element);
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
    for mut lab in Lab::both() {
        for (a_transposed, b_transposed) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            for kind in [SMALL, UNIFORM] {
                let a = lab.filled(BATCH * M * K, kind, 1);
                let b = lab.filled(BATCH * K * N, kind, 2);
                let (sums, magnitudes) = (lab.words(2 * PRODUCTS), lab.words(PRODUCTS));
                let shape = shape(a_transposed, b_transposed);
                let expected = products(lab.element, kind, a_transposed, b_transposed);
                if kind == SMALL {
                    let arguments = [&[Long(a), Long(b), Long(sums)][..], &shape].concat();
                    lab.call("reference_small", blocks, &arguments);
                    let expected: Vec<_> = expected.iter().map(|[sum, _]| *sum as f32).collect();
                    assert_eq!(lab.floats(sums, PRODUCTS), expected, "{:?}", lab.element);
                    continue;
                }
                let pointers = [Long(a), Long(b), Long(sums), Long(magnitudes)];
                lab.call("reference_uniform", blocks, &[&pointers[..], &shape].concat());
                let (of_sums, of_magnitudes): (Vec<_>, Vec<_>) =
                    expected.iter().map(|[sum, magnitude]| (*sum, *magnitude as f32)).unzip();
                assert_eq!(lab.doubles(sums, PRODUCTS), of_sums, "{:?}", lab.element);
                assert_eq!(lab.floats(magnitudes, PRODUCTS), of_magnitudes, "{:?}", lab.element);
            }
        }
    }
}

/// Planted errors (index and size), the number of errors to find, and the index of the largest.
type Planted = (&'static [(u64, f64)], u64, Option<u64>);

/// The comparison must find the largest error at any index, and the first of equal ones.
const PLANTED: [Planted; 5] = [
    (&[], 0, None),
    (&[(777, 2.0)], 1, Some(777)),
    (&[(5, 2.0), (PRODUCTS - 1, 64.0)], 2, Some(PRODUCTS - 1)),
    (&[(300, -64.0), (4000, 2.0)], 2, Some(300)),
    (&[(4001, 8.0), (4000, 8.0), (4002, 8.0)], 3, Some(4000)),
];

#[test]
fn small_products_are_compared_exactly_and_the_worst_element_is_described() {
    for mut lab in Lab::both() {
        let sums: Vec<f64> =
            products(lab.element, SMALL, false, false).iter().map(|[sum, _]| *sum).collect();
        let (c, expected) = (lab.words(PRODUCTS), lab.words(PRODUCTS));
        for (planted, wrong, at) in PLANTED {
            for (index, sum) in sums.iter().enumerate() {
                lab.set(c, index as u64, lab.element.bits(*sum));
                lab.set(expected, index as u64, (*sum as f32).to_bits());
            }
            for (index, by) in planted {
                lab.set(c, *index, lab.element.bits(sums[*index as usize] + by));
            }
            let verdict = lab.verdict();
            let arguments = [Long(c), Long(expected), Long(PRODUCTS), Long(verdict)];
            lab.call("compare_small", 2, &arguments);
            lab.call("locate_small", 2, &arguments);
            lab.call("describe_small", 1, &[Long(c), Long(expected), Long(verdict)]);
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
    assert_eq!((found[0], f64::from_bits(found[1])), (wrong, largest), "{:?}", lab.element);
    assert_eq!(found[2], at.unwrap_or(u64::MAX), "{:?}", lab.element);
    let (got, expected) = at.map_or((0.0, 0.0), described);
    assert_eq!((f64::from_bits(found[3]), f64::from_bits(found[4])), (got, expected));
}

/// alpha op(A) op(B) + beta C0 and the unit of its error, as in `compare_uniform`.
fn scaled(element: Element, sum: f64, magnitude: f64, c0: f64) -> (f64, f64) {
    match element {
        F32 => {
            let expected = ALPHA * sum + BETA * c0;
            (expected, ALPHA.abs() * f64::from(magnitude as f32) + (BETA * c0).abs())
        }
        I32 => {
            let word = |value: f64| element.bits(value);
            let product = word(ALPHA).wrapping_mul(sum as i64 as u32);
            let bits = product.wrapping_add(word(BETA).wrapping_mul(word(c0)));
            (element.value(bits), 1.0)
        }
    }
}

/// Integral, so that both types can represent them; integer products overflow.
const ALPHA: f64 = 65_537.0;
const BETA: f64 = -3.0;

#[test]
fn uniform_products_are_compared_within_a_bound() {
    let c_seed = 3;
    // A part that begins beyond the indices of 32 bits.
    let first = (1 << 33) + 5;
    for mut lab in Lab::both() {
        let element = lab.element;
        let products = products(element, UNIFORM, false, false);
        let (c, sums, magnitudes) =
            (lab.words(PRODUCTS), lab.words(2 * PRODUCTS), lab.words(PRODUCTS));
        for (at, [sum, magnitude]) in products.iter().enumerate() {
            lab.memory.write(sums + 8 * at as u64, &sum.to_le_bytes()).unwrap();
            lab.set(magnitudes, at as u64, (*magnitude as f32).to_bits());
        }
        let scaled: Vec<(f64, f64)> = (products.iter().enumerate())
            .map(|(at, [sum, magnitude])| {
                let c0 = element.filled(UNIFORM, first + at as u64, c_seed);
                scaled(element, *sum, *magnitude, c0)
            })
            .collect();
        for (planted, wrong, at) in PLANTED {
            // Kernel result: rounded once, plus the planted errors in units of the error bound.
            let mut results: Vec<f64> =
                scaled.iter().map(|(sum, _)| element.value(element.bits(*sum))).collect();
            for (index, by) in planted {
                let (sum, unit) = scaled[*index as usize];
                results[*index as usize] = element.value(element.bits(sum + by * unit));
            }
            results.iter().enumerate().for_each(|(at, c_at)| {
                lab.set(c, at as u64, element.bits(*c_at));
            });
            let errors: Vec<f64> = (results.iter().zip(&scaled))
                .map(|(got, (sum, unit))| (got - sum).abs() / unit)
                .collect();
            let largest = errors.iter().copied().fold(0.0, f64::max);
            // No two errors in binary32 are equal.
            let at = at.map(|_| errors.iter().position(|error| *error == largest).unwrap() as u64);

            let verdict = lab.verdict();
            let operands = [Long(c), Long(sums), Long(magnitudes)];
            let [alpha, beta] = [ALPHA, BETA].map(|factor| Word(element.bits(factor)));
            let scale = [alpha, beta, Long(c_seed), Long(first)];
            let within = [KernelParameter::from(1e-6_f32), Long(verdict)];
            let compared = [&operands[..], &[Long(PRODUCTS)], &scale, &within].concat();
            lab.call("compare_uniform", 2, &compared);
            let located = [&operands[..], &[Long(PRODUCTS)], &scale, &[Long(verdict)]].concat();
            lab.call("locate_uniform", 2, &located);
            let described = [&operands[..], &scale, &[Long(verdict)]].concat();
            lab.call("describe_uniform", 1, &described);
            check_verdict(&lab, verdict, (wrong, largest, at), |at| {
                (results[at as usize], scaled[at as usize].0)
            });
        }
    }
}

#[test]
fn a_nan_is_the_largest_error() {
    for mut lab in Lab::both().into_iter().filter(|lab| lab.element == F32) {
        let (c, sums) = (lab.words(100), lab.words(100));
        lab.memory.fill_with(c, 100, |_| 0).unwrap();
        lab.memory.fill_with(sums, 100, |_| 0).unwrap();
        lab.set(c, 40, f32::MAX.to_bits());
        lab.set(c, 50, f32::NAN.to_bits());
        let verdict = lab.verdict();
        let arguments = [Long(c), Long(sums), Long(100), Long(verdict)];
        lab.call("compare_small", 1, &arguments);
        lab.call("locate_small", 1, &arguments);
        let found = lab.longs(verdict, 3);
        assert_eq!((found[0], f64::from_bits(found[1]), found[2]), (2, f64::INFINITY, 50));
    }
}
