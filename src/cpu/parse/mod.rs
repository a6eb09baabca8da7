//! The grammar of PTX text as NVRTC emits it: from characters to statements that keep their line.
//!
//! Nothing is given a meaning here: an opcode is its text, a register its name. What no rule of
//! the grammar takes is an error with its line; no text makes the parser panic or recurse.

mod operands;
mod syntax;

pub(super) use syntax::parse;

/// A whole module.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Module<'a> {
    /// What `.file` directives number.
    pub(super) files: Vec<(u32, &'a str)>,
    /// Variables outside functions.
    pub(super) variables: Vec<Variable<'a>>,
    /// Functions with a body, in the order of the text.
    pub(super) functions: Vec<Function<'a>>,
}

/// A kernel or a device function.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) linkage: Linkage,
    pub(super) line: u32,
    pub(super) parameters: Vec<Variable<'a>>,
    /// What a device function gives back, like a parameter that it writes.
    pub(super) results: Vec<Variable<'a>>,
    pub(super) clusters: Clusters,
    pub(super) body: Vec<Statement<'a>>,
}

/// What a kernel's directives say of the clusters that it is launched in (ISA: cluster dimension directives).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Clusters {
    /// `.explicitcluster`: there are some.
    pub(super) explicit: bool,
    /// `.reqnctapercluster`: the blocks of one in x, y and z.
    pub(super) extents: Option<[u32; 3]>,
    /// `.maxclusterrank`: how many blocks one has at most.
    pub(super) most: Option<u32>,
    /// `.blocksareclusters`: a launch counts clusters, not blocks.
    pub(super) counted: bool,
}

/// Who calls a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Linkage {
    Entry,
    Device,
}

/// A declared variable or parameter.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Variable<'a> {
    pub(super) name: &'a str,
    pub(super) line: u32,
    /// `global`, `shared`, `local`, `const` or `param`.
    pub(super) space: &'a str,
    /// The element's type: `u32`.
    pub(super) ty: &'a str,
    pub(super) alignment: Option<u64>,
    /// Elements; `None` where the launch decides (`.extern .shared .b8 name[];`).
    pub(super) elements: Option<u64>,
    /// The first elements' values, as bits.
    pub(super) values: Vec<u64>,
}

/// A statement of a body, with the line of the text where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Statement<'a> {
    pub(super) line: u32,
    pub(super) kind: StatementKind<'a>,
}

/// What a statement is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StatementKind<'a> {
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
pub(super) struct Location {
    pub(super) file: u32,
    /// 0 where the compiler names none.
    pub(super) line: u32,
    /// The line of the call, where the code was inlined.
    pub(super) inlined_at: Option<u32>,
}

/// `@!%p opcode operands;`
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Instruction<'a> {
    pub(super) guard: Option<Guard<'a>>,
    /// With its modifiers: `ld.global.nc.v4.f32`.
    pub(super) opcode: &'a str,
    pub(super) operands: Vec<Operand<'a>>,
}

/// The predicate under which an instruction is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Guard<'a> {
    pub(super) register: &'a str,
    pub(super) negated: bool,
}

/// One operand.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operand<'a> {
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
    Box { base: Option<&'a str>, offset: i64, coordinates: Vec<Self> },
    /// `{%r1, %r2}`
    Vector(Vec<Self>),
    /// `(param0, param1)` of a call.
    List(Vec<Self>),
}
