//! The keys and words of a policy file, and checks of their values.

use toml::de::DeValue;

use crate::call::Mode;
use crate::manifest::PermissionClass;
use crate::pattern::{Pattern, PatternError, is_any_program};

/// The keys of a rule.
pub(super) const RULE_KEYS: &[&str] = &[
    "id",
    "verdict",
    "run",
    "read",
    "write",
    "delete",
    "touch",
    "reach",
    "send",
    "invoke",
    "mcp",
    "tool",
    "except",
    "when",
    "reason",
    "firm",
    "dangerous",
    "checkpoint",
    "remember",
    "challenge",
    "private",
    "lend",
    "guarantees",
    "delegate",
    "matches",
    "not_matches",
];

/// The keys of `except`.
pub(super) const EXCEPT_KEYS: &[&str] =
    &["run", "read", "write", "delete", "touch", "reach", "send", "invoke", "mcp", "tool"];

/// The keys of `when`.
pub(super) const WHEN_KEYS: &[&str] =
    &["read_only", "read_foreign", "sensitive", "class", "mode", "server", "session", "agent"];

/// The hint that lists the classes.
pub(super) const CLASS_HELP: &str = "write `bash`, `file`, `webfetch`, `readonly`, `generic` or `undeclared`";

/// The hint that lists the modes.
pub(super) const MODE_HELP: &str =
    "write `confirm-all`, `confirm-sensitive`, `confirm-dangerous`, `yolo` or `read-only`";

/// Returns the mode with this name.
pub(super) fn parse_mode(name: &str) -> Option<Mode> {
    Mode::ALL.into_iter().chain([Mode::ReadOnly]).find(|mode| mode.as_str() == name)
}

/// Returns the class with this name.
pub(super) fn parse_class(name: &str) -> Option<PermissionClass> {
    Some(match name {
        "bash" => PermissionClass::Bash,
        "file" => PermissionClass::File,
        "webfetch" => PermissionClass::Webfetch,
        "readonly" => PermissionClass::Readonly,
        "generic" => PermissionClass::Generic,
        "undeclared" => PermissionClass::Undeclared,
        _ => return None,
    })
}

/// Returns the kind of a value in words.
pub(super) const fn value_kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// Returns the error of a pattern other than a run pattern, and what to do. `None` if the pattern can match something.
pub(super) fn pattern_problem(pattern: &Pattern) -> Option<(String, String)> {
    if let Err(bad) = pattern.check() {
        let todo = match &bad {
            PatternError::Host(_) => "a rule matches hosts, not URLs; see docs/policy.md",
            PatternError::PlanInRule => "list its effects one by one",
            PatternError::Glob { .. } | PatternError::EmptyRun | PatternError::EmptyPlan => {
                "`*` and `?` match within one path component, `**` across several"
            }
        };
        return Some((bad.to_string(), todo.to_owned()));
    }
    match pattern {
        Pattern::Read(glob) | Pattern::Write(glob) | Pattern::Delete(glob) => path_problem(glob),
        Pattern::Invoke(glob) => tool_problem(glob),
        Pattern::Run(_) | Pattern::RunExact(_) | Pattern::Plan(_) => None,
        Pattern::Reach(_) | Pattern::Send(_) => None,
    }
}

/// Checks a glob over paths. Effects name absolute, resolved paths, so a glob with another spelling matches nothing.
fn path_problem(glob: &str) -> Option<(String, String)> {
    let never =
        |why: &str| Some((format!("`{glob}` can never match: {why}"), "remove that component".to_owned()));
    let mut steps = glob.strip_prefix('/').unwrap_or(glob).split('/');
    if glob != "/" && steps.clone().any(str::is_empty) {
        return never("paths have no empty components");
    }
    if steps.any(|step| matches!(step, "." | "..")) {
        return never("paths are resolved, without `.` and `..`");
    }
    None
}

/// Returns the class of a built-in tool that is evaluated by the effects of a call, and never as a whole. No effect of it carries its name.
/// These names are reserved, whatever tools exist.
pub fn class_judged_by_effects(tool: &str) -> Option<&'static str> {
    Some(match tool.to_ascii_lowercase().as_str() {
        "bash" => "bash",
        "web_fetch" => "webfetch",
        "apply_patch" | "delete_file" | "edit" | "multi_edit" | "undo" | "write_file" => "file",
        "diagnostics" | "glob" | "grep" | "list_dir" | "list_files" | "read_file" => "readonly",
        _ => return None,
    })
}

fn tool_problem(glob: &str) -> Option<(String, String)> {
    if let Some(class) = class_judged_by_effects(glob) {
        let what = format!(
            "`{glob}` can never match: it is a built-in tool, and its calls are evaluated by their effects, not by name"
        );
        let todo = format!(
            "name the effects, with `run`, `read`, `write`, `delete`, `reach` or `send`; or remove this key and write `when = {{ class = \"{class}\" }}`, which matches all tools of its class"
        );
        return Some((what, todo));
    }
    let plain = |c: char| c.is_alphanumeric() || "_-.:/*?[]{},!^\\".contains(c);
    if !glob.is_empty() && glob.chars().all(plain) {
        return None;
    }
    let what = format!("`{}` can never match: it is not a valid tool name", glob.escape_debug());
    Some((what, "write a tool name as `byleave tools` lists it, or a glob".to_owned()))
}

/// Returns the error in the words of a run pattern, and what to do.
pub(super) fn run_problem(words: &[String]) -> Option<(String, String)> {
    let Some(program) = words.first() else {
        return Some((
            "the pattern is empty".to_owned(),
            "name a program and its first arguments".to_owned(),
        ));
    };
    if is_any_program(words) {
        return None;
    }
    let told = |what: String, todo: &str| Some((what, todo.to_owned()));
    for word in words {
        if word.contains(['|', ';', '&', '<', '>', '$', '`', '"', '\'', '\\', '(', ')']) {
            let what =
                format!("`{word}` can never match: a run pattern is a list of words, not a shell command");
            return told(what, "write the program and its first arguments, one command per pattern");
        }
        if word.contains('*')
            || program.contains(['?', '[', '{']) && program.len() > 1 && !is_path_variable(program)
        {
            let what = format!("`{word}` is a glob, but run patterns contain plain words");
            return told(what, "remove it: further arguments match anyway; `*` alone is every program");
        }
    }
    None
}

fn is_path_variable(program: &str) -> bool {
    ["{workspace}/", "{home}/", "{state}/", "{config}/"].iter().any(|place| program.starts_with(place))
}
