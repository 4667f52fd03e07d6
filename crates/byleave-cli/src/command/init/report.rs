//! Reports what was done or would be done. Secrets are masked and control characters escaped.

use std::path::PathBuf;

use byleave_hook::AgentKind;
use diffy::DiffOptions;
use serde_json::{Value, json};

use super::plan::{FileDiffView, InitPlan};
use super::revert::RevertPlan;
use super::trust::HookTrust;
use crate::agent_configs;
use crate::call_display::format_count;
use crate::config_edit::mask_secrets;
use crate::console::{Console, Tone, one_line, prose};

/// Prints the changes of files as a diff.
pub(super) fn diffs(texts: &[FileDiffView<'_>], screen: &mut Console) {
    if screen.json() {
        return;
    }
    for shown in texts {
        screen.diff(&diff(shown));
    }
}

fn diff(shown: &FileDiffView<'_>) -> String {
    let text = |text: Option<&str>| text.map(|text| mask_secrets(shown.format, text)).unwrap_or_default();
    let name = |is_there: bool| {
        if is_there { shown.path.to_string_lossy().into_owned() } else { "/dev/null".to_owned() }
    };
    let (before, after) = (text(shown.before), text(shown.after));
    let mut options = DiffOptions::new();
    options
        .set_original_filename(name(shown.before.is_some()))
        .set_modified_filename(name(shown.after.is_some()));
    options.create_patch(&before, &after).to_string()
}

/// Reports the plan for an agent. If no shell command can run here, it adds the reason and a remedy.
pub(super) fn print_plan(
    plan: &InitPlan,
    is_dry: bool,
    trust: &HookTrust,
    cannot_run: Option<&(String, String)>,
    screen: &mut Console,
) {
    if screen.json() {
        screen.value(&plan_value(plan, is_dry, trust, cannot_run));
        return;
    }
    let name = plan.agent.name();
    let still = remaining_steps(plan);
    if let Some((why, hint)) = cannot_run {
        screen.message_with_tone(Tone::Bad, "no shell command can run here:", &prose(why));
        screen.hint(hint);
    }
    say_doubts(plan, trust, screen);
    if !plan.changes_something() && !matches!(trust, HookTrust::Trusted(1..)) {
        screen.line(&format!("{name} is set up; nothing was changed"));
        return;
    }
    if is_dry {
        let flag = if plan.project.is_some() { " --project" } else { "" };
        screen.line(&format!("nothing was changed: `byleave init {name}{flag}` makes these changes"));
        if plan.agent == AgentKind::Codex {
            screen
                .line("it also trusts these hooks in `config.toml` of Codex, by the hashes that Codex lists");
        }
        return;
    }
    screen.title(&format!("{name} is set up"));
    for shown in plan.texts() {
        let word = if shown.before.is_none() { "created" } else { "changed" };
        screen.line(&format!("  {word} {}", one_line(&shown.path.to_string_lossy())));
    }
    for (theirs, ours) in &plan.moved {
        screen.line(&format!("  moved   {} behind the gateway, as {ours}", one_line(theirs)));
    }
    if let HookTrust::Trusted(count @ 1..) = trust {
        screen.line(&format!(
            "  trusted {} in `config.toml` of Codex, which skips hooks that nobody trusts",
            format_count(*count as u64, "hook")
        ));
    }
    screen.line(&format!("  {}", agent_configs::enforcement_summary(plan.agent)));
    for step in still {
        screen.hint(step);
    }
    if !plan.moved.is_empty() {
        screen.hint("you are asked about each server when the gateway first starts it");
    }
}

/// Reports the setup of one agent among several.
pub(super) fn print_short(plan: &InitPlan, trust: &HookTrust, screen: &mut Console) {
    let name = plan.agent.name();
    let files = plan.texts().len() as u64;
    let mut parts = vec![match files {
        0 => "nothing to change".to_owned(),
        _ => format_count(files, "file"),
    }];
    if !plan.moved.is_empty() {
        parts.push(format!("{} behind the gateway", format_count(plan.moved.len() as u64, "MCP server")));
    }
    if let HookTrust::Trusted(count @ 1..) = trust {
        parts.push(format!("{} trusted", format_count(*count as u64, "hook")));
    }
    screen.line(&format!("  set up {name:12} {}", parts.join(", ")));
    say_doubts(plan, trust, screen);
}

/// Reports what a person should know of a plan, whatever it changes.
fn say_doubts(plan: &InitPlan, trust: &HookTrust, screen: &mut Console) {
    for note in &plan.notes {
        screen.message_with_tone(Tone::Careful, "note:", &prose(note));
    }
    for stays in &plan.not_moved {
        screen.message_with_tone(Tone::Bad, "not governed:", &prose(stays));
    }
    if let HookTrust::ByPerson(why) = trust {
        let what = format!("{} skips our hooks until you trust them: {why}", plan.agent.name());
        screen.message_with_tone(Tone::Bad, "not governed:", &prose(&what));
        screen.hint("in Codex, type `/hooks` and trust all byleave hooks; `byleave doctor` shows whether it runs them");
    }
}

/// Returns the plan for an agent as a value.
pub(super) fn plan_value(
    plan: &InitPlan,
    is_dry: bool,
    trust: &HookTrust,
    cannot_run: Option<&(String, String)>,
) -> Value {
    let name = plan.agent.name();
    let still = remaining_steps(plan);
    let file = |shown: &FileDiffView<'_>| json!({ "path": shown.path, "made": shown.before.is_none(), "diff": is_dry.then(|| diff(shown)) });
    let moved = plan.moved.iter().map(|(theirs, ours)| json!({ "name": theirs, "server": ours }));
    json!({
            "agent": name,
            "project": plan.project,
            "changed": plan.changes_something(),
            "dry_run": is_dry,
            "files": plan.texts().iter().map(file).collect::<Vec<_>>(),
            "moved": moved.collect::<Vec<_>>(),
            "ungoverned": plan.not_moved,
            "notes": plan.notes,
            "still_to_do": still,
            "hooks_trusted": !matches!(trust, HookTrust::ByPerson(_)),
            "enforced": agent_configs::enforcement_summary(plan.agent),
            "commands": { "run": cannot_run.is_none(), "reason": cannot_run.map(|(why, _)| why) },
    })
}

fn remaining_steps(plan: &InitPlan) -> &'static [&'static str] {
    if plan.changes_something() { agent_configs::remaining_steps(plan.agent) } else { &[] }
}

