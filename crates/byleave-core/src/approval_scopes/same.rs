//! The scope "exactly the same call": the only scope for a call that changes something beneath a directory.
//!
//! `find . -name '*.o' -delete` and `find . -delete` have the same effect: `delete` of the directory. Only the arguments of the command
//! distinguish them. The standing approval is therefore bound to all arguments, and to all other effects.

use super::{ApprovalScope, ScopeWidth, command, not_sayable, shown};
use crate::effect::{Effect, Plan};
use crate::pattern::Pattern;
use crate::standing_approval::NotCoverableError;

/// The maximum number of effects in a standing approval.
const EFFECTS_MAX: usize = 200;

/// Returns a scope for exactly this plan, or why its effects do not describe everything that it does.
pub(super) fn offer(plan: &Plan, asked: &[&Effect]) -> Result<ApprovalScope, NotCoverableError> {
    if let Some(why) = plan.effects.iter().find_map(not_sayable) {
        return Err(NotCoverableError::NotSayable(why));
    }
    if plan.effects.len() > EFFECTS_MAX {
        return Err(NotCoverableError::NotSayable(format!("it has more than {EFFECTS_MAX} effects")));
    }
    let runs: Vec<String> = plan.effects.iter().filter_map(run).collect();
    if runs.is_empty() {
        let why = "which files beneath a directory it means is not in its effects";
        return Err(NotCoverableError::NotSayable(why.to_owned()));
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
