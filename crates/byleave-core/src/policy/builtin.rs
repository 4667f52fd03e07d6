//! The built-in rules: a commented file, embedded at build time.

use super::compile::Policy;
use super::parser::{RuleFile, parse};
use super::path_variables::PathVariables;
use super::rule::{Layer, PolicyError, Rule};

/// The source of the built-in rules. It is documentation, default and template in one.
pub const BUILTIN_TOML: &str = include_str!("builtin.toml");

/// Returns the built-in rules, to be combined with others.
pub fn builtin_rules(places: &PathVariables<'_>) -> Result<Vec<Rule>, PolicyError> {
    places.check()?;
    let file = RuleFile { name: "builtin.toml", layer: Layer::Builtin, text: BUILTIN_TOML };
    // The examples were checked at build time.
    parse(&file, places).finish(&file).map_err(|fault| PolicyError::Builtin(fault.to_string()))
}

impl Policy {
    /// Returns the policy that consists of the built-in rules only.
    pub fn builtin(places: &PathVariables<'_>) -> Result<Self, PolicyError> {
        Ok(Self::new(builtin_rules(places)?)?.with_workspace(places.workspace))
    }
}
