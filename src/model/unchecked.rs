//! Shapes and problems as files have them: what no command accepts is refused when it is read, so that
//! no arithmetic on extents meets it.

use serde::Deserialize;

use super::epilogue::Epilogue;
use super::gemm_type::GemmType;
use super::problem::{Layout, MAX_BATCH, Problem, Shape, ShapeError};

#[derive(Deserialize)]
pub(super) struct UncheckedShape {
    m: u64,
    n: u64,
    k: u64,
}

impl TryFrom<UncheckedShape> for Shape {
    type Error = ShapeError;

    fn try_from(UncheckedShape { m, n, k }: UncheckedShape) -> Result<Self, ShapeError> {
        format!("{m}x{n}x{k}").parse()
    }
}

#[derive(Deserialize)]
pub(super) struct UncheckedProblem {
    shape: Shape,
    batch: u64,
    #[serde(flatten)]
    types: GemmType,
    layout: Layout,
    #[serde(default)]
    epilogue: Epilogue,
}

impl TryFrom<UncheckedProblem> for Problem {
    type Error = String;

    fn try_from(unchecked: UncheckedProblem) -> Result<Self, String> {
        let UncheckedProblem { shape, batch, types, layout, epilogue } = unchecked;
        if !(1..=MAX_BATCH).contains(&batch) {
            return Err(format!("batch is {batch}, not within 1 to {MAX_BATCH}"));
        }
        epilogue.check(types).map_err(|error| error.to_string())?;
        let problem = Self { shape, batch, types, layout, epilogue };
        problem.check_size().map_err(|error| error.to_string())?;
        Ok(problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_that_no_command_accepts_is_not_read() {
        let read = |shape: [u64; 3], batch: u64| {
            let [m, n, k] = shape;
            let text = format!(
                r#"{{"shape":{{"m":{m},"n":{n},"k":{k}}},"batch":{batch},"dtype":"f32","compute":"f32","layout":"nn"}}"#
            );
            serde_json::from_str::<Problem>(&text).map_err(|error| error.to_string())
        };
        let problem = read([8, 9, 10], 3).unwrap();
        let text = serde_json::to_string(&problem).unwrap();
        assert_eq!(serde_json::from_str::<Problem>(&text).unwrap(), problem);
        for (shape, batch, words) in [
            ([0, 8, 8], 1, "`0x8x8` has M = 0"),
            ([8, 8, u64::MAX], 1, "K is above"),
            ([8, 8, 8], 0, "batch is 0"),
            ([8, 8, 8], u64::MAX, "batch is 18446744073709551615"),
            ([1 << 30, 1 << 30, 1], 2, "operand C would take"),
        ] {
            let error = read(shape, batch).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
