//! Parser of expressions, with the precedence of the template engine (`parsing/parser.rs` of tera
//! 2.4): `or`, `and`, `in`, comparisons, sums, products, filters; a ternary binds least.
//! `ceil_div(a, b)`, `max(a, b)` and `min(a, b)`, as formulas are printed, are read too.

use std::ops::Range;

use thiserror::Error;

use super::{Binary, FloatBits, Formula, Language, OPEN, Slot, Unary};

/// Most nested expressions, and most operations from the whole to a value.
const MAX_DEPTH: usize = 200;

/// Words that are no names.
const RESERVED: [&str; 7] = ["if", "else", "and", "or", "not", "in", "is"];

/// Symbols; a longer one stands before its beginning.
const SYMBOLS: [&str; 23] = [
    "==", "!=", "<=", ">=", "//", "**", "<", ">", "+", "-", "*", "/", "%", "(", ")", "[", "]", ",",
    "|", "=", "~", ".", ":",
];

/// What is wrong with an expression, and where in its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    /// Lower case, no final period.
    pub message: String,
    /// Bytes of the expression's text.
    pub span: Range<usize>,
    /// The name, where the error is that nothing has it.
    pub unknown: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Int(i64),
    Float(f64),
    Text(String),
    Word(String),
    Symbol(&'static str),
    End,
}

/// A formula and the places of its nodes in the text, a node before its operands.
struct ParsedFormula {
    formula: Formula,
    places: Vec<Range<usize>>,
    depth: usize,
}

type Reading<T> = Result<T, ReadError>;

/// Reads an expression; `slot` gives the slots of names. The result has the place of each node in
/// the text, a node before its operands.
pub fn read(
    text: &str,
    slot: &dyn Fn(&str) -> Option<Slot>,
) -> Reading<(Formula, Vec<Range<usize>>)> {
    let mut reader = Reader { tokens: tokens(text)?, at: 0, depth: 0, slot };
    let ParsedFormula { formula, places, .. } = reader.expression(0)?;
    if *reader.peek() != Token::End {
        return Err(reader.unexpected("an operation or the end"));
    }
    Ok((formula, places))
}

fn error(message: impl Into<String>, span: Range<usize>) -> ReadError {
    ReadError { message: message.into(), span, unknown: None }
}

fn tokens(text: &str) -> Reading<Vec<(Token, Range<usize>)>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        let rest = text[at..].trim_ascii_start();
        at = text.len() - rest.len();
        let Some(first) = rest.chars().next() else { break };
        let length = |part: fn(char) -> bool| rest.find(|c| !part(c)).unwrap_or(rest.len());
        let (token, length) = if first.is_ascii_digit() {
            number(rest, at)?
        } else if first.is_ascii_alphabetic() || first == '_' {
            let length = length(|c| c.is_ascii_alphanumeric() || c == '_');
            (Token::Word(rest[..length].to_owned()), length)
        } else if matches!(first, '\'' | '"' | '`') {
            string(rest, first, at)?
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            (Token::Symbol(symbol), symbol.len())
        } else {
            let message = format!("`{first}` has no place in an expression");
            return Err(error(message, at..at + first.len_utf8()));
        };
        tokens.push((token, at..at + length));
        at += length;
    }
    tokens.push((Token::End, text.len()..text.len()));
    Ok(tokens)
}

fn number(rest: &str, at: usize) -> Reading<(Token, usize)> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let mut length = digits(rest);
    let is_float = rest[length..].starts_with('.');
    if is_float {
        length += 1;
        length += digits(&rest[length..]);
    }
    let text = &rest[..length];
    let token = if is_float {
        text.parse().ok().filter(|value: &f64| value.is_finite()).map(Token::Float)
    } else {
        text.parse().ok().map(Token::Int)
    };
    let token = token.ok_or_else(|| error("this number does not fit 64 bits", at..at + length))?;
    Ok((token, length))
}

