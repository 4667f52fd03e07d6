//! The very same call again: the one offer for a call that changes something beneath a directory.
//!
//! `find . -name '*.o' -delete` and `find . -delete` have the same effect, `delete` of the directory. Only the words of the
//! command tell them apart, so the leave is bound to all of them, and to all other effects.

use super::{ApprovalScope, ScopeWidth, command, not_sayable, shown};
use crate::effect::{Effect, Plan};
use crate::pattern::Pattern;
use crate::standing_approval::NotCoverable;

/// The most effects that a leave lists.
const EFFECTS_MAX: usize = 200;

/// A leave for this plan and no other, or why its effects do not say all that it does.
pub(super) fn offer(plan: &Plan, asked: &[&Effect]) -> Result<ApprovalScope, NotCoverable> {
    if let Some(why) = plan.effects.iter().find_map(not_sayable) {
        return Err(NotCoverable::NotSayable(why));
    }
    if plan.effects.len() > EFFECTS_MAX {
        return Err(NotCoverable::NotSayable(format!("it has more than {EFFECTS_MAX} effects")));
    }
    let runs: Vec<String> = plan.effects.iter().filter_map(run).collect();
    if runs.is_empty() {
        let why = "which files beneath a directory it means is not in its effects";
        return Err(NotCoverable::NotSayable(why.to_owned()));
    }
    let others = asked.iter().filter_map(|effect| {
        let place = if plan.is_beneath(effect) { "something beneath " } else { "" };
        let target = match effect {
            Effect::Run { .. } => return None,
            Effect::Reach { host, port } => format!("{} at port {port}", shown(host)),
            effect => shown(effect.path().unwrap_or_default()),
        };
        Some(format!("{} {place}{target}", effect.kind()))
    });
    let words: Vec<String> = std::iter::once(format!("run {}", runs.join(", "))).chain(others).collect();
    Ok(ApprovalScope {
        breadth: ScopeWidth::Exact,
        words: format!("this very command and no other: {}", words.join("; ")),
        scope: vec![Pattern::Plan(plan.effects.clone())],
    })
}

fn run(effect: &Effect) -> Option<String> {
    match effect {
        Effect::Run { program, argv } => Some(command::spelled_out(program, argv)),
        _ => None,
    }
}
