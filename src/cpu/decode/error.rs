//! Error of a statement.

/// Error of a statement whose location is not resolved yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StatementError(pub(super) String);

impl StatementError {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    pub(super) fn operands() -> Self {
        Self::new("this device does not support the instruction with these operands")
    }

    pub(super) fn ty() -> Self {
        Self::new("this device does not support the instruction with this type")
    }
}
