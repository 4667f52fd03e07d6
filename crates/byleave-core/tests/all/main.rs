//! Everything of core that is tested from outside.
#![expect(clippy::unwrap_used, reason = "tests")]

mod render;
