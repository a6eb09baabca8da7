//! Syntax tree of a PTX module. Opcodes and registers are the text of their names.

/// A whole module.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::cpu) struct ParsedModule<'a> {
    /// What `.file` directives number.
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
    /// What a device function gives back, like a parameter that it writes.
    pub(in crate::cpu) results: Vec<Variable<'a>>,
    pub(in crate::cpu) clusters: ClusterDirectives,
    pub(in crate::cpu) body: Vec<Statement<'a>>,
}

/// What a kernel's directives say of the clusters that it is launched in (ISA: cluster dimension directives).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::cpu) struct ClusterDirectives {
    /// `.explicitcluster`: there are some.
    pub(in crate::cpu) explicit: bool,
    /// `.reqnctapercluster`: the blocks of one in x, y and z.
    pub(in crate::cpu) extents: Option<[u32; 3]>,
    /// `.maxclusterrank`: how many blocks one has at most.
    pub(in crate::cpu) most: Option<u32>,
    /// `.blocksareclusters`: a launch counts clusters, not blocks.
    pub(in crate::cpu) counted: bool,
}

/// Who calls a function.
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
    /// The element's type: `u32`.
    pub(in crate::cpu) ty: &'a str,
    pub(in crate::cpu) alignment: Option<u64>,
    /// Elements; `None` where the launch decides (`.extern .shared .b8 name[];`).
    pub(in crate::cpu) elements: Option<u64>,
    /// The first elements' values, as bits.
    pub(in crate::cpu) values: Vec<u64>,
}

/// A statement of a body, with the line of the text where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) struct Statement<'a> {
    pub(in crate::cpu) line: u32,
    pub(in crate::cpu) kind: StatementKind<'a>,
}

/// What a statement is.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) enum StatementKind<'a> {
    /// `{`, which begins a scope of names.
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
    /// Something to execute.
    Instruction(Instruction<'a>),
}

/// A place in the CUDA source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct Location {
    pub(in crate::cpu) file: u32,
    /// 0 where the compiler names none.
    pub(in crate::cpu) line: u32,
    /// The line of the call, where the code was inlined.
    pub(in crate::cpu) inlined_at: Option<u32>,
}

/// `@!%p opcode operands;`
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cpu) struct Instruction<'a> {
    pub(in crate::cpu) guard: Option<Guard<'a>>,
    /// With its modifiers: `ld.global.nc.v4.f32`.
    pub(in crate::cpu) opcode: &'a str,
    pub(in crate::cpu) operands: Vec<ParsedOperand<'a>>,
}

/// The predicate under which an instruction is executed.
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
    /// `[%rd1+16]`; without a name, an absolute address.
    Address { base: Option<&'a str>, offset: i64 },
    /// `[%rd1, {%r1, %r2}]`: a tensor map, and where a box of it begins.
    TensorBox { base: Option<&'a str>, offset: i64, coordinates: Vec<Self> },
    /// `{%r1, %r2}`
    Vector(Vec<Self>),
    /// `(param0, param1)` of a call.
    List(Vec<Self>),
}
