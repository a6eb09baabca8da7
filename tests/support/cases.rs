//! How many cases a test runs: some of them by default, all with `GEMM_TUNE_TESTS=all`.

use std::env;

const VARIABLE: &str = "GEMM_TUNE_TESTS";

/// `all` with the switch, `some` without.
///
/// # Panics
/// The switch has an unknown value.
pub(crate) fn cases(some: usize, all: usize) -> usize {
    chosen(&env::var(VARIABLE).unwrap_or_default(), some, all)
}

fn chosen(value: &str, some: usize, all: usize) -> usize {
    match value {
        "" => some,
        "all" => all,
        other => panic!("{VARIABLE} is `{other}`: set it to `all` or not at all"),
    }
}

mod tests {
    use super::*;

    #[test]
    fn all_cases_run_where_the_switch_is_set() {
        assert_eq!((chosen("", 2, 9), chosen("all", 2, 9)), (2, 9));
        assert!(std::panic::catch_unwind(|| chosen("some", 2, 9)).is_err());
    }
}
