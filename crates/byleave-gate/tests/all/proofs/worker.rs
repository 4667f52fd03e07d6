//! The other process: this test binary, started again as a worker.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use byleave_gate::approver::Reply;
use byleave_gate::audit_log::sqlite::{SqliteLedger, SqliteOptions};
use byleave_gate::audit_log::{AuditLog as _, CallFilter, CallItem, PageRequest, QuestionFilter};
use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_gate::core::manifest::{ArgumentRole, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::core::question::{ApproverIdentity, Assurance, Question};
use byleave_gate::gate::{Gate, SubmittedAnswer};
use byleave_gate::result::CallStatus;
use byleave_gate::settings::GateSettings;
use byleave_gate::typed_tool::TypedTool;
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct AppendLine {
    path: PathBuf,
    line: String,
}

/// Appends one line in one write, as a tool with an effect that must not happen twice.
pub(crate) fn append(path: &Path, line: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn appender(name: &str) -> TypedTool<AppendLine> {
    TypedTool::new(name, "appends a line to a file", |args: AppendLine, _run| async move {
        append(&args.path, &args.line);
        // Long enough for a kill to come between the effect and the end.
        tokio::time::sleep(std::time::Duration::from_micros(300)).await;
        Output::text("appended")
    })
    .permission_class(PermissionClass::File)
    .role("/path", ArgumentRole::WritePath)
}

/// Opens an audit log and a gate on it, as every process of these proofs does.
pub(crate) fn open(folder: &Path) -> (Arc<SqliteLedger>, Gate) {
    let book = Arc::new(SqliteLedger::open(&folder.join("state"), &SqliteOptions::default()).unwrap());
    let settings = GateSettings { inbox: true, questions_per_minute: u32::MAX, ..GateSettings::default() };
    let gate = Gate::builder()
        .ledger(book.clone())
        .tool(appender("append_line"))
        .tool(appender("append_again").idempotent())
        .settings(settings)
        .build()
        .unwrap();
    (book, gate)
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

/// All calls of an audit log.
pub(crate) async fn all_calls(book: &SqliteLedger) -> Vec<CallItem> {
    let mut all = Vec::new();
    let mut page = PageRequest::with_limit(1_000);
    loop {
        let calls = book.calls(CallFilter::default(), page).await.unwrap();
        let Some(last) = calls.last() else { return all };
        page.after = Some(last.cursor);
        all.extend(calls);
    }
}

/// How many times each line appears in a file.
pub(crate) fn lines_of(path: &Path) -> HashMap<String, u32> {
    let mut lines = HashMap::new();
    for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
        *lines.entry(line.to_owned()).or_default() += 1;
    }
    lines
}

/// Starts this test binary again, to do `job` in `folder`.
pub(crate) fn start(folder: &Path, job: &str, detail: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "proofs::worker::worker", "--nocapture", "--test-threads=1"])
        .env("BYLEAVE_WORKER", folder)
        .env("BYLEAVE_JOB", job)
        .env("BYLEAVE_DETAIL", detail)
        .stdout(Stdio::null())
        .stderr(File::create(folder.join(format!("{job}-{detail}.stderr"))).unwrap())
        .spawn()
        .unwrap()
}

/// Not a test, but the work of the other process. Does nothing unless it was started as one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker() {
    let Some(folder) = std::env::var_os("BYLEAVE_WORKER").map(PathBuf::from) else { return };
    let detail = std::env::var("BYLEAVE_DETAIL").unwrap();
    match std::env::var("BYLEAVE_JOB").unwrap().as_str() {
        "crash" => run_until_killed(&folder).await,
        "session" => run_a_session(&folder, &detail).await,
        "idle" => super::waiting::look(&folder).await,
        other => panic!("no job `{other}`"),
    }
}

/// Resumes earlier calls, then makes calls of every kind in four sessions until it is killed.
async fn run_until_killed(folder: &Path) {
    let (book, gate) = open(folder);
    take_up(&book, &gate, folder).await;
    append(&folder.join("ready"), "ready");
    let sessions = (0..4).map(|session| {
        let (gate, folder) = (gate.clone(), folder.to_path_buf());
        tokio::spawn(async move {
            for round in 0_u64.. {
                let kind = (round + session) % 3;
                let (tool, mode) = match kind {
                    0 => ("append_line", Mode::Yolo),
                    1 => ("append_again", Mode::Yolo),
                    _ => ("append_line", Mode::ConfirmSensitive),
                };
                let mut call = call(&folder, &format!("s{session}"), tool, &format!("f{session}"), "", mode);
                call.arguments["line"] = Value::from(call.id.to_string());
                append(&folder.join("submitted"), &call.id.to_string());
                if let CallStatus::Waiting { call, question } = gate.advance(call).await {
                    gate.answer(yes(&question)).await.unwrap();
                    // Logged only after it was accepted. From now on it must not be lost.
                    append(&folder.join("answered"), &call.to_string());
                    gate.resume(call).await;
                }
            }
        })
    });
    futures::future::join_all(sessions).await;
}

/// Does what a person and a new process do: answers open questions, and resumes calls.
pub(crate) async fn take_up(book: &SqliteLedger, gate: &Gate, folder: &Path) {
    loop {
        gate.resume_all().await.unwrap();
        let open = book.questions(QuestionFilter::default(), PageRequest::with_limit(1_000)).await.unwrap();
        if open.is_empty() {
            return;
        }
        for item in open {
            let sheet = gate.question_view(item.question).await.unwrap();
            gate.answer(yes(&sheet.question)).await.unwrap();
            append(&folder.join("answered"), &item.call.to_string());
        }
    }
}

/// How many calls each of two processes makes in one session.
pub(crate) fn calls_of_a_session() -> usize {
    if super::long() { 1_000 } else { 200 }
}

/// Makes calls in one session, in order.
async fn run_a_session(folder: &Path, name: &str) {
    let (_book, gate) = open(folder);
    for number in 0..calls_of_a_session() {
        let line = format!("{name} {number:04}");
        let result = gate.settle(call(folder, "shared", "append_line", "lines", &line, Mode::Yolo)).await;
        assert_eq!(result.outcome.as_str(), "completed", "{result:?}");
    }
}
