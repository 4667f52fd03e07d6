//! The rules that come with Byleave: a commented file, embedded at build.

use super::compile::Policy;
use super::parser::{RuleFile, parse};
use super::path_variables::PathVariables;
use super::rule::{Layer, PolicyError, Rule};

/// The built-in rules as they are written: documentation, default and template in one.
pub const BUILTIN: &str = include_str!("builtin.toml");

/// The rules that come with Byleave, to be put together with others.
pub fn builtin(places: &PathVariables<'_>) -> Result<Vec<Rule>, PolicyError> {
    places.check()?;
    let file = RuleFile { name: "builtin.toml", layer: Layer::Builtin, text: BUILTIN };
    // The examples were checked when this was built.
    parse(&file, places).finish(&file).map_err(|fault| PolicyError::Builtin(fault.to_string()))
}

impl Policy {
    /// The policy of the built-in rules alone.
    pub fn builtin(places: &PathVariables<'_>) -> Result<Self, PolicyError> {
        Ok(Self::new(builtin(places)?)?.within(places.workspace))
    }
}
