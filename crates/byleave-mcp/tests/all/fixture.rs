//! A gate with one server behind it: the `hostile` fixture in one of its modes, as a process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use byleave_gate::approver::{Reply, callback};
use byleave_gate::catalog::Catalog;
use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::id::{AgentId, CallId, SessionId};
use byleave_gate::core::pattern::Pattern;
use byleave_gate::core::policy::{Layer, Policy, Rule};
use byleave_gate::gate::Gate;
use byleave_gate::result::CallResult;
use byleave_mcp::active_callers::ActiveCallers;
use byleave_mcp::upstream::login_store::LoginStore;
use byleave_mcp::upstream::pins::PinFile;
use byleave_mcp::upstream::server_definition::{Launch, ServerDefinition, ServerName};
use byleave_mcp::upstream::{AcceptanceContext, ServerEnvironment, ServerStatus, Upstream};
use serde_json::Value;

/// The longest time that any server may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct UpstreamFixture {
    pub(crate) gate: Gate,
    pub(crate) upstream: Upstream,
    pub(crate) server: ServerName,
    /// How many times a person was asked.
    pub(crate) asked: Arc<AtomicUsize>,
    pub(crate) folder: tempfile::TempDir,
}

/// The fixture, which cargo builds with the tests.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(built.exists(), "`cargo build -p byleave-mcp --examples` makes {}", built.display());
    built
}

/// The definition that starts the fixture in a mode.
pub(crate) fn hostile(mode: &str, argument: &str) -> ServerDefinition {
    let args = [mode, argument].into_iter().filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let command = example("hostile").to_str().unwrap().to_owned();
    let launch = Launch::Child { command, args, env: BTreeMap::new(), cwd: None };
    ServerDefinition::new(ServerName::new("h").unwrap(), launch)
}

impl UpstreamFixture {
    /// Nothing is accepted yet. The approver says yes to everything.
    pub(crate) fn new(definition: ServerDefinition) -> Self {
        Self::beside(definition, tempfile::tempdir().unwrap())
    }

    /// The same with an existing state directory.
    pub(crate) fn beside(definition: ServerDefinition, folder: tempfile::TempDir) -> Self {
        let state = folder.path().to_owned();
        Self::with(definition, folder, &state)
    }

    /// The same with the state directory of another fixture.
    pub(crate) fn sharing(definition: ServerDefinition, state: &Path) -> Self {
        Self::with(definition, tempfile::tempdir().unwrap(), state)
    }

    fn with(definition: ServerDefinition, folder: tempfile::TempDir, state: &Path) -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let yes = move |_: &_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Reply::Yes { note: None }
        };
        let approver = Arc::new(callback("a person", yes));
        let workspace = folder.path().canonicalize().unwrap();
        let rules = || {
            let all = vec![Pattern::Invoke("mcp:h/**".into())];
            Policy::new(vec![Rule::new("all", Layer::User, Verdict::Allow, all)]).unwrap()
        };
        let gate = Gate::builder()
            .policy(rules())
            .catalog(Catalog::new())
            .approver(Arc::clone(&approver) as Arc<_>)
            .checkpoint(approver)
            .build()
            .unwrap();
        let ground = ServerEnvironment {
            unfinished_runs: None,
            homes: workspace.join("homes"),
            workspace,
            home: None,
            hidden_paths: Vec::new(),
            environment: std::env::vars().collect(),
            policy: Arc::new(rules()),
            waived: Default::default(),
            logins: LoginStore::in_state_dir(state),
            bare: true,
        };
        let server = definition.name.clone();
        let pins = PinFile::in_state_dir(state);
        let catalog = gate.catalog().clone();
        let upstream =
            Upstream::new(vec![definition], &ground, pins, &ActiveCallers::default(), catalog).unwrap();
        Self { gate, upstream, server, asked, folder }
    }

    /// A server that is accepted as it is.
    pub(crate) async fn accepted(definition: ServerDefinition) -> Self {
        let stage = Self::new(definition);
        let accepted =
            tokio::time::timeout(PATIENCE, stage.upstream.accept_without_asking(&stage.server)).await;
        accepted.unwrap().unwrap();
        stage
    }

    pub(crate) fn asking(&self) -> AcceptanceContext {
        AcceptanceContext {
            tenant: "local".parse().unwrap(),
            cwd: self.folder.path().to_str().unwrap().into(),
            at_terminal: false,
        }
    }

    pub(crate) async fn look(&self) -> ServerStatus {
        tokio::time::timeout(PATIENCE, self.upstream.refresh(&self.server)).await.unwrap()
    }

    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Call {
        Call {
            id: CallId::new(fresh_id()),
            tenant: "local".parse().unwrap(),
            session: SessionId::new("s").unwrap(),
            agent: AgentId::new("a").unwrap(),
            tool: tool.into(),
            arguments,
            reason: None,
            cwd: self.folder.path().to_str().unwrap().into(),
            mode: Mode::ConfirmSensitive,
            dry_run: false,
        }
    }

    pub(crate) async fn settle(&self, tool: &str, arguments: Value) -> CallResult {
        tokio::time::timeout(PATIENCE, self.gate.settle(self.call(tool, arguments))).await.unwrap()
    }

    pub(crate) fn offered(&self) -> Vec<String> {
        let entries = self.gate.catalog().list();
        entries
            .iter()
            .map(|entry| entry.name().to_owned())
            .filter(|name| name.starts_with("mcp_h_"))
            .collect()
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Tests whether a path exists, without following a link.
pub(crate) fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
