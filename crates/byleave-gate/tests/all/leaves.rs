//! Standing approvals that a person chooses, and held results that a person releases: through the gate, with a real
//! audit log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use byleave_gate::approver::Reply;
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::audit_log::sqlite::{SqliteLedger, SqliteOptions};
use byleave_gate::core::approval_scopes::{ApprovalScope, ScopeWidth, approval_scopes};
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::id::{AgentId, CallId, SessionId, StandingApprovalId, TenantId};
use byleave_gate::core::manifest::PermissionClass;
use byleave_gate::core::outcome::Output;
use byleave_gate::core::policy::{PathVariables, Policy, builtin_rules};
use byleave_gate::core::question::{ApproverIdentity, Assurance, Question, QuestionKind};
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::core::standing_approval::StandingApproval;
use byleave_gate::gate::{Gate, SubmittedAnswer};
use byleave_gate::recorded_calls::{MAX_CALLS_CHECKED, PastAnswer, find_covered};
use byleave_gate::redact::redact_output;
use byleave_gate::result::{CallOutcome, CallResult, CallStatus};
use byleave_gate::review::hold_reviewer;
use byleave_gate::settings::GateSettings;
use byleave_gate::typed_tool::TypedTool;
use serde_json::{Value, json};

const FAR: u64 = 4_000_000_000_000;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Command {
    command: String,
}

/// A gate with an audit log in its own directory, and a shell that runs nothing.
struct ApprovalFixture {
    dir: tempfile::TempDir,
    book: Arc<SqliteLedger>,
    gate: Gate,
    ran: Arc<AtomicU32>,
}

impl ApprovalFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = SqliteOptions { seal_every: None, ..SqliteOptions::default() };
        let book = Arc::new(SqliteLedger::open(&dir.path().join("state"), &options).unwrap());
        let workspace = dir.path().canonicalize().unwrap().join("w");
        std::fs::create_dir(&workspace).unwrap();
        let places = PathVariables { workspace: workspace.to_str(), ..PathVariables::default() };
        let ran = Arc::new(AtomicU32::new(0));
        let counter = ran.clone();
        let shell = TypedTool::new("bash", "runs nothing", move |args: Command, _run| {
            counter.fetch_add(1, Ordering::SeqCst);
            async move { args.command }
        })
        .permission_class(PermissionClass::Bash)
        .not_sensitive();
        let told = |_: Value, _run| async {
            Output::text("the client is Acme, token=abcd1234efgh")
                .with_data(json!({"client": "ACME", "password": "pw"}))
        };
        let gate = Gate::builder()
            .ledger(book.clone())
            .tool(shell)
            .tool(
                TypedTool::new("tell", "tells", told)
                    .permission_class(PermissionClass::Readonly)
                    .not_sensitive(),
            )
            .review_output("tell", hold_reviewer("a person reads it first"))
            .policy(Policy::new(builtin_rules(&places).unwrap()).unwrap())
            .settings(GateSettings { inbox: true, ..GateSettings::default() })
            .build()
            .unwrap();
        Self { dir, book, gate, ran }
    }

    fn call(&self, tool: &str, arguments: Value, mode: Mode) -> Call {
        Call {
            id: CallId::new(byleave_gate::clock::fresh_id()),
            tenant: tenant(),
            session: SessionId::new("s").unwrap(),
            agent: AgentId::new("a").unwrap(),
            tool: tool.into(),
            arguments,
            reason: None,
            cwd: self.dir.path().canonicalize().unwrap().join("w").to_str().unwrap().to_owned(),
            mode,
            dry_run: false,
        }
    }

    async fn shell(&self, command: &str) -> (CallId, CallStatus) {
        let call = self.call("bash", json!({ "command": command }), Mode::ConfirmSensitive);
        (call.id, self.gate.advance(call).await)
    }

    /// The same in another session.
    async fn elsewhere(&self, command: &str) -> (CallId, CallStatus) {
        let call = self.call("bash", json!({ "command": command }), Mode::ConfirmSensitive);
        let call = Call { session: SessionId::new("other").unwrap(), ..call };
        (call.id, self.gate.advance(call).await)
    }

    /// The call, and the question view that a person gets.
    async fn asked(&self, command: &str) -> (CallId, QuestionView) {
        let (call, standing) = self.shell(command).await;
        (call, self.gate.question_view(question(standing).id).await.unwrap())
    }

    async fn answer(&self, call: CallId, question: &Question, reply: Reply) -> CallResult {
        let by = ApproverIdentity { name: "ann".into(), assurance: Assurance::Terminal };
        let given = SubmittedAnswer { question: question.id, digest: question.digest(), reply, approver: by };
        self.gate.answer(given).await.unwrap();
        settled(self.gate.resume(call).await)
    }
}

fn tenant() -> TenantId {
    TenantId::new("local").unwrap()
}

fn question(standing: CallStatus) -> Question {
    let CallStatus::Waiting { question, .. } = standing else { panic!("{standing:?}") };
    question
}

fn settled(standing: CallStatus) -> CallResult {
    let CallStatus::Settled(result) = standing else { panic!("{standing:?}") };
    result
}

