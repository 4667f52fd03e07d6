//! The steps of an account, in a line each.

use crate::call::Millis;
use crate::challenge::ChallengeVerdict;
use crate::decision::{DecisionReason, PolicyDecision, Verdict};
use crate::entry::{Entry, RecordEvent};
use crate::escape::EscapeLevel;
use crate::grant::GrantedBy;
use crate::id::{QuestionId, StandingApprovalId};
use crate::outcome::{ExecutionEnd, ExecutionStatus, Outcome, Output};
use crate::question::{Answer, Assurance, Question, QuestionKind, RecordedAnswer};
use crate::rehearsal::{Rehearsal, RehearsalOutcome};
use crate::render::card::{changes, strongest_reason, tried};
use crate::render::writer::{RenderingBuilder, format_count};
use crate::review::{Review, ReviewOutcome};
use crate::time_format::format_duration;

use super::{AccountSource, AccountStep};

/// Returns the steps that matter.
pub(super) fn steps(
    page: &mut RenderingBuilder,
    source: &AccountSource<'_>,
    run: Option<&Rehearsal>,
) -> Vec<AccountStep> {
    let mut writer = StepWriter { page, source, run, steps: Vec::new(), at: 0 };
    let mut decisions: Vec<&PolicyDecision> = Vec::new();
    for entry in source.record.entries() {
        writer.at = entry.at;
        match &entry.event {
            RecordEvent::PolicyEvaluated(Ok(decision)) => {
                decisions = vec![decision];
                writer.allowed(decision);
            }
            RecordEvent::RehearsalFinished(RehearsalOutcome::Ran(run)) => {
                decisions.extend(&run.decision);
                writer.tried(run.no_effects);
            }
            RecordEvent::Observed { run, .. } => {
                decisions.extend(&run.decision);
                writer.observed(run.decision.as_ref());
            }
            RecordEvent::Asked(Ok(question)) => writer.asked(question, &decisions),
            _ => writer.other(entry),
        }
    }
    writer.report();
    writer.steps
}

struct StepWriter<'a, 'b> {
    page: &'b mut RenderingBuilder,
    source: &'b AccountSource<'a>,
    run: Option<&'b Rehearsal>,
    steps: Vec<AccountStep>,
    at: Millis,
}

impl StepWriter<'_, '_> {
    fn push(&mut self, word: &'static str, text: String) {
        self.steps.push(AccountStep { at: self.at, word, text, is_warning: false });
    }

    fn warn(&mut self, word: &'static str, text: String) {
        self.steps.push(AccountStep { at: self.at, word, text, is_warning: true });
    }

    fn other(&mut self, entry: &Entry) {
        match &entry.event {
            RecordEvent::Reviewed(Ok(review)) => self.reviewed(review, "the arguments"),
            RecordEvent::OutputReviewed(Ok(review)) => self.reviewed(review, "the result"),
            RecordEvent::Challenged(Ok(challenge)) => {
                let verdict = match challenge.verdict {
                    ChallengeVerdict::Proceed => "the case against the call was made, and it may proceed",
                    ChallengeVerdict::Stop => "the case against the call was made, and it should stop",
                };
                self.push("challenged", verdict.to_owned());
            }
            RecordEvent::RehearsalFinished(RehearsalOutcome::Unavailable { reason }) => {
                let reason = self.first_line(reason);
                self.push("not tried", format!("no copy was possible: {reason}"));
            }
            RecordEvent::RehearsalCopyMissing { .. } => {
                self.push("again", "the copy was lost, so the call was judged once more".to_owned());
            }
            RecordEvent::Answered(answered) => self.answered(answered),
            RecordEvent::Expired { question } => {
                let waited = self.waited(*question);
                self.warn("expired", format!("nobody answered in time{waited}"));
            }
            RecordEvent::ApproverFailed { refusal, .. } => {
                let why = self.page.escape(&refusal.message, EscapeLevel::Text);
                self.warn("unanswered", why);
            }
            RecordEvent::Cancelled { actor } => {
                let actor = self.page.escape(actor, EscapeLevel::Name);
                self.push("cancelled", format!("by {actor}"));
            }
            RecordEvent::Started(Ok(claim)) => match claim.granted_by {
                GrantedBy::StandingApproval(id) => self.by_approval(id),
                GrantedBy::Rehearsal => {
                    self.push("allowed", "nobody was asked, because it changed nothing on a copy".to_owned());
                }
                GrantedBy::Rule | GrantedBy::Answer(_) => {}
            },
            RecordEvent::Interrupted { .. } => {
                let text = "the process that ran it is gone; nobody knows how far it got";
                self.warn("stopped", text.to_owned());
            }
            RecordEvent::Ended { end, .. } => self.ended(end),
            RecordEvent::Settled(outcome) => self.settled(outcome),
            // A refusal of a step is the outcome.
            _ => {}
        }
    }

