//! Names of expressions and templates besides a family's own, and the values of all names for one
//! problem, device and configuration.

use super::formula::{OPEN, Slot, Term};
use crate::model::{Device, Dtype, GemmType, Problem, Storage};

/// The built-in names, each with what it means. Their slots are their places here.
pub const BUILT_INS: [(&str, &str); 34] = [
    ("M", "rows of C"),
    ("N", "columns of C"),
    ("K", "the summed dimension"),
    ("batch", "number of independent products"),
    ("lda", "elements between rows of the stored A"),
    ("ldb", "elements between rows of the stored B"),
    ("ldc", "elements between rows of C"),
    ("dtype", "the dtype of A, such as 'f32'"),
    ("b_dtype", "the dtype of B"),
    ("out_dtype", "the dtype of C and D"),
    ("compute", "the arithmetic contract, such as 'f32'"),
    ("layout", "'nn', 'nt', 'tn' or 'tt'"),
    ("epilogue", "what follows the product, such as 'bias,gelu', or ''"),
    ("a_transposed", "whether A is stored K x M"),
    ("b_transposed", "whether B is stored N x K"),
    ("element_bytes", "bytes of an element of A"),
    ("b_element_bytes", "bytes of an element of B"),
    ("out_element_bytes", "bytes of an element of C and D"),
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
    (
        "element",
        "the CUDA type of an element of A: `float`, or `unsigned short` for the bits of f16 and bf16",
    ),
    ("b_element", "the CUDA type of an element of B"),
    ("out_element", "the CUDA type of an element of C and D"),
    ("accumulator", "the CUDA type of sums: `float` or `int`"),
    ("scalar", "the CUDA type of alpha, beta and what follows: `float` or `int`"),
];

/// The slot of a family's first parameter; those of derived values come after all parameters.
pub(super) const FIRST_PARAMETER: usize = BUILT_INS.len();

/// Whether `name` is built in.
pub fn is_built_in(name: &str) -> bool {
    slot_of(name).is_some()
}

/// The slot of a built-in name.
pub(super) fn slot_of(name: &str) -> Option<Slot> {
    BUILT_INS.iter().position(|(known, _)| *known == name).map(|at| at as Slot)
}

/// The values of names, by slot.
#[derive(Debug, Clone)]
pub struct Scope<'a> {
    values: Vec<Term<'a>>,
}

impl<'a> Scope<'a> {
    /// The built-in names for a problem on a device, except for those of [`OPEN`], and room for `own`
    /// names of a family.
    pub(super) fn unsized_problem(problem: &Problem, device: &Device, own: usize) -> Self {
        let int = |value: u64| Term::Int(i128::from(value));
        let capability = device.compute_capability;
        let GemmType { a, b, d, compute } = problem.types;
        let known: [Term<'a>; BUILT_INS.len() - OPEN.len()] = [
            Term::Text(a.name()),
            Term::Text(b.name()),
            Term::Text(d.name()),
            Term::Text(compute.name()),
            Term::Text(problem.layout.name()),
            Term::Text(problem.epilogue.text()),
            Term::Bool(problem.layout.a_transposed()),
            Term::Bool(problem.layout.b_transposed()),
            int(a.bytes()),
            int(b.bytes()),
            int(d.bytes()),
            int(u64::from(10 * capability.major + capability.minor)),
            int(u64::from(device.sms)),
            int(u64::from(device.warp_size)),
            int(u64::from(device.threads_per_block)),
            int(u64::from(device.threads_per_sm)),
            int(u64::from(device.registers_per_block)),
            int(u64::from(device.registers_per_sm)),
            int(u64::from(device.shared_bytes_per_block)),
            int(u64::from(device.shared_bytes_per_sm)),
            int(u64::from(device.shared_bytes_reserved)),
            int(device.l2_bytes),
            Term::Text(cuda_type(a)),
            Term::Text(cuda_type(b)),
            Term::Text(cuda_type(d)),
            Term::Text(cuda_type(problem.types.accumulator())),
            Term::Text(cuda_type(problem.types.scalar())),
        ];
        let mut values = Vec::with_capacity(BUILT_INS.len() + own);
        values.resize(OPEN.len(), Term::Unknown);
        values.extend(known);
        values.resize(BUILT_INS.len() + own, Term::Unknown);
        Self { values }
    }

    /// The built-in names for a problem as it is stored, and room for `own` names of a family.
    pub(super) fn of_problem(
        problem: &Problem,
        storage: &Storage,
        device: &Device,
        own: usize,
    ) -> Self {
        let mut scope = Self::unsized_problem(problem, device, own);
        let [lda, ldb, ldc] = storage.leading_dimensions(problem);
        let shape = problem.shape;
        scope.open([shape.m, shape.n, shape.k, problem.batch, lda, ldb, ldc].map(i128::from));
        scope
    }

    /// Gives the names of [`OPEN`] values.
    pub(super) fn open(&mut self, values: [i128; OPEN.len()]) {
        for (place, value) in self.values.iter_mut().zip(values) {
            *place = Term::Int(value);
        }
    }

    /// Gives a name a value.
    pub(super) fn bind(&mut self, slot: Slot, value: Term<'a>) {
        if let Some(place) = self.values.get_mut(usize::from(slot)) {
            *place = value;
        }
    }

    /// The same with other leading dimensions.
    pub(crate) fn with_rows(&self, rows: [u64; 3]) -> Self {
        let mut scope = self.clone();
        for (slot, row) in (4..).zip(rows) {
            scope.bind(slot, Term::Int(i128::from(row)));
        }
        scope
    }

    /// The value of a name.
    pub fn get(&self, slot: Slot) -> Term<'a> {
        self.values.get(usize::from(slot)).copied().unwrap_or(Term::Unknown)
    }

    /// All values, by slot.
    pub fn values(&self) -> &[Term<'a>] {
        &self.values
    }
}

/// The CUDA C++ type of an element. The 16-bit types appear as their bits: the headers that would
/// name them are no part of the compiler.
fn cuda_type(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "float",
        Dtype::I32 => "int",
        Dtype::F16 | Dtype::Bf16 => "unsigned short",
        Dtype::I8 => "signed char",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Shape;

    #[test]
    fn the_table_names_exactly_what_the_scope_has() {
        let problem = Problem::new(Shape { m: 1, n: 2, k: 3 }, Dtype::F32);
        let packed = Storage::packed(&problem);
        let scope = Scope::of_problem(&problem, &packed, &Device::h200(), 0);
        for (slot, (name, _)) in BUILT_INS.iter().enumerate() {
            assert_ne!(scope.get(slot as Slot), Term::Unknown, "{name}");
            assert!(OPEN.get(slot).is_none_or(|open| open == name), "{name}");
        }
        let value = |name: &str| scope.get(slot_of(name).unwrap());
        assert_eq!(value("ldc"), Term::Int(2));
        assert_eq!(value("compute_capability"), Term::Int(90));
        assert_eq!(value("element"), Term::Text("float"));
        assert_eq!(value("sms"), Term::Int(132));
        assert_eq!(value("l2_bytes"), Term::Int(i128::from(Device::h200().l2_bytes)));
    }
}
