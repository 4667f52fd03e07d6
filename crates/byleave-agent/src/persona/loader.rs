//! Loads personas: from the files of a directory, and otherwise the built-in ones.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use byleave_files::{LinkPolicy, ReadError};

use super::{Persona, PersonaParseError};

/// The maximum size of a persona file.
pub const FILE_BYTES_MAX: usize = 64 << 10;

/// The maximum number of entries in a directory.
const ENTRIES_MAX: usize = 1_000;
const KEY_CHARS_MAX: usize = 64;
const ENDING: &str = ".toml";

/// The built-in personas by name.
const BUILTIN: [(&str, &str); 4] = [
    ("clerk", include_str!("builtin/clerk.toml")),
    ("coder", include_str!("builtin/coder.toml")),
    ("plain", include_str!("builtin/plain.toml")),
    ("reviewer", include_str!("builtin/reviewer.toml")),
];

/// A persona and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedPersona {
    /// The name by which it is loaded, in lower case. For a file it is the file name without `.toml`.
    pub key: String,
    /// The source.
    pub origin: PersonaSource,
    /// The persona.
    pub persona: Persona,
}

/// The source of a persona.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersonaSource {
    /// Built in.
    Builtin,
    /// A file.
    File(PathBuf),
}

/// The reason why a persona was not loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PersonaLoadError {
    /// The persona has errors.
    #[error(transparent)]
    Invalid(#[from] PersonaParseError),
    /// A file or directory cannot be read.
    #[error("cannot read `{}`: {reason}", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// The reason, and what to do.
        reason: String,
    },
    /// No persona has this name.
    #[error("there is no persona `{}`; the personas are {}", name.escape_debug(), known.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// The known names.
        known: Vec<String>,
    },
    /// The name is not valid for a persona.
    #[error(
        "`{}` is not a valid persona name: use 1 to {KEY_CHARS_MAX} ASCII characters: letters, digits, `-` and `_`",
        name.escape_debug()
    )]
    InvalidName {
        /// The name.
        name: String,
    },
    /// Several files have this name, in upper and lower case.
    #[error("several files are the persona `{name}`: {}; remove or rename all but one", files.join(", "))]
    Ambiguous {
        /// The name.
        name: String,
        /// The file names, sorted.
        files: Vec<String>,
    },
}

impl Persona {
    /// Loads a persona by name, from `NAME.toml` in the directory or else from the built-in ones. Upper and lower case are the same. A text
    /// that contains `/` or ends with `.toml` is the path of a file.
    ///
    /// An existing file that cannot be used is an error; a built-in persona does not replace it.
    pub fn load(name_or_path: &str, dir: Option<&Path>) -> Result<LoadedPersona, PersonaLoadError> {
        if name_or_path.contains('/') || name_or_path.ends_with(ENDING) {
            let path = Path::new(name_or_path);
            let key = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let missing = || PersonaLoadError::Unreadable {
                path: path.to_owned(),
                reason: "there is no such file".to_owned(),
            };
            return from_file(key, path)?.ok_or_else(missing);
        }
        by_key(name_or_path, dir)
    }

    /// Loads all personas that have a name, sorted by name. For each one that cannot be used it returns the reason.
    pub fn load_all(
        dir: Option<&Path>,
    ) -> Result<Vec<Result<LoadedPersona, PersonaLoadError>>, PersonaLoadError> {
        Ok(keys(dir)?.iter().map(|key| by_key(key, dir)).collect())
    }
}

fn by_key(key: &str, dir: Option<&Path>) -> Result<LoadedPersona, PersonaLoadError> {
    let key = checked(key)?;
    if let Some(dir) = dir
        && let Some(found) = own(&key, dir)?
    {
        return Ok(found);
    }
    let Some((_, text)) = BUILTIN.iter().find(|(name, _)| *name == key) else {
        return Err(PersonaLoadError::Unknown { name: key, known: keys(dir)? });
    };
    let persona = Persona::parse(&key, text)?;
    Ok(LoadedPersona { key, origin: PersonaSource::Builtin, persona })
}

/// Loads the persona of this name from the directory. Files whose names differ only by case are an error.
fn own(key: &str, dir: &Path) -> Result<Option<LoadedPersona>, PersonaLoadError> {
    let mut names = in_directory(dir)?;
    names.retain(|name| name.eq_ignore_ascii_case(key));
    names.sort_unstable();
    match names.as_slice() {
        [] => Ok(None),
        [name] => from_file(key.to_owned(), &dir.join(format!("{name}{ENDING}"))),
        _ => {
            let files = names.iter().map(|name| format!("`{name}{ENDING}`")).collect();
            Err(PersonaLoadError::Ambiguous { name: key.to_owned(), files })
        }
    }
}

/// Returns all names in lower case and without duplicates, including invalid ones.
fn keys(dir: Option<&Path>) -> Result<Vec<String>, PersonaLoadError> {
    let mut keys: Vec<String> = BUILTIN.iter().map(|(name, _)| (*name).to_owned()).collect();
    if let Some(dir) = dir {
        keys.extend(in_directory(dir)?.iter().map(|name| name.to_ascii_lowercase()));
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// Returns the names of the persona files in a directory, in no order.
fn in_directory(dir: &Path) -> Result<Vec<String>, PersonaLoadError> {
    names_in(dir).map_err(|error| unreadable(dir, error.to_string()))
}

fn names_in(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut keys = Vec::new();
    for (count, entry) in entries.enumerate() {
        if count >= ENTRIES_MAX {
            return Err(io::Error::other(format!("the directory has more than {ENTRIES_MAX} entries")));
        }
        let name = entry?.file_name();
        keys.extend(name.to_string_lossy().strip_suffix(ENDING).map(str::to_owned));
    }
    Ok(keys)
}

/// Returns a valid name in lower case.
fn checked(key: &str) -> Result<String, PersonaLoadError> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_one = (1..=KEY_CHARS_MAX).contains(&key.len()) && key.chars().all(word);
    is_one
        .then(|| key.to_ascii_lowercase())
        .ok_or_else(|| PersonaLoadError::InvalidName { name: key.chars().take(KEY_CHARS_MAX).collect() })
}

/// Loads a persona from a file. Returns `None` if the file does not exist.
fn from_file(key: String, path: &Path) -> Result<Option<LoadedPersona>, PersonaLoadError> {
    let Some(text) = text_of(path)? else { return Ok(None) };
    let persona = Persona::parse(&path.to_string_lossy(), &text)?;
    Ok(Some(LoadedPersona { key, origin: PersonaSource::File(path.to_owned()), persona }))
}

fn text_of(path: &Path) -> Result<Option<String>, PersonaLoadError> {
    // Links are refused: a link in a repository could name any file of the user, and the error would show lines of that file.
    match byleave_files::read_text(path, LinkPolicy::FollowParents, FILE_BYTES_MAX as u64) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_missing() => Ok(None),
        Err(ReadError::Link) => {
            Err(unreadable(path, "the file is a link; put the file itself there".to_owned()))
        }
        Err(error) => Err(unreadable(path, error.to_string())),
    }
}

fn unreadable(path: &Path, why: String) -> PersonaLoadError {
    PersonaLoadError::Unreadable { path: path.to_owned(), reason: why }
}
