//! The worker: this test binary, started again. It runs calls on the engine until it is killed, and keeps a log of its own.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use byleave_fleet::RestateLedger;
use byleave_gate::approver::Reply;
use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_gate::core::manifest::{ArgumentRole, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::core::pipeline::{NextStep, next_step};
use byleave_gate::core::question::{ApproverIdentity, Assurance, Question};
use byleave_gate::gate::{Gate, SubmittedAnswer};
use byleave_gate::ledger::Ledger as _;
use byleave_gate::result::CallStatus;
use byleave_gate::settings::GateSettings;
use byleave_gate::typed_tool::TypedTool;
use serde_json::{Value, json};

use crate::engine::options;

pub(crate) const SESSIONS: u64 = 4;

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct AppendLine {
    path: PathBuf,
    line: String,
}

/// Appends one line in one write, as a tool with an effect that must not happen twice.
pub(crate) fn append(path: &Path, line: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

pub(crate) fn appender(name: &str) -> TypedTool<AppendLine> {
    TypedTool::new(name, "appends a line to a file", |args: AppendLine, _run| async move {
        append(&args.path, &args.line);
        // Wide enough for a kill to come between the effect and its end.
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        Output::text("appended")
    })
    .permission_class(PermissionClass::File)
    .role("/path", ArgumentRole::WritePath)
}

/// A ledger and a gate on it, as every process of these proofs opens them.
pub(crate) fn open(folder: &Path, ingress: &str) -> (Arc<RestateLedger>, Gate) {
    let ledger = RestateLedger::open(options(ingress, "proof", &folder.join("workers"))).unwrap();
    let ledger = Arc::new(ledger);
    let settings = GateSettings { inbox: true, questions_per_minute: u32::MAX, ..GateSettings::default() };
    let gate = Gate::builder()
        .ledger(ledger.clone())
        .tool(appender("append_line"))
        .tool(appender("append_again").idempotent())
        .settings(settings)
        .build()
        .unwrap();
    (ledger, gate)
}

pub(crate) fn call(folder: &Path, session: &str, tool: &str, file: &str, line: &str, mode: Mode) -> Call {
    Call {
        id: CallId::new(fresh_id()),
        tenant: TenantId::new("local").unwrap(),
        session: SessionId::new(session).unwrap(),
        agent: AgentId::new("agent").unwrap(),
        tool: tool.into(),
        arguments: json!({"path": folder.join(file), "line": line}),
        reason: None,
        cwd: folder.to_str().unwrap().into(),
        mode,
        dry_run: false,
    }
}

pub(crate) fn yes(question: &Question) -> SubmittedAnswer {
    SubmittedAnswer {
        question: question.id,
        digest: question.digest(),
        reply: Reply::Yes { note: None },
        approver: ApproverIdentity { name: "person".into(), assurance: Assurance::Terminal },
    }
}

/// How often each line stands in a file.
pub(crate) fn lines_of(path: &Path) -> HashMap<String, u32> {
    let mut lines = HashMap::new();
    for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
        *lines.entry(line.to_owned()).or_default() += 1;
    }
    lines
}

/// Starts this test binary again as a worker.
pub(crate) fn start(folder: &Path, ingress: &str) -> Child {
    let said = OpenOptions::new().create(true).append(true).open(folder.join("worker.stderr"));
    let said: File = said.unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "proofs::worker::worker", "--nocapture", "--test-threads=1"])
        .env("BYLEAVE_WORKER", folder)
        .env("BYLEAVE_INGRESS", ingress)
        .stdout(Stdio::null())
        .stderr(said)
        .spawn()
        .unwrap()
}

/// Not a test of its own: what the other process does. Does nothing unless it was started as one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker() {
    let Some(folder) = std::env::var_os("BYLEAVE_WORKER").map(PathBuf::from) else { return };
    run_until_killed(&folder, &std::env::var("BYLEAVE_INGRESS").unwrap()).await;
}

/// Takes up what was left, then makes calls of every kind in four sessions until it is killed.
async fn run_until_killed(folder: &Path, ingress: &str) {
    let (ledger, gate) = open(folder, ingress);
    take_up(&ledger, &gate, folder).await;
    append(&folder.join("ready"), "ready");
    let sessions = (0..SESSIONS).map(|session| {
        let (gate, folder) = (gate.clone(), folder.to_path_buf());
        tokio::spawn(async move {
            for round in 0_u64.. {
                let (tool, mode) = match (round + session) % 3 {
                    0 => ("append_line", Mode::Yolo),
                    1 => ("append_again", Mode::Yolo),
                    _ => ("append_line", Mode::ConfirmSensitive),
                };
                let mut call = call(&folder, &format!("s{session}"), tool, &format!("f{session}"), "", mode);
                call.arguments["line"] = Value::from(call.id.to_string());
                append(&folder.join("submitted"), &format!("{} {tool}", call.id));
                let (id, mut standing) = (call.id, gate.advance(call).await);
                if let CallStatus::Waiting { question, .. } = &standing
                    && gate.answer(yes(question)).await.is_ok()
                {
                    // Written down here only once it was accepted: from now on it must not be lost.
                    append(&folder.join("answered"), &id.to_string());
                    standing = gate.resume(id).await;
                }
                if let CallStatus::Settled(result) = standing {
                    append(&folder.join("told"), &format!("{id} {}", result.outcome.as_str()));
                }
            }
        })
    });
    futures::future::join_all(sessions).await;
}

/// Every call that was ever submitted, with its tool.
pub(crate) fn submitted(folder: &Path) -> Vec<(CallId, String)> {
    let text = std::fs::read_to_string(folder.join("submitted")).unwrap_or_default();
    let calls = text.lines().filter_map(|line| line.split_once(' '));
    calls.map(|(call, tool)| (call.parse().unwrap(), tool.to_owned())).collect()
}

/// Does what a person and a fresh process do: answers what is open, and drives on what can be driven.
pub(crate) async fn take_up(ledger: &RestateLedger, gate: &Gate, folder: &Path) {
    gate.resume_all().await.unwrap();
    let told = std::fs::read_to_string(folder.join("told")).unwrap_or_default();
    for (call, _) in submitted(folder) {
        if told.contains(&call.to_string()) {
            continue;
        }
        let Some(loaded) = ledger.load(call).await.unwrap() else { continue };
        if let NextStep::Wait(question) = next_step(&loaded.record) {
            gate.answer(yes(&question)).await.unwrap();
            append(&folder.join("answered"), &call.to_string());
        }
        gate.resume(call).await;
    }
    gate.resume_all().await.unwrap();
}
