//! The execution environment: where commands run, their confinement, and the store of copies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use byleave_copy::outer_entries::OuterEntries;
use byleave_copy::{CopyMethod, CopySettings, CopyStore, Error, MountSource, WorkspaceCopy, scratch};
use byleave_gate::core::call::Mode;
use byleave_gate::core::effect::{Effect, Plan, SESSION_TMP};
use byleave_gate::core::policy::Policy;
use byleave_gate::tool::RunContext;
use byleave_sandbox::backend::{self, Backend};
use byleave_sandbox::confinement::{self, Confinement, FileConfinement, ReadScope};
use byleave_sandbox::from_plan::{self, OuterRepositoryPaths, RunEnvironment};
use byleave_sandbox::guarantee::Guarantee;
use byleave_sandbox::launch::{self, IndexCache, LaunchError, NetworkBridge, RunAs};
use byleave_sandbox::probe;
use byleave_sandbox::protected_paths::find_protected_paths;

use crate::command_host::CommandHost;
use crate::job_scratch;
use crate::outer_repository::OuterRepository;
use crate::without_namespaces::{self, ContainerTrust};

/// The guarantees that a rehearsal needs to be sufficient without a question. Without one of them, a run could have unseen effects or read
/// what it was not granted.
const NEEDED: [Guarantee; 8] = [
    Guarantee::SecretsHidden,
    Guarantee::ProtectedKept,
    Guarantee::HomeHidden,
    Guarantee::ReadsConfined,
    Guarantee::WritesConfined,
    Guarantee::NetworkConfined,
    Guarantee::ProcessesApart,
    Guarantee::IpcApart,
];

/// Settings that turn off what programs do without being asked. `git status` would rewrite the index. npm would look for a new version each
/// time, because it finds its home empty. Otherwise these effects would have to be distinguished from the real ones.
const UNPROMPTED: [(&str, &str); 16] = [
    ("GIT_OPTIONAL_LOCKS", "0"),
    // Otherwise git leaves a process behind that cleans up the repository.
    ("GIT_CONFIG_COUNT", "6"),
    ("GIT_CONFIG_KEY_0", "gc.auto"),
    ("GIT_CONFIG_VALUE_0", "0"),
    ("GIT_CONFIG_KEY_1", "maintenance.auto"),
    ("GIT_CONFIG_VALUE_1", "false"),
    // The settings of a repository could name any program to verify signatures with, and a merge or a format would run it. The keys of
    // the person are not there.
    ("GIT_CONFIG_KEY_2", "gpg.program"),
    ("GIT_CONFIG_VALUE_2", "false"),
    ("GIT_CONFIG_KEY_3", "gpg.ssh.program"),
    ("GIT_CONFIG_VALUE_3", "false"),
    ("GIT_CONFIG_KEY_4", "gpg.x509.program"),
    ("GIT_CONFIG_VALUE_4", "false"),
    ("GIT_CONFIG_KEY_5", "log.showSignature"),
    ("GIT_CONFIG_VALUE_5", "false"),
    ("npm_config_update_notifier", "false"),
    // Without a terminal, `npx NAME` would download a package that is not installed.
    ("npm_config_yes", "false"),
];

