//! Calls whose agent has gone: its hook was killed, or gave its answer and never came back.

use byleave_hook::AgentKind;
use serde_json::{Value, json};

use super::{HookFixture, PATIENT_MS, ended, is_denied, rewritten, said, start, until};

const AGENT: AgentKind = AgentKind::ClaudeCode;

/// A request of the agent to run this command.
fn runs(stand: &HookFixture, command: &str) -> Value {
    let cwd = stand.desk.world.workspace().to_str().unwrap().to_owned();
    said(AGENT, &cwd, "Bash", &json!({ "command": command }), None)
}

fn open_questions(stand: &HookFixture) -> usize {
    stand.json(&["inbox", "--json"]).as_array().unwrap().len()
}

/// Asks about a command in a hook, and kills that hook.
fn killed_while_asked(stand: &HookFixture, asks: &Value) -> String {
    let mut hook = start(stand.hook(AGENT, PATIENT_MS), asks.to_string().as_bytes());
    let question = stand.question();
    hook.kill().unwrap();
    hook.wait().unwrap();
    question
}

// req: E4, M2
#[test]
fn a_question_whose_hook_was_killed_ends() {
    for served in [false, true] {
        let stand = HookFixture::new();
        let _served = served.then(|| stand.serve());
        let asks = runs(&stand, "touch made");
        let question = killed_while_asked(&stand, &asks);
        until("the question ends", || (open_questions(&stand) == 0).then_some(()));
        let told = stand.byleave(&["inbox", "answer", &question, "yes"]);
        assert_ne!(told.status.code(), Some(0), "nobody takes the answer: {told:?}");
        assert_eq!(stand.byleave(&["resume"]).status.code(), Some(0), "and nothing is left to continue");
        // The same call is a new one.
        let hook = start(stand.hook(AGENT, PATIENT_MS), asks.to_string().as_bytes());
        assert_ne!(stand.question(), question);
        stand.answers(&["yes"]);
        assert!(rewritten(AGENT, &ended(hook)).is_some());
    }
}

// req: E4, M2
#[test]
fn a_question_whose_hook_has_ended_holds_up_no_live_agent() {
    let stand = HookFixture::new();
    let first = runs(&stand, "touch made; echo first > notes");
    let told = stand.asks_until_judged(AGENT, &first);
    assert!(String::from_utf8_lossy(&told.stderr).contains("must answer question"), "{told:?}");
    let question = stand.question();
    // The agent goes on with something that conflicts. A person is asked about it, and its answer counts at once.
    let second = runs(&stand, "touch made; echo second > notes");
    let hook = start(stand.hook(AGENT, PATIENT_MS), second.to_string().as_bytes());
    let other = until("both are asked about", || {
        let open = stand.json(&["inbox", "--json"]);
        let open = open.as_array().unwrap();
        let other = open.iter().find(|item| item["question"] != question.as_str())?;
        Some(other["question"].as_str().unwrap().to_owned())
    });
    stand.byleave(&["inbox", "answer", &other, "yes"]);
    let line = rewritten(AGENT, &ended(hook)).unwrap();
    assert_eq!(stand.shell(&line).status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(stand.file("notes")).unwrap(), "second\n");
    // The first one still waits, and finds its answer. It was tried before the second changed the same files, so it does not
    // overwrite them.
    stand.byleave(&["inbox", "answer", &question, "yes"]);
    let line = rewritten(AGENT, &stand.asks(AGENT, &first, PATIENT_MS));
    if let Some(line) = line {
        assert_ne!(stand.shell(&line).status.code(), Some(0), "what was approved is no longer so");
    }
    assert_eq!(std::fs::read_to_string(stand.file("notes")).unwrap(), "second\n");
}

// req: E4, M2
#[test]
fn resume_asks_nothing_about_a_call_whose_hook_has_ended() {
    let stand = HookFixture::new();
    let first = runs(&stand, "touch made");
    let hook = start(stand.hook(AGENT, PATIENT_MS), first.to_string().as_bytes());
    stand.question();
    // This one waits behind the first, and its hook ends.
    let second = runs(&stand, "touch made; touch more");
    let told = stand.asks_until_judged(AGENT, &second);
    assert!(is_denied(AGENT, &told), "{told:?}");
    assert!(String::from_utf8_lossy(&told.stderr).contains("comes first"), "{told:?}");
    stand.answers(&["no"]);
    assert!(is_denied(AGENT, &ended(hook)));
    let told = stand.byleave(&["resume"]);
    assert!(String::from_utf8_lossy(&told.stderr).contains("its agent is gone"), "{told:?}");
    assert_eq!(open_questions(&stand), 0, "{told:?}");
    // The same call is a new one.
    let hook = start(stand.hook(AGENT, PATIENT_MS), second.to_string().as_bytes());
    stand.answers(&["yes"]);
    assert!(rewritten(AGENT, &ended(hook)).is_some());
}
