//! Policy files: where they lie, who may have written them, and the one policy they make together (P8).
//!
//! | layer | file | may |
//! |---|---|---|
//! | organisation | `/etc/byleave/policy.toml` | allow, ask, deny |
//! | user | `$XDG_CONFIG_HOME/byleave/policy.toml`, else `~/.config/byleave/policy.toml` | allow, ask, deny |
//! | project | `.byleave/policy.toml` in the workspace and in the directories above it, up to the home directory | ask, deny |
//! | session | as it was named when the session was started | allow, ask, deny |
//!
//! A file that is not there is no file. One that is there and cannot be used in full stops everything: unreadable, not a
//! file, too large, not text, writable by others, or with anything wrong in it. Nothing here ever goes on with less.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use byleave_core::policy::{
    ExampleChecker, Layer, LoadedRules, PathVariables, Policy, PolicyError, PolicyFileError, Rule, RuleFile,
    UncheckedExample, builtin, read,
};
use byleave_files::LinkPolicy;

/// Where the organisation's policy file lies.
pub const ORGANISATION: &str = "/etc/byleave/policy.toml";

/// What the user's policy file is called, in the directory of their settings.
pub const USER: &str = "policy.toml";

/// Where the policy file of a project lies, in its directory.
pub const PROJECT: &str = ".byleave/policy.toml";

/// The largest policy file.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The largest of a project, which an agent may have written: compiling a glob takes up to a thousand times its length.
const PROJECT_BYTES_MAX: u64 = 64 * 1024;

/// A policy file that may be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFile {
    /// Whose it is.
    pub layer: Layer,
    /// Where it would be.
    pub path: PathBuf,
    /// Someone named it, so that it must be there.
    pub named: bool,
}

/// The policy that some files make together.
#[derive(Debug)]
pub struct LoadedPolicy {
    /// The policy.
    pub policy: Policy,
    /// The files that were there.
    pub files: Vec<PolicyFile>,
    /// The examples that nobody could check, with their files.
    pub unchecked: Vec<(PathBuf, UncheckedExample)>,
    /// How many examples were checked, and hold.
    pub checked: usize,
}

/// Why the policy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyLoadError {
    /// A file cannot be read.
    #[error("cannot read policy file `{path}`: {why}; make it readable, or move it away", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// Someone else could have written it.
    #[error("cannot trust policy file `{path}`: {why}", path = path.display())]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// Something is wrong in it.
    #[error(transparent)]
    File(#[from] PolicyFileError),
    /// The rules cannot be used together.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// The files for calls in this workspace, whether they are there or not.
pub fn files(places: &PathVariables<'_>, session: Option<&Path>) -> Vec<PolicyFile> {
    let maybe = |layer, path: PathBuf| PolicyFile { layer, path, named: false };
    let mut files = vec![maybe(Layer::Organisation, ORGANISATION.into())];
    files.extend(places.config.map(|config| maybe(Layer::User, Path::new(config).join(USER))));
    // A project inside a project tightens further; from the outside in, and nothing inside can hide what is outside.
    let within = |directory: &&Path| places.home.is_none_or(|home| *directory != Path::new(home));
    let mut projects: Vec<&Path> =
        places.workspace.iter().flat_map(|path| Path::new(path).ancestors()).collect();
    let home = projects.iter().position(|directory| !within(directory));
    // Who works in the home directory itself has a project there.
    projects.truncate(home.map_or(projects.len(), |home| home.max(1)));
    projects.reverse();
    files.extend(projects.into_iter().map(|directory| maybe(Layer::Project, directory.join(PROJECT))));
    files.extend(session.map(|path| PolicyFile {
        layer: Layer::Session,
        path: path.to_path_buf(),
        named: true,
    }));
    files
}

/// Reads the files that are there and makes one policy of them and the built-in rules.
pub fn load(
    files: &[PolicyFile],
    places: &PathVariables<'_>,
    examples: &dyn ExampleChecker,
) -> Result<LoadedPolicy, PolicyLoadError> {
    let mut rules: Vec<Rule> = builtin(places)?;
    let (mut there, mut unchecked, mut checked) = (Vec::new(), Vec::new(), 0_usize);
    for file in files {
        let Some(found) = read_one(file, places, examples)? else { continue };
        rules.extend(found.rules);
        unchecked.extend(found.unchecked.into_iter().map(|example| (file.path.clone(), example)));
        checked = checked.saturating_add(found.checked);
        there.push(file.clone());
    }
    Ok(LoadedPolicy {
        policy: Policy::new(rules)?.within(places.workspace),
        files: there,
        unchecked,
        checked,
    })
}

/// Reads one file; none where it is not there and nobody named it.
pub fn read_one(
    file: &PolicyFile,
    places: &PathVariables<'_>,
    examples: &dyn ExampleChecker,
) -> Result<Option<LoadedRules>, PolicyLoadError> {
    let Some(text) = text_of(file)? else { return Ok(None) };
    let name = file.path.to_string_lossy();
    let rules = RuleFile { name: &name, layer: file.layer, text: &text };
    Ok(Some(read(&rules, places, examples)?))
}

/// The text of a file that nobody else could have written, or, of a project, that is no link; none where it is not there and
/// nobody named it. Settings files are read so as well.
pub fn text_of(file: &PolicyFile) -> Result<Option<String>, PolicyLoadError> {
    let unreadable = |why: String| PolicyLoadError::Unreadable { path: file.path.clone(), why };
    // A link in a repository could name any file of the person, whose lines would then be shown as wrong.
    let (links, max) = match file.layer {
        Layer::Project => (LinkPolicy::Above, PROJECT_BYTES_MAX),
        _ => (LinkPolicy::Follow, FILE_BYTES_MAX),
    };
    let opened = match byleave_files::open(&file.path, links) {
        Ok(opened) => opened,
        Err(error) if error.is_missing() && !file.named => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    // What is asked about is what was opened, not what its name leads to by then.
    trusted(file, &opened.metadata)?;
    opened.read_text(max).map(Some).map_err(|error| unreadable(error.to_string()))
}

/// Whether nobody but the person and the system could have written it. A project's file may be anyone's: it only tightens.
fn trusted(file: &PolicyFile, found: &std::fs::Metadata) -> Result<(), PolicyLoadError> {
    if file.layer == Layer::Project {
        return Ok(());
    }
    let untrusted = |why: String| Err(PolicyLoadError::Untrusted { path: file.path.clone(), why });
    let ours = |owner: u32| owner == 0 || owner == rustix::process::geteuid().as_raw();
    if found.mode() & 0o022 != 0 {
        let shown = file.path.display();
        return untrusted(format!("others may write it; run `chmod go-w {shown}`"));
    }
    if !ours(found.uid()) {
        return untrusted("it belongs to someone else; make it your own with `chown`".to_owned());
    }
    let real = file.path.canonicalize();
    let directory = real.ok().and_then(|real| real.parent().map(Path::to_path_buf));
    let Some((directory, about)) = directory.and_then(|path| path.metadata().ok().map(|about| (path, about)))
    else {
        return untrusted("its directory cannot be looked at; make it readable".to_owned());
    };
    // Who may write the directory may put another file in its place, unless it is sticky.
    if about.mode() & 0o022 != 0 && about.mode() & 0o1000 == 0 || !ours(about.uid()) {
        let shown = directory.display();
        return untrusted(format!(
            "others may write its directory; run `chmod go-w {shown}`, or make it your own"
        ));
    }
    Ok(())
}
