//! Answers to held results: release, withhold, or release with parts masked.

use anyhow::Result;
use byleave_gate::approver::Reply;
use byleave_gate::core::question::QuestionKind;
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::redact::redact_output;
use serde_json::json;

use crate::call_display::format_count;
use crate::error::CliError;

/// Releases the whole result to the model.
pub(super) fn release(sheet: &QuestionView, note: Option<String>) -> Result<Reply> {
    is_held(sheet, "yes")?;
    Ok(Reply::Yes { note })
}

/// Withholds the result from the model.
pub(super) fn withhold(sheet: &QuestionView, feedback: Option<String>) -> Result<Reply> {
    is_held(sheet, "no")?;
    Ok(Reply::No { feedback })
}

/// Releases the masked result to the model. Fails if nothing would be masked or a named word does not occur, because the person
/// wants it removed.
pub(super) fn redact(sheet: &QuestionView, words: &[String], note: Option<String>) -> Result<Reply> {
    is_held(sheet, "edit")?;
    let missing = || CliError::new("cannot read the held result");
    let found = redact_output(sheet.output.as_ref().ok_or_else(missing)?, words);
    if let Some(word) = found.missing_words.first() {
        return Err(CliError::new(format!("`{word}` is not in the result; nothing was answered"))
            .hint("`byleave inbox show ID` shows the result; write the text to mask exactly as shown there")
            .into());
    }
    if found.masked_count == 0 {
        return Err(CliError::new("there is nothing to mask: nothing in the result looks like a secret")
            .hint("name the text to mask with `--text WORD`, or release the result unchanged with `release`")
            .into());
    }
    let note = note
        .or_else(|| Some(format!("{} masked by a person", format_count(found.masked_count as u64, "place"))));
    Ok(Reply::Edit { value: json!(found.output), note })
}

fn is_held(sheet: &QuestionView, instead: &str) -> Result<(), CliError> {
    if sheet.question.kind == QuestionKind::Release {
        return Ok(());
    }
    Err(CliError::new("this question is about a call that has not run, and not about a held result")
        .hint(format!("answer it with `{instead}`")))
}
