//! The reference on the host: a triple loop in f64. Tests compare the device's reference with it;
//! it is too slow for tuning.

use crate::model::Problem;

/// Computes op(A) op(B) of every product of the batch, row-major, for packed operands.
pub fn triple_loop(problem: &Problem, a: &[f64], b: &[f64]) -> Vec<f64> {
    let (m, n, k) = (problem.shape.m as usize, problem.shape.n as usize, problem.shape.k as usize);
    let (lda, ldb) = (problem.lda() as usize, problem.ldb() as usize);
    let mut c = Vec::with_capacity(m * n * problem.batch as usize);
    for (a, b) in a.chunks_exact(m * k).zip(b.chunks_exact(k * n)) {
        for row in 0..m {
            for column in 0..n {
                let term = |k: usize| {
                    let a = if problem.layout.a_transposed() {
                        a[k * lda + row]
                    } else {
                        a[row * lda + k]
                    };
                    let b = if problem.layout.b_transposed() {
                        b[column * ldb + k]
                    } else {
                        b[k * ldb + column]
                    };
                    a * b
                };
                c.push((0..k).map(term).sum());
            }
        }
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Layout, Shape};

    #[test]
    fn all_layouts_give_the_same_product() {
        // A = [1 2 3; 4 5 6], B = [1 0; 0 1; 1 1], twice.
        let (a, a_t) = ([1., 2., 3., 4., 5., 6.], [1., 4., 2., 5., 3., 6.]);
        let (b, b_t) = ([1., 0., 0., 1., 1., 1.], [1., 0., 1., 0., 1., 1.]);
        let problem = Problem { batch: 2, ..Problem::new(Shape { m: 2, n: 2, k: 3 }, Dtype::F32) };
        for (layout, a, b) in
            [(Layout::Nn, a, b), (Layout::Nt, a, b_t), (Layout::Tn, a_t, b), (Layout::Tt, a_t, b_t)]
        {
            let c = triple_loop(&Problem { layout, ..problem }, &a.repeat(2), &b.repeat(2));
            assert_eq!(c, [4., 5., 10., 11.].repeat(2), "{layout}");
        }
    }
}
