//! The reason of a question in words that name what it is about.

use crate::decision::DecisionReason;
use crate::effect::{Effect, UNKNOWN_HOST};
use crate::escape::EscapeLevel;
use crate::question_view::{QuestionView, RehearsalView};
use crate::render::writer::RenderingBuilder;

use super::changes::relative;

/// Returns what was found on the copy and no rule can allow, if the reason is about that.
pub(super) fn observed_unknown(view: &QuestionView, reason: &DecisionReason) -> Option<String> {
    let found = observed_effects(view, reason)?;
    let mut found = found.into_iter().filter_map(|effect| match effect {
        Effect::Unknown { reason } => Some(reason),
        _ => None,
    });
    let first = found.next()?;
    let prefix = format!("`{}/", view.cwd.escape_debug());
    let first = first.replace(&prefix, "`");
    Some(match found.count() {
        0 => first,
        more => format!("{first}, and {more} more"),
    })
}

/// Names the effect for which a rule is missing: the one with the most weight, and how many more there are of its kind.
pub(super) fn asking_effect(
    page: &mut RenderingBuilder,
    view: &QuestionView,
    reason: &DecisionReason,
    is_outside: bool,
) -> Option<String> {
    let effects = observed_effects(view, reason).unwrap_or_else(|| {
        let effects = &view.plan.effects;
        reason.effects.iter().filter_map(|at| effects.get(usize::try_from(*at).ok()?)).cloned().collect()
    });
    let strongest = effects.iter().max_by_key(|effect| weight(effect))?;
    // Of equal effects the first counts, as it was written.
    let effect = effects.iter().find(|effect| weight(effect) == weight(strongest))?;
    let said = describe(page, effect, &view.cwd)?;
    let more = effects.iter().filter(|other| *other != effect && weight(other) == weight(effect)).count();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let end = if is_outside { "outside the workspace" } else { "and no rule allows that yet" };
    Some(format!("{said}{more}, {end}"))
}

/// Returns the effects of a reason that is about what was observed on the copy.
fn observed_effects(view: &QuestionView, reason: &DecisionReason) -> Option<Vec<Effect>> {
    let Some(RehearsalView::Ran { rehearsal, decision: Some(decision) }) = &view.rehearsal else {
        return None;
    };
    if !decision.reasons.iter().any(|own| std::ptr::eq(own, reason)) {
        return None;
    }
    let plan = rehearsal.observed_plan();
    let found = reason.effects.iter().filter_map(|at| plan.effects.get(usize::try_from(*at).ok()?));
    Some(found.cloned().collect())
}

const fn weight(effect: &Effect) -> u8 {
    match effect {
        Effect::Unconfined { .. } => 8,
        Effect::Send { .. } => 7,
        Effect::Reach { .. } => 6,
        Effect::Delete { .. } => 5,
        Effect::Write { .. } => 4,
        Effect::Invoke { .. } => 3,
        Effect::Read { .. } => 2,
        Effect::Run { .. } => 1,
        Effect::Unknown { .. } => 0,
    }
}

/// Says what an effect does, with an unknown host left to its own words.
fn describe(page: &mut RenderingBuilder, effect: &Effect, cwd: &str) -> Option<String> {
    let host = |page: &mut RenderingBuilder, host: &str| match host {
        UNKNOWN_HOST => "a host that is not known".to_owned(),
        host => page.escape(host, EscapeLevel::Name),
    };
    Some(match effect {
        Effect::Run { program, argv } => {
            let name = argv.first().unwrap_or(program);
            let name = name.rsplit('/').next().unwrap_or(name);
            format!("it runs {}", page.escape(name, EscapeLevel::Name))
        }
        Effect::Read { path } => format!("it reads {}", relative(page, path, cwd)),
        Effect::Write { path } => format!("it changes {}", relative(page, path, cwd)),
        Effect::Delete { path } => format!("it deletes {}", relative(page, path, cwd)),
        Effect::Reach { host: name, .. } => format!("it uses {}", host(page, name)),
        Effect::Send { host: name, .. } => format!("it sends to {}", host(page, name)),
        Effect::Invoke { tool } => format!("it uses the tool {}", page.escape(tool, EscapeLevel::Name)),
        Effect::Unconfined { .. } | Effect::Unknown { .. } => return None,
    })
}
