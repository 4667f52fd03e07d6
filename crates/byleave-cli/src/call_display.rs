//! Shows the status of a call: its output on standard output, everything else on standard error.

use std::path::Path;

use byleave_gate::core::question::QuestionKind;
use byleave_gate::core::refusal::{Code, Refusal};
use byleave_gate::core::standing_approval::StandingApproval;
use byleave_gate::recorded_calls::{Coverage, CoveredCall, PastAnswer};
use byleave_gate::result::{CallOutcome, CallResult, CallStatus, Modification, ModifiedPart};
use byleave_terminal::text::fit;

use crate::config::Config;
use crate::console::{Console, Tone, one_line, prose};
use crate::error::unknown_tool_hint;
use crate::json_output;
use crate::short_ids::short;
use crate::time::{format_duration, now};

/// The number of past calls that are listed beside a standing approval under consideration.
const PAST_MAX: usize = 3;

/// The minimum width of the last column of a list.
const LAST_COLUMN_MIN: usize = 20;

/// Shows the status of a call.
pub(crate) fn print_status(screen: &mut Console, standing: &CallStatus) {
    if screen.json() {
        screen.value(&json_output::status(standing));
        return;
    }
    match standing {
        CallStatus::Settled(result) => settled(screen, result),
        CallStatus::Waiting { question, .. } => {
            screen.line(&question.id.to_string());
            let id = short(&question.id);
            screen.message_with_tone(
                Tone::Careful,
                "waiting:",
                &format!("a person must answer question {id} first"),
            );
            let confirm = if question.kind == QuestionKind::Checkpoint { " --confirm release" } else { "" };
            screen.hint(&format!(
                "view it with `byleave inbox show {id}`, answer with `byleave inbox answer {id} yes{confirm}`"
            ));
        }
        CallStatus::Blocked { call, blocked_by: by } => {
            screen.line(&call.to_string());
            let by = short(by);
            screen.message_with_tone(
                Tone::Careful,
                "waiting:",
                &format!("call {by} of the same session must finish first"),
            );
            screen.hint("answer its question with `byleave inbox`, then continue with `byleave resume`");
        }
        CallStatus::RunningElsewhere { call } => {
            screen.line(&call.to_string());
            screen.message_with_tone(Tone::Careful, "waiting:", "another process is running the call");
            screen.hint("`byleave resume` checks the outcome");
        }
        CallStatus::Ready { call } => {
            screen.line(&call.to_string());
            screen.message_with_tone(
                Tone::Careful,
                "ready:",
                "the agent that made the call must continue it",
            );
            screen.hint("the agent gets the answer when it makes the same call again");
        }
    }
}

/// Describes the status of a call in a few words.
pub(crate) fn format_status(standing: &CallStatus) -> String {
    match standing {
        CallStatus::Settled(result) => match (&result.outcome, result.error()) {
            (CallOutcome::Completed(output), _) => {
                let first = output.text.lines().next().unwrap_or_default();
                if first.is_empty() { "completed".to_owned() } else { format!("completed: {first}") }
            }
            (ending, Some(error)) => format!("{}: {error}", ending.as_str()),
            (ending, None) => ending.as_str().to_owned(),
        },
        CallStatus::Waiting { .. } => "waits for another answer".to_owned(),
        CallStatus::Blocked { blocked_by: by, .. } => {
            format!("waits for call {} of the same session", short(by))
        }
        CallStatus::RunningElsewhere { .. } => "runs in another process".to_owned(),
        CallStatus::Ready { .. } => "its agent must continue it".to_owned(),
    }
}

/// Lists the past calls that a standing approval would have covered. Those answered with no come first.
pub(crate) fn past_words(past: &Coverage, leave: &StandingApproval) -> Vec<String> {
    let looked = format_count(past.checked as u64, "past call");
    let newest = if past.has_more { "the newest " } else { "" };
    let many = past.covered.len();
    let of = if leave.is_for_any_tool() { String::new() } else { format!(" of `{}`", leave.tool) };
    let mut words = vec![format!("of {newest}{looked}{of}, this approval would have covered {many}")];
    let mut covered: Vec<&CoveredCall> = past.covered.iter().collect();
    covered.sort_by_key(|one| one.answer != Some(PastAnswer::No));
    for one in covered.iter().take(PAST_MAX) {
        let unasked =
            if one.standing_approval.is_some() { "by a standing approval" } else { "nobody was asked" };
        let said = one.answer.map_or(unasked, PastAnswer::description);
        let ago = format_duration(now().saturating_sub(one.at));
        words.push(format!("{ago} ago, answered {said}: {}", one.summary));
    }
    if many > PAST_MAX {
        words.push(format!("and {} more", many - PAST_MAX));
    }
    words
}

