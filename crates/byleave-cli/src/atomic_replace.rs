//! Replaces files of other programs atomically: a reader finds the old text or the new one, never a mixture.
//!
//! Mode and owner are kept. A link is followed and its target is replaced, so the link stays a link. It fails if the path
//! is not a regular file, the owner cannot be kept, or the file was changed in the meantime.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use byleave_files::{LinkPolicy, ReadError, own};

use crate::error::CliError;

/// An upper limit for the size of settings files.
const BYTES_MAX: u64 = 32 << 20;

/// Resolves the file of a path: itself, or the target of a link.
pub(crate) fn target(path: &Path) -> Result<PathBuf> {
    match path.symlink_metadata() {
        Ok(_) => path.canonicalize().map_err(|error| {
            CliError::new(format!("cannot resolve the link `{}`: {error}", path.display()))
                .hint("repair the link, or remove it")
                .into()
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A directory above it may be a link as well.
            let above = path.ancestors().skip(1).find_map(|above| Some((above, above.canonicalize().ok()?)));
            let Some((above, real)) = above else { return Ok(path.to_owned()) };
            Ok(path.strip_prefix(above).map_or_else(|_| path.to_owned(), |rest| real.join(rest)))
        }
        Err(error) => Err(error).with_context(|| format!("cannot access `{}`", path.display())),
    }
}

/// Reads the text of a file, or `None` if it does not exist.
pub(crate) fn text(path: &Path) -> Result<Option<String>> {
    let odd = |why: &str| CliError::new(format!("`{}` {why}", path.display())).hint("nothing was changed");
    // Many people keep their settings elsewhere and link to them. The agent follows such a link as well.
    match byleave_files::read_text(path, LinkPolicy::Follow, BYTES_MAX) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_missing() => Ok(None),
        Err(ReadError::NotAFile | ReadError::Link) => Err(odd("is not a regular file").into()),
        Err(ReadError::TooLarge(_)) => Err(odd("is too large for a settings file").into()),
        Err(error @ ReadError::NotText) => Err(odd(&format!("cannot be read as text: {error}")).into()),
        Err(ReadError::Io(error)) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    }
}

/// Writes a new text in place of `old`, or of no file. Fails if the file no longer contains `old`.
pub(crate) fn replace(path: &Path, old: Option<&str>, new: &str) -> Result<()> {
    unchanged(path, old)?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = directory.join(format!(".{name}.byleave-{}", std::process::id()));
    let written = write(&draft, path, new).and_then(|()| {
        // As late as possible, because some agents write their own settings all the time.
        unchanged(path, old)?;
        fs::rename(&draft, path)?;
        Ok(())
    });
    if let Err(error) = written {
        // The error is already reported. A leftover draft is only untidy.
        fs::remove_file(&draft).unwrap_or_default();
        return Err(error.context(format!("cannot write `{}`", path.display())));
    }
    own::sync_directory(directory)?;
    Ok(())
}

/// Removes a file. Fails if it no longer contains `old`.
pub(crate) fn remove(path: &Path, old: &str) -> Result<()> {
    unchanged(path, Some(old))?;
    fs::remove_file(path).with_context(|| format!("cannot remove `{}`", path.display()))
}

fn unchanged(path: &Path, old: Option<&str>) -> Result<()> {
    if text(path)?.as_deref() == old {
        return Ok(());
    }
    let changed = CliError::new(format!("another program has just changed `{}`", path.display()));
    Err(changed.hint("quit the agent, and try again").into())
}

fn write(draft: &Path, path: &Path, text: &str) -> Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    if let Ok(was) = path.metadata() {
        let now = file.metadata()?;
        if (now.uid(), now.gid()) != (was.uid(), was.gid()) {
            std::os::unix::fs::fchown(&file, Some(was.uid()), Some(was.gid()))
                .context("cannot keep the owner of the file")?;
        }
        file.set_permissions(fs::Permissions::from_mode(was.mode() & 0o7777))?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_and_links_stay_and_nothing_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real.json");
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        let link = dir.path().join("link.json");
        std::os::unix::fs::symlink("real.json", &link).unwrap();
        let target = target(&link).unwrap();
        replace(&target, Some("old"), "new").unwrap();
        assert_eq!(fs::read_to_string(&link).unwrap(), "new");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(real.metadata().unwrap().mode() & 0o777, 0o640);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&real, Some(12_345), Some(12_345)).unwrap();
            replace(&target, Some("new"), "newer").unwrap();
            assert_eq!(real.metadata().unwrap().uid(), 12_345);
            replace(&target, Some("newer"), "new").unwrap();
        }
        // Another writer was faster.
        assert!(replace(&target, Some("old"), "newest").is_err());
        assert!(replace(&target, None, "newest").is_err());
        assert!(remove(&target, "old").is_err());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        let names = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(names, 2);
        std::os::unix::fs::symlink("nowhere", dir.path().join("dangling")).unwrap();
        assert!(super::target(&dir.path().join("dangling")).is_err());
        fs::create_dir(dir.path().join("d")).unwrap();
        assert!(text(&dir.path().join("d")).is_err());
        replace(&dir.path().join("new/one"), None, "x").unwrap();
        assert_eq!(dir.path().join("new/one").metadata().unwrap().mode() & 0o777, 0o600);
    }
}
