//! Agents' own tools: Byleave evaluates their calls, and the agent does them.

use std::path::PathBuf;

use anyhow::Result;
use byleave_gate::boxed::BoxFuture;
use byleave_gate::catalog::Catalog;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::manifest::{ArgumentRole, Manifest, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::plan::plan_by_class;
use byleave_gate::tool::{RunContext, Tool, ToolContext, ToolError};
use byleave_hook::{AgentKind, ToolEffect, ToolKind, tool_effects};
use serde_json::{Map, Value, json};

use crate::error::CliError;
use crate::resolved_options::text_of;

/// The note on the record of every call that was allowed and that the agent does itself.
const PASSED_ON: &str = "passed on to the agent: evaluated, not enforced";

/// The argument with the directory of the agent's call, if it is not the workspace. The agent never sees it.
const AGENT_CWD: &str = "agent_cwd";

/// A tool of an agent.
struct AgentTool {
    manifest: Manifest,
    tool: String,
}

/// Adds an agent's tool to a catalog.
pub(super) fn register_tool(catalog: &Catalog, dialect: AgentKind, tool: &str) -> Result<String> {
    let manifest = manifest(dialect, tool);
    let name = manifest.name.clone();
    if !catalog.contains(&name) {
        catalog.replace(AgentTool { manifest, tool: tool.to_owned() })?;
    }
    Ok(name)
}

/// Adds the directory of a call to its arguments. Each directory is relative to the one before.
pub(super) fn resolve_paths(mut arguments: Value, directories: &[&str]) -> Result<Value> {
    if arguments.get(AGENT_CWD).is_some() {
        let taken = CliError::refused(format!("an argument named `{AGENT_CWD}` cannot be evaluated"));
        return Err(taken.hint("omit it").into());
    }
    if let (Value::Object(fields), false) = (&mut arguments, directories.is_empty()) {
        let directory: PathBuf = directories.iter().collect();
        fields.insert(AGENT_CWD.into(), text_of(&directory)?.into());
    }
    Ok(arguments)
}

/// Returns the arguments as the agent knows them.
pub(super) fn original_arguments(mut arguments: Value) -> Value {
    if let Value::Object(fields) = &mut arguments {
        fields.remove(AGENT_CWD);
    }
    arguments
}

/// Returns the manifest of a tool from its name alone. An approval binds it, so it must always be the same.
fn manifest(dialect: AgentKind, tool: &str) -> Manifest {
    let about = tool_effects(tool, &json!({}));
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
    let plain: String = tool.chars().map(|c| if is_name(c) { c } else { '_' }).take(100).collect();
    let described = format!("`{plain}` of {}: evaluated here, executed by the agent.", dialect.name());
    let schema = json!({ "type": "object" });
    let reads = matches!(about.kind, ToolKind::ReadsFiles | ToolKind::AgentInternal);
    Manifest {
        permission_class: class(about.kind),
        // In this field everyone who lists or reads the record sees it, and it cannot be lost.
        audit_operation: Some(format!("{}, {PASSED_ON}", about.operation)),
        // The tool is evaluated by its effects, if they are known.
        sensitive: (!matches!(about.kind, ToolKind::Other | ToolKind::Unknown)).then_some(false),
        concurrency_safe: reads,
        idempotent: reads,
        ..Manifest::new(format!("{}:{plain}", dialect.name()), described, schema)
    }
}

const fn class(kind: ToolKind) -> PermissionClass {
    match kind {
        ToolKind::Shell => PermissionClass::Bash,
        ToolKind::ReadsFiles | ToolKind::AgentInternal => PermissionClass::Readonly,
        ToolKind::ChangesFiles => PermissionClass::File,
        ToolKind::FetchesUrl => PermissionClass::Webfetch,
        ToolKind::Other => PermissionClass::Generic,
        ToolKind::Unknown => PermissionClass::Undeclared,
    }
}

impl Tool for AgentTool {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn plan<'a>(
        &'a self,
        arguments: &'a Value,
        site: &'a ToolContext,
    ) -> Option<BoxFuture<'a, Result<Plan, ToolError>>> {
        Some(Box::pin(async move { self.planned(arguments, site) }))
    }

    fn is_nonblocking(&self) -> bool {
        true
    }

    fn execute(&self, _: Value, _: RunContext) -> BoxFuture<'_, Output> {
        Box::pin(async { Output::text(PASSED_ON).with_data(json!({ "enforced": false })) })
    }
}

impl AgentTool {
    /// Plans the call as a tool of ours with arguments of the same meaning.
    fn planned(&self, arguments: &Value, site: &ToolContext) -> Result<Plan, ToolError> {
        let directory = arguments.get(AGENT_CWD).and_then(Value::as_str).map(PathBuf::from);
        let arguments = original_arguments(arguments.clone());
        let about = tool_effects(&self.tool, &arguments);
        let mut manifest = Manifest::new(self.manifest.name.clone(), "", json!({}));
        manifest.permission_class = class(about.kind);
        let mut unknown = Vec::new();
        let mut meant = match arguments {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        for (number, claim) in about.effects.into_iter().enumerate() {
            let (role, target) = match claim {
                ToolEffect::Read(path) => (ArgumentRole::ReadPath, path),
                ToolEffect::Write(path) => (ArgumentRole::WritePath, path),
                ToolEffect::Edit(path) => (ArgumentRole::EditPath, path),
                ToolEffect::Delete(path) => (ArgumentRole::DeletePath, path),
                ToolEffect::Patch(patch) => (ArgumentRole::Patch, patch),
                ToolEffect::Fetch(url) => (ArgumentRole::Url, url),
                ToolEffect::Run(command) => (ArgumentRole::Command, command),
                ToolEffect::Unknown(why) => {
                    unknown.push(Effect::Unknown { reason: why });
                    continue;
                }
            };
            manifest.roles.insert(format!("/claim {number}"), role);
            meant.insert(format!("claim {number}"), target.into());
        }
        if manifest.roles.is_empty() && !unknown.is_empty() {
            manifest.permission_class = PermissionClass::Undeclared;
        }
        let mut site = site.clone();
        if let Some(directory) = directory {
            site.cwd.push(directory);
        }
        let mut plan = plan_by_class(&manifest, &meant.into(), &site)?;
        plan.read_only &= unknown.is_empty();
        plan.effects.extend(unknown);
        Ok(plan)
    }
}
