//! Copies: what a command changed on a copy of the files; shown, committed to the files themselves, and taken back.
//!
//! ```text
//! files ──▶ copy ──(the command runs on it)──▶ changes ──▶ commit ──▶ files, and what was there before in the store
//!                                                   └────▶ discard         └──▶ undo: the same, the other way round
//! ```
//!
//! | room | what it does |
//! |---|---|
//! | [`store`], [`copy`] | the directory that holds everything; one copy in it |
//! | `layers`, `tree`, [`scratch`] | how a copy is made: layers for an overlay, a plain copy, what is built again and again |
//! | `put` | changes made on a copy by hand |
//! | `list`, `fold`, `standing`, `diff` | what differs, what was renamed, what git knows, how text differs |
//! | `plan`, `journal`, `steps`, `durable` | what a commit will do, written down before it is done; each step can be done twice and taken back |
//! | `commit`, `recover`, `undo`, `tidy` | doing it, finishing it after a crash, doing the inverse, forgetting |
//!
//! Knows nothing of who runs what; a copy is a directory of layers that the sandbox mounts. No `unsafe`. Never follows a link
//! on its way to a path, never runs git, never removes what it has not moved to the store before.

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
