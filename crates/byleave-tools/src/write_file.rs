//! The tool `write_file`: creates a file, replaces its content, or appends to it.

use byleave_gate::core::manifest::{ArgumentRole, Manifest, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::tool::{RunContext, Tool};
use byleave_gate::typed_tool::schema_for;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::execution_env::ExecutionEnv;
use crate::file_change_tool::FileChangeTool;
use crate::file_edit::{PlannedEdit, PlannedFile, Precondition, granted_write_path};
use crate::workspace_files::Files;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteFile {
    /// The file; missing directories are created
    #[expect(dead_code, reason = "the plan contains the evaluated path, and that one is used")]
    path: String,
    /// The content
    content: String,
    /// Whether to replace the content or to append to it
    #[serde(default)]
    mode: WriteMode,
}

/// How a file is written.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WriteMode {
    #[default]
    Overwrite,
    Append,
}

/// Creates the tool for an execution environment.
pub fn write_file(workplace: &ExecutionEnv) -> impl Tool + use<> {
    let about =
        "Writes a text file: creates it, replaces its content, or appends to it. The write is atomic.";
    let mut manifest = Manifest::new("write_file", about, schema_for::<WriteFile>());
    manifest.permission_class = PermissionClass::File;
    manifest.roles = [("/path".to_owned(), ArgumentRole::WritePath)].into();
    manifest.aliases = vec!["create_file".into()];
    manifest.search_hint = Some("write, create or append to a file".into());
    manifest.audit_operation = Some("write".into());
    manifest.sensitive = Some(false);
    manifest.reversible = true;
    FileChangeTool::new(manifest, workplace, revision)
}

fn revision(args: &WriteFile, files: &Files, run: &RunContext) -> Result<PlannedEdit, String> {
    let path = granted_write_path(&run.plan)?;
    let (mut content, from) = match args.mode {
        WriteMode::Overwrite => (Vec::new(), Precondition::Any),
        WriteMode::Append => {
            let old = files.read_existing(path)?;
            let from = Precondition::from_content(old.as_ref());
            (old.map(|old| old.bytes).unwrap_or_default(), from)
        }
    };
    let bytes = args.content.len();
    content.extend_from_slice(args.content.as_bytes());
    let done = if args.mode == WriteMode::Append { "appended" } else { "wrote" };
    let output = Output::text(format!("{done} {bytes} bytes to {}", files.display_path(path)));
    let output = output.with_data(json!({ "path": path, "bytes": bytes }));
    let put = PlannedFile { path: path.to_owned(), precondition: from, content: Some(content), mode: None };
    Ok(PlannedEdit { files: vec![put], output })
}
