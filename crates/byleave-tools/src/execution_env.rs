//! The workplace: where commands run, what they find there, and where copies of it are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use byleave::core::call::Mode;
use byleave::core::policy::Policy;
use byleave::tool::RunContext;
use byleave_copy::{CopyMethod, CopySettings, CopyStore, Error, MountSource, WorkspaceCopy, scratch};
use byleave_sandbox::confinement::{self, Confinement};
use byleave_sandbox::from_plan::{self, RunEnvironment};
use byleave_sandbox::guarantee::Guarantee;
use byleave_sandbox::launch::{self, IndexCache, NetworkBridge, RunAs};
use byleave_sandbox::probe;

/// What a rehearsal must have to stand for itself: without one of these it could do what nobody sees, or see what nobody showed it.
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

/// What programs do of their own accord and nobody has asked for, turned off by their own settings: `git status` would write the
/// index anew, and npm look for its own next version, each time, because it finds its home empty. Everything else would have to be
/// told from that.
const UNPROMPTED: [(&str, &str); 2] = [("GIT_OPTIONAL_LOCKS", "0"), ("npm_config_update_notifier", "false")];

/// Where commands run.
#[derive(Clone, Debug)]
pub struct ExecutionEnv {
    /// Where copies are kept, and what was there before their commits; made when it is first needed.
    pub kept_in: PathBuf,
    /// How long and how much is kept there, and what counts as scratch.
    pub keeping: CopySettings,
    /// The directory that commands work in, with everything beneath it; absolute and resolved.
    pub workspace: PathBuf,
    /// The person's home directory, which is empty for commands.
    pub home: Option<PathBuf>,
    /// What is ours: the state directory, sockets of the gate. Not there for commands. The store is always among it.
    pub ours: Vec<PathBuf>,
    /// Where runs that have not ended are noted, in what is ours.
    pub unfinished: Option<PathBuf>,
    /// The environment, of which the usual names are passed on.
    pub environment: BTreeMap<String, String>,
    /// Guarantees that the operator does without, by name.
    pub waived: BTreeSet<Guarantee>,
    /// Guarantees that must be given in full, although commands usually run without.
    pub required: BTreeSet<Guarantee>,
    /// Who runs commands.
    pub run_as: RunAs,
    /// How long a file may be that is read or written as a whole (E3).
    pub file_bytes_max: u64,
    warm: Arc<IndexCache>,
    uplink: Arc<OnceLock<Option<NetworkBridge>>>,
    overlay: Arc<OnceLock<Result<(), String>>>,
    native: Arc<OnceLock<Result<(), String>>>,
}

/// Whether a command may reach and find what was granted, or is looked at before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkAccess {
    /// What was granted, by name; of scratch, what was granted before.
    Granted,
    /// Nothing; what was wanted is written down. Of scratch, what rehearsals left as well.
    Closed,
}

/// A copy of what a command may write, and what must be held while it runs.
pub(crate) struct PreparedCopy {
    pub(crate) copy: WorkspaceCopy,
    /// The scratch layers under it: not to be removed by others meanwhile.
    pub(crate) stacks: Vec<scratch::LayerStack>,
    /// It is no overlay, in words.
    pub(crate) lesser: Option<String>,
}

impl ExecutionEnv {
    /// A workplace in a directory, with copies kept in another; nothing waived, commands run by whoever we are.
    pub fn new(kept_in: PathBuf, workspace: PathBuf) -> Self {
        Self {
            kept_in,
            keeping: CopySettings::default(),
            workspace,
            home: None,
            ours: Vec::new(),
            unfinished: None,
            environment: BTreeMap::new(),
            waived: BTreeSet::new(),
            required: BTreeSet::new(),
            run_as: RunAs::Caller,
            file_bytes_max: 10_485_760,
            warm: Arc::default(),
            uplink: Arc::default(),
            overlay: Arc::default(),
            native: Arc::default(),
        }
    }

    /// The same with whole copies, also where overlays could be had: slower, and never enough to spare a question.
    #[must_use]
    pub fn with_whole_copies(self) -> Self {
        let overlay = Arc::new(OnceLock::from(Err("whole copies were asked for".to_owned())));
        Self { overlay, ..self }
    }

    /// The store of copies.
    pub fn store(&self) -> Result<CopyStore, Error> {
        CopyStore::open(&self.kept_in, self.keeping.clone())
    }

    /// The directory that a call works in, and the workspace that it lies in, both resolved.
    pub(crate) fn places(&self, run: &RunContext) -> Result<(PathBuf, PathBuf), String> {
        let cwd = run.site.cwd.canonicalize().map_err(|error| {
            format!("the directory `{}` cannot be worked in: {error}", run.site.cwd.display())
        })?;
        let workspace = self.workspace_of(&cwd);
        Ok((cwd, workspace))
    }

    /// The workspace that a directory lies in; of one that lies elsewhere, the directory itself.
    pub(crate) fn workspace_of(&self, directory: &Path) -> PathBuf {
        let within = directory.starts_with(&self.workspace);
        if within { self.workspace.clone() } else { directory.to_path_buf() }
    }

