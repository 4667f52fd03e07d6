//! A gate like that of the `byleave` program: the built-in tools, the sandbox, the policy files and the SQLite audit log.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byleave_core::policy::PathVariables;
use byleave_gate::approver::{Approver, IntoReply};
use byleave_gate::audit_log::sqlite::{SqliteLedger, SqliteOptions};
use byleave_gate::catalog::RegisterError;
use byleave_gate::gate::{BuildError, Gate, GateBuilder};
use byleave_gate::ledger::{Ledger, LedgerError};
use byleave_gate::policy_files::{self, PolicyLoadError};
use byleave_gate::rule_examples::WorkspaceExampleChecker;
use byleave_gate::settings::GateSettings;
use byleave_gate::tool::Tool;
use byleave_tools::{BuiltinToolOptions, ExecutionEnv, OuterRepository, builtin_catalog};

use crate::approver::QuestionView;

/// Adds `Gate::local`. The prelude has it.
pub trait LocalGate {
    /// Returns a builder of a gate for this machine.
    ///
    /// The gate has the built-in tools, runs commands in the sandbox, and reads the same policy files and writes the same audit log as
    /// the `byleave` program. So `byleave log` lists its calls, and `byleave undo` undoes them.
    fn local() -> LocalGateBuilder;
}

impl LocalGate for Gate {
    fn local() -> LocalGateBuilder {
        LocalGateBuilder::default()
    }
}

/// A builder of a gate for this machine.
#[derive(Default)]
pub struct LocalGateBuilder {
    workspace: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    allow_delete: bool,
    settings: GateSettings,
    builder: GateBuilder,
}

/// The reason why a local gate could not be built.
#[derive(Debug, thiserror::Error)]
pub enum LocalGateError {
    /// A directory cannot be used.
    #[error("cannot use the directory `{}`: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// There is no home directory, and no state directory was set.
    #[error("there is no home directory for the audit log; set one with `state_dir`")]
    NoStateDir,
    /// The audit log cannot be opened.
    #[error(transparent)]
    AuditLog(#[from] LedgerError),
    /// A policy file is invalid.
    #[error(transparent)]
    Policy(#[from] PolicyLoadError),
    /// A tool was rejected.
    #[error(transparent)]
    Tool(#[from] RegisterError),
    /// The gate could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl LocalGateBuilder {
    /// Sets the workspace: the directory that commands may change. The default is the current directory.
    #[must_use]
    pub fn workspace(mut self, dir: impl Into<PathBuf>) -> Self {
        self.workspace = Some(dir.into());
        self
    }

    /// Sets the state directory, which has the audit log and the copies for undo. The default is that of the `byleave` program.
    #[must_use]
    pub fn state_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(dir.into());
        self
    }

    /// Adds the tool `delete_file`.
    #[must_use]
    pub fn allow_delete(mut self) -> Self {
        self.allow_delete = true;
        self
    }

    /// Adds a tool of your own.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.builder = self.builder.tool(tool);
        self
    }

    /// Sets the approver. Without one, calls that need an answer are refused.
    #[must_use]
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.builder = self.builder.approver(approver);
        self
    }

    /// Sets a closure as the approver.
    #[must_use]
    pub fn approve_with<F, R>(mut self, approve: F) -> Self
    where
        F: Fn(&QuestionView) -> R + Send + Sync + 'static,
        R: IntoReply,
    {
        self.builder = self.builder.approve_with(approve);
        self
    }

    /// Sets the limits and choices of the gate.
    #[must_use]
    pub fn settings(mut self, settings: GateSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Builds the gate. Creates the state directory if it does not exist.
    pub fn build(self) -> Result<Gate, LocalGateError> {
        let workspace = self.workspace.unwrap_or_else(|| PathBuf::from("."));
        let workspace = workspace.canonicalize().map_err(|source| directory(&workspace, source))?;
        let home = env::var_os("HOME").map(PathBuf::from);
        let state = match self.state_dir {
            Some(dir) => dir,
            None => default_state_dir(home.as_deref()).ok_or(LocalGateError::NoStateDir)?,
        };
        let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::open(&state, &SqliteOptions::default())?);
        // Effects name files with links resolved, so rules must name the directory in the same way.
        let state = state.canonicalize().map_err(|source| directory(&state, source))?;

        let mut env = ExecutionEnv::new(state.join("copies"), workspace.clone());
        env.home.clone_from(&home);
        env.repository = OuterRepository::find(&workspace, home.as_deref());
        env.run_markers_dir = Some(state.join("unfinished"));
        env.private_paths = vec![state.clone()];
        env.environment = env::vars().collect();
        let repository = env.repository.as_ref().map(|found| found.directory.to_string_lossy().into_owned());
        let tools = BuiltinToolOptions {
            allow_delete: self.allow_delete,
            ledger: Some(Arc::clone(&ledger)),
            ..BuiltinToolOptions::default()
        };
        let catalog = builtin_catalog(&env, &tools)?;

        let config = config_dir(home.as_deref());
        let [workspace, state] = [&workspace, &state].map(|path| path.to_string_lossy().into_owned());
        let [home, config] = [home, config].map(|path| path.map(|path| path.to_string_lossy().into_owned()));
        let places = PathVariables {
            workspace: Some(&workspace),
            home: home.as_deref(),
            state: Some(&state),
            config: config.as_deref(),
        };
        let files = policy_files::candidate_files(&places, None);
        let loaded = policy_files::load(&files, &places, &WorkspaceExampleChecker { places: &places })?;

        let policy = loaded.policy.with_repository(repository.as_deref());

        let mut settings = self.settings;
        settings.read_more_tool = Some("read_output".into());
        let builder = self.builder.ledger(ledger).catalog(catalog).policy(policy).settings(settings);
        Ok(builder.build()?)
    }
}

fn directory(path: &Path, source: io::Error) -> LocalGateError {
    LocalGateError::Directory { path: path.to_path_buf(), source }
}

/// Returns the state directory of the `byleave` program.
fn default_state_dir(home: Option<&Path>) -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("BYLEAVE_STATE").or_else(|| {
        let base = set("XDG_STATE_HOME").or_else(|| home.map(|home| home.join(".local/state")));
        base.map(|base| base.join("byleave"))
    })
}

/// Returns the directory of the person's own settings.
fn config_dir(home: Option<&Path>) -> Option<PathBuf> {
    let base = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    base.or_else(|| home.map(|home| home.join(".config"))).map(|base| base.join("byleave"))
}