fn string(rest: &str, quote: char, at: usize) -> Reading<(Token, usize)> {
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1);
    while let Some((place, character)) = characters.next() {
        if character == quote {
            return Ok((Token::Text(text), place + 1));
        }
        if character != '\\' {
            text.push(character);
            continue;
        }
        text.push(match characters.next() {
            Some((_, escaped @ ('"' | '\'' | '/' | '\\'))) => escaped,
            Some((_, 'n')) => '\n',
            Some((_, 't')) => '\t',
            Some((_, 'r')) => '\r',
            _ => return Err(error("unknown escape sequence", at + place..at + place + 1)),
        });
    }
    Err(error(format!("this string has no closing {quote}"), at..at + rest.len()))
}

struct Reader<'a> {
    /// Ends with [`Token::End`].
    tokens: Vec<(Token, Range<usize>)>,
    at: usize,
    depth: usize,
    slot: &'a dyn Fn(&str) -> Option<Slot>,
}

impl Reader<'_> {
    /// Reads operations that bind at least as strongly as `least`.
    fn expression(&mut self, least: u8) -> Reading<ParsedFormula> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_complex());
        }
        let operand = self.operand()?;
        let parsed = self.operations(operand, least)?;
        self.depth -= 1;
        Ok(parsed)
    }

    fn operand(&mut self) -> Reading<ParsedFormula> {
        let (token, place) = self.next();
        let formula = match token {
            Token::Int(value) => Formula::Int(value),
            Token::Float(value) => Formula::Float(FloatBits::new(value)),
            Token::Text(text) => Formula::Text(text),
            Token::Symbol("-") => return self.unary(Unary::Minus, 20, place),
            Token::Symbol("(") => {
                let inner = self.expression(0)?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Word(word) => match word.as_str() {
                "true" | "True" => Formula::Bool(true),
                "false" | "False" => Formula::Bool(false),
                "not" => return self.unary(Unary::Not, 5, place),
                "ceil_div" | "min" | "max" if self.takes("(") => {
                    let a = self.expression(0)?;
                    self.expect(",")?;
                    let b = self.expression(0)?;
                    self.expect(")")?;
                    let operation = match word.as_str() {
                        "max" => Binary::Most,
                        "min" => Binary::Least,
                        _ => Binary::CeilDiv,
                    };
                    return self.binary(operation, a, b);
                }
                name if !RESERVED.contains(&name) => match (self.slot)(name) {
                    Some(slot) => Formula::Name(slot),
                    None => {
                        let message = format!("unknown name `{name}`");
                        let unknown = Some(name.to_owned());
                        return Err(ReadError { unknown, ..error(message, place) });
                    }
                },
                _ => return Err(self.unexpected_at(self.at - 1, "a value")),
            },
            Token::Symbol("[") => {
                return Err(error("a list stands to the right of `in` only", place));
            }
            Token::Symbol(_) | Token::End => {
                return Err(self.unexpected_at(self.at.saturating_sub(1), "a value"));
            }
        };
        Ok(ParsedFormula { formula, places: vec![place], depth: 1 })
    }

    fn operations(&mut self, mut left: ParsedFormula, least: u8) -> Reading<ParsedFormula> {
        loop {
            let negated = self.is_word(self.at, "not");
            if negated && !self.is_word(self.at + 1, "in") {
                return Err(self.unexpected("an operation"));
            }
            let place = self.at + usize::from(negated);
            let token = self.tokens.get(place).map_or(&Token::End, |(token, _)| token);
            if *token == Token::Word("if".to_owned()) {
                if least > 0 {
                    return Ok(left);
                }
                self.at += 1;
                return self.ternary(left);
            }
            if *token == Token::Symbol("|") {
                if least > 17 {
                    return Ok(left);
                }
                self.at += 1;
                left = self.filter(left)?;
                continue;
            }
            let Some((operation, power)) = operation_of(token) else { return Ok(left) };
            if power < least {
                return Ok(left);
            }
            self.at = place + 1;
            let right = if operation == Binary::In && self.takes("[") {
                let list = self.list()?;
                // Operations that bind more strongly than `in` would take the list.
                if let Some((_, 7..)) = operation_of(self.peek()) {
                    return Err(self.unexpected("the end of an operand"));
                }
                list
            } else {
                self.expression(power + 1)?
            };
            left = self.binary(operation, left, right)?;
            if negated {
                let place = left.places[0].clone();
                left = self.compound(place, [left], |[of]| Formula::Unary(Unary::Not, of))?;
            }
        }
    }

    fn unary(
        &mut self,
        operation: Unary,
        power: u8,
        place: Range<usize>,
    ) -> Reading<ParsedFormula> {
        let of = self.expression(power)?;
        let place = place.start..of.places[0].end;
        self.compound(place, [of], |[of]| Formula::Unary(operation, of))
    }

    fn binary(
        &mut self,
        operation: Binary,
        a: ParsedFormula,
        b: ParsedFormula,
    ) -> Reading<ParsedFormula> {
        let place = a.places[0].start..b.places[0].end;
        self.compound(place, [a, b], |[a, b]| Formula::Binary(operation, a, b))
    }

    /// `left if CONDITION else OTHER`, from the condition on.
    fn ternary(&mut self, left: ParsedFormula) -> Reading<ParsedFormula> {
        let condition = self.expression(0)?;
        if !self.is_word(self.at, "else") {
            return Err(self.unexpected("`else`"));
        }
        self.at += 1;
        let fails = self.expression(0)?;
        let place = left.places[0].start..fails.places[0].end;
        self.compound(place, [condition, left, fails], |parts| {
            Formula::If(Box::new(parts.map(|part| *part)))
        })
    }

    /// `NAME(ARGUMENT=VALUE)` after a `|`.
    fn filter(&mut self, value: ParsedFormula) -> Reading<ParsedFormula> {
        let (token, place) = self.next();
        let (operation, argument) = match &token {
            Token::Word(name) if name == "ceil_div" => (Binary::CeilDiv, "by"),
            Token::Word(name) if name == "at_least" => (Binary::Most, "least"),
            Token::Word(name) if name == "at_most" => (Binary::Least, "most"),
            Token::Word(name) => {
                let message = format!(
                    "unknown filter `{name}`: expressions have `ceil_div`, `at_least` and `at_most`"
                );
                return Err(error(message, place));
            }
            _ => return Err(self.unexpected_at(self.at - 1, "a filter's name")),
        };
        self.expect("(")?;
        if !self.is_word(self.at, argument) {
            return Err(self.unexpected(&format!("`{argument}=`")));
        }
        self.at += 1;
        self.expect("=")?;
        let by = self.expression(0)?;
        self.takes(",");
        self.expect(")")?;
        self.binary(operation, value, by)
    }

    /// The items of a list, after its `[`.
    fn list(&mut self) -> Reading<ParsedFormula> {
        let start = self.place(self.at - 1).start;
        let mut items = Vec::new();
        while !self.takes("]") {
            if !items.is_empty() {
                self.expect(",")?;
                if self.takes("]") {
                    break;
                }
            }
            items.push(self.expression(0)?);
        }
        let own = std::iter::once(start..self.place(self.at - 1).end);
        let places = own.chain(items.iter().flat_map(|item| item.places.iter().cloned())).collect();
        let depth = 1 + items.iter().map(|item| item.depth).max().unwrap_or(0);
        let formula = Formula::List(items.into_iter().map(|item| item.formula).collect());
        Ok(ParsedFormula { formula, places, depth })
    }

    /// A node of these operands.
    fn compound<const N: usize>(
        &self,
        place: Range<usize>,
        operands: [ParsedFormula; N],
        node: impl FnOnce([Box<Formula>; N]) -> Formula,
    ) -> Reading<ParsedFormula> {
        let depth = 1 + operands.iter().map(|one| one.depth).max().unwrap_or(0);
        if depth > MAX_DEPTH {
            return Err(self.too_complex());
        }
        let mut places = vec![place];
        places.extend(operands.iter().flat_map(|one| one.places.iter().cloned()));
        let formula = node(operands.map(|one| Box::new(one.formula)));
        Ok(ParsedFormula { formula, places, depth })
    }

    fn next(&mut self) -> (Token, Range<usize>) {
        let next = self.tokens.get(self.at).cloned().unwrap_or((Token::End, self.place(self.at)));
        self.at += 1;
        next
    }

    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(token, _)| token)
    }

    fn place(&self, at: usize) -> Range<usize> {
        let last = self.tokens.len().saturating_sub(1);
        self.tokens.get(at.min(last)).map_or(0..0, |(_, place)| place.clone())
    }

    fn expect(&mut self, symbol: &str) -> Reading<()> {
        if self.takes(symbol) { Ok(()) } else { Err(self.unexpected(&format!("`{symbol}`"))) }
    }

    /// Passes a symbol, if it is the next.
    fn takes(&mut self, symbol: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Symbol(next) if *next == symbol);
        self.at += usize::from(is_next);
        is_next
    }

    fn is_word(&self, at: usize, word: &str) -> bool {
        matches!(self.tokens.get(at), Some((Token::Word(next), _)) if next == word)
    }

    fn unexpected(&self, expected: &str) -> ReadError {
        self.unexpected_at(self.at, expected)
    }

    fn unexpected_at(&self, at: usize, expected: &str) -> ReadError {
        let found = match self.tokens.get(at) {
            Some((Token::Symbol(symbol), _)) => format!("`{symbol}`"),
            Some((Token::Word(word), _)) => format!("`{word}`"),
            Some((Token::Int(_) | Token::Float(_), _)) => "a number".to_owned(),
            Some((Token::Text(_), _)) => "a string".to_owned(),
            Some((Token::End, _)) | None => "the end".to_owned(),
        };
        error(format!("found {found} where {expected} is expected"), self.place(at))
    }

    fn too_complex(&self) -> ReadError {
        error(format!("the expression is nested more than {MAX_DEPTH} deep"), self.place(self.at))
    }
}

