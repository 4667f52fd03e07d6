//! The corpus cases about MCP, and the test for each. Every case must have one.
//!
//! Each case runs in its own directory, with servers as real processes behind a gate that has only the case's rules. A
//! control shows first that the server works: the same call, or a harmless variant, succeeds. So no case passes only
//! because the server is missing. The table goes into docs/security/scores.md, written by `BYLEAVE_SCORES=write cargo
//! nextest run -p byleave-mcp -E 'test(corpus)'`.

mod bench;
mod changed;
mod judged;
mod said;
mod started;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use self::bench::source;

/// How a case is covered.
#[derive(Clone, Copy)]
enum CaseCoverage {
    /// A test in this crate.
    Here(&'static str, CaseTest),
    /// A test of another crate: its file and its name.
    There(&'static str, &'static str),
}

/// The tests in this crate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CaseTest {
    Judged,
    Named,
    Launched,
    Redefined,
    Described,
    NotStarted,
    Resources,
    Requests,
    Results,
    Confined,
}
use CaseCoverage::{Here, There};

const SEARCHING: &str = "crates/byleave-tools/tests/all/searching.rs";
const HIDDEN: &str = "what_rules_hide_is_left_out_and_told";

const CASES: &[(&str, CaseCoverage)] = &[
    // Built-in tools.
    ("search-tool-returns-denied-content", There(SEARCHING, HIDDEN)),
    ("glob-tool-lists-denied-names", There(SEARCHING, HIDDEN)),
    ("search-path-argument-inside-denied", There(SEARCHING, HIDDEN)),
    ("brace-alternatives-hide-denied", There(SEARCHING, HIDDEN)),
    ("tool-name-case-variant", Here("a name is that of a tool, or of none", CaseTest::Named)),
    // Arguments are evaluated as effects.
    ("lsp-read-bypasses-policy", Here(ARGUMENTS, CaseTest::Judged)),
    ("fs-mcp-reads-denied-path", Here(ARGUMENTS, CaseTest::Judged)),
    ("fs-mcp-prefix-sibling", Here(ARGUMENTS, CaseTest::Judged)),
    ("git-mcp-argument-injection", Here(ARGUMENTS, CaseTest::Judged)),
    ("git-mcp-init-anywhere", Here(ARGUMENTS, CaseTest::Judged)),
    ("git-mcp-repo-path-escape", Here(ARGUMENTS, CaseTest::Judged)),
    ("git-mcp-add-traversal", Here(ARGUMENTS, CaseTest::Judged)),
    ("cli-mcp-allowlist-substitution", Here(ARGUMENTS, CaseTest::Judged)),
    ("mcp-shell-metacharacters", Here("a server does nothing outside its profile", CaseTest::Confined)),
    // Servers are identified by connection, never by name.
    ("server-name-separator-collision", Here(WHO, CaseTest::Judged)),
    ("deny-misses-double-underscore", Here(WHO, CaseTest::Judged)),
    ("normalized-name-collision", Here("a name is one as it is written, or none", CaseTest::Named)),
    ("server-name-spoofing", Here(WHO, CaseTest::Judged)),
    ("tool-shadows-builtin", Here("the tool of a server has another name than ours", CaseTest::Named)),
    ("duplicate-tool-two-servers", Here(WHO, CaseTest::Judged)),
    ("mcp-server-level-deny-leaves-tools", Here("tools and resources are denied", CaseTest::Named)),
    ("mcp-config-flag-skips-policy", Here("a wrapped server is judged by the same rules", CaseTest::Named)),
    ("disabled-server-reconnected", Here("what was forgotten is not started again", CaseTest::Named)),
    ("mcp-deny-list-variable-expansion", Here("such a rule is an error, and nothing runs", CaseTest::Named)),
    // A server's own claims do not loosen the policy.
    ("readonly-hint-lie", Here(WORD, CaseTest::Judged)),
    ("tool-kind-metadata-spoof", Here(WORD, CaseTest::Judged)),
    ("destructive-sibling-tool", Here(WORD, CaseTest::Judged)),
    ("poisoned-tool-error", Here(RESULT, CaseTest::Results)),
    ("result-claims-approval", Here(RESULT, CaseTest::Results)),
    // Definitions are pinned.
    ("server-command-swapped", Here(LAUNCH, CaseTest::Launched)),
    ("server-args-swapped", Here(LAUNCH, CaseTest::Launched)),
    ("server-env-swapped", Here(LAUNCH, CaseTest::Launched)),
    ("unpinned-package-version", Here("asked at every start", CaseTest::Launched)),
    ("tool-description-changed", Here(DRIFT, CaseTest::Redefined)),
    ("tool-schema-gains-parameter", Here(DRIFT, CaseTest::Redefined)),
    ("poisoned-schema-fields", Here(DRIFT, CaseTest::Redefined)),
    ("list-changed-notification-swap", Here(DRIFT, CaseTest::Redefined)),
    ("definition-differs-per-request", Here(DRIFT, CaseTest::Redefined)),
    ("always-allow-mcp-skips-review", Here(DRIFT, CaseTest::Redefined)),
    // Text that people and models read.
    ("description-hidden-ansi", Here(WHOLE, CaseTest::Described)),
    ("description-unicode-tags", Here(WHOLE, CaseTest::Described)),
    ("description-oversized", Here("not taken", CaseTest::Described)),
    ("line-jumping-before-approval", Here("no word of it reaches the agent", CaseTest::Described)),
    ("cross-server-instruction", Here(WHOLE, CaseTest::Described)),
    (
        "deeplink-hides-arguments",
        Here("the whole command is shown; no link installs anything", CaseTest::Described),
    ),
    // No server is started without acceptance.
    ("mcp-server-started-before-trust", Here(NOT_STARTED, CaseTest::NotStarted)),
    ("mcp-list-command-spawns", Here(NOT_STARTED, CaseTest::NotStarted)),
    ("mcp-headers-helper", Here("such a definition is an error", CaseTest::NotStarted)),
    (
        "plugin-config-substitution",
        Here("words are handed over as they are, to no shell", CaseTest::NotStarted),
    ),
    // The rest of the protocol.
    ("resource-read-unlisted-uri", Here(LISTED, CaseTest::Resources)),
    ("resource-read-ssrf", Here(LISTED, CaseTest::Resources)),
    ("sampling-auto-approved", Here("refused unless the person said so", CaseTest::Requests)),
    ("elicitation-phishing", Here("marked as the server's, and whole", CaseTest::Requests)),
    ("elicitation-url-too-long", Here("marked as the server's, and whole", CaseTest::Requests)),
    (
        "oauth-endpoint-command-injection",
        There("crates/byleave-cli/tests/all/mcp_login.rs", "no_endpoint_but_a_plain_one_is_opened"),
    ),
    (
        "inspector-proxy-spawn",
        There(
            "crates/byleave-cli/tests/all/mcp.rs",
            "over_http_only_who_knows_the_token_is_heard_and_no_web_page",
        ),
    ),
];

