//! The cases of the corpus, and the meaning of their words as rules.

mod other_parts;

use std::error::Error;
use std::path::Path;
use std::sync::LazyLock;

use byleave_gate::core::decision::Verdict;
use byleave_gate::core::pattern::Pattern;
use byleave_gate::core::policy::{
    Layer, PathVariables, Policy, PolicyFileError, Rule, RuleFile, SkipExamples, builtin_rules, load_rules,
};
use byleave_gate::policy_case::{self, CaseRule};
use serde::Deserialize;
use serde_json::Value;

pub use other_parts::answered_by;

#[derive(Debug, Deserialize)]
pub struct Case {
    pub id: String,
    pub class: String,
    pub tool: String,
    pub input: Value,
    #[serde(default)]
    pub setup: String,
    #[serde(default)]
    pub rules: Vec<CaseRule>,
    #[serde(default)]
    pub profile: Option<String>,
    #[serde(default)]
    pub policy_notes: Vec<String>,
    pub must: String,
    /// The observed effect of the case without a gate.
    #[serde(default)]
    pub effect_when_ungated: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct EverydayCommand {
    pub command: String,
    pub class: String,
}

pub fn lines<T: for<'a> Deserialize<'a>>(name: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Reads the cases of a file that is part of the test.
pub fn lines_of<T: for<'a> Deserialize<'a>>(text: &'static str) -> impl Iterator<Item = T> {
    text.lines().map(|line| serde_json::from_str(line).unwrap())
}

pub const PLACES: PathVariables<'static> = PathVariables {
    workspace: Some("/ws"),
    home: Some("/home/u"),
    state: Some("/home/u/.local/state/byleave"),
    config: Some("/home/u/.config/byleave"),
};

/// The policy of a case: the built-in rules, its own rules, and the rules in its notes.
pub fn policy_of(case: &Case) -> Result<Policy, Box<dyn Error>> {
    static BUILT_IN: LazyLock<Vec<Rule>> = LazyLock::new(|| builtin_rules(&PLACES).unwrap());
    Ok(Policy::new(BUILT_IN.iter().cloned().chain(rules_of(case)?).collect()).unwrap())
}

/// The rules of a case in addition to the built-in ones.
pub fn rules_of(case: &Case) -> Result<Vec<Rule>, Box<dyn Error>> {
    // Rules that cannot be expressed (a path within a host) are left out, and so not allowed.
    let (mut rules, _) = policy_case::parse_rules(&case.rules, &PLACES)?;
    let words = case.profile.as_deref().map(profile).unwrap_or_default();
    if !words.is_empty() {
        rules.push(Rule::new("profile", Layer::User, Verdict::Allow, words));
    }
    for note in case.policy_notes.iter().chain([&case.setup]) {
        rules.extend(read_user(noted(note))?);
    }
    Ok(rules)
}

pub fn read_user(text: &str) -> Result<Vec<Rule>, PolicyFileError> {
    let file = RuleFile { name: "case.toml", layer: Layer::User, text };
    Ok(load_rules(&file, &PLACES, &SkipExamples)?.rules)
}

/// The rule in a note. Other notes describe what a gate does by itself.
fn noted(note: &str) -> &'static str {
    match note {
        note if note.starts_with("docs/policies/dev-default.toml") => {
            include_str!("../../../tests/corpus/dev-default.toml")
        }
        "deny edit:/ws/locked.txt" => "[[rule]]\nid = \"n1\"\nverdict = \"deny\"\nwrite = \"/ws/locked.txt\"",
        "deny Write(/ws/x) (alias of edit)" => "[[rule]]\nid = \"n2\"\nverdict = \"deny\"\nwrite = \"/ws/x\"",
        "deny bash() (malformed)" => "[[rule]]\nid = \"n3\"\nverdict = \"deny\"\nrun = \"bash()\"",
        "network allowlist: package registries only" => {
            "[[rule]]\nid = \"n4\"\nverdict = \"deny\"\nreach = \"*\"\nexcept = [\"registry.npmjs.org\", \"pypi.org\", \"*.crates.io\"]"
        }
        "allow web_fetch: managed domains only" => {
            "[[rule]]\nid = \"n5\"\nverdict = \"deny\"\nreach = \"*\"\nexcept = \"*.managed.example\""
        }
        "deny bash:* for background tasks" => {
            "[[rule]]\nid = \"n6\"\nverdict = \"deny\"\nwhen = { agent = \"background*\" }"
        }
        "deny mode: bypass" => "[[rule]]\nid = \"n8\"\nverdict = \"deny\"\nwhen = { mode = \"yolo\" }",
        "deny agent:`X`" => "[[rule]]\nid = \"n7\"\nverdict = \"deny\"\ninvoke = \"agent:X\"",
        "sh: mkdir -p /ws/real; ln -s real /ws/alias; policy denies write /ws/alias/**" => {
            "[[rule]]\nid = \"n9\"\nverdict = \"deny\"\nwrite = \"/ws/alias/**\""
        }
        _ => "",
    }
}

/// Programs that only read, for the profiles that name them in prose.
const READERS: &[&str] = &[
    "cat", "head", "tail", "less", "more", "grep", "egrep", "fgrep", "rg", "ls", "find", "fd", "wc", "sort",
    "uniq", "cut", "tr", "awk", "sed", "jq", "echo", "printf", "pwd", "true", "test", "diff", "stat", "file",
    "tree", "du", "nl", "tac", "od", "xxd", "strings", "column", "basename", "dirname", "realpath", "date",
    "env", "cd", "[", ":",
];

/// Programs that build and test.
const BUILDERS: &[&str] =
    &["cargo", "npm", "npx", "pip", "python3", "node", "go", "make", "git", "pytest", "curl", "wget"];

/// The allowed patterns of a profile that is described in prose.
fn profile(words: &str) -> Vec<Pattern> {
    let runs = |names: &[&str]| -> Vec<Pattern> {
        names.iter().map(|name| Pattern::Run(vec![(*name).to_owned()])).collect()
    };
    let reach = |hosts: &[&str]| hosts.iter().map(|host| Pattern::Reach((*host).into())).collect();
    let mut patterns = runs(READERS);
    match words {
        "read-only commands" | "readers" => patterns.push(Pattern::Read("/**".into())),
        "read-only commands inside /ws" | "readers whose paths are inside /ws" => {
            patterns.extend([Pattern::Read("/ws/**".into()), Pattern::Read("/ws".into())]);
        }
        "public hosts" => return reach(&["*"]),
        "python.org and subdomains" => return reach(&["python.org", "*.python.org"]),
        "built-in trusted hosts" => return reach(&["docs.python.org", "docs.rs"]),
        "allowed.example (443)" => return reach(&["allowed.example:443"]),
        "managed domains only" => return reach(&["*.managed.example"]),
        "build and test commands" | "project tools" => {
            patterns.extend(runs(BUILDERS));
            patterns.extend([Pattern::Read("/ws/**".into()), Pattern::Write("/ws/**".into())]);
            patterns.push(Pattern::Reach("*".into()));
        }
        "shell builtins" => return runs(&["enable", "set", "export", "cd", "echo"]),
        "*" => return [runs(&["touch"]), vec![Pattern::Write("/**".into())]].concat(),
        // A rule cannot express a method or a path within a host, so it cannot allow one either.
        _ => return Vec::new(),
    }
    patterns
}
