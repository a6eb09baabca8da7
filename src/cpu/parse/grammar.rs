//! Grammar of directives, statements and modules, and the location of syntax errors.

use std::cell::RefCell;

use winnow::combinator::{alt, delimited, opt, preceded, separated};
use winnow::error::{ContextError, ErrMode, StrContext, StrContextValue};
use winnow::prelude::*;
use winnow::stream::{LocatingSlice, Location as _, Stream};
use winnow::token::{literal, take_till, take_while};

use super::operands::{Parsed, Text, blanks, integer, lexeme, mark, name, natural, operand, small};
use super::syntax_tree::{
    ClusterDirectives, Guard, Instruction, Linkage, Location, ParsedFunction, ParsedModule,
    ParsedOperand, SourcePosition, Statement, StatementKind, Variable,
};
use crate::cpu::error::PtxError;

/// Parses a module.
///
/// # Errors
/// [`PtxError::Syntax`] with the line of the first text that no rule accepts.
pub(in crate::cpu) fn parse(ptx: &str) -> Result<ParsedModule<'_>, PtxError> {
    let lines = Lines { text: ptx, last: RefCell::new((0, 1)) };
    let mut text = LocatingSlice::new(ptx);
    module(&mut text, &lines).map_err(|error| {
        let rest = text.finish();
        let found: String =
            rest.trim_start().lines().next().unwrap_or("").chars().take(60).collect();
        PtxError::Syntax {
            line: lines.line_at(ptx.len() - rest.trim_start().len()),
            expected: expected(error),
            found,
        }
    })
}

/// Description of what the failed rule expects.
fn expected(error: ErrMode<ContextError>) -> String {
    let wanted: Vec<String> = error
        .into_inner()
        .iter()
        .flat_map(ContextError::context)
        .filter_map(|context| match context {
            StrContext::Expected(value) => Some(value.to_string()),
            _ => None,
        })
        .take(1)
        .collect();
    wanted.into_iter().next().unwrap_or_else(|| "different text".to_owned())
}

/// Maps offsets to lines, fast for growing offsets.
struct Lines<'a> {
    text: &'a str,
    /// Offset and line of the previous query.
    last: RefCell<(usize, u32)>,
}

impl Lines<'_> {
    fn line_at(&self, offset: usize) -> u32 {
        let (from, line) = *self.last.borrow();
        let (from, line) = if from <= offset { (from, line) } else { (0, 1) };
        let between = self.text.as_bytes().get(from..offset).unwrap_or_default();
        let line = line + between.iter().filter(|byte| **byte == b'\n').count() as u32;
        *self.last.borrow_mut() = (offset, line);
        line
    }
}

fn module<'a>(text: &mut Text<'a>, lines: &Lines<'_>) -> Parsed<ParsedModule<'a>> {
    let mut module = ParsedModule::default();
    blanks(text)?;
    while !text.is_empty() {
        let line = lines.line_at(text.current_token_start());
        if text.starts_with(".file") {
            module.files.push(file(text)?);
        } else if text.starts_with(".section") {
            section(text)?;
        } else if ignored_directive(text)?.is_none() {
            item(text, lines, line, &mut module)?;
        }
    }
    Ok(module)
}

/// `.dot` as a whole word, and the blanks after it.
fn directive<'a>(word: &'static str) -> impl FnMut(&mut Text<'a>) -> Parsed<()> {
    move |text| {
        let start = text.checkpoint();
        literal(word)
            .void()
            .context(StrContext::Expected(StrContextValue::StringLiteral(word)))
            .parse_next(text)?;
        if text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            text.reset(&start);
            return Err(ErrMode::Backtrack(ContextError::new()));
        }
        blanks(text)
    }
}

