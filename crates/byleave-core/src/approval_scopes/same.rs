//! The scope "exactly the same call": the only scope for a call that changes something beneath a directory.
//!
//! `find . -name '*.o' -delete` and `find . -delete` have the same effect: `delete` of the directory. Only the arguments of the command
//! distinguish them. The standing approval is therefore bound to all arguments, and to all other effects.

use super::{ApprovalScope, ScopeWidth, command, escape_name, not_expressible};
use crate::effect::{Effect, Plan};
use crate::pattern::Pattern;
use crate::standing_approval::NotCoverableError;

/// The maximum number of effects in a standing approval.
const EFFECTS_MAX: usize = 200;

/// Returns a scope for exactly this plan, or why its effects do not describe everything that it does.
pub(super) fn same_plan_scope(plan: &Plan, asked: &[&Effect]) -> Result<ApprovalScope, NotCoverableError> {
    if let Some(why) = plan.effects.iter().find_map(not_expressible) {
        return Err(NotCoverableError::NotExpressible(why));
    }
    if plan.effects.len() > EFFECTS_MAX {
        return Err(NotCoverableError::NotExpressible(format!(
            "the call has more than {EFFECTS_MAX} effects"
        )));
    }
    let runs: Vec<String> = plan.effects.iter().filter_map(format_run).collect();
    if runs.is_empty() {
        let why = "its effects do not say which files beneath a directory it touches";
        return Err(NotCoverableError::NotExpressible(why.to_owned()));
    }
    let others = asked.iter().filter_map(|effect| {
        let place = if plan.is_partial(effect) { "something beneath " } else { "" };
        let target = match effect {
            Effect::Run { .. } => return None,
            Effect::Reach { host, port } => format!("{} on port {port}", escape_name(host)),
            Effect::Send { host, port } => format!("to {} on port {port}", escape_name(host)),
            effect => escape_name(effect.path().unwrap_or_default()),
        };
        Some(format!("{} {place}{target}", effect.kind()))
    });
    let words: Vec<String> = std::iter::once(format!("run {}", runs.join(", "))).chain(others).collect();
    Ok(ApprovalScope {
        width: ScopeWidth::Exact,
        description: format!("exactly this command: {}", words.join("; ")),
        patterns: vec![Pattern::Plan(plan.effects.clone())],
    })
}

fn format_run(effect: &Effect) -> Option<String> {
    match effect {
        Effect::Run { program, argv } => Some(command::format_command(program, argv)),
        _ => None,
    }
}
