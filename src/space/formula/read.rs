//! From the text of an expression to a formula, with the precedence of the template engine
//! (`parsing/parser.rs` of tera 2.4): `or`, `and`, `in`, comparisons, sums, products, `|`; a ternary
//! binds least. `ceil_div(a, b)`, `max(a, b)` and `min(a, b)`, as formulas are printed, are read too.

use super::{Binary, Formula, OPEN, Unary};

/// How deep an expression may be nested.
const MAX_DEPTH: usize = 200;

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Int(i64),
    Text(String),
    Word(String),
    Symbol(&'static str),
}

/// What symbols there are; a longer one comes before its beginning.
const SYMBOLS: [&str; 18] =
    ["==", "!=", "<=", ">=", "//", "<", ">", "+", "-", "*", "%", "(", ")", "[", "]", ",", "|", "="];

impl Formula {
    /// Reads an expression. `None` for what formulas do not have: floating-point numbers, other
    /// filters, tests.
    pub fn read(text: &str) -> Option<Self> {
        let mut reader = Reader { tokens: tokens(text)?, at: 0, depth: 0 };
        let formula = reader.expression(0)?;
        (reader.at == reader.tokens.len()).then_some(formula)
    }
}

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = |rest: &str, part: fn(char) -> bool| {
            rest.find(|c: char| !part(c)).unwrap_or(rest.len())
        };
        let length = if first.is_ascii_digit() {
            let length = end(rest, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_'));
            tokens.push(Token::Int(rest[..length].parse().ok()?));
            length
        } else if first.is_alphabetic() || first == '_' {
            let length = end(rest, |c| c.is_alphanumeric() || c == '_');
            tokens.push(Token::Word(rest[..length].to_owned()));
            length
        } else if matches!(first, '\'' | '"' | '`') {
            let length = rest[1..].find(first)?;
            let inner = &rest[1..=length];
            if inner.contains('\\') {
                return None;
            }
            tokens.push(Token::Text(inner.to_owned()));
            length + 2
        } else {
            let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol))?;
            tokens.push(Token::Symbol(symbol));
            symbol.len()
        };
        rest = rest[length..].trim_start();
    }
    Some(tokens)
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Reader {
    fn expression(&mut self, least: u8) -> Option<Formula> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let formula = self.operand().and_then(|operand| self.operations(operand, least));
        self.depth -= 1;
        formula
    }

    fn operand(&mut self) -> Option<Formula> {
        Some(match self.next()? {
            Token::Int(value) => Formula::Int(value),
            Token::Text(text) => Formula::Text(text),
            Token::Symbol("-") => Formula::Unary(Unary::Minus, Box::new(self.expression(20)?)),
            Token::Symbol("(") => {
                let inner = self.expression(0)?;
                self.expect(")")?;
                inner
            }
            Token::Symbol("[") => Formula::List(self.list("]")?),
            Token::Symbol(_) => return None,
            Token::Word(word) => match word.as_str() {
                "true" | "True" => Formula::Bool(true),
                "false" | "False" => Formula::Bool(false),
                "not" => Formula::Unary(Unary::Not, Box::new(self.expression(5)?)),
                "ceil_div" | "min" | "max" if self.takes("(") => {
                    let arguments = self.list(")")?;
                    let [a, b] = <[Formula; 2]>::try_from(arguments).ok()?;
                    Formula::Binary(function(&word)?, Box::new(a), Box::new(b))
                }
                name => match OPEN.iter().position(|open| *open == name) {
                    Some(place) => Formula::Open(place),
                    None => Formula::Name(word),
                },
            },
        })
    }

    fn operations(&mut self, mut left: Formula, least: u8) -> Option<Formula> {
        loop {
            let negated = self.peeks_word("not");
            let place = self.at + usize::from(negated);
            let (operation, power) = match self.tokens.get(place) {
                Some(Token::Word(word)) if word == "if" && !negated => {
                    if least > 0 {
                        return Some(left);
                    }
                    self.at += 1;
                    let condition = self.expression(0)?;
                    (self.next()? == Token::Word("else".to_owned())).then_some(())?;
                    let fails = self.expression(0)?;
                    return Some(Formula::If(Box::new([condition, left, fails])));
                }
                Some(Token::Symbol("|")) if !negated => {
                    if least > 17 {
                        return Some(left);
                    }
                    self.at += 1;
                    left = self.filter(left)?;
                    continue;
                }
                Some(token) => match binary(token) {
                    Some(known) => known,
                    None => return Some(left),
                },
                None => return Some(left),
            };
            if power < least {
                return Some(left);
            }
            self.at = place + 1;
            let right = self.expression(power + 1)?;
            left = Formula::Binary(operation, Box::new(left), Box::new(right));
            if negated {
                left = Formula::Unary(Unary::Not, Box::new(left));
            }
        }
    }

    /// `NAME(argument=VALUE)` after a `|`.
    fn filter(&mut self, value: Formula) -> Option<Formula> {
        let Token::Word(name) = self.next()? else { return None };
        self.expect("(")?;
        let Token::Word(_) = self.next()? else { return None };
        self.expect("=")?;
        let argument = self.expression(0)?;
        self.expect(")")?;
        Some(Formula::Binary(function(&name)?, Box::new(value), Box::new(argument)))
    }

    fn list(&mut self, end: &str) -> Option<Vec<Formula>> {
        let mut items = Vec::new();
        while !self.takes(end) {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(self.expression(0)?);
        }
        Some(items)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn expect(&mut self, symbol: &str) -> Option<()> {
        self.takes(symbol).then_some(())
    }

    /// Goes past a symbol, if it is the next.
    fn takes(&mut self, symbol: &str) -> bool {
        let is_next =
            matches!(self.tokens.get(self.at), Some(Token::Symbol(next)) if *next == symbol);
        self.at += usize::from(is_next);
        is_next
    }

    fn peeks_word(&self, word: &str) -> bool {
        matches!(self.tokens.get(self.at), Some(Token::Word(next)) if next == word)
    }
}

/// The operation of a filter or of a function that is printed.
fn function(name: &str) -> Option<Binary> {
    Some(match name {
        "ceil_div" => Binary::CeilDiv,
        "at_least" | "max" => Binary::Most,
        "at_most" | "min" => Binary::Least,
        _ => return None,
    })
}

/// An operation and how strongly it binds to its left; to its right, it is one more.
fn binary(token: &Token) -> Option<(Binary, u8)> {
    Some(match token {
        Token::Word(word) => match word.as_str() {
            "or" => (Binary::Or, 1),
            "and" => (Binary::And, 3),
            "in" => (Binary::In, 5),
            _ => return None,
        },
        Token::Symbol(symbol) => match *symbol {
            "==" => (Binary::Equal, 7),
            "!=" => (Binary::Unequal, 7),
            "<" => (Binary::Less, 7),
            "<=" => (Binary::AtMost, 7),
            ">" => (Binary::Greater, 7),
            ">=" => (Binary::AtLeast, 7),
            "+" => (Binary::Plus, 11),
            "-" => (Binary::Minus, 11),
            "*" => (Binary::Times, 13),
            "//" => (Binary::Divide, 13),
            "%" => (Binary::Remainder, 13),
            _ => return None,
        },
        _ => return None,
    })
}
