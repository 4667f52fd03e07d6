//! A tool that can be rehearsed, for scenarios: its copies are lists in memory.

use std::fs;
use std::sync::Arc;

use byleave_core::change::{Change, Changes, Node, NodeKind, Standing};
use byleave_core::digest::Digest;
use byleave_core::effect::{Effect, Plan};
use byleave_core::id::CallId;
use byleave_core::manifest::{Class, Manifest};
use byleave_core::outcome::{EndStatus, Output};
use byleave_core::rehearsal::{Rehearsal, Want};
use serde_json::{Value, json};

use super::copies::Copies;
use super::stage::{Runs, Stage};
use crate::pending::Pending;
use crate::tool::{Rehearse, Run, Site, Tool, ToolFault, Unrehearsed};

/// A tool that writes texts to files, of which nobody can tell beforehand which; on a copy that is a list in memory.
#[derive(Clone)]
pub(super) struct Copyist {
    manifest: Arc<Manifest>,
    copies: Copies,
    runs: Runs,
}

impl Stage<'_> {
    /// A tool that can be rehearsed.
    pub(super) fn copyist(&self) -> Copyist {
        let mut manifest = Manifest::new("copyist", "writes", json!({"type": "object"}));
        manifest.permission_class = Class::Bash;
        manifest.sensitive = Some(false);
        Copyist { manifest: Arc::new(manifest), copies: self.copies.clone(), runs: self.runs.clone() }
    }
}

fn files(arguments: &Value) -> Vec<(String, String)> {
    let files = arguments.get("files").and_then(Value::as_object).into_iter().flatten();
    files.map(|(path, text)| (path.clone(), text.as_str().unwrap_or_default().to_owned())).collect()
}

fn seen(arguments: &Value) -> Rehearsal {
    let change = |(path, text): &(String, String)| Change {
        path: path.clone(),
        before: None,
        after: Some(Node {
            kind: NodeKind::File { size: text.len() as u64, digest: Some(Digest::of(text.as_bytes())) },
            mode: 0o644,
            modified: 0,
        }),
        standing: Standing::Untracked,
        diff: Some(format!("+{text}")),
    };
    let want = |host: &str| Want { host: Some(host.to_owned()), port: 443 };
    Rehearsal {
        changes: Changes { list: files(arguments).iter().map(change).collect(), ..Changes::default() },
        scratch: 0,
        wanted: arguments.get("wants").and_then(Value::as_str).map(want).into_iter().collect(),
        left_running: u32::from(arguments.get("leaves").is_some()),
        weaker: Vec::new(),
        status: EndStatus::Done,
        output: Output::text("printed on the copy"),
    }
}

impl Tool for Copyist {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    fn plan<'a>(&'a self, _: &'a Value, _: &'a Site) -> Option<Pending<'a, Result<Plan, ToolFault>>> {
        let effects = vec![Effect::Unknown { why: "only running it tells".into() }];
        Some(Box::pin(async move { Ok(Plan { effects, ..Plan::default() }) }))
    }
    fn rehearser(&self) -> Option<&dyn Rehearse> {
        Some(self)
    }
    fn execute(&self, _: Value, run: Run) -> Pending<'_, Output> {
        let mut kept = self.copies.kept();
        kept.executed += 1;
        kept.granted.extend(run.plan.effects.iter().map(ToString::to_string));
        Box::pin(async { Output::text("ran for real") })
    }
}

impl Rehearse for Copyist {
    fn rehearse(&self, arguments: Value, run: Run) -> Pending<'_, Result<Rehearsal, Unrehearsed>> {
        let mut kept = self.copies.kept();
        kept.rehearsed += 1;
        if let Some(why) = arguments.get("unable").and_then(Value::as_str) {
            let why = why.to_owned();
            return Box::pin(async move { Err(Unrehearsed::Not(why)) });
        }
        kept.copies.insert(run.call, files(&arguments));
        Box::pin(async move { Ok(seen(&arguments)) })
    }
    fn is_kept<'a>(&'a self, call: CallId, _: &'a Rehearsal) -> Pending<'a, bool> {
        let kept = self.copies.kept().copies.contains_key(&call);
        Box::pin(async move { kept })
    }
    fn commit(&self, seen: Rehearsal, only: Option<Vec<String>>, run: Run) -> Pending<'_, Output> {
        let mut kept = self.copies.kept();
        kept.committed += 1;
        // What is done is only told.
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
    fn discard(&self, call: CallId) -> Pending<'_, ()> {
        self.copies.kept().copies.remove(&call);
        Box::pin(async {})
    }
}
