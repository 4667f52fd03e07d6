//! What a worker may do, and what it may not.

use byleave::clock::fresh_id;
use byleave::core::call::{Call, Mode};
use byleave::core::id::{AgentId, CallId, QuestionId, SessionId, TenantId};
use byleave::core::manifest::Class;
use byleave::gate::{Gate, GivenAnswer};
use byleave::ledger::Ledger as _;
use byleave::result::Standing;
use byleave::settings::Settings;
use byleave::tool::Run;
use byleave::typed::Typed;
use byleave_core::question::{Approver, Grade};
use serde_json::json;

use crate::stage::Office;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn gate(ledger: impl byleave::ledger::Ledger) -> Gate {
    let note = |_: Nothing, _run: Run| async move { "noted".to_owned() };
    Gate::builder()
        .ledger(std::sync::Arc::new(ledger))
        .tool(Typed::new("note", "Takes a note.", note).class(Class::Generic))
        .settings(Settings { inbox: true, ..Settings::default() })
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

/// A call that came in at the store itself.
async fn came_in(office: &Office, tenant: &str) -> CallId {
    let call = call(tenant);
    gate(office.store.clone()).take_in(&call).await.unwrap();
    call.id
}

fn worker(office: &Office) -> Gate {
    gate(office.worker(crate::stage::worker_of("acme", "w")))
}

// req: R4, A1
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_drives_what_came_in_elsewhere_and_a_person_answers_there() {
    let office = Office::new();
    let call = came_in(&office, "acme").await;
    let worker = worker(&office);
    let Standing::Waiting { question, .. } = worker.resume(call).await else { panic!("it asks") };
    let yes = |question: QuestionId, digest| GivenAnswer {
        question,
        digest,
        reply: byleave::approve::Reply::Yes { note: None },
        by: Approver { name: "ann".into(), grade: Grade::Web },
    };
    // Not even in a person's name.
    let own = worker.answer(yes(question.id, question.digest())).await;
    assert!(own.unwrap_err().to_string().contains("not for workers to answer"));
    gate(office.store.clone()).answer(yes(question.id, question.digest())).await.unwrap();
    let Standing::Settled(result) = worker.resume(call).await else { panic!("it settles") };
    assert_eq!(result.ending.word(), "completed", "{result:?}");
}

// req: R4, A1
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_makes_no_calls_and_sees_nothing_of_another_tenant() {
    let office = Office::new();
    let theirs = came_in(&office, "other").await;
    let ledger = office.worker(crate::stage::worker_of("acme", "w"));
    assert!(ledger.load(theirs).await.is_err());
    assert!(ledger.halted(&TenantId::new("other").unwrap()).await.is_err());
    assert!(ledger.halted(&TenantId::new("acme").unwrap()).await.unwrap().is_none());
    assert!(ledger.drivable(0, 10).await.is_err());
    let heading = office.store.load(theirs).await.unwrap().unwrap().record;
    let held = heading.heading().unwrap().arguments;
    assert!(ledger.content(theirs, held).await.is_err());
    assert!(office.store.content(theirs, held).await.is_ok());
    let worker = gate(ledger);
    assert!(worker.halt(&TenantId::new("acme").unwrap(), "bot", "x").await.is_err());
    let made = worker.settle(call("acme")).await;
    assert_eq!(made.ending.refusal().unwrap().code.as_str(), "not-recorded", "{made:?}");
}
