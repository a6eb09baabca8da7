//! Sums of products on the host, for reference results. They are here because this crate is optimised
//! in tests too: unoptimised, they took 70 % of the tests that execute kernels.

/// Adds the products of `a` and the elements of `b` to `sums`, and their magnitudes to `magnitudes`.
/// All slices have the same length; elements beyond the shortest are left alone.
pub fn add_products(a: f64, b: &[f64], sums: &mut [f64], magnitudes: &mut [f64]) {
    for ((sum, magnitude), b) in sums.iter_mut().zip(magnitudes).zip(b) {
        let term = a * b;
        *sum += term;
        *magnitude += term.abs();
    }
}
