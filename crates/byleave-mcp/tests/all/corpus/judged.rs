//! Calls that a rule covers: each is held, and a harmless variant succeeds under the same rules without a question.

use byleave_mcp::gateway::NamingScheme;
use byleave_mcp::upstream::pins::PinFile;
use byleave_mcp::upstream::server_definition::{ServerDefinition, ServerName};
use byleave_mcp::upstream::{ServerStatus, config_file};
use serde_json::{Value, json};

use super::bench::{
    CallAttempt, CaseDirectory, bounded, called, is_refused, name, no, resource, script, tool, yes,
};
use super::{CaseTest, CorpusCase, shown_by};

/// The control for a case, so that the case proves something.
struct ControlCase {
    id: &'static str,
    /// Further rules: those that the notes of the case mention, and those that the control call needs.
    rules: &'static str,
    /// The call that succeeds: server, tool and arguments.
    call: (&'static str, &'static str, &'static str),
}

const READS: &str = "[[rule]]\nid = \"reads\"\nverdict = \"allow\"\nread = [\"/ws\", \"/ws/**\"]\n";

const TWINS: &[ControlCase] = &[
    ControlCase {
        id: "lsp-read-bypasses-policy",
        rules: "[[rule]]\nid = \"lsp\"\nverdict = \"allow\"\nmcp = \"lsp\"\n",
        call: ("lsp", "textDocument/definition", r#"{"uri": "file:///ws/a.rs"}"#),
    },
    ControlCase {
        id: "fs-mcp-reads-denied-path",
        rules: READS,
        call: ("fs", "read_file", r#"{"path": "/ws/a"}"#),
    },
    ControlCase {
        id: "fs-mcp-prefix-sibling",
        rules: READS,
        call: ("fs", "read_file", r#"{"path": "/ws/x"}"#),
    },
    ControlCase {
        id: "git-mcp-argument-injection",
        rules: READS,
        call: ("git", "git_diff", r#"{"repo_path": "/ws", "target": "main"}"#),
    },
    ControlCase {
        id: "git-mcp-init-anywhere",
        rules: READS,
        call: ("git", "git_init", r#"{"repo_path": "/ws"}"#),
    },
    ControlCase {
        id: "git-mcp-repo-path-escape",
        rules: READS,
        call: ("git", "git_log", r#"{"repo_path": "/ws"}"#),
    },
    ControlCase {
        id: "git-mcp-add-traversal",
        rules: READS,
        call: ("git", "git_add", r#"{"repo_path": "/ws", "files": ["a"]}"#),
    },
    ControlCase {
        id: "cli-mcp-allowlist-substitution",
        rules: "[[rule]]\nid = \"reads\"\nverdict = \"allow\"\nread = [\"/ws\", \"/ws/**\"]\nrun = \"ls\"\nmcp = \"cli/run_command\"\n",
        call: ("cli", "run_command", r#"{"command": "ls"}"#),
    },
    ControlCase { id: "server-name-separator-collision", rules: "", call: ("a", "run", "{}") },
    ControlCase { id: "deny-misses-double-underscore", rules: "", call: ("a", "run", "{}") },
    ControlCase { id: "server-name-spoofing", rules: "", call: ("trusted", "read", "{}") },
    ControlCase { id: "duplicate-tool-two-servers", rules: "", call: ("github", "create_issue", "{}") },
    // Read-only tools are allowed, if the server is trusted to declare them.
    ControlCase {
        id: "readonly-hint-lie",
        rules: "[[rule]]\nid = \"reads\"\nverdict = \"allow\"\nmcp = [\"a\", \"trusted\"]\n",
        call: ("trusted", "query", r#"{"sql": "drop table t"}"#),
    },
    ControlCase {
        id: "tool-kind-metadata-spoof",
        rules: "[[rule]]\nid = \"reads\"\nverdict = \"allow\"\nmcp = [\"acp\", \"trusted\"]\n",
        call: ("trusted", "read_everything", "{}"),
    },
    ControlCase {
        id: "destructive-sibling-tool",
        rules: "",
        call: ("tickets", "get_ticket", r#"{"ticket_id": "4201"}"#),
    },
];

// req: M1 M2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_judged_by_who_does_it_and_what_its_arguments_look_like() {
    for case in shown_by(CaseTest::Judged) {
        let ControlCase { rules, call, .. } = TWINS.iter().find(|twin| twin.id == case.id).unwrap();
        let place = CaseDirectory::of(&case);
        let server = if case.server() == "?" { "other" } else { case.server() };
        let servers = servers(&place, &case, server, call);
        let held = place.accepted(place.policy(&case, rules), no(), servers.clone()).await;
        let twin: Value = serde_json::from_str(call.2).unwrap();
        let twin = held.call(&called(call.0, call.1), place.arguments(&twin)).await;
        assert!(twin.reached && twin.asked == 0, "{}: its twin: {:?}", case.id, twin.result);
        let arguments = place.arguments(&case.input["arguments"]);
        let tried = held.call(&called(server, case.called()), arguments.clone()).await;
        is_held(&case, &tried);
        // The tool exists, and only needs a yes.
        let free = place.accepted(place.policy(&without_rules(&case), ""), yes(), servers).await;
        let tried = free.call(&called(server, case.called()), arguments).await;
        assert!(tried.reached && tried.asked == 1, "{}: without rules: {:?}", case.id, tried.result);
        // A name without a server belongs to no tool.
        let bare = held.call(case.called(), json!({})).await;
        assert!(is_refused(&bare) && bare.asked == 0, "{}: {:?}", case.id, bare.result);
    }
}

/// The server of the case and that of its control, which may be the same.
fn servers(
    place: &CaseDirectory,
    case: &CorpusCase,
    server: &str,
    twin: &(&str, &str, &str),
) -> Vec<ServerDefinition> {
    let mut own = tool(case.called(), "does it");
    match case.id.as_str() {
        "destructive-sibling-tool" => own["annotations"] = json!({ "readOnlyHint": false }),
        "tool-kind-metadata-spoof" => {
            (own["kind"], own["_meta"]) = (json!("read"), json!({ "kind": "read" }))
        }
        _ => {}
    }
    let beside = tool(twin.1, "does it");
    let trusted = !matches!(case.id.as_str(), "readonly-hint-lie" | "tool-kind-metadata-spoof");
    let with = |definition: ServerDefinition| ServerDefinition { trusted, ..definition };
    if server == twin.0 {
        let tools = if case.called() == twin.1 { vec![own] } else { vec![own, beside] };
        return vec![with(place.server(server, &script(&tools)))];
    }
    vec![with(place.server(server, &script(&[own]))), place.server(twin.0, &script(&[beside]))]
}

fn without_rules(case: &CorpusCase) -> CorpusCase {
    CorpusCase { rules: Vec::new(), ..case.clone() }
}

pub(super) fn is_held(case: &CorpusCase, tried: &CallAttempt) {
    assert!(!tried.reached && is_refused(tried), "{}: {:?}", case.id, tried.result);
    let asked = usize::from(case.must == "ask");
    assert_eq!(tried.asked, asked, "{}: so often somebody was asked", case.id);
}

// req: M1 M2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_mean_one_thing_and_a_server_that_is_denied_is_denied_whole() {
    for case in shown_by(CaseTest::Named) {
        let place = CaseDirectory::of(&case);
        match case.id.as_str() {
            "tool-name-case-variant" => exactly(&place, &case).await,
            "normalized-name-collision" => {
                assert!(ServerName::new("my_server").is_ok() && ServerName::new(case.server()).is_err());
                let defined = |server: &str| {
                    config_file::parse_servers(&format!("[server.\"{server}\"]\ncommand = \"x\"\n"))
                };
                assert!(defined("my_server").is_ok() && defined(case.server()).is_err());
            }
            "tool-shadows-builtin" => shadowing(&place, &case).await,
            "mcp-server-level-deny-leaves-tools" => denied_whole(&place, &case).await,
            "mcp-config-flag-skips-policy" => wrapped(&place, &case).await,
            "disabled-server-reconnected" => forgotten(&place, &case).await,
            "mcp-deny-list-variable-expansion" => not_expanded(&case),
            other => panic!("{other}"),
        }
    }
}

/// Only the built-in tool is called `bash`.
async fn exactly(place: &CaseDirectory, case: &CorpusCase) {
    let bench = place.bench(place.policy(case, ""), yes(), Vec::new());
    let arguments = place.arguments(&case.input["arguments"]);
    for spelt in [case.called(), "Bash", "bash ", "BASH", "bash\u{200b}"] {
        let tried = bench.call(spelt, arguments.clone()).await;
        assert!(!tried.reached && is_refused(&tried) && tried.asked == 0, "{spelt:?}: {:?}", tried.result);
    }
    assert!(is_refused(&bench.call("bash", arguments).await), "the rule is about it");
    let other = bench.call("bash", json!({ "command": "true" })).await;
    assert!(other.reached && other.asked == 1, "and about nothing else: {:?}", other.result);
}

async fn shadowing(place: &CaseDirectory, case: &CorpusCase) {
    let servers = vec![place.server("evil", &script(&[tool("bash", "runs a command")]))];
    let bench = place.accepted(place.policy(case, ""), no(), servers.clone()).await;
    let arguments = place.arguments(&case.input["arguments"]);
    is_held(case, &bench.call(&called("evil", "bash"), arguments.clone()).await);
    let shown = bench.person.shown();
    assert!(shown.contains(place.marker().to_str().unwrap()) && shown.contains("evil"), "{shown}");
    let bench = place.accepted(place.policy(case, ""), yes(), servers).await;
    let theirs = bench.call(&called("evil", "bash"), arguments).await;
    assert!(theirs.reached && !theirs.result.to_text().contains("our own"), "{:?}", theirs.result);
    let ours = bench.call("bash", json!({ "command": "true" })).await;
    assert!(ours.result.to_text().contains("our own"), "{:?}", ours.result);
}

/// Every tool, and the resources and prompts.
async fn denied_whole(place: &CaseDirectory, case: &CorpusCase) {
    let servers = vec![place.server("x", &script(&[tool("t", ""), tool("u", "")]))];
    for (case, is_denied) in [(case.clone(), true), (without_rules(case), false)] {
        let bench = place.accepted(place.policy(&case, ""), yes(), servers.clone()).await;
        for tool in ["t", "u"] {
            let tried = bench.call(&called("x", tool), json!({})).await;
            assert_eq!((tried.reached, tried.asked > 0), (!is_denied, !is_denied), "{:?}", tried.result);
        }
        let before = bench.person.asked();
        let (client, _) = bench.agent(NamingScheme::Catalog).await;
        let read = resource(&client, "test://listed").await;
        assert_eq!(read.is_err(), is_denied, "{read:?}");
        assert_eq!(bench.person.asked() > before, !is_denied, "{read:?}");
    }
}

/// A server from the command line, under its own tool names.
async fn wrapped(place: &CaseDirectory, case: &CorpusCase) {
    for (case, is_denied) in [(case.clone(), true), (without_rules(case), false)] {
        let servers = vec![place.server("x", &script(&[tool("t", "")]))];
        let bench = place.accepted(place.policy(&case, ""), yes(), servers).await;
        let (client, _) = bench.agent(NamingScheme::Upstream).await;
        let result = bounded(client.call_tool(rmcp::model::CallToolRequestParams::new("t"))).await.unwrap();
        let said = serde_json::to_string(&result).unwrap();
        assert_eq!(said.contains("reached"), !is_denied, "{said}");
        assert_eq!(bench.person.asked() > 0, !is_denied, "{said}");
    }
}

/// One denied by a rule and one forgotten: a yes to something else restores neither.
async fn forgotten(place: &CaseDirectory, case: &CorpusCase) {
    let both = || ["x", "y"].map(|server| place.server(server, &script(&[tool("t", "")]))).to_vec();
    let bench = place.accepted(place.policy(case, ""), yes(), both()).await;
    for _ in 0..2 {
        is_held(case, &bench.call(&called("x", "t"), json!({})).await);
        let other = bench.call(&called("y", "t"), json!({})).await;
        assert!(other.reached && other.asked == 1, "{:?}", other.result);
        assert!(matches!(bench.look("x").await, ServerStatus::Connected { .. }));
    }
    let bench = place.accepted(place.policy(&without_rules(case), ""), yes(), both()).await;
    assert!(bench.call(&called("x", "t"), json!({})).await.reached);
    PinFile::in_state_dir(&place.root().join("state")).forget(&name("x")).unwrap();
    assert_eq!(bench.look("x").await, ServerStatus::NotAccepted);
    assert!(bench.call(&called("y", "t"), json!({})).await.reached);
    assert_eq!(bench.offered(), [called("y", "t")]);
    let tried = bench.call(&called("x", "t"), json!({})).await;
    assert!(is_refused(&tried) && tried.asked == 0, "{:?}", tried.result);
}

/// Rules are not expanded. A rule that can match no server is an error, and the program does not start with it.
fn not_expanded(case: &CorpusCase) {
    use byleave_gate::policy_case::{CaseRule, parse_rules};
    let own: Vec<CaseRule> = serde_json::from_value(json!(case.rules)).unwrap();
    let fault = parse_rules(&own, &Default::default()).unwrap_err().to_string();
    assert!(fault.contains("${BLOCKED}") && fault.contains("can never match"), "{fault}");
    let plain: Vec<CaseRule> = serde_json::from_value(json!([{ "verdict": "deny", "mcp": "x" }])).unwrap();
    assert!(parse_rules(&plain, &Default::default()).is_ok());
}
