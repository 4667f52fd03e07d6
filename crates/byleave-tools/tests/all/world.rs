//! A machine for tests: a home, a workspace in it, a gate with the built-in rules and tools, and an approver that stores
//! questions.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use byleave_gate::approver::{Reply, callback};
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_gate::core::policy::{
    Layer, PathVariables, Policy, Rule, RuleFile, SkipExamples, builtin_rules, load_rules,
};
use byleave_gate::core::question_view::{QuestionView, RehearsalView};
use byleave_gate::core::rehearsal::Rehearsal;
use byleave_gate::gate::Gate;
use byleave_gate::ledger::memory::MemoryLedger;
use byleave_gate::result::CallResult;
use byleave_gate::settings::GateSettings;
use byleave_gate::tool::{RunContext, ToolContext};
use byleave_sandbox::guarantee::Guarantee;
use byleave_tools::{Bash, BuiltinToolOptions, ExecutionEnv, JobLimits, Jobs, builtin_catalog};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The whole fixture of a test. Removed when it is dropped.
pub(crate) struct ToolTestWorld {
    folder: tempfile::TempDir,
    /// The workspace, relative to the folder.
    workspace: &'static str,
    pub(crate) gate: Gate,
    pub(crate) bash: Bash,
    pub(crate) jobs: Jobs,
    rules: Vec<Rule>,
    /// The same, compiled when a test first needs it, because that costs as much as everything else here.
    compiled: OnceLock<Arc<Policy>>,
    asked: Arc<Mutex<Vec<QuestionView>>>,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    meanwhile: Arc<Mutex<Option<WhileAsking>>>,
}

/// Something that happens while the person decides.
type WhileAsking = Box<dyn FnOnce() + Send>;

/// The result of a call, and the questions.
pub(crate) struct CallObservation {
    pub(crate) call: CallId,
    pub(crate) result: CallResult,
    pub(crate) asked: Vec<QuestionView>,
}

impl CallObservation {
    /// The rehearsal in the first question.
    #[track_caller]
    pub(crate) fn seen(&self) -> &Rehearsal {
        match self.asked.first().and_then(|sheet| sheet.rehearsal.as_ref()) {
            Some(RehearsalView::Ran { rehearsal, .. }) => rehearsal,
            other => panic!("no rehearsal was shown: {other:?}, {:?}", self.result),
        }
    }

    pub(crate) fn text(&self) -> String {
        format!("{}{}", self.result.to_text(), self.result.error().unwrap_or_default())
    }
}

impl ToolTestWorld {
    pub(crate) fn new() -> Self {
        Self::with("", GateSettings::default())
    }

    /// With these user rules in addition to the built-in ones.
    pub(crate) fn with(rules: &str, settings: GateSettings) -> Self {
        Self::made(rules, settings, |workplace| workplace)
    }

    /// With an execution environment that is changed first.
    pub(crate) fn made(
        rules: &str,
        settings: GateSettings,
        change: impl FnOnce(ExecutionEnv) -> ExecutionEnv,
    ) -> Self {
        Self::made_in("home/w", rules, settings, |_| {}, change)
    }

    /// In another workspace, with directories that are prepared first.
    pub(crate) fn made_in(
        place: &'static str,
        rules: &str,
        settings: GateSettings,
        prepare: impl FnOnce(&Path),
        change: impl FnOnce(ExecutionEnv) -> ExecutionEnv,
    ) -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = folder.path().canonicalize().unwrap();
        for directory in ["home/w/src", "home/w/target", "state/copies", "outside"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        prepare(&root);
        let [workspace, home, state] = [place, "home", "state"].map(|name| root.join(name));
        let texts = [&workspace, &home, &state].map(|path| path.to_str().unwrap().to_owned());
        let places = PathVariables {
            workspace: Some(&texts[0]),
            home: Some(&texts[1]),
            state: Some(&texts[2]),
            ..PathVariables::default()
        };
        let mut all = builtin_rules(&places).unwrap();
        let file = RuleFile { name: "policy.toml", layer: Layer::User, text: rules };
        all.extend(load_rules(&file, &places, &SkipExamples).unwrap().rules);
        let mut workplace = ExecutionEnv::new(state.join("copies"), workspace);
        workplace.home = Some(home);
        workplace.private_paths = vec![state];
        workplace.environment = std::env::vars().filter(|(name, _)| name == "PATH").collect();
        // Tests have no delegated cgroups.
        workplace.waived = BTreeSet::from([Guarantee::MemoryLimited]);
        let workplace = change(workplace);
        let repository = workplace.repository.as_ref().and_then(|found| found.directory.to_str());
        let (asked, replies) =
            (Arc::<Mutex<Vec<QuestionView>>>::default(), Arc::<Mutex<VecDeque<Reply>>>::default());
        let (shown, given) = (Arc::clone(&asked), Arc::clone(&replies));
        let meanwhile = Arc::<Mutex<Option<WhileAsking>>>::default();
        let happens = Arc::clone(&meanwhile);
        let person = callback("ada", move |sheet| {
            if let Some(happens) = happens.lock().unwrap().take() {
                happens();
            }
            shown.lock().unwrap().push(sheet.clone());
            given.lock().unwrap().pop_front().unwrap_or(Reply::No { feedback: None })
        });
        let jobs = Jobs::new(JobLimits { max_concurrent: 3, ..JobLimits::default() });
        let bash = Bash::new(workplace.clone()).with_jobs(jobs.clone());
        let ledger = Arc::new(MemoryLedger::new());
        let offer = BuiltinToolOptions {
            allow_delete: true,
            ledger: Some(Arc::clone(&ledger) as Arc<_>),
            jobs: Some(jobs.clone()),
        };
        let settings = GateSettings { read_more_tool: Some("read_output".into()), ..settings };
        let gate = Gate::builder()
            .ledger(ledger)
            .policy(
                Policy::new(all.clone())
                    .unwrap()
                    .with_workspace(places.workspace)
                    .with_repository(repository),
            )
            .settings(settings)
            .catalog(builtin_catalog(&workplace, &offer).unwrap())
            .approver(Arc::new(person))
            .build()
            .unwrap();
        let compiled = OnceLock::new();
        Self { folder, workspace: place, gate, bash, jobs, rules: all, compiled, asked, replies, meanwhile }
    }

