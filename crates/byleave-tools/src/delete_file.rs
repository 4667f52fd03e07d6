//! `delete_file`: removes a file, which `undo` brings back. Offered only where that was allowed.

use byleave::core::effect::Effect;
use byleave::core::manifest::{Class, Manifest, Role};
use byleave::core::outcome::Output;
use byleave::tool::{Run, Tool};
use byleave::typed::schema_of;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::changing::Changing;
use crate::files::Files;
use crate::revision::{From, Put, Revision};
use crate::workplace::Workplace;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteFile {
    /// The file; not a directory
    #[expect(dead_code, reason = "the path that was judged is in the plan, and that one is used")]
    path: String,
}

/// The tool for a workplace.
pub fn delete_file(workplace: &Workplace) -> impl Tool + use<> {
    let about = "Removes a file. What was in it is kept, so that it can be brought back with undo.";
    let mut manifest = Manifest::new("delete_file", about, schema_of::<DeleteFile>());
    manifest.permission_class = Class::File;
    manifest.roles = [("/path".to_owned(), Role::DeletePath)].into();
    manifest.search_hint = Some("delete or remove a file".into());
    manifest.audit_operation = Some("delete".into());
    manifest.sensitive = Some(false);
    manifest.destructive = true;
    manifest.reversible = true;
    Changing::new(manifest, workplace, revision)
}

fn revision(_: &DeleteFile, files: &Files, run: &Run) -> Result<Revision, String> {
    let mut removed = run.plan.effects.iter().filter_map(|effect| match effect {
        Effect::Delete { path } => Some(path),
        _ => None,
    });
    let (Some(path), None) = (removed.next(), removed.next()) else {
        return Err("the plan does not name one file to remove; call again with one `path`".into());
    };
    let from = From::read(Some(&files.to_remove(path)?));
    let output = Output::text(format!("removed {}", files.shown(path)));
    let output = output.with_data(json!({ "path": path }));
    Ok(Revision { puts: vec![Put { path: path.clone(), from, content: None, mode: None }], output })
}