/// Directives without effect on this device, which has every feature.
fn ignored_directive(text: &mut Text<'_>) -> Parsed<Option<()>> {
    let version = (directive(".version"), natural, '.', natural).void();
    let target_name = || lexeme(|text: &mut Text<'_>| name.void().parse_next(text));
    let target =
        (directive(".target"), separated::<_, _, (), _, _, _, _>(1..=8, target_name(), mark(',')))
            .void();
    let size = (directive(".address_size"), literal("64")).void();
    let found = opt(alt((version, target, size))).parse_next(text)?;
    blanks(text)?;
    Ok(found)
}

/// `.file 1 "kernel.cu"`, optionally with a date and a size.
fn file<'a>(text: &mut Text<'a>) -> Parsed<(u32, &'a str)> {
    directive(".file")(text)?;
    let index = lexeme(small)(text)?;
    let path = delimited('"', take_till(0.., ['"', '\n']), '"').parse_next(text)?;
    blanks(text)?;
    opt((mark(','), lexeme(natural), mark(','), lexeme(natural))).parse_next(text)?;
    Ok((index, path))
}

/// `.section .debug_str { ... }`: debug data.
fn section(text: &mut Text<'_>) -> Parsed<()> {
    (directive(".section"), take_till(0.., ['{', '\n']), blanks, mark('{'))
        .void()
        .parse_next(text)?;
    (take_till(0.., '}'), mark('}')).void().parse_next(text)
}

/// A variable or a function.
fn item<'a>(
    text: &mut Text<'a>,
    lines: &Lines<'_>,
    line: u32,
    module: &mut ParsedModule<'a>,
) -> Parsed<()> {
    let linkage = alt((
        directive(".visible"),
        directive(".extern"),
        directive(".weak"),
        directive(".common"),
    ));
    opt(linkage).parse_next(text)?;
    if opt(directive(".entry")).parse_next(text)?.is_some() {
        return function(text, lines, (line, Linkage::Entry), Vec::new(), module);
    }
    if opt(directive(".func")).parse_next(text)?.is_some() {
        let results = parameters(text, lines)?;
        return function(text, lines, (line, Linkage::Device), results, module);
    }
    let variable = variable(text, line, true)?;
    mark(';')(text)?;
    module.variables.push(variable);
    Ok(())
}

/// `.shared .align 4 .b8 name[16] = {1, 2}`; a parameter has no values.
fn variable<'a>(text: &mut Text<'a>, line: u32, may_have_values: bool) -> Parsed<Variable<'a>> {
    let space = preceded('.', alt(("global", "shared", "local", "const", "param")))
        .context(StrContext::Expected(StrContextValue::Description("a directive")))
        .parse_next(text)?;
    blanks(text)?;
    let mut alignment = None;
    let mut ty = None;
    while text.starts_with('.') {
        if opt(directive(".align")).parse_next(text)?.is_some() {
            alignment = Some(lexeme(natural)(text)?);
        } else if opt(directive(".ptr")).parse_next(text)?.is_some() {
            // `.ptr .global .align 16` describes the memory behind a pointer.
            opt(alt((
                directive(".global"),
                directive(".shared"),
                directive(".local"),
                directive(".const"),
            )))
            .parse_next(text)?;
            opt((directive(".align"), lexeme(natural))).parse_next(text)?;
        } else {
            ty = Some(type_name(text)?);
        }
    }
    let Some(ty) = ty else { return expect("a type") };
    let name = lexeme(name)(text)?;
    let mut elements = Some(1);
    if opt(mark('[')).parse_next(text)?.is_some() {
        elements = opt(lexeme(natural)).parse_next(text)?;
        mark(']')(text)?;
    }
    let mut values = Vec::new();
    if may_have_values && opt(mark('=')).parse_next(text)?.is_some() {
        values = alt((
            delimited(mark('{'), separated(0.., value, mark(',')), mark('}')),
            value.map(|value| vec![value]),
        ))
        .parse_next(text)?;
    }
    Ok(Variable { name, line, space, ty, alignment, elements, values })
}