    /// Says that a rule allows the call. Otherwise the question or the outcome says why not.
    fn allowed(&mut self, decision: &PolicyDecision) {
        if decision.verdict != Verdict::Allow || decision.standing_approval.is_some() {
            return;
        }
        let Some(reason) = decision.decisive_reason() else { return };
        let message = self.first_line(&reason.message);
        let rule = reason.rule.as_deref().map(|rule| self.page.quote(rule));
        let text = match (rule, message.is_empty()) {
            (Some(rule), true) => format!("rule {rule}"),
            (Some(rule), false) => format!("rule {rule}: {message}"),
            (None, _) => message,
        };
        self.push("allowed", text);
    }

    fn by_approval(&mut self, id: StandingApprovalId) {
        let text = match self.source.approval(id) {
            Some(text) => {
                let text = self.page.escape(text, EscapeLevel::Text);
                format!("by a standing approval of {text}")
            }
            None => format!("by the standing approval {id}"),
        };
        self.push("allowed", text);
    }

    fn tried(&mut self, has_no_effects: bool) {
        let text = match self.run {
            Some(run) => {
                let cwd = self.source.record.header().map_or("", |header| header.cwd.as_str());
                let counted = changes::changes(self.page, &run.changes, cwd, &|_| false);
                let text = tried(run, &counted);
                lower_first(text.trim_end_matches('.'))
            }
            None if has_no_effects => "on a copy it changed nothing".to_owned(),
            None => "on a copy".to_owned(),
        };
        self.push("tried", text);
    }

    fn observed(&mut self, decision: Option<&PolicyDecision>) {
        let why = decision.and_then(PolicyDecision::decisive_reason).map(|reason| reason.message.as_str());
        let why = why.map(|why| self.first_line(why)).filter(|why| !why.is_empty());
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        self.push("observed", format!("it changed more than was foreseen{why}"));
    }

    fn asked(&mut self, question: &Question, decisions: &[&PolicyDecision]) {
        let asking = decisions.iter().flat_map(|decision| &decision.reasons);
        let asking = asking.filter(|reason: &&DecisionReason| reason.verdict >= Verdict::Ask);
        let why = strongest_reason(self.page, question.kind, asking);
        let kind = match question.kind {
            QuestionKind::Approval => "",
            QuestionKind::Checkpoint => "for a release in any mode: ",
            QuestionKind::Release => "whether the model may see the result: ",
        };
        self.push("asked", format!("{kind}{why}"));
    }