    /// What is ours, the store among it.
    pub(crate) fn all_ours(&self) -> Vec<PathBuf> {
        self.ours.iter().cloned().chain([self.kept_in.clone()]).collect()
    }

    /// What a run may do, by what was granted and by the rules in force.
    pub(crate) fn confinement(&self, run: &RunContext, way: NetworkAccess) -> Result<Confinement, String> {
        let rules: &Arc<Policy> = run.rules.as_ref().ok_or("nobody said which rules are in force")?;
        let (cwd, workspace) = self.places(run)?;
        let place = RunEnvironment {
            workspace,
            cwd,
            home: self.home.clone(),
            ours: self.all_ours(),
            unfinished: self.unfinished.clone(),
            environment: self.environment.clone(),
            read_only: run.mode == Mode::ReadOnly,
            rehearsing: way == NetworkAccess::Closed,
        };
        let mut confinement =
            from_plan::confinement(&run.plan, rules, &place).map_err(|fault| fault.to_string())?;
        confinement.waived.extend(self.waived.iter().copied());
        confinement.required.extend(self.required.iter().copied());
        for name in &run.guarantees {
            let required = Guarantee::named(name);
            let unknown = || format!("a rule requires the guarantee `{name}`, which is not known here");
            confinement.required.insert(required.ok_or_else(unknown)?);
        }
        for (name, value) in UNPROMPTED {
            confinement.environment.insert(name.into(), value.into());
        }
        Ok(confinement)
    }

    /// What of this workplace is weaker than a rehearsal must be to stand for itself.
    pub(crate) fn weaker(&self) -> Vec<String> {
        let missing = NEEDED.iter().filter(|guarantee| self.waived.contains(guarantee));
        missing.map(|guarantee| format!("without the guarantee `{}`", guarantee.name())).collect()
    }

    /// A copy of everything that the confinement lets a command write, put in its place.
    pub(crate) fn copied(
        &self,
        run: &RunContext,
        confinement: &mut Confinement,
        way: NetworkAccess,
    ) -> Result<PreparedCopy, PrepareCopyError> {
        let roots = confinement.files.writable.clone();
        let (overlays, lesser) = match self.overlay() {
            Ok(()) => (true, None),
            Err(why) => (false, Some(why)),
        };
        let method = if overlays { CopyMethod::Overlay } else { CopyMethod::Tree };
        let store = self.store()?;
        let mut copy = store.copy(run.call.uuid(), &roots, method)?;
        let mut stacks = Vec::new();
        if overlays {
            let session = run.site.session.as_str();
            let mut paths = store.scratch(session).paths()?;
            for root in &roots {
                paths.extend(scratch::find(root, &self.keeping.scratch)?);
            }
            paths.sort();
            paths.dedup();
            // What nobody was shown must not be what something with more rights runs: see the scratch of copies.
            stacks = match way {
                NetworkAccess::Granted => copy.with_scratch(session, &paths)?,
                NetworkAccess::Closed => copy.with_rehearsed_scratch(session, &paths)?,
            };
        }
        confinement.files.copied = copy.copied().into_iter().map(mounted).collect();
        Ok(PreparedCopy { copy, stacks, lesser })
    }

    /// Why a command cannot run here at all. A start is tried once.
    pub(crate) fn can_run(&self, run: &RunContext) -> Result<(), String> {
        let confinement = self.confinement(run, NetworkAccess::Granted)?;
        launch::suffices(&confinement, self.run_as).map_err(|error| error.to_string())?;
        self.native.get_or_init(|| probe::native(self.run_as).map_err(|error| error.to_string())).clone()
    }

    /// Whether overlays can be had where copies are kept. Tried once.
    fn overlay(&self) -> Result<(), String> {
        self.overlay.get_or_init(|| probe::probe_overlays(&self.kept_in, self.run_as)).clone()
    }

    /// What is known of the workspace from command to command.
    pub(crate) fn warm(&self) -> &IndexCache {
        &self.warm
    }

    /// The way out for commands whose network is served; made once.
    pub(crate) fn uplink(&self) -> Result<&NetworkBridge, String> {
        let made = self.uplink.get_or_init(|| {
            NetworkBridge::new().map_err(|error| tracing::error!(%error, "commands have no network")).ok()
        });
        made.as_ref().ok_or_else(|| "the way out for commands could not be made".to_owned())
    }
}

/// Why there is no copy.
#[derive(Debug)]
pub(crate) enum PrepareCopyError {
    /// Another process has it.
    Elsewhere,
    /// In words.
    Not(String),
}

impl From<Error> for PrepareCopyError {
    fn from(fault: Error) -> Self {
        match fault {
            Error::Busy(_) => Self::Elsewhere,
            other => Self::Not(other.to_string()),
        }
    }
}

/// The same for the sandbox, which does not know of stores.
fn mounted(copied: byleave_copy::CopiedDir) -> confinement::CopiedPath {
    let source = match copied.source {
        MountSource::Overlay { lowers, upper, work } => {
            confinement::CopySource::Overlay { lowers, upper, work }
        }
        MountSource::Tree { at } => confinement::CopySource::Tree { at },
    };
    confinement::CopiedPath { root: copied.root, source }
}
