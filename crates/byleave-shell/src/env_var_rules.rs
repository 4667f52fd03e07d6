//! Variables that are harmless to set, and variables that change what runs. A variable that is not listed is neither.

use std::sync::LazyLock;

use serde::Deserialize;

/// The consequence of setting a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvVarRisk {
    /// Nothing that rules are about.
    Harmless,
    /// It changes what runs, with the reason.
    ChangesExecution(&'static str),
    /// Not in the list.
    Unlisted,
}

/// Returns the consequence of setting this variable.
pub(crate) fn env_var_risk(name: &str) -> EnvVarRisk {
    let fits = |entry: &EnvVarEntry| {
        entry.names.iter().any(|own| match own.strip_suffix('*') {
            Some(stem) => name.starts_with(stem),
            None => own == name,
        })
    };
    if let Some(entry) = TABLE.changes.iter().find(|entry| fits(entry)) {
        return EnvVarRisk::ChangesExecution(&entry.why);
    }
    if TABLE.harmless.iter().any(fits) { EnvVarRisk::Harmless } else { EnvVarRisk::Unlisted }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct EnvVarTable {
    changes: Vec<EnvVarEntry>,
    harmless: Vec<EnvVarEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvVarEntry {
    names: Vec<String>,
    why: String,
}

// If the table does not parse, no variable is harmless.
static TABLE: LazyLock<EnvVarTable> =
    LazyLock::new(|| toml::from_str(include_str!("../manuals/environment.toml")).unwrap_or_default());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_has_a_reason() {
        let table: EnvVarTable = toml::from_str(include_str!("../manuals/environment.toml")).unwrap();
        assert!(table.changes.iter().chain(&table.harmless).all(|entry| entry.why.len() > 10));
        assert_eq!(env_var_risk("RUST_LOG"), EnvVarRisk::Harmless);
        assert_eq!(env_var_risk("SOMETHING_ELSE"), EnvVarRisk::Unlisted);
        for name in
            ["PATH", "LD_PRELOAD", "GIT_SSH_COMMAND", "BASH_ENV", "BASH_FUNC_ls%%", "PS4", "IFS", "HOME"]
        {
            assert!(matches!(env_var_risk(name), EnvVarRisk::ChangesExecution(_)), "{name}");
        }
    }
}
