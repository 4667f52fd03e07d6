//! Helpers that several test modules share.

use std::sync::{Arc, Mutex};

use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::effect::Plan;
use byleave_gate::core::id::{AgentId, CallId, SessionId};
use byleave_gate::core::manifest::Manifest;
use byleave_gate::core::outcome::Output;
use byleave_gate::tool::{Progress, RunContext, Tool, ToolContext};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A tool context for tests.
pub(crate) fn site() -> ToolContext {
    ToolContext {
        tenant: "t".parse().unwrap(),
        session: SessionId::new("s").unwrap(),
        agent: AgentId::new("a").unwrap(),
        cwd: "/w".into(),
    }
}

/// A run context for tests.
pub(crate) fn run() -> RunContext {
    run_reporting(&Arc::default())
}

/// A run context that records progress.
pub(crate) fn run_reporting(reports: &Arc<Mutex<Vec<Progress>>>) -> RunContext {
    let reports = Arc::clone(reports);
    RunContext::new(
        CallId::new(uuid::Uuid::from_u128(1)),
        site(),
        Arc::new(Plan::default()),
        CancellationToken::new(),
        Arc::new(move |progress| reports.lock().unwrap().push(progress)),
    )
}

/// A tool with only a manifest.
pub(crate) struct ManifestOnlyTool(pub(crate) Manifest);

impl ManifestOnlyTool {
    pub(crate) fn named(name: &str) -> Self {
        Self(Manifest::new(name, format!("Does {name}"), json!({"type": "object"})))
    }

    pub(crate) fn with_schema(name: &str, schema: Value) -> Self {
        Self(Manifest::new(name, format!("Does {name}"), schema))
    }

    pub(crate) fn also(mut self, alias: &str) -> Self {
        self.0.aliases.push(alias.into());
        self
    }
}

impl Tool for ManifestOnlyTool {
    fn manifest(&self) -> &Manifest {
        &self.0
    }
    fn execute(&self, arguments: Value, _run: RunContext) -> BoxFuture<'_, Output> {
        Box::pin(async move { Output::text(arguments.to_string()) })
    }
}
