//! The tool `grep`: finds lines that match a regular expression or a text, in the files beneath a directory.

mod file_search;

use byleave_gate::core::manifest::{ArgumentRole, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::tool::{RunContext, Tool};
use byleave_gate::typed_tool::TypedTool;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::blocking::run_blocking;
use crate::dir_walk::{WalkOptions, WalkSummary, display_name, walk};
use crate::execution_env::ExecutionEnv;
use crate::gate_lines::push_gate_line;
use crate::glob::check_pattern_length;
use crate::search_root::{self, granted_path, push_omissions};
use crate::top_n::TopN;
use crate::workspace_files::Files;
use file_search::{FileMatches, FileSearcher, MatchLineKind, SearchCounts, SearchSettings};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Grep {
    /// A regular expression (Rust's `regex`), matched line by line
    pattern: String,
    /// The directory or file to search; by default the working directory
    #[serde(default)]
    path: Option<String>,
    /// Whether to search for the pattern literally
    #[serde(default)]
    literal: bool,
    /// Whether to ignore case
    #[serde(default)]
    ignore_case: bool,
    /// Which files, such as `*.rs` or `src/**`; a leading `!` excludes
    #[serde(default)]
    glob: Option<String>,
    /// Which files by language, such as `rust`, `py`, `js`, `md`
    #[serde(default, rename = "type")]
    kind: Option<String>,
    /// How many lines to show before each match
    #[serde(default)]
    #[schemars(range(max = 100))]
    before: Option<usize>,
    /// How many lines to show after each match
    #[serde(default)]
    #[schemars(range(max = 100))]
    after: Option<usize>,
    /// How many lines to show before and after each match
    #[serde(default)]
    #[schemars(range(max = 100))]
    context: Option<usize>,
    /// The output: the matching lines, the files that have matches, or the number of matches per file
    #[serde(default)]
    mode: GrepMode,
    /// How many lines or files to show; 1000 by default
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000))]
    max: Option<usize>,
    /// Whether to include hidden and ignored files
    #[serde(default)]
    all: bool,
}

/// The output mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GrepMode {
    #[default]
    Lines,
    Files,
    Counts,
}

/// Creates the tool for an execution environment.
pub fn grep(workplace: &ExecutionEnv) -> impl Tool + use<> {
    let workplace = workplace.clone();
    let body = move |args: Grep, run: RunContext| {
        let workplace = workplace.clone();
        run_blocking(move || searched(&args, &Files::for_run(&workplace, &run)?, &run))
    };
    let about = "Searches files for matching lines, as ripgrep does, and shows them as `path:line:text`, sorted by path. Leaves out ignored files, \
                 dotfiles and binary files.";
    TypedTool::new("grep", about, body)
        .permission_class(PermissionClass::Readonly)
        .role("/path", ArgumentRole::ReadPath)
        .with_planner(|args, site| search_root::plan_directory_read(args.path.as_deref(), site))
        .aliases(["search"])
        .search_hint("search file contents for text or regex")
        .audit_operation("read")
        .read_only()
        .concurrency_safe()
        .idempotent()
        .not_sensitive()
}

fn searched(args: &Grep, files: &Files, run: &RunContext) -> Result<Output, String> {
    let max = args.max.unwrap_or(search_root::DEFAULT_MAX_RESULTS);
    let context = args.context.unwrap_or_default();
    let settings = SearchSettings {
        mode: args.mode,
        max_lines: max,
        lines_before: args.before.unwrap_or(context),
        lines_after: args.after.unwrap_or(context),
    };
    let matcher = matcher(args)?;
    let options = WalkOptions {
        include_ignored: args.all,
        globs: globs(args)?,
        types: types(args)?,
        ..WalkOptions::default()
    };
    let path = granted_path(run)?;
    let search = || FileSearcher::new(&matcher, settings, files, &run.cancel);
    let (visitors, mut told, front) = if files.is_not_a_directory(path) {
        let mut only = search();
        let opened = files.file(path)?;
        only.file(path.rsplit('/').next().unwrap_or(path).as_bytes(), opened.file, &opened.stat);
        let above =
            path.rsplit_once('/').map_or("/", |(above, _)| if above.is_empty() { "/" } else { above });
        (vec![only], WalkSummary::default(), files.display_prefix(above))
    } else {
        let (visitors, told) = walk(files, path, &options, &run.cancel, search)?;
        (visitors, told, files.display_prefix(path))
    };
    let mut counts = SearchCounts::default();
    visitors.iter().for_each(|search| counts.add(&search.counts));
    told.hidden += counts.hidden_alias_files;
    told.unread += counts.unreadable_files;
    let hits = TopN::merge(visitors.into_iter().map(|search| search.hits));
    let mut page = GrepOutput {
        text: String::new(),
        front: display_name(front.as_bytes()).into_owned(),
        left: max,
        shown: 0,
    };
    let is_spread = settings.lines_before + settings.lines_after > 0;
    for one in &hits {
        match args.mode {
            GrepMode::Lines => page.lines(one, is_spread),
            GrepMode::Files => page.file(one, ""),
            GrepMode::Counts => page.file(one, &format!(":{}", one.matched)),
        }
    }
    let GrepOutput { mut text, shown, .. } = page;
    let is_cut = match args.mode {
        GrepMode::Lines => shown < counts.lines,
        GrepMode::Files | GrepMode::Counts => shown < counts.files,
    };
    tell_result(&mut text, args, &counts, shown, is_cut);
    push_omissions(&mut text, &told);
    let data = json!({ "path": path, "files": counts.files, "lines": counts.lines, "shown": shown });
    Ok(Output { truncated: is_cut, ..Output::text(text).with_data(data) })
}

