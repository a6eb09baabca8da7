//! The names that every expression and template may use besides a family's own: the problem's and
//! the device's figures.

use tera::Context;

use crate::model::{Configuration, Device, Problem, Storage, Value};

/// The built-in names, each with what it means, in the order that documentation shows them.
pub const BUILT_INS: [(&str, &str); 25] = [
    ("M", "rows of C"),
    ("N", "columns of C"),
    ("K", "the summed dimension"),
    ("batch", "number of independent products"),
    ("dtype", "how elements are stored, such as 'f32'"),
    ("compute", "the arithmetic contract, such as 'f32'"),
    ("layout", "'nn', 'nt', 'tn' or 'tt'"),
    ("a_transposed", "whether A is stored K x M"),
    ("b_transposed", "whether B is stored N x K"),
    ("lda", "elements between rows of the stored A"),
    ("ldb", "elements between rows of the stored B"),
    ("ldc", "elements between rows of C"),
    ("element_bytes", "bytes of an element"),
    ("compute_capability", "10 x major + minor: 90 for 9.0"),
    ("sms", "streaming multiprocessors"),
    ("warp_size", "threads of a warp"),
    ("threads_per_block", "most threads of a block"),
    ("threads_per_sm", "most threads of an SM"),
    ("registers_per_block", "32-bit registers of a block"),
    ("registers_per_sm", "32-bit registers of an SM"),
    ("shared_bytes_per_block", "shared memory of a block, after opting in"),
    ("shared_bytes_per_sm", "shared memory of an SM"),
    ("shared_bytes_reserved", "shared memory that the system keeps of every block"),
    ("l2_bytes", "bytes of the L2 cache"),
    ("element", "the CUDA type of an element: `float` or `int`"),
];

/// Whether `name` is built in.
pub fn is_built_in(name: &str) -> bool {
    BUILT_INS.iter().any(|(known, _)| *known == name)
}

/// A scope that has the built-in names alone, of a problem whose operands are packed.
pub fn built_in_scope(problem: &Problem, device: &Device) -> Context {
    stored_scope(problem, &Storage::packed(problem), device)
}

/// A scope that has the built-in names alone.
pub fn stored_scope(problem: &Problem, storage: &Storage, device: &Device) -> Context {
    let [lda, ldb, ldc] = storage.leading_dimensions(problem);
    let mut scope = Context::new();
    scope.insert("M", &problem.shape.m);
    scope.insert("N", &problem.shape.n);
    scope.insert("K", &problem.shape.k);
    scope.insert("batch", &problem.batch);
    scope.insert("dtype", problem.dtype.name());
    scope.insert("compute", problem.compute.name());
    scope.insert("layout", problem.layout.name());
    scope.insert("a_transposed", &problem.layout.a_transposed());
    scope.insert("b_transposed", &problem.layout.b_transposed());
    scope.insert("lda", &lda);
    scope.insert("ldb", &ldb);
    scope.insert("ldc", &ldc);
    scope.insert("element_bytes", &problem.dtype.bytes());
    let capability = device.compute_capability;
    scope.insert("compute_capability", &(10 * capability.major + capability.minor));
    scope.insert("sms", &device.sms);
    scope.insert("warp_size", &device.warp_size);
    scope.insert("threads_per_block", &device.threads_per_block);
    scope.insert("threads_per_sm", &device.threads_per_sm);
    scope.insert("registers_per_block", &device.registers_per_block);
    scope.insert("registers_per_sm", &device.registers_per_sm);
    scope.insert("shared_bytes_per_block", &device.shared_bytes_per_block);
    scope.insert("shared_bytes_per_sm", &device.shared_bytes_per_sm);
    scope.insert("shared_bytes_reserved", &device.shared_bytes_reserved);
    scope.insert("l2_bytes", &device.l2_bytes);
    scope.insert("element", element_type(problem));
    scope
}

/// The CUDA C++ type of an element. The 16-bit types appear as their bits: the headers that would
/// name them are no part of the compiler.
fn element_type(problem: &Problem) -> &'static str {
    match problem.dtype {
        crate::model::Dtype::F32 => "float",
        crate::model::Dtype::I32 => "int",
        crate::model::Dtype::F16 | crate::model::Dtype::Bf16 => "unsigned short",
    }
}

/// Puts a value into a scope under `name`.
pub(crate) fn bind(scope: &mut Context, name: &str, value: &Value) {
    let value = match value {
        Value::Bool(value) => tera::Value::from(*value),
        Value::Int(value) => tera::Value::from(*value),
        Value::Float(value) => tera::Value::from(*value),
        Value::Text(value) => tera::Value::normal_string(value),
    };
    scope.insert_value(name.to_owned(), value);
}

/// Puts every parameter of `configuration` into a scope.
pub(crate) fn bind_all(scope: &mut Context, configuration: &Configuration) {
    for (name, value) in &configuration.0 {
        bind(scope, name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Shape};

    #[test]
    fn the_table_names_exactly_what_the_scope_has() {
        let problem = Problem::new(Shape { m: 1, n: 2, k: 3 }, Dtype::F32);
        let scope = built_in_scope(&problem, &Device::h200());
        for (name, _) in BUILT_INS {
            assert!(scope.contains_key(name), "{name}");
        }
    }
}
