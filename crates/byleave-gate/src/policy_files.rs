//! Policy files: their locations, who may have written them, and the one policy that they form together (P8).
//!
//! | layer | file | may |
//! |---|---|---|
//! | organisation | `/etc/byleave/policy.toml` | allow, ask, deny |
//! | user | `$XDG_CONFIG_HOME/byleave/policy.toml`, else `~/.config/byleave/policy.toml` | allow, ask, deny |
//! | project | `.byleave/policy.toml` in the workspace and in the directories above it, up to the home directory | ask, deny |
//! | session | the file named when the session was started | allow, ask, deny |
//!
//! A missing file is skipped. An existing file that cannot be used in full stops everything. That is one that is unreadable,
//! not a regular file, too large, not text, writable by others, or invalid. This module must never load only a part.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use byleave_core::policy::{
    ExampleChecker, Layer, LoadedRules, PathVariables, Policy, PolicyError, PolicyFileError, Rule, RuleFile,
    UncheckedExample, builtin_rules, load_rules,
};
use byleave_files::LinkPolicy;

/// The path of the organisation's policy file.
pub const ORGANISATION_PATH: &str = "/etc/byleave/policy.toml";

/// The name of the user's policy file, in their settings directory.
pub const USER_FILE_NAME: &str = "policy.toml";

/// The path of a project's policy file, in its directory.
pub const PROJECT_PATH: &str = ".byleave/policy.toml";

/// The maximum size of a policy file.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The maximum size of a project's file. An agent may have written it, and compiling a glob takes up to 1000 times its length.
const PROJECT_BYTES_MAX: u64 = 64 * 1024;

/// A policy file that may exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFile {
    /// Its layer.
    pub layer: Layer,
    /// Its path.
    pub path: PathBuf,
    /// Whether it was named explicitly, so that it must exist.
    pub required: bool,
}

/// The policy that several files form together.
#[derive(Debug)]
pub struct LoadedPolicy {
    /// The policy.
    pub policy: Policy,
    /// The files that exist.
    pub files: Vec<PolicyFile>,
    /// The examples that could not be checked, with their files.
    pub unchecked_examples: Vec<(PathBuf, UncheckedExample)>,
    /// How many examples were checked and hold.
    pub checked_count: usize,
}

