//! Standing approvals as answers: the scopes to choose from, the equivalent rule, and the past calls that it would have covered.

use anyhow::Result;
use byleave_gate::clock::fresh_id;
use byleave_gate::core::approval_scopes::{
    ApprovalLimits, ApprovalScope, approval_for_question, approval_scopes, covers_question,
};
use byleave_gate::core::id::StandingApprovalId;
use byleave_gate::core::pattern::Pattern;
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::core::standing_approval::{NotCoverableError, StandingApproval};
use byleave_gate::recorded_calls::{Coverage, PastAnswer, find_covered};
use byleave_gate::settings::GateSettings;
use serde_json::{Value, json};

use super::answer::AnswerCommand;
use super::digest::digest_to_confirm;
use crate::app_context::AppContext;
use crate::args::AskArg;
use crate::call_display::{format_count, table};
use crate::console::{Console, Tone, many_lines, one_line, prose};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::{self, short};
use crate::time::{format_duration, now, parse_duration};
use crate::{approval_scope, json_output};

/// The lifetime of a standing approval without a time limit.
const UNTIL_REVOKED: &str = "until-revoked";
/// The number of past calls that are listed. The rest is counted.
const SHOWN_MAX: usize = 20;

/// Lists the scopes, or shows what a standing approval would cover. Answers nothing.
pub(super) async fn preview(
    id: &str,
    answer: &AnswerCommand,
    digest: Option<&str>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let house = AppContext::open_to_read(options, None)?;
    let question = short_ids::question(&house, id).await?;
    let gate = house.gate(options, &options.cwd, AskArg::Inbox, GateSettings::default())?;
    let sheet = gate.question_view(question).await.map_err(CliError::from)?;
    digest_to_confirm(&sheet.question, digest)?;
    if let AnswerCommand::StandingApproval { scope: None, pattern, .. } = answer
        && pattern.is_empty()
    {
        list(&sheet, screen)?;
        return Ok(ExitStatus::Unusable);
    }
    let leave = parse_approval(answer, &sheet)?;
    let now = now();
    let past = find_covered(&*house.audit_log, &options.tenant, &leave, now).await?;
    let spared = covers_question(&sheet, &leave.scope);
    if screen.json() {
        let why = spared.err().map(|why| why.to_string());
        let leave = json_output::standing_approval(&leave, now);
        screen.value(
            &json!({ "standing_approval": leave, "covers_this_question": why.is_none(), "reason": why, "recorded_calls": past }),
        );
        return Ok(ExitStatus::Completed);
    }
    screen.text(&leave.to_rule_toml(now));
    screen.line("");
    tell_past(&past, &leave, screen);
    tell_if_vain(&spared, screen);
    screen.hint("nothing was answered; the same command without `--preview` gives the approval");
    Ok(ExitStatus::Completed)
}

/// Returns the typed standing approval for the call of this question view.
pub(super) fn parse_approval(answer: &AnswerCommand, sheet: &QuestionView) -> Result<StandingApproval> {
    let AnswerCommand::StandingApproval { scope, pattern, lasting, uses, every_session, .. } = answer else {
        return Err(CliError::new("this answer is not a standing approval").into());
    };
    let scope = match scope {
        Some(number) => offered(sheet, *number)?,
        None => pattern.iter().map(|typed| approval_scope::parse(typed)).collect::<Result<_, _>>()?,
    };
    let lifetime_ms = match lasting.as_str() {
        UNTIL_REVOKED => None,
        lasting => Some(parse_duration(lasting)?),
    };
    let limits = ApprovalLimits { lifetime_ms, max_uses: *uses, every_session: *every_session };
    Ok(approval_for_question(StandingApprovalId::new(fresh_id()), sheet, scope, limits, now()))
}

/// Reports a new standing approval and its rule.
pub(super) fn print_approval(leave: &StandingApproval, sheet: &QuestionView, screen: &mut Console) {
    screen.message(&prose(&format!(
        "standing approval {} is active: calls{} within its scope no longer ask",
        short(&leave.id),
        if leave.is_for_any_tool() { String::new() } else { format!(" of `{}`", leave.tool) }
    )));
    for line in many_lines(&leave.to_rule_toml(now())) {
        screen.message(&format!("  {line}"));
    }
    tell_if_vain(&covers_question(sheet, &leave.scope), screen);
}

