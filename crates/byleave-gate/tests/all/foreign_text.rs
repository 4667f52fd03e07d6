//! A session that has read text of strangers is asked where a rule says so.

use std::sync::Arc;

use byleave_gate::audit_log::sqlite::{SqliteLedger, SqliteOptions};
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_gate::core::pattern::Pattern;
use byleave_gate::core::policy::{Layer, Policy, Rule, RuleCondition};
use byleave_gate::core::session::{Ceiling, SessionNode};
use byleave_gate::gate::Gate;
use byleave_gate::ledger::Ledger;
use byleave_gate::ledger::memory::MemoryLedger;
use byleave_gate::result::{CallOutcome, CallStatus};
use byleave_gate::settings::GateSettings;
use byleave_gate::tool::RunContext;
use byleave_gate::typed_tool::TypedTool;
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Fetch {
    url: String,
}

fn policy() -> Policy {
    let allow = Rule::new("hosts", Layer::User, Verdict::Allow, vec![Pattern::Reach("*.example".into())]);
    let ask = Rule {
        when: RuleCondition { read_foreign: Some(true), ..RuleCondition::default() },
        ..Rule::new("after-reading", Layer::User, Verdict::Ask, vec![Pattern::Reach("b.example".into())])
    };
    Policy::new(vec![allow, ask]).unwrap()
}

fn gate(ledger: Arc<dyn Ledger>) -> Gate {
    let fetch =
        TypedTool::new("fetch", "Fetches a page", |fetch: Fetch, _run: RunContext| async move { fetch.url });
    let plain =
        TypedTool::new("plain", "Reads nothing of strangers", |fetch: Fetch, _run: RunContext| async move {
            fetch.url
        });
    let settings = GateSettings { inbox: true, ..GateSettings::default() };
    let builder = Gate::builder().tool(fetch.url("/url").not_sensitive()).tool(plain);
    builder.ledger(ledger).policy(policy()).settings(settings).build().unwrap()
}

fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn tenant() -> TenantId {
    TenantId::new("local").unwrap()
}

fn call(in_session: &str, tool: &str, url: &str) -> Call {
    Call {
        id: CallId::new(byleave_gate::clock::fresh_id()),
        tenant: tenant(),
        session: session(in_session),
        agent: AgentId::new("a").unwrap(),
        tool: tool.into(),
        arguments: json!({ "url": url }),
        reason: None,
        cwd: "/".into(),
        mode: Mode::ConfirmSensitive,
        dry_run: false,
    }
}

async fn is_asked(gate: &Gate, in_session: &str) -> bool {
    match gate.advance(call(in_session, "fetch", "https://b.example/")).await {
        CallStatus::Waiting { .. } => true,
        CallStatus::Settled(result) => {
            assert!(matches!(result.outcome, CallOutcome::Completed(_)), "{result:?}");
            false
        }
        other => panic!("{other:?}"),
    }
}

// req: P1
#[tokio::test]
async fn a_rule_asks_once_the_session_has_read_text_of_strangers() {
    let dir = tempfile::tempdir().unwrap();
    let options = SqliteOptions { seal_every: None, ..SqliteOptions::default() };
    let sqlite: Arc<dyn Ledger> = Arc::new(SqliteLedger::open(dir.path(), &options).unwrap());
    for ledger in [Arc::new(MemoryLedger::new()) as Arc<dyn Ledger>, sqlite] {
        let gate = gate(Arc::clone(&ledger));
        // A tool that reaches nothing leaves no mark.
        let plain = Call { mode: Mode::Yolo, ..call("s", "plain", "https://a.example/") };
        assert!(matches!(gate.settle(plain).await.outcome, CallOutcome::Completed(_)));
        assert!(!ledger.has_read_foreign(&tenant(), &session("s")).await.unwrap());
        // The first call of a session is not asked about. It reads text of strangers, so the next one is.
        assert!(!is_asked(&gate, "s").await);
        assert!(ledger.has_read_foreign(&tenant(), &session("s")).await.unwrap());
        assert!(is_asked(&gate, "s").await);
        // A host that the rule does not name is not asked about, and neither is another session.
        let other = gate.settle(call("s", "fetch", "https://a.example/")).await;
        assert!(matches!(other.outcome, CallOutcome::Completed(_)), "{other:?}");
        assert!(!is_asked(&gate, "elsewhere").await);
        // A session knows what its sub-agents have read, and a sub-agent what the sessions above it have read.
        for (name, parent) in [("main", None), ("reader", Some("main")), ("writer", Some("main"))] {
            let node = SessionNode {
                session: session(name),
                parent: parent.map(session),
                agent: AgentId::new("a").unwrap(),
                ceiling: Ceiling::default(),
            };
            gate.open_session(&tenant(), "ada", node).await.unwrap();
        }
        assert!(!is_asked(&gate, "reader").await);
        assert!(is_asked(&gate, "main").await && is_asked(&gate, "writer").await);
    }
}
