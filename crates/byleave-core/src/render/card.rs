//! The card of a question: what a person needs to answer it in a few seconds.
//!
//! First the command or the edit, then what it did on the copy, what it will use, whether it can be undone, and one line why it asks. The
//! card folds, the details behind it never do. It must never fold what is dangerous, protected, outside the workspace, or shown with
//! brackets: then [`QuestionCard::is_enough`] is false, and a screen must show the details before a yes.

pub(super) mod changes;
pub(super) mod headline;
mod repository;
mod why;

use serde::{Deserialize, Serialize};

use crate::decision::{AskCause, DecisionReason, Verdict};
use crate::effect::{Binding, Effect, UNKNOWN_HOST, is_at_or_beneath};
use crate::escape::EscapeLevel;
use crate::outcome::ExecutionStatus;
use crate::question::QuestionKind;
use crate::question_view::{QuestionView, RehearsalView};
use crate::rehearsal::Rehearsal;

use super::line::{LineRole, RenderLine, Rendering};
use super::value::GUTTER;
use super::writer::{RenderingBuilder, WARNING_GUTTER, format_count};

use headline::HeadlineSource;
use why::{asking_effect, observed_unknown};

pub use changes::{CardChange, CardChanges};
pub use headline::CardHeadline;

/// The beginnings of the warnings of the details that a card says in its own words.
const SAID_WARNINGS: [&str; 4] = [
    "tried to reach the network",
    "left a process running in the background",
    "the store of before-images is full",
    "failed: ",
];
/// What a card says about a call whose effects cannot be undone.
const CANNOT_UNDO: &str = "CANNOT BE UNDONE.";
/// What a card says about a call that is not known to be undoable.
const MAYBE_NO_UNDO: &str = "It may be impossible to undo.";
/// What a card says about a call of a server.
const NO_UNDO_HERE: &str = "Byleave cannot undo it.";
/// What a card says about characters that are shown with brackets or marks.
const HIDDEN_CHARACTERS: &str = "unusual characters: invisible, reversed or look-alike ones are marked";
/// What a card says if the policy asks about changes that could be undone.
const ASKS_EVERYTHING: &str = "always (fewer: byleave policy profile everyday)";
/// What a card says instead of a reason that is one of its warnings.
const SEE_WARNING: &str = "Asks: every time, because of ⚠ above";
/// The maximum number of lines of output on a card.
const OUTPUT_LINES_MAX: usize = 3;
/// The maximum length of a line of output on a card.
const OUTPUT_CHARS_MAX: usize = 160;

/// How a question may be answered, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuestionClass {
    /// It ran on a copy, and `byleave undo` takes everything back.
    Undoable,
    /// It is neither undoable nor grave: a host to read from, an install, a tool of a server.
    Ordinary,
    /// It is dangerous, irreversible, protected, outside the workspace, or it sends something.
    Grave,
}

/// What a person needs to answer a question in a few seconds. All texts are escaped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionCard {
    /// How it may be answered.
    pub class: QuestionClass,
    /// The command, the edit or the call.
    pub headline: CardHeadline,
    /// What came of the run on a copy, in a line. Absent if it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<String>,
    /// What it changed.
    pub changes: CardChanges,
    /// The last lines that it printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
    /// What a person must notice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What a yes lets it use, in a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<String>,
    /// Whether it can be undone.
    pub undo: String,
    /// Why it asks.
    pub why: String,
    /// Whether a yes needs no look at the details: nothing that matters is folded.
    pub is_enough: bool,
}