/// Warns about a standing approval that covers nothing, because it looks like one that does.
fn tell_if_vain(spared: &Result<(), NotCoverableError>, screen: &mut Console) {
    if let Err(why) = spared {
        screen.message_with_tone(
            Tone::Careful,
            "note:",
            &prose(&format!("the same call will ask again: {why}")),
        );
    }
}

fn list(sheet: &QuestionView, screen: &mut Console) -> Result<()> {
    let offers = approval_scopes(sheet).map_err(|why| vain(&why))?;
    if screen.json() {
        let numbered = offers.iter().zip(1..).map(|(offer, number): (&ApprovalScope, u32)| {
            let scope: Vec<String> = offer.patterns.iter().map(approval_scope::format).collect();
            json!({ "scope": number, "width": offer.width, "description": offer.description, "patterns": scope })
        });
        let numbered: Vec<Value> = numbered.collect();
        screen.value(&json!({ "question": json_output::question(&sheet.question), "scopes": numbered }));
    } else {
        let tool = one_line(&sheet.resolved_tool.tool);
        screen.line(&format!("`{tool}` asks; choose what needs no question in future:"));
        for (number, offer) in (1..).zip(&offers) {
            // Its text was escaped where it was made.
            screen.line(&format!("{number:>3}. {}", offer.description));
        }
    }
    let id = short(&sheet.question.id);
    screen.hint(&format!(
        "nothing was answered; choose one with `byleave inbox answer {id} standing-approval --scope N`, preview it with \
         `--preview`, change its limits with `--for`, `--uses` and `--every-session`, or write your own with `--pattern`"
    ));
    Ok(())
}

fn offered(sheet: &QuestionView, number: u32) -> Result<Vec<Pattern>> {
    let offers = approval_scopes(sheet).map_err(|why| vain(&why))?;
    let place = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    let many = offers.len();
    let chosen = offers.into_iter().nth(place).ok_or_else(|| {
        CliError::new(format!("there is no scope {number}; there are {many}"))
            .hint("the same command without `--scope` and `--pattern` lists them")
    })?;
    Ok(chosen.patterns)
}

fn vain(why: &NotCoverableError) -> CliError {
    CliError::new(format!("no standing approval would avoid this question next time: {why}"))
        .hint("answer only this question: yes, no, or edit")
}

fn tell_past(past: &Coverage, leave: &StandingApproval, screen: &mut Console) {
    let looked = format_count(past.checked as u64, "past call");
    let of = if leave.is_for_any_tool() { String::new() } else { format!(" of `{}`", one_line(&leave.tool)) };
    screen.line(&format!("of {looked}{of}, this approval would have covered {}", past.covered.len()));
    if past.has_more {
        screen.line(&format!("only the newest {} were checked", past.max_checked));
    }
    if past.unreadable > 0 {
        screen.line(&format!("{} of them cannot be read any more", past.unreadable));
    }
    if past.covered.is_empty() {
        return;
    }
    let now = now();
    let rows = past.covered.iter().take(SHOWN_MAX).map(|one| {
        let unasked =
            if one.standing_approval.is_some() { "by a standing approval" } else { "nobody was asked" };
        let said = one.answer.map_or(unasked, |said| said.description());
        vec![
            short(&one.call),
            format!("{} ago", format_duration(now.saturating_sub(one.at))),
            said.to_owned(),
            one_line(&one.summary),
        ]
    });
    table(screen, &["CALL", "WHEN", "ANSWERED", "WHAT"], &rows.collect::<Vec<_>>());
    let rest = past.covered.len().saturating_sub(SHOWN_MAX);
    if rest > 0 {
        // A past no is mentioned even if it is beyond the end of the list.
        let refused =
            past.covered.iter().skip(SHOWN_MAX).filter(|one| one.answer == Some(PastAnswer::No)).count();
        screen.line(&format!("and {rest} more, {refused} of them answered NO; `--json` lists all"));
    }
}
