//! `byleave log show` and `byleave log` for people: one call is one line, with who answered what, on the clock of the reader.

use byleave_hook::AgentKind;
use regex::Regex;
use serde_json::json;

use crate::hooks::{HookFixture, PATIENT_MS, said};
use crate::world::CliTestWorld;

const NOTE: &str = r#"{"path":"notes.txt","line":"first"}"#;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Makes one call and answers it like this. Returns its id.
fn asked(world: &CliTestWorld, answer: &[&str]) -> String {
    world.quietly(&["call", "append_line", "--ask", "inbox", "--reason", "a diary", "--args", NOTE], "");
    let question = world.question();
    world.quietly(&[&["inbox", "answer", &question], answer].concat(), "");
    world.call()
}

// req: A1, A3
#[test]
fn log_show_says_what_happened_and_who_answered_what() {
    let mut world = CliTestWorld::new();
    for answer in [&["yes"][..], &["no", "--feedback", "use the journal"], &["abort"]] {
        let call = asked(&world, answer);
        world.run(&["log", "show", &call]);
    }
    world.quietly(&["call", "append_line", "--ask", "inbox", "--args", NOTE], "");
    world.run(&["log", "show", &world.call()]);
    world.run(&["log"]);
    let call = world.call();
    world.run(&["log", "show", &call, "--full"]);
    let clock = Regex::new(r"(?m)^([ ⚠]) \d\d:\d\d:\d\d ").unwrap();
    let took = Regex::new(r"for \d+\.\d s").unwrap();
    let waited = Regex::new(r" after \d+ s").unwrap();
    let told = world.transcript();
    let told = clock.replace_all(&told, "$1 [clock] ").into_owned();
    let told = took.replace_all(&told, "for [n] s").into_owned();
    insta::assert_snapshot!(waited.replace_all(&told, "").into_owned());
}

// req: A1
#[test]
fn times_are_on_the_clock_of_the_reader() {
    let world = CliTestWorld::new();
    world.quietly(&["call", "echo", "--args", r#"{"text":"hi"}"#], "");
    let call = world.call();
    let shown = |zone: &str, words: &[&str]| {
        let mut command = world.command(std::path::Path::new(env!("CARGO_BIN_EXE_byleave")));
        text(&command.args(words).env("TZ", zone).output().unwrap().stdout)
    };
    let minute = |told: &str| {
        let found = Regex::new(r"\d{4}-\d\d-\d\d (\d\d):(\d\d):\d\d").unwrap().captures(told).unwrap();
        found[1].parse::<u32>().unwrap() * 60 + found[2].parse::<u32>().unwrap()
    };
    for words in [&["log"][..], &["log", "show", &call], &["log", "show", &call, "--full"]] {
        let (utc, ahead) = (shown("UTC", words), shown("<+0330>-03:30", words));
        assert_eq!((minute(&utc) + 210) % 1_440, minute(&ahead), "{utc}{ahead}");
    }
    assert!(shown("<+0330>-03:30", &["log", "show", &call]).contains("(UTC+03:30)"));
    // A date is what the reader's clock shows. A `Z` says that it is in UTC.
    for (since, is_found) in [("2020-01-01", true), ("2099-01-01T00:00Z", false)] {
        let found = shown("<+0330>-03:30", &["log", "--since", since]);
        assert_eq!(found.contains("echo"), is_found, "{found}");
    }
}

// req: A1, M2
#[test]
fn a_call_of_an_agent_and_its_report_are_one_call() {
    let stand = HookFixture::new();
    let cwd = stand.desk.world.workspace().to_str().unwrap().to_owned();
    let dialect = AgentKind::ClaudeCode;
    let input = json!({ "file_path": format!("{cwd}/notes.txt") });
    for response in [None, Some(json!({ "ok": true }))] {
        let request = said(dialect, &cwd, "Read", &input, response.as_ref());
        let told = stand.asks(dialect, &request, PATIENT_MS);
        assert_eq!(told.status.code(), Some(0), "{told:?}");
    }
    // The record of the report is still there.
    let records = stand.json(&["log", "--json"]);
    assert_eq!(records.as_array().unwrap().len(), 2, "{records}");
    assert_eq!(records[0]["tool"], "agent_ran");
    let listed = text(&stand.byleave(&["log"]).stdout);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(listed.contains("claude-code:Read") && !listed.contains("agent_ran"), "{listed}");
    let reports = text(&stand.byleave(&["log", "--tool", "agent_ran"]).stdout);
    assert!(reports.contains("agent_ran"), "{reports}");
    let stats = stand.json(&["log", "stats", "--json"]);
    assert_eq!((&stats["calls"], &stats["outcomes"]["completed"]), (&1.into(), &1.into()), "{stats}");
    assert_eq!(stats["tools"].as_array().unwrap().len(), 1, "{stats}");
    let stats = stand.json(&["log", "stats", "--tool", "agent_ran", "--json"]);
    assert_eq!(stats["calls"], 1, "{stats}");
    let shown = text(&stand.byleave(&["log", "show", records[1]["call"].as_str().unwrap()]).stdout);
    assert!(shown.contains("reported   by the agent: it is done"), "{shown}");
    // A call that only has the name of a report is listed.
    stand.byleave(&["call", "agent_ran", "--session", "cli:after:0190a000-0000-7000-8000-00000000cafe"]);
    let listed = text(&stand.byleave(&["log"]).stdout);
    assert!(listed.contains("agent_ran") && listed.contains("tool-unknown"), "{listed}");
}
