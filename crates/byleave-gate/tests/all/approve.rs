//! Approvers: callbacks, and an HTTP service that must sign its answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use byleave_gate::approver::{
    Approver, ApproverError, Reply, WebhookApprover, callback, callback_async, callback_blocking,
};
use byleave_gate::core::call::Mode;
use byleave_gate::core::decision::{AskCause, DecisionReason, PolicyDecision, Verdict};
use byleave_gate::core::digest::Digest;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::entry::{Limits, ResolvedTool};
use byleave_gate::core::id::{AgentId, CallId, QuestionId, SessionId};
use byleave_gate::core::question::{Assurance, Question, QuestionKind};
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::core::render::{LineRole, RenderLine, Rendering};
use byleave_gate::secret::Secret;
use byleave_gate::signed_http::{SIGNATURE_HEADER, TIMESTAMP_HEADER};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::service::{ReceivedRequest, SECRET, now, response, serve, signed, signed_by};

/// A question about deleting a file.
pub(crate) fn sheet(kind: QuestionKind) -> QuestionView {
    let path = "/w/report.txt";
    let reason = DecisionReason {
        verdict: Verdict::Ask,
        cause: Some(AskCause::Default),
        rule: None,
        origin: None,
        effects: vec![0],
        message: "no rule matches".into(),
    };
    QuestionView {
        question: Question {
            id: QuestionId::new(uuid::Uuid::from_u128(7)),
            kind,
            binding: Digest::compute(b"the plan"),
            expires_at: 1_900_000_000_000,
        },
        call: CallId::new(uuid::Uuid::from_u128(1)),
        session: SessionId::new("s").unwrap(),
        agent: AgentId::new("a").unwrap(),
        lineage: Vec::new(),
        cwd: "/w".into(),
        mode: Mode::ConfirmSensitive,
        resolved_tool: ResolvedTool {
            tool: "delete_file".into(),
            manifest: Digest::compute(b"manifest"),
            operation: "delete".into(),
            read_only: false,
            destructive: true,
            concurrency_safe: false,
            idempotent: false,
            checkpoint: kind == QuestionKind::Checkpoint,
            rehearsal: None,
            challenge: byleave_gate::core::entry::ChallengeTerms::default(),
            limits: Limits::default(),
        },
        draft: 1,
        arguments: json!({"path": path}),
        first_arguments: None,
        reason: Some("tidying up".into()),
        plan: Plan { effects: vec![Effect::Delete { path: path.into() }], ..Plan::default() },
        decision: PolicyDecision {
            verdict: Verdict::Ask,
            reasons: vec![reason],
            policy: Digest::compute(b"policy"),
            standing_approval: None,
            guarantees: vec![],
            challenge: None,
            cached: false,
        },
        notes: vec![],
        challenge: None,
        rehearsal: None,
        output: None,
    }
}

pub(crate) fn rendering() -> Rendering {
    let line = |role, text: &str| RenderLine { role, text: text.into(), gutter: 0 };
    let lines = vec![
        line(LineRole::Title, "delete_file wants to delete"),
        line(LineRole::Effect, "delete /w/report.txt"),
        line(LineRole::Model, "the model says: tidying up"),
    ];
    Rendering { lines, complete: true }
}

pub(crate) async fn ask(approver: &impl Approver, kind: QuestionKind) -> Result<Reply, ApproverError> {
    approver.ask(&sheet(kind), &rendering()).await
}

const YES: Reply = Reply::Yes { note: None };
const NO: Reply = Reply::No { feedback: None };

// req: R5
#[tokio::test]
async fn a_callback_answers_by_bool_reply_or_result() {
    let kind = QuestionKind::Approval;
    assert_eq!(
        ask(&callback("c", |sheet: &QuestionView| sheet.arguments["path"] == "/w/report.txt"), kind).await,
        Ok(YES)
    );
    assert_eq!(ask(&callback("c", |_: &QuestionView| false), kind).await, Ok(NO));
    let reply = Reply::No { feedback: Some("archive it".into()) };
    let told = reply.clone();
    assert_eq!(ask(&callback("c", move |_: &QuestionView| told.clone()), kind).await, Ok(reply));
    let broken = callback("c", |_: &QuestionView| Err::<bool, _>("no screen"));
    assert_eq!(ask(&broken, kind).await, Err(ApproverError::Failed("no screen".into())));
    let later = callback_async("c", |sheet: QuestionView| async move {
        tokio::task::yield_now().await;
        sheet.draft == 1
    });
    assert_eq!(ask(&later, kind).await, Ok(YES));
    let blocking = callback_blocking("c", |sheet: &QuestionView| sheet.draft == 2);
    assert_eq!(ask(&blocking, kind).await, Ok(NO));
    assert_eq!(blocking.assurance(), Assurance::Program);
}

