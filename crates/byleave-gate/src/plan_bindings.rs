//! Binds a plan to the files and directories that it depends on, and checks whether they are unchanged.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use byleave_core::digest::Digest;
use byleave_core::effect::{Binding, BindingState, Plan};
use byleave_core::refusal::{Code, Refusal};
use byleave_files::local_listener::LocalListeners;
use byleave_files::{LinkPolicy, ReadError};

use crate::path_resolution::into_text;
use crate::tool::{ToolContext, ToolError};

/// The maximum size of a file bound by content. A plan that needs a larger file is refused.
const BOUND_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Records the current state of a path for a later comparison. The path must be resolved: a file behind a link is not bound.
pub fn capture_binding(path: &str) -> Result<Binding, ToolError> {
    let fault = |error: io::Error| ToolError(format!("cannot read `{path}`: {error}"));
    let state = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => BindingState::Missing,
        Err(error) => return Err(fault(error)),
        Ok(found) if found.is_dir() => BindingState::Directory { device: found.dev(), inode: found.ino() },
        Ok(_) => content_state(path).map_err(|error| match error {
            ReadError::NotAFile => ToolError(format!("`{path}` is not a file")),
            ReadError::TooLarge(max) => {
                ToolError(format!("cannot bind `{path}`: the file has more than {max} bytes"))
            }
            ReadError::Io(error) => fault(error),
            other => ToolError(format!("cannot bind `{path}`: {other}")),
        })?,
    };
    Ok(Binding { path: path.to_owned(), state })
}

/// Returns the digest of a file. The file is read in pieces and not kept in memory.
fn content_state(path: &str) -> Result<BindingState, ReadError> {
    let opened = byleave_files::open(Path::new(path), LinkPolicy::Never)?;
    let mut hasher = blake3::Hasher::new();
    if opened.metadata.len() > BOUND_BYTES_MAX {
        return Err(ReadError::TooLarge(BOUND_BYTES_MAX));
    }
    // The file may grow while it is read.
    if io::copy(&mut opened.file.take(BOUND_BYTES_MAX + 1), &mut hasher)? > BOUND_BYTES_MAX {
        return Err(ReadError::TooLarge(BOUND_BYTES_MAX));
    }
    Ok(BindingState::Content(Digest::from_bytes(hasher.finalize().into())))
}

/// Adds the working directory itself to the bindings of a plan.
pub(crate) fn add_directory_binding(plan: &mut Plan, site: &ToolContext) -> Result<(), ToolError> {
    let cwd = into_text(site.cwd.clone())?;
    let bound = capture_binding(&cwd)?;
    if !matches!(bound.state, BindingState::Directory { .. }) {
        return Err(ToolError(format!("the working directory `{cwd}` does not exist")));
    }
    plan.bindings.insert(0, bound);
    Ok(())
}

/// Binds the plan of a command to the programs that listen on the ports of this machine that it reaches.
pub(crate) fn add_listener_bindings(plan: &mut Plan) -> Result<(), ToolError> {
    for port in plan.local_ports() {
        plan.bindings.push(capture_listener(port)?);
    }
    Ok(())
}

fn capture_listener(port: u16) -> Result<Binding, ToolError> {
    let found = LocalListeners::find(port).map_err(|error| {
        ToolError(format!("cannot see which program listens on `localhost:{port}`: {error}"))
    })?;
    Ok(Binding::for_local_port(port, found.describe()))
}

/// Refuses the call if anything that the plan is bound to has changed.
pub(crate) fn check_bindings(plan: &Plan) -> Result<(), Refusal> {
    for bound in &plan.bindings {
        let code = match &bound.state {
            BindingState::Directory { .. } => Code::DirectoryChanged,
            BindingState::Missing | BindingState::Content(_) => Code::ContentChanged,
            BindingState::Listener { .. } => Code::ContentChanged,
        };
        let now = match bound.local_port() {
            Some((port, _)) => capture_listener(port),
            None => capture_binding(&bound.path),
        };
        match now {
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
    use super::*;

    #[test]
    fn what_changed_is_no_longer_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let plan = |path: &Path| Plan {
            bindings: vec![capture_binding(path.to_str().unwrap()).unwrap()],
            ..Plan::default()
        };
        let missing = plan(&path);
        assert!(check_bindings(&missing).is_ok());
        fs::write(&path, "1").unwrap();
        assert_eq!(check_bindings(&missing).unwrap_err().code, Code::ContentChanged);
        let written = plan(&path);
        fs::write(&path, "2").unwrap();
        assert_eq!(check_bindings(&written).unwrap_err().code, Code::ContentChanged);
        let inside = folder.path().join("d");
        fs::create_dir(&inside).unwrap();
        let directory = plan(&inside);
        fs::create_dir(folder.path().join("e")).unwrap();
        fs::remove_dir(&inside).unwrap();
        fs::rename(folder.path().join("e"), &inside).unwrap();
        assert_eq!(check_bindings(&directory).unwrap_err().code, Code::DirectoryChanged);
    }

    // req: B7
    #[test]
    fn only_a_small_regular_file_is_bound() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let bind = |name: &str| capture_binding(folder.join(name).to_str().unwrap());
        let pipe = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, folder.join("pipe"), pipe, mode, 0).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.join("zero")).unwrap();
        fs::write(folder.join("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", folder.join("link")).unwrap();
        fs::File::create(folder.join("large")).unwrap().set_len(900 << 20).unwrap();
        for name in ["pipe", "zero", "link", "large"] {
            assert!(bind(name).is_err(), "{name}");
        }
        assert_eq!(bind("file").unwrap().state, BindingState::Content(Digest::compute(b"text")));
    }
}
