//! Properties of the core that hold for every input, through its public face.
#![expect(clippy::unwrap_used, reason = "tests")]

mod policy;
