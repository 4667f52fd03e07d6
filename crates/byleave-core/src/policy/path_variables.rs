//! The directories that rules may name.

use super::rule::PolicyError;
use crate::effect::is_resolved;

/// The directories that rules may name, absolute and resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathVariables<'a> {
    /// The directory that the agent works in, if any. It may be read. `{workspace}` in rules.
    pub workspace: Option<&'a str>,
    /// The user's home directory. `~` and `{home}` in rules.
    pub home: Option<&'a str>,
    /// The directory of Byleave's audit log and keys. No call may access it. `{state}` in rules.
    pub state: Option<&'a str>,
    /// The directory of the user's own policy file. No call may change it. `{config}` in rules.
    pub config: Option<&'a str>,
}

impl PathVariables<'_> {
    /// Checks whether every directory is an absolute, resolved path.
    pub fn check(&self) -> Result<(), PolicyError> {
        let places = [
            ("workspace", self.workspace),
            ("home directory", self.home),
            ("state directory", self.state),
            ("configuration directory", self.config),
        ];
        for (what, path) in places {
            if let Some(path) = path.filter(|path| !is_resolved(path)) {
                return Err(PolicyError::Directory { name: what, path: path.to_owned() });
            }
        }
        Ok(())
    }
}
