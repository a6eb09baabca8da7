//! Formulas written down for other languages. Operands that are operations stand in parentheses: no
//! reader has to know precedences.

use super::{Binary, Formula, OPEN, Unary};

/// What a formula is written in.
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
    /// Its text. Names other than [`OPEN`] have to be known by then, and strings folded away.
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
            Self::Open(place) => match language {
                Language::Rust => OPEN[*place].to_lowercase(),
                _ => OPEN[*place].to_owned(),
            },
            Self::Name(text) | Self::Text(text) => text.clone(),
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
        let is_python = language == Language::Python;
        match self {
            Self::Or => {
                if is_python {
                    "or"
                } else {
                    "||"
                }
            }
            Self::And => {
                if is_python {
                    "and"
                } else {
                    "&&"
                }
            }
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
            Self::Divide => {
                if is_python {
                    "//"
                } else {
                    "/"
                }
            }
            Self::Remainder => "%",
            Self::CeilDiv => "ceil_div",
            Self::Most => {
                if is_python {
                    "max"
                } else {
                    "most"
                }
            }
            Self::Least => {
                if is_python {
                    "min"
                } else {
                    "least"
                }
            }
        }
    }
}
