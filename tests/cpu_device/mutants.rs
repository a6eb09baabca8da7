//! Kernels with a planted fault: what the checks report, and what only a comparison with the
//! reference shows.

use super::harness::{Case, Filling, checked, compile, problem, rendered_for};
use gemm_tune::cpu::{LaunchError, LaunchOptions, PtxModule, ViolationKind};
use gemm_tune::model::{Device, Dtype};

/// How a fault comes to light.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caught {
    /// By a check, at a line of the source that contains a text.
    By(ViolationKind, &'static str),
    /// The kernel breaks no rule, but its result is wrong.
    ByComparison,
}

/// A fault.
struct Mutant {
    name: &'static str,
    family: &'static str,
    values: &'static [(&'static str, i64)],
    shape: &'static str,
    /// What is replaced where it stands first, and by what.
    change: (&'static str, &'static str),
    caught: Caught,
}

/// A small block of the family with the most parameters.
const SMALL: &[(&str, i64)] = &[
    ("BM", 32),
    ("BN", 32),
    ("TM", 4),
    ("TN", 4),
    ("RUNS_M", 1),
    ("RUNS_N", 1),
    ("PAD", 0),
    ("DOUBLE_BUFFER", 1),
];

const SINGLE: &[(&str, i64)] = &[
    ("BM", 32),
    ("BN", 32),
    ("TM", 4),
    ("TN", 4),
    ("RUNS_M", 1),
    ("RUNS_N", 1),
    ("PAD", 0),
    ("DOUBLE_BUFFER", 0),
];

/// A small block of `pipelined`, which takes operands as they lie.
const RING: [(&str, i64); 11] = [
    ("PACK", 0),
    ("BM", 32),
    ("BN", 32),
    ("TM", 4),
    ("TN", 4),
    ("LANES_M", 4),
    ("BK", 16),
    ("STAGES", 3),
    ("FRAGMENT_STAGES", 1),
    ("MIN_BLOCKS", 2),
    ("UNROLL", 16),
];

/// Two parts of K, which add to C.
const ADDING: &[(&str, i64)] = &with(("SPLIT_K", 2), ("REDUCTION", 2));

