//! Steward.