async fn webhook(answer: impl Fn(ReceivedRequest) -> Vec<u8> + Send + Sync + 'static) -> WebhookApprover {
    WebhookApprover::new("service", &serve(answer).await, Secret::from(SECRET)).unwrap()
}

async fn says(reply: Value) -> Result<Reply, ApproverError> {
    let service = webhook(move |received| {
        assert!(received.is_signed(), "the question is signed");
        let question = received.json()["question"].clone();
        signed(json!({"question": question, "reply": reply}).to_string().as_bytes())
    });
    ask(&service.await, QuestionKind::Approval).await
}

// req: R5, R11
#[tokio::test]
async fn an_external_service_answers() {
    assert_eq!(says(json!({"kind": "yes"})).await, Ok(YES));
    assert_eq!(says(json!({"kind": "yes", "note": "ok"})).await, Ok(Reply::Yes { note: Some("ok".into()) }));
    let no = Reply::No { feedback: Some("archive it".into()) };
    assert_eq!(says(json!({"kind": "no", "feedback": "archive it"})).await, Ok(no));
    let edit = Reply::Edit { value: json!({"path": "/w/old.txt"}), note: None };
    assert_eq!(says(json!({"kind": "edit", "value": {"path": "/w/old.txt"}})).await, Ok(edit));
    assert_eq!(says(json!({"kind": "abort"})).await, Ok(Reply::Abort));
    assert_eq!(says(json!({"kind": "result", "text": "x"})).await, Ok(Reply::Result { text: "x".into() }));
    let leave = json!({"id": uuid::Uuid::from_u128(3), "tool": "delete_file", "scope": [], "max_uses": 2});
    assert!(
        matches!(says(json!({"kind": "standing-approval", "standing_approval": leave})).await, Ok(Reply::StandingApproval(leave)) if leave.max_uses == Some(2))
    );
}

// req: R5
#[tokio::test]
async fn the_service_is_told_everything() {
    let service = webhook(|received| {
        let told = received.json();
        let asked = sheet(QuestionKind::Approval);
        assert_eq!(told["question"], json!(asked.question.digest()));
        assert_eq!(told["expires_at"], json!(asked.question.expires_at));
        assert_eq!(told["question_view"], json!(asked));
        assert_eq!(told["lines"], json!(rendering().lines));
        assert_eq!(told["complete"], true);
        signed(json!({"question": told["question"], "reply": {"kind": "no"}}).to_string().as_bytes())
    });
    assert_eq!(ask(&service.await, QuestionKind::Approval).await, Ok(NO));
}

fn yes_to(received: &ReceivedRequest) -> Vec<u8> {
    json!({"question": received.json()["question"], "reply": {"kind": "yes"}}).to_string().into_bytes()
}

type ServiceHandler = fn(ReceivedRequest) -> Vec<u8>;