/// [`RING`] and two more.
const fn with(one: (&'static str, i64), other: (&'static str, i64)) -> [(&'static str, i64); 13] {
    let mut all = [one; 13];
    let mut at = 0;
    while at < RING.len() {
        all[at] = RING[at];
        at += 1;
    }
    all[12] = other;
    all
}

use Caught::{By, ByComparison};
use ViolationKind::{
    BarrierDivergence, Deadlock, Misaligned, OutOfBounds, Race, Runaway, Unwritten,
};

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "no barrier between filling a tile and reading it",
        family: "tiled",
        values: &[],
        shape: "33x20x40",
        change: ("__syncthreads();\n\n#pragma", "\n#pragma"),
        caught: By(Race, "sum += As[y][k] * Bs[k][x]"),
    },
    Mutant {
        name: "no barrier between reading a tile and filling it again",
        family: "tiled",
        values: &[],
        shape: "33x20x40",
        change: ("Bs[k][x];\n            __syncthreads();", "Bs[k][x];"),
        caught: By(Race, "As[y][k + x] ="),
    },
    Mutant {
        name: "no barrier between the stages of a double buffer",
        family: "blocktile",
        values: SMALL,
        shape: "33x40x50",
        change: ("put(stage);\n            __syncthreads();", "put(stage);"),
        caught: By(Race, "&As[stage][k]"),
    },
    Mutant {
        name: "a double buffer filled where it is read",
        family: "blocktile",
        values: SMALL,
        shape: "33x40x50",
        change: ("stage ^= 1;\n            put(stage);", "put(stage);\n            stage ^= 1;"),
        caught: By(Race, "As[stage][a_k[i] + j][a_m[i]] ="),
    },
    Mutant {
        name: "a double buffer whose stages are three",
        family: "blocktile",
        values: SMALL,
        shape: "33x40x50",
        change: ("stage ^= 1;", "stage = stage + 1;"),
        caught: By(OutOfBounds, "As[stage][a_k[i] + j][a_m[i]] ="),
    },
    Mutant {
        name: "a row too many",
        family: "naive",
        values: &[],
        shape: "33x20x17",
        change: ("row >= M", "row > M"),
        caught: By(OutOfBounds, "return a["),
    },
    Mutant {
        name: "a row too many stored",
        family: "tiled",
        values: &[],
        shape: "33x20x17",
        change: (
            "if (row < M && column < N)\n            store",
            "if (row <= M && column < N)\n            store",
        ),
        caught: By(OutOfBounds, "*c = beta == 0"),
    },
    Mutant {
        name: "a step too many along K",
        family: "tiled",
        values: &[],
        shape: "16x20x17",
        change: ("k0 + k + x < K", "k0 + k + x <= K"),
        caught: By(OutOfBounds, "return a["),
    },
    Mutant {
        name: "the rows of A as far apart as those of C",
        family: "naive",
        values: &[],
        shape: "33x65x17",
        change: ("(long long)row * lda + k", "(long long)row * 65 + k"),
        caught: By(OutOfBounds, "return a["),
    },
    Mutant {
        name: "no zeros beyond the edge of A",
        family: "tiled",
        values: &[],
        shape: "33x20x5",
        change: (
            "As[y][k + x] = row < M && k0 + k + x < K ?",
            "if (row < M && k0 + k + x < K) As[y][k + x] = true ?",
        ),
        caught: By(Unwritten, "sum += As[y][k] * Bs[k][x]"),
    },
    Mutant {
        name: "a tile read past its end",
        family: "tiled",
        values: &[],
        shape: "32x32x32",
        change: ("As[y][k] * Bs[k][x]", "As[y][k + 1] * Bs[k][x]"),
        caught: By(OutOfBounds, "sum += As[y][k + 1] * Bs[k][x]"),
    },
    Mutant {
        name: "a tile written past its end",
        family: "blocktile",
        values: SINGLE,
        shape: "33x40x50",
        change: ("As[stage][a_k[i] + j][a_m[i]] =", "As[stage][a_k[i] + j + 1][a_m[i]] ="),
        caught: By(OutOfBounds, "As[stage][a_k[i] + j + 1][a_m[i]] ="),
    },
    Mutant {
        name: "vectors that begin between their places",
        family: "blocktile",
        values: &[],
        shape: "64x64x64",
        change: ("a + a_from[i] + k0)", "a + a_from[i] + k0 + 1)"),
        caught: By(Misaligned, "a + a_from[i] + k0 + 1)"),
    },
    Mutant {
        name: "a barrier that some lanes skip",
        family: "tiled",
        values: &[],
        shape: "33x20x40",
        change: ("__syncthreads();", "if (column < N) __syncthreads();"),
        caught: By(BarrierDivergence, "if (column < N) __syncthreads();"),
    },
    Mutant {
        name: "a barrier that some warps skip",
        family: "tiled",
        values: &[],
        shape: "33x20x40",
        change: ("__syncthreads();", "if (y < 2) __syncthreads();"),
        caught: By(Race, "sum += As[y][k] * Bs[k][x]"),
    },
    Mutant {
        name: "a barrier for more threads than come",
        family: "tiled",
        values: &[],
        shape: "33x20x40",
        change: (
            "__syncthreads();",
            "if (y < 2) asm volatile(\"bar.sync 1, 128;\"); __syncthreads();",
        ),
        caught: By(Deadlock, "bar.sync 1, 128;"),
    },
    Mutant {
        name: "threads that leave before they have filled their part",
        family: "tiled",
        values: &[],
        shape: "33x20x40",
        change: (
            "const int column = block_column + x;",
            "const int column = block_column + x; if (column >= N) return;",
        ),
        caught: By(Unwritten, "sum += As[y][k] * Bs[k][x]"),
    },
    Mutant {
        name: "a loop that does not advance",
        family: "tiled",
        values: &[],
        shape: "33x20x40",
        change: ("k0 < K; k0 += K_CHUNK", "k0 < K; k0 += K_CHUNK / 32"),
        caught: By(Runaway, ""),
    },
    Mutant {
        name: "B read as if it were A",
        family: "tiled",
        values: &[],
        shape: "33x20x40",
        change: ("As[y][k] * Bs[k][x]", "As[y][k] * Bs[x][k]"),
        caught: ByComparison,
    },
    Mutant {
        name: "a sum that begins with whatever was there",
        family: "naive",
        values: &[],
        shape: "33x20x40",
        change: ("float sum = 0;", "float sum;"),
        caught: ByComparison,
    },
    Mutant {
        name: "C read although beta is 0",
        family: "naive",
        values: &[],
        shape: "33x20x40",
        change: ("beta == 0 ? alpha * sum : ", ""),
        caught: ByComparison,
    },
    Mutant {
        name: "the last step along K left out",
        family: "naive",
        values: &[],
        shape: "33x20x40",
        change: ("k < K; ++k", "k < K - 1; ++k"),
        caught: ByComparison,
    },
    Mutant {
        name: "parts added to what C was before",
        family: "pipelined",
        values: ADDING,
        shape: "33x40x200",
        change: ("        *stored = result;\n", ""),
        caught: ByComparison,
    },
    Mutant {
        name: "a part that is stored and not added",
        family: "pipelined",
        values: ADDING,
        shape: "33x40x200",
        change: ("red.global.add.v4.f32", "st.global.v4.f32"),
        caught: ByComparison,
    },
    Mutant {
        name: "vectors that are added between their places",
        family: "pipelined",
        values: ADDING,
        shape: "33x40x200",
        change: ("* problem.ldc + column], result)", "* problem.ldc + column + 1], result)"),
        caught: By(Misaligned, "red.global.add.v4.f32"),
    },
    Mutant {
        name: "a row too many that parts are added to",
        family: "pipelined",
        values: ADDING,
        shape: "33x40x200",
        change: (
            "if (row >= problem.M || column >= problem.N)",
            "if (row > problem.M || column >= problem.N)",
        ),
        caught: By(OutOfBounds, "red.global.add.v4.f32"),
    },
];

