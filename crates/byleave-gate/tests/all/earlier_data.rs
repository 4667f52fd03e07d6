//! The data of a result reaches the later tools that ask for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use byleave_gate::approver::Reply;
use byleave_gate::audit_log::sqlite::{SqliteLedger, SqliteOptions};
use byleave_gate::builtin_reviewers::drop_fields;
use byleave_gate::catalog::{Catalog, ManifestError, RegisterError};
use byleave_gate::core::admin_action::{AdminAction, AdminActionKind};
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::effect::{EarlierDataRef, Plan};
use byleave_gate::core::id::{AdminActionId, AgentId, CallId, SessionId, TenantId};
use byleave_gate::core::manifest::PermissionClass;
use byleave_gate::core::outcome::{Outcome, Output};
use byleave_gate::core::question::{ApproverIdentity, Assurance, Question};
use byleave_gate::core::render::render;
use byleave_gate::gate::{Gate, GateBuilder, SubmittedAnswer};
use byleave_gate::ledger::Ledger;
use byleave_gate::ledger::memory::MemoryLedger;
use byleave_gate::result::{CallOutcome, CallResult, CallStatus};
use byleave_gate::review::{Opinion, OutputSubject, output_reviewer};
use byleave_gate::settings::GateSettings;
use byleave_gate::tool::{EarlierData, RunContext, Tool};
use byleave_gate::typed_tool::{Json, TypedTool};
use serde_json::{Value, json};

use crate::support::ManifestOnlyTool;

