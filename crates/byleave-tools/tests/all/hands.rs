//! Tools without a gate, called with a granted plan, for changes that happen after the plan was made.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use byleave_copy::CopyStore;
use byleave_gate::core::effect::Plan;
use byleave_gate::core::id::CallId;
use byleave_gate::core::outcome::Output;
use byleave_gate::core::policy::PathVariables;
use byleave_gate::plan::plan_by_class;
use byleave_gate::tool::{RunContext, Tool, ToolError};
use byleave_tools::ExecutionEnv;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::bare::ToolFixture;
use crate::on_copy::run_and_commit;

/// The built-in tools in a directory with `w`, the workspace, `elsewhere`, `state` and `outside`.
pub(crate) struct BuiltinToolFixture {
    folder: PathBuf,
    workplace: ExecutionEnv,
    bare: ToolFixture,
}

impl BuiltinToolFixture {
    /// Creates the missing directories.
    pub(crate) fn new(folder: &Path) -> Self {
        let folder = folder.canonicalize().unwrap();
        for directory in ["w", "elsewhere", "state/copies", "outside"] {
            std::fs::create_dir_all(folder.join(directory)).unwrap();
        }
        let (workspace, state) = (folder.join("w"), folder.join("state"));
        let places = PathVariables {
            workspace: workspace.to_str(),
            state: state.to_str(),
            ..PathVariables::default()
        };
        let mut workplace = ExecutionEnv::new(state.join("copies"), workspace.clone());
        workplace.private_paths = vec![state.clone()];
        let bare = ToolFixture::of(&workplace, &places);
        Self { folder, workplace, bare }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.join("w")
    }

    /// A directory next to the workspace, for paths that are granted by name.
    pub(crate) fn elsewhere(&self) -> PathBuf {
        self.folder.join("elsewhere")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.folder.join("outside")
    }

    pub(crate) fn kept_in(&self) -> PathBuf {
        self.folder.join("state/copies")
    }

    pub(crate) fn store(&self) -> CopyStore {
        self.workplace.open_store().unwrap()
    }

    /// The plan of a call in the current state.
    pub(crate) fn plan(&self, tool: &str, arguments: &Value) -> Result<Plan, ToolError> {
        plan_by_class(self.tool(tool).manifest(), arguments, &self.bare.site())
    }

    /// Executes the call at once.
    pub(crate) async fn execute(&self, id: CallId, tool: &str, arguments: Value, plan: Plan) -> Output {
        let tool = self.tool(tool);
        run_and_commit(&*tool, arguments, self.run(id, plan)).await
    }

    /// Executes the call after it was cancelled.
    pub(crate) async fn called_off(&self, tool: &str, arguments: Value) -> Output {
        let plan = self.plan(tool, &arguments).unwrap();
        let run = self.run(CallId::new(uuid::Uuid::new_v4()), plan);
        run.cancel.cancel();
        run_and_commit(&*self.tool(tool), arguments, run).await
    }

    /// Runs the call on a copy and commits it, as after a question.
    pub(crate) async fn rehearse(&self, id: CallId, tool: &str, arguments: Value, plan: Plan) -> Output {
        let tool = self.tool(tool);
        let rehearser = tool.as_rehearsable().unwrap();
        match rehearser.rehearse(arguments, self.run(id, plan.clone())).await {
            Ok(seen) => rehearser.commit(seen, None, self.run(id, plan)).await,
            Err(why) => Output::failure(format!("{why:?}")),
        }
    }

    fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.bare.tool(name)
    }

    fn run(&self, id: CallId, plan: Plan) -> RunContext {
        self.bare.run(id, plan, CancellationToken::new())
    }
}
