//! Enumerations whose values have one name in files, on the command line and in templates.

use thiserror::Error;

use super::diagnostic::did_you_mean;

/// Error: an unknown name of an enumeration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` is no {what}: choose one of {}{}", .known.join(", "), guess(.given, .known))]
pub struct UnknownWord {
    /// Kind of name: `dtype`, `compute type`, `layout`, `swizzle`.
    pub what: &'static str,
    /// The given text.
    pub given: String,
    /// The valid names.
    pub known: Vec<&'static str>,
}

/// Names that other programs have for types.
const OTHER_NAMES: [(&str, &str); 11] = [
    ("fp16", "f16"),
    ("float16", "f16"),
    ("half", "f16"),
    ("bfloat16", "bf16"),
    ("bfloat", "bf16"),
    ("fp32", "f32"),
    ("float32", "f32"),
    ("float", "f32"),
    ("int8", "i8"),
    ("int32", "i32"),
    ("int", "i32"),
];

/// The valid name that a word most likely means, in brackets; empty where none is near.
fn guess(given: &str, known: &[&str]) -> String {
    let given = given.to_ascii_lowercase();
    let other = OTHER_NAMES.iter().find(|(other, name)| *other == given && known.contains(name));
    let word = other.map_or(given.as_str(), |(_, name)| name);
    did_you_mean(word, known.iter().copied()).map_or(String::new(), |text| format!(" ({text})"))
}

/// Declares an enum whose variants have one name in files, on the command line and in templates.
macro_rules! named_enum {
    ($(#[$doc:meta])* $type:ident, $what:literal, { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $type {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant,)+
        }

        impl $type {
            /// All values in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Name in files, options and templates.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::str::FromStr for $type {
            type Err = super::word::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|word| word.name() == text).ok_or_else(|| super::word::UnknownWord {
                    what: $what,
                    given: text.to_owned(),
                    known: Self::ALL.iter().map(|word| word.name()).collect(),
                })
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
pub(super) use named_enum;