fn tell_result(text: &mut String, args: &Grep, counts: &SearchCounts, shown: u64, is_cut: bool) {
    let SearchCounts { files, lines, binary, non_utf8_names: nameless, .. } = *counts;
    if files == 0 {
        let hint = match (args.all, args.literal) {
            (false, _) => "all = true includes hidden and ignored files",
            (true, false) => "literal = true searches for the pattern literally",
            (true, true) => "try a shorter text",
        };
        push_gate_line(text, &format!("no line matches `{}`; {hint}", args.pattern.escape_debug()));
    } else if is_cut {
        let all = match args.mode {
            GrepMode::Lines => format!("{shown} of {lines} matching lines in {files} files"),
            GrepMode::Files | GrepMode::Counts => format!("{shown} of {files} files"),
        };
        push_gate_line(
            text,
            &format!("{all} are shown; narrow with `path`, `glob` or `type`, or raise `max`"),
        );
    }
    if binary > 0 {
        let verb = if binary == 1 { "file was" } else { "files were" };
        push_gate_line(text, &format!("{binary} binary {verb} not searched"));
    }
    if nameless > 0 {
        push_gate_line(
            text,
            &format!(
                "{nameless} files were not searched because their names are not valid UTF-8; rename them"
            ),
        );
    }
}

/// The output that is being assembled.
struct GrepOutput {
    text: String,
    front: String,
    /// The number of lines that may still be added.
    left: usize,
    /// The number of matching lines or files in the output.
    shown: u64,
}

impl GrepOutput {
    fn file(&mut self, hits: &FileMatches, more: &str) {
        self.text.push_str(&self.front);
        self.text.push_str(&display_name(&hits.path));
        self.text.push_str(more);
        self.text.push('\n');
        self.shown += 1;
    }

    fn lines(&mut self, hits: &FileMatches, is_spread: bool) {
        if is_spread && !self.text.is_empty() && self.left > 0 {
            self.text.push_str("--\n");
        }
        let path = display_name(&hits.path);
        for line in &hits.lines {
            if self.left == 0 {
                return;
            }
            let mark = match line.kind {
                MatchLineKind::Match => ':',
                MatchLineKind::Context => '-',
                MatchLineKind::Gap => {
                    self.text.push_str("--\n");
                    continue;
                }
            };
            self.left -= 1;
            self.shown += u64::from(line.kind == MatchLineKind::Match);
            self.text.push_str(&self.front);
            self.text.push_str(&path);
            self.text.push_str(&format!("{mark}{}{mark}", line.number));
            self.text.push_str(&line.text);
            self.text.push('\n');
        }
        if let Some(at) = hits.binary {
            let path = format!("{}{path}", self.front);
            push_gate_line(
                &mut self.text,
                &format!("`{path}` is binary, with a NUL byte at {at}, and was searched only in part"),
            );
        }
    }
}

fn matcher(args: &Grep) -> Result<RegexMatcher, String> {
    let given = args.pattern.escape_debug();
    if args.pattern.is_empty() {
        return Err("the pattern is empty; to see a whole file use read_file".into());
    }
    if args.pattern.contains('\n') {
        return Err(format!(
            "`{given}` contains a line break, but lines are searched one by one; search for one of its lines"
        ));
    }
    RegexMatcherBuilder::new()
        .multi_line(true)
        .unicode(true)
        .octal(false)
        .case_insensitive(args.ignore_case)
        .fixed_strings(args.literal)
        .line_terminator(Some(b'\n'))
        .build(&args.pattern)
        .map_err(|error| {
            format!("`{given}` is not a regular expression: {error}\nset literal = true to search for it literally, or escape special characters \
                     with `\\`")
        })
}

fn globs(args: &Grep) -> Result<Override, String> {
    let Some(glob) = &args.glob else { return Ok(Override::empty()) };
    check_pattern_length(glob)?;
    // Paths are relative to the start of the walk.
    let mut builder = OverrideBuilder::new(".");
    builder.add(glob.trim_start_matches("./")).map(|_| ()).and_then(|()| builder.build()).map_err(|error| {
        format!("`{}` is not a glob: {error}; write it like `*.rs` or `src/**`", glob.escape_debug())
    })
}

fn types(args: &Grep) -> Result<Types, String> {
    let Some(kind) = &args.kind else { return Ok(Types::empty()) };
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.select(kind);
    builder.build().map_err(|_| {
        let given = kind.escape_debug();
        let dotted = kind.trim_start_matches("*.").trim_start_matches('.');
        format!(
            "there is no file type `{given}`; use one such as rust, py, js, ts, go, md, or use glob = \"*.{}\"",
            dotted.escape_debug()
        )
    })
}
