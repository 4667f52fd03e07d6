//! The corpus of published bypasses and of everyday commands, judged: what is let through, what is softened, what is asked.
//!
//! Written to docs/security/scores.md by `BYLEAVE_SCORES=write cargo nextest run -p byleave -E 'test(corpus)'`; without that
//! the page must be what would be written.

mod disguise;
mod fixture;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use byleave::core::call::Mode;
use byleave::core::effect::Plan;
use byleave::core::id::{AgentId, SessionId};
use byleave::core::manifest::{Class, Manifest, Role};
use byleave::core::pattern::Pattern;
use byleave::core::policy::{Layer, Places, Policy, Request, Rule, builtin};
use byleave::core::ruling::Verdict;
use byleave::plan;
use byleave::tool::Site;
use serde::Deserialize;
use serde_json::{Value, json};

use self::fixture::Fixture;

#[derive(Debug, Deserialize)]
struct Case {
    id: String,
    class: String,
    tool: String,
    input: Value,
    #[serde(default)]
    setup: String,
    #[serde(default)]
    rules: Vec<BTreeMap<String, String>>,
    #[serde(default)]
    profile: Option<String>,
    must: String,
}

#[derive(Debug, Deserialize)]
struct Everyday {
    command: String,
    class: String,
}

/// What a case came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Score {
    Held,
    FalseAllow,
    Softened,
    Elsewhere(&'static str),
}

