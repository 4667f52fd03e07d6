//! What several subjects need.

use std::sync::{Arc, Mutex};

use byleave::core::effect::Plan;
use byleave::core::id::{AgentId, CallId, SessionId};
use byleave::core::manifest::Manifest;
use byleave::core::outcome::Output;
use byleave::pending::Pending;
use byleave::tool::{Progress, Run, Site, Tool};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Somewhere to ask from.
pub(crate) fn site() -> Site {
    Site {
        tenant: "t".parse().unwrap(),
        session: SessionId::new("s").unwrap(),
        agent: AgentId::new("a").unwrap(),
        cwd: "/w".into(),
    }
}

/// Something to run with.
pub(crate) fn run() -> Run {
    run_reporting(&Arc::default())
}

/// Something to run with that notes the progress.
pub(crate) fn run_reporting(reports: &Arc<Mutex<Vec<Progress>>>) -> Run {
    let reports = Arc::clone(reports);
    Run::new(
        CallId::new(uuid::Uuid::from_u128(1)),
        site(),
        Arc::new(Plan::default()),
        CancellationToken::new(),
        Arc::new(move |progress| reports.lock().unwrap().push(progress)),
    )
}

/// A tool that is nothing but its manifest.
pub(crate) struct Plain(pub(crate) Manifest);

impl Plain {
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

impl Tool for Plain {
    fn manifest(&self) -> &Manifest {
        &self.0
    }
    fn execute(&self, arguments: Value, _run: Run) -> Pending<'_, Output> {
        Box::pin(async move { Output::text(arguments.to_string()) })
    }
}
