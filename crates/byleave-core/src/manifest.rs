//! The description that a tool gives of itself. Defaults are conservative (T5), and a declaration is never trusted where it would loosen a
//! rule.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::{Digest, canonical_json};

/// Marks an argument that no model is offered. Byleave sets it itself, for the call of an agent with a hook, and every process
/// must have the same manifest.
pub const NOT_OFFERED: &str = "x-byleave-not-offered";

/// The permission class, which selects the checks of a tool's arguments (T6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PermissionClass {
    /// The command is parsed as shell.
    Bash,
    /// Every path is evaluated.
    File,
    /// The address is evaluated.
    Webfetch,
    /// The tool reads, or changes only the agent's own data. It cannot change anything that belongs to others.
    Readonly,
    /// Rules match the name of the tool. Without a rule, the call asks.
    Generic,
    /// The author declared no class. Evaluated like `generic`, and as not understood.
    #[default]
    Undeclared,
}

/// The meaning of an argument, so that it can be evaluated as an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArgumentRole {
    /// A path that is read.
    ReadPath,
    /// A path that is written.
    WritePath,
    /// A path that is read and then written. An approval binds its content.
    EditPath,
    /// A path that is deleted.
    DeletePath,
    /// A patch. Every file that it names is created, changed or deleted.
    Patch,
    /// An address that is reached.
    Url,
    /// A shell command that is run.
    Command,
}

/// The tool's own requirement for an approval (T8). It can only tighten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalRequirement {
    /// The tool requires none.
    #[default]
    Never,
    /// Every call requires one.
    Always,
    /// A predicate over the arguments decides. If the predicate fails, the call is refused.
    Depends,
}

/// The description that a tool gives of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The unique name.
    pub name: String,
    /// The description of the tool, for the model.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
    /// Alternative names of the tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Three to ten words by which `tool_search` finds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search_hint: Option<String>,
    /// The permission class, which selects the checks of its arguments.
    #[serde(default)]
    pub permission_class: PermissionClass,
    /// The meaning of single arguments, by JSON pointer, in addition to the class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, ArgumentRole>,
    /// The operation in the audit log: write, edit, read, execute, delete, invoke, or the author's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_operation: Option<String>,
    /// The tool's own requirement for an approval.
    #[serde(default)]
    pub needs_approval: ApprovalRequirement,
    /// Calls may run concurrently with others of the same turn.
    #[serde(default)]
    pub concurrency_safe: bool,
    /// A label for people: the tool only reads. It never loosens a verdict.
    #[serde(default)]
    pub read_only: bool,
    /// A label for people: the tool is destructive. It never loosens a verdict.
    #[serde(default)]
    pub destructive: bool,
    /// The tool deals with something that deserves a question. Undeclared is treated as yes, except for permitted reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensitive: Option<bool>,
    /// The tool is idempotent, so an interrupted call may be attempted again.
    #[serde(default)]
    pub idempotent: bool,
    /// The effects can be undone.
    #[serde(default)]
    pub reversible: bool,
    /// Calls must be released by a checkpoint in every mode (R8).
    #[serde(default)]
    pub requires_checkpoint: bool,
    /// The agent must first make the case against the call (R9).
    #[serde(default)]
    pub requires_reverse_thinking: bool,
    /// The MCP server that offers the tool, by our name for it. The connecting program sets it, never the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The maximum duration of a call, if the tool needs another value than the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The tools whose data this tool is given, by their own names (T4). Of each, it gets the structured data of the newest completed
    /// call in the same session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wants_data: Vec<String>,
}

impl Manifest {
    /// Creates the manifest of a tool that runs shell commands. It declares that it is not sensitive, because its calls are evaluated by
    /// their effects.
    pub fn for_commands(name: impl Into<String>) -> Self {
        let schema = serde_json::json!({ "type": "object" });
        let manifest = Self::new(name, "Runs a shell command.", schema);
        Self { permission_class: PermissionClass::Bash, sensitive: Some(false), ..manifest }
    }

    /// Creates a manifest that declares only the name, the description and the schema.
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
            idempotent: false,
            reversible: false,
            requires_checkpoint: false,
            requires_reverse_thinking: false,
            server: None,
            timeout_ms: None,
            wants_data: Vec::new(),
        }
    }

    /// Returns the schema as models see it: without the properties that are marked with [`NOT_OFFERED`].
    pub fn offered_schema(&self) -> Cow<'_, Value> {
        let is_hidden = |property: &Value| property.get(NOT_OFFERED) == Some(&Value::Bool(true));
        let properties = self.input_schema.get("properties").and_then(Value::as_object);
        if !properties.is_some_and(|all| all.values().any(is_hidden)) {
            return Cow::Borrowed(&self.input_schema);
        }
        let mut schema = self.input_schema.clone();
        if let Some(all) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            all.retain(|_, property| !is_hidden(property));
        }
        Cow::Owned(schema)
    }

    /// Returns the digest that an approval binds.
    pub fn digest(&self) -> Digest {
        match serde_json::to_value(self) {
            Ok(value) => Digest::compute_parts("byleave.manifest", &[canonical_json(&value).as_bytes()]),
            // A manifest consists of strings, flags and JSON, so it always serializes. If it ever did not, no two digests would agree.
            Err(error) => {
                Digest::compute_parts("byleave.manifest.unwritable", &[error.to_string().as_bytes()])
            }
        }
    }

    /// Returns the operation that names this tool's calls in the audit log (T7): declared, or guessed from the name.
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
                && !manifest.idempotent
        );
        assert_eq!(manifest.sensitive, None, "undeclared, which the policy treats as sensitive");
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
        assert_eq!(of("budget"), "invoke", "`get` inside a word is not a hint");
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
        other.idempotent = true;
        assert_ne!(base.digest(), other.digest());
        let mut other = base.clone();
        other.wants_data = vec!["y".into()];
        assert_ne!(base.digest(), other.digest());
    }
}