fn lines<T: for<'a> Deserialize<'a>>(name: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Programs that only read, for the profiles that say so in words.
const READERS: &[&str] = &[
    "cat", "head", "tail", "less", "more", "grep", "egrep", "fgrep", "rg", "ls", "find", "fd", "wc", "sort",
    "uniq", "cut", "tr", "awk", "sed", "jq", "echo", "printf", "pwd", "true", "test", "diff", "stat", "file",
    "tree", "du", "nl", "tac", "od", "xxd", "strings", "column", "basename", "dirname", "realpath", "date",
    "env", "cd", "[", ":",
];

/// What the words of a profile mean as rules.
fn profile(words: &str) -> Vec<Pattern> {
    let runs = || READERS.iter().map(|name| Pattern::Run(vec![(*name).to_owned()]));
    match words {
        "read-only commands" | "readers" => runs().chain([Pattern::Read("/**".into())]).collect(),
        "read-only commands inside /ws" | "readers whose paths are inside /ws" => {
            runs().chain([Pattern::Read("/ws/**".into()), Pattern::Read("/ws".into())]).collect()
        }
        "*" => vec![Pattern::Run(vec!["touch".into()])],
        _ => Vec::new(),
    }
}

fn rule_of(number: usize, rule: &BTreeMap<String, String>) -> Option<Rule> {
    let verdict = match rule.get("verdict")?.as_str() {
        "allow" => Verdict::Allow,
        "ask" => Verdict::Ask,
        _ => Verdict::Deny,
    };
    // A path without a beginning is meant wherever it stands.
    let glob = |text: &str| if text.starts_with(['/', '*']) { text.to_owned() } else { format!("**/{text}") };
    let patterns = rule.iter().filter_map(|(kind, text)| match kind.as_str() {
        "run" => Some(vec![Pattern::Run(text.split(' ').map(str::to_owned).collect())]),
        "read" => Some(vec![Pattern::Read(glob(text))]),
        "write" => Some(vec![Pattern::Write(glob(text)), Pattern::Delete(glob(text))]),
        "reach" => Some(vec![Pattern::Reach(text.clone())]),
        "mcp" => Some(vec![Pattern::Invoke(text.clone())]),
        _ => None,
    });
    Some(Rule::new(format!("case-{number}"), Layer::User, verdict, patterns.flatten().collect()))
}

fn policy(rules: impl IntoIterator<Item = Rule>) -> Policy {
    let places = Places {
        workspace: Some("/ws"),
        home: Some("/home/u"),
        state: Some("/home/u/.local/state/byleave"),
        config: Some("/home/u/.config/byleave"),
    };
    let mut all = builtin(&places).unwrap();
    all.extend(rules);
    Policy::new(all).unwrap()
}

fn judge(policy: &Policy, manifest: &Manifest, plan: &Plan) -> Verdict {
    let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
    let mode = Mode::ConfirmSensitive;
    policy
        .rule(&Request {
            manifest,
            plan,
            mode,
            tool_asks: false,
            session: &session,
            agent: &agent,
            leaves: &[],
            now: 0,
        })
        .verdict
}

fn manifest(tool: &str) -> Manifest {
    let mut manifest = Manifest::new(tool, "", json!({}));
    manifest.sensitive = Some(false);
    let (class, roles): (_, &[(&str, Role)]) = match tool {
        "bash" => (Class::Bash, &[]),
        "read_file" => (Class::Readonly, &[("/path", Role::ReadPath)]),
        "write_file" => (Class::File, &[("/path", Role::WritePath)]),
        "edit" => (Class::File, &[("/path", Role::EditPath)]),
        "web_fetch" => (Class::Webfetch, &[("/url", Role::Url)]),
        _ => (Class::Generic, &[]),
    };
    manifest.permission_class = class;
    manifest.roles = roles.iter().map(|(pointer, role)| ((*pointer).to_owned(), *role)).collect();
    manifest
}

/// What a call would do in the fixture; `None` where it cannot be planned, which refuses it.
fn planned(manifest: &Manifest, input: &Value, fixture: &Fixture) -> Option<Plan> {
    if manifest.name == "bash" {
        return Some(shell(input.get("command")?.as_str()?, fixture));
    }
    let mut input = input.clone();
    if let Some(path) = input.get_mut("path") {
        let text = path.as_str()?.to_owned();
        *path = if text.starts_with('/') { json!(fixture.real(&text)) } else { json!(text) };
    }
    let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
    let site = Site { session, agent, cwd: fixture.real("/ws") };
    let plan = plan::by_class(manifest, &input, &site).ok()?;
    let text = serde_json::to_string(&plan).unwrap();
    serde_json::from_str(&text.replace(fixture.real("/").to_str()?.trim_end_matches('/'), "")).ok()
}

fn score(case: &Case) -> Score {
    match (case.tool.as_str(), case.must.as_str()) {
        ("approval_ui", _) => return Score::Elsewhere("the approval screen"),
        ("mcp", _) => return Score::Elsewhere("the MCP gateway"),
        ("apply_patch", _) => return Score::Elsewhere("the patch tool"),
        ("config" | "parser", _) => return Score::Elsewhere("the loading of configuration"),
        (_, "contained") => return Score::Elsewhere("the sandbox"),
        (_, "shown-in-full") => return Score::Elsewhere("the approval screen"),
        _ => {}
    }
    let fixture = Fixture::new();
    fixture.prepare(&case.setup);
    let manifest = manifest(&case.tool);
    let rules = case.rules.iter().enumerate().filter_map(|(number, rule)| rule_of(number, rule));
    // An allow that our rules cannot say (a path within a host) cannot be given.
    let mut rules: Vec<Rule> = rules
        .filter(|rule| rule.verdict == Verdict::Deny || Policy::new(vec![rule.clone()]).is_ok())
        .collect();
    let words = case.profile.as_deref().map(profile).unwrap_or_default();
    if !words.is_empty() {
        rules.push(Rule::new("profile", Layer::User, Verdict::Allow, words));
    }
    let policy = policy(rules);
    let verdict = planned(&manifest, &case.input, &fixture)
        .map_or(Verdict::Deny, |plan| judge(&policy, &manifest, &plan));
    match (case.must.as_str(), verdict) {
        (_, Verdict::Allow) => Score::FalseAllow,
        ("deny", Verdict::Ask) => Score::Softened,
        _ => Score::Held,
    }
}

/// What ordinary work may do without a question: the profile of the corpus, as rules. The network and the sandbox hold the rest.
fn everyday() -> Policy {
    let run = |words: &str| Pattern::Run(words.split(' ').map(str::to_owned).collect());
    let programs = READERS.iter().chain(EVERYDAY).map(|words| run(words));
    let here = ["/ws", "/ws/**"];
    let touches = here.iter().flat_map(|glob| {
        [Pattern::Read((*glob).into()), Pattern::Write((*glob).into()), Pattern::Delete((*glob).into())]
    });
    let toolchains = ["/usr/**", "/bin/**", "/etc/os-release", "/proc/**", "/home/u/.cargo/**", "/tmp/**"]
        .iter()
        .map(|glob| Pattern::Read((*glob).into()));
    let hosts =
        ["registry.npmjs.org", "pypi.org", "crates.io", "*.crates.io", "api.github.com", "github.com"]
            .iter()
            .map(|host| Pattern::Reach((*host).into()));
    let patterns = programs.chain(touches).chain(toolchains).chain(hosts).collect();
    policy([Rule::new("dev-default", Layer::User, Verdict::Allow, patterns)])
}

/// Build, test, lint and package tools of the project, and local git: contained by the sandbox, so free of questions.
const EVERYDAY: &[&str] = &[
    "cargo",
    "rustc",
    "rustfmt",
    "npm",
    "npx",
    "pnpm",
    "yarn",
    "node",
    "tsc",
    "eslint",
    "prettier",
    "jest",
    "vitest",
    "python",
    "python3",
    "pip",
    "uv",
    "pytest",
    "ruff",
    "black",
    "mypy",
    "go",
    "gofmt",
    "make",
    "cmake",
    "ctest",
    "git status",
    "git diff",
    "git log",
    "git show",
    "git branch",
    "git rev-parse",
    "git blame",
    "git ls-files",
    "git grep",
    "git remote",
    "git tag",
    "git stash",
    "git describe",
    "git shortlog",
    "git reflog",
    "git cat-file",
    "git config",
    "git add",
    "git commit",
    "git checkout",
    "git switch",
    "git restore",
    "git merge-base",
    "git rev-list",
    "git worktree",
    "git mv",
    "git rm",
    "git cherry",
    "git name-rev",
    "git for-each-ref",
    "git ls-tree",
    "git fetch",
    "ps",
    "pgrep",
    "top",
    "lsof",
    "which",
    "type",
    "command",
    "uname",
    "whoami",
    "id",
    "hostname",
    "uptime",
    "free",
    "df",
    "nproc",
    "printenv",
    "mkdir",
    "touch",
    "cp",
    "mv",
    "rm",
    "ln",
    "tee",
    "xargs",
    "seq",
    "sleep",
    "time",
    "timeout",
    "md5sum",
    "sha256sum",
    "cmp",
    "comm",
    "join",
    "paste",
    "fold",
    "fmt",
    "rev",
    "split",
    "tar",
    "gzip",
    "zip",
    "unzip",
    "java",
    "mvn",
    "gradle",
    "dotnet",
    "bundle",
    "rake",
    "rspec",
    "composer",
    "php",
    "gh",
    "docker ps",
    "set",
    "export",
    "read",
    "for",
    "kill -0",
    "jobs",
    "wait",
    "ss",
    "curl",
    "sqlite3",
    "shellcheck",
    "deno",
    "bun",
];

#[derive(Default)]
struct Tally {
    held: usize,
    allowed: Vec<String>,
    softened: Vec<String>,
    elsewhere: usize,
}

fn page() -> String {
    let mut classes: BTreeMap<String, Tally> = BTreeMap::new();
    let mut elsewhere: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for case in lines::<Case>("bypasses.jsonl") {
        let tally = classes.entry(case.class.clone()).or_default();
        match score(&case) {
            Score::Held => tally.held += 1,
            Score::FalseAllow => tally.allowed.push(case.id),
            Score::Softened => tally.softened.push(case.id),
            Score::Elsewhere(part) => {
                tally.elsewhere += 1;
                elsewhere.entry(part).or_default().push(case.id);
            }
        }
    }
    let mut page = String::from(PREFACE);
    let mut sums = (0, 0, 0, 0);
    for (class, Tally { held, allowed, softened, elsewhere }) in &classes {
        let (allowed, softened) = (allowed.len(), softened.len());
        writeln!(page, "| {class} | {held} | {allowed} | {softened} | {elsewhere} |").unwrap();
        sums = (sums.0 + held, sums.1 + allowed, sums.2 + softened, sums.3 + elsewhere);
    }
    writeln!(page, "| **all** | {} | {} | {} | {} |\n", sums.0, sums.1, sums.2, sums.3).unwrap();
    let named = |pick: fn(&Tally) -> &Vec<String>| {
        let ids: Vec<String> = classes.values().flat_map(|tally| pick(tally).clone()).collect();
        if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }
    };
    writeln!(page, "False allows: {}.\n", named(|tally| &tally.allowed)).unwrap();
    writeln!(page, "Denies softened to asks: {}.\n", named(|tally| &tally.softened)).unwrap();
    page.push_str("## Answered elsewhere\n\nCases that no reading of a call can answer, by the part of the system that must.\n\n");
    for (part, ids) in &elsewhere {
        writeln!(page, "- {part} ({}): {}", ids.len(), ids.join(", ")).unwrap();
    }
    page.push_str(&fatigue());
    page
}

