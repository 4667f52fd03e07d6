//! The catalog of tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use byleave_gate::boxed::BoxFuture;
use byleave_gate::catalog::{Catalog, RegisterError};
use byleave_gate::core::manifest::Manifest;
use byleave_gate::core::outcome::Output;
use byleave_gate::core::refusal::{Code, Refusal};
use byleave_gate::tool::{RunContext, Tool, ToolContext};
use serde_json::{Value, json};

use crate::support::{ManifestOnlyTool, site};

fn names(catalog: &Catalog) -> Vec<String> {
    catalog.list().iter().map(|entry| entry.name().to_owned()).collect()
}

// req: G1
#[test]
fn tools_are_found_by_name_and_alias() {
    let catalog = Catalog::new();
    catalog.register(ManifestOnlyTool::named("write_file")).unwrap();
    catalog.register(ManifestOnlyTool::named("bash").also("shell").also("sh")).unwrap();
    assert_eq!(catalog.count(), 2);
    assert_eq!(names(&catalog), ["bash", "write_file"]);
    assert!(catalog.contains("sh") && catalog.contains("bash") && !catalog.contains("Bash"));
    assert_eq!(catalog.get("shell").unwrap().name(), "bash");
    let chosen = catalog.filter(["write_file", "sh", "bash"]).unwrap();
    assert_eq!(chosen.iter().map(|entry| entry.name()).collect::<Vec<_>>(), ["bash", "write_file"]);
    assert_eq!(catalog.filter(["bash", "wirte_file"]).unwrap_err().nearest.as_deref(), Some("write_file"));

    assert_eq!(catalog.unregister("bash").unwrap().name(), "bash");
    assert!(!catalog.contains("bash") && !catalog.contains("sh"));
    assert!(catalog.unregister("bash").is_err());
    catalog.clear();
    assert_eq!(catalog.count(), 0);
    catalog.register(ManifestOnlyTool::named("write_file")).unwrap();
}

// req: G1
#[test]
fn a_name_belongs_to_one_tool() {
    let catalog = Catalog::new();
    catalog.register(ManifestOnlyTool::named("bash").also("shell")).unwrap();
    for taken in [
        ManifestOnlyTool::named("bash"),
        ManifestOnlyTool::named("shell"),
        ManifestOnlyTool::named("zsh").also("bash"),
        ManifestOnlyTool::named("zsh").also("shell"),
    ] {
        let error = catalog.register(taken).unwrap_err();
        assert!(matches!(&error, RegisterError::NameTaken { owner, .. } if owner == "bash"), "{error}");
    }
    let error = catalog.register(ManifestOnlyTool::named("zsh").also("shell")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot register tool `zsh`: the name `shell` already belongs to tool `bash`"
    );
    assert_eq!(names(&catalog), ["bash"]);
}

// req: G1
#[test]
fn a_tool_is_replaced_only_when_asked_and_only_itself() {
    let catalog = Catalog::new();
    let first = catalog.register(ManifestOnlyTool::named("bash").also("shell")).unwrap();
    catalog.register(ManifestOnlyTool::named("fish")).unwrap();
    let old = catalog.replace(ManifestOnlyTool::named("bash").also("sh")).unwrap().unwrap();
    assert!(Arc::ptr_eq(&old, &first));
    assert!(catalog.contains("sh") && !catalog.contains("shell"), "the aliases of the old one are gone");
    assert!(catalog.replace(ManifestOnlyTool::named("zsh")).unwrap().is_none());
    assert!(
        catalog.replace(ManifestOnlyTool::named("bash").also("fish")).is_err(),
        "another tool's name is not taken over"
    );
    assert!(catalog.replace(ManifestOnlyTool::named("sh")).is_err());
    assert!(catalog.contains("bash") && catalog.contains("sh"), "after an error everything is as before");
}

// req: G1
#[test]
fn many_are_registered_at_once_or_not_at_all() {
    let catalog = Catalog::new();
    let tools = |count: usize| {
        (0..count).map(|i| Arc::new(ManifestOnlyTool::named(&format!("tool_{i}"))) as Arc<dyn Tool>)
    };
    let twice = tools(3).chain(tools(1));
    assert!(matches!(catalog.register_all(twice), Err(RegisterError::NameTaken { .. })));
    assert_eq!(catalog.count(), 0);
    catalog.register_all(tools(10_000)).unwrap();
    assert_eq!(catalog.count(), 10_000);
    assert_eq!(catalog.get("tool_9999").unwrap().name(), "tool_9999");
}

// req: G1
#[test]
fn an_unknown_name_names_the_nearest() {
    let catalog = Catalog::new();
    for name in ["read_file", "write_file", "bash", "web_fetch", "list_dir"] {
        catalog.register(ManifestOnlyTool::named(name)).unwrap();
    }
    catalog.register(ManifestOnlyTool::named("grep").also("search_text")).unwrap();
    let check = |wrong: &str, nearest: Option<&str>| {
        assert_eq!(catalog.get(wrong).unwrap_err().nearest.as_deref(), nearest, "{wrong}");
    };
    check("read_fiel", Some("read_file"));
    check("ReadFile", Some("read_file"));
    check("read-file", Some("read_file"));
    check("read", Some("read_file"));
    check("Bash", Some("bash"));
    check("searchtext", Some("search_text"));
    check("deploy_to_production", None);
    check("", None);
    check("😀", None);
    check(&"read_file".repeat(100_000), None);
    let unknown = catalog.get("read_fiel").unwrap_err();
    assert_eq!(unknown.to_string(), "there is no tool `read_fiel`; did you mean `read_file`?");
    let refusal = Refusal::from(catalog.get("x\u{1b}y").unwrap_err());
    assert_eq!((refusal.code, refusal.message.as_str()), (Code::ToolUnknown, "there is no tool `x\\u{1b}y`"));
    // A disabled tool is not taken for a misspelled one, and is not there either.
    catalog.set_disabled("read_files", "ask the operator for `read_many`");
    let disabled = catalog.get("read_files").unwrap_err();
    assert_eq!(disabled.to_string(), "the tool `read_files` is disabled: ask the operator for `read_many`");
    assert!(!catalog.contains("read_files") && !catalog.was_ever_registered("read_files"));
    catalog.register(ManifestOnlyTool::named("read_files")).unwrap();
    assert_eq!(catalog.get("read_files").unwrap().name(), "read_files");
}