fn expect<T>(what: &'static str) -> Parsed<T> {
    let mut error = ContextError::new();
    error.push(StrContext::Expected(StrContextValue::Description(what)));
    Err(ErrMode::Backtrack(error))
}

/// Initial value of a variable.
fn value(text: &mut Text<'_>) -> Parsed<u64> {
    let number = super::operands::number
        .verify_map(|number| match number {
            ParsedOperand::Integer(value) => Some(value.cast_unsigned()),
            ParsedOperand::Single(bits) => Some(bits.into()),
            ParsedOperand::Double(bits) => Some(bits),
            _ => None,
        })
        .parse_next(text)?;
    blanks(text)?;
    Ok(number)
}

fn type_name<'a>(text: &mut Text<'a>) -> Parsed<&'a str> {
    let ty = preceded('.', take_while(1.., |c: char| c.is_ascii_alphanumeric()))
        .context(StrContext::Expected(StrContextValue::Description("a type")))
        .parse_next(text)?;
    blanks(text)?;
    Ok(ty)
}

/// `(.param .u64 a, .param .u32 b)`, or nothing.
fn parameters<'a>(text: &mut Text<'a>, lines: &Lines<'_>) -> Parsed<Vec<Variable<'a>>> {
    if !text.starts_with('(') {
        return Ok(Vec::new());
    }
    let parameter = |text: &mut Text<'a>| {
        let line = lines.line_at(text.current_token_start());
        variable(text, line, false)
    };
    delimited(mark('('), separated(0.., parameter, mark(',')), mark(')')).parse_next(text)
}

fn function<'a>(
    text: &mut Text<'a>,
    lines: &Lines<'_>,
    (line, linkage): (u32, Linkage),
    results: Vec<Variable<'a>>,
    module: &mut ParsedModule<'a>,
) -> Parsed<()> {
    let name = lexeme(name)(text)?;
    let parameters = parameters(text, lines)?;
    let clusters = directives(text)?;
    // A declaration of a function of another module.
    if opt(mark(';')).parse_next(text)?.is_some() {
        return Ok(());
    }
    mark('{')(text)?;
    let mut body = Vec::new();
    let mut depth = 1_usize;
    while depth > 0 {
        let line = lines.line_at(text.current_token_start());
        let kind = if opt(mark('{')).parse_next(text)?.is_some() {
            depth += 1;
            StatementKind::Open
        } else if opt(mark('}')).parse_next(text)?.is_some() {
            depth -= 1;
            StatementKind::Close
        } else {
            statement(text, line, &mut body)?;
            continue;
        };
        if depth > 0 {
            body.push(Statement { line, kind });
        }
    }
    let function = ParsedFunction { name, linkage, line, parameters, results, clusters, body };
    module.functions.push(function);
    Ok(())
}

/// Directives between a kernel's head and body.
fn directives(text: &mut Text<'_>) -> Parsed<ClusterDirectives> {
    let mut clusters = ClusterDirectives::default();
    while text.starts_with('.') {
        if opt(directive(".explicitcluster")).parse_next(text)?.is_some() {
            clusters.explicit = true;
        } else if opt(directive(".reqnctapercluster")).parse_next(text)?.is_some() {
            clusters.extents = Some(extents(text)?);
        } else if opt(directive(".maxclusterrank")).parse_next(text)?.is_some() {
            clusters.most = Some(lexeme(small)(text)?);
        } else if opt(directive(".blocksareclusters")).parse_next(text)?.is_some() {
            clusters.counted = true;
        } else {
            tuning_directive(text)?;
        }
    }
    Ok(clusters)
}

/// `1, 4, 1`; trailing extents are optional.
fn extents(text: &mut Text<'_>) -> Parsed<[u32; 3]> {
    let given: Vec<u32> = separated(1..=3, lexeme(small), mark(',')).parse_next(text)?;
    let mut extents = [1; 3];
    extents.iter_mut().zip(given).for_each(|(extent, given)| *extent = given);
    Ok(extents)
}

