//! A rehearsable tool for scenarios. Its copies are lists in memory.

use std::fs;
use std::sync::Arc;

use byleave_core::digest::Digest;
use byleave_core::effect::{Effect, Plan};
use byleave_core::file_change::{FileChange, FileChanges, FileNode, FileNodeKind, GitStatus};
use byleave_core::id::CallId;
use byleave_core::manifest::{Manifest, PermissionClass};
use byleave_core::outcome::{ExecutionStatus, Output};
use byleave_core::rehearsal::{BlockedHost, Rehearsal};
use serde_json::{Value, json};

use super::fake_copies::TestCopies;
use super::fixture::{RunLog, ScenarioContext};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::tool::{Rehearsable, RehearseError, RunContext, Tool, ToolContext, ToolError};

/// A tool that writes texts to files that cannot be predicted. Its copy is a list in memory.
#[derive(Clone)]
pub(super) struct MemoryCopyTool {
    manifest: Arc<Manifest>,
    copies: TestCopies,
    runs: RunLog,
}

impl ScenarioContext<'_> {
    /// Creates a tool that can be rehearsed.
    pub(super) fn copyist(&self) -> MemoryCopyTool {
        let mut manifest = Manifest::new("copyist", "writes", json!({"type": "object"}));
        manifest.permission_class = PermissionClass::Bash;
        manifest.sensitive = Some(false);
        MemoryCopyTool {
            manifest: Arc::new(manifest),
            copies: self.copies.clone(),
            runs: self.run_log.clone(),
        }
    }
}

fn files(arguments: &Value) -> Vec<(String, String)> {
    let files = arguments.get("files").and_then(Value::as_object).into_iter().flatten();
    files.map(|(path, text)| (path.clone(), text.as_str().unwrap_or_default().to_owned())).collect()
}

fn seen(arguments: &Value) -> Rehearsal {
    let change = |(path, text): &(String, String)| FileChange {
        path: path.clone(),
        before: None,
        after: Some(FileNode {
            kind: FileNodeKind::File {
                size: text.len() as u64,
                digest: Some(Digest::compute(text.as_bytes())),
            },
            mode: 0o644,
            modified_ns: 0,
        }),
        git_status: GitStatus::Untracked,
        diff: Some(format!("+{text}")),
    };
    let want = |host: &str| BlockedHost { host: Some(host.to_owned()), port: 443 };
    let changes =
        FileChanges { list: files(arguments).iter().map(change).collect(), ..FileChanges::default() };
    Rehearsal {
        blocked_hosts: arguments.get("wants").and_then(Value::as_str).map(want).into_iter().collect(),
        leftover_processes: u32::from(arguments.get("leaves").is_some()),
        ..Rehearsal::new(changes, ExecutionStatus::Succeeded, Output::text("printed on the copy"))
    }
}

impl Tool for MemoryCopyTool {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    fn plan<'a>(
        &'a self,
        _: &'a Value,
        _: &'a ToolContext,
    ) -> Option<BoxFuture<'a, Result<Plan, ToolError>>> {
        let effects = vec![Effect::Unknown { reason: "only running it tells".into() }];
        Some(Box::pin(async move { Ok(Plan { effects, ..Plan::default() }) }))
    }
    fn as_rehearsable(&self) -> Option<&dyn Rehearsable> {
        Some(self)
    }
    fn execute(&self, _: Value, _: RunContext) -> BoxFuture<'_, Output> {
        Box::pin(async { Output::failure("it runs only on a copy") })
    }
}

impl Rehearsable for MemoryCopyTool {
    fn rehearse(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Result<Rehearsal, RehearseError>> {
        let mut kept = self.copies.inner();
        kept.rehearsed += 1;
        if let Some(why) = arguments.get("unable").and_then(Value::as_str) {
            let why = why.to_owned();
            return Box::pin(async move { Err(RehearseError::Unavailable(why)) });
        }
        kept.copies.insert(run.call, files(&arguments));
        Box::pin(async move { Ok(seen(&arguments)) })
    }
    fn run_on_copy(
        &self,
        arguments: Value,
        run: RunContext,
    ) -> BoxFuture<'_, Result<Rehearsal, RehearseError>> {
        let mut kept = self.copies.inner();
        kept.executed += 1;
        kept.granted.extend(run.plan.effects.iter().map(ToString::to_string));
        kept.copies.insert(run.call, files(&arguments));
        let mut seen = seen(&arguments);
        seen.reached_hosts = seen.blocked_hosts.drain(..).filter_map(|wanted| wanted.host).collect();
        seen.output = Output::text("ran for real");
        Box::pin(async move { Ok(seen) })
    }
    fn has_copy<'a>(&'a self, call: CallId, _: &'a Rehearsal) -> BoxFuture<'a, bool> {
        let kept = self.copies.inner().copies.contains_key(&call);
        Box::pin(async move { kept })
    }
    fn commit(&self, seen: Rehearsal, only: Option<Vec<String>>, run: RunContext) -> BoxFuture<'_, Output> {
        let mut kept = self.copies.inner();
        kept.committed += 1;
        // A commit that was already made only returns its output.
        if !kept.done.insert(run.call) {
            return Box::pin(async move { seen.output });
        }
        self.runs.note("copyist", &json!({}));
        let files = kept.copies.remove(&run.call).unwrap_or_default();
        let chosen = |path: &String| only.as_ref().is_none_or(|only| only.contains(path));
        for (path, text) in files.iter().filter(|(path, _)| chosen(path)) {
            if let Err(error) = fs::write(path, text) {
                let failure = Output::failure(error.to_string());
                return Box::pin(async move { failure });
            }
        }
        Box::pin(async move { seen.output })
    }
    fn discard(&self, call: CallId) -> BoxFuture<'_, ()> {
        self.copies.inner().copies.remove(&call);
        Box::pin(async {})
    }
}
