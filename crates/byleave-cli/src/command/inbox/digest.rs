//! The digest that an answer repeats, so that it cannot be taken for another question's.

use byleave::core::digest::Digest;
use byleave::core::question::Question;
use byleave::gate::AnswerError;

use crate::error::CliError;

/// The fewest characters of a digest that tell two questions apart.
const DIGEST_CHARS_MIN: usize = 12;

/// The digest that the answer repeats: of the question as it was shown, where someone says what was shown.
pub(super) fn digest_of(question: &Question, typed: Option<&str>) -> Result<Digest, CliError> {
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
