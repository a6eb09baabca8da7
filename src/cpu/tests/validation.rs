//! The kernels with which this program validates others run here too: they need binary64, 64-bit
//! integers and atomic operations.

use super::rig::{checked, compile};
use crate::cpu::{Memory, Parameter, Program, Tracking, launch};

const M: u64 = 70;
const N: u64 = 66;
const K: u64 = 19;

/// Calls a kernel with blocks of 256 threads.
fn call(program: &Program, memory: &Memory, name: &str, blocks: u32, parameters: &[Parameter]) {
    let kernel = program.kernel(name).unwrap();
    launch(kernel, ([blocks, 1, 1], [256, 1, 1]), 0, parameters, memory, &checked())
        .unwrap_or_else(|error| panic!("{name}: {error}"));
}

fn longs(memory: &Memory, address: u64, count: u64) -> Vec<u64> {
    let bytes = memory.read(address, 8 * count).unwrap();
    bytes.chunks(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap())).collect()
}

fn floats(memory: &Memory, address: u64, count: u64) -> Vec<f32> {
    let bytes = memory.read(address, 4 * count).unwrap();
    bytes.chunks(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

#[test]
fn validation_fills_multiplies_and_finds_the_one_wrong_element() {
    use Parameter::{Long, Word};
    let source = include_str!("../../validate/kernels.cu");
    let Some(ptx) = compile(source, &["-DELEMENT_F32"]) else { return };
    let program = Program::parse(&ptx).unwrap();
    assert_eq!(program.kernels().len(), 12);

    let mut memory = Memory::new(Tracking::Written);
    let mut allocate = |elements: u64| memory.allocate(4 * elements).unwrap();
    let (a, b, c) = (allocate(M * K), allocate(K * N), allocate(M * N));
    let (sums, changed, verdict) = (allocate(M * N), allocate(2), allocate(10));
    let memory = memory;
    for (address, count, seed) in [(a, M * K, 1), (b, K * N, 2)] {
        call(
            &program,
            &memory,
            "fill_values",
            3,
            &[Long(address), Long(count), Word(0), Long(seed)],
        );
    }
    let (left, right) = (floats(&memory, a, M * K), floats(&memory, b, K * N));
    assert!(left.iter().all(|x| x.abs() >= 1.0 && x.abs() <= 3.0 && x.fract() == 0.0));

    memory.fill(changed, 0, 2).unwrap();
    let unchanged = [Long(a), Long(M * K), Word(0), Long(1), Long(changed)];
    call(&program, &memory, "count_changed_values", 2, &unchanged);
    assert_eq!(longs(&memory, changed, 1), [0]);
    call(
        &program,
        &memory,
        "count_changed_words",
        2,
        &[Long(a), Long(M * K), Word(7), Long(changed)],
    );
    assert_eq!(longs(&memory, changed, 1), [M * K]);

    let blocks = M.div_ceil(64) * N.div_ceil(64);
    let int = |value: u64| Word(value as u32);
    let shape = [int(M), int(N), int(K), int(1), int(K), int(N), int(0), int(0)];
    let arguments = [&[Long(a), Long(b), Long(sums)][..], &shape].concat();
    call(&program, &memory, "reference_small", blocks as u32, &arguments);
    let got = floats(&memory, sums, M * N);
    for (at, got) in got.iter().enumerate() {
        let (row, column) = (at as u64 / N, at as u64 % N);
        let product = |k: u64| left[(row * K + k) as usize] * right[(k * N + column) as usize];
        assert_eq!(*got, (0..K).map(product).sum::<f32>(), "{row}, {column}");
    }

    let bytes: Vec<u8> = got.iter().flat_map(|x| x.to_le_bytes()).collect();
    memory.write(c, &bytes).unwrap();
    memory.write(c + 4 * 777, &(got[777] + 2.5).to_le_bytes()).unwrap();
    memory.fill(verdict, 0, 10).unwrap();
    memory.write(verdict + 16, &[0xff; 8]).unwrap();
    let compared = [Long(c), Long(sums), Long(M * N), Long(verdict)];
    call(&program, &memory, "compare_small", 2, &compared);
    call(&program, &memory, "locate_small", 2, &compared);
    call(&program, &memory, "describe_small", 1, &[Long(c), Long(sums), Long(verdict)]);
    let found = longs(&memory, verdict, 5);
    assert_eq!((found[0], f64::from_bits(found[1]), found[2]), (1, 2.5, 777));
    assert_eq!(f64::from_bits(found[3]) - f64::from_bits(found[4]), 2.5);
}
