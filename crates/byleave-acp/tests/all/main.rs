//! The proxy between an editor and an agent that are both fakes of ours, and speak the real protocol over pipes.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod pipes;
mod wire;
