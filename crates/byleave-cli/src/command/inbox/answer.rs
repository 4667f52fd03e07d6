//! `byleave inbox answer`: gives an answer and continues just that call.

use std::path::PathBuf;

use anyhow::Result;
use byleave_gate::approver::Reply;
use byleave_gate::core::challenge::{Challenge, ChallengeVerdict};
use byleave_gate::core::question::QuestionKind;
use byleave_gate::core::question_view::{QuestionView, RehearsalView};
use byleave_gate::core::render::render;
use byleave_gate::gate::{AnswerError, SubmittedAnswer};
use byleave_gate::ledger::Ledger as _;
use clap::Subcommand;
use serde_json::Value;

use super::digest::digest_to_confirm;
use super::{standing_approval, withheld_result};
use crate::app_context::AppContext;
use crate::args::AskArg;
use crate::command::call::{json as typed_json, text as typed_text};
use crate::console::Console;
use crate::drive_call::{drive, record_waivers};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::{ResolvedOptions, text_of};
use crate::time::now;
use crate::{call_display, json_output, resume_call, short_ids};

#[derive(Debug, Subcommand)]
pub(crate) enum AnswerCommand {
    /// Approve the call
    Yes {
        /// Note for the model
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// Confirmation. A checkpoint requires `--confirm release`
        #[arg(long, value_name = "WORD")]
        confirm: Option<String>,
        /// What the call assumes, if the question needs the case against it
        #[arg(long, value_name = "TEXT", requires_all = ["failure", "because"])]
        assumption: Vec<String>,
        /// How the call could fail
        #[arg(long, value_name = "TEXT", requires = "assumption")]
        failure: Vec<String>,
        /// Why the call is right all the same
        #[arg(long, value_name = "TEXT", requires = "assumption")]
        because: Option<String>,
    },
    /// Decline the call
    No {
        /// Feedback for the model: what to do instead
        #[arg(long, value_name = "TEXT")]
        feedback: Option<String>,
    },
    /// Approve a part of the changes of a rehearsal
    Partial {
        /// Paths to keep, with everything below, relative to the directory of the call
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        /// Note for the model
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Replace the arguments, or a held result
    Edit {
        /// All arguments, or the whole result: JSON, `@FILE`, or `-` for stdin
        #[arg(long, value_name = "JSON")]
        args: String,
        /// Note for the model
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Approve the call, and similar calls in future
    ///
    /// A standing approval covers effects within a scope, whichever tool has them; the use of a tool by name, only of that tool. By
    /// default it applies to this session, for an hour. Without `--scope` and `--pattern`, lists the possible scopes, answers nothing
    /// and exits with 2.
    StandingApproval {
        /// Number of a listed scope
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "pattern")]
        scope: Option<u32>,
        /// Scope of your own: an effect, a colon and a pattern, as in `write:/w/notes/**`
        ///
        /// Effects: run, exactly, read, write, delete, reach, send, invoke and plan.
        #[arg(long, value_name = "PATTERN")]
        pattern: Vec<String>,
        /// Show the equivalent rule and the past calls it would have covered; answer nothing
        #[arg(long)]
        preview: bool,
        /// Lifetime: a number and s, m, h, d or w, or `until-revoked`
        #[arg(long = "for", value_name = "DURATION", default_value = "1h")]
        lasting: String,
        /// Maximum number of uses
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        uses: Option<u32>,
        /// In every session, not only in that of this call
        #[arg(long)]
        every_session: bool,
    },
    /// Release a held result to the model unchanged (same as `yes`)
    Release {
        /// Note for the model
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Withhold a held result from the model (same as `no`)
    Withhold {
        /// Feedback for the model: what to do instead
        #[arg(long, value_name = "TEXT")]
        feedback: Option<String>,
    },
    /// Release a held result with secrets and named text masked
    Redact {
        /// Text to mask everywhere (case-insensitive)
        #[arg(long, value_name = "TEXT")]
        text: Vec<String>,
        /// Note for the model
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Give the result in the place of the tool, which does not run
    ///
    /// The model gets the text as the result of the tool, marked as the answer of a person. Only a person at a terminal can
    /// answer so, and not a checkpoint.
    Result {
        /// Result for the model: text, `@FILE`, or `-` to type it and end with Ctrl-D
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        text: String,
    },
    /// Abort the call and its turn
    Abort,
}

/// The word that a person types to pass a checkpoint.
const RELEASE: &str = "release";

pub(super) async fn run(
    id: &str,
    answer: AnswerCommand,
    digest: Option<&str>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    if let AnswerCommand::StandingApproval { scope, pattern, preview, .. } = &answer
        && (*preview || scope.is_none() && pattern.is_empty())
    {
        return standing_approval::preview(id, &answer, digest, options, screen).await;
    }
    let house = AppContext::open_to_write(options)?;
    let id = short_ids::question(&house, id).await?;
    let call = house.audit_log.call_for_question(id).await?;
    let call = call.ok_or(AnswerError::UnknownQuestion(id)).map_err(CliError::from)?;
    let workspace = house.workspace_of(call).await?;
    // Further questions, for example after an edit, go to the inbox as well.
    let gate = house.gate(options, &workspace, AskArg::Inbox, options.settings.gate())?;
    record_waivers(&gate, options).await?;
    let sheet = gate.question_view(id).await.map_err(CliError::from)?;
    let given = SubmittedAnswer {
        question: id,
        digest: digest_to_confirm(&sheet.question, digest)?,
        reply: reply(answer, &sheet)?,
        approver: options.person.clone(),
    };
    let leave = match &given.reply {
        Reply::StandingApproval(leave) => Some(leave.clone()),
        _ => None,
    };
    let call = gate.answer(given).await.map_err(CliError::from)?;
    if let Some(leave) = &leave {
        standing_approval::print_approval(leave, &sheet, screen);
    }
    let driven = drive(&gate, call, resume_call::resume(&gate, &house, call, options), options, screen).await;
    match leave.filter(|_| screen.json()) {
        Some(given) => {
            let mut value = json_output::status(&driven.call_status);
            if let Value::Object(fields) = &mut value {
                fields.insert("standing_approval".into(), json_output::standing_approval(&given, now()));
            }
            screen.value(&value);
        }
        None => call_display::print_status(screen, &driven.call_status),
    }
    Ok(driven.status())
}

/// Returns the paths to keep, relative to the directory of the call.
fn parts(typed: &[PathBuf], sheet: &QuestionView) -> Result<Vec<String>> {
    if !matches!(sheet.rehearsal, Some(RehearsalView::Ran { .. })) {
        let whole = CliError::new("the call was not run on a copy, so there are no parts to keep");
        return Err(whole.hint("answer for the whole call: yes, no, or edit").into());
    }
    let part = |path: &PathBuf| {
        let path = text_of(path)?;
        let wrong = || CliError::new(format!("the run did not change `{path}`"));
        let part = sheet.rehearsed_path(&path).ok_or_else(wrong);
        Ok(part.map_err(|wrong| wrong.hint("`byleave diff` lists the changed paths"))?)
    };
    typed.iter().map(part).collect()
}

fn reply(answer: AnswerCommand, sheet: &QuestionView) -> Result<Reply> {
    let approves = matches!(
        answer,
        AnswerCommand::Yes { .. }
            | AnswerCommand::Partial { .. }
            | AnswerCommand::StandingApproval { .. }
            | AnswerCommand::Release { .. }
            | AnswerCommand::Redact { .. }
    );
    if approves && !render(sheet).complete {
        let refused = CliError::refused("the question cannot be shown in full, so it cannot be approved");
        return Err(refused.hint("answer no, or give smaller arguments with `edit`").into());
    }
    Ok(match answer {
        AnswerCommand::Yes { note, confirm, assumption, failure, because } => {
            released(sheet.question.kind, confirm.as_deref())?;
            match because {
                None => Reply::Yes { note },
                Some(reason) => Reply::YesWithChallenge {
                    challenge: Challenge {
                        assumptions: assumption,
                        failure_scenarios: failure,
                        verdict: ChallengeVerdict::Proceed,
                        reason,
                    },
                    note,
                },
            }
        }
        AnswerCommand::No { feedback } => Reply::No { feedback },
        AnswerCommand::Partial { paths, note } => Reply::Partial { paths: parts(&paths, sheet)?, note },
        AnswerCommand::Edit { args, note } => Reply::Edit { value: typed_json("--args", &args)?, note },
        AnswerCommand::StandingApproval { .. } => {
            Reply::StandingApproval(standing_approval::parse_approval(&answer, sheet)?)
        }
        AnswerCommand::Release { note } => withheld_result::release(sheet, note)?,
        AnswerCommand::Withhold { feedback } => withheld_result::withhold(sheet, feedback)?,
        AnswerCommand::Redact { text, note } => withheld_result::redact(sheet, &text, note)?,
        AnswerCommand::Result { text } => Reply::Result { text: typed_text("--text", &text)? },
        AnswerCommand::Abort => Reply::Abort,
    })
}

/// Checks that a checkpoint is confirmed with its word. A plain yes releases nothing.
fn released(kind: QuestionKind, confirm: Option<&str>) -> Result<(), CliError> {
    if kind != QuestionKind::Checkpoint || confirm == Some(RELEASE) {
        return Ok(());
    }
    Err(CliError::new("this is a checkpoint: a release cannot be undone")
        .hint(format!("if you are sure: `yes --confirm {RELEASE}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: R8
    #[test]
    fn a_checkpoint_wants_the_word() {
        assert!(released(QuestionKind::Checkpoint, None).is_err());
        assert!(released(QuestionKind::Checkpoint, Some("yes")).is_err());
        assert!(released(QuestionKind::Checkpoint, Some("release")).is_ok());
        assert!(released(QuestionKind::Approval, None).is_ok());
    }
}
