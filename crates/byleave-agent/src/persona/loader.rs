//! Where personas come from: those built in, and before them the files of a directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use byleave_files::{LinkPolicy, ReadError};

use super::{Persona, PersonaParseError};

/// The largest file of a persona.
pub const FILE_BYTES_MAX: usize = 64 << 10;

/// A directory has at most so many entries.
const ENTRIES_MAX: usize = 1_000;
const KEY_CHARS_MAX: usize = 64;
const ENDING: &str = ".toml";

/// What comes with us, by name.
const BUILTIN: [(&str, &str); 4] = [
    ("clerk", include_str!("builtin/clerk.toml")),
    ("coder", include_str!("builtin/coder.toml")),
    ("plain", include_str!("builtin/plain.toml")),
    ("reviewer", include_str!("builtin/reviewer.toml")),
];

/// A persona, and where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedPersona {
    /// The name by which it is loaded: of a file, its name without the ending.
    pub key: String,
    /// Where it came from.
    pub origin: PersonaSource,
    /// The persona.
    pub persona: Persona,
}

/// Where a persona came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersonaSource {
    /// It is built in.
    Builtin,
    /// This file.
    File(PathBuf),
}

/// Why a persona was not loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PersonaLoadError {
    /// Something is wrong in it.
    #[error(transparent)]
    Bad(#[from] PersonaParseError),
    /// A file or directory cannot be read.
    #[error("cannot read `{}`: {why}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// There is none of that name.
    #[error("there is no persona `{}`; there are {}", name.escape_debug(), known.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A name that none can have.
    #[error(
        "`{}` cannot be the name of a persona: use 1 to {KEY_CHARS_MAX} small letters, digits, `-` and `_` of ASCII",
        name.escape_debug()
    )]
    Name {
        /// The name.
        name: String,
    },
}

impl Persona {
    /// The persona of this name, from `NAME.toml` in the directory, else built in; or, of a text with `/` in it or `.toml` at its
    /// end, from the file of that path.
    ///
    /// A file that is there and cannot be used is an error: nothing built in takes its place.
    pub fn load(name_or_path: &str, dir: Option<&Path>) -> Result<LoadedPersona, PersonaLoadError> {
        if name_or_path.contains('/') || name_or_path.ends_with(ENDING) {
            let path = Path::new(name_or_path);
            let key = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let missing = || PersonaLoadError::Unreadable {
                path: path.to_owned(),
                why: "there is no such file".to_owned(),
            };
            return from_file(key, path)?.ok_or_else(missing);
        }
        by_key(name_or_path, dir)
    }

    /// All that can be loaded by name, in the order of their names; of each that cannot be used, why.
    pub fn all(dir: Option<&Path>) -> Result<Vec<Result<LoadedPersona, PersonaLoadError>>, PersonaLoadError> {
        Ok(keys(dir)?.iter().map(|key| by_key(key, dir)).collect())
    }
}

fn by_key(key: &str, dir: Option<&Path>) -> Result<LoadedPersona, PersonaLoadError> {
    let key = checked(key)?;
    let own = dir.map(|dir| from_file(key.to_owned(), &dir.join(format!("{key}{ENDING}")))).transpose()?;
    if let Some(found) = own.flatten() {
        return Ok(found);
    }
    let Some((_, text)) = BUILTIN.iter().find(|(name, _)| *name == key) else {
        return Err(PersonaLoadError::Unknown { name: key.to_owned(), known: keys(dir)? });
    };
    Ok(LoadedPersona {
        key: key.to_owned(),
        origin: PersonaSource::Builtin,
        persona: Persona::parse(key, text)?,
    })
}

/// The names of all, each once; those that none can have are among them.
fn keys(dir: Option<&Path>) -> Result<Vec<String>, PersonaLoadError> {
    let mut keys: Vec<String> = BUILTIN.iter().map(|(name, _)| (*name).to_owned()).collect();
    if let Some(dir) = dir {
        keys.extend(in_directory(dir).map_err(|error| unreadable(dir, error.to_string()))?);
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

fn in_directory(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut keys = Vec::new();
    for (count, entry) in entries.enumerate() {
        if count >= ENTRIES_MAX {
            return Err(io::Error::other(format!("it has more than {ENTRIES_MAX} entries")));
        }
        let name = entry?.file_name();
        keys.extend(name.to_string_lossy().strip_suffix(ENDING).map(str::to_owned));
    }
    Ok(keys)
}

fn checked(key: &str) -> Result<&str, PersonaLoadError> {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let is_one = (1..=KEY_CHARS_MAX).contains(&key.len()) && key.chars().all(word);
    is_one
        .then_some(key)
        .ok_or_else(|| PersonaLoadError::Name { name: key.chars().take(KEY_CHARS_MAX).collect() })
}

/// The persona of a file; none where there is no such file.
fn from_file(key: String, path: &Path) -> Result<Option<LoadedPersona>, PersonaLoadError> {
    let Some(text) = text_of(path)? else { return Ok(None) };
    let persona = Persona::parse(&path.to_string_lossy(), &text)?;
    Ok(Some(LoadedPersona { key, origin: PersonaSource::File(path.to_owned()), persona }))
}

fn text_of(path: &Path) -> Result<Option<String>, PersonaLoadError> {
    // No link: one in a repository could name any file of the person, whose lines would then be shown as wrong.
    match byleave_files::read_text(path, LinkPolicy::Above, FILE_BYTES_MAX as u64) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_missing() => Ok(None),
        Err(ReadError::Link) => Err(unreadable(path, "it is a link; put the file itself there".to_owned())),
        Err(error) => Err(unreadable(path, error.to_string())),
    }
}

fn unreadable(path: &Path, why: String) -> PersonaLoadError {
    PersonaLoadError::Unreadable { path: path.to_owned(), why }
}
