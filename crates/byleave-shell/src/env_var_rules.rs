//! Variables that are harmless to set, and variables that change what runs. A variable that is not listed is neither.

use std::sync::LazyLock;

use serde::Deserialize;

/// The consequence of setting a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvVarRisk {
    /// Nothing that rules are about.
    Harmless,
    /// It names directories, which are read.
    NamesPaths,
    /// It changes what runs, with the reason.
    ChangesExecution(&'static str),
    /// Not in the list.
    Unlisted,
}

/// Returns the consequence of setting this variable to any value.
pub(crate) fn env_var_risk(name: &str) -> EnvVarRisk {
    if let Some(entry) = TABLE.changes.iter().find(|entry| entry.fits(name)) {
        return EnvVarRisk::ChangesExecution(&entry.why);
    }
    if TABLE.harmless.iter().any(|entry| entry.fits(name)) {
        EnvVarRisk::Harmless
    } else {
        EnvVarRisk::Unlisted
    }
}

/// Returns the consequence of setting this variable to this value.
pub(crate) fn env_var_risk_of_value(name: &str, value: &str) -> EnvVarRisk {
    match TABLE.values.iter().find(|entry| entry.names.iter().any(|own| own == name)) {
        Some(entry) if entry.kind == ValueKind::Paths && is_path_list(value) => EnvVarRisk::NamesPaths,
        Some(entry) if entry.kind.is_harmless(value) => EnvVarRisk::Harmless,
        _ => env_var_risk(name),
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct EnvVarTable {
    changes: Vec<EnvVarEntry>,
    harmless: Vec<EnvVarEntry>,
    values: Vec<EnvVarValues>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvVarEntry {
    names: Vec<String>,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvVarValues {
    names: Vec<String>,
    kind: ValueKind,
    #[cfg_attr(not(test), expect(dead_code, reason = "it documents the entry, and a test requires it"))]
    why: String,
}

/// The values with which a variable is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ValueKind {
    Switch,
    Word,
    List,
    Paths,
    RustFlags,
    NodeOptions,
    Printer,
}

impl EnvVarEntry {
    fn fits(&self, name: &str) -> bool {
        self.names.iter().any(|own| match own.strip_suffix('*') {
            Some(stem) => name.starts_with(stem),
            None => own == name,
        })
    }
}

impl ValueKind {
    fn is_harmless(self, value: &str) -> bool {
        match self {
            Self::Switch => is_switch(value),
            Self::Word => is_word(value, "_-.:"),
            Self::List => is_word(value, "_-.,="),
            Self::Paths => value.is_empty(),
            Self::RustFlags => are_rust_flags(value),
            Self::NodeOptions => are_node_options(value),
            Self::Printer => {
                matches!(value, "" | "cat" | "less" | "more" | "less -R" | "less -F" | "less -FRX")
            }
        }
    }
}

/// Checks for a number, a switch, or nothing.
pub(crate) fn is_switch(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    matches!(
        lower.as_str(),
        "" | "on"
            | "off"
            | "true"
            | "false"
            | "yes"
            | "no"
            | "y"
            | "n"
            | "always"
            | "never"
            | "auto"
            | "random"
    ) || value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Checks for letters, digits and these marks.
pub(crate) fn is_word(value: &str, marks: &str) -> bool {
    value.chars().all(|letter| letter.is_ascii_alphanumeric() || marks.contains(letter))
}

/// Checks for relative paths that do not lead upwards, with colons between them. Rules about reading them apply.
fn is_path_list(value: &str) -> bool {
    value.split(':').all(|path| !path.split('/').any(|step| step == "..") && !path.contains(['$', '~', '\n']))
}

/// Checks for flags of rustc that name no program, plugin or file.
fn are_rust_flags(value: &str) -> bool {
    const CODEGEN: [&str; 14] = [
        "target-cpu",
        "target-feature",
        "opt-level",
        "debuginfo",
        "debug-assertions",
        "overflow-checks",
        "lto",
        "codegen-units",
        "panic",
        "strip",
        "split-debuginfo",
        "instrument-coverage",
        "force-frame-pointers",
        "symbol-mangling-version",
    ];
    let is_codegen = |text: &str| {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        CODEGEN.contains(&name) && is_word(value, "_-.,+")
    };
    let is_plain = |text: &str| is_word(text, "_-:=\"'");
    let mut words = value.split_ascii_whitespace();
    while let Some(word) = words.next() {
        let fits = match word {
            "-C" => words.next().is_some_and(is_codegen),
            "-A" | "-W" | "-D" | "-F" | "--allow" | "--warn" | "--deny" | "--forbid" | "--cap-lints"
            | "--cfg" | "--check-cfg" => words.next().is_some_and(is_plain),
            "-g" | "-O" => true,
            word => match word.split_at_checked(2) {
                Some(("-C", rest)) => is_codegen(rest),
                Some(("-A" | "-W" | "-D" | "-F", rest)) => is_plain(rest),
                _ => word.split_once('=').is_some_and(|(name, value)| {
                    matches!(name, "--cfg" | "--cap-lints" | "--allow" | "--warn" | "--deny")
                        && is_plain(value)
                }),
            },
        };
        if !fits {
            return false;
        }
    }
    true
}

/// Checks for options of node that load no code and open no connection.
fn are_node_options(value: &str) -> bool {
    const PLAIN: [&str; 13] = [
        "--max-old-space-size",
        "--max-semi-space-size",
        "--stack-trace-limit",
        "--no-warnings",
        "--trace-warnings",
        "--no-deprecation",
        "--trace-deprecation",
        "--enable-source-maps",
        "--experimental-vm-modules",
        "--unhandled-rejections",
        "--dns-result-order",
        "--openssl-legacy-provider",
        "--experimental-strip-types",
    ];
    value.split_ascii_whitespace().all(|word| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        PLAIN.contains(&name) && is_word(value, "-")
    })
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
        assert!(table.values.iter().all(|entry| entry.why.len() > 10));
        assert_eq!(env_var_risk("RUST_LOG"), EnvVarRisk::Harmless);
        assert_eq!(env_var_risk("SOMETHING_ELSE"), EnvVarRisk::Unlisted);
        for name in
            ["PATH", "LD_PRELOAD", "GIT_SSH_COMMAND", "BASH_ENV", "BASH_FUNC_ls%%", "PS4", "IFS", "HOME"]
        {
            assert!(matches!(env_var_risk(name), EnvVarRisk::ChangesExecution(_)), "{name}");
        }
    }

    // req: P3
    #[test]
    fn some_variables_are_harmless_with_a_plain_value_only() {
        for (name, value, harmless) in [
            ("RUSTFLAGS", "-D warnings", true),
            ("RUSTFLAGS", "-Dwarnings -C target-cpu=native", true),
            ("RUSTFLAGS", "-C linker=./evil", false),
            ("RUSTFLAGS", "-Clinker=./evil", false),
            ("RUSTFLAGS", "-D warnings -L /x", false),
            ("CGO_ENABLED", "0", true),
            ("CGO_ENABLED", "0;x", false),
            ("GOOS", "linux", true),
            ("NODE_OPTIONS", "--max-old-space-size=4096", true),
            ("NODE_OPTIONS", "--require ./evil.js", false),
            ("PAGER", "cat", true),
            ("PAGER", "./evil", false),
            ("GIT_SSH_COMMAND", "0", false),
            ("LD_PRELOAD", "", false),
        ] {
            assert_eq!(
                env_var_risk_of_value(name, value) == EnvVarRisk::Harmless,
                harmless,
                "{name}={value}"
            );
        }
        assert_eq!(env_var_risk_of_value("PYTHONPATH", "src:lib"), EnvVarRisk::NamesPaths);
        assert!(matches!(env_var_risk_of_value("PYTHONPATH", "../x"), EnvVarRisk::ChangesExecution(_)));
    }
}