impl QuestionCard {
    /// Makes the card of a question.
    pub fn new(view: &QuestionView) -> Self {
        let mut page = RenderingBuilder::default();
        let rehearsal = ran(view);
        let class = class(view);
        let mut headline = headline::headline(&mut page, &headline_source(view));
        let must_list = protected_paths(view);
        let changes = rehearsal.map_or_else(CardChanges::default, |ran| {
            changes::changes(&mut page, &ran.changes, &view.cwd, &|path| must_list.iter().any(|p| p == path))
        });
        let is_named = headline.names_change && changes.files.len() == 1;
        if let (true, Some(line), [file]) = (is_named, headline.lines.first_mut(), changes.files.as_slice()) {
            line.push_str(&file.counts());
        }
        // The headline of an edit says what it changed, and its tool prints nothing else.
        let told = rehearsal.filter(|ran| !is_named || ran.status != ExecutionStatus::Succeeded);
        let is_untried = headline.is_command && view.rehearsal.is_none();
        let mut card = Self {
            class,
            tried: match told {
                Some(ran) if ran.is_done_by_agent() => {
                    Some("Yes lets the agent make this change.".to_owned())
                }
                Some(ran) => Some(tried(ran, &changes) + after_yes(ran, &changes)),
                None => is_untried.then(|| "Not tried on a copy. Yes runs it.".to_owned()),
            },
            output: told
                .filter(|ran| !ran.is_done_by_agent())
                .map(|ran| last_lines(&mut page, &ran.output.text))
                .unwrap_or_default(),
            warnings: warnings(&mut page, view),
            uses: uses(&mut page, view),
            undo: undo(view, class, &changes).to_owned(),
            why: why(&mut page, view, class),
            headline,
            changes,
            is_enough: false,
        };
        if card.class == QuestionClass::Grave {
            card.say_reason_once();
        }
        if !page.is_harmless() {
            card.warnings.push(HIDDEN_CHARACTERS.to_owned());
        }
        card.is_enough = class != QuestionClass::Grave
            && view.question.kind == QuestionKind::Approval
            && card.headline.is_complete
            && view.first_arguments.is_none()
            && view.challenge.is_none()
            && !view.needs_challenge()
            && view.notes.is_empty()
            && !matches!(view.rehearsal, Some(RehearsalView::Unavailable { .. }))
            && page.is_harmless()
            && is_said(&super::render(view));
        card
    }

    /// Says the reason of a grave question once. A danger is among the warnings already.
    fn say_reason_once(&mut self) {
        let reason = self.why.strip_prefix("Asks: ").unwrap_or_default();
        if self.warnings.iter().any(|warning| warning == reason) {
            SEE_WARNING.clone_into(&mut self.why);
        }
    }

    /// Returns the card as lines for a screen.
    pub fn to_rendering(&self) -> Rendering {
        let mut page = RenderingBuilder::default();
        self.write(&mut page);
        page.finish()
    }

    fn write(&self, page: &mut RenderingBuilder) {
        self.headline.write(page);
        for warning in &self.warnings {
            page.push_line(LineRole::Warning, WARNING_GUTTER, warning);
        }
        if let Some(tried) = &self.tried {
            page.push_line(LineRole::Outcome, "  ", tried);
        }
        self.changes.write(page, self.headline.names_change && self.changes.files.len() == 1);
        if !self.output.is_empty() && self.changes.files.iter().any(|file| !file.diff.is_empty()) {
            page.push_line(LineRole::Outcome, "  ", "It printed:");
        }
        for line in &self.output {
            page.push_line(LineRole::Content, GUTTER, line);
        }
        for line in &self.uses {
            page.push_line(LineRole::Outcome, "  ", line);
        }
        let is_grave = self.class == QuestionClass::Grave;
        let is_loss = [CANNOT_UNDO, MAYBE_NO_UNDO, NO_UNDO_HERE].contains(&self.undo.as_str());
        match is_grave && is_loss {
            true => page.push_line(LineRole::Warning, WARNING_GUTTER, &self.undo),
            false => page.push_line(LineRole::Outcome, "  ", &self.undo),
        }
        // The reason of a grave question is a warning, unless another line has warned of it.
        match is_grave && self.warnings.is_empty() {
            true => page.push_line(LineRole::Reason, WARNING_GUTTER, &self.why),
            false => page.push_line(LineRole::Reason, "  ", &self.why),
        }
    }