const PREFACE: &str = "# Scores

Written by `BYLEAVE_SCORES=write cargo nextest run -p byleave -E 'test(corpus)'`, never by hand; CI fails where it differs. The
cases are in `tests/corpus`: every bypass that we could find in public, and everyday commands. Each is judged in a fixture of
its own under the built-in rules and the rules of the case. *Held*: asked or denied where it must be asked, denied where it
must be denied.

## Bypasses

| class | held | false allows | denies softened | elsewhere |
|---|--:|--:|--:|--:|
";

/// The share of everyday commands that are asked about although nothing about them deserves it.
fn fatigue() -> String {
    let (policy, manifest) = (everyday(), manifest("bash"));
    let mut classes: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    for Everyday { command, class } in lines::<Everyday>("benign.jsonl") {
        let fixture = Fixture::new();
        let plan = shell(&command, &fixture);
        let (count, asked) = classes.entry(class).or_default();
        *count += 1;
        if judge(&policy, &manifest, &plan) != Verdict::Allow {
            asked.push(command);
        }
    }
    let mut text =
        String::from("\n## Everyday commands\n\n| class | commands | asked about |\n|---|--:|--:|\n");
    let (mut all, mut all_asked) = (0, 0);
    for (class, (count, asked)) in &classes {
        writeln!(text, "| {class} | {count} | {} |", asked.len()).unwrap();
        (all, all_asked) = (all + count, all_asked + asked.len());
    }
    writeln!(text, "| **all** | {all} | {all_asked} ({:.1} %) |\n", 100.0 * all_asked as f64 / all as f64)
        .unwrap();
    text.push_str("Asked about:\n\n");
    for asked in classes.values().flat_map(|(_, asked)| asked) {
        writeln!(text, "- `{asked}`").unwrap();
    }
    text
}

// req: P3, P4, P5, P6
#[test]
fn the_scores_are_what_the_page_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security/scores.md");
    let page = page();
    if std::env::var("BYLEAVE_SCORES").is_ok_and(|what| what == "write") {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/security/scores.md is not what was measured:\n{page}");
}

fn shell(command: &str, fixture: &Fixture) -> Plan {
    let mut plan = Plan::default();
    plan::command(&mut plan, command, fixture);
    plan
}
