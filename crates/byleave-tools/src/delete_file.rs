//! The tool `delete_file`: deletes a file, which `undo` can restore. It is offered only if the operator allows it.

use byleave_gate::core::effect::Effect;
use byleave_gate::core::manifest::{ArgumentRole, Manifest, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::tool::{RunContext, Tool};
use byleave_gate::typed_tool::schema_for;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::execution_env::ExecutionEnv;
use crate::file_change_tool::FileChangeTool;
use crate::file_edit::{PlannedEdit, PlannedFile, Precondition};
use crate::workspace_files::Files;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteFile {
    /// The file; not a directory
    #[expect(dead_code, reason = "the plan contains the evaluated path, and that one is used")]
    path: String,
}

/// Creates the tool for an execution environment.
pub fn delete_file(workplace: &ExecutionEnv) -> impl Tool + use<> {
    let about = "Removes a file. The content is kept, so that `undo` can restore it.";
    let mut manifest = Manifest::new("delete_file", about, schema_for::<DeleteFile>());
    manifest.permission_class = PermissionClass::File;
    manifest.roles = [("/path".to_owned(), ArgumentRole::DeletePath)].into();
    manifest.search_hint = Some("delete or remove a file".into());
    manifest.audit_operation = Some("delete".into());
    manifest.sensitive = Some(false);
    manifest.destructive = true;
    manifest.reversible = true;
    FileChangeTool::new(manifest, workplace, revision)
}

fn revision(_: &DeleteFile, files: &Files, run: &RunContext) -> Result<PlannedEdit, String> {
    let mut removed = run.plan.named_effects().filter_map(|effect| match effect {
        Effect::Delete { path } => Some(path),
        _ => None,
    });
    let (Some(path), None) = (removed.next(), removed.next()) else {
        return Err("the plan does not name exactly one file to remove; call again with one `path`".into());
    };
    let from = Precondition::from_content(Some(&files.stat_for_removal(path)?));
    let output = Output::text(format!("removed {}", files.display_path(path)));
    let output = output.with_data(json!({ "path": path }));
    Ok(PlannedEdit {
        files: vec![PlannedFile { path: path.clone(), precondition: from, content: None, mode: None }],
        output,
    })
}
