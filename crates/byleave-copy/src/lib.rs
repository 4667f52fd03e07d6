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
//! | `disk`, `paths`, `attributes`, `read`, `day`, [`fault`] | handles, paths as text, extended attributes, digests, days; what can go wrong |
//!
//! Knows nothing of who runs what; a copy is a directory of layers that the sandbox mounts. No `unsafe`. Never follows a link
//! on its way to a path, never runs git, never removes what it has not moved to the store before.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod attributes;
mod check;
pub mod commit;
pub mod copy;
mod day;
mod diff;
mod disk;
mod durable;
pub mod fault;
mod files;
mod fold;
mod images;
mod index;
mod journal;
mod layers;
mod limits;
mod list;
mod listing;
mod paths;
pub mod patterns;
mod plan;
mod put;
mod read;
pub mod recover;
pub mod scratch;
mod staging;
mod standing;
mod steps;
pub mod store;
pub mod tidy;
mod tree;
pub mod undo;
mod whiteout;

pub use commit::Committed;
pub use copy::{Copy, Harvested};
pub use fault::{Conflict, Fault, Texts};
pub use layers::{Copied, Method, Source};
pub use recover::{End, Recovered};
pub use store::{Settings, State, Store};
pub use tidy::{Dropped, Tidied};
pub use undo::Since;
