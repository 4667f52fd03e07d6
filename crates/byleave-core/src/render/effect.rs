//! Renders all effects by kind, the most serious first, each with its position in the plan.

use serde_json::Value;

use crate::effect::{Effect, UNKNOWN_HOST};

use super::line::LineRole;
use super::value;
use super::writer::{RenderingBuilder, WARNING_GUTTER};

/// The kinds in the order in which they are shown.
const KINDS: [&str; 9] =
    ["unknown", "unconfined", "delete", "write", "send", "run", "reach", "invoke", "read"];

/// Writes all effects under a heading that counts them.
pub(super) fn write_effects(page: &mut RenderingBuilder, verb: &str, effects: &[Effect]) {
    let counts: Vec<String> = KINDS
        .iter()
        .filter_map(|kind| {
            let count = effects.iter().filter(|effect| effect.kind() == *kind).count();
            (count > 0).then(|| format!("{count} {kind}"))
        })
        .collect();
    if effects.is_empty() {
        page.push_heading(LineRole::Heading, &format!("{verb}: NOT KNOWN"));
        page.push_line(
            LineRole::Warning,
            WARNING_GUTTER,
            "the plan lists no effects, but the call may still have some",
        );
        return;
    }
    page.push_heading(LineRole::Heading, &format!("{verb}: {}", counts.join(", ")));
    for kind in KINDS {
        let of_kind = effects.iter().zip(1_usize..).filter(|(effect, _)| effect.kind() == kind);
        for (effect, place) in of_kind {
            write_effect(page, place, effect);
        }
    }
}

/// Checks whether an effect does more than read.
pub(super) const fn changes_something(effect: &Effect) -> bool {
    !matches!(effect, Effect::Read { .. } | Effect::Invoke { .. })
}

fn write_effect(page: &mut RenderingBuilder, place: usize, effect: &Effect) {
    let gutter = format!("{place:>5}. ");
    let loud = format!("{WARNING_GUTTER}{place:>3}. ");
    match effect {
        Effect::Unknown { reason: why } => {
            let why = page.quote(why);
            page.push_line(LineRole::Warning, &loud, &format!("NOT UNDERSTOOD: {why}"));
        }
        Effect::Unconfined { guarantee } => {
            let guarantee = page.quote(guarantee);
            page.push_line(
                LineRole::Warning,
                &loud,
                &format!("LEAVES THE SANDBOX, without the guarantee {guarantee}"),
            );
        }
        Effect::Delete { path } => write_line(page, &gutter, "delete", path, ""),
        Effect::Write { path } => write_line(page, &gutter, "write", path, ""),
        Effect::Read { path } => write_line(page, &gutter, "read", path, ""),
        Effect::Invoke { tool } => {
            write_line(page, &gutter, "invoke", tool, ", whose effects only the tool knows")
        }
        Effect::Reach { host, port } => write_host(page, &gutter, "reach", host, *port),
        Effect::Send { host, port } => write_host(page, &gutter, "send to", host, *port),
        Effect::Run { program, argv } => write_run(page, &gutter, program, argv),
    }
}

fn write_line(page: &mut RenderingBuilder, gutter: &str, verb: &str, target: &str, note: &str) {
    let target = page.quote(target);
    page.push_line(LineRole::Effect, gutter, &format!("{verb:<6} {target}{note}"));
}

fn write_host(page: &mut RenderingBuilder, gutter: &str, verb: &str, host: &str, port: u16) {
    if host == UNKNOWN_HOST {
        page.push_line(LineRole::Effect, gutter, &format!("{verb:<6} a host that is not known"));
        return;
    }
    let international = host.split('.').any(|label| label.starts_with("xn--"));
    let note = if international { ", a name with non-ASCII letters" } else { "" };
    write_line(page, gutter, verb, host, &format!(" port {port}{note}"));
}

/// Writes the program that really runs, then its words one by one. The first word is only the name that the program is given.
fn write_run(page: &mut RenderingBuilder, gutter: &str, program: &str, argv: &[String]) {
    let shown = page.quote(program);
    if argv.iter().any(|word| word.contains('\n')) {
        page.push_line(LineRole::Effect, gutter, &format!("run    {shown} with arguments"));
        value::write_value(page, LineRole::Effect, &Value::from(argv.to_vec()));
        return;
    }
    let words: Vec<String> = argv.iter().map(|word| page.quote(word)).collect();
    page.push_line(LineRole::Effect, gutter, &format!("run    {shown} with arguments {}", words.join(" ")));
}
