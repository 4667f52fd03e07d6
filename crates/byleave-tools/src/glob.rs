//! The tool `glob`: lists paths that match a pattern.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use byleave_gate::core::manifest::{ArgumentRole, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::tool::{RunContext, Tool};
use byleave_gate::typed_tool::TypedTool;
use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::blocking::run_blocking;
use crate::dir_walk::{WalkEntry, WalkOptions, WalkVisitor, display_name, walk};
use crate::execution_env::ExecutionEnv;
use crate::gate_lines::push_gate_line;
use crate::search_root::{self, granted_path, push_omissions};
use crate::top_n::TopN;
use crate::workspace_files::Files;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Glob {
    /// Such as `*.rs` (at any depth), `src/**/*.{ts,tsx}`, `**/tests`
    pattern: String,
    /// The directory to search; by default the working directory
    #[serde(default)]
    path: Option<String>,
    /// Whether to include hidden and ignored files
    #[serde(default)]
    all: bool,
    /// How many paths to show; 1000 by default
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000))]
    max: Option<usize>,
}

/// Creates the tool for an execution environment.
pub fn glob(workplace: &ExecutionEnv) -> impl Tool + use<> {
    let workplace = workplace.clone();
    let body = move |args: Glob, run: RunContext| {
        let workplace = workplace.clone();
        run_blocking(move || matching(&args, &Files::for_run(&workplace, &run)?, &run))
    };
    let about = "Finds files and directories by a glob pattern, sorted by path. Directories end in `/`. Leaves out ignored files, and dotfiles \
                 unless the pattern names them.";
    TypedTool::new("glob", about, body)
        .permission_class(PermissionClass::Readonly)
        .role("/path", ArgumentRole::ReadPath)
        .with_planner(|args, site| search_root::plan_directory_read(args.path.as_deref(), site))
        .aliases(["find_files"])
        .search_hint("find files by name pattern")
        .audit_operation("read")
        .read_only()
        .concurrency_safe()
        .idempotent()
        .not_sensitive()
}

/// A compiled pattern.
pub(crate) struct CompiledGlob {
    /// The matcher for paths relative to the start of the walk.
    pub(crate) pattern: GlobMatcher,
    /// The leading path components of everything that can match.
    pub(crate) literal_prefix: Vec<Vec<u8>>,
    /// Whether the pattern names dotfiles.
    pub(crate) matches_dotfiles: bool,
}

impl CompiledGlob {
    /// Checks whether the pattern matches a path.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        self.pattern.is_match(Path::new(OsStr::from_bytes(path)))
    }
}

/// The maximum length of a pattern. Each nested brace needs some stack to compile.
const PATTERN_BYTES_MAX: usize = 1_024;

/// Returns an error if a pattern is too long.
pub(crate) fn check_pattern_length(pattern: &str) -> Result<(), String> {
    match pattern.len() <= PATTERN_BYTES_MAX {
        true => Ok(()),
        false => Err(format!("the glob has more than {PATTERN_BYTES_MAX} bytes; give a shorter one")),
    }
}

/// Compiles a pattern. A pattern without a slash matches names at any depth.
pub(crate) fn compile_glob(pattern: &str) -> Result<CompiledGlob, String> {
    check_pattern_length(pattern)?;
    let given = pattern.escape_debug();
    if pattern.starts_with('/') {
        return Err(format!("`{given}` is absolute; give the directory as `path` and the rest as `pattern`"));
    }
    if pattern.split('/').any(|step| step == "..") {
        return Err(format!("`{given}` contains `..`; give the start directory as `path`"));
    }
    let text = pattern.trim_start_matches("./").trim_end_matches('/');
    if text.is_empty() {
        return Err("the pattern is empty; `**` matches everything".into());
    }
    let whole = if text.contains('/') { text.to_owned() } else { format!("**/{text}") };
    let pattern = GlobBuilder::new(&whole).literal_separator(true).build();
    let pattern = pattern.map_err(|error| {
        format!(
            "`{given}` is not a glob: {}; put `[` and `]` around special characters that are meant literally",
            error.kind()
        )
    })?;
    let is_plain = |step: &&str| !step.contains(['*', '?', '[', ']', '{', '}', '\\']);
    let mut steps: Vec<Vec<u8>> =
        whole.split('/').take_while(is_plain).map(|step| step.as_bytes().to_vec()).collect();
    // The last component is the name that is searched for.
    steps.truncate(whole.split('/').count() - 1);
    let dotted = text.starts_with('.') || ["/.", "{.", ",.", "[."].iter().any(|dot| text.contains(dot));
    Ok(CompiledGlob { pattern: pattern.compile_matcher(), literal_prefix: steps, matches_dotfiles: dotted })
}

/// The paths that one thread collects.
struct PathCollector {
    wanted: Arc<CompiledGlob>,
    first: TopN<Vec<u8>>,
    count: usize,
}

impl WalkVisitor for PathCollector {
    fn visit(&mut self, found: &WalkEntry<'_>) {
        if !self.wanted.matches(found.path) {
            return;
        }
        self.count += 1;
        let mut path = Vec::with_capacity(found.path.len() + 1);
        path.extend_from_slice(found.path);
        if found.kind.is_dir() {
            path.push(b'/');
        }
        self.first.push(path);
    }
}

fn matching(args: &Glob, files: &Files, run: &RunContext) -> Result<Output, String> {
    let wanted = Arc::new(compile_glob(&args.pattern)?);
    let path = granted_path(run)?;
    let max = args.max.unwrap_or(search_root::DEFAULT_MAX_RESULTS);
    let options = WalkOptions {
        include_ignored: args.all,
        include_dotfiles: wanted.matches_dotfiles,
        path_prefix: wanted.literal_prefix.clone(),
        ..WalkOptions::default()
    };
    let (visitors, told) = walk(files, path, &options, &run.cancel, || PathCollector {
        wanted: Arc::clone(&wanted),
        first: TopN::new(max, |_| 1),
        count: 0,
    })?;
    let count: usize = visitors.iter().map(|paths| paths.count).sum();
    let found = TopN::merge(visitors.into_iter().map(|paths| paths.first));
    let front = files.display_prefix(path);
    let front = display_name(front.as_bytes());
    let mut text = String::new();
    for path in &found {
        text.push_str(&front);
        text.push_str(&display_name(path));
        text.push('\n');
    }
    if count == 0 {
        let hint = if args.all {
            "list_dir shows what is there"
        } else {
            "all = true includes hidden and ignored files"
        };
        push_gate_line(&mut text, &format!("nothing matches `{}`; {hint}", args.pattern.escape_debug()));
    } else if found.len() < count {
        push_gate_line(
            &mut text,
            &format!(
                "{} of {count} paths are shown; narrow the pattern or `path`, or raise `max`",
                found.len()
            ),
        );
    }
    push_omissions(&mut text, &told);
    let data = json!({ "path": path, "paths": count, "shown": found.len() });
    Ok(Output { truncated: found.len() < count, ..Output::text(text).with_data(data) })
}
