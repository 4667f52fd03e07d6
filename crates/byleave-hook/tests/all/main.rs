//! The requests and responses of each agent's hook, taken from the agent's documentation.

mod recorded_tools;

use byleave_hook::{AgentKind, HookDecision, HookEvent, HookParseError, format_response, parse_request};
use serde_json::{Value, json};

/// Returns the request that each agent sends before it runs a shell command.
fn asked(dialect: AgentKind) -> Value {
    match dialect {
        AgentKind::ClaudeCode => json!({
            "session_id": "abc", "transcript_path": "/t/abc.jsonl", "cwd": "/w", "prompt_id": "p1", "permission_mode": "default",
            "hook_event_name": "PreToolUse", "tool_name": "Bash",
            "tool_input": {"command": "make", "description": "Build", "timeout": 60000}, "tool_use_id": "toolu_01"
        }),
        AgentKind::Codex => json!({
            "session_id": "abc", "turn_id": "t1", "cwd": "/w", "transcript_path": null, "model": "m", "permission_mode": "default",
            "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "make"}, "tool_use_id": "call_1"
        }),
        AgentKind::Gemini => json!({
            "session_id": "abc", "transcript_path": "/t", "cwd": "/w", "hook_event_name": "BeforeTool",
            "timestamp": "2026-11-14T10:00:00Z", "tool_name": "run_shell_command", "tool_input": {"command": "make"}
        }),
        AgentKind::Cursor => json!({
            "conversation_id": "abc", "generation_id": "g", "hook_event_name": "preToolUse", "workspace_roots": ["/w"],
            "cursor_version": "2", "tool_name": "Shell", "tool_input": "{\"command\":\"make\"}"
        }),
        AgentKind::Goose => json!({
            "event": "PreToolUse", "session_id": "abc", "matcher_context": "developer__shell", "tool_name": "developer__shell",
            "tool_input": {"command": "make"}, "working_dir": "/w"
        }),
        AgentKind::Copilot => json!({
            "sessionId": "abc", "timestamp": 1_788_992_290_306_u64, "cwd": "/w", "toolName": "bash",
            "toolArgs": {"command": "make", "description": "Build", "mode": "sync", "initial_wait": 10}
        }),
    }
}

// req: M2
#[test]
fn every_dialect_is_heard() {
    for dialect in AgentKind::ALL {
        let heard = parse_request(dialect, asked(dialect).to_string().as_bytes()).unwrap();
        let name = dialect.name();
        assert_eq!((heard.kind, heard.session.as_str()), (HookEvent::PreToolUse, "abc"), "{name}");
        assert_eq!(heard.command(), Some("make"), "{name}");
        // Cursor names the open directory. For the others it is the directory of the hook process, not one that the model may
        // have chosen.
        let (cwd, workspace) =
            if dialect == AgentKind::Cursor { (None, "/w") } else { (Some("/w"), "/here") };
        assert_eq!((heard.cwd.as_deref(), heard.workspace("/here").as_str()), (cwd, workspace), "{name}");
        assert_eq!(heard.can_rewrite_input, dialect.can_rewrite_input(), "{name}");
        assert_eq!(AgentKind::from_name(name), Some(dialect));
    }
}

// req: M2
#[test]
fn what_is_not_understood_is_never_heard_as_something_else() {
    for dialect in AgentKind::ALL {
        for said in ["", "{", "[]", "null", "3", "{}", "\u{feff}{}", "{\"hook_event_name\":\"PreToolUse\"}"] {
            assert!(parse_request(dialect, said.as_bytes()).is_err(), "{} {said}", dialect.name());
        }
        assert!(parse_request(dialect, b"\xff{}").is_err());
        // An event of a newer agent, which may wait for a response.
        let mut said = asked(dialect);
        for key in ["hook_event_name", "event"] {
            if said.get(key).is_some() {
                said[key] = "PreToolUseToo".into();
                assert!(matches!(
                    parse_request(dialect, said.to_string().as_bytes()),
                    Err(HookParseError::UnknownEvent(_))
                ));
            }
        }
        for key in ["tool_input", "toolArgs"] {
            for input in [json!([1]), json!("not json"), json!(7)] {
                let mut said = asked(dialect);
                if said.get(key).is_some() {
                    said[key] = input;
                    assert!(
                        parse_request(dialect, said.to_string().as_bytes()).is_err(),
                        "{}",
                        dialect.name()
                    );
                }
            }
        }
    }
}

