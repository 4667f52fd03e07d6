//! Copies: what a command changed on a copy of the files; shown, committed to the files themselves, and taken back.
//!
//! ```text
//! files ──▶ copy ──(the command runs on it)──▶ changes ──▶ commit ──▶ files, and what was there before in the store
//!                                                   └────▶ discard         └──▶ undo: the same, the other way round
//! ```
//!
//! Knows nothing of who runs what; a copy is a directory of layers that the sandbox mounts. No `unsafe`.
