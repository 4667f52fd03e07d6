//! The entities: what the engine holds, each with one writer at a time.
//!
//! ```text
//! Call       the record of one call, its sealed contents, its wrapped key
//! Session    who runs alone in it
//! Holds      a part of those whose effects hold others up
//! Tenant     what administrators did; the halt in force
//! Leave      one leave: how often it was used, whether it was revoked
//! Leaves     the leaves of one tenant for one tool
//! Question   which call a question belongs to
//! Unsettled  a part of the calls that are not settled
//! Projector  a lane into the book: who owes it something
//! Gateway    which process is the gateway of a fleet
//! ```
//!
//! A call asks the others, never the other way round, except that a tenant may have it forget. A tenant tells those who list what
//! is unsettled that it is halted, and they ask it without waiting for its writer. A projector is told and never waited for; it
//! asks a call without waiting for its writer. So nothing can wait in a circle. Handlers are short: they check, write and end.

pub(crate) mod call;
mod checked;
pub(crate) mod gateway;
pub(crate) mod holds;
pub(crate) mod leave;
mod owing;
pub(crate) mod projector;
pub(crate) mod question;
pub(crate) mod session;
pub(crate) mod tenant;
pub(crate) mod unsettled;

use restate_sdk::prelude::{HandlerError, TerminalError};

/// A message is sent when it is made; who it was given to matters to nobody.
pub(crate) fn drop_handle<T>(handle: T) {
    drop(handle);
}

/// Something of ours is broken: said to whoever asked, and not tried again for ever.
pub(crate) fn broken(what: &str, why: impl std::fmt::Display) -> HandlerError {
    TerminalError::new(format!("{what}: {why}")).into()
}