/// A value that must be stored only with the result that it belongs to.
const MARKER: &str = "only-in-the-first-record";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Look {
    /// A negative number fails.
    n: i64,
    /// The number of bytes of padding.
    #[serde(default)]
    padding: usize,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Apply {
    #[serde(default)]
    note: String,
}

/// The data that each run of a tool was given.
type Given = Arc<Mutex<Vec<BTreeMap<String, EarlierData>>>>;

/// Creates a tool that keeps the data that it is given.
fn keeper(name: &str, given: &Given) -> TypedTool<Apply> {
    let given = Arc::clone(given);
    TypedTool::new(name, "Keeps its data", move |apply: Apply, run: RunContext| {
        given.lock().unwrap().push((*run.data).clone());
        async move { apply.note }
    })
}

/// A gate with `look`, which returns data, `apply`, which wants it, and `other`, which does not.
struct DataFixture {
    gate: Gate,
    ledger: Arc<dyn Ledger>,
    given: Given,
    _dir: Option<tempfile::TempDir>,
}

impl DataFixture {
    fn new(ledger: Arc<dyn Ledger>, more: impl FnOnce(GateBuilder) -> GateBuilder) -> Self {
        let given = Given::default();
        let look = TypedTool::new("look", "Looks something up", |look: Look, _run| async move {
            if look.n < 0 {
                return Err("there is nothing");
            }
            let padding = "x".repeat(look.padding);
            Ok(Json(json!({"n": look.n, "password": "p", "marker": MARKER, "padding": padding})))
        });
        let look = look.permission_class(PermissionClass::Readonly).not_sensitive();
        let settings = GateSettings { inbox: true, ..GateSettings::default() };
        // The builder registers all at once, so `apply` may come before the tool that it names.
        let builder = Gate::builder()
            .tool(keeper("apply", &given).wants_data(["look"]))
            .tool(keeper("other", &given))
            .tool(look)
            .ledger(Arc::clone(&ledger))
            .settings(settings);
        Self { gate: more(builder).build().unwrap(), ledger, given, _dir: None }
    }

    /// The fixture on each ledger.
    fn each(more: impl Fn(GateBuilder) -> GateBuilder) -> [Self; 2] {
        let dir = tempfile::tempdir().unwrap();
        let options = SqliteOptions { seal_every: None, ..SqliteOptions::default() };
        let sqlite = SqliteLedger::open(dir.path(), &options).unwrap();
        let stored = Self { _dir: Some(dir), ..Self::new(Arc::new(sqlite), &more) };
        [Self::new(Arc::new(MemoryLedger::new()), &more), stored]
    }

    async fn settle(&self, call: Call) -> CallResult {
        self.gate.settle(call).await
    }

    /// Makes a call of `look` that completes.
    async fn look(&self, n: i64) -> CallId {
        let result = self.settle(call("look", json!({"n": n}))).await;
        assert!(matches!(result.outcome, CallOutcome::Completed(_)), "{result:?}");
        result.call
    }

    /// Makes a call that completes, and returns the data that the tool was given.
    async fn given_to(&self, call: Call) -> BTreeMap<String, EarlierData> {
        let before = self.given.lock().unwrap().len();
        let result = self.settle(call).await;
        assert!(matches!(result.outcome, CallOutcome::Completed(_)), "{result:?}");
        let given = self.given.lock().unwrap();
        assert_eq!(given.len(), before + 1);
        given.last().unwrap().clone()
    }

    /// Makes a call of `apply` that waits for a person.
    async fn ask(&self) -> (CallId, Question) {
        let call = Call { mode: Mode::ConfirmSensitive, ..call("apply", json!({})) };
        match self.gate.advance(call).await {
            CallStatus::Waiting { call, question } => (call, question),
            other => panic!("{other:?}"),
        }
    }

    /// Answers a question, and drives its call to the end.
    async fn answer(&self, (call, question): (CallId, Question), reply: Reply) -> CallResult {
        let approver = ApproverIdentity { name: "ada".into(), assurance: Assurance::Terminal };
        let answer = SubmittedAnswer { question: question.id, digest: question.digest(), reply, approver };
        self.gate.answer(answer).await.unwrap();
        match self.gate.resume(call).await {
            CallStatus::Settled(result) => result,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the references of the plan of a call: those on its record, and those in the stored plan.
    async fn planned(&self, call: CallId) -> [Vec<EarlierDataRef>; 2] {
        let loaded = self.ledger.load(call).await.unwrap().unwrap();
        let summary = loaded.record.draft().unwrap().plan().unwrap().clone().unwrap();
        let bytes = self.ledger.content(call, summary.plan).await.unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(MARKER), "the plan has the data itself");
        let record = serde_json::to_string(loaded.record.entries()).unwrap();
        assert!(!record.contains(MARKER), "the record has the data itself");
        [summary.data, serde_json::from_slice::<Plan>(&bytes).unwrap().data]
    }
}

fn call(tool: &str, arguments: Value) -> Call {
    Call {
        id: CallId::new(byleave_gate::clock::fresh_id()),
        tenant: TenantId::new("local").unwrap(),
        session: SessionId::new("s").unwrap(),
        agent: AgentId::new("a").unwrap(),
        tool: tool.into(),
        arguments,
        reason: None,
        cwd: "/".into(),
        mode: Mode::Yolo,
        dry_run: false,
    }
}

/// Returns the number in the data of `look`, and the call that it comes from.
fn number(given: &BTreeMap<String, EarlierData>) -> (i64, CallId) {
    assert_eq!(given.keys().collect::<Vec<_>>(), ["look"]);
    (given["look"].data["n"].as_i64().unwrap(), given["look"].call)
}

// req: T4
#[tokio::test]
async fn data_reaches_the_later_tool_that_wants_it_and_no_other() {
    for fixture in DataFixture::each(|builder| builder) {
        assert!(fixture.given_to(call("apply", json!({}))).await.is_empty(), "nothing was returned yet");
        fixture.look(1).await;
        let newest = fixture.look(2).await;
        assert_eq!(number(&fixture.given_to(call("apply", json!({}))).await), (2, newest));
        assert!(fixture.given_to(call("other", json!({}))).await.is_empty(), "it did not ask");

        // Another session and another tenant have no such result, even if their names are equal otherwise.
        let mut elsewhere = call("apply", json!({}));
        elsewhere.session = SessionId::new("s2").unwrap();
        assert!(fixture.given_to(elsewhere).await.is_empty());
        let mut elsewhere = call("apply", json!({}));
        elsewhere.tenant = TenantId::new("other").unwrap();
        assert!(fixture.given_to(elsewhere).await.is_empty());
    }
}

// req: T4
#[tokio::test]
async fn only_a_completed_result_gives_data_and_only_as_it_was_released() {
    let reviewed = |builder: GateBuilder| {
        builder.review_output("look", drop_fields(["password"])).review_output(
            "look",
            output_reviewer("unlucky", |subject: OutputSubject<'_>| -> Opinion<Output> {
                match subject.arguments["n"].as_i64() {
                    Some(13) => Opinion::Deny { reason: None },
                    Some(14) => Opinion::Hold { reason: None },
                    _ => Opinion::Pass,
                }
            }),
        )
    };
    for fixture in DataFixture::each(reviewed) {
        let released = fixture.look(1).await;
        let failed = fixture.settle(call("look", json!({"n": -1}))).await;
        assert!(matches!(failed.outcome, CallOutcome::Failed(_)), "{failed:?}");
        let withheld = fixture.settle(call("look", json!({"n": 13}))).await;
        assert!(matches!(withheld.outcome, CallOutcome::Withheld(_)), "{withheld:?}");
        let held = fixture.gate.advance(call("look", json!({"n": 14}))).await;
        assert!(matches!(held, CallStatus::Waiting { .. }), "{held:?}");
        let refused = fixture.settle(call("look", json!({"n": "none"}))).await;
        assert!(matches!(refused.outcome, CallOutcome::Refused(_)), "{refused:?}");

        let given = fixture.given_to(call("apply", json!({}))).await;
        assert_eq!(number(&given), (1, released));
        assert_eq!(given["look"].data.get("password"), None, "a reviewer removed it");
        assert_eq!(given["look"].data["marker"], MARKER);
    }
}

// req: T4, R5
#[tokio::test]
async fn an_approval_binds_the_data_and_a_newer_result_does_not_change_it() {
    for fixture in DataFixture::each(|builder| builder) {
        let first = fixture.look(1).await;
        let asked = fixture.ask().await;
        let view = fixture.gate.question_view(asked.1.id).await.unwrap();
        let line = format!("the tool is given the data that call {first} of “look” returned");
        let shown: Vec<String> = render(&view).lines.iter().map(|line| line.text.clone()).collect();
        assert_eq!(shown.iter().filter(|shown| shown.contains(&line)).count(), 1, "{shown:#?}");

        // The record refers to the released output by call and digest. The plan, which the approval binds, does as well.
        let source = fixture.ledger.load(first).await.unwrap().unwrap().record;
        let Some(Outcome::Completed { output }) = source.outcome() else { panic!("{source:?}") };
        let reference = EarlierDataRef { tool: "look".into(), call: first, output: *output };
        assert_eq!(fixture.planned(asked.0).await, [vec![reference.clone()], vec![reference]]);

        fixture.look(2).await;
        let result = fixture.answer(asked, Reply::Yes { note: None }).await;
        assert!(matches!(result.outcome, CallOutcome::Completed(_)), "{result:?}");
        assert_eq!(number(fixture.given.lock().unwrap().last().unwrap()), (1, first));

        // An edit keeps the data that the person saw, and needs no second question.
        let second = fixture.ask().await;
        let planned = fixture.planned(second.0).await;
        fixture.look(3).await;
        let reply = Reply::Edit { value: json!({"note": "edited"}), note: None };
        let edited = fixture.answer(second.clone(), reply).await;
        assert!(matches!(edited.outcome, CallOutcome::Completed(_)), "{edited:?}");
        assert_eq!(number(fixture.given.lock().unwrap().last().unwrap()).0, 2);
        assert_eq!(fixture.planned(second.0).await, planned);
    }
}

// req: T4
#[tokio::test]
async fn a_call_does_not_run_without_the_data_that_was_approved() {
    let fixture = DataFixture::new(Arc::new(MemoryLedger::new()), |builder| builder);
    let first = fixture.look(1).await;
    let asked = fixture.ask().await;
    fixture.look(2).await;
    let forget = AdminAction {
        id: AdminActionId::new(byleave_gate::clock::fresh_id()),
        at: 1,
        tenant: TenantId::new("local").unwrap(),
        actor: "ada".into(),
        kind: AdminActionKind::Forget { call: first },
    };
    fixture.ledger.record_admin_action(forget).await.unwrap();
    let refused = fixture.answer(asked, Reply::Yes { note: None }).await;
    let refusal = refused.outcome.refusal().unwrap();
    assert_eq!(refusal.code.as_str(), "forgotten", "{refusal}");
    assert!(refusal.message.contains(&format!("the data of call {first} of `look`")), "{refusal}");
    assert!(fixture.given.lock().unwrap().is_empty());
}

// req: T4
#[tokio::test]
async fn too_much_data_refuses_the_call() {
    for fixture in DataFixture::each(|builder| builder) {
        let large = fixture.settle(call("look", json!({"n": 1, "padding": 1_048_576}))).await;
        assert!(matches!(large.outcome, CallOutcome::Completed(_)), "{large:?}");
        let refused = fixture.settle(call("apply", json!({}))).await;
        let refusal = refused.outcome.refusal().unwrap();
        assert_eq!(refusal.code.as_str(), "arguments-too-large", "{refusal}");
        assert!(refusal.message.contains("at most 1048576 are given"), "{refusal}");
        assert!(fixture.given.lock().unwrap().is_empty());
        // Larger than what the agent is shown at once, and still given to a tool.
        fixture.settle(call("look", json!({"n": 2, "padding": 500_000}))).await;
        assert_eq!(number(&fixture.given_to(call("apply", json!({}))).await).0, 2);
    }
}

// req: T4, T5
#[test]
fn a_tool_that_wants_data_of_an_unknown_tool_is_not_registered() {
    let wants = |name: &str, wanted: &[&str]| {
        let mut tool = ManifestOnlyTool::named(name);
        tool.0.wants_data = wanted.iter().map(|&name| name.to_owned()).collect();
        tool
    };
    let catalog = Catalog::new();
    catalog.register(ManifestOnlyTool::named("lookup").also("find")).unwrap();
    let error = |wanted: &[&str]| match catalog.register(wants("apply", wanted)).unwrap_err() {
        RegisterError::InvalidManifest { error, .. } => error,
        other => panic!("{other}"),
    };
    let nearest = |name: &str, nearest: Option<&str>| ManifestError::UnknownWanted {
        name: name.into(),
        nearest: nearest.map(str::to_owned),
    };
    assert_eq!(error(&["lookup", "lokup"]), nearest("lokup", Some("lookup")));
    assert_eq!(error(&["find"]), nearest("find", Some("lookup")), "results are found by the own name");
    assert_eq!(error(&["unrelated"]), nearest("unrelated", None));
    assert_eq!(error(&["lookup", "lookup"]), ManifestError::DuplicateWanted { name: "lookup".into() });
    assert_eq!(catalog.count(), 1);
    assert!(catalog.replace(wants("lookup", &["lokup"])).is_err());
    assert!(catalog.get("lookup").unwrap().manifest().wants_data.is_empty(), "the old one stays");

    // Two tools may want each other's data, and a tool its own.
    let both: Vec<Arc<dyn Tool>> = vec![Arc::new(wants("a", &["b"])), Arc::new(wants("b", &["a", "b"]))];
    catalog.register_all(both).unwrap();
    // A tool that was removed may still have results.
    catalog.unregister("lookup").unwrap();
    catalog.register(wants("apply", &["lookup"])).unwrap();
}
