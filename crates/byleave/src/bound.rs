//! What a plan rests on: files and directories as they were when it was made, and whether they still are.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use byleave_core::digest::Digest;
use byleave_core::effect::{Bound, BoundState, Plan};
use byleave_core::refusal::{Code, Refusal};

use crate::path::into_text;
use crate::tool::{Site, ToolFault};

/// Files larger than this are not bound by content; a plan that would have to is refused.
const BOUND_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What a path is now, to be held against what it is later.
pub fn bind(path: &str) -> Result<Bound, ToolFault> {
    let fault = |error: io::Error| ToolFault(format!("`{path}` cannot be looked at: {error}"));
    let state = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => BoundState::Missing,
        Err(error) => return Err(fault(error)),
        Ok(found) if found.is_dir() => BoundState::Directory { device: found.dev(), inode: found.ino() },
        Ok(found) if !found.is_file() => return Err(ToolFault(format!("`{path}` is not a file"))),
        Ok(found) if found.len() > BOUND_BYTES_MAX => {
            return Err(ToolFault(format!("`{path}` is too large to be bound ({} bytes)", found.len())));
        }
        Ok(_) => BoundState::Content(Digest::of(&fs::read(path).map_err(fault)?)),
    };
    Ok(Bound { path: path.to_owned(), state })
}

/// Adds the working directory itself to what a plan rests on.
pub(crate) fn bind_directory(plan: &mut Plan, site: &Site) -> Result<(), ToolFault> {
    let cwd = into_text(site.cwd.clone())?;
    let bound = bind(&cwd)?;
    if !matches!(bound.state, BoundState::Directory { .. }) {
        return Err(ToolFault(format!("the working directory `{cwd}` is not there")));
    }
    plan.bound.insert(0, bound);
    Ok(())
}

/// Refuses if anything that the plan rests on is not what it was.
pub(crate) fn still_bound(plan: &Plan) -> Result<(), Refusal> {
    for bound in &plan.bound {
        let code = match bound.state {
            BoundState::Directory { .. } => Code::DirectoryChanged,
            BoundState::Missing | BoundState::Content(_) => Code::ContentChanged,
        };
        match bind(&bound.path) {
            Ok(now) if now == *bound => {}
            Ok(_) => {
                return Err(Refusal::new(
                    code,
                    format!("`{}` has changed since it was approved", bound.path),
                ));
            }
            Err(fault) => return Err(Refusal::new(code, fault.to_string())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_changed_is_no_longer_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let plan =
            |path: &Path| Plan { bound: vec![bind(path.to_str().unwrap()).unwrap()], ..Plan::default() };
        let missing = plan(&path);
        assert!(still_bound(&missing).is_ok());
        fs::write(&path, "1").unwrap();
        assert_eq!(still_bound(&missing).unwrap_err().code, Code::ContentChanged);
        let written = plan(&path);
        fs::write(&path, "2").unwrap();
        assert_eq!(still_bound(&written).unwrap_err().code, Code::ContentChanged);
        let inside = folder.path().join("d");
        fs::create_dir(&inside).unwrap();
        let directory = plan(&inside);
        fs::create_dir(folder.path().join("e")).unwrap();
        fs::remove_dir(&inside).unwrap();
        fs::rename(folder.path().join("e"), &inside).unwrap();
        assert_eq!(still_bound(&directory).unwrap_err().code, Code::DirectoryChanged);
    }
}