fn leave(offer: &ApprovalScope) -> StandingApproval {
    let (id, scope) = (StandingApprovalId::new(byleave_gate::clock::fresh_id()), offer.patterns.clone());
    StandingApproval { id, tool: "bash".into(), scope, session: None, expires_at: None, max_uses: None }
}

fn yes() -> Reply {
    Reply::Yes { note: None }
}

// req: R5
#[tokio::test]
async fn every_offer_spares_the_same_command_and_no_other() {
    for (command, others) in [
        ("git tag v1", &["git tag v1 && touch x", "rm -r src", "git tag v1 v2"][..]),
        ("mkdir -p a/b", &["mkdir -p c", "mkdir -p a/b ../../up"]),
        ("mkdir sub && touch sub/x", &["rm -r sub", "touch ../x"]),
    ] {
        let (_, sheet) = ApprovalFixture::new().asked(command).await;
        let many = approval_scopes(&sheet).unwrap().len();
        for number in 0..many {
            let desk = ApprovalFixture::new();
            let (call, sheet) = desk.asked(command).await;
            let offers = approval_scopes(&sheet).unwrap();
            desk.answer(call, &sheet.question, Reply::StandingApproval(leave(&offers[number]))).await;
            let (_, again) = desk.shell(command).await;
            assert!(settled(again).is_success(), "{command}: {:?}", offers[number]);
            for other in others.iter().filter(|_| offers[number].width == ScopeWidth::Exact) {
                let (_, asked) = desk.shell(other).await;
                assert!(
                    !matches!(asked, CallStatus::Settled(ref result) if result.is_success()),
                    "{other}: {offers:?}"
                );
                // The next call must not wait for an open question.
                if let CallStatus::Waiting { question, call } = asked {
                    desk.answer(call, &question, Reply::No { feedback: None }).await;
                }
            }
            assert_eq!(desk.ran.load(Ordering::SeqCst), 2);
        }
    }
}

// opencode#40158: a standing approval for this command applied to every rm.
// req: R5
#[tokio::test]
async fn a_leave_on_one_rm_in_a_line_is_no_leave_for_rm() {
    let desk = ApprovalFixture::new();
    let (call, sheet) = desk.asked("git status && rm -rf ./tmp").await;
    let offers = approval_scopes(&sheet).unwrap();
    for offer in &offers {
        assert!(!offer.description.contains("rm …"), "{offer:?}");
    }
    desk.answer(call, &sheet.question, Reply::StandingApproval(leave(offers.last().unwrap()))).await;
    for other in ["rm -rf ./src ../elsewhere", "rm -rf ~", "rm -rf ./tmp /"] {
        let (call, standing) = desk.shell(other).await;
        match standing {
            CallStatus::Waiting { question, .. } => {
                desk.answer(call, &question, Reply::No { feedback: None }).await;
            }
            standing => assert!(!settled(standing).is_success(), "{other}"),
        }
    }
    assert_eq!(desk.ran.load(Ordering::SeqCst), 1);
}

// Red team: the only standing approval offered for the first was `delete /w`, and the second deleted everything
// without a question.
// req: R5
#[tokio::test]
async fn no_offer_covers_more_beneath_a_directory_than_was_shown() {
    for (shown, others) in [
        ("find . -name '*.o' -delete", &["find . -mindepth 1 -delete", "find src -delete", "rm -r src"][..]),
        ("find . -name '*.o' -exec rm {} +", &["find . -exec rm {} +", "find . -mindepth 1 -delete"]),
        ("find src -name '*.o' -exec sed -i 1d {} +", &["find src -exec sed -i 1d {} +", "sed -i 1d src/*"]),
        ("git checkout -b x", &["git checkout -- '*'", "git checkout '*'"]),
        ("git checkout -- src", &["git checkout -- '*'", "git restore src"]),
        ("git rm -r src", &["git rm -r src docs", "rm -r src"]),
        ("tar xf a.tar", &["tar xf b.tar", "unzip a.zip"]),
        ("cp -r /usr/share/src .", &["cp -r /usr/share/x/src .", "unzip a.zip -d src"]),
        ("prettier --write src", &["prettier --write src docs", "gofmt -w src"]),
        ("rm -r src", &["rm -r docs", "rm -r src docs"]),
    ] {
        let many = approval_scopes(&prepared().asked(shown).await.1).unwrap().len();
        for number in 0..many {
            let desk = prepared();
            let (call, sheet) = desk.asked(shown).await;
            let offer = approval_scopes(&sheet).unwrap().swap_remove(number);
            desk.answer(call, &sheet.question, Reply::StandingApproval(leave(&offer))).await;
            assert!(settled(desk.elsewhere(shown).await.1).is_success(), "{shown}: {offer:?}");
            // For a named directory, a wider scope may be offered, if its text says so.
            for other in others.iter().filter(|_| offer.width == ScopeWidth::Exact) {
                let (call, standing) = desk.elsewhere(other).await;
                let CallStatus::Waiting { question, .. } = standing else { panic!("{other}: {offer:?}") };
                desk.answer(call, &question, Reply::No { feedback: None }).await;
            }
            assert_eq!(desk.ran.load(Ordering::SeqCst), 2, "{shown}");
        }
    }
}

