//! Errors of a statement.

/// What is wrong with a statement, before its place is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StatementError(pub(super) String);

impl StatementError {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    pub(super) fn operands() -> Self {
        Self::new("its operands are not those of an instruction that this device executes")
    }

    pub(super) fn ty() -> Self {
        Self::new("this device does not execute it with this type")
    }
}
