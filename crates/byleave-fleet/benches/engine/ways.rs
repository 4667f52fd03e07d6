//! The ways that a call can go, from when it comes in until it is settled.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use byleave::approve::Reply;
use byleave::clock::fresh_id;
use byleave::core::call::{Call, Mode};
use byleave::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave::core::manifest::{Class, Role};
use byleave::core::outcome::Output;
use byleave::core::question::{Approver, Grade};
use byleave::gate::{Gate, GivenAnswer};
use byleave::ledger::Ledger;
use byleave::pending::Pending;
use byleave::result::{Ending, Standing};
use byleave::settings::Settings;
use byleave::tool::Run;
use byleave::typed::Typed;
use byleave_fleet::{Books, Options, RestateLedger};
use byleave_worker::{Dial, Options as WorkerOptions, RemoteLedger, Rights, Roster, Undialled, Wire, office};
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

fn tool(name: &str) -> Typed<Args> {
    Typed::new(name, "does nothing", |args: Args, _run: Run| async move { Output::text(args.path) })
        .concurrency_safe()
        .prompt()
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
        let roster = Roster::new(ledger.deputy(|| true), Duration::from_secs(10));
        let worker =
            WorkerOptions { dir: folder.join(format!("{name}-far")), patience: Duration::from_secs(20) };
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
                done(Standing::Settled(self.near.settle(self.call("look", caller, Mode::Yolo)).await))
            }
            Way::Claimed => {
                done(Standing::Settled(self.near.settle(self.call("put", caller, Mode::Yolo)).await))
            }
            Way::Worker => {
                done(Standing::Settled(self.far.settle(self.call("put", caller, Mode::Yolo)).await))
            }
            Way::Approve => {
                let standing = self.near.advance(self.call("put", caller, Mode::ConfirmSensitive)).await;
                let Standing::Waiting { call, question } = standing else {
                    panic!("not asked: {standing:?}")
                };
                let by = Approver { name: "person".into(), grade: Grade::Terminal };
                let (digest, reply) = (question.digest(), Reply::Yes { note: None });
                self.near.answer(GivenAnswer { question: question.id, digest, reply, by }).await.unwrap();
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
    let settings = Settings { inbox: true, questions_per_minute: u32::MAX, ..Settings::default() };
    Gate::builder()
        .ledger(ledger)
        .tool(tool("look").class(Class::Readonly).role("/path", Role::ReadPath).not_sensitive().repeatable())
        .tool(tool("put").class(Class::File).role("/path", Role::WritePath))
        .settings(settings)
        .build()
        .unwrap()
}

fn done(standing: Standing) {
    let Standing::Settled(result) = standing else { panic!("not settled: {standing:?}") };
    assert!(matches!(result.ending, Ending::Completed(_)), "{result:?}");
}

struct Dialling(Roster);

impl Dial for Dialling {
    fn dial(&self) -> Pending<'_, Result<Wire, Undialled>> {
        Box::pin(async {
            let ((ours, theirs), roster) = (Wire::pair(), self.0.clone());
            tokio::spawn(async move { office::attend(&roster, Rights::All, theirs).await });
            Ok(ours)
        })
    }
}