/// How a mutant comes to light; `None` without a compiler.
fn fate(mutant: &Mutant) -> Option<Result<Caught, String>> {
    // Sums that are exact in any order, and few SMs, so that blocks have several tiles.
    let problem = problem(mutant.shape, Dtype::F32, "nn");
    let case = Case { filling: Filling::Exact, ..Case::new(problem) };
    let device = Device { sms: 2, ..Device::h200() };
    let rendered = rendered_for(&device, mutant.family, &case.problem, mutant.values);
    let (from, to) = mutant.change;
    assert!(
        rendered.source.contains(from),
        "{}: `{from}` is not in\n{}",
        mutant.name,
        rendered.source
    );
    let source = rendered.source.replacen(from, to, 1);
    let program = PtxModule::parse(&compile(&source, &[])?).unwrap();
    let options = LaunchOptions { instruction_budget: 1 << 17, ..checked() };
    Some(match case.run(&program, &rendered.plan, &options) {
        Ok((result, _)) => {
            let expected = case.expected();
            let right = result.iter().zip(&expected).all(|(got, wanted)| wanted.contains(got));
            if right { Err("it went unnoticed".to_owned()) } else { Ok(ByComparison) }
        }
        Err(LaunchError::Violation(violation)) => {
            let line = violation.source_line.as_ref().map_or(0, |line| line.line as usize);
            let text = source.lines().nth(line.wrapping_sub(1)).unwrap_or("");
            match mutant.caught {
                By(kind, at) if kind == violation.kind && text.contains(at) => Ok(mutant.caught),
                _ => Err(format!("{violation}\n    at `{}`", text.trim())),
            }
        }
        Err(other) => Err(other.to_string()),
    })
}

#[test]
fn every_planted_fault_is_detected_by_name_and_line() {
    let mut wrong = Vec::new();
    for mutant in MUTANTS {
        let Some(fate) = fate(mutant) else { return };
        match fate {
            Ok(caught) if caught == mutant.caught => {}
            other => {
                wrong.push(format!("{}: expected {:?}, got {other:#?}", mutant.name, mutant.caught))
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    let by_checks = MUTANTS.iter().filter(|mutant| mutant.caught != ByComparison).count();
    assert!(by_checks >= 12, "{by_checks}");
}
