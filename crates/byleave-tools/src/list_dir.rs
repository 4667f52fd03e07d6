//! The tools `list_dir` and `list_files`: list the entries of a directory, and the files beneath it.

use std::cmp::Ordering;
use std::sync::Arc;

use byleave_gate::core::manifest::{ArgumentRole, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::tool::{RunContext, Tool};
use byleave_gate::typed_tool::TypedTool;
use rustix::fs::FileType;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::blocking::run_blocking;
use crate::dir_walk::{WalkEntry, WalkOptions, WalkVisitor, display_name, walk};
use crate::execution_env::ExecutionEnv;
use crate::file_type;
use crate::gate_lines::push_gate_line;
use crate::glob::{CompiledGlob, compile_glob};
use crate::search_root::{self, granted_path, push_omissions};
use crate::top_n::TopN;
use crate::workspace_files::Files;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListDir {
    /// The directory; by default the working directory
    #[serde(default)]
    path: Option<String>,
    /// How many levels of directories to list; 1 by default
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    recursive: Option<usize>,
    /// Whether to include hidden and ignored files
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListFiles {
    /// The directory; by default the working directory
    #[serde(default)]
    path: Option<String>,
    /// Which files, such as `*.rs` or `src/**/*.ts`; by default all
    #[serde(default)]
    pattern: Option<String>,
    /// Whether to include hidden and ignored files
    #[serde(default)]
    all: bool,
    /// How many files to show; 1000 by default
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000))]
    max: Option<usize>,
}

/// Creates `list_dir` for an execution environment.
pub fn list_dir(workplace: &ExecutionEnv) -> impl Tool + use<> {
    let workplace = workplace.clone();
    let body = move |args: ListDir, run: RunContext| {
        let workplace = workplace.clone();
        run_blocking(move || entries(&args, &Files::for_run(&workplace, &run)?, &run))
    };
    let about = "Lists a directory: files with their sizes in bytes, directories with their number of entries, links with their targets.";
    TypedTool::new("list_dir", about, body)
        .permission_class(PermissionClass::Readonly)
        .role("/path", ArgumentRole::ReadPath)
        .with_planner(|args, site| search_root::plan_directory_read(args.path.as_deref(), site))
        .aliases(["ls"])
        .search_hint("list the entries of a directory")
        .audit_operation("read")
        .read_only()
        .concurrency_safe()
        .idempotent()
        .not_sensitive()
}

/// Creates `list_files` for an execution environment.
pub fn list_files(workplace: &ExecutionEnv) -> impl Tool + use<> {
    let workplace = workplace.clone();
    let body = move |args: ListFiles, run: RunContext| {
        let workplace = workplace.clone();
        run_blocking(move || beneath(&args, &Files::for_run(&workplace, &run)?, &run))
    };
    let about = "Lists all files below a directory, sorted by path, each with its size in bytes. Leaves out ignored files and dotfiles.";
    TypedTool::new("list_files", about, body)
        .permission_class(PermissionClass::Readonly)
        .role("/path", ArgumentRole::ReadPath)
        .with_planner(|args, site| search_root::plan_directory_read(args.path.as_deref(), site))
        .search_hint("list all files below a directory")
        .audit_operation("read")
        .read_only()
        .concurrency_safe()
        .idempotent()
        .not_sensitive()
}

/// The details of an entry.
enum EntryKind {
    File(u64),
    /// The number of its entries, if the directory itself is not listed.
    Directory(Option<usize>),
    Link(Option<Vec<u8>>),
    Other(&'static str),
}

struct ListEntry {
    path: Vec<u8>,
    what: EntryKind,
}

impl Ord for ListEntry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.path.cmp(&other.path)
    }
}

impl PartialOrd for ListEntry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ListEntry {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for ListEntry {}

/// The entries that one thread collects.
struct EntryCollector {
    wanted: Option<Arc<CompiledGlob>>,
    /// Whether to list only files.
    files_only: bool,
    /// The depth of directories that are not listed themselves.
    depth: usize,
    first: TopN<ListEntry>,
    count: usize,
    directories: usize,
    bytes: u64,
    veiled: u64,
}

impl EntryCollector {
    const fn new(max: usize, depth: usize, files_only: bool, wanted: Option<Arc<CompiledGlob>>) -> Self {
        Self {
            wanted,
            files_only,
            depth,
            first: TopN::new(max, |_| 1),
            count: 0,
            directories: 0,
            bytes: 0,
            veiled: 0,
        }
    }
}

impl WalkVisitor for EntryCollector {
    fn visit(&mut self, found: &WalkEntry<'_>) {
        if self.files_only && found.kind != FileType::RegularFile
            || self.wanted.as_ref().is_some_and(|wanted| !wanted.matches(found.path))
        {
            return;
        }
        let what = match found.kind {
            FileType::RegularFile => {
                // It may be gone or have another type by now.
                let Ok(stat) = found.stat() else { return };
                // A hard link to a hidden file: its size would reveal something.
                if found.is_hidden_alias(&stat) {
                    self.veiled += 1;
                    return;
                }
                let size = u64::try_from(stat.st_size).unwrap_or_default();
                self.bytes += size;
                EntryKind::File(size)
            }
            FileType::Directory => {
                self.directories += 1;
                let is_last = found.path.iter().filter(|byte| **byte == b'/').count() + 1 == self.depth;
                EntryKind::Directory(if is_last { found.count_entries() } else { None })
            }
            FileType::Symlink => EntryKind::Link(found.link_target()),
            other => EntryKind::Other(file_type::describe_file_type(other)),
        };
        self.count += 1;
        self.first.push(ListEntry { path: found.path.to_vec(), what });
    }
}

/// All entries together.
struct ListResult {
    first: Vec<ListEntry>,
    count: usize,
    directories: usize,
    bytes: u64,
    veiled: u64,
}

impl ListResult {
    fn of(visitors: Vec<EntryCollector>) -> Self {
        let count = visitors.iter().map(|entries| entries.count).sum();
        let directories = visitors.iter().map(|entries| entries.directories).sum();
        let bytes = visitors.iter().map(|entries| entries.bytes).sum();
        let veiled = visitors.iter().map(|entries| entries.veiled).sum();
        let first = TopN::merge(visitors.into_iter().map(|entries| entries.first));
        Self { first, count, directories, bytes, veiled }
    }

