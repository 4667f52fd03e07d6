//! Tools without a gate: executed with a plan that was judged before, whatever happened to the files since.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use byleave::catalog::Catalog;
use byleave::core::call::Mode;
use byleave::core::effect::{Effect, Plan};
use byleave::core::id::{AgentId, CallId, SessionId};
use byleave::core::outcome::Output;
use byleave::core::policy::{Places, Policy, builtin};
use byleave::tool::{Run, Site};
use byleave_tools::{Offer, Workplace, catalog};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The tools of a workspace, under the built-in rules.
pub(crate) struct Bare {
    catalog: Catalog,
    rules: Arc<Policy>,
    workspace: PathBuf,
}

impl Bare {
    /// In a directory, with copies kept in another.
    pub(crate) fn new(workspace: &Path, kept_in: &Path) -> Self {
        let workspace = workspace.canonicalize().unwrap();
        let places = Places { workspace: workspace.to_str(), ..Places::default() };
        let rules = Arc::new(Policy::new(builtin(&places).unwrap()).unwrap());
        let workplace = Workplace::new(kept_in.to_path_buf(), workspace.clone());
        let catalog = catalog(&workplace, &Offer { allow_delete: true, ..Offer::default() }).unwrap();
        Self { catalog, rules, workspace }
    }

    /// What a tool puts out that may read one path of the workspace; the empty path is the workspace.
    pub(crate) async fn read(&self, tool: &str, path: &str, arguments: Value) -> Output {
        self.cancelled(tool, path, arguments, CancellationToken::new()).await
    }

    /// The same, as long as it is not called off.
    pub(crate) async fn cancelled(
        &self,
        tool: &str,
        path: &str,
        arguments: Value,
        cancel: CancellationToken,
    ) -> Output {
        let path = if path.is_empty() { self.workspace.clone() } else { self.workspace.join(path) };
        let effects = vec![Effect::Read { path: path.to_str().unwrap().to_owned() }];
        let plan = Arc::new(Plan { effects, reads_only: true, ..Plan::default() });
        let site = Site {
            tenant: "t".parse().unwrap(),
            session: SessionId::new("s").unwrap(),
            agent: AgentId::new("a").unwrap(),
            cwd: self.workspace.clone(),
        };
        let run = Run::new(CallId::new(uuid::Uuid::new_v4()), site, plan, cancel, Arc::new(|_| {}))
            .under(Arc::clone(&self.rules), Mode::ConfirmSensitive);
        let tool = Arc::clone(self.catalog.get(tool).unwrap().tool());
        tool.execute(arguments, run).await
    }
}
