//! Reviewers read arguments before a call runs, and results before the model sees them.

#[cfg(feature = "webhooks")]
pub use byleave_gate::builtin_reviewers::WebhookReviewer;
pub use byleave_gate::builtin_reviewers::{
    InvalidProgramError, ProgramReviewer, drop_fields, injection_marks, secret_redaction, strip,
};
pub use byleave_gate::review::{
    InputReviewer, InputSubject, IntoOpinion, Opinion, OutputReviewer, OutputSubject, OwnedInput,
    OwnedOutput, ReviewError, ReviewScope, hold_reviewer, input_reviewer, input_reviewer_async,
    output_reviewer, output_reviewer_async,
};