fn settled(screen: &mut Console, result: &CallResult) {
    for change in &result.modifications {
        changed(screen, change);
    }
    match &result.outcome {
        CallOutcome::Completed(output) | CallOutcome::Answered(output) => screen.text(&output.text),
        CallOutcome::Failed(output) => {
            screen.text(&output.text);
            let why = output.error.as_deref().unwrap_or("the tool gave no reason");
            screen.message_with_tone(Tone::Bad, "failed:", &prose(why));
        }
        CallOutcome::DryRun(plan) => {
            screen.line(&one_line(&format!("[DRY-RUN] {} {}", result.tool, result.arguments)));
            for effect in &plan.effects {
                screen.line(&one_line(&format!("[DRY-RUN] would {effect}")));
            }
        }
        CallOutcome::Refused(refusal) => refused(screen, "refused:", refusal, result),
        CallOutcome::Withheld(refusal) => refused(screen, "withheld:", refusal, result),
        CallOutcome::Unknown(refusal) => refused(screen, "unknown:", refusal, result),
    }
    if json_output::is_undoable(result) {
        screen.hint(&format!("`byleave undo {}` undoes it", short(&result.call)));
    }
}

fn changed(screen: &mut Console, change: &Modification) {
    let what = match change.part {
        ModifiedPart::Arguments => "changed the arguments",
        ModifiedPart::Output => "changed the result",
        ModifiedPart::NoteOnly => "says",
        ModifiedPart::Execution => "answered in the place of the tool, which did not run",
    };
    let why = change.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    screen.message_with_tone(Tone::Careful, "note:", &prose(&format!("{} {what}{why}", change.author)));
}

fn refused(screen: &mut Console, word: &str, refusal: &Refusal, result: &CallResult) {
    screen.message_with_tone(Tone::Bad, word, &prose(&refusal.to_string()));
    let hint = match (&result.outcome, refusal.code) {
        (CallOutcome::Unknown(_), _) => format!(
            "the call may or may not have taken effect: check before you repeat it; `byleave log show {}` shows \
             how far it got",
            short(&result.call)
        ),
        // These refusals say what to do themselves, or a person just caused them.
        (_, Code::NoApprover | Code::OutsideWorkspace) => return,
        (_, Code::Halted | Code::Declined | Code::Aborted | Code::Cancelled) => return,
        (_, Code::ToolUnknown) => unknown_tool_hint(&result.tool).to_owned(),
        (_, Code::ArgumentsInvalid) => {
            format!("`byleave tools show {}` shows its arguments", result.tool)
        }
        (_, code) => format!("docs/refusals/{code}.md explains what this means and what to do"),
    };
    screen.hint(&hint);
}

/// Reports settings that a project made stricter.
pub(crate) fn print_tightened(screen: &mut Console, chosen: &Config) {
    for (said, holds) in chosen.tightened_by_project() {
        let (name, value) = (said.key.name, &holds.value);
        let line = format!(
            "`{name}` is {value}, not {} as {} says: {} tightens it",
            said.value, said.origin, holds.origin
        );
        screen.message_with_tone(Tone::Careful, "note:", &prose(&line));
    }
}

/// Formats a size with a unit.
pub(crate) fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // Tenths of the unit, so that no floating-point number is needed.
    let (mut tenths, mut unit) = (u128::from(bytes) * 10 / 1024, 0);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    if tenths >= 100 {
        format!("{} {name}", tenths / 10)
    } else {
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    }
}

/// Formats a number with its noun.
pub(crate) fn format_count(number: u64, word: &str) -> String {
    if number == 1 { format!("1 {word}") } else { format!("{number} {word}s") }
}

/// Prints aligned columns. The last column may have any length.
pub(crate) fn table(screen: &mut Console, head: &[&str], rows: &[Vec<String>]) {
    let wide = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
        let head = head.get(column).copied().unwrap_or_default();
        cells.chain([head]).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(wide).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    screen.title(&line(&mut head.iter().copied()));
    for row in rows {
        screen.line(&line(&mut row.iter().map(String::as_str)));
    }
}

/// Prints aligned columns, with the last one cut to the width of a terminal. For lists, never for a question.
pub(crate) fn fitted_table(screen: &mut Console, head: &[&str], mut rows: Vec<Vec<String>>) {
    if let (Some(columns), Some(last)) = (screen.columns(), head.len().checked_sub(1)) {
        let wide = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
            cells.chain(head.get(column).copied()).map(|cell| cell.chars().count() + 2).max().unwrap_or(0)
        };
        let room = columns.saturating_sub((0..last).map(wide).sum()).max(LAST_COLUMN_MIN);
        for cell in rows.iter_mut().filter_map(|row| row.get_mut(last)) {
            *cell = fit(cell, room);
        }
    }
    table(screen, head, &rows);
}

/// Returns a path relative to this directory.
pub(crate) fn relative(path: &str, cwd: &Path) -> String {
    let path = Path::new(path);
    one_line(&path.strip_prefix(cwd).unwrap_or(path).display().to_string())
}