/// The environment in which commands run.
#[derive(Clone, Debug)]
pub struct ExecutionEnv {
    /// The directory of the copy store, which also keeps the files from before commits. It is created when it is first needed.
    pub store_dir: PathBuf,
    /// The limits on time and size of the store, and the definition of scratch directories.
    pub store_settings: CopySettings,
    /// The workspace in which commands work; absolute and resolved.
    pub workspace: PathBuf,
    /// The repository of the workspace, if it lies outside of it. See [`OuterRepository::find`].
    pub repository: Option<OuterRepository>,
    /// The user's home directory, which is empty for commands.
    pub home: Option<PathBuf>,
    /// Byleave's own paths: the state directory and the sockets of the gate. They do not exist for commands. The store is always one of
    /// them.
    pub private_paths: Vec<PathBuf>,
    /// The directory for notes about unfinished runs, within Byleave's own paths.
    pub run_markers_dir: Option<PathBuf>,
    /// The directory for notes about running jobs, within Byleave's own paths. Without it nobody else sees a job.
    pub jobs_dir: Option<PathBuf>,
    /// The environment variables, of which the usual ones are passed on.
    pub environment: BTreeMap<String, String>,
    /// The guarantees that the operator waives.
    pub waived: BTreeSet<Guarantee>,
    /// The guarantees that must hold fully, although commands usually run without them.
    pub required: BTreeSet<Guarantee>,
    /// The user that runs commands.
    pub run_as: RunAs,
    /// Where commands run.
    pub command_host: CommandHost,
    /// Whether the container around Byleave is the outer wall, where commands run without namespaces.
    pub container: ContainerTrust,
    /// The maximum size of a file that is read or written as a whole (E3).
    pub max_file_bytes: u64,
    warm: Arc<IndexCache>,
    uplink: Arc<OnceLock<Option<NetworkBridge>>>,
    overlay: Arc<OnceLock<Result<(), String>>>,
    starts: Arc<OnceLock<Result<(), String>>>,
    backend: Arc<OnceLock<Result<Backend, String>>>,
}

/// The choice between the granted access and a rehearsal without a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkAccess {
    /// The granted hosts, by name, and the scratch layers of granted runs.
    Granted,
    /// No network; attempts are recorded. The scratch layers include those of rehearsals.
    Blocked,
}

/// A copy of what a command may write, and what must be held while it runs.
pub(crate) struct PreparedCopy {
    pub(crate) copy: WorkspaceCopy,
    /// The scratch layers under the copy. Others must not remove them meanwhile.
    pub(crate) scratch_stacks: Vec<scratch::LayerStack>,
    /// The reason why the copy is not an overlay, if it is not.
    pub(crate) weaker_reason: Option<String>,
    /// Whether the command works at the path of the copy, because nothing can be mounted.
    pub(crate) is_at_own_path: bool,
    /// The entries of the index that lie outside of the workspace, and the index. They are marked while the command runs.
    outer_entries: Option<(PathBuf, OuterEntries)>,
}

impl PreparedCopy {
    /// Removes the marks that only the run needed. A command that changed something outside of the workspace is refused.
    pub(crate) fn unmark(&self) -> Result<(), String> {
        let Some((index, outer)) = &self.outer_entries else { return Ok(()) };
        let unmarked = self.copy.unmark_outer_entries(index, outer).map_err(|fault| fault.to_string())?;
        unmarked.map_err(|why| format!("nothing was changed: {why}"))
    }
}

impl ExecutionEnv {
    /// Creates an environment with this workspace and this copy store. Nothing is waived, and commands run as the current user.
    pub fn new(kept_in: PathBuf, workspace: PathBuf) -> Self {
        Self {
            store_dir: kept_in,
            store_settings: CopySettings::default(),
            workspace,
            repository: None,
            home: None,
            private_paths: Vec::new(),
            run_markers_dir: None,
            jobs_dir: None,
            environment: BTreeMap::new(),
            waived: BTreeSet::new(),
            required: BTreeSet::new(),
            run_as: RunAs::Caller,
            command_host: CommandHost::Native,
            container: ContainerTrust::Untrusted,
            max_file_bytes: 10_485_760,
            warm: Arc::default(),
            uplink: Arc::default(),
            overlay: Arc::default(),
            starts: Arc::default(),
            backend: Arc::default(),
        }
    }

    /// Uses whole copies even if overlays are available. They are slower, and a rehearsal on one never avoids a question.
    #[must_use]
    pub fn with_full_copies(self) -> Self {
        let overlay = Arc::new(OnceLock::from(Err("full copies are configured".to_owned())));
        Self { overlay, ..self }
    }

