//! The ways that a call can go, from when it comes in until it is settled.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use byleave_fleet::{Books, Options, RestateLedger};
use byleave_gate::approver::Reply;
use byleave_gate::boxed::BoxFuture;
use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_gate::core::manifest::{ArgumentRole, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::core::question::{ApproverIdentity, Assurance};
use byleave_gate::gate::{Gate, SubmittedAnswer};
use byleave_gate::ledger::Ledger;
use byleave_gate::result::{CallOutcome, CallStatus};
use byleave_gate::settings::GateSettings;
use byleave_gate::tool::RunContext;
use byleave_gate::typed_tool::TypedTool;
use byleave_worker::{
    ConnectError, Connector, FrameChannel, Permissions, RemoteLedger, RemoteLedgerOptions as WorkerOptions,
    WorkerRegistry, server,
};
use serde_json::json;

use crate::bare::Asker;

/// How a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// An empty handler.
    Bare,
    /// A read by a repeatable tool, driven by a gate beside the engine: nothing need be durable before it runs.
    Inline,
    /// The same gate, a tool with side effects: its claim is durable before it runs.
    Claimed,
    /// A tool with side effects, driven by the gate of a worker, who writes over a wire through the office.
    Worker,
    /// A tool with side effects that a person is asked about, who says yes at once.
    Approve,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Args {
    path: String,
}

fn tool(name: &str) -> TypedTool<Args> {
    TypedTool::new(
        name,
        "does nothing",
        |args: Args, _run: RunContext| async move { Output::text(args.path) },
    )
    .concurrency_safe()
    .nonblocking()
}

/// Everything that calls go through, on one engine; with or without a book.
pub(crate) struct Ground {
    ingress: String,
    asker: Asker,
    pub(crate) ledger: Arc<RestateLedger>,
    near: Gate,
    far: Gate,
    folder: String,
}

impl Ground {
    pub(crate) fn new(ingress: &str, books: Option<Arc<Books>>, folder: &Path) -> Self {
        let name = fresh_id().to_string();
        let options = Options {
            ingress: vec![ingress.to_owned()],
            name: name.clone(),
            workers: folder.join(format!("{name}-near")),
            master: [7; 32].into(),
            patience: Duration::from_secs(20),
            books,
        };
        let ledger = Arc::new(RestateLedger::open(options).unwrap());
        let roster = WorkerRegistry::new(ledger.deputy(|| true), Duration::from_secs(10));
        let worker = WorkerOptions {
            dir: folder.join(format!("{name}-far")),
            response_timeout: Duration::from_secs(20),
        };
        let remote = Arc::new(RemoteLedger::open(&worker, Dialling(roster)).unwrap());
        Self {
            ingress: ingress.to_owned(),
            asker: Asker::new(),
            near: gate(ledger.clone()),
            far: gate(remote),
            ledger,
            folder: folder.to_str().unwrap().to_owned(),
        }
    }

    /// One call, from when it comes in until it is settled. `caller` has a session of its own.
    pub(crate) async fn go(&self, way: Way, caller: usize) {
        match way {
            Way::Bare => self.asker.ask(&self.ingress).await,
            Way::Inline => {
                done(CallStatus::Settled(self.near.settle(self.call("look", caller, Mode::Yolo)).await))
            }
            Way::Claimed => {
                done(CallStatus::Settled(self.near.settle(self.call("put", caller, Mode::Yolo)).await))
            }
            Way::Worker => {
                done(CallStatus::Settled(self.far.settle(self.call("put", caller, Mode::Yolo)).await))
            }
            Way::Approve => {
                let standing = self.near.advance(self.call("put", caller, Mode::ConfirmSensitive)).await;
                let CallStatus::Waiting { call, question } = standing else {
                    panic!("not asked: {standing:?}")
                };
                let by = ApproverIdentity { name: "person".into(), assurance: Assurance::Terminal };
                let (digest, reply) = (question.digest(), Reply::Yes { note: None });
                self.near
                    .answer(SubmittedAnswer { question: question.id, digest, reply, approver: by })
                    .await
                    .unwrap();
                done(self.near.resume(call).await);
            }
        }
    }

    fn call(&self, tool: &str, caller: usize, mode: Mode) -> Call {
        Call {
            id: CallId::new(fresh_id()),
            tenant: TenantId::new("local").unwrap(),
            session: SessionId::new(format!("s{caller}")).unwrap(),
            agent: AgentId::new("bench").unwrap(),
            tool: tool.into(),
            arguments: json!({"path": format!("{}/f{caller}", self.folder)}),
            reason: None,
            cwd: self.folder.clone(),
            mode,
            dry_run: false,
        }
    }
}

fn gate(ledger: Arc<dyn Ledger>) -> Gate {
    let settings = GateSettings { inbox: true, questions_per_minute: u32::MAX, ..GateSettings::default() };
    Gate::builder()
        .ledger(ledger)
        .tool(
            tool("look")
                .permission_class(PermissionClass::Readonly)
                .role("/path", ArgumentRole::ReadPath)
                .not_sensitive()
                .idempotent(),
        )
        .tool(tool("put").permission_class(PermissionClass::File).role("/path", ArgumentRole::WritePath))
        .settings(settings)
        .build()
        .unwrap()
}

fn done(standing: CallStatus) {
    let CallStatus::Settled(result) = standing else { panic!("not settled: {standing:?}") };
    assert!(matches!(result.outcome, CallOutcome::Completed(_)), "{result:?}");
}

struct Dialling(WorkerRegistry);

impl Connector for Dialling {
    fn connect(&self) -> BoxFuture<'_, Result<FrameChannel, ConnectError>> {
        Box::pin(async {
            let ((ours, theirs), roster) = (FrameChannel::pair(), self.0.clone());
            tokio::spawn(async move { server::serve_worker(&roster, Permissions::All, theirs).await });
            Ok(ours)
        })
    }
}
