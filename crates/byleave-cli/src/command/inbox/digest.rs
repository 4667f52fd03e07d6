//! The digest that an answer repeats, so that it cannot be applied to another question.

use byleave_gate::core::digest::Digest;
use byleave_gate::core::question::Question;
use byleave_gate::gate::AnswerError;

use crate::error::CliError;

/// The minimum number of characters that distinguish two questions.
const DIGEST_CHARS_MIN: usize = 12;

/// Returns the digest for the answer. If a digest was typed, it must match the question as it was shown.
pub(super) fn digest_to_confirm(question: &Question, typed: Option<&str>) -> Result<Digest, CliError> {
    let digest = question.digest();
    match typed {
        None => Ok(digest),
        Some(typed) if typed.len() < DIGEST_CHARS_MIN => Err(CliError::new(format!(
            "`{typed}` is too short: a digest has at least {DIGEST_CHARS_MIN} characters"
        ))
        .hint("`byleave inbox show` ends with the digest of what it shows")),
        Some(typed) if digest.to_string().starts_with(&typed.to_ascii_lowercase()) => Ok(digest),
        Some(_) => Err(AnswerError::Mismatch.into()),
    }
}
