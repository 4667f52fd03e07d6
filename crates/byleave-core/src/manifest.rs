//! What a tool says of itself. Conservative where it says nothing (T5), and never believed where that would loosen.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::{Digest, canonical};

/// Which checks a tool's arguments get (T6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PermissionClass {
    /// The command is read as shell.
    Bash,
    /// Every path is judged.
    File,
    /// The address is judged.
    Webfetch,
    /// Reads, or keeps to what is the agent's own: nothing of anybody else's can change by it.
    Readonly,
    /// Rules on the tool's name, else ask.
    Generic,
    /// The author did not say: judged like `generic`, and as not understood.
    #[default]
    Undeclared,
}

/// What an argument means, so that it can be judged as an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArgumentRole {
    /// A path that is read.
    ReadPath,
    /// A path that is written.
    WritePath,
    /// A path that is read and then written; its content is bound by an approval.
    EditPath,
    /// A path that is deleted.
    DeletePath,
    /// A patch: every file that it names is made, changed or deleted.
    Patch,
    /// An address that is reached.
    Url,
    /// A shell command that is run.
    Command,
}

/// Whether calls of a tool need an approval (T8). It can only tighten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalRequirement {
    /// Not by the tool's own word.
    #[default]
    Never,
    /// Every call.
    Always,
    /// A predicate over the arguments says; one that fails refuses.
    Depends,
}

/// What a tool says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Unique name.
    pub name: String,
    /// What the tool does, for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// Other names it answers to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Three to ten words by which `tool_search` finds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search_hint: Option<String>,
    /// Which checks its arguments get.
    #[serde(default)]
    pub permission_class: PermissionClass,
    /// What single arguments mean, by JSON pointer; beside what the class says.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, ArgumentRole>,
    /// The word for it in the book: write, edit, read, execute, delete, invoke, or the author's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_operation: Option<String>,
    /// Whether calls need an approval by the tool's own word.
    #[serde(default)]
    pub needs_approval: ApprovalRequirement,
    /// May run beside others of the same turn.
    #[serde(default)]
    pub concurrency_safe: bool,
    /// A label for people: it says that it only reads. Never loosens a verdict.
    #[serde(default)]
    pub read_only: bool,
    /// A label for people: it destroys. Never loosens a verdict.
    #[serde(default)]
    pub destructive: bool,
    /// Deals with what deserves a question. Undeclared counts as yes, except for permitted reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensitive: Option<bool>,
    /// Running it twice is the same as running it once, so an interrupted call may be begun again.
    #[serde(default)]
    pub repeatable: bool,
    /// Its effects can be taken back.
    #[serde(default)]
    pub reversible: bool,
    /// Must be released by a checkpoint in every mode (R8).
    #[serde(default)]
    pub requires_checkpoint: bool,
    /// The agent must first make the case against the call (R9).
    #[serde(default)]
    pub requires_reverse_thinking: bool,
    /// The MCP server that offers it, by its own name with us; said by who connects to it, never by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How long a call may take, where the tool needs other than the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl Manifest {
    /// A tool that runs shell commands, and says of itself that it is not sensitive: what it does is judged by its effects.
    pub fn of_commands(name: impl Into<String>) -> Self {
        let schema = serde_json::json!({ "type": "object" });
        let manifest = Self::new(name, "Runs a shell command.", schema);
        Self { permission_class: PermissionClass::Bash, sensitive: Some(false), ..manifest }
    }

    /// A manifest with nothing declared beyond the name, the description and the schema.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input_schema,
            aliases: Vec::new(),
            search_hint: None,
            permission_class: PermissionClass::Undeclared,
            roles: BTreeMap::new(),
            audit_operation: None,
            needs_approval: ApprovalRequirement::Never,
            concurrency_safe: false,
            read_only: false,
            destructive: false,
            sensitive: None,
            repeatable: false,
            reversible: false,
            requires_checkpoint: false,
            requires_reverse_thinking: false,
            server: None,
            timeout_ms: None,
        }
    }

    /// The digest that an approval binds.
    pub fn digest(&self) -> Digest {
        match serde_json::to_value(self) {
            Ok(value) => Digest::of_parts("byleave.manifest", &[canonical(&value).as_bytes()]),
            // A manifest is strings, flags and JSON: it always serializes. Were it ever not so, no two would agree.
            Err(error) => Digest::of_parts("byleave.manifest.unwritable", &[error.to_string().as_bytes()]),
        }
    }

    /// The word for this tool's calls in the book (T7): declared, else guessed from the name.
    pub fn operation(&self) -> &str {
        if let Some(declared) = &self.audit_operation {
            return declared;
        }
        const GUESSES: &[(&str, &[&str])] = &[
            ("delete", &["delete", "remove", "rm", "drop", "purge"]),
            ("edit", &["edit", "patch", "replace", "update", "modify"]),
            ("write", &["write", "create", "append", "save", "put"]),
            ("execute", &["bash", "shell", "exec", "execute", "run", "command"]),
            ("read", &["read", "get", "list", "ls", "glob", "grep", "search", "find", "show", "fetch"]),
        ];
        let name = self.name.to_lowercase();
        let words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).collect();
        GUESSES
            .iter()
            .find(|(_, hints)| hints.iter().any(|hint| words.contains(hint)))
            .map_or("invoke", |(operation, _)| operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // req: T5
    #[test]
    fn undeclared_is_conservative() {
        let manifest = Manifest::new("x", "", json!({}));
        assert!(
            !manifest.concurrency_safe
                && !manifest.read_only
                && !manifest.destructive
                && !manifest.repeatable
        );
        assert_eq!(manifest.sensitive, None, "undeclared, which policy counts as sensitive");
        assert_eq!(manifest.permission_class, PermissionClass::Undeclared);
        let bare: Manifest =
            serde_json::from_value(json!({"name":"x","description":"","input_schema":{}})).unwrap();
        assert_eq!(bare, manifest);
    }

    // req: T7
    #[test]
    fn operation_is_declared_or_guessed_from_the_name() {
        let of = |name: &str| Manifest::new(name, "", json!({})).operation().to_owned();
        assert_eq!(of("delete_file"), "delete");
        assert_eq!(of("apply_patch"), "edit");
        assert_eq!(of("append_line"), "write");
        assert_eq!(of("bash"), "execute");
        assert_eq!(of("list-dir"), "read");
        assert_eq!(of("budget"), "invoke", "`get` inside a word is no hint");
        let mut own = Manifest::new("delete_file", "", json!({}));
        own.audit_operation = Some("shred".into());
        assert_eq!(own.operation(), "shred");
    }

    #[test]
    fn the_digest_sees_every_field() {
        let base = Manifest::new("x", "d", json!({"type":"object"}));
        let mut other = base.clone();
        other.description = "D".into();
        assert_ne!(base.digest(), other.digest());
        let mut other = base.clone();
        other.repeatable = true;
        assert_ne!(base.digest(), other.digest());
    }
}