/// The reason why the policy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyLoadError {
    /// A file cannot be read.
    #[error("cannot read policy file `{path}`: {reason}; make it readable, or move it away", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Another user could have written it.
    #[error("cannot trust policy file `{path}`: {reason}", path = path.display())]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// The reason, and what to do.
        reason: String,
    },
    /// The file is invalid.
    #[error(transparent)]
    File(#[from] PolicyFileError),
    /// The rules cannot be used together.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// Returns the files for calls in this workspace, whether or not they exist.
pub fn candidate_files(places: &PathVariables<'_>, session: Option<&Path>) -> Vec<PolicyFile> {
    let maybe = |layer, path: PathBuf| PolicyFile { layer, path, required: false };
    let mut files = vec![maybe(Layer::Organisation, ORGANISATION_PATH.into())];
    files.extend(places.config.map(|config| maybe(Layer::User, Path::new(config).join(USER_FILE_NAME))));
    // A project within a project adds restrictions. The order is from the outside in, and an inner file cannot hide an outer one.
    let within = |directory: &&Path| places.home.is_none_or(|home| *directory != Path::new(home));
    let mut projects: Vec<&Path> =
        places.workspace.iter().flat_map(|path| Path::new(path).ancestors()).collect();
    let home = projects.iter().position(|directory| !within(directory));
    // The home directory itself is a project if it is the workspace.
    projects.truncate(home.map_or(projects.len(), |home| home.max(1)));
    projects.reverse();
    files.extend(projects.into_iter().map(|directory| maybe(Layer::Project, directory.join(PROJECT_PATH))));
    files.extend(session.map(|path| PolicyFile {
        layer: Layer::Session,
        path: path.to_path_buf(),
        required: true,
    }));
    files
}

/// Reads the existing files and combines them with the built-in rules into one policy.
pub fn load(
    files: &[PolicyFile],
    places: &PathVariables<'_>,
    examples: &dyn ExampleChecker,
) -> Result<LoadedPolicy, PolicyLoadError> {
    let mut rules: Vec<Rule> = builtin_rules(places)?;
    let (mut there, mut unchecked, mut checked) = (Vec::new(), Vec::new(), 0_usize);
    for file in files {
        let Some(found) = load_file(file, places, examples)? else { continue };
        rules.extend(found.rules);
        unchecked.extend(found.unchecked_examples.into_iter().map(|example| (file.path.clone(), example)));
        checked = checked.saturating_add(found.checked_count);
        there.push(file.clone());
    }
    Ok(LoadedPolicy {
        policy: Policy::new(rules)?.with_workspace(places.workspace),
        files: there,
        unchecked_examples: unchecked,
        checked_count: checked,
    })
}

/// Reads one file. Returns `None` if it does not exist and was not named explicitly.
pub fn load_file(
    file: &PolicyFile,
    places: &PathVariables<'_>,
    examples: &dyn ExampleChecker,
) -> Result<Option<LoadedRules>, PolicyLoadError> {
    let Some(text) = read_text(file)? else { return Ok(None) };
    let name = file.path.to_string_lossy();
    let rules = RuleFile { name: &name, layer: file.layer, text: &text };
    Ok(Some(load_rules(&rules, places, examples)?))
}

/// Reads a file that no other user could have written. A project's file must not be a link. Returns `None` if the file does
/// not exist and was not named explicitly. Settings files are read in the same way.
pub fn read_text(file: &PolicyFile) -> Result<Option<String>, PolicyLoadError> {
    let unreadable = |why: String| PolicyLoadError::Unreadable { path: file.path.clone(), reason: why };
    // A link in a repository could name any file of the user, whose lines would then appear in error messages.
    let (links, max) = match file.layer {
        Layer::Project => (LinkPolicy::FollowParents, PROJECT_BYTES_MAX),
        _ => (LinkPolicy::Follow, FILE_BYTES_MAX),
    };
    let opened = match byleave_files::open(&file.path, links) {
        Ok(opened) => opened,
        Err(error) if error.is_missing() && !file.required => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    // The check uses the opened file, because its name may lead to another file by now.
    check_trusted(file, &opened.metadata)?;
    opened.read_text(max).map(Some).map_err(|error| unreadable(error.to_string()))
}

/// Checks that only the user and the system could have written it. A project's file may be anyone's, because it only restricts.
fn check_trusted(file: &PolicyFile, found: &std::fs::Metadata) -> Result<(), PolicyLoadError> {
    if file.layer == Layer::Project {
        return Ok(());
    }
    let untrusted = |why: String| Err(PolicyLoadError::Untrusted { path: file.path.clone(), reason: why });
    let ours = |owner: u32| owner == 0 || owner == rustix::process::geteuid().as_raw();
    if found.mode() & 0o022 != 0 {
        let shown = file.path.display();
        return untrusted(format!("other users may write the file; run `chmod go-w {shown}`"));
    }
    if !ours(found.uid()) {
        return untrusted("the file belongs to another user; change its owner with `chown`".to_owned());
    }
    let real = file.path.canonicalize();
    let directory = real.ok().and_then(|real| real.parent().map(Path::to_path_buf));
    let Some((directory, about)) = directory.and_then(|path| path.metadata().ok().map(|about| (path, about)))
    else {
        return untrusted("its directory cannot be read; make it readable".to_owned());
    };
    // A writer of the directory may replace the file, unless the directory is sticky.
    if about.mode() & 0o022 != 0 && about.mode() & 0o1000 == 0 || !ours(about.uid()) {
        let shown = directory.display();
        return untrusted(format!(
            "other users may write its directory; run `chmod go-w {shown}`, or change its owner"
        ));
    }
    Ok(())
}