    /// Runs commands of this machine on this backend, without a probe: with namespaces, or behind Landlock alone.
    #[must_use]
    pub fn with_backend(self, backend: Backend) -> Self {
        Self { backend: Arc::new(OnceLock::from(Ok(backend))), ..self }
    }

    /// Returns the backend for commands of this machine. It is tried once.
    pub fn backend(&self) -> Result<Backend, String> {
        let files = FileConfinement {
            cwd: self.workspace.clone(),
            home: self.home.clone(),
            writable: vec![self.workspace.clone(), self.store_dir.clone()],
            ..FileConfinement::default()
        };
        let chosen = || probe::choose_for_copies(self.run_as, &files).map_err(describe_error);
        self.backend.get_or_init(chosen).clone()
    }

    /// Checks whether commands run without namespaces, so that nothing can be mounted.
    pub fn has_no_namespaces(&self) -> bool {
        self.command_host == CommandHost::Native && self.backend() == Ok(Backend::Landlock)
    }

    /// Opens the store of copies.
    pub fn open_store(&self) -> Result<CopyStore, Error> {
        CopyStore::open(&self.store_dir, self.store_settings.clone())
    }

    /// Returns the working directory of a call and its workspace, both resolved.
    pub(crate) fn resolve_directories(&self, run: &RunContext) -> Result<(PathBuf, PathBuf), String> {
        let cwd =
            run.context.cwd.canonicalize().map_err(|error| {
                format!("cannot use the directory `{}`: {error}", run.context.cwd.display())
            })?;
        let workspace = self.workspace_for(&cwd);
        Ok((cwd, workspace))
    }

    /// Returns the workspace of a directory. For a directory elsewhere it is the directory itself.
    pub(crate) fn workspace_for(&self, directory: &Path) -> PathBuf {
        let within = directory.starts_with(&self.workspace);
        if within { self.workspace.clone() } else { directory.to_path_buf() }
    }

    /// Returns all of Byleave's own paths, including the store.
    pub(crate) fn all_private_paths(&self) -> Vec<PathBuf> {
        self.private_paths.iter().cloned().chain([self.store_dir.clone()]).collect()
    }

    /// Returns the confinement of a run on the real files, from the granted plan and the current rules.
    pub(crate) fn build_confinement(
        &self,
        run: &RunContext,
        way: NetworkAccess,
    ) -> Result<Confinement, String> {
        self.confinement(run, way, false)
    }

    /// Returns the confinement of a run on a copy, whose changes are judged before they are committed.
    pub(crate) fn build_copy_confinement(
        &self,
        run: &RunContext,
        way: NetworkAccess,
    ) -> Result<Confinement, String> {
        self.confinement(run, way, true)
    }

    fn confinement(
        &self,
        run: &RunContext,
        way: NetworkAccess,
        on_copy: bool,
    ) -> Result<Confinement, String> {
        let rules: &Arc<Policy> = run.policy.as_ref().ok_or("no policy is configured")?;
        let (cwd, workspace) = self.resolve_directories(run)?;
        let repository = if on_copy { self.repository_of(&workspace) } else { None };
        let place = RunEnvironment {
            repository: repository.as_ref().map(|repository| OuterRepositoryPaths {
                directory: repository.directory.clone(),
                files: repository.read_files(&workspace),
                listed: repository.directories_above(&workspace),
            }),
            workspace,
            cwd,
            home: self.home.clone(),
            private_paths: self.all_private_paths(),
            run_markers_dir: self.run_markers_dir.clone(),
            environment: self.environment.clone(),
            read_only: run.mode == Mode::ReadOnly || rules.changes_nothing(&run.plan),
            is_rehearsal: way == NetworkAccess::Blocked,
            on_copy,
        };
        let mut confinement =
            from_plan::build_confinement(&run.plan, rules, &place).map_err(|fault| fault.to_string())?;
        confinement.waived.extend(self.waived.iter().copied());
        confinement.required.extend(self.required.iter().copied());
        for name in &run.guarantees {
            let required = Guarantee::from_name(name);
            let unknown = || format!("a rule requires the guarantee `{name}`, which is not known here");
            confinement.required.insert(required.ok_or_else(unknown)?);
        }
        for (name, value) in UNPROMPTED {
            confinement.environment.insert(name.into(), value.into());
        }
        if repository.is_some() {
            // The copy of the workspace is a file system of its own.
            confinement.environment.insert("GIT_DISCOVERY_ACROSS_FILESYSTEM".into(), "1".into());
        }
        self.command_host.adapt(&run.plan, &mut confinement)?;
        if self.has_no_namespaces() {
            without_namespaces::adapt(&mut confinement, &run.plan, way, &self.container);
        }
        Ok(confinement)
    }

