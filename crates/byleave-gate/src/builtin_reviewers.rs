//! Built-in reviewers. They use the same traits as any other reviewer.

mod drop_fields;
mod injection;
mod program;
mod protocol;
mod secrets;
mod strip_argument;
#[cfg(feature = "webhooks")]
mod webhook;

pub use drop_fields::drop_fields;
pub use injection::injection_marks;
pub use program::{InvalidProgramError, ProgramReviewer};
pub use secrets::secret_redaction;
pub use strip_argument::strip;
#[cfg(feature = "webhooks")]
pub use webhook::WebhookReviewer;