// req: R3
#[tokio::test]
async fn nothing_but_a_fresh_signed_answer_to_this_question_is_believed() {
    let nonsense: &[(&str, ServiceHandler)] = &[
        ("another key", |r| signed_by("a secret that only one side knows", now(), &yes_to(&r))),
        ("signed too long ago", |r| signed_by(SECRET, now() - 310, &yes_to(&r))),
        ("signed in the future", |r| signed_by(SECRET, now() + 310, &yes_to(&r))),
        ("unsigned", |r| response(200, &[], &yes_to(&r))),
        ("the signature of another body", |r| {
            let text = String::from_utf8(signed(&yes_to(&r))).unwrap();
            text.replace("\"yes\"", "\"yes \"").replace("content-length: ", "content-length:  ").into_bytes()
        }),
        ("a body cut at its end", |r| {
            let body = yes_to(&r);
            let (head, _) = body.split_at(body.len() - 1);
            let whole = String::from_utf8(signed(&body)).unwrap();
            let header = |name: &str| {
                whole.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap().to_owned()
            };
            response(
                200,
                &[
                    (TIMESTAMP_HEADER, &header(TIMESTAMP_HEADER)),
                    (SIGNATURE_HEADER, &header(SIGNATURE_HEADER)),
                ],
                head,
            )
        }),
        ("two signatures", |r| {
            let text = String::from_utf8(signed(&yes_to(&r))).unwrap();
            let line = text.lines().find(|line| line.starts_with(SIGNATURE_HEADER)).unwrap().to_owned();
            text.replacen(&line, &format!("{line}\r\n{line}"), 1).into_bytes()
        }),
        ("our own question sent back", |r| {
            let (time, signature) =
                (r.header(TIMESTAMP_HEADER).unwrap(), r.header(SIGNATURE_HEADER).unwrap());
            response(200, &[(TIMESTAMP_HEADER, time), (SIGNATURE_HEADER, signature)], &r.body)
        }),
        ("an answer to another question", |_| {
            signed(
                json!({"question": Digest::compute(b"another"), "reply": {"kind": "yes"}})
                    .to_string()
                    .as_bytes(),
            )
        }),
        ("no JSON", |_| signed(b"yes")),
        ("nothing", |_| signed(b"")),
        ("a word that is no answer", |r| {
            signed(
                json!({"question": r.json()["question"], "reply": {"kind": "sure"}}).to_string().as_bytes(),
            )
        }),
        ("more than was asked for", |r| {
            let reply = json!({"kind": "yes", "for": "ever"});
            signed(json!({"question": r.json()["question"], "reply": reply}).to_string().as_bytes())
        }),
        ("too large", |r| {
            let mut body = yes_to(&r);
            body.resize(byleave_gate::signed_http::ANSWER_BYTES_MAX + 1, b' ');
            signed(&body)
        }),
    ];
    for (what, service) in nonsense {
        let fault = ask(&webhook(service).await, QuestionKind::Approval).await;
        assert!(matches!(fault, Err(ApproverError::InvalidResponse(_))), "{what}: {fault:?}");
    }
    let failed: &[(&str, ServiceHandler)] = &[
        ("a status that is no success", |r| {
            String::from_utf8(signed(&yes_to(&r))).unwrap().replacen("200", "500", 1).into_bytes()
        }),
        ("accepted, for later", |r| {
            String::from_utf8(signed(&yes_to(&r))).unwrap().replacen("200", "202", 1).into_bytes()
        }),
        ("a connection that ends early", |r| {
            let mut bytes = signed(&yes_to(&r));
            bytes.truncate(bytes.len() - 5);
            bytes
        }),
        ("no HTTP", |_| b"yes\r\n\r\n".to_vec()),
        ("silence", |_| Vec::new()),
    ];
    for (what, service) in failed {
        let fault = ask(&webhook(service).await, QuestionKind::Approval).await;
        assert!(matches!(fault, Err(ApproverError::Failed(_))), "{what}: {fault:?}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let visits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&visits);
    let elsewhere = serve(move |received| {
        counted.fetch_add(1, Ordering::Relaxed);
        signed(&yes_to(&received))
    })
    .await;
    for status in [301, 302, 303, 307, 308] {
        let location = elsewhere.clone();
        let service = webhook(move |_| response(status, &[("location", &location)], b"")).await;
        let fault = ask(&service, QuestionKind::Approval).await;
        assert!(matches!(fault, Err(ApproverError::Failed(_))), "{status}: {fault:?}");
    }
    assert_eq!(visits.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn nobody_there_or_no_tls_there_is_a_failure() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let no_tls = format!("https://{}/ask", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 what?\r\n\r\n").await.unwrap();
    });
    for url in ["http://127.0.0.1:1/ask", &no_tls] {
        let service = WebhookApprover::new("service", url, Secret::from(SECRET)).unwrap();
        let fault = ask(&service, QuestionKind::Approval).await;
        assert!(matches!(fault, Err(ApproverError::Failed(_))), "{url}: {fault:?}");
    }
}
