//! The sandbox: a command runs so that only what was permitted is possible (E2, E3, E7).
//!
//! ```text
//! granted effects ─▶ Confinement ─▶ Guarantees ─▶ backend ─▶ child
//!                    what may be     what each      gives all
//!                    possible        item means     of them, or refuses
//! ```
//!
//! The backends are the rungs of a ladder: native namespaces, the system's bwrap, Landlock and the filter alone, and then none.
//! A backend that cannot give a guarantee refuses, unless the operator waived that guarantee by its name. Nothing is ever run
//! weaker than it was asked for. The only crate with `unsafe`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod cgroup;
pub mod confinement;
pub mod from_plan;
pub mod guarantee;
pub mod seccomp;
pub mod workspace_index;
// The program of the first process inside is built by the build script; here it is compiled to be looked at and tested.
pub mod backend;
mod clone3;
pub mod closed_stdio;
#[cfg(test)]
#[expect(dead_code, reason = "its entry is in another program")]
mod init;
pub mod launch;
pub mod limits;
pub mod net;
pub mod plan;
pub mod plan_format;
pub mod probe;
pub mod protected_paths;
pub mod report;
pub mod repository;
#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "the first process inside uses the rest"))]
mod syscall;
mod system_paths;
pub mod tripwire;
mod unfinished;