/// An operation and how strongly it binds to its left; to its right, it is one more.
fn operation_of(token: &Token) -> Option<(Binary, u8)> {
    let name = match token {
        Token::Word(name) => name.as_str(),
        Token::Symbol(name) => name,
        _ => return None,
    };
    Some(match name {
        "or" => (Binary::Or, 1),
        "and" => (Binary::And, 3),
        "in" => (Binary::In, 5),
        "==" => (Binary::Equal, 7),
        "!=" => (Binary::Unequal, 7),
        "<" => (Binary::Less, 7),
        "<=" => (Binary::AtMost, 7),
        ">" => (Binary::Greater, 7),
        ">=" => (Binary::AtLeast, 7),
        "+" => (Binary::Plus, 11),
        "-" => (Binary::Minus, 11),
        "*" => (Binary::Times, 13),
        "/" => (Binary::Quotient, 13),
        "//" => (Binary::Divide, 13),
        "%" => (Binary::Remainder, 13),
        _ => return None,
    })
}

/// A text that is no formula of [`OPEN`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no formula of M, N, K, batch, lda, ldb and ldc")]
pub struct NoFormula(String);

/// As documents have it: in Python.
impl From<Formula> for String {
    fn from(formula: Formula) -> Self {
        formula.text(Language::Python)
    }
}

impl TryFrom<String> for Formula {
    type Error = NoFormula;

    fn try_from(text: String) -> Result<Self, NoFormula> {
        let slot = |name: &str| OPEN.iter().position(|open| *open == name).map(|at| at as Slot);
        let formula = read(&text, &slot).ok().map(|(formula, _)| formula.with(&|_| None));
        formula.filter(Self::is_closed).ok_or(NoFormula(text))
    }
}
