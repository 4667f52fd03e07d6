//! Standing approvals that are chosen from a list and previewed before they are granted. Also held results that are released in part.

use std::sync::Arc;

use byleave_gate::audit_log::sqlite::{SqliteLedger, SqliteOptions};
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_gate::core::manifest::PermissionClass;
use byleave_gate::core::outcome::Output;
use byleave_gate::gate::Gate;
use byleave_gate::result::CallStatus;
use byleave_gate::review::hold_reviewer;
use byleave_gate::settings::GateSettings;
use byleave_gate::typed_tool::TypedTool;
use serde_json::{Value, json};

use crate::world::CliTestWorld;

fn ask(world: &mut CliTestWorld, path: &str) -> String {
    let args = format!(r#"{{"path":"{path}","line":"x"}}"#);
    world.run(&["call", "append_line", "--ask", "inbox", "--args", &args]);
    world.question()
}

// req: R5
#[test]
fn a_leave_is_chosen_looked_at_and_given() {
    let mut world = CliTestWorld::new();
    let first = ask(&mut world, "notes/a.txt");
    std::fs::create_dir(world.workspace().join("notes")).unwrap();
    world.run(&["inbox", "answer", &first, "yes"]);
    let second = ask(&mut world, "notes/b.txt");
    world.run(&["inbox", "answer", &second, "no"]);
    let third = ask(&mut world, "notes/a.txt");
    world.run(&["inbox", "answer", &third, "standing-approval"]);
    world.run(&["inbox", "answer", &third, "standing-approval", "--preview"]);
    world.run(&["inbox", "answer", &third, "standing-approval", "--scope", "1", "--preview"]);
    world.run(&[
        "inbox",
        "answer",
        &third,
        "standing-approval",
        "--scope",
        "2",
        "--preview",
        "--for",
        "150m",
        "--uses",
        "3",
    ]);
    world.run(&["inbox", "answer", &third, "standing-approval", "--scope", "9"]);
    world.run(&["inbox", "answer", &third, "standing-approval", "--scope", "1", "--pattern", "write:/w/**"]);
    world.run(&[
        "inbox",
        "answer",
        &third,
        "standing-approval",
        "--pattern",
        "write:/elsewhere",
        "--preview",
    ]);
    assert_eq!(world.question(), third, "nothing was answered");
    world.run(&[
        "inbox",
        "answer",
        &third,
        "standing-approval",
        "--scope",
        "2",
        "--uses",
        "3",
        "--every-session",
    ]);
    world.note("the same directory no longer asks, another one does");
    world.run(&["call", "append_line", "--args", r#"{"path":"notes/c.txt","line":"x"}"#]);
    world.run(&["call", "append_line", "--args", r#"{"path":"other.txt","line":"x"}"#]);
    world.run(&["policy", "approvals"]);
    insta::assert_snapshot!(world.transcript());
}

// req: R5
#[test]
fn offers_and_previews_as_json() {
    let mut world = CliTestWorld::new();
    let question = ask(&mut world, "a.txt");
    world.run(&["inbox", "answer", &question, "standing-approval", "--json"]);
    world.run(&["inbox", "answer", &question, "standing-approval", "--scope", "1", "--preview", "--json"]);
    world.run(&["inbox", "answer", &question, "standing-approval", "--scope", "1", "--json"]);
    insta::assert_snapshot!(world.transcript());
}

// req: R5, R8
#[test]
fn where_no_leave_helps_it_is_said() {
    let mut world = CliTestWorld::bare().of_another_user();
    let args = r#"{"command":"git push origin main"}"#;
    world.run(&["call", "bash", "--ask", "inbox", "--args", args]);
    let question = world.question();
    world.run(&["inbox", "answer", &question, "standing-approval"]);
    world.run(&["inbox", "answer", &question, "standing-approval", "--scope", "1"]);
    world.run(&["inbox", "answer", &question, "release"]);
    world.run(&["inbox", "answer", &question, "redact"]);
    assert_eq!(world.question(), question);
    insta::assert_snapshot!(world.transcript());
}

/// Creates a result in the audit log that a reviewer of an application held back. The program itself has no such reviewer.
fn held(world: &CliTestWorld, text: &'static str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let book = Arc::new(SqliteLedger::open(&world.state(), &SqliteOptions::default()).unwrap());
        let tell =
            move |_: Value, _run| async move { Output::text(text).with_data(json!({"client": "ACME"})) };
        let gate = Gate::builder()
            .ledger(book)
            .tool(
                TypedTool::new("tell", "tells", tell)
                    .permission_class(PermissionClass::Readonly)
                    .not_sensitive(),
            )
            .review_output("tell", hold_reviewer("a person reads it first"))
            .settings(GateSettings { inbox: true, ..GateSettings::default() })
            .build()
            .unwrap();
        let call = Call {
            id: CallId::new(byleave_gate::clock::fresh_id()),
            tenant: TenantId::new("local").unwrap(),
            session: SessionId::new("app").unwrap(),
            agent: AgentId::new("app").unwrap(),
            tool: "tell".into(),
            arguments: json!({}),
            reason: None,
            cwd: world.workspace().to_str().unwrap().into(),
            mode: Mode::Yolo,
            dry_run: false,
        };
        let standing = gate.advance(call).await;
        assert!(matches!(standing, CallStatus::Waiting { .. }), "{standing:?}");
    });
}

// req: R1, R5
#[test]
fn a_held_result_is_redacted_released_or_withheld() {
    let mut world = CliTestWorld::new();
    held(&world, "Acme pays, token=abcd1234efgh");
    let question = world.question();
    world.run(&["inbox", "show", &question]);
    world.run(&["inbox", "answer", &question, "standing-approval"]);
    world.run(&["inbox", "answer", &question, "redact", "--text", "Acme", "--text", "Emca"]);
    let ended = world.run(&["inbox", "answer", &question, "redact", "--text", "Acme"]);
    let said = String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap();
    assert!(!said.to_lowercase().contains("acme") && !said.contains("abcd1234efgh"), "{said}");
    held(&world, "plain");
    let question = world.question();
    world.note("nothing in it is shaped like a secret");
    world.run(&["inbox", "answer", &question, "redact"]);
    world.run(&["inbox", "answer", &question, "release"]);
    held(&world, "plain");
    world.run(&["inbox", "answer", &world.question(), "withhold", "--feedback", "ask the bank"]);
    insta::assert_snapshot!(world.transcript());
}
