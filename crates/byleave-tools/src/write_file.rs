//! `write_file`: makes a file, replaces its content, or appends to it.

use byleave::core::manifest::{Class, Manifest, Role};
use byleave::core::outcome::Output;
use byleave::tool::{Run, Tool};
use byleave::typed::schema_of;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::changing::Changing;
use crate::files::Files;
use crate::revision::{From, Put, Revision, written};
use crate::workplace::Workplace;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteFile {
    /// The file; directories that are missing are made
    #[expect(dead_code, reason = "the path that was judged is in the plan, and that one is used")]
    path: String,
    /// What is to be in it
    content: String,
    /// Whether what was in it goes or stays in front
    #[serde(default)]
    mode: How,
}

/// How a file is written.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum How {
    #[default]
    Overwrite,
    Append,
}

/// The tool for a workplace.
pub fn write_file(workplace: &Workplace) -> impl Tool + use<> {
    let about =
        "Writes a text file: makes it, replaces what is in it, or appends to it. Wholly or not at all.";
    let mut manifest = Manifest::new("write_file", about, schema_of::<WriteFile>());
    manifest.permission_class = Class::File;
    manifest.roles = [("/path".to_owned(), Role::WritePath)].into();
    manifest.aliases = vec!["create_file".into()];
    manifest.search_hint = Some("write, create or append to a file".into());
    manifest.audit_operation = Some("write".into());
    manifest.sensitive = Some(false);
    manifest.reversible = true;
    Changing::new(manifest, workplace, revision)
}

fn revision(args: &WriteFile, files: &Files, run: &Run) -> Result<Revision, String> {
    let path = written(&run.plan)?;
    let (mut content, from) = match args.mode {
        How::Overwrite => (Vec::new(), From::Anything),
        How::Append => {
            let old = files.old(path)?;
            let from = From::read(old.as_ref());
            (old.map(|old| old.bytes).unwrap_or_default(), from)
        }
    };
    let bytes = args.content.len();
    content.extend_from_slice(args.content.as_bytes());
    let done = if args.mode == How::Append { "appended" } else { "wrote" };
    let output = Output::text(format!("{done} {bytes} bytes to {}", files.shown(path)));
    let output = output.with_data(json!({ "path": path, "bytes": bytes }));
    let put = Put { path: path.to_owned(), from, content: Some(content), mode: None };
    Ok(Revision { puts: vec![put], output })
}