// req: M2
#[test]
fn what_is_printed() {
    let mut all = String::new();
    let rewritten =
        json!({"command": "/usr/bin/byleave --state /s exec 0190b0a0-0000-7000-8000-000000000001"});
    let answers = [
        ("allow", HookDecision::Allow { note: None }),
        ("allow with a note", HookDecision::Allow { note: Some("ann: once".into()) }),
        ("rewrite", HookDecision::Rewrite { input: rewritten, note: None }),
        ("deny", HookDecision::Deny { reason: "rule `x` says no".into() }),
        ("deny without a word", HookDecision::Deny { reason: " ".into() }),
    ];
    for dialect in AgentKind::ALL {
        all.push_str(&format!("## {}\n", dialect.name()));
        let heard = parse_request(dialect, asked(dialect).to_string().as_bytes()).unwrap();
        let after = byleave_hook::HookRequest { kind: HookEvent::PostToolUse, ..heard.clone() };
        let before = answers
            .iter()
            .map(|(what, answer)| ((*what).to_owned(), format_response(dialect, Some(&heard), answer)));
        let others = [
            ("afterwards".to_owned(), format_response(dialect, Some(&after), &answers[0].1)),
            ("afterwards, not recorded".to_owned(), format_response(dialect, Some(&after), &answers[3].1)),
            ("not heard, and yet an allow".to_owned(), format_response(dialect, None, &answers[0].1)),
        ];
        for (what, said) in before.chain(others) {
            let (out, err) = (said.stdout.trim_end(), said.stderr.trim_end());
            all.push_str(&format!("{what}: exit {}\n  out: {out}\n  err: {err}\n", said.exit_code));
            assert!(
                said.exit_code != 2 || !err.is_empty(),
                "exit 2 without a word lets a call pass in Codex"
            );
        }
    }
    insta::assert_snapshot!(all);
}

// req: M2
#[test]
fn an_editor_is_answered_in_its_own_keys() {
    let said = json!({
        "hook_event_name": "PreToolUse", "session_id": "abc", "cwd": "/w", "tool_name": "run_in_terminal",
        "tool_input": {"command": "make", "explanation": "x", "isBackground": false}
    });
    let heard = parse_request(AgentKind::Copilot, said.to_string().as_bytes()).unwrap();
    let said = format_response(AgentKind::Copilot, Some(&heard), &HookDecision::Deny { reason: "no".into() });
    let value: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(value["hookSpecificOutput"]["permissionDecision"], "deny");
}

// req: M2
#[test]
fn the_end_of_a_turn_never_makes_an_agent_go_on() {
    for (dialect, event) in
        [(AgentKind::ClaudeCode, "Stop"), (AgentKind::Codex, "Stop"), (AgentKind::Gemini, "AfterAgent")]
    {
        let said = json!({
            "session_id": "abc", "transcript_path": "/t", "cwd": "/w", "hook_event_name": event, "stop_hook_active": true
        });
        let heard = parse_request(dialect, said.to_string().as_bytes()).unwrap();
        assert_eq!((heard.kind, heard.tool.as_str()), (HookEvent::TurnEnd, ""));
        let nothing = format_response(dialect, Some(&heard), &HookDecision::Allow { note: None });
        assert_eq!((nothing.stdout.as_str(), nothing.stderr.as_str(), nothing.exit_code), ("", "", 0));
        for answer in
            [HookDecision::Notice { text: "a line".into() }, HookDecision::Deny { reason: "a line".into() }]
        {
            let said = format_response(dialect, Some(&heard), &answer);
            let value: Value = serde_json::from_str(&said.stdout).unwrap();
            assert_eq!((value, said.exit_code), (json!({ "systemMessage": "a line" }), 0));
        }
    }
}

// req: M2
#[test]
fn a_notice_after_a_tool_reaches_the_person_and_the_agent() {
    for dialect in AgentKind::ALL {
        let heard = parse_request(dialect, asked(dialect).to_string().as_bytes()).unwrap();
        let after = byleave_hook::HookRequest { kind: HookEvent::PostToolUse, ..heard.clone() };
        let notice = HookDecision::Notice { text: "other bytes".into() };
        let said = format_response(dialect, Some(&after), &notice);
        let both = format!("{}{}", said.stdout, said.stderr);
        assert!(both.contains("other bytes"), "{dialect:?}: {said:?}");
        // Before a tool there is nothing to tell, so a mistake there is a deny.
        let before = format_response(dialect, Some(&heard), &notice);
        let denied =
            format_response(dialect, Some(&heard), &HookDecision::Deny { reason: "other bytes".into() });
        assert_eq!(before, denied, "{dialect:?}");
    }
}

// req: M2
#[test]
fn a_report_says_whether_its_tool_failed() {
    let report = |event: &str, response: Value| {
        let said = json!({
            "session_id": "abc", "cwd": "/w", "hook_event_name": event, "tool_name": "Write",
            "tool_input": {"file_path": "/w/a"}, "tool_response": response
        });
        parse_request(AgentKind::ClaudeCode, said.to_string().as_bytes()).unwrap()
    };
    for (event, response, failed) in [
        ("PostToolUse", json!({"filePath": "/w/a"}), false),
        ("PostToolUse", json!({"success": true, "error": null}), false),
        ("PostToolUse", json!("done"), false),
        ("PostToolUse", json!({"error": "no such file"}), true),
        ("PostToolUse", json!({"success": false}), true),
        ("PostToolUse", json!({"resultType": "denied"}), true),
        ("PostToolUseFailure", json!(null), true),
    ] {
        assert_eq!(report(event, response.clone()).is_failure_report(), failed, "{event} {response}");
    }
    assert_eq!(report("PostToolUse", json!({"filePath": "/w/b"})).reported_path(), Some("/w/b"));
}
