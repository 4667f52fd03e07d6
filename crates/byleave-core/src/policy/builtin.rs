//! The rules that come with Byleave: secrets and our own state are out of bounds, the workspace may be read.

use super::compile::Policy;
use super::rule::{Layer, PolicyFault, Rule};
use crate::effect::is_resolved;
use crate::pattern::Pattern;
use crate::ruling::Verdict;

/// The directories that the built-in rules are about, absolute and resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places<'a> {
    /// Where the agent works, if anywhere: may be read.
    pub workspace: Option<&'a str>,
    /// Where Byleave keeps its book and its keys: out of bounds for every call.
    pub state: Option<&'a str>,
}

/// Files that hold secrets: id, globs, why. Denied to readers, writers and deleters alike (P4).
const SECRETS: &[(&str, &[&str], &str)] = &[
    ("secrets-env", &["**/.env", "**/.env.*"], "environment files hold secrets"),
    ("secrets-ssh", &["**/.ssh", "**/.ssh/**"], "`.ssh` holds keys and decides who may log in"),
    (
        "secrets-keys",
        &[
            "**/*.pem",
            "**/id_rsa*",
            "**/id_dsa*",
            "**/id_ecdsa*",
            "**/id_ed25519*",
            "**/.gnupg",
            "**/.gnupg/**",
        ],
        "private keys are secrets",
    ),
    ("secrets-credentials", &["**/*credentials*", "**/.netrc"], "credentials are secrets"),
];

/// Templates that are kept in repositories so that people know what to fill in; they hold no secrets.
const TEMPLATES: &[&str] = &["**/.env.example", "**/.env.sample", "**/.env.template", "**/.env.dist"];

/// The rules that come with Byleave, to be put together with others.
pub fn builtin(places: &Places<'_>) -> Result<Vec<Rule>, PolicyFault> {
    let mut rules: Vec<Rule> = SECRETS.iter().map(|(id, globs, why)| secret(id, globs, why)).collect();
    if let Some(state) = places.state {
        rules.push(state_rule(known("state directory", state)?));
    }
    if let Some(workspace) = places.workspace {
        let mut read = rule("workspace-read", Verdict::Allow, "reading the workspace changes nothing");
        read.patterns = beneath(known("workspace", workspace)?).into_iter().map(Pattern::Read).collect();
        rules.push(read);
    }
    Ok(rules)
}

impl Policy {
    /// The policy of the built-in rules alone.
    pub fn builtin(places: &Places<'_>) -> Result<Self, PolicyFault> {
        Self::new(builtin(places)?)
    }
}

fn rule(id: &str, verdict: Verdict, why: &str) -> Rule {
    Rule { why: why.to_owned(), ..Rule::new(id, Layer::Builtin, verdict, Vec::new()) }
}

fn secret(id: &str, globs: &[&str], why: &str) -> Rule {
    let mut rule = rule(id, Verdict::Deny, why);
    rule.patterns = globs.iter().flat_map(|glob| every_touch(glob)).collect();
    if id == "secrets-env" {
        rule.except = TEMPLATES.iter().flat_map(|glob| every_touch(glob)).collect();
    }
    rule
}

/// The state directory, what is in it, and what it is in: removing a directory above it removes it, too.
fn state_rule(state: &str) -> Rule {
    let mut rule =
        rule("state-directory", Verdict::Deny, "the book and the keys are out of bounds for agents");
    rule.patterns = beneath(state).iter().flat_map(|glob| every_touch(glob)).collect();
    let above = std::iter::successors(state.rsplit_once('/'), |(above, _)| above.rsplit_once('/'));
    let above = above.map(|(above, _)| if above.is_empty() { "/".to_owned() } else { literal(above) });
    rule.patterns.extend(above.map(Pattern::Delete));
    rule
}

fn every_touch(glob: &str) -> [Pattern; 3] {
    [Pattern::Read(glob.into()), Pattern::Write(glob.into()), Pattern::Delete(glob.into())]
}

/// A directory itself and everything in it: `/w/**` alone is not about `/w`.
fn beneath(directory: &str) -> [String; 2] {
    let inner = literal(directory.trim_end_matches('/'));
    [literal(directory), format!("{inner}/**")]
}

/// A glob that fits this text alone.
fn literal(text: &str) -> String {
    // `globset::escape` leaves the backslash, which would swallow the character after it.
    globset::escape(text).replace('\\', "[\\]")
}

fn known<'a>(what: &'static str, path: &'a str) -> Result<&'a str, PolicyFault> {
    if is_resolved(path) { Ok(path) } else { Err(PolicyFault::Place { what, path: path.to_owned() }) }
}
