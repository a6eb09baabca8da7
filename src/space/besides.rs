//! What a configuration does besides computing tiles of C, found by asking its launch expressions:
//! further launches, and memory that one launch leaves to the next. Like [`super::Footprint`], it knows
//! no family or parameter by name.

use super::Family;
use crate::model::{Configuration, Device, Problem, Shape};

/// An extent that blocks of usual sizes divide, small enough for any workspace to be counted.
const WIDE: u64 = 6720;

/// What is done besides, and how it grows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Besides {
    /// Launches after the first.
    pub launches: u32,
    /// Bytes of workspaces for each element of A.
    pub bytes_of_a: f64,
    /// For each element of B.
    pub bytes_of_b: f64,
    /// For each element of C.
    pub bytes_of_c: f64,
}

impl Besides {
    /// Of a configuration; nothing where its expressions cannot be evaluated.
    pub fn of(
        family: &Family,
        configuration: &Configuration,
        pattern: &Problem,
        device: &Device,
    ) -> Self {
        let asked = |m: u64, n: u64, k: u64| {
            let problem = Problem { shape: Shape { m, n, k }, batch: 1, ..*pattern };
            family.workspace_bytes(configuration, &problem, device).ok().map(|bytes| bytes as f64)
        };
        let problem = Problem { shape: Shape { m: WIDE, n: WIDE, k: WIDE }, batch: 1, ..*pattern };
        let extents = family.extents(configuration, &problem, device).unwrap_or_default();
        let launches = extents.iter().flatten().count().saturating_sub(1) as u32;
        let bytes = || {
            let all = asked(WIDE, WIDE, WIDE)?;
            let square = (WIDE * WIDE) as f64;
            // A extent that is doubled adds what grows with the two operands that have it.
            let more = |m, n, k| Some((asked(m, n, k)? - all) / square);
            let (a_c, b_c, a_b) = (
                more(2 * WIDE, WIDE, WIDE)?,
                more(WIDE, 2 * WIDE, WIDE)?,
                more(WIDE, WIDE, 2 * WIDE)?,
            );
            Some([a_b + a_c - b_c, a_b + b_c - a_c, a_c + b_c - a_b].map(|twice| twice / 2.0))
        };
        let [bytes_of_a, bytes_of_b, bytes_of_c] =
            bytes().unwrap_or_default().map(|bytes| bytes.max(0.0));
        Self { launches, bytes_of_a, bytes_of_b, bytes_of_c }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Value};
    use crate::space::Families;

    #[test]
    fn packing_and_parts_are_seen() {
        let (families, device) = (Families::built_in().unwrap(), Device::h200());
        let pipelined = families.iter().find(|family| family.name == "pipelined").unwrap();
        let problem = Problem::new("4096x4096x4096".parse().unwrap(), Dtype::F32);
        let default = pipelined.default_for(&problem, &device).unwrap().unwrap();
        for (pack, splits, expected) in [
            ("none", 1, Besides::default()),
            ("a", 1, Besides { launches: 1, bytes_of_a: 4.0, ..Besides::default() }),
            ("both", 1, Besides { launches: 1, bytes_of_a: 4.0, bytes_of_b: 4.0, bytes_of_c: 0.0 }),
            ("b", 8, Besides { launches: 2, bytes_of_a: 0.0, bytes_of_b: 4.0, bytes_of_c: 32.0 }),
        ] {
            let mut configuration = default.clone();
            configuration.0.insert("PACK".to_owned(), Value::Text(pack.to_owned()));
            configuration.0.insert("SPLIT_K".to_owned(), Value::Int(splits));
            let found = Besides::of(pipelined, &configuration, &problem, &device);
            assert_eq!(found, expected, "{pack} {splits}");
        }
    }
}