    /// Returns the repository of this workspace as it is now, if it lies outside of it and is the one that was found at the start. A container
    /// does not show it.
    fn repository_of(&self, workspace: &Path) -> Option<OuterRepository> {
        let is_ours = *workspace == self.workspace && matches!(self.command_host, CommandHost::Native);
        let known = self.repository.as_ref().filter(|_| is_ours)?;
        OuterRepository::find(workspace, self.home.as_deref()).filter(|found| found.is_same(known))
    }

    /// Marks the entries of the index that lie outside of the workspace. Git would take their files for deleted.
    fn mark_outer_entries(
        &self,
        copy: &WorkspaceCopy,
        confinement: &Confinement,
    ) -> Result<Option<(PathBuf, OuterEntries)>, Error> {
        let repository = self.repository.as_ref();
        let repository = repository.filter(|own| confinement.files.writable.contains(&own.directory));
        let Some((repository, inside)) =
            repository.and_then(|own| Some((own, own.workspace_in_tree(&self.workspace)?)))
        else {
            return Ok(None);
        };
        let outer = copy.mark_outer_entries(&repository.index, inside)?;
        Ok(outer.map(|outer| (repository.index.clone(), outer)))
    }

    /// Returns the missing guarantees that a rehearsal needs to be sufficient without a question.
    pub(crate) fn missing_guarantees(&self) -> Vec<String> {
        let missing = NEEDED.iter().filter(|guarantee| self.waived.contains(guarantee));
        missing.map(|guarantee| format!("without the guarantee `{}`", guarantee.name())).collect()
    }

