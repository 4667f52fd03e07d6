//! Searching for tools by words.

use std::sync::Arc;

use byleave_gate::catalog::Catalog;
use byleave_gate::core::manifest::{Manifest, PermissionClass};
use byleave_gate::tool::Tool;
use byleave_gate::tool_search::tool_search;
use serde_json::{Value, json};

use crate::support::{ManifestOnlyTool, run};

fn tool(name: &str, hint: &str, description: &str) -> Arc<dyn Tool> {
    let mut manifest = Manifest::new(name, description, json!({"type": "object", "title": name}));
    manifest.search_hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
    Arc::new(ManifestOnlyTool(manifest))
}

fn everyday() -> Catalog {
    let catalog = Catalog::new();
    catalog
        .register_all([
            tool("read_file", "view content of a file", "Reads a file from the workspace"),
            tool("write_file", "create or overwrite file content", "Writes a file; the old content is lost"),
            tool("readme_linter", "", "Checks a document for style"),
            tool("grep", "search text in files", "Finds lines that match a pattern"),
            tool("bash", "run a shell command", "Runs a command in a shell"),
            tool("sendEmail", "", "Sends a message to a person"),
            tool("zeta", "", "Something else"),
            tool("alpha", "", "Something else"),
        ])
        .unwrap();
    catalog.register(ManifestOnlyTool::named("fetch").also("curl").also("download_page")).unwrap();
    catalog
}

fn found(catalog: &Catalog, query: &str) -> Vec<String> {
    catalog.search(query, 10).iter().map(|entry| entry.name().to_owned()).collect()
}

// req: G3
#[test]
fn tools_are_found_by_name_alias_hint_and_description() {
    let catalog = everyday();
    let first = |query: &str, wanted: &str| {
        let found = found(&catalog, query);
        assert_eq!(found.first().map(String::as_str), Some(wanted), "{query}: {found:?}");
    };
    first("read_file", "read_file");
    first("READ_FILE", "read_file");
    first("curl", "fetch");
    first("page download", "fetch");
    first("shell command", "bash");
    first("search text", "grep");
    first("lines matching pattern", "grep");
    first("overwrite", "write_file");
    first("email", "sendEmail");
    first("emails", "sendEmail");
    first("readm", "readme_linter");
    first("i want to send an email to a person", "sendEmail");
    assert_eq!(found(&catalog, "something"), ["alpha", "zeta"], "equals by name");
    assert_eq!(
        found(&catalog, "re").len(),
        2,
        "names that begin so, and nothing else: {:?}",
        found(&catalog, "re")
    );
    for nothing in ["", "  ", "qqqq", "!!", "\u{0}"] {
        assert!(found(&catalog, nothing).is_empty(), "{nothing:?}");
    }
    assert_eq!(catalog.search("file", 1).len(), 1);
    assert!(catalog.search("file", 0).is_empty());
    assert!(catalog.search(&"file ".repeat(1_000_000), 10).len() > 1);
}

// req: G3
#[test]
fn the_same_question_has_the_same_answer() {
    let catalog = everyday();
    let again = everyday();
    for query in ["file", "a", "content of file", "run search"] {
        assert_eq!(found(&catalog, query), found(&again, query));
    }
}

// req: G3
#[tokio::test]
async fn the_model_can_search_for_tools() {
    let catalog = everyday();
    let entry = catalog.register(tool_search(&catalog)).unwrap();
    let manifest = entry.manifest();
    assert_eq!(manifest.permission_class, PermissionClass::Readonly);
    assert!(manifest.read_only && manifest.concurrency_safe && manifest.idempotent);
    assert_eq!(manifest.sensitive, Some(false));

    let search = |arguments: Value| async {
        assert_eq!(entry.validator().check(&arguments, &byleave_gate::schema::JsonLimits::ARGUMENTS), Ok(()));
        entry.tool().execute(arguments, run()).await
    };
    let output = search(json!({"query": "shell", "limit": 1})).await;
    let shell = json!({"tools": [{
        "name": "bash",
        "description": "Runs a command in a shell",
        "input_schema": {"type": "object", "title": "bash"},
    }]});
    assert_eq!(output.data, Some(shell.clone()));
    assert_eq!(serde_json::from_str::<Value>(&output.text).unwrap(), shell, "the model reads the same");

    let many = (0..20).map(|i| tool(&format!("echo_{i}"), "", "Says it again"));
    catalog.register_all(many).unwrap();
    let count = |data: Option<Value>| data.unwrap()["tools"].as_array().unwrap().len();
    assert_eq!(count(search(json!({"query": "echo"})).await.data), 10, "the default");
    let itself = search(json!({"query": "tool_search"})).await;
    assert!(!itself.text.contains("tool_search"), "does not find itself: {}", itself.text);
    assert_eq!(count(search(json!({"query": "qqqq"})).await.data), 0);

    let kept = Arc::clone(entry.tool());
    drop(catalog);
    let output = kept.execute(json!({"query": "echo"}), run()).await;
    assert!(output.error.unwrap().contains("no longer exists"), "a tool does not keep its catalog alive");
}

/// Ten thousand tools, as a gateway with many servers would have.
fn large() -> Catalog {
    const VERBS: [&str; 10] =
        ["read", "write", "list", "create", "delete", "search", "update", "send", "sync", "export"];
    const NOUNS: [&str; 20] = [
        "file",
        "issue",
        "message",
        "invoice",
        "calendar",
        "contact",
        "branch",
        "pipeline",
        "secret",
        "bucket",
        "table",
        "dashboard",
        "alert",
        "ticket",
        "page",
        "user",
        "role",
        "cluster",
        "image",
        "order",
    ];
    let catalog = Catalog::new();
    let tools = (0..10_000).map(|i: usize| {
        let (verb, noun) = (VERBS[i % 10], NOUNS[i / 10 % 20]);
        let description = format!(
            "Will {verb} one {noun} in workspace {} and report what changed, with its id, owner and time of change",
            i / 200
        );
        tool(&format!("mcp_server{}_{verb}_{noun}", i / 200), &format!("{verb} {noun} by id"), &description)
    });
    catalog.register_all(tools).unwrap();
    catalog
}

// req: G3
#[test]
#[ignore = "measures time: scripts/prove tool-search"]
fn ten_thousand_tools_are_searched_quickly() {
    let catalog = large();
    let queries =
        ["delete secret", "send a message to a user", "mcp_server7_read_file", "export dash", "cluster"];
    let mut took: Vec<_> = (0..50)
        .map(|i| {
            let start = std::time::Instant::now();
            assert!(!catalog.search(queries[i % queries.len()], 10).is_empty());
            start.elapsed()
        })
        .collect();
    took.sort();
    let median = took[took.len() / 2];
    println!("figure: median {median:?}, worst {:?}", took[took.len() - 1]);
    // The target is 5 ms for optimised code. Without optimisation it must still be unnoticeable.
    let promised_ms = if cfg!(debug_assertions) { 200 } else { 5 };
    assert!(median.as_millis() < promised_ms, "{median:?}");
}
