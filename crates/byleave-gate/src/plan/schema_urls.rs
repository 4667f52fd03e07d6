//! Finds schema URLs in written JSON, YAML and TOML, which editors fetch as soon as the file is opened.
//!
//! The author of such a URL can leak data through it long after the write was allowed. The plan therefore reaches its host.

use byleave_core::effect::{Effect, Plan};
use serde_json::Value;

use super::hosts;

/// The markers before the URL of a schema.
const SCHEMA_KEYS: [&str; 2] = ["$schema", "#:schema"];

/// Adds the hosts of schema URLs in the arguments of a call that writes.
pub(super) fn add_schema_hosts(plan: &mut Plan, arguments: &Value) {
    match arguments {
        Value::String(text) => add_from_text(plan, text),
        Value::Array(items) => items.iter().for_each(|item| add_schema_hosts(plan, item)),
        Value::Object(fields) => fields.values().for_each(|value| add_schema_hosts(plan, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn add_from_text(plan: &mut Plan, text: &str) {
    for line in SCHEMA_KEYS.iter().flat_map(|mark| text.split(mark).skip(1)) {
        let line = line.lines().next().unwrap_or_default();
        // JSON can escape any of these characters, but there is rarely a legitimate reason to do so.
        if line.contains("\\u") {
            plan.effects.push(Effect::Unknown { reason: "the URL of a schema is hidden by escapes".into() });
        }
        let Some(start) = line.find("http") else { continue };
        let address = line.get(start..).unwrap_or_default();
        let end = address
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ','))
            .unwrap_or(address.len());
        match hosts::url_effects(address.get(..end).unwrap_or_default()) {
            Ok(effects) => plan.effects.extend(effects),
            Err(fault) => plan.effects.push(Effect::Unknown { reason: fault.to_string() }),
        }
    }
}
