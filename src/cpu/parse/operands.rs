//! Names, numbers, operands and the blanks between them.

use winnow::ascii::{digit1, hex_digit1, multispace1, till_line_ending};
use winnow::combinator::{alt, delimited, dispatch, fail, opt, peek, preceded, repeat, separated};
use winnow::error::{ContextError, ErrMode, StrContext, StrContextValue};
use winnow::prelude::*;
use winnow::stream::LocatingSlice;
use winnow::token::{any, one_of, take_until, take_while};

use super::syntax_tree::ParsedOperand;

/// Input text that tracks its offset.
pub(super) type Text<'a> = LocatingSlice<&'a str>;

/// Result of a grammar rule.
pub(super) type Parsed<T> = Result<T, ErrMode<ContextError>>;

/// Skips white space and comments.
pub(super) fn blanks(text: &mut Text<'_>) -> Parsed<()> {
    let comment = ("//", till_line_ending).void();
    let note = ("/*", take_until(0.., "*/"), "*/").void();
    repeat(0.., alt((multispace1.void(), comment, note))).parse_next(text)
}

/// A rule and the blanks after it.
pub(super) fn lexeme<'a, T>(
    mut rule: impl FnMut(&mut Text<'a>) -> Parsed<T>,
) -> impl FnMut(&mut Text<'a>) -> Parsed<T> {
    move |text| {
        let value = rule(text)?;
        blanks(text)?;
        Ok(value)
    }
}

/// A punctuation mark and the blanks after it.
pub(super) fn mark<'a>(mark: char) -> impl FnMut(&mut Text<'a>) -> Parsed<()> {
    move |text| {
        mark.void()
            .context(StrContext::Expected(StrContextValue::CharLiteral(mark)))
            .parse_next(text)?;
        blanks(text)
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
}

/// `$L__BB0_1`, `%r1`, `%tid.x`, `gemm_param_0`
pub(super) fn name<'a>(text: &mut Text<'a>) -> Parsed<&'a str> {
    let special = ('%', take_while(1.., is_name), opt(('.', take_while(1.., is_name)))).take();
    let plain = (
        take_while(1, |c: char| c.is_ascii_alphabetic() || c == '_' || c == '$'),
        take_while(0.., is_name),
    )
        .take();
    alt((special, plain))
        .context(StrContext::Expected(StrContextValue::Description("a name")))
        .parse_next(text)
}

/// An unsigned number of at most 64 bits.
pub(super) fn natural(text: &mut Text<'_>) -> Parsed<u64> {
    let hexadecimal = preceded(alt(("0x", "0X")), hex_digit1)
        .verify_map(|digits| u64::from_str_radix(digits, 16).ok());
    let binary = preceded(alt(("0b", "0B")), take_while(1.., '0'..='1'))
        .verify_map(|digits| u64::from_str_radix(digits, 2).ok());
    let decimal = digit1.verify_map(|digits: &str| digits.parse().ok());
    let value = alt((hexadecimal, binary, decimal))
        .context(StrContext::Expected(StrContextValue::Description("a number")))
        .parse_next(text)?;
    opt('U').parse_next(text)?;
    Ok(value)
}

/// An unsigned number of at most 32 bits.
pub(super) fn small(text: &mut Text<'_>) -> Parsed<u32> {
    natural.verify_map(|value| u32::try_from(value).ok()).parse_next(text)
}

