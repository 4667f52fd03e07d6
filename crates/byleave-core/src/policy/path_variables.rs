//! The places that rules may name.

use super::rule::PolicyError;
use crate::effect::is_resolved;

/// The directories that rules may name, absolute and resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathVariables<'a> {
    /// Where the agent works, if anywhere: may be read. `{workspace}` in rules.
    pub workspace: Option<&'a str>,
    /// The person's home directory. `~` and `{home}` in rules.
    pub home: Option<&'a str>,
    /// Where Byleave keeps its book and its keys: out of bounds for every call. `{state}` in rules.
    pub state: Option<&'a str>,
    /// Where the person's own policy file lies: no call may change it. `{config}` in rules.
    pub config: Option<&'a str>,
}

impl PathVariables<'_> {
    /// Whether every place is named as effects name paths.
    pub fn check(&self) -> Result<(), PolicyError> {
        let places = [
            ("workspace", self.workspace),
            ("home directory", self.home),
            ("state directory", self.state),
            ("directory of settings", self.config),
        ];
        for (what, path) in places {
            if let Some(path) = path.filter(|path| !is_resolved(path)) {
                return Err(PolicyError::Place { what, path: path.to_owned() });
            }
        }
        Ok(())
    }
}
