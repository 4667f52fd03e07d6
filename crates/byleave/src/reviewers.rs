//! Reviewers that come with the library. They go through the same traits as anyone's.

mod fields;
mod injection;
mod program;
mod secrets;
mod strip;
mod webhook;
mod wire;

pub use fields::drop_fields;
pub use injection::injection_marks;
pub use program::{BadProgram, Program};
pub use secrets::secret_redaction;
pub use strip::strip;
pub use webhook::Webhook;