    /// Returns the card in one line, for lists and notifications: the headline, and what it changed.
    pub fn short_text(&self) -> String {
        let mut text = self.headline.one_line_with_arguments();
        let changed = self.changes.one_line();
        if !changed.is_empty() && !self.headline.names_change {
            text.push_str(&format!("  ({changed})"));
        }
        if self.class == QuestionClass::Grave {
            text.insert_str(0, "⚠ ");
        }
        text
    }
}

/// Checks whether the details are complete, and warn of nothing that a card does not say.
fn is_said(details: &Rendering) -> bool {
    let is_unsaid = |line: &RenderLine| {
        let text = line.text.strip_prefix(WARNING_GUTTER).unwrap_or(&line.text);
        line.role == LineRole::Warning && !SAID_WARNINGS.iter().any(|said| text.starts_with(said))
    };
    details.complete && !details.lines.iter().any(is_unsaid)
}

/// Returns the call of a question, as far as its headline says it.
fn headline_source(view: &QuestionView) -> HeadlineSource<'_> {
    HeadlineSource {
        tool: &view.resolved_tool.tool,
        arguments: &view.arguments,
        cwd: &view.cwd,
        effects: &view.plan.effects,
        changes: ran(view).map(|ran| &ran.changes),
        is_release: view.question.kind == QuestionKind::Release,
    }
}

fn ran(view: &QuestionView) -> Option<&Rehearsal> {
    match &view.rehearsal {
        Some(RehearsalView::Ran { rehearsal, .. }) => Some(rehearsal),
        _ => None,
    }
}

/// Returns all reasons that ask: those about the prediction, and those about what was observed.
fn asking(view: &QuestionView) -> impl Iterator<Item = &DecisionReason> {
    let observed = match &view.rehearsal {
        Some(RehearsalView::Ran { decision: Some(decision), .. }) => decision.reasons.as_slice(),
        _ => &[],
    };
    view.decision.reasons.iter().chain(observed).filter(|reason| reason.verdict >= Verdict::Ask)
}

fn class(view: &QuestionView) -> QuestionClass {
    let is_grave_cause = |cause: AskCause| match cause {
        AskCause::Dangerous | AskCause::Irreversible | AskCause::Checkpoint | AskCause::FirmRule => true,
        AskCause::OutsideWorkspace | AskCause::NotUnderstood => true,
        AskCause::Rule | AskCause::Default | AskCause::Sensitive | AskCause::ToolNeedsApproval => false,
        AskCause::Reviewer | AskCause::Mode => false,
    };
    let rehearsal = ran(view);
    // What was not understood when it was read has been observed on the copy.
    let is_grave = |reason: &DecisionReason| match reason.cause {
        Some(AskCause::NotUnderstood) => rehearsal.is_none(),
        Some(AskCause::Rule) => is_protection(reason),
        Some(cause) => is_grave_cause(cause),
        None => true,
    };
    let is_committable = rehearsal.is_some_and(Rehearsal::is_committable);
    let leaves = |effect: &Effect| match effect {
        Effect::Unconfined { .. } | Effect::Send { .. } => true,
        // What is deleted outside of a copy is gone.
        Effect::Delete { .. } => !is_committable,
        _ => false,
    };
    if view.question.kind != QuestionKind::Approval
        || view.plan.irreversible
        || view.resolved_tool.destructive
        || asking(view).any(is_grave)
        || view.plan.effects.iter().any(leaves)
    {
        return QuestionClass::Grave;
    }
    match rehearsal {
        Some(ran) if ran.is_committable() && ran.is_undoable_work(&view.cwd) => QuestionClass::Undoable,
        _ => QuestionClass::Ordinary,
    }
}

/// Checks whether a reason is a rule of the program itself, which protects something.
fn is_protection(reason: &DecisionReason) -> bool {
    reason.rule.is_some() && reason.origin.as_deref().is_some_and(|origin| origin.starts_with("built-in"))
}