const ARGUMENTS: &str = "arguments are judged as what they look like";
const WHO: &str = "rules are about servers and tools, never about joined names";
const WORD: &str = "the word of a server counts where it is trusted, and for that tool";
const RESULT: &str = "the next call is asked about like any other";
const LAUNCH: &str = "not started until it is accepted again";
const DRIFT: &str = "suspended until it is accepted again";
const WHOLE: &str = "the person is shown every character";
const NOT_STARTED: &str = "not started before it is accepted";
const LISTED: &str = "only what is listed is read, and judged as what it names";

/// A case, with the fields that are needed here.
#[derive(Clone, Deserialize)]
struct CorpusCase {
    id: String,
    must: String,
    setup: String,
    rules: Vec<Value>,
    input: Value,
}

impl CorpusCase {
    fn server(&self) -> &str {
        self.input["server"].as_str().unwrap()
    }

    fn called(&self) -> &str {
        self.input["tool"].as_str().unwrap()
    }
}

#[test]
fn every_case_is_shown_somehow() {
    let cases = cases();
    let there: BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    let shown: BTreeSet<&str> = CASES.iter().map(|(id, _)| *id).collect();
    assert_eq!(shown, there);
    assert_eq!(CASES.len(), there.len(), "a case stands there twice");
    for (id, by) in CASES {
        if let There(file, test) = by {
            let text = source(file);
            let (before, _) =
                text.split_once(&format!("fn {test}(")).unwrap_or_else(|| panic!("{id}: {test}"));
            let attributes = before.rsplit("\n\n").next().unwrap();
            assert!(attributes.contains("test]") && !attributes.contains("ignore"), "{id}: {attributes}");
        }
    }
}

#[test]
fn the_table_is_what_the_page_says() {
    const BEGINS: &str = "<!-- mcp: written by crates/byleave-mcp/tests/all/corpus.rs -->\n";
    const ENDS: &str = "<!-- /mcp -->\n";
    let section = section();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security/scores.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let parts = page.split_once(BEGINS).and_then(|(before, rest)| Some((before, rest.split_once(ENDS)?)));
    if std::env::var("BYLEAVE_SCORES").is_ok_and(|what| what == "write") {
        let page = match parts {
            Some((before, (_, after))) => format!("{before}{BEGINS}{section}{ENDS}{after}"),
            None => format!("{page}\n{BEGINS}{section}{ENDS}"),
        };
        return std::fs::write(&path, page).unwrap();
    }
    let written = parts.map(|(_, (written, _))| written);
    assert!(written == Some(&section), "docs/security/scores.md is not what is shown:\n{section}");
}

fn section() -> String {
    let mut text = String::from(
        "## MCP\n\nWritten by `BYLEAVE_SCORES=write cargo nextest run -p byleave-mcp -E 'test(corpus)'`, never by hand. The cases of\n\
         `tests/corpus/bypasses.jsonl` about MCP, each with a server as a real process behind a gate with the rules of the case. What\n\
         is held back is first shown to be there to be called.\n\n| case | must | shown |\n|---|---|---|\n",
    );
    let cases = cases();
    let mut counts = [0; 2];
    for (id, by) in CASES {
        let must = &cases.iter().find(|case| case.id == *id).unwrap().must;
        let (kind, shown) = match by {
            Here(how, _) => (0, (*how).to_owned()),
            There(file, test) => (1, format!("`{test}` in `{file}`")),
        };
        counts[kind] += 1;
        writeln!(text, "| {id} | {must} | {shown} |").unwrap();
    }
    let [here, there] = counts;
    writeln!(
        text,
        "\n{here} of {} are shown by the tests of byleave-mcp, {there} by other tests.",
        CASES.len()
    )
    .unwrap();
    text
}

/// The cases that a test covers.
fn shown_by(shown: CaseTest) -> Vec<CorpusCase> {
    let here = |case: &CorpusCase| {
        CASES.iter().any(|(id, by)| *id == case.id && matches!(by, Here(_, by) if *by == shown))
    };
    let found: Vec<CorpusCase> = cases().into_iter().filter(here).collect();
    assert!(!found.is_empty(), "{shown:?}");
    found
}

fn cases() -> Vec<CorpusCase> {
    let text = source("tests/corpus/bypasses.jsonl");
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|case| case["tool"] == "mcp").map(|case| serde_json::from_value(case).unwrap()).collect()
}
