//! Tools without a gate, executed with an earlier plan, while the files have changed since.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use byleave_gate::catalog::Catalog;
use byleave_gate::core::call::Mode;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::id::{AgentId, CallId, SessionId};
use byleave_gate::core::outcome::Output;
use byleave_gate::core::policy::{PathVariables, Policy, builtin_rules};
use byleave_gate::tool::{RunContext, Tool, ToolContext};
use byleave_tools::{BuiltinToolOptions, ExecutionEnv, builtin_catalog};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::on_copy::run_and_commit;

/// The tools of a workspace, under the built-in rules.
pub(crate) struct ToolFixture {
    catalog: Catalog,
    rules: Arc<Policy>,
    workspace: PathBuf,
}

impl ToolFixture {
    /// In a directory, with copies stored in another.
    pub(crate) fn new(workspace: &Path, kept_in: &Path) -> Self {
        let workspace = workspace.canonicalize().unwrap();
        let places = PathVariables { workspace: workspace.to_str(), ..PathVariables::default() };
        Self::of(&ExecutionEnv::new(kept_in.to_path_buf(), workspace.clone()), &places)
    }

    /// In an execution environment, under the built-in rules for these paths.
    pub(crate) fn of(workplace: &ExecutionEnv, places: &PathVariables<'_>) -> Self {
        let rules = Arc::new(Policy::new(builtin_rules(places).unwrap()).unwrap());
        let catalog = builtin_catalog(
            workplace,
            &BuiltinToolOptions { allow_delete: true, ..BuiltinToolOptions::default() },
        )
        .unwrap();
        Self { catalog, rules, workspace: workplace.workspace.clone() }
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        Arc::clone(self.catalog.get(name).unwrap().tool())
    }

    pub(crate) fn site(&self) -> ToolContext {
        let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
        ToolContext { tenant: "t".parse().unwrap(), session, agent, cwd: self.workspace.clone() }
    }

    pub(crate) fn run(&self, id: CallId, plan: Plan, cancel: CancellationToken) -> RunContext {
        let run = RunContext::new(id, self.site(), Arc::new(plan), cancel, Arc::new(|_| {}));
        run.with_policy(Arc::clone(&self.rules), Mode::ConfirmSensitive)
    }

    /// The output of a tool that may read one path of the workspace. The empty path is the workspace itself.
    pub(crate) async fn read(&self, tool: &str, path: &str, arguments: Value) -> Output {
        self.cancelled(tool, path, arguments, CancellationToken::new()).await
    }

    /// The same, with a cancellation token.
    pub(crate) async fn cancelled(
        &self,
        tool: &str,
        path: &str,
        arguments: Value,
        cancel: CancellationToken,
    ) -> Output {
        let path = if path.is_empty() { self.workspace.clone() } else { self.workspace.join(path) };
        let effects = vec![Effect::Read { path: path.to_str().unwrap().to_owned() }];
        let plan = Plan { effects, read_only: true, ..Plan::default() };
        let run = self.run(CallId::new(uuid::Uuid::new_v4()), plan, cancel);
        run_and_commit(&*self.tool(tool), arguments, run).await
    }
}
