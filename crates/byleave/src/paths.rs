//! Paths: the one file that a path names. Looks at the file system, and changes nothing.

use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use crate::tool::{Site, ToolFault};

/// Spellings of paths that mean another file to whoever expands them after us.
fn is_for_someone_else(path: &str) -> Option<&'static str> {
    let variable = |rest: &str| rest.starts_with(|c: char| c.is_ascii_uppercase() || matches!(c, '{' | '('));
    let drive = |path: &str| matches!(path.as_bytes(), [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
    if path == "~" || path.starts_with('~') && path.contains('/') {
        Some("begins with `~`, which only a shell knows: write the whole path")
    } else if path.strip_prefix('$').is_some_and(variable) {
        Some("begins with a variable, which only a shell knows: write the whole path")
    } else if path.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:")) {
        Some("is an address: write a path")
    } else if path.starts_with("\\") || drive(path) {
        Some("is a path of another system")
    } else {
        None
    }
}

/// The absolute path that a path names, links followed as far as it exists.
pub fn resolve(path: &str, site: &Site) -> Result<String, ToolFault> {
    if path.is_empty() || path.contains('\0') {
        return Err(ToolFault(format!("`{}` is not a path", path.escape_debug())));
    }
    if let Some(why) = is_for_someone_else(path) {
        return Err(ToolFault(format!("`{}` {why}", path.escape_debug())));
    }
    let mut existing = site.cwd.join(path);
    let mut missing: Vec<std::ffi::OsString> = Vec::new();
    let resolved = loop {
        match fs::canonicalize(&existing) {
            Ok(base) => break missing.iter().rev().fold(base, |path, part| path.join(part)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A dangling link names something that is not beneath its parent: nobody can say what.
                if existing.symlink_metadata().is_ok() {
                    return Err(ToolFault(format!(
                        "`{path}` leads through a link to something that is not there"
                    )));
                }
                match existing.components().next_back() {
                    Some(Component::Normal(part)) => missing.push(part.to_owned()),
                    _ => return Err(ToolFault(format!("`{path}` cannot be resolved"))),
                }
                existing = existing.parent().map(Path::to_path_buf).unwrap_or_default();
            }
            Err(error) => return Err(ToolFault(format!("`{path}` cannot be resolved: {error}"))),
        }
    };
    into_text(resolved)
}

/// The path as text, where it is text.
pub(crate) fn into_text(path: PathBuf) -> Result<String, ToolFault> {
    path.into_os_string()
        .into_string()
        .map_err(|path| ToolFault(format!("`{}` is not readable as text", path.to_string_lossy())))
}
