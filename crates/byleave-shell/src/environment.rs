//! Variables: which assignments are harmless, which change what runs. A list, so that what is not in it is not taken for either.

use std::sync::LazyLock;

use serde::Deserialize;

/// What setting a variable means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bearing {
    /// Nothing that rules are about.
    Harmless,
    /// It changes what runs, with the reason.
    Changes(&'static str),
    /// Not in the list.
    Unlisted,
}

/// What setting this variable means.
pub(crate) fn bearing(name: &str) -> Bearing {
    let fits = |entry: &Entry| {
        entry.names.iter().any(|own| match own.strip_suffix('*') {
            Some(stem) => name.starts_with(stem),
            None => own == name,
        })
    };
    if let Some(entry) = TABLE.changes.iter().find(|entry| fits(entry)) {
        return Bearing::Changes(&entry.why);
    }
    if TABLE.harmless.iter().any(fits) { Bearing::Harmless } else { Bearing::Unlisted }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Table {
    changes: Vec<Entry>,
    harmless: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    names: Vec<String>,
    why: String,
}

// Should it not parse, no variable is harmless.
static TABLE: LazyLock<Table> =
    LazyLock::new(|| toml::from_str(include_str!("../manuals/environment.toml")).unwrap_or_default());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_has_a_reason() {
        let table: Table = toml::from_str(include_str!("../manuals/environment.toml")).unwrap();
        assert!(table.changes.iter().chain(&table.harmless).all(|entry| entry.why.len() > 10));
        assert_eq!(bearing("RUST_LOG"), Bearing::Harmless);
        assert_eq!(bearing("SOMETHING_ELSE"), Bearing::Unlisted);
        for name in
            ["PATH", "LD_PRELOAD", "GIT_SSH_COMMAND", "BASH_ENV", "BASH_FUNC_ls%%", "PS4", "IFS", "HOME"]
        {
            assert!(matches!(bearing(name), Bearing::Changes(_)), "{name}");
        }
    }
}
