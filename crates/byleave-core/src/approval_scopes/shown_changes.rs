//! The changes that a question shows, as a part of the scopes that it offers.
//!
//! A standing approval for a command covers later runs only as far as it names their changes. So an approval of `make` names the files that
//! this run of `make` changed, and the person reads them in its words.

use super::{ApprovalScope, ScopeSubject, ScopeWidth};
use crate::decision::{AskCause, Verdict};
use crate::effect::{Effect, is_at_or_beneath};
use crate::pattern::Pattern;
use crate::question_view::{QuestionView, RehearsalView};

/// The maximum number of patterns for changes. A question that shows more offers a scope without them, and the next run asks again.
const PATTERNS_MAX: usize = 20;

/// Adds the changes that the question shows to a scope that allows a command.
pub(super) fn add_shown_changes(offer: &mut ApprovalScope, question: &QuestionView) {
    let runs =
        |pattern: &Pattern| matches!(pattern, Pattern::Run(_) | Pattern::RunExact(_) | Pattern::Plan(_));
    if !offer.patterns.iter().any(runs) {
        return;
    }
    let changes = coverable_changes(question);
    let effects: Vec<&Effect> = changes.iter().collect();
    let subject = ScopeSubject { effects: &effects, workspace: &question.cwd };
    let widths = [offer.width, ScopeWidth::Directory, ScopeWidth::Workspace];
    let Some((words, patterns)) = widths
        .into_iter()
        .map(|width| subject.describe_patterns(width))
        .find(|(_, patterns)| patterns.len() <= PATTERNS_MAX)
    else {
        return;
    };
    let is_new = patterns.iter().any(|pattern| !offer.patterns.contains(pattern));
    if is_new {
        offer.description = format!("{}; {words}", offer.description);
        for pattern in patterns {
            if !offer.patterns.contains(&pattern) {
                offer.patterns.push(pattern);
            }
        }
    }
}

/// Returns the changes in the working directory for which there is merely no rule.
fn coverable_changes(question: &QuestionView) -> Vec<Effect> {
    let Some(RehearsalView::Ran { rehearsal, decision }) = &question.rehearsal else { return Vec::new() };
    let lacks_rule = |cause: Option<AskCause>| {
        matches!(cause, Some(AskCause::Default | AskCause::OutsideWorkspace | AskCause::Mode))
    };
    let reasons = decision.iter().flat_map(|decision| &decision.reasons);
    let is_guarded = |place: usize| {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        reasons.clone().any(|reason| {
            reason.verdict != Verdict::Allow
                && !lacks_rule(reason.cause)
                && (reason.effects.is_empty() || reason.effects.contains(&place))
        })
    };
    let is_here = |effect: &Effect| {
        let is_change = matches!(effect, Effect::Write { .. } | Effect::Delete { .. });
        is_change && effect.path().is_some_and(|path| is_at_or_beneath(path, &question.cwd))
    };
    let observed = rehearsal.observed_plan().effects.into_iter().enumerate();
    observed
        .filter(|(place, effect)| is_here(effect) && !is_guarded(*place))
        .map(|(_, effect)| effect)
        .collect()
}