/// Reports what was restored beside the agents, or would be.
pub(super) fn print_personal(
    restored: &[PathBuf],
    notes: &[String],
    is_dry: bool,
    screen: &mut Console,
) -> Value {
    if screen.json() {
        return json!({ "agent": null, "files": restored, "notes": notes });
    }
    for note in notes {
        screen.message_with_tone(Tone::Careful, "note:", &prose(note));
    }
    let word = if is_dry { "would restore" } else { "restored" };
    for path in restored {
        screen.line(&format!("  {word} {}", one_line(&path.to_string_lossy())));
    }
    Value::Null
}

/// Reports what was reverted or would be.
pub(super) fn print_revert(back: &RevertPlan<'_>, is_dry: bool, screen: &mut Console) -> Value {
    let name = back.setup.agent.name();
    if screen.json() {
        let file = |shown: &FileDiffView<'_>| json!({ "path": shown.path, "removed": shown.after.is_none(), "diff": is_dry.then(|| diff(shown)) });
        return json!({
            "agent": name,
            "project": back.setup.project,
            "files": back.texts().iter().map(file).collect::<Vec<_>>(),
            "notes": back.notes,
        });
    }
    for note in &back.notes {
        screen.message_with_tone(Tone::Careful, "note:", &prose(note));
    }
    if is_dry {
        screen.line(&format!("nothing was changed: `byleave init --undo {name}` makes these changes"));
        return Value::Null;
    }
    screen.title(&format!("{name} is restored"));
    for shown in back.texts() {
        let word = if shown.after.is_none() { "removed " } else { "restored" };
        screen.line(&format!("  {word} {}", one_line(&shown.path.to_string_lossy())));
    }
    screen.hint("restart the agent");
    Value::Null
}