    /// Formats the entries, one per line, each with this prefix.
    fn to_text(&self, front: &str) -> String {
        let front = display_name(front.as_bytes());
        let mut text = String::new();
        for ListEntry { path, what } in &self.first {
            text.push_str(&front);
            text.push_str(&display_name(path));
            match what {
                EntryKind::File(size) => text.push_str(&format!("\t{size}")),
                EntryKind::Directory(None) => text.push('/'),
                EntryKind::Directory(Some(1)) => text.push_str("/\t1 entry"),
                EntryKind::Directory(Some(count)) => text.push_str(&format!("/\t{count} entries")),
                EntryKind::Link(Some(target)) => {
                    text.push_str(" -> ");
                    text.push_str(&display_name(target));
                }
                EntryKind::Link(None) => text.push_str(" -> ?"),
                EntryKind::Other(what) => text.push_str(&format!("\t{what}")),
            }
            text.push('\n');
        }
        text
    }
}

fn entries(args: &ListDir, files: &Files, run: &RunContext) -> Result<Output, String> {
    let path = granted_path(run)?;
    let depth = args.recursive.unwrap_or(1).max(1);
    let options = WalkOptions { include_ignored: args.all, max_depth: depth, ..WalkOptions::default() };
    let (visitors, mut told) = walk(files, path, &options, &run.cancel, || {
        EntryCollector::new(search_root::DEFAULT_MAX_RESULTS, depth, false, None)
    })?;
    let all = ListResult::of(visitors);
    told.hidden += all.veiled;
    let mut text = all.to_text("");
    let (count, directories, bytes) = (all.count, all.directories, all.bytes);
    let others = count - directories;
    push_gate_line(
        &mut text,
        &format!(
            "`{}`: {directories} directories, {others} files and others, {bytes} bytes",
            files.display_path(path)
        ),
    );
    if all.first.len() < count {
        let shown = all.first.len();
        push_gate_line(
            &mut text,
            &format!("{shown} of {count} entries are shown; list fewer levels, or find them with glob"),
        );
    }
    if told.skipped > 0 {
        let skipped = told.skipped;
        push_gate_line(
            &mut text,
            &format!("{skipped} hidden or ignored entries are not listed; all = true lists them"),
        );
    }
    push_omissions(&mut text, &told);
    let data = json!({ "path": path, "entries": count, "directories": directories, "bytes": bytes });
    Ok(Output { truncated: all.first.len() < count, ..Output::text(text).with_data(data) })
}

fn beneath(args: &ListFiles, files: &Files, run: &RunContext) -> Result<Output, String> {
    let wanted = args.pattern.as_deref().map(compile_glob).transpose()?.map(Arc::new);
    let path = granted_path(run)?;
    let max = args.max.unwrap_or(search_root::DEFAULT_MAX_RESULTS);
    let steps = wanted.as_ref().map(|wanted| wanted.literal_prefix.clone()).unwrap_or_default();
    let dotted = wanted.as_ref().is_some_and(|wanted| wanted.matches_dotfiles);
    let options = WalkOptions {
        include_ignored: args.all,
        include_dotfiles: dotted,
        path_prefix: steps,
        ..WalkOptions::default()
    };
    let (visitors, mut told) = walk(files, path, &options, &run.cancel, || {
        EntryCollector::new(max, usize::MAX, true, wanted.clone())
    })?;
    let all = ListResult::of(visitors);
    told.hidden += all.veiled;
    let mut text = all.to_text(&files.display_prefix(path));
    let (count, bytes) = (all.count, all.bytes);
    let shown = all.first.len();
    match count {
        0 if args.all => push_gate_line(&mut text, "there are no such files; list_dir shows what is there"),
        0 => {
            push_gate_line(&mut text, "there are no such files; all = true includes hidden and ignored files")
        }
        _ => push_gate_line(&mut text, &format!("{count} files, {bytes} bytes")),
    }
    if shown < count {
        push_gate_line(
            &mut text,
            &format!("{shown} of them are shown; narrow with `path` or `pattern`, or raise `max`"),
        );
    }
    push_omissions(&mut text, &told);
    let data = json!({ "path": path, "files": count, "bytes": bytes, "shown": shown });
    Ok(Output { truncated: shown < count, ..Output::text(text).with_data(data) })
}