/// A fixture with files.
fn prepared() -> ApprovalFixture {
    let desk = ApprovalFixture::new();
    let workspace = desk.dir.path().join("w");
    for name in ["src/main.o", "src/main.c", "docs/a", ".git/HEAD", "a.tar"] {
        let file = workspace.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
    }
    desk
}

// req: R5
#[tokio::test]
async fn a_leave_says_which_past_calls_it_would_have_covered() {
    let desk = ApprovalFixture::new();
    let (first, sheet) = desk.asked("cargo test one").await;
    desk.answer(first, &sheet.question, yes()).await;
    let (second, sheet) = desk.asked("cargo test two").await;
    desk.answer(second, &sheet.question, Reply::No { feedback: None }).await;
    let (forgotten, sheet) = desk.asked("cargo test one").await;
    desk.answer(forgotten, &sheet.question, yes()).await;
    desk.book.forget(forgotten, "ann".into(), 1).await.unwrap();
    let (other, sheet) = desk.asked("mkdir x").await;
    desk.answer(other, &sheet.question, yes()).await;
    assert!(settled(desk.shell("git status").await.1).is_success(), "nobody is asked");
    let (open, sheet) = desk.asked("cargo test one").await;
    let offers = approval_scopes(&sheet).unwrap();

    let exact = find_covered(&*desk.book, &tenant(), &leave(&offers[0]), FAR).await.unwrap();
    let calls: Vec<_> = exact.covered.iter().map(|one| (one.call, one.answer)).collect();
    assert_eq!(calls, [(first, Some(PastAnswer::Yes))]);
    assert!(exact.covered[0].summary.contains("cargo"), "{exact:?}");
    assert_eq!(
        (exact.checked, exact.unreadable, exact.has_more, exact.max_checked),
        (5, 1, false, MAX_CALLS_CHECKED)
    );

    let program = offers.iter().find(|offer| offer.width == ScopeWidth::Program).unwrap();
    let wide = find_covered(&*desk.book, &tenant(), &leave(program), FAR).await.unwrap();
    let calls: Vec<_> = wide.covered.iter().map(|one| (one.call, one.answer)).collect();
    assert_eq!(
        calls,
        [(second, Some(PastAnswer::No)), (first, Some(PastAnswer::Yes))],
        "the newest first, a no as well"
    );

    let elsewhere = StandingApproval { session: SessionId::new("other").ok(), ..leave(program) };
    assert_eq!(find_covered(&*desk.book, &tenant(), &elsewhere, FAR).await.unwrap().checked, 0);
    let other_tool = StandingApproval { tool: "tell".into(), ..leave(program) };
    assert!(find_covered(&*desk.book, &tenant(), &other_tool, FAR).await.unwrap().covered.is_empty());

    // Once given, the policy uses it.
    desk.answer(open, &sheet.question, Reply::StandingApproval(leave(program))).await;
    assert!(settled(desk.shell("cargo test two").await.1).is_success());
    let after = find_covered(&*desk.book, &tenant(), &leave(program), FAR).await.unwrap();
    let newest = &after.covered[0];
    assert!(newest.answer.is_none() && newest.standing_approval.is_some(), "a leave answered it: {newest:?}");
    assert_eq!((after.covered[1].call, after.covered[1].answer), (open, Some(PastAnswer::StandingApproval)));
}

// req: R1, R5
#[tokio::test]
async fn a_held_result_is_released_with_secrets_and_named_words_masked() {
    let desk = ApprovalFixture::new();
    let held = || async {
        let call = desk.call("tell", json!({}), Mode::Yolo);
        let (id, standing) = (call.id, desk.gate.advance(call).await);
        (id, desk.gate.question_view(question(standing).id).await.unwrap())
    };
    let (call, sheet) = held().await;
    assert_eq!(sheet.question.kind, QuestionKind::Release);
    assert!(approval_scopes(&sheet).is_err());
    let masked = redact_output(sheet.output.as_ref().unwrap(), &["acme".to_owned()]);
    assert_eq!((masked.masked_count, masked.missing_words.len()), (4, 0));
    let reply = Reply::Edit { value: json!(masked.output), note: None };
    let result = desk.answer(call, &sheet.question, reply).await;
    let CallOutcome::Completed(output) = &result.outcome else { panic!("{result:?}") };
    assert_eq!(output.text, "the client is [redacted: by a person], token=[redacted: secret]");
    let seen = format!("{:?}", result.to_report());
    for secret in ["Acme", "ACME", "abcd1234efgh", "\"pw\""] {
        assert!(!seen.contains(secret), "{secret}: {seen}");
    }
    let (call, sheet) = held().await;
    let result = desk.answer(call, &sheet.question, Reply::No { feedback: None }).await;
    assert!(!result.is_success() && !format!("{:?}", result.to_report()).contains("Acme"));
}
