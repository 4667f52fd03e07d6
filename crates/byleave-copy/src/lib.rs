//! Copy-on-write copies of directories: lists what a command changed on a copy, commits it to the real files, and undoes it.
//!
//! ```text
//! files ──▶ copy ──(the command runs on it)──▶ changes ──▶ commit ──▶ files, and what was there before in the store
//!                                                   └────▶ discard         └──▶ undo: the same, the other way round
//! ```
//!
//! | module | purpose |
//! |---|---|
//! | [`store`], [`copy`], `json_files` | the directory of all copies; one copy with its lock; small files that are written whole |
//! | `layers`, `tree_copy`, `whiteout` | overlay directories or a plain copy; copies of trees; overlay marks for removed files |
//! | [`scratch`] | directories that builds create again, kept for the session in layers of their own |
//! | `tree_paths` | hides files in a full copy, and lets text name the copy or the original |
//! | `write_into_copy` | writes whole files to a copy without mounting it |
//! | `diff_scan`, `change_list` | finds what differs on a copy; stores that list, so that the shown changes are the committed ones |
//! | `copied_entries` | the entries of a full copy before the command began |
//! | `rename_detection`, `diff`, `caveats` | folds renames; text diffs; ways in which a copy differs from a direct run |
//! | `git_status`, `git_index`, [`patterns`] | the Git status of a path; Git's index; Git's ignore patterns, within limits |
//! | `preconditions`, `commit_plan`, `staging` | checks before a commit; its steps; prepares the files to move |
//! | [`outer_entries`] | the entries of Git's index outside of the directory that a command works in |
//! | `journal`, `journal_steps`, `fsync` | the journal of a commit; steps that can be repeated and reverted; durability |
//! | [`commit`], [`recover`], [`undo`] | commits; finishes or reverts an interrupted commit; undoes a commit |
//! | [`outputs`] | puts what allowed runs wrote into scratch on the disk |
//! | `before_images` | the files as they were before a commit |
//! | [`external_edit`] | an edit that another program makes itself: before-images first, compared afterwards |
//! | [`gc`] | drops old copies and before-images |
//! | `dir_handle`, `paths`, `xattrs`, `file_digest`, `date` | handles that follow no link; path text; extended attributes; digests; dates |
//! | [`error`] | errors and conflicts |
//!
//! The crate does not know who runs what: a copy is a directory of layers that the sandbox mounts. It has no `unsafe` code. It
//! never follows a link on the way to a path and never runs Git. It never removes a file that it has not first moved to the store.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod before_images;
mod caveats;
mod change_list;
pub mod commit;
mod commit_plan;
mod copied_entries;
pub mod copy;
mod date;
mod diff;
mod diff_scan;
mod dir_handle;
pub mod error;
pub mod external_edit;
mod file_digest;
mod fsync;
pub mod gc;
mod git_index;
mod git_status;
mod journal;
mod journal_steps;
mod json_files;
mod layers;
pub mod outer_entries;
pub mod outputs;
mod paths;
pub mod patterns;
mod preconditions;
pub mod recover;
mod rename_detection;
pub mod scratch;
mod staged_indexes;
mod staging;
pub mod store;
mod tree_copy;
mod tree_paths;
pub mod undo;
mod whiteout;
mod write_into_copy;
mod xattrs;

pub use commit::CommitReport;
pub use copy::{NewScratchDir, WorkspaceCopy};
pub use error::{Conflict, ConflictTexts, Error};
pub use external_edit::{ExpectedContent, ExternalEditState};
pub use gc::{DroppedCopy, GcReport, GcRequest, StoreUsage};
pub use layers::{CopiedDir, CopyMethod, MountSource};
pub use outputs::{OutputReport, OutputRule};
pub use recover::{RecoveryOutcome, RecoveryReport};
pub use store::{CopySettings, CopyState, CopyStore};
pub use undo::OnConflict;
