//! The permissions of a worker.

use std::time::Duration;

use byleave_core::question::{ApproverIdentity, Assurance};
use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::id::{AgentId, CallId, QuestionId, SessionId, TenantId};
use byleave_gate::core::manifest::PermissionClass;
use byleave_gate::gate::{Gate, SubmittedAnswer};
use byleave_gate::ledger::Ledger as _;
use byleave_gate::result::CallStatus;
use byleave_gate::settings::GateSettings;
use byleave_gate::tool::RunContext;
use byleave_gate::typed_tool::TypedTool;
use byleave_worker::{CallAssignment, Capabilities, DispatchOutcome};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::stage::RegistryFixture;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct EmptyArguments {}

fn gate(ledger: impl byleave_gate::ledger::Ledger) -> Gate {
    let note = |_: EmptyArguments, _run: RunContext| async move { "noted".to_owned() };
    Gate::builder()
        .ledger(std::sync::Arc::new(ledger))
        .tool(TypedTool::new("note", "Takes a note.", note).permission_class(PermissionClass::Generic))
        .settings(GateSettings { inbox: true, ..GateSettings::default() })
        .build()
        .unwrap()
}

fn call(tenant: &str) -> Call {
    Call {
        id: CallId::new(fresh_id()),
        tenant: TenantId::new(tenant).unwrap(),
        session: SessionId::new("s").unwrap(),
        agent: AgentId::new("bot").unwrap(),
        tool: "note".into(),
        arguments: json!({}),
        reason: None,
        cwd: "/tmp".into(),
        mode: Mode::ConfirmSensitive,
        dry_run: false,
    }
}

/// A call that arrived at the store itself, in its own session.
async fn came_in(office: &RegistryFixture, tenant: &str) -> CallId {
    let mut call = call(tenant);
    call.session = SessionId::new(call.id.to_string()).unwrap();
    gate(office.store.clone()).accept(&call).await.unwrap();
    call.id
}

/// A worker of a tenant that runs the calls that it is offered.
fn hired(office: &RegistryFixture) -> Gate {
    let skills = Capabilities {
        tools: ["note".into()].into(),
        capacity: 2,
        dir: "/tmp".into(),
        ..Capabilities::default()
    };
    let (ledger, offers) = office.hire(crate::stage::worker_of("acme", "w"), skills);
    let worker = gate(ledger);
    tokio::spawn(offers.run(worker.clone(), CancellationToken::new()));
    worker
}

/// Has a call run by any connected worker.
async fn driven(office: &RegistryFixture, call: CallId) {
    let (tenant, session) = (TenantId::new("acme").unwrap(), SessionId::new(call.to_string()).unwrap());
    let job = CallAssignment { call, tenant: &tenant, session: &session, tool: "note", dir: "/tmp" };
    while office.roster.drive(job).await != (DispatchOutcome::Driven { blocked_by: None }) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

// req: R4, A1, T4
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_drives_what_came_in_elsewhere_and_a_person_answers_there() {
    let office = RegistryFixture::new();
    let (call, server) = (came_in(&office, "acme").await, gate(office.store.clone()));
    let worker = hired(&office);
    driven(&office, call).await;
    let CallStatus::Waiting { question, .. } = server.prepare_existing(call).await else { panic!("it asks") };
    let yes = |question: QuestionId, digest| SubmittedAnswer {
        question,
        digest,
        reply: byleave_gate::approver::Reply::Yes { note: None },
        approver: ApproverIdentity { name: "ann".into(), assurance: Assurance::Web },
    };
    // Not even in a person's name.
    let own = worker.answer(yes(question.id, question.digest())).await;
    assert!(own.unwrap_err().to_string().contains("a worker must not answer"));
    assert!(worker.cancel(call, "ann").await.is_err(), "nor does it call anything off");
    server.answer(yes(question.id, question.digest())).await.unwrap();
    driven(&office, call).await;
    let CallStatus::Settled(result) = server.prepare_existing(call).await else { panic!("it settles") };
    assert_eq!(result.outcome.as_str(), "completed", "{result:?}");
    // A tool that wants its data can find it over the wire.
    let (tenant, session) = (TenantId::new("acme").unwrap(), SessionId::new(call.to_string()).unwrap());
    let ledger = office.worker(crate::stage::worker_of("acme", "v"));
    assert_eq!(ledger.latest_completed_call(&tenant, &session, "note").await.unwrap(), Some(call));
    assert_eq!(ledger.latest_completed_call(&tenant, &session, "other").await.unwrap(), None);
}

// req: R4, A1
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_writes_on_nothing_that_it_was_not_offered() {
    let office = RegistryFixture::new();
    let (call, other) = (came_in(&office, "acme").await, came_in(&office, "acme").await);
    let worker = hired(&office);
    driven(&office, call).await;
    // It can see the other call, and would run it.
    drop(worker.resume(other).await);
    let len = |record: Option<byleave_gate::ledger::LoadedRecord>| record.unwrap().record.len();
    assert!(len(office.store.load(call).await.unwrap()) > 1);
    assert_eq!(len(office.store.load(other).await.unwrap()), 1, "nothing was written");
    driven(&office, other).await;
    assert!(len(office.store.load(other).await.unwrap()) > 1, "once it is offered it is");
}

// req: R4, A1
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_makes_no_calls_and_sees_nothing_of_another_tenant() {
    let office = RegistryFixture::new();
    let theirs = came_in(&office, "other").await;
    let ledger = office.worker(crate::stage::worker_of("acme", "w"));
    assert!(ledger.load(theirs).await.is_err());
    assert!(ledger.active_halt(&TenantId::new("other").unwrap()).await.is_err());
    assert!(ledger.active_halt(&TenantId::new("acme").unwrap()).await.unwrap().is_none());
    assert!(ledger.resumable_calls(0, 10).await.is_err());
    let (tenant, session) = (TenantId::new("other").unwrap(), SessionId::new(theirs.to_string()).unwrap());
    assert!(ledger.latest_completed_call(&tenant, &session, "note").await.is_err());
    let heading = office.store.load(theirs).await.unwrap().unwrap().record;
    let held = heading.header().unwrap().arguments;
    assert!(ledger.content(theirs, held).await.is_err());
    assert!(office.store.content(theirs, held).await.is_ok());
    let worker = gate(ledger);
    assert!(worker.halt(&TenantId::new("acme").unwrap(), "bot", "x").await.is_err());
    let made = worker.settle(call("acme")).await;
    assert_eq!(made.outcome.refusal().unwrap().code.as_str(), "not-recorded", "{made:?}");
}
