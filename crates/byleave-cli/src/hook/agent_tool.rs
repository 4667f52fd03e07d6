//! Agents' own tools: Byleave evaluates their calls, and the agent does them. Before an edit of a file, Byleave keeps the before-image.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use byleave_gate::boxed::BoxFuture;
use byleave_gate::catalog::Catalog;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::id::{AgentId, CallId, SessionId};
use byleave_gate::core::manifest::{ArgumentRole, Manifest, PermissionClass};
use byleave_gate::core::outcome::{ExecutionStatus, Output};
use byleave_gate::core::rehearsal::Rehearsal;
use byleave_gate::plan::plan_by_class;
use byleave_gate::tool::{Rehearsable, RehearseError, RunContext, Tool, ToolContext, ToolError};
use byleave_hook::{AgentKind, ToolEffect, ToolKind, tool_effects, ungoverned_reason};
use byleave_tools::external_edit;
use serde_json::{Map, Value, json};

use super::agent_edit::AgentEditJudge;
use crate::error::CliError;
use crate::resolved_options::{ResolvedOptions, text_of};
use crate::tool_catalog::workplace;

/// The note on the record of every call that was allowed and that the agent does itself.
const PASSED_ON: &str = "passed on to the agent: evaluated, not enforced";

/// The argument with the directory of the agent's call, if it is not the workspace. The agent never sees it.
const AGENT_CWD: &str = "agent_cwd";

/// A tool of an agent.
struct AgentTool {
    manifest: Manifest,
    tool: String,
    /// Judges edits of files. Other tools have none.
    edits: Option<Arc<EditContext>>,
}

/// Where the edits of a tool are judged.
struct EditContext {
    judge: AgentEditJudge,
    /// The context of a plan, apart from a call.
    site: ToolContext,
}

impl EditContext {
    fn new(dialect: AgentKind, tool: &str, (options, workspace): (&ResolvedOptions, &str)) -> Result<Self> {
        Ok(Self {
            judge: AgentEditJudge {
                agent: dialect,
                tool: tool.to_owned(),
                workplace: workplace(options, workspace),
            },
            site: ToolContext {
                tenant: options.tenant.clone(),
                session: SessionId::new(dialect.name())?,
                agent: AgentId::new(dialect.name())?,
                cwd: PathBuf::from(workspace),
            },
        })
    }
}

/// Adds an agent's tool to a catalog. Without a workspace, its edits are evaluated and never handed over.
pub(super) fn register_tool(
    catalog: &Catalog,
    dialect: AgentKind,
    tool: &str,
    place: Option<(&ResolvedOptions, &str)>,
) -> Result<String> {
    let manifest = manifest(dialect, tool);
    let name = manifest.name.clone();
    if !catalog.contains(&name) {
        let changes_files = tool_effects(tool, &json!({})).kind == ToolKind::ChangesFiles;
        let place = place.filter(|(_, workspace)| {
            changes_files && dialect.reports_file_changes() && !workspace.is_empty()
        });
        let edits = place.map(|place| EditContext::new(dialect, tool, place)).transpose()?.map(Arc::new);
        catalog.replace_generated(AgentTool { manifest, tool: tool.to_owned(), edits })?;
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

    fn returns_foreign_text(&self) -> bool {
        // A web search, a tool of an MCP server, or a tool that nobody knows.
        let kind = tool_effects(&self.tool, &json!({})).kind;
        matches!(kind, ToolKind::Other | ToolKind::Unknown)
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

    fn as_rehearsable(&self) -> Option<&dyn Rehearsable> {
        self.edits.is_some().then_some(self)
    }

    fn execute(&self, _: Value, _: RunContext) -> BoxFuture<'_, Output> {
        Box::pin(async { passed_on() })
    }
}

fn passed_on() -> Output {
    Output::text(PASSED_ON).with_data(json!({ "enforced": false }))
}

/// The copy has the content that the agent should leave. Its commit only keeps the before-image: the agent makes the edit.
impl Rehearsable for AgentTool {
    fn rehearse(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Result<Rehearsal, RehearseError>> {
        let Some(edits) = self.edits.clone() else {
            return Box::pin(async { Err(RehearseError::Unavailable("the tool edits no files".into())) });
        };
        let work = move || {
            let directory = directory_of(&arguments, &run.context.cwd);
            edits.judge.put_on_copy(&original_arguments(arguments), &directory, passed_on(), &run)
        };
        Box::pin(async {
            let done = tokio::task::spawn_blocking(work).await;
            done.unwrap_or_else(|error| Err(RehearseError::Unavailable(format!("internal error: {error}"))))
        })
    }

    fn runs_on_copy(&self, arguments: &Value) -> bool {
        let Some(edits) = &self.edits else { return false };
        let directory = directory_of(arguments, &edits.site.cwd);
        let plan = self.planned(arguments, &edits.site);
        let judged =
            plan.map(|plan| edits.judge.judge(&original_arguments(arguments.clone()), &directory, &plan));
        matches!(judged, Ok(Ok(_)))
    }

    fn has_copy<'a>(&'a self, call: CallId, seen: &'a Rehearsal) -> BoxFuture<'a, bool> {
        match &self.edits {
            // An edit that would fail has no copy to keep.
            Some(_) if seen.status != ExecutionStatus::Succeeded => Box::pin(async { true }),
            Some(edits) => external_edit::has_copy(&Arc::new(edits.judge.workplace.clone()), call, seen),
            None => Box::pin(async { false }),
        }
    }

    fn commit(&self, seen: Rehearsal, only: Option<Vec<String>>, run: RunContext) -> BoxFuture<'_, Output> {
        let Some(edits) = self.edits.clone() else {
            return Box::pin(async { Output::failure("the tool edits no files") });
        };
        let work = move || external_edit::hand_over(&edits.judge.workplace, seen, only.as_deref(), &run);
        Box::pin(async {
            match tokio::task::spawn_blocking(work).await {
                Ok(Ok(output)) => output,
                Ok(Err(why)) => Output::failure(why),
                Err(error) => Output::failure(format!("internal error: {error}")),
            }
        })
    }

    fn discard(&self, call: CallId) -> BoxFuture<'_, ()> {
        match &self.edits {
            Some(edits) => external_edit::drop_copy(&Arc::new(edits.judge.workplace.clone()), call),
            None => Box::pin(async {}),
        }
    }
}

/// Returns the directory in which the agent calls its tool.
fn directory_of(arguments: &Value, workspace: &Path) -> PathBuf {
    let named = arguments.get(AGENT_CWD).and_then(Value::as_str);
    named.map_or_else(|| workspace.to_owned(), |named| workspace.join(named))
}

impl AgentTool {
    /// Plans the call as a tool of ours with arguments of the same meaning.
    fn planned(&self, arguments: &Value, site: &ToolContext) -> Result<Plan, ToolError> {
        let directory = arguments.get(AGENT_CWD).and_then(Value::as_str).map(PathBuf::from);
        let arguments = original_arguments(arguments.clone());
        if let Some(why) = ungoverned_reason(&self.tool) {
            return Err(ToolError(why.into()));
        }
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