/// Returns the changed paths that a rule asks about or denies. A card lists them all.
fn protected_paths(view: &QuestionView) -> Vec<String> {
    let Some(RehearsalView::Ran { rehearsal, decision: Some(decision) }) = &view.rehearsal else {
        return Vec::new();
    };
    let plan = rehearsal.observed_plan();
    let asks = decision.reasons.iter().filter(|reason| {
        reason.verdict >= Verdict::Ask && !matches!(reason.cause, Some(AskCause::Default | AskCause::Mode))
    });
    let effects = asks.flat_map(|reason| &reason.effects);
    let effects = effects.filter_map(|at| plan.effects.get(usize::try_from(*at).ok()?));
    effects.filter_map(Effect::path).map(str::to_owned).collect()
}

/// Says what a run on a copy did, in a line.
pub(super) fn tried(ran: &Rehearsal, changes: &CardChanges) -> String {
    let ended = match ran.status {
        ExecutionStatus::Succeeded => "",
        ExecutionStatus::Failed => ", and failed",
        _ => ", and was stopped",
    };
    let did = match changes.files_total {
        0 if changes.repository.is_empty() => "changed nothing".to_owned(),
        0 => "changed only .git".to_owned(),
        count => format!("changed {}", format_count(count, "file", "files")),
    };
    let place = if ran.blocked_hosts.is_empty() { "a copy" } else { "a copy without network" };
    format!("On {place} it {did}{ended}.")
}

/// Says what a yes does with a run on a copy.
const fn after_yes(ran: &Rehearsal, changes: &CardChanges) -> &'static str {
    match (ran.blocked_hosts.is_empty(), changes.is_empty()) {
        (false, _) => " Yes runs it online.",
        (true, false) => " Yes applies that.",
        (true, true) => " Yes gives the agent its output.",
    }
}

/// Returns the last lines of the output, and whether there are more.
pub(super) fn last_lines(page: &mut RenderingBuilder, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.trim_end().lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(OUTPUT_LINES_MAX);
    let shown = lines.get(from..).unwrap_or_default().iter().map(|line| {
        let cut: String = line.chars().take(OUTPUT_CHARS_MAX).collect();
        let more = if cut.len() < line.len() { "…" } else { "" };
        format!("{}{more}", page.escape(&cut, EscapeLevel::Text))
    });
    let mut shown: Vec<String> = shown.collect();
    if from > 0 {
        shown.insert(0, format!("… {}", format_count(from, "earlier line", "earlier lines")));
    }
    shown
}

fn warnings(page: &mut RenderingBuilder, view: &QuestionView) -> Vec<String> {
    let mut warnings = Vec::new();
    if view.question.kind == QuestionKind::Checkpoint {
        warnings.push("CHECKPOINT: only a person can release this, in every mode".to_owned());
    }
    if let [own, parent, ..] = view.lineage.as_slice() {
        let (own, parent) = (page.quote(own.agent.as_str()), page.quote(parent.agent.as_str()));
        warnings.push(format!("asked by sub-agent {own} of {parent}"));
    }
    for danger in &view.plan.dangers {
        warnings.push(page.escape(&danger.reason, EscapeLevel::Text));
    }
    match &view.rehearsal {
        Some(RehearsalView::Unavailable { reason }) => {
            let reason = page.escape(reason.lines().next().unwrap_or_default(), EscapeLevel::Text);
            warnings.push(format!("not tried on a copy: {reason}"));
        }
        Some(RehearsalView::Ran { rehearsal, .. }) => {
            if rehearsal.leftover_processes > 0 {
                warnings.push("it left a process running, which was stopped".to_owned());
            }
            warnings.extend(rehearsal.before_image_room.warning().map(str::to_owned));
            if let Some(error) = &rehearsal.output.error {
                let error = page.escape(error.lines().next().unwrap_or_default(), EscapeLevel::Text);
                warnings.push(format!("failed: {error}"));
            }
        }
        None => {}
    }
    warnings
}