    /// Creates a copy of everything that the confinement allows a command to write, and puts it into the confinement. `plain_because` is the
    /// reason for which it must be a plain copy, if there is one.
    pub(crate) fn create_copy(
        &self,
        run: &RunContext,
        confinement: &mut Confinement,
        way: NetworkAccess,
        plain_because: Option<&str>,
    ) -> Result<PreparedCopy, PrepareCopyError> {
        let is_seen = |own: &&OuterRepository| {
            own.workspace_in_tree(&self.workspace).is_some()
                && confinement.files.listed.contains(&own.top)
                && !confinement.files.writable.contains(&own.directory)
        };
        // A command that changes nothing sees the marked index, too.
        if let Some(own) = self.repository.as_ref().filter(is_seen) {
            confinement.files.protected.push(own.directory.clone());
            confinement.files.writable.push(own.directory.clone());
        }
        let roots = confinement.files.writable.clone();
        // Opening the store closes it for other users, until a copy of a root of theirs is in it. The probe may run as one of them.
        let mut weaker_reason = plain_because.map(str::to_owned).or_else(|| self.overlay().err());
        let store = self.store_for_copies(&run.plan, way)?;
        let mut scratch_dirs = Vec::new();
        for root in &roots {
            let survey = scratch::survey(root, &self.store_settings.scratch)?;
            scratch_dirs.extend(survey.scratch);
            let of_others = |path: PathBuf| format!("`{}` belongs to another user or group", path.display());
            weaker_reason = weaker_reason.or_else(|| survey.other_owner.map(of_others));
        }
        let method = if weaker_reason.is_none() { CopyMethod::Overlay } else { CopyMethod::Tree };
        let mut copy = store.create_copy(run.call.uuid(), &roots, method)?;
        let mut stacks = Vec::new();
        if method == CopyMethod::Overlay {
            let session = run.context.session.as_str();
            let mut paths = store.scratch(session).paths()?;
            paths.extend(scratch_dirs);
            paths.sort();
            paths.dedup();
            // A scratch directory is a mount, which cannot be removed. A command that says that it removes one works on the directory itself.
            paths.retain(|path| !is_deleted(&run.plan, path));
            // A run with more rights must not execute files that no person was shown. See the scratch layers of copies.
            stacks = match way {
                NetworkAccess::Granted => copy.with_scratch(session, &paths)?,
                NetworkAccess::Blocked => copy.with_rehearsal_scratch(session, &paths)?,
            };
        }
        let names_tmp = || {
            let files = &confinement.files;
            let readable = match &files.readable {
                ReadScope::Everything => &[][..],
                ReadScope::Only(paths) => paths,
            };
            let named = files.home_readable.iter().chain(&files.writable).chain(readable);
            named.chain([&files.cwd]).any(|path| path.starts_with(SESSION_TMP))
        };
        if method == CopyMethod::Overlay && run.plan.has_session_tmp && !names_tmp() {
            let session = run.context.session.as_str();
            stacks.push(match way {
                NetworkAccess::Granted => copy.with_tmp(session)?,
                NetworkAccess::Blocked => copy.with_rehearsal_tmp(session)?,
            });
        }
        let outer_entries = self.mark_outer_entries(&copy, confinement)?;
        confinement.files.copies = copy.mounts().into_iter().map(mounted).collect();
        let is_at_own_path = self.prepare_tree(&mut copy, confinement)?;
        Ok(PreparedCopy { copy, scratch_stacks: stacks, weaker_reason, is_at_own_path, outer_entries })
    }

    /// Prepares full copies for a command that works at their paths. Returns whether it does.
    fn prepare_tree(
        &self,
        copy: &mut WorkspaceCopy,
        confinement: &Confinement,
    ) -> Result<bool, PrepareCopyError> {
        if !self.has_no_namespaces() {
            copy.remember_entries()?;
            return Ok(false);
        }
        let files = &confinement.files;
        let mut hidden = files.hidden.clone();
        if let Some(scope) = &files.path_policy {
            for root in scope.roots.iter().filter(|root| root.is_dir()) {
                let found = find_protected_paths(root, &*scope.policy);
                hidden.extend(found.map_err(|error| PrepareCopyError::Failed(error.to_string()))?.hidden);
            }
        }
        hidden.sort();
        hidden.dedup_by(|inner, outer| inner.starts_with(outer));
        copy.hide(&hidden)?;
        copy.adopt_paths()?;
        copy.remember_entries()?;
        Ok(true)
    }

    /// Opens the store. Without namespaces nothing is scratch, because no layer of a session can be mounted. A run that was granted
    /// with the size of its workspace has no other limit than the disk.
    fn store_for_copies(&self, plan: &Plan, way: NetworkAccess) -> Result<CopyStore, Error> {
        if !self.has_no_namespaces() {
            return self.open_store();
        }
        let mut settings = CopySettings { scratch: Vec::new(), ..self.store_settings.clone() };
        if way == NetworkAccess::Granted && plan.effects.iter().any(is_large_copy) {
            settings.max_tree_bytes = u64::MAX;
        }
        CopyStore::open(&self.store_dir, settings)
    }

    /// Returns the effect of a command whose full copy is larger than the limit, so that a person is asked.
    pub(crate) fn large_copy(&self, cwd: &Path) -> Option<Effect> {
        let limit = self.store_settings.max_tree_bytes;
        if !self.has_no_namespaces() {
            return None;
        }
        let workspace = self.workspace_for(&cwd.canonicalize().ok()?);
        let is_larger = tree_is_larger(&workspace, &mut limit.clone());
        is_larger.then(|| Effect::Unknown {
            reason: format!(
                "{LARGE_COPY} (more than {} MiB), because nothing can be mounted here",
                limit >> 20
            ),
        })
    }

