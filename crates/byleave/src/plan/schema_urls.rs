//! Addresses in what is written that editors fetch as soon as the file is opened: schemas of JSON, YAML and TOML.
//!
//! Whoever writes such an address can have data carried out by it, long after the write was allowed. So it counts as reached.

use byleave_core::effect::{Effect, Plan};
use serde_json::Value;

use super::hosts;

/// What stands before the address of a schema.
const MARKS: [&str; 2] = ["$schema", "#:schema"];

/// Adds the hosts of schemas that stand in the arguments of a call that writes.
pub(super) fn addresses(plan: &mut Plan, arguments: &Value) {
    match arguments {
        Value::String(text) => in_text(plan, text),
        Value::Array(items) => items.iter().for_each(|item| addresses(plan, item)),
        Value::Object(fields) => fields.values().for_each(|value| addresses(plan, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn in_text(plan: &mut Plan, text: &str) {
    for line in MARKS.iter().flat_map(|mark| text.split(mark).skip(1)) {
        let line = line.lines().next().unwrap_or_default();
        // JSON may write any of the characters as an escape; who does so has a reason.
        if line.contains("\\u") {
            plan.effects.push(Effect::Unknown { why: "the address of a schema is hidden by escapes".into() });
        }
        let Some(start) = line.find("http") else { continue };
        let address = line.get(start..).unwrap_or_default();
        let end = address
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ','))
            .unwrap_or(address.len());
        match hosts::reach(address.get(..end).unwrap_or_default()) {
            Ok(effects) => plan.effects.extend(effects),
            Err(fault) => plan.effects.push(Effect::Unknown { why: fault.to_string() }),
        }
    }
}
