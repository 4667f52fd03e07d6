//! The stored format: its name and its digest.
//!
//! `format-2-draft.jsonl` has one stored entry of each kind, one content of each kind and one admin action of each kind. A
//! test writes it. A store adds its tables, and keeps the digest of both. A program with another digest refuses the store
//! instead of misreading it. The format is a draft until the first release, so it has no migrations.

use crate::digest::Digest;

/// The name of the format.
pub const NAME: &str = "2-draft";

/// The entries, contents and admin actions as they are stored.
const DESCRIPTION: &str = include_str!("format-2-draft.jsonl");

/// Returns the digest of the format of a store that has these tables.
pub fn digest(tables: &str) -> Digest {
    Digest::compute_parts("byleave.format", &[NAME.as_bytes(), DESCRIPTION.as_bytes(), tables.as_bytes()])
}