    /// Prepares what a job may write, and puts it into the confinement: scratch directories, and copies of the directories that its plan
    /// names. The rest of the workspace it sees as it is.
    pub(crate) fn create_job_copy(
        &self,
        run: &RunContext,
        confinement: &mut Confinement,
    ) -> Result<PreparedCopy, PrepareCopyError> {
        let (cwd, workspace) = self.resolve_directories(run).map_err(PrepareCopyError::Failed)?;
        let writable = std::mem::take(&mut confinement.files.writable);
        let may_write = writable.contains(&workspace);
        let outside = writable.into_iter().filter(|path| !path.starts_with(&workspace) && path.is_dir());
        let inside = if may_write { job_scratch::planned_dirs(&run.plan, &workspace) } else { Vec::new() };
        let roots = job_scratch::outermost(outside.chain(inside));
        let mut weaker_reason = self.overlay().err();
        let store = self.store_for_copies(&run.plan, NetworkAccess::Granted)?;
        let mut scratch_dirs =
            if may_write { job_scratch::server_dirs(&workspace, &cwd) } else { Vec::new() };
        for root in roots.iter().chain([&workspace]) {
            let survey = scratch::survey(root, &self.store_settings.scratch)?;
            scratch_dirs.extend(survey.scratch.into_iter().filter(|_| may_write));
            let of_others = |path: PathBuf| format!("`{}` belongs to another user or group", path.display());
            weaker_reason = weaker_reason.or_else(|| survey.other_owner.map(of_others));
        }
        let method = if weaker_reason.is_none() { CopyMethod::Overlay } else { CopyMethod::Tree };
        let mut copy = store.create_copy(run.call.uuid(), &roots, method)?;
        let mut stacks = Vec::new();
        if method == CopyMethod::Overlay {
            let dirs = job_scratch::outermost(scratch_dirs);
            let dirs: Vec<PathBuf> = dirs.into_iter().filter(|dir| !roots.contains(dir)).collect();
            stacks = copy.with_scratch_alone(run.context.session.as_str(), &dirs)?;
        }
        confinement.files.copies = copy.mounts().into_iter().map(mounted).collect();
        confinement.files.writable =
            job_scratch::outermost(confinement.files.copies.iter().map(|copied| copied.root.clone()));
        let outer_entries = self.mark_outer_entries(&copy, confinement)?;
        let is_at_own_path = self.prepare_tree(&mut copy, confinement)?;
        Ok(PreparedCopy { copy, scratch_stacks: stacks, weaker_reason, is_at_own_path, outer_entries })
    }

    /// Checks whether commands in this directory have a temporary directory of their session.
    pub(crate) fn has_session_tmp(&self, cwd: &Path) -> bool {
        let own = [&self.store_dir, &self.workspace].into_iter().chain(&self.home);
        own.map(PathBuf::as_path).chain([cwd]).all(|path| !path.starts_with(SESSION_TMP))
            && !self.required.contains(&Guarantee::TmpLimited)
            && self.overlay().is_ok()
    }

    /// Returns an error if a command cannot run here at all. A start is tried once.
    pub(crate) fn check_can_run(&self, run: &RunContext) -> Result<(), String> {
        let confinement = self.build_confinement(run, NetworkAccess::Granted)?;
        match &self.command_host {
            CommandHost::Container(engine) => {
                let starts = self.starts.get_or_init(|| engine.check_image().map_err(describe_error));
                engine.check_enforcement(&confinement, self.run_as).map_err(describe_error)?;
                starts.clone()
            }
            CommandHost::Native | CommandHost::Unavailable(_) => match self.backend()? {
                Backend::Landlock => self.check_landlock(confinement),
                Backend::Native | Backend::Bwrap => {
                    launch::check_enforcement(&confinement, self.run_as).map_err(describe_error)
                }
            },
        }
    }