    /// The approver gives these answers from now on, in order, and then says no.
    pub(crate) fn answers(&self, replies: &[Reply]) {
        *self.replies.lock().unwrap() = replies.iter().cloned().collect();
    }

    /// Runs this during the next decision of the person.
    pub(crate) fn meanwhile(&self, happens: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some(Box::new(happens));
    }

    /// A path next to the home, even if the home was replaced.
    pub(crate) fn beside(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    /// A path in the workspace.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(self.workspace).join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_else(|error| format!("<{}>", error.kind()))
    }

    /// A call of `bash`. The approver gives these answers in order, and then says no.
    pub(crate) async fn bash(&self, command: &str, replies: &[Reply]) -> CallObservation {
        self.call("bash", json!({ "command": command }), replies, Mode::ConfirmSensitive).await
    }

    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Value,
        replies: &[Reply],
        mode: Mode,
    ) -> CallObservation {
        self.call_in("s", tool, arguments, replies, mode).await
    }

    /// A call in another session.
    pub(crate) async fn call_in(
        &self,
        session: &str,
        tool: &str,
        arguments: Value,
        replies: &[Reply],
        mode: Mode,
    ) -> CallObservation {
        *self.replies.lock().unwrap() = replies.iter().cloned().collect();
        self.asked.lock().unwrap().clear();
        let id = CallId::new(uuid::Uuid::new_v4());
        let call = Call {
            id,
            tenant: TenantId::new("local").unwrap(),
            session: SessionId::new(session).unwrap(),
            agent: AgentId::new("agent").unwrap(),
            tool: tool.into(),
            arguments,
            reason: None,
            cwd: self.at("").to_str().unwrap().trim_end_matches('/').to_owned(),
            mode,
            dry_run: false,
        };
        let result = self.gate.settle(call).await;
        CallObservation { call: id, result, asked: self.asked.lock().unwrap().clone() }
    }
}

impl ToolTestWorld {
    /// The context that a gate passes to the tool of a granted call, for direct use of the tool.
    pub(crate) fn granted(&self) -> RunContext {
        let site = ToolContext {
            tenant: TenantId::new("local").unwrap(),
            session: SessionId::new("s").unwrap(),
            agent: AgentId::new("agent").unwrap(),
            cwd: self.at("").canonicalize().unwrap(),
        };
        let effects = vec![Effect::Run { program: "bash".into(), argv: vec!["bash".into()] }];
        let plan = Arc::new(Plan { effects, ..Plan::default() });
        let call = CallId::new(uuid::Uuid::new_v4());
        let rules = self.compiled.get_or_init(|| Arc::new(Policy::new(self.rules.clone()).unwrap()));
        RunContext::new(call, site, plan, CancellationToken::new(), Arc::new(|_| {}))
            .with_policy(Arc::clone(rules), Mode::ConfirmSensitive)
    }
}

pub(crate) fn yes() -> Reply {
    Reply::Yes { note: None }
}

/// Everything beneath a directory: type, mode, and content or link target.
pub(crate) fn tree(root: &Path) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut all = Vec::new();
    let mut left = vec![root.to_path_buf()];
    while let Some(path) = left.pop() {
        let found = fs::symlink_metadata(&path).unwrap();
        let mode = found.permissions().mode();
        let content = match () {
            () if found.is_symlink() => fs::read_link(&path).unwrap().display().to_string(),
            () if found.is_file() => format!("{:?}", fs::read(&path).unwrap()),
            () if found.is_dir() => {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                String::new()
            }
            () => String::new(),
        };
        all.push(format!("{} {mode:o} {content}", path.display()));
    }
    all.sort();
    all
}