/// Returns what a yes lets the call use beyond the workspace.
fn uses(page: &mut RenderingBuilder, view: &QuestionView) -> Vec<String> {
    let mut hosts: Vec<(bool, String)> = Vec::new();
    let mut add = |page: &mut RenderingBuilder, host: &str, port: u16, sends: bool| {
        let host = match host {
            UNKNOWN_HOST => "a host that is not known".to_owned(),
            host => page.escape(host, EscapeLevel::Name),
        };
        let port = if port == 0 || port == 443 { String::new() } else { format!(":{port}") };
        let named = format!("{host}{port}");
        if !hosts.iter().any(|(known, name)| *name == named && *known == sends) {
            hosts.push((sends, named));
        }
    };
    for effect in &view.plan.effects {
        if let Some((host, port)) = effect.host() {
            add(page, host, port, matches!(effect, Effect::Send { .. }));
        }
    }
    for (host, port) in ran(view).into_iter().flat_map(Rehearsal::known_blocked_hosts) {
        add(page, host, port, false);
    }
    let named = |sends: bool| {
        let names: Vec<&str> =
            hosts.iter().filter(|(known, _)| *known == sends).map(|(_, name)| name.as_str()).collect();
        names.join(", ")
    };
    let mut lines = Vec::new();
    let (sends, reads) = (named(true), named(false));
    if !sends.is_empty() {
        lines.push(format!("Sends to the network: {sends}."));
    }
    if !reads.is_empty() {
        lines.push(format!("Uses the network: {reads}."));
    }
    for lent in ran(view).into_iter().flat_map(|ran| &ran.git_transports) {
        lines.push(page.escape(&lent.describe(), EscapeLevel::Text));
    }
    for note in ran(view).into_iter().flat_map(|ran| &ran.git_settings).flat_map(|changed| &changed.notes) {
        lines.push(format!("{}.", page.escape(note, EscapeLevel::Text)));
    }
    for (port, program) in view.plan.bindings.iter().filter_map(Binding::local_port) {
        lines.push(match program {
            "nothing" => format!("Nothing listens on localhost:{port} now."),
            _ => format!("On localhost:{port} listens {}.", page.escape(program, EscapeLevel::Name)),
        });
    }
    for effect in &view.plan.effects {
        if let Effect::Unconfined { guarantee } = effect {
            let guarantee = page.quote(guarantee);
            lines.push(format!("Leaves the sandbox: {guarantee}."));
        }
    }
    lines
}

/// Checks whether a yes runs the command on a copy, and it changes nothing else: it was not tried only because of what it reads.
fn runs_on_copy(view: &QuestionView) -> bool {
    let stays = |effect: &Effect| match effect {
        Effect::Write { path } | Effect::Delete { path } => is_at_or_beneath(path, &view.cwd),
        Effect::Run { .. } | Effect::Read { .. } => true,
        _ => false,
    };
    let only_reads_elsewhere = |reason: &DecisionReason| {
        matches!(reason.cause, Some(AskCause::Default | AskCause::OutsideWorkspace | AskCause::Mode))
    };
    let writes = |effect: &Effect| matches!(effect, Effect::Write { .. } | Effect::Delete { .. });
    view.resolved_tool.tool == "bash"
        && view.rehearsal.is_none()
        && view.plan.dangers.is_empty()
        && asking(view).all(only_reads_elsewhere)
        && view.plan.effects.iter().any(writes)
        && view.plan.effects.iter().all(stays)
}

fn undo(view: &QuestionView, class: QuestionClass, changes: &CardChanges) -> &'static str {
    let is_of_server = view.plan.effects.iter().any(|effect| matches!(effect, Effect::Invoke { .. }));
    let wants_network = ran(view).is_some_and(|ran| !ran.is_committable());
    let reads = |effect: &Effect| matches!(effect, Effect::Read { .. } | Effect::Reach { .. });
    let only_reads = !view.plan.effects.is_empty() && view.plan.effects.iter().all(reads);
    match class {
        _ if view.question.kind == QuestionKind::Release => {
            "It has run. What the model has seen cannot be taken back."
        }
        _ if view.plan.irreversible => CANNOT_UNDO,
        _ if view.plan.read_only || only_reads => "Only reads, so there is nothing to undo.",
        _ if wants_network => "Changes to files can be undone, network traffic cannot.",
        _ if ran(view).is_some() && changes.is_empty() => "There is nothing to undo.",
        QuestionClass::Undoable => "Can be undone: byleave undo.",
        QuestionClass::Ordinary if ran(view).is_some() => "Can be undone: byleave undo.",
        QuestionClass::Grave if ran(view).is_some() => {
            "Files can be restored: byleave undo. What they trigger before cannot."
        }
        QuestionClass::Ordinary | QuestionClass::Grave if is_of_server => NO_UNDO_HERE,
        _ if runs_on_copy(view) => "Changes in the project can be undone: byleave undo.",
        QuestionClass::Ordinary | QuestionClass::Grave => MAYBE_NO_UNDO,
    }
}

