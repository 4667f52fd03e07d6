//! Effects from arguments without a declared meaning: those of MCP tools, and of tools that declare no class.
//!
//! Only the tool knows what such an argument means. Both its name and its value are therefore examined. An argument that
//! looks like a path, or that a link leads out of the directory, is assumed to be read and written. The sandbox of an MCP
//! server must contain everything that this misses.

use std::path::Path;

use byleave_core::effect::{Effect, Plan};
use byleave_core::manifest::ArgumentRole;
use serde_json::{Map, Value};

use super::add_argument;
use crate::path_resolution::resolve_argument;
use crate::tool::ToolContext;

/// The maximum depth of arguments that are examined. The limits of the schema are narrower.
const DEPTH_MAX: usize = 64;

/// Words in names that show that a text is a path.
const PATHS: &[&str] = &[
    "path",
    "file",
    "filename",
    "dir",
    "directory",
    "folder",
    "cwd",
    "root",
    "repo",
    "repository",
    "workspace",
    "destination",
    "dest",
    "files",
    "paths",
];
/// Names of arguments that a shell runs.
const COMMANDS: &[&str] = &["command", "cmd", "shell", "bash", "script", "commandline"];
/// Names of arguments that are programs in other languages.
const CODE: &[&str] = &["code", "python", "javascript", "js", "expression", "eval"];

/// Adds the effects that the arguments suggest. For a tool that only reads, paths are only read.
pub fn add_argument_effects(plan: &mut Plan, arguments: &Value, site: &ToolContext, reads: bool) {
    let mut look = ArgumentScanner { plan, site, reads };
    look.at("", arguments, 0);
    let mut seen = std::collections::HashSet::new();
    plan.effects.retain(|effect| seen.insert(effect.clone()));
}

struct ArgumentScanner<'a> {
    plan: &'a mut Plan,
    site: &'a ToolContext,
    reads: bool,
}

