//! The pages of the tools, and their schemas in all formats: generated from the manifests, and compared with the repository.
//!
//! `BYLEAVE_TOOLS=write cargo nextest run -p byleave-tools -E 'test(pages)'` writes them again.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byleave_gate::catalog::CatalogEntry;
use byleave_gate::core::manifest::{ArgumentRole, Manifest, PermissionClass};
use byleave_gate::ledger::memory::MemoryLedger;
use byleave_gate::provider_formats::{self, ProviderFormat};
use byleave_gate::schema::{JsonLimits, Validator};
use byleave_gate::tool::ToolContext;
use byleave_tools::{BuiltinToolOptions, ExecutionEnv, JobLimits, Jobs, builtin_catalog};
use serde_json::{Value, json};

/// Every tool that can be offered, by name.
fn entries() -> Vec<Arc<CatalogEntry>> {
    let workplace = ExecutionEnv::new("/nowhere/copies".into(), "/nowhere/work".into());
    let ledger = Arc::new(MemoryLedger::new());
    let jobs = Some(Jobs::new(JobLimits::default()));
    let offer = BuiltinToolOptions { allow_delete: true, ledger: Some(ledger), jobs };
    builtin_catalog(&workplace, &offer).unwrap().list()
}

// req: G4, T9
#[test]
fn every_tool_has_its_page() {
    let directory = docs();
    let pages: Vec<(String, String)> = entries()
        .iter()
        .map(|entry| (format!("{}.md", entry.name()), page(entry)))
        .chain([("README.md".to_owned(), index())])
        .collect();
    if writes() {
        fs::create_dir_all(&directory).unwrap();
    }
    for (name, text) in &pages {
        held(&directory.join(name), text);
    }
    let there =
        fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let strange: Vec<String> = there.filter(|name| !pages.iter().any(|(page, _)| page == name)).collect();
    assert!(strange.is_empty(), "pages of tools that are not there: {strange:?}");
}

// req: T2
#[test]
fn a_schema_that_is_compiled_for_its_first_call_checks_what_others_check() {
    let odd = || {
        [
            json!(null),
            json!(true),
            json!(7),
            json!(-7.5),
            json!("x"),
            json!([]),
            json!({}),
            json!(["x"]),
            json!([{"path": 1}]),
        ]
    };
    let (mut valid, mut invalid) = (0, 0);
    for entry in entries() {
        let schema = &entry.manifest().input_schema;
        let at_once = Validator::new(schema).unwrap();
        let names: Vec<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let with_required = |value: &Value| -> serde_json::Map<String, Value> {
            required.iter().map(|name| ((*name).to_owned(), value.clone())).collect()
        };
        let mut cases = vec![json!({}), json!({"no such argument": 1})];
        for value in odd() {
            cases.push(with_required(&value).into());
            for name in &names {
                let mut arguments = with_required(&json!("x"));
                arguments.insert(name.clone(), value.clone());
                cases.push(arguments.into());
            }
        }
        for arguments in cases {
            let checked = entry.validator().check(&arguments, &JsonLimits::ARGUMENTS);
            assert_eq!(
                checked,
                at_once.check(&arguments, &JsonLimits::ARGUMENTS),
                "{}: {arguments}",
                entry.name()
            );
            if checked.is_ok() { valid += 1 } else { invalid += 1 }
        }
    }
    assert!(valid > 50 && invalid > 500, "{valid} {invalid}");
}

// req: T9
#[test]
fn every_schema_is_as_it_was_in_all_four_forms() {
    let site = ToolContext {
        tenant: "local".parse().unwrap(),
        session: "s".parse().unwrap(),
        agent: "a".parse().unwrap(),
        cwd: "/w".into(),
    };
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/schemas");
    if writes() {
        fs::create_dir_all(&directory).unwrap();
    }
    for entry in entries() {
        let forms: serde_json::Map<String, Value> = ProviderFormat::ALL
            .into_iter()
            .map(|form| {
                let mut all = provider_formats::schemas(form, &[Arc::clone(&entry)], &site).unwrap();
                (format!("{form:?}").to_lowercase(), all.remove(0))
            })
            .collect();
        assert_eq!(forms.len(), 4);
        let text = format!("{}\n", serde_json::to_string_pretty(&forms).unwrap());
        held(&directory.join(format!("{}.json", entry.name())), &text);
    }
}

fn writes() -> bool {
    std::env::var("BYLEAVE_TOOLS").is_ok_and(|value| value == "write")
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools")
}

#[track_caller]
fn held(file: &Path, text: &str) {
    if writes() {
        fs::write(file, text).unwrap();
    }
    let there = fs::read_to_string(file).unwrap_or_default();
    let how = "write it with BYLEAVE_TOOLS=write cargo nextest run -p byleave-tools -E 'test(pages)'";
    assert_eq!(there, text, "{} is not what the manifest says; {how}", file.display());
}

fn index() -> String {
    let mut text = "# The built-in tools\n\n<!-- Written by a test from the manifests: see crates/byleave-tools/tests/all/pages.rs -->\n\n\
        The gate treats them like any other tool: it evaluates the effects of a call before the call runs, and does not know the names \
        of tools. *Asks* shows what the built-in rules decide in the mode `confirm-sensitive` if none of your rules applies.\n\n\
        | tool | what it does | asks | undone |\n|---|---|---|---|\n"
        .to_owned();
    for entry in entries() {
        let manifest = entry.manifest();
        let (name, what) = (&manifest.name, first_sentence(&manifest.description));
        writeln!(text, "| [`{name}`]({name}.md) | {what} | {} | {} |", asks(&entry), undone(manifest))
            .unwrap();
    }
    text
}

