//! Copies: what a command changed on a copy of the files; shown, committed to the files themselves, and taken back.
//!
//! ```text
//! files ──▶ copy ──(the command runs on it)──▶ changes ──▶ commit ──▶ files, and what was there before in the store
//!                                                   └────▶ discard         └──▶ undo: the same, the other way round
//! ```
//!
//! | room | what it does |
//! |---|---|
//! | [`store`], [`copy`], `files` | the directory that holds everything; one copy in it; the small files of both |
//! | `layers`, `tree`, [`scratch`] | how a copy is made: layers for an overlay, a plain copy, what is built again and again |
//! | `put` | changes made on a copy by hand |
//! | `list`, `whiteout`, `listing` | what differs, and by which marks a layer says so; kept, so that what was shown is what is committed |
//! | `fold`, `standing`, `index`, [`patterns`], `diff`, `limits` | what was renamed, what git knows, its index and its ignore patterns, how text differs, what a copy cannot do |
//! | `check`, `plan`, `staging` | that nothing stands in the way of a commit, its steps, and what it moves made ready |
//! | `journal`, `steps`, `durable` | what a commit will do, written down before it is done; each step can be done twice and taken back |
//! | `commit`, `recover`, `undo`, `images`, `tidy` | doing it, finishing it after a crash, doing the inverse, what was there before, forgetting |
//! | `disk`, `paths`, `attributes`, `read`, `day`, [`error`] | handles, paths as text, extended attributes, digests, days; what can go wrong |
//!
//! Knows nothing of who runs what; a copy is a directory of layers that the sandbox mounts. No `unsafe`. Never follows a link
//! on its way to a path, never runs git, never removes what it has not moved to the store before.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod before_images;
mod caveats;
mod change_list;
pub mod commit;
mod commit_plan;
pub mod copy;
mod date;
mod diff;
mod diff_scan;
mod dir_handle;
pub mod error;
mod file_digest;
mod fsync;
pub mod gc;
mod git_index;
mod git_status;
mod journal;
mod journal_steps;
mod json_files;
mod layers;
mod paths;
pub mod patterns;
mod preconditions;
pub mod recover;
mod rename_detection;
pub mod scratch;
mod staging;
pub mod store;
mod tree_copy;
pub mod undo;
mod whiteout;
mod write_into_copy;
mod xattrs;

pub use commit::CommitReport;
pub use copy::{NewScratchDir, WorkspaceCopy};
pub use error::{Conflict, ConflictTexts, Error};
pub use gc::{DroppedCopy, GcReport};
pub use layers::{CopiedDir, CopyMethod, MountSource};
pub use recover::{RecoveryOutcome, RecoveryReport};
pub use store::{CopySettings, CopyState, CopyStore};
pub use undo::OnConflict;