/// Returns a different manifest each time, and cannot describe itself.
struct ChangingTool {
    manifests: Vec<Manifest>,
    asked: AtomicUsize,
}

impl Tool for ChangingTool {
    fn manifest(&self) -> &Manifest {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        &self.manifests[asked.min(self.manifests.len() - 1)]
    }
    fn describe(&self, _site: &ToolContext) -> std::borrow::Cow<'_, str> {
        panic!("no words")
    }
    fn execute(&self, _arguments: Value, _run: RunContext) -> BoxFuture<'_, Output> {
        Box::pin(async { Output::default() })
    }
}

// req: G1, T5
#[test]
fn what_a_tool_says_later_does_not_matter() {
    let manifests =
        ["first", "second", "third"].map(|text| Manifest::new("fickle", text, json!({"type": "object"})));
    let digest = manifests[0].digest();
    let catalog = Catalog::new();
    catalog.register(ChangingTool { manifests: manifests.into(), asked: AtomicUsize::new(0) }).unwrap();
    for _ in 0..3 {
        let entry = catalog.get("fickle").unwrap();
        assert_eq!(entry.manifest().description, "first");
        assert_eq!(entry.digest(), digest);
        assert_eq!(entry.manifest().digest(), digest);
        assert_eq!(entry.describe(&site()), "first", "a description that breaks falls back");
    }
}

// req: G2
#[test]
fn readers_go_on_while_a_writer_registers() {
    let catalog = Catalog::new();
    // Always registered in one step, so a reader must see both or none.
    let pair = |i: usize| -> [Arc<dyn Tool>; 2] {
        [
            Arc::new(ManifestOnlyTool::named(&format!("left_{i}"))),
            Arc::new(ManifestOnlyTool::named(&format!("right_{i}"))),
        ]
    };
    let done = AtomicBool::new(false);
    let half_way = AtomicUsize::new(0);
    let reads = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let (mut reads, mut largest) = (0_usize, 0);
                    while !done.load(Ordering::Acquire) || reads == 0 {
                        let snapshot = catalog.snapshot();
                        let tools = snapshot.list();
                        assert_eq!(tools.len() % 2, 0, "half a registration was seen");
                        assert!(tools.len() >= largest, "the catalog went back");
                        assert!(tools.is_sorted_by_key(|entry| entry.name().to_owned()));
                        if largest < 1_000 && tools.len() >= 1_000 {
                            half_way.fetch_add(1, Ordering::AcqRel);
                        }
                        largest = tools.len();
                        if let Some(last) = tools.last() {
                            assert!(snapshot.get(last.name()).is_ok() && catalog.contains(last.name()));
                        }
                        reads += 1;
                    }
                    (reads, largest)
                })
            })
            .collect();
        for i in 0..1_000 {
            catalog.register_all(pair(i)).unwrap();
            // Every reader starts in the middle of it, and not only afterwards.
            while i == 600 && half_way.load(Ordering::Acquire) < 4 {
                std::thread::yield_now();
            }
        }
        done.store(true, Ordering::Release);
        readers.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(catalog.count(), 2_000);
    assert!(reads.iter().all(|(reads, _)| *reads > 0), "{reads:?}");
}

// req: G2
#[test]
fn a_reader_within_a_registration_is_not_blocked() {
    /// Reads the catalog while it is being registered there.
    struct ReentrantTool(Manifest, Catalog);
    impl Tool for ReentrantTool {
        fn manifest(&self) -> &Manifest {
            assert!(!self.1.contains("inward"));
            assert_eq!(self.1.list().len(), self.1.count());
            &self.0
        }
        fn execute(&self, _arguments: Value, _run: RunContext) -> BoxFuture<'_, Output> {
            Box::pin(async { Output::default() })
        }
    }
    let catalog = Catalog::new();
    let manifest = ManifestOnlyTool::named("inward").0;
    catalog.register(ReentrantTool(manifest, catalog.clone())).unwrap();
    assert!(catalog.contains("inward"));
}

// req: G2
#[test]
fn a_tool_that_uses_the_catalog_when_it_goes_is_not_blocked() {
    struct DroppedTool(ManifestOnlyTool, Catalog, &'static str);
    impl Tool for DroppedTool {
        fn manifest(&self) -> &Manifest {
            self.0.manifest()
        }
        fn execute(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Output> {
            self.0.execute(arguments, run)
        }
    }
    impl Drop for DroppedTool {
        fn drop(&mut self) {
            assert!(!self.1.contains("parting"));
            self.1.register(ManifestOnlyTool::named(self.2)).unwrap();
        }
    }
    let catalog = Catalog::new();
    let parting = |heir| DroppedTool(ManifestOnlyTool::named("parting"), catalog.clone(), heir);
    catalog.register(parting("first")).unwrap();
    catalog.clear();
    catalog.register(parting("second")).unwrap();
    drop(catalog.unregister("parting").unwrap());
    assert_eq!(names(&catalog), ["first", "second"]);
}
