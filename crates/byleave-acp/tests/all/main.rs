//! The proxy between a fake editor and a fake agent, which speak the real protocol over pipes.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod pipes;
mod wire;
