//! Formulas as text of other languages. Operands that are operations stand in parentheses, so that
//! precedences do not matter.

use super::{Binary, Formula, OPEN, Unary};

/// A language that formulas are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Python, which manifests have too; with `ceil_div`, `max` and `min`.
    Python,
    /// C99 of `long long`, with functions `ceil_div`, `most` and `least`.
    C,
    /// Rust of `i64`, with functions `ceil_div`, `most` and `least`.
    Rust,
}

impl Formula {
    /// Its text. It is closed: names other than [`OPEN`] and strings have been folded away.
    pub fn text(&self, language: Language) -> String {
        match self {
            Self::Int(value) => match language {
                Language::C if i32::try_from(*value).is_err() => format!("{value}LL"),
                _ => value.to_string(),
            },
            Self::Bool(value) => match language {
                Language::Python => if *value { "True" } else { "False" }.to_owned(),
                Language::C => i32::from(*value).to_string(),
                Language::Rust => value.to_string(),
            },
            Self::Name(slot) => {
                let name = OPEN.get(usize::from(*slot)).copied().unwrap_or("?");
                if language == Language::Rust { name.to_lowercase() } else { name.to_owned() }
            }
            Self::Float(value) => value.value().to_string(),
            Self::Text(text) => format!("'{text}'"),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(|item| item.text(language)).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Unary(Unary::Minus, of) => format!("-{}", of.operand(language)),
            Self::Unary(Unary::Not, of) => match language {
                Language::Python => format!("not {}", of.operand(language)),
                Language::C | Language::Rust => format!("!{}", of.operand(language)),
            },
            Self::Binary(operation, a, b) => {
                let name = operation.name(language);
                match operation {
                    Binary::CeilDiv | Binary::Most | Binary::Least => {
                        format!("{name}({}, {})", a.text(language), b.text(language))
                    }
                    _ => format!("{} {name} {}", a.operand(language), b.operand(language)),
                }
            }
            Self::If(parts) => {
                let [condition, holds, fails] = parts.as_ref();
                let of = |part: &Self| part.operand(language);
                match language {
                    Language::Python => {
                        format!("{} if {} else {}", of(holds), of(condition), of(fails))
                    }
                    Language::C => format!("{} ? {} : {}", of(condition), of(holds), of(fails)),
                    Language::Rust => {
                        let of = |part: &Self| part.text(language);
                        format!("if {} {{ {} }} else {{ {} }}", of(condition), of(holds), of(fails))
                    }
                }
            }
        }
    }

    fn operand(&self, language: Language) -> String {
        let text = self.text(language);
        let is_call =
            matches!(self, Self::Binary(Binary::CeilDiv | Binary::Most | Binary::Least, ..));
        match self {
            Self::Unary(..) | Self::Binary(..) | Self::If(_) if !is_call => format!("({text})"),
            _ => text,
        }
    }
}

impl Binary {
    fn name(self, language: Language) -> &'static str {
        let choose = |python, other| if language == Language::Python { python } else { other };
        match self {
            Self::Or => choose("or", "||"),
            Self::And => choose("and", "&&"),
            Self::In => "in",
            Self::Equal => "==",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Times => "*",
            Self::Divide => choose("//", "/"),
            Self::Quotient => "/",
            Self::Remainder => "%",
            Self::CeilDiv => "ceil_div",
            Self::Most => choose("max", "most"),
            Self::Least => choose("min", "least"),
        }
    }
}
