//! The sandbox: a command runs so that only what was permitted is possible (E2, E3, E7).
//!
//! ```text
//! granted effects ─▶ Confinement ─▶ Guarantees ─▶ backend ─▶ child
//!                    what may be     what each      gives all
//!                    possible        item means     of them, or refuses
//! ```
//!
//! A backend that cannot give a guarantee refuses, unless the operator waived that guarantee by its name. Nothing is ever run
//! weaker than it was asked for. The only crate with `unsafe`.

pub mod confinement;
pub mod guarantee;
pub mod limits;
pub mod net;