/// `.maxntid 256, 1, 1` and other limits, which launches on this device ignore.
fn tuning_directive(text: &mut Text<'_>) -> Parsed<()> {
    let word = alt((
        alt((directive(".maxntid"), directive(".reqntid"), directive(".minnctapersm"))),
        alt((directive(".maxnreg"), directive(".maxnctapersm"), directive(".noreturn"))),
    ));
    let numbers = separated::<_, _, (), _, _, _, _>(0..=3, lexeme(natural).void(), mark(','));
    (word, numbers).void().parse_next(text)
}

/// One statement; a declaration of several registers yields several.
fn statement<'a>(text: &mut Text<'a>, line: u32, body: &mut Vec<Statement<'a>>) -> Parsed<()> {
    let mut add = |kind| body.push(Statement { line, kind });
    if text.starts_with(".loc") && opt(directive(".loc")).parse_next(text)?.is_some() {
        add(StatementKind::Location(location(text)?));
        return Ok(());
    }
    if opt(directive(".reg")).parse_next(text)?.is_some() {
        let ty = type_name(text)?;
        let one = (lexeme(name), opt(delimited(mark('<'), lexeme(small), mark('>'))));
        let registers: Vec<_> = separated(1.., one, mark(',')).parse_next(text)?;
        mark(';')(text)?;
        for (name, count) in registers {
            add(StatementKind::Register { ty, name, count });
        }
        return Ok(());
    }
    // Lists of call and branch targets, which only indirect jumps need.
    let ignored = alt((
        directive(".pragma"),
        directive(".callprototype"),
        directive(".calltargets"),
        directive(".branchtargets"),
    ));
    if opt(ignored).parse_next(text)?.is_some() {
        return (take_till(0.., ';'), mark(';')).void().parse_next(text);
    }
    if text.starts_with('.') {
        opt(directive(".extern")).parse_next(text)?;
        let variable = variable(text, line, true)?;
        mark(';')(text)?;
        add(StatementKind::Variable(variable));
        return Ok(());
    }
    let start = text.checkpoint();
    if let Some(label) = opt((lexeme(name), mark(':'))).parse_next(text)? {
        add(StatementKind::Label(label.0));
        return Ok(());
    }
    text.reset(&start);
    add(StatementKind::Instruction(instruction(text)?));
    Ok(())
}

/// `1 43 13, function_name $L__info_string0, inlined_at 1 42 9`
fn location(text: &mut Text<'_>) -> Parsed<Location> {
    let position = source_position(text)?;
    let mut inlined_at = None;
    if opt((mark(','), directive("function_name"))).parse_next(text)?.is_some() {
        (lexeme(name), opt((mark('+'), lexeme(integer))), mark(',')).void().parse_next(text)?;
        directive("inlined_at")(text)?;
        inlined_at = Some(source_position(text)?);
    }
    Ok(Location { position, inlined_at })
}

fn source_position(text: &mut Text<'_>) -> Parsed<SourcePosition> {
    let (file, line, column) = (lexeme(small), lexeme(small), lexeme(small)).parse_next(text)?;
    Ok(SourcePosition { file, line, column })
}

fn instruction<'a>(text: &mut Text<'a>) -> Parsed<Instruction<'a>> {
    let guard = opt(preceded(mark('@'), (opt(mark('!')), lexeme(name)))).parse_next(text)?;
    let guard = guard.map(|(not, register)| Guard { register, negated: not.is_some() });
    let opcode = (
        take_while(1, |c: char| c.is_ascii_alphabetic()),
        take_while(0.., |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':')),
    )
        .take()
        .context(StrContext::Expected(StrContextValue::Description("an instruction")))
        .parse_next(text)?;
    blanks(text)?;
    let mut operands = Vec::new();
    while !text.starts_with(';') {
        if !operands.is_empty() {
            mark(',')(text)?;
        }
        operands.push(operand(text)?);
    }
    mark(';')(text)?;
    Ok(Instruction { guard, opcode, operands })
}