/// Returns the one reason that says the most.
fn why(page: &mut RenderingBuilder, view: &QuestionView, class: QuestionClass) -> String {
    let found = strongest(asking(view)).filter(|_| view.question.kind != QuestionKind::Release);
    let said = found.and_then(|reason| match reason.cause? {
        AskCause::NotUnderstood => {
            observed_unknown(view, reason).map(|found| page.escape(&found, EscapeLevel::Text))
        }
        // A policy that lets undoable changes pass would not have asked.
        AskCause::Default if class == QuestionClass::Undoable => Some(ASKS_EVERYTHING.to_owned()),
        cause @ (AskCause::Default | AskCause::OutsideWorkspace) => {
            asking_effect(page, view, reason, cause == AskCause::OutsideWorkspace)
        }
        _ => None,
    });
    match said {
        Some(said) => format!("Asks: {said}"),
        None => format!("Asks: {}", strongest_reason(page, view.question.kind, asking(view))),
    }
}

/// Returns the reason that says the most.
fn strongest<'a>(asking: impl Iterator<Item = &'a DecisionReason>) -> Option<&'a DecisionReason> {
    let rank = |cause: AskCause| match cause {
        AskCause::Checkpoint => 9,
        AskCause::Irreversible => 8,
        AskCause::Dangerous => 7,
        AskCause::FirmRule => 6,
        AskCause::Rule => 5,
        AskCause::OutsideWorkspace => 4,
        AskCause::Reviewer | AskCause::ToolNeedsApproval | AskCause::Sensitive => 3,
        AskCause::NotUnderstood => 2,
        AskCause::Default | AskCause::Mode => 1,
    };
    // What was observed decides, so its reasons come first among equals.
    asking.max_by_key(|reason| reason.cause.map_or(10, rank))
}

/// Says why a question is asked: the reason that says the most.
pub(super) fn strongest_reason<'a>(
    page: &mut RenderingBuilder,
    kind: QuestionKind,
    asking: impl Iterator<Item = &'a DecisionReason>,
) -> String {
    if kind == QuestionKind::Release {
        return "a reviewer holds the result".to_owned();
    }
    let strongest = strongest(asking);
    let Some(reason) = strongest else { return "nobody has allowed it".to_owned() };
    let message = reason.message.lines().next().unwrap_or_default();
    match reason.cause {
        Some(AskCause::Default) => "no rule allows it yet".to_owned(),
        Some(AskCause::Mode) => "the mode asks about everything".to_owned(),
        Some(AskCause::Sensitive) => "the tool counts as sensitive".to_owned(),
        Some(AskCause::ToolNeedsApproval) => "the tool requires a yes".to_owned(),
        Some(AskCause::OutsideWorkspace) => "it goes outside the workspace".to_owned(),
        Some(AskCause::Irreversible) => "it cannot be undone".to_owned(),
        Some(AskCause::NotUnderstood) => {
            let message = page.escape(message, EscapeLevel::Text);
            format!("not understood: {message}")
        }
        _ if message.is_empty() => {
            let rule = reason.rule.as_deref().map(|rule| page.quote(rule));
            rule.map_or_else(|| "a rule says so".to_owned(), |rule| format!("rule {rule}"))
        }
        _ => page.escape(message, EscapeLevel::Text),
    }
}
