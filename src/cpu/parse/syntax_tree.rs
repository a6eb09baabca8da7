//! Syntax tree of a PTX module. Opcodes and registers are the text of their names.

/// A module.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::cpu) struct ParsedModule<'a> {
    /// Numbers and paths of the `.file` directives.
    pub(in crate::cpu) files: Vec<(u32, &'a str)>,
    /// Variables outside functions.
    pub(in crate::cpu) variables: Vec<Variable<'a>>,
    /// Functions with a body, in the order of the text.
    pub(in crate::cpu) functions: Vec<ParsedFunction<'a>>,
}

/// A kernel or a device function.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) struct ParsedFunction<'a> {
    pub(in crate::cpu) name: &'a str,
    pub(in crate::cpu) linkage: Linkage,
    pub(in crate::cpu) line: u32,
    pub(in crate::cpu) parameters: Vec<Variable<'a>>,
    /// Return values of a device function, declared as parameters.
    pub(in crate::cpu) results: Vec<Variable<'a>>,
    pub(in crate::cpu) clusters: ClusterDirectives,
    pub(in crate::cpu) body: Vec<Statement<'a>>,
}

/// Cluster directives of a kernel (ISA: cluster dimension directives).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::cpu) struct ClusterDirectives {
    /// `.explicitcluster`: the kernel runs in clusters.
    pub(in crate::cpu) explicit: bool,
    /// `.reqnctapercluster`: blocks of a cluster in x, y and z.
    pub(in crate::cpu) extents: Option<[u32; 3]>,
    /// `.maxclusterrank`: limit of the blocks of a cluster.
    pub(in crate::cpu) most: Option<u32>,
    /// `.blocksareclusters`: the grid of a launch counts clusters.
    pub(in crate::cpu) counted: bool,
}

/// Kind of a function: kernel or device function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum Linkage {
    Entry,
    Device,
}

/// A declared variable or parameter.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) struct Variable<'a> {
    pub(in crate::cpu) name: &'a str,
    pub(in crate::cpu) line: u32,
    /// `global`, `shared`, `local`, `const` or `param`.
    pub(in crate::cpu) space: &'a str,
    /// Type of the elements, e.g. `u32`.
    pub(in crate::cpu) ty: &'a str,
    pub(in crate::cpu) alignment: Option<u64>,
    /// Number of elements; `None` where the launch decides (`.extern .shared .b8 name[];`).
    pub(in crate::cpu) elements: Option<u64>,
    /// Initial values of the first elements, as bits.
    pub(in crate::cpu) values: Vec<u64>,
}

/// A statement of a body, and the line where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) struct Statement<'a> {
    pub(in crate::cpu) line: u32,
    pub(in crate::cpu) kind: StatementKind<'a>,
}

/// Kind of a statement.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) enum StatementKind<'a> {
    /// `{`, which opens a scope of names.
    Open,
    /// `}`.
    Close,
    /// `name:`
    Label(&'a str),
    /// `.loc file line column`
    Location(Location),
    /// `.reg .b32 %r<8>;` or one name of `.reg .b32 a, b;`
    Register { ty: &'a str, name: &'a str, count: Option<u32> },
    /// A variable with the lifetime of the function.
    Variable(Variable<'a>),
    /// An instruction.
    Instruction(Instruction<'a>),
}

/// Location in the CUDA source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct Location {
    pub(in crate::cpu) position: SourcePosition,
    /// Position of the call, where the code was inlined.
    pub(in crate::cpu) inlined_at: Option<SourcePosition>,
}

/// Position in the CUDA source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::cpu) struct SourcePosition {
    pub(in crate::cpu) file: u32,
    /// 0 where the compiler gives none.
    pub(in crate::cpu) line: u32,
    pub(in crate::cpu) column: u32,
}

/// `@!%p opcode operands;`
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) struct Instruction<'a> {
    pub(in crate::cpu) guard: Option<Guard<'a>>,
    /// Opcode with modifiers: `ld.global.nc.v4.f32`.
    pub(in crate::cpu) opcode: &'a str,
    pub(in crate::cpu) operands: Vec<ParsedOperand<'a>>,
}

/// Guard predicate of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct Guard<'a> {
    pub(in crate::cpu) register: &'a str,
    pub(in crate::cpu) negated: bool,
}

/// One operand.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) enum ParsedOperand<'a> {
    /// A register, a special register, a symbol, a label or `_`.
    Name(&'a str),
    /// `!%p1`
    Negated(&'a str),
    /// `%r1|%p1`
    Pair(&'a str, &'a str),
    /// `symbol+8`
    Sum(&'a str, i64),
    /// `-1`, `0x10`
    Integer(i64),
    /// `0f3F800000`
    Single(u32),
    /// `0d3FF0000000000000`
    Double(u64),
    /// `[%rd1+16]`; an absolute address without a base.
    Address { base: Option<&'a str>, offset: i64 },
    /// `[%rd1, {%r1, %r2}]`: a tensor map and the coordinates of a box.
    TensorBox { base: Option<&'a str>, offset: i64, coordinates: Vec<Self> },
    /// `{%r1, %r2}`
    Vector(Vec<Self>),
    /// `(param0, param1)` of a call.
    List(Vec<Self>),
}