/// A number with an optional sign, as 64 bits.
pub(super) fn integer(text: &mut Text<'_>) -> Parsed<i64> {
    let negative =
        opt(lexeme(|text: &mut Text<'_>| '-'.void().parse_next(text))).parse_next(text)?;
    let magnitude = natural(text)?.cast_signed();
    Ok(if negative.is_some() { magnitude.wrapping_neg() } else { magnitude })
}

/// Hexadecimal digits after `0f` or `0d`.
fn bits<'a>(letters: [char; 2], digits: usize) -> impl FnMut(&mut Text<'a>) -> Parsed<u64> {
    move |text| {
        preceded(
            ('0', one_of(letters)),
            take_while(digits, |c: char| c.is_ascii_hexdigit())
                .verify_map(|digits| u64::from_str_radix(digits, 16).ok()),
        )
        .parse_next(text)
    }
}

/// A number of any kind, as an operand.
pub(super) fn number<'a>(text: &mut Text<'a>) -> Parsed<ParsedOperand<'a>> {
    let decimal = (opt('-'), digit1, '.', digit1)
        .take()
        .verify_map(|digits: &str| digits.parse().ok())
        .map(|value: f64| ParsedOperand::Double(value.to_bits()));
    alt((
        bits(['f', 'F'], 8).map(|bits| ParsedOperand::Single(bits as u32)),
        bits(['d', 'D'], 16).map(ParsedOperand::Double),
        decimal,
        integer.map(ParsedOperand::Integer),
    ))
    .parse_next(text)
}

/// `+8`, `+-8`, `-8` or nothing.
fn offset(text: &mut Text<'_>) -> Parsed<i64> {
    let plus = preceded(mark('+'), lexeme(integer));
    let minus = preceded(mark('-'), lexeme(integer)).map(i64::wrapping_neg);
    Ok(opt(alt((plus, minus))).parse_next(text)?.unwrap_or(0))
}

fn address<'a>(text: &mut Text<'a>) -> Parsed<ParsedOperand<'a>> {
    let named = (lexeme(name), offset).map(|(base, offset)| (Some(base), offset));
    let absolute = lexeme(integer).map(|offset| (None, offset));
    let coordinates = delimited(mark('{'), separated(1..=5, lexeme(scalar), mark(',')), mark('}'));
    let inside = (alt((named, absolute)), opt(preceded(mark(','), coordinates)));
    let ((base, offset), coordinates) = delimited(mark('['), inside, ']').parse_next(text)?;
    Ok(match coordinates {
        None => ParsedOperand::Address { base, offset },
        Some(coordinates) => ParsedOperand::TensorBox { base, offset, coordinates },
    })
}

fn named<'a>(text: &mut Text<'a>) -> Parsed<ParsedOperand<'a>> {
    let first = lexeme(name)(text)?;
    if let Some(second) = opt(preceded(mark('|'), name)).parse_next(text)? {
        return Ok(ParsedOperand::Pair(first, second));
    }
    Ok(match offset(text)? {
        0 => ParsedOperand::Name(first),
        offset => ParsedOperand::Sum(first, offset),
    })
}

/// An operand that is no vector.
fn scalar<'a>(text: &mut Text<'a>) -> Parsed<ParsedOperand<'a>> {
    dispatch! { peek(any);
        '!' => preceded(mark('!'), name).map(ParsedOperand::Negated),
        '-' | '0'..='9' => number,
        'a'..='z' | 'A'..='Z' | '_' | '$' | '%' => named,
        _ => fail,
    }
    .context(StrContext::Expected(StrContextValue::Description("an operand")))
    .parse_next(text)
}

/// Any operand and the blanks after it.
pub(super) fn operand<'a>(text: &mut Text<'a>) -> Parsed<ParsedOperand<'a>> {
    let mut vector = delimited(
        mark('{'),
        separated(0..=128, lexeme(scalar), mark(',')).map(ParsedOperand::Vector),
        '}',
    );
    let mut list = delimited(
        mark('('),
        separated(0..=256, lexeme(scalar), mark(',')).map(ParsedOperand::List),
        ')',
    );
    let any = dispatch! { peek(any);
        '{' => vector,
        '(' => list,
        '[' => address,
        _ => scalar,
    };
    let value = any
        .context(StrContext::Expected(StrContextValue::Description("an operand")))
        .parse_next(text)?;
    blanks(text)?;
    Ok(value)
}
