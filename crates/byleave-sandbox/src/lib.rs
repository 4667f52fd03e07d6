//! The sandbox. It runs a command so that the command can do only what was permitted (E2, E3, E7).
//!
//! ```text
//! granted effects ─▶ Confinement ─▶ Guarantees ─▶ backend ─▶ child
//!                    what may be     what each      gives all
//!                    possible        item means     of them, or refuses
//! ```
//!
//! The backends, strongest first, are native namespaces, the system's bwrap, and Landlock with the system call filter alone. A
//! backend that cannot give a guarantee refuses, unless the operator waived that guarantee by name. The sandbox never runs a
//! command with less confinement than was requested. This is the only crate with `unsafe`.
//!
//! The modules:
//!
//! - `confinement`, `guarantee`, `limits`: The limits of one run as data, the guarantees by name, and resource limits.
//! - `from_plan`: Turns a permitted plan and the policy into a confinement.
//! - `backend`, `probe`: The backends and their guarantees. Finds out which of them work on this machine.
//! - `plan`, `plan_format`, `seccomp`: A confinement as mounts, Landlock rules and a seccomp program, and its encoding for the
//!   first process.
//! - `init`: The first process inside. It has no libc and no heap.
//! - `launch`: Runs a command, or several in one session, and supervises it.
//! - `net`: The proxy, which is the only way out of the sandbox.
//! - `cgroup`: A cgroup for each command, if one is delegated.
//! - `protected_paths`, `workspace_index`: Find files to hide or protect. The index is kept between commands.
//! - `tripwire`, `unfinished`, `repository`: Find and disable files that a command planted for others to run.
//! - `system_paths`: The paths that every command needs.
//! - `report`: Describes what was blocked, for a model or a person.
//! - `clone3`, `syscall`, `closed_stdio`: Raw system calls, and whether standard output was open at the start.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod cgroup;
pub mod confinement;
pub mod from_plan;
pub mod guarantee;
pub mod seccomp;
pub mod workspace_index;
// The build script builds the program of the first process (`init`). This crate compiles it only for lints and tests.
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
