//! Checks a manifest at registration (T5). Invalid metadata must fail when a tool is registered, not when it is used.

use byleave_core::manifest::Manifest;

use crate::schema::{SchemaError, has_argument};

/// The maximum length of a name.
pub(super) const NAME_CHARS_MAX: usize = 128;
const DESCRIPTION_CHARS_MAX: usize = 32_768;
const ALIASES_MAX: usize = 32;
const WANTED_MAX: usize = 32;
const HINT_WORDS: std::ops::RangeInclusive<usize> = 3..=10;

/// An error in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// A name or alias is not valid.
    #[error(
        "`{}` is not a valid name: use 1 to 128 ASCII letters, digits and `_ - . : /`, and begin with a letter, digit or `_`",
        name.escape_debug()
    )]
    Name {
        /// The name.
        name: String,
    },
    /// An alias occurs twice, or equals the name.
    #[error("the alias `{alias}` is already used")]
    DuplicateAlias {
        /// The alias.
        alias: String,
    },
    /// There are too many aliases.
    #[error("there are {count} aliases; at most {ALIASES_MAX} are allowed")]
    TooManyAliases {
        /// The number of aliases.
        count: usize,
    },
    /// The description is too long.
    #[error("the description has more than {DESCRIPTION_CHARS_MAX} characters")]
    DescriptionTooLong,
    /// The search hint has too few or too many words.
    #[error("a search hint must have 3 to 10 words, this one has {words}")]
    Hint {
        /// The number of words.
        words: usize,
    },
    /// The audit operation is empty.
    #[error("the audit operation is empty; leave it undeclared instead")]
    EmptyOperation,
    /// The timeout is zero.
    #[error("the timeout is 0; leave it undeclared instead")]
    ZeroTimeout,
    /// A role refers to an argument that does not exist.
    #[error("a role names `{pointer}`, but the schema has no such argument; write a pointer like `/path`")]
    Role {
        /// The pointer.
        pointer: String,
    },
    /// The tool wants data of a tool that does not exist.
    #[error("`wants_data` names `{}`, but {}", name.escape_debug(), describe_wanted(nearest.as_deref()))]
    UnknownWanted {
        /// The name.
        name: String,
        /// The own name of the most similar tool, if any is similar enough.
        nearest: Option<String>,
    },
    /// The tool wants the data of one tool twice.
    #[error("`wants_data` names `{}` twice", name.escape_debug())]
    DuplicateWanted {
        /// The name.
        name: String,
    },
    /// The tool wants the data of too many tools.
    #[error("`wants_data` has {count} names; at most {WANTED_MAX} are allowed")]
    TooManyWanted {
        /// The number of names.
        count: usize,
    },
    /// The schema is not accepted.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

fn describe_wanted(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("no tool has this name of its own; did you mean `{nearest}`?"),
        None => "no tool has this name of its own; register that tool first".to_owned(),
    }
}

/// Checks everything except the schema itself and the names of other tools.
pub(super) fn check(manifest: &Manifest) -> Result<(), ManifestError> {
    for name in std::iter::once(&manifest.name).chain(&manifest.aliases) {
        if !is_name(name) {
            return Err(ManifestError::Name { name: name.chars().take(NAME_CHARS_MAX).collect() });
        }
    }
    if manifest.aliases.len() > ALIASES_MAX {
        return Err(ManifestError::TooManyAliases { count: manifest.aliases.len() });
    }
    for (i, alias) in manifest.aliases.iter().enumerate() {
        if *alias == manifest.name || manifest.aliases.iter().take(i).any(|earlier| earlier == alias) {
            return Err(ManifestError::DuplicateAlias { alias: alias.clone() });
        }
    }
    if manifest.description.chars().nth(DESCRIPTION_CHARS_MAX).is_some() {
        return Err(ManifestError::DescriptionTooLong);
    }
    if let Some(hint) = &manifest.search_hint {
        let words = hint.split_whitespace().count();
        if !HINT_WORDS.contains(&words) {
            return Err(ManifestError::Hint { words });
        }
    }
    if manifest.audit_operation.as_ref().is_some_and(|word| word.trim().is_empty()) {
        return Err(ManifestError::EmptyOperation);
    }
    if manifest.timeout_ms == Some(0) {
        return Err(ManifestError::ZeroTimeout);
    }
    if manifest.wants_data.len() > WANTED_MAX {
        return Err(ManifestError::TooManyWanted { count: manifest.wants_data.len() });
    }
    for (i, name) in manifest.wants_data.iter().enumerate() {
        if manifest.wants_data.iter().take(i).any(|earlier| earlier == name) {
            return Err(ManifestError::DuplicateWanted { name: name.chars().take(NAME_CHARS_MAX).collect() });
        }
    }
    match manifest.roles.keys().find(|pointer| !has_argument(&manifest.input_schema, pointer)) {
        Some(pointer) => Err(ManifestError::Role { pointer: pointer.clone() }),
        None => Ok(()),
    }
}

fn is_name(name: &str) -> bool {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    let rest = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:/".contains(c));
    first && rest && name.len() <= NAME_CHARS_MAX
}
