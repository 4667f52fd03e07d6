//! Redacts text that looks like a secret from results, before the model sees them.

use byleave_core::outcome::Output;

use crate::redact::{redact, redact_value};
use crate::review::{Opinion, OutputReviewer, OutputSubject, output_reviewer};

/// Returns a reviewer of results that replaces text that looks like a secret by a mark, in text, error and data.
pub fn secret_redaction() -> impl OutputReviewer {
    output_reviewer("secret-redaction", |subject: OutputSubject<'_>| {
        let before = subject.output;
        let after = Output {
            text: redact(&before.text),
            error: before.error.as_deref().map(redact),
            data: before.data.as_ref().map(redact_value),
            ..before.clone()
        };
        if after == *before { Opinion::Pass } else { Opinion::change(after, "secrets were redacted") }
    })
}