    /// Checks whether Landlock alone gives every guarantee to a command on full copies.
    fn check_landlock(&self, mut confinement: Confinement) -> Result<(), String> {
        let on_copy = |root: &PathBuf| confinement::CopiedPath {
            root: root.clone(),
            source: confinement::CopySource::Tree { path: self.store_dir.clone() },
        };
        confinement.files.copies = confinement.files.writable.iter().map(on_copy).collect();
        let checked = backend::check_landlock(&confinement);
        checked.map_err(|error| format!("{error}; {}", self.container.advice()))
    }

    /// Checks whether commands can run on overlays in the store. This is tried once.
    fn overlay(&self) -> Result<(), String> {
        if let Some(why) = self.command_host.full_copy_reason() {
            return Err(why.to_owned());
        }
        if self.has_no_namespaces() {
            return Err("without namespaces nothing can be mounted".to_owned());
        }
        self.overlay.get_or_init(|| probe::probe_overlays(&self.store_dir, self.run_as)).clone()
    }

    /// Returns the cached index of the workspace, which is shared by commands.
    pub(crate) fn index_cache(&self) -> &IndexCache {
        &self.warm
    }

    /// Returns the network bridge for commands. It is created once.
    pub(crate) fn network_bridge(&self) -> Result<&NetworkBridge, String> {
        let made = self.uplink.get_or_init(|| {
            let bridge = NetworkBridge::new().map(NetworkBridge::with_own_interceptor);
            bridge.map_err(|error| tracing::error!(%error, "commands have no network")).ok()
        });
        made.as_ref().ok_or_else(|| "cannot create the network proxy for commands".to_owned())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "reads best as the last step of a chain")]
fn describe_error(error: LaunchError) -> String {
    error.to_string()
}

/// The reason why there is no copy.
#[derive(Debug)]
pub(crate) enum PrepareCopyError {
    /// Another process holds it.
    RunningElsewhere,
    /// Another reason, in words.
    Failed(String),
}

impl From<Error> for PrepareCopyError {
    fn from(fault: Error) -> Self {
        match fault {
            Error::Busy(_) => Self::RunningElsewhere,
            other => Self::Failed(other.to_string()),
        }
    }
}

/// What a person is asked about if a copy is large.
const LARGE_COPY: &str = "the command runs on a full copy of a large workspace";

fn is_large_copy(effect: &Effect) -> bool {
    matches!(effect, Effect::Unknown { reason } if reason.starts_with(LARGE_COPY))
}

/// Checks whether the files of a directory are larger than what is left.
fn tree_is_larger(directory: &Path, left: &mut u64) -> bool {
    std::fs::read_dir(directory).into_iter().flatten().flatten().any(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => tree_is_larger(&entry.path(), left),
        Ok(found) if found.is_file() => match left.checked_sub(found.len()) {
            Some(less) => {
                *left = less;
                false
            }
            None => true,
        },
        _ => false,
    })
}

/// Checks whether the plan deletes this path or a directory above it.
fn is_deleted(plan: &Plan, path: &Path) -> bool {
    plan.effects
        .iter()
        .any(|effect| matches!(effect, Effect::Delete { path: gone } if path.starts_with(gone)))
}

/// Converts a copied directory into the type of the sandbox, which does not know stores.
fn mounted(copied: byleave_copy::CopiedDir) -> confinement::CopiedPath {
    let source = match copied.source {
        MountSource::Overlay { lowers, upper, work } => {
            confinement::CopySource::Overlay { lower_layers: lowers, upper_dir: upper, work_dir: work }
        }
        MountSource::Tree { path: at } => confinement::CopySource::Tree { path: at },
    };
    confinement::CopiedPath { root: copied.root, source }
}