    fn answered(&mut self, answered: &RecordedAnswer) {
        let name = self.page.escape(&answered.approver.name, EscapeLevel::Name);
        let place = match answered.approver.assurance {
            Assurance::Terminal => "",
            Assurance::Web => " in a browser",
            Assurance::ClientAttested => " in the agent's own window",
            Assurance::Program => " (a program)",
        };
        let waited = self.waited(answered.question);
        let remark = answered.answer.remark().map(|remark| self.first_line(&remark));
        let remark = remark.map(|remark| format!(": {remark}")).unwrap_or_default();
        let what = answered.answer.description();
        self.push("answered", format!("{what} by {name}{place}{waited}{remark}"));
        match &answered.answer {
            Answer::Edit { .. } if !self.is_release(answered.question) => self.instead_of(),
            Answer::Partial { paths, .. } => {
                let Some(paths) = self.source.read::<Vec<String>>(*paths) else { return };
                let cwd = self.source.record.header().map_or("", |header| header.cwd.as_str());
                let shown = paths.iter().take(3).map(|path| changes::relative(self.page, path, cwd));
                let shown: Vec<String> = shown.collect();
                let more = paths.len().saturating_sub(shown.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                self.push("", format!("only {}{more}", shown.join(", ")));
            }
            _ => {}
        }
    }

    /// Names the call as it was before it was changed.
    fn instead_of(&mut self) {
        let Some(header) = self.source.record.header() else { return };
        let Some(first) = self.source.read::<serde_json::Value>(header.arguments) else { return };
        let first = self.source.headline(self.page, Some(&first), None).one_line_with_arguments();
        self.push("", format!("instead of {first}"));
    }

    fn is_release(&self, question: QuestionId) -> bool {
        let question = self.source.record.question(question);
        question.is_some_and(|question| question.kind == QuestionKind::Release)
    }

    /// Returns how long a question was open.
    fn waited(&self, question: QuestionId) -> String {
        let asked_at = self.source.record.entries().iter().find_map(|entry| match &entry.event {
            RecordEvent::Asked(Ok(asked)) if asked.id == question => Some(entry.at),
            _ => None,
        });
        match asked_at.map(|asked_at| self.at.saturating_sub(asked_at)) {
            Some(waited) if waited >= 1_000 => format!(" after {}", format_duration(waited)),
            _ => String::new(),
        }
    }

    fn reviewed(&mut self, review: &Review, what: &str) {
        for note in &review.notes {
            let name = self.page.quote(&note.reviewer);
            let reason = note.reason.as_deref().map(|reason| self.first_line(reason));
            let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            let did = match note.outcome {
                ReviewOutcome::Pass => continue,
                ReviewOutcome::Changed => format!("{name} changed {what}{reason}"),
                ReviewOutcome::Held => format!("{name} asks a person about {what}{reason}"),
            };
            self.push("reviewed", did);
        }
    }

    fn ended(&mut self, end: &ExecutionEnd) {
        let took = match end.duration_ms {
            ms if ms < 60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
            ms => format_duration(ms),
        };
        let output = self.source.read::<Output>(end.output);
        let exit = output.as_ref().and_then(|output| output.data.as_ref()?.get("exit")?.as_u64());
        let how = match (end.status, exit) {
            (ExecutionStatus::Succeeded, _) => String::new(),
            (ExecutionStatus::Failed, Some(code)) => format!(", and failed with exit status {code}"),
            (ExecutionStatus::Failed, None) => ", and failed".to_owned(),
            (ExecutionStatus::Panicked, _) => ", and the tool broke".to_owned(),
            (ExecutionStatus::TimedOut, _) => ", and was stopped: it took too long".to_owned(),
            (ExecutionStatus::Cancelled, _) => ", and was stopped".to_owned(),
            (ExecutionStatus::Unknown, _) => ", and nobody knows how it ended".to_owned(),
        };
        self.push("ran", format!("for {took}{how}"));
        let error = output.and_then(|output| output.error);
        if let (Some(error), None) = (error, exit) {
            let error = self.first_line(&error);
            self.push("", error);
        }
    }

    fn settled(&mut self, outcome: &Outcome) {
        let refusal = outcome.refusal().map(|refusal| {
            let message = self.page.escape(&refusal.message, EscapeLevel::Text);
            format!("{message} ({})", refusal.code)
        });
        match (outcome, refusal) {
            (Outcome::Withheld(_), Some(why)) => self.warn("withheld", why),
            (Outcome::Unknown(_), Some(why)) => self.warn("unknown", why),
            (_, Some(why)) => self.push("refused", why),
            (Outcome::DryRun { .. }, None) => {
                let effects = self.source.plan().map_or(0, |plan| plan.effects.len());
                let effects = format_count(effects, "effect", "effects");
                self.push("dry run", format!("nothing ran; it would have {effects}"));
            }
            (Outcome::Failed { .. }, None) => self.push("failed", "the tool reports a failure".to_owned()),
            (Outcome::Answered { .. }, None) => {
                self.push(
                    "settled",
                    "the tool did not run; the model has the result of the person".to_owned(),
                );
            }
            (_, None) => self.push("completed", String::new()),
        }
    }

    fn report(&mut self) {
        let Some(report) = self.source.report.clone() else { return };
        self.at = report.at;
        match report.different {
            Some(different) => {
                let different = self.first_line(&different);
                self.warn("reported", format!("by the agent: {different}"));
            }
            None => self.push("reported", "by the agent: it is done".to_owned()),
        }
    }

    fn first_line(&mut self, text: &str) -> String {
        self.page.escape(text.lines().next().unwrap_or_default(), EscapeLevel::Text)
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}