impl ArgumentScanner<'_> {
    fn at(&mut self, name: &str, value: &Value, depth: usize) {
        if depth > DEPTH_MAX {
            return self.unknown("the arguments are nested too deep to be scanned");
        }
        match value {
            Value::String(text) => self.text(name, text),
            Value::Array(items) => items.iter().for_each(|item| self.at(name, item, depth + 1)),
            Value::Object(fields) => self.object(fields, depth),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn object(&mut self, fields: &Map<String, Value>, depth: usize) {
        let argv = fields.get("args").or_else(|| fields.get("argv")).and_then(Value::as_array);
        for (name, value) in fields {
            match (value, argv) {
                // A program with its arguments beside it is one command.
                (Value::String(program), Some(argv)) if is(name, COMMANDS) => {
                    let words = argv.iter().map(|word| match word {
                        Value::String(word) => quoted(word),
                        other => quoted(&other.to_string()),
                    });
                    let words: Vec<String> = std::iter::once(quoted(program)).chain(words).collect();
                    self.judged(ArgumentRole::Command, &words.join(" "));
                    // Fractional numbers and booleans are written differently in every language.
                    let is_plain = |word: &Value| word.is_string() || word.is_i64() || word.is_u64();
                    if !argv.iter().all(is_plain) {
                        self.unknown("a word of the command is not text");
                    }
                }
                _ => self.at(name, value, depth + 1),
            }
            // The server may read any field, so a path may be in its name.
            if name.starts_with('/') || name.contains("../") {
                self.path(name);
            }
        }
    }

    fn text(&mut self, name: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        if is(name, COMMANDS) {
            return self.judged(ArgumentRole::Command, text);
        }
        if is(name, CODE) {
            self.unknown(&format!("the argument `{}` is a program", name.escape_debug()));
        }
        let one_word = !text.chars().any(char::is_whitespace);
        if let Some((scheme, rest)) = address(text) {
            return self.address(&scheme, rest, text);
        }
        if text.starts_with('-') && one_word && text.len() > 1 && text.parse::<f64>().is_err() {
            self.unknown(&format!(
                "`{}` begins with a dash: a program could take it as an option",
                text.chars().take(80).collect::<String>().escape_debug()
            ));
            if let Some((_, value)) = text.split_once('=') {
                self.text("", value);
            }
            return;
        }
        let looks = text.starts_with('/')
            || text.starts_with('~')
            || text.starts_with("./")
            || text.contains("../")
            || text == "..";
        // A text with spaces is a path only if its name says so, or if nothing else begins like this.
        if is(name, PATHS)
            || looks && (one_word || text.starts_with('/') && text.len() < 4_096 && !text.contains('\n'))
        {
            return self.path(text);
        }
        self.link(text);
    }

    /// Adds the effects of a text that nothing else shows to be a path, if it names something outside the directory.
    fn link(&mut self, text: &str) {
        let first = text.split('/').next().unwrap_or(text);
        let is_name = first.len() <= 255 && text.len() <= 4_096 && !text.contains(['\n', '\0']);
        let is_link = |name: &str| {
            let found = self.site.cwd.join(name).symlink_metadata();
            found.is_ok_and(|found| found.is_symlink())
        };
        // Without a link and without `..`, a relative path stays in the directory.
        if !is_name || first.is_empty() || !(text.contains('/') || is_link(first) || text.contains("..")) {
            return;
        }
        match resolve_argument(text, &self.site.cwd) {
            Ok(path) if Path::new(&path).starts_with(&self.site.cwd) => {}
            Ok(_) => self.path(text),
            Err(fault) if is_link(first) => self.unknown(&fault.to_string()),
            Err(_) => {}
        }
    }

    fn address(&mut self, scheme: &str, rest: &str, text: &str) {
        match scheme {
            "http" | "https" => self.judged(ArgumentRole::Url, text),
            "file" => {
                let path = rest.trim_start_matches("//");
                let path = path.strip_prefix("localhost").unwrap_or(path);
                if path.contains('%') {
                    self.unknown("a file URL has escapes in it");
                }
                self.path(path);
            }
            other => self.unknown(&format!("the target of a `{}` URL is unknown", other.escape_debug())),
        }
    }

    fn path(&mut self, text: &str) {
        match resolve_argument(text, &self.site.cwd) {
            Ok(path) => {
                self.plan.effects.push(Effect::Read { path: path.clone() });
                if !self.reads {
                    self.plan.effects.push(Effect::Write { path });
                }
            }
            Err(fault) => self.unknown(&fault.to_string()),
        }
    }

    fn judged(&mut self, role: ArgumentRole, text: &str) {
        if let Err(fault) = add_argument(self.plan, role, &Value::String(text.to_owned()), self.site) {
            self.unknown(&fault.to_string());
        }
    }

    fn unknown(&mut self, why: &str) {
        self.plan.effects.push(Effect::Unknown { reason: why.to_owned() });
    }
}

/// Checks whether one of the words of a name is in a list: `repo_path`, `repoPath` and `PATH` are paths.
fn is(name: &str, among: &[&str]) -> bool {
    let mut word = String::new();
    let mut found = false;
    let mut before = ' ';
    for c in name.chars().chain([' ']) {
        let begins = !c.is_alphanumeric() || c.is_uppercase() && before.is_lowercase();
        if begins {
            found |= among.contains(&word.as_str());
            word.clear();
        }
        word.extend(c.to_lowercase().filter(|c| c.is_alphanumeric()));
        before = c;
    }
    found
}

/// Returns the scheme of an address in lower case, and the rest.
fn address(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    let (scheme, rest) = text.split_once(':')?;
    let shaped = (2..=24).contains(&scheme.len())
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let scheme = scheme.to_ascii_lowercase();
    let leads = rest.starts_with("//") || scheme == "file";
    (shaped && leads).then_some((scheme, rest))
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use byleave_core::id::{AgentId, SessionId};
    use serde_json::json;

    fn looked(arguments: &Value, reads: bool) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().canonicalize().unwrap();
        symlink("/usr", cwd.join("door")).unwrap();
        symlink("door", cwd.join("second")).unwrap();
        symlink("/usr/no/such/file", cwd.join("dangling")).unwrap();
        fs::create_dir(cwd.join("src")).unwrap();
        symlink("../door", cwd.join("src/up")).unwrap();
        let site = ToolContext {
            tenant: "t".parse().unwrap(),
            session: SessionId::new("s").unwrap(),
            agent: AgentId::new("a").unwrap(),
            cwd: cwd.clone(),
        };
        let mut plan = Plan::default();
        add_argument_effects(&mut plan, arguments, &site, reads);
        let root = cwd.to_str().unwrap();
        plan.effects.iter().map(|effect| effect.to_string().replace(root, "")).collect()
    }

    // req: M1
    #[test]
    fn what_looks_like_a_path_an_address_or_a_command_is_judged_as_one() {
        for (arguments, wanted) in [
            (json!({"path": "a"}), &["read /a", "write /a"][..]),
            (json!({"repoPath": "/outside"}), &["read /outside", "write /outside"]),
            (
                json!({"files": ["../../../../../../../../outside/x"]}),
                &["read /outside/x", "write /outside/x"],
            ),
            (json!({"x": {"y": ["/etc/passwd"]}}), &["read /etc/passwd", "write /etc/passwd"]),
            (json!({"uri": "file:///etc/passwd"}), &["read /etc/passwd", "write /etc/passwd"]),
            (json!({"uri": "http://169.254.169.254/"}), &["reach 169.254.169.254:80"]),
            (json!({"text": "hello there", "n": 1, "branch": "main"}), &[]),
            (json!({"offset": "-1"}), &[]),
            (json!({"sql": "select 1 / 2"}), &[]),
        ] {
            assert_eq!(looked(&arguments, false), wanted, "{arguments}");
        }
        assert_eq!(looked(&json!({"path": "a"}), true), ["read /a"]);
        for (arguments, wanted) in [
            (json!({"target": "--output=/outside/f"}), "unknown: `--output=/outside/f` begins with a dash"),
            (json!({"target": "--output=/outside/f"}), "write /outside/f"),
            (json!({"command": "ls $(touch /tmp/gate-marker)"}), "write /tmp/gate-marker"),
            (json!({"command": "touch", "args": ["/tmp/gate-marker"]}), "write /tmp/gate-marker"),
            (json!({"command": "touch", "args": ["a", 7]}), "write /7"),
            (json!({"command": "touch", "args": [["/tmp/x"]]}), "unknown: a word of the command is not text"),
            (json!({"command": "kill", "args": ["-9", 1.0]}), "unknown: a word of the command is not text"),
            (json!({"code": "import os"}), "unknown: the argument `code` is a program"),
            (json!({"path": "~/.ssh/id_rsa"}), "unknown: "),
            (json!({"uri": "ssh://a.example/x"}), "unknown: "),
            (json!({"/etc/x": "y"}), "write /etc/x"),
        ] {
            let found = looked(&arguments, false);
            assert!(found.iter().any(|effect| effect.starts_with(wanted)), "{arguments}: {found:?}");
        }
    }

    // req: P4, B7
    #[test]
    fn a_link_that_leads_out_is_a_path_whatever_its_argument_is_called() {
        for text in ["door/lib", "second/lib", "src/up/lib", "src/../door/lib", "door/../usr/lib"] {
            assert_eq!(looked(&json!({"target": text}), true), ["read /usr/lib"], "{text}");
        }
        assert_eq!(looked(&json!({"target": "door"}), false), ["read /usr", "write /usr"]);
        assert_eq!(looked(&json!({"a": {"b": ["x", "second"]}}), true), ["read /usr"]);
        let dangling = looked(&json!({"target": "dangling"}), true);
        assert!(matches!(&dangling[..], [only] if only.starts_with("unknown: ")), "{dangling:?}");
        for text in ["src", "src/new.txt", "a/b", "application/json", "1..2", "see door", "main"] {
            assert!(looked(&json!({"target": text}), false).is_empty(), "{text}");
        }
    }
}