fn page(entry: &CatalogEntry) -> String {
    let manifest = entry.manifest();
    let mut text = format!(
        "# `{}`\n\n<!-- Written by a test from the manifest: see crates/byleave-tools/tests/all/pages.rs -->\n\n{}\n\n",
        manifest.name,
        manifest.description.trim()
    );
    text.push_str("## Arguments\n\n");
    let schema = &manifest.input_schema;
    let names = schema["properties"].as_object().cloned().unwrap_or_default();
    if names.is_empty() {
        text.push_str("None.\n");
    } else {
        text.push_str("| name | what it is | |\n|---|---|---|\n");
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, of) in &names {
            let needed = if required.contains(&name.as_str()) { "required" } else { "" };
            let about = of["description"].as_str().unwrap_or_default();
            writeln!(text, "| `{name}` | {} ({}) | {needed} |", one_line(about), kind(of, schema)).unwrap();
        }
    }
    text.push_str("\n## What it may do\n\n");
    for line in [
        Some(format!("- Evaluated as: {}", judged(manifest))),
        Some(format!("- Asks a person: {}", asks(entry))),
        Some(format!("- Can be undone: {}", undone(manifest))),
        Some(format!("- Operation in the audit log: `{}`", manifest.operation())),
        manifest.concurrency_safe.then(|| "- Can run at the same time as other calls of its turn".to_owned()),
        manifest.idempotent.then(|| "- Running it twice is the same as running it once".to_owned()),
        manifest.destructive.then(|| "- Marked as destructive".to_owned()),
        manifest.timeout_ms.map(|limit| format!("- Stopped after {} s at the latest", limit / 1_000)),
        (!manifest.aliases.is_empty()).then(|| format!("- Also called: `{}`", manifest.aliases.join("`, `"))),
    ]
    .into_iter()
    .flatten()
    {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn judged(manifest: &Manifest) -> String {
    let class = match manifest.permission_class {
        PermissionClass::Bash => "a shell command, read as bash would read it",
        PermissionClass::File => "changes of the files that it names",
        PermissionClass::Webfetch => "reaching the host of its address",
        PermissionClass::Readonly => "reading",
        PermissionClass::Generic | PermissionClass::Undeclared => "a use of this tool, by its name",
    };
    let roles: Vec<String> = manifest
        .roles
        .iter()
        .map(|(pointer, role)| {
            let means = match role {
                ArgumentRole::ReadPath => "is read",
                ArgumentRole::WritePath => "is written",
                ArgumentRole::EditPath => "is read and written",
                ArgumentRole::DeletePath => "is deleted",
                ArgumentRole::Patch => "names the files that are changed",
                ArgumentRole::Url => "is reached",
                ArgumentRole::Command => "is run",
            };
            format!("`{}` {means}", pointer.trim_start_matches('/'))
        })
        .collect();
    if roles.is_empty() { class.to_owned() } else { format!("{class}; {}", roles.join(", ")) }
}

fn asks(entry: &CatalogEntry) -> &'static str {
    let is_shown = entry.tool().as_rehearsable().is_some();
    match entry.manifest().permission_class {
        PermissionClass::Readonly => "no",
        PermissionClass::Bash => "unless it only reads, or did nothing on a copy",
        PermissionClass::File if is_shown => "yes, with what would change",
        PermissionClass::File => "yes",
        PermissionClass::Webfetch => "unless a rule allows the host",
        PermissionClass::Generic | PermissionClass::Undeclared => "yes",
    }
}

fn undone(manifest: &Manifest) -> &'static str {
    match (manifest.reversible, manifest.read_only) {
        (true, _) => "yes",
        (false, true) => "nothing to undo",
        (false, false) => "no",
    }
}

/// A short description of the type of an argument.
fn kind(of: &Value, schema: &Value) -> String {
    if let Some(name) = of["$ref"].as_str() {
        let of = schema.pointer(name.trim_start_matches('#')).unwrap_or(&Value::Null);
        return kind(of, schema);
    }
    if let Some(ways) = of["anyOf"].as_array().or_else(|| of["oneOf"].as_array()) {
        let ways: Vec<String> =
            ways.iter().filter(|way| way["type"] != "null").map(|way| kind(way, schema)).collect();
        return ways.join(" or ");
    }
    if let Some(one) = of.get("const") {
        return format!("`{}`", one.as_str().unwrap_or_default());
    }
    if let Some(words) = of["enum"].as_array() {
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        return format!("`{}`", words.join("`, `"));
    }
    let of_type = match &of["type"] {
        Value::Array(all) => {
            all.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("any")
        }
        one => one.as_str().unwrap_or("any"),
    };
    let bounds = match (of["minimum"].as_u64(), of["maximum"].as_u64()) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        (Some(least), None) if least > 0 => format!(", from {least}"),
        (None, Some(most)) => format!(", up to {most}"),
        _ => String::new(),
    };
    if of_type == "array" {
        return format!("list of {}", kind(&of["items"], schema));
    }
    if of_type == "object"
        && let Some(inner) = of["properties"].as_object()
    {
        let inner: Vec<String> =
            inner.iter().map(|(name, of)| format!("`{name}`: {}", kind(of, schema))).collect();
        return format!("object with {}", inner.join(", "));
    }
    format!("{of_type}{bounds}")
}

fn first_sentence(text: &str) -> String {
    let text = one_line(text);
    text.split_once(". ").map_or(text.clone(), |(first, _)| format!("{first}."))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
