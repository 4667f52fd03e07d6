//! `glob`: paths that fit a pattern.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use byleave::core::manifest::{Class, Role};
use byleave::core::outcome::Output;
use byleave::tool::{Run, Tool};
use byleave::typed::Typed;
use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::apart::apart;
use crate::files::Files;
use crate::first::First;
use crate::lines::say;
use crate::place::{self, judged, tell_left_out};
use crate::walk::{Found, Options, Visit, shown, walk};
use crate::workplace::Workplace;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Glob {
    /// Such as `*.rs` (at any depth), `src/**/*.{ts,tsx}`, `**/tests`
    pattern: String,
    /// The directory to look in; where the call is made, unless this is given
    #[serde(default)]
    path: Option<String>,
    /// Whether to look at what is hidden or ignored as well
    #[serde(default)]
    all: bool,
    /// How many paths to show; 1000 unless this is given
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000))]
    max: Option<usize>,
}

/// The tool for a workplace.
pub fn glob(workplace: &Workplace) -> impl Tool + use<> {
    let workplace = workplace.clone();
    let body = move |args: Glob, run: Run| {
        let workplace = workplace.clone();
        apart(move || matching(&args, &Files::of(&workplace, &run)?, &run))
    };
    let about = "Finds files and directories by a glob pattern, sorted by path. Directories end in `/`. What ignore files name is \
                 left out, and so is what begins with a dot, unless the pattern says so.";
    Typed::new("glob", about, body)
        .class(Class::Readonly)
        .role("/path", Role::ReadPath)
        .plan_by(|args, site| place::plan(args.path.as_deref(), site))
        .aliases(["find_files"])
        .hint("find files by name pattern")
        .audit_operation("read")
        .read_only()
        .concurrency_safe()
        .repeatable()
        .not_sensitive()
}

/// A pattern that was read.
pub(crate) struct Wanted {
    /// Fits paths beneath where the walk begins.
    pub(crate) pattern: GlobMatcher,
    /// The steps that everything begins with that it fits.
    pub(crate) steps: Vec<Vec<u8>>,
    /// It speaks of names that begin with a dot.
    pub(crate) dotted: bool,
}

impl Wanted {
    /// Whether it fits a path.
    pub(crate) fn fits(&self, path: &[u8]) -> bool {
        self.pattern.is_match(Path::new(OsStr::from_bytes(path)))
    }
}

/// Longer patterns are not compiled: each brace within a brace takes some of the stack.
const PATTERN_BYTES_MAX: usize = 1_024;

/// Says of a pattern that is too long that it is.
pub(crate) fn may_be_compiled(pattern: &str) -> Result<(), String> {
    match pattern.len() <= PATTERN_BYTES_MAX {
        true => Ok(()),
        false => Err(format!("the glob has more than {PATTERN_BYTES_MAX} bytes; give a shorter one")),
    }
}

/// Reads a pattern. One without a slash is about names at any depth.
pub(crate) fn wanted(pattern: &str) -> Result<Wanted, String> {
    may_be_compiled(pattern)?;
    let given = pattern.escape_debug();
    if pattern.starts_with('/') {
        return Err(format!(
            "`{given}` is absolute; give the directory as `path` and what is beneath it as `pattern`"
        ));
    }
    if pattern.split('/').any(|step| step == "..") {
        return Err(format!("`{given}` leads up; give the directory to begin in as `path`"));
    }
    let text = pattern.trim_start_matches("./").trim_end_matches('/');
    if text.is_empty() {
        return Err("the pattern is empty; `**` fits everything".into());
    }
    let whole = if text.contains('/') { text.to_owned() } else { format!("**/{text}") };
    let pattern = GlobBuilder::new(&whole).literal_separator(true).build();
    let pattern = pattern.map_err(|error| {
        format!("`{given}` is no glob: {}; put `[` and `]` around what stands for itself", error.kind())
    })?;
    let is_plain = |step: &&str| !step.contains(['*', '?', '[', ']', '{', '}', '\\']);
    let mut steps: Vec<Vec<u8>> =
        whole.split('/').take_while(is_plain).map(|step| step.as_bytes().to_vec()).collect();
    // The last step is what is looked for.
    steps.truncate(whole.split('/').count() - 1);
    let dotted = text.starts_with('.') || ["/.", "{.", ",.", "[."].iter().any(|dot| text.contains(dot));
    Ok(Wanted { pattern: pattern.compile_matcher(), steps, dotted })
}

/// One thread's paths.
struct Paths {
    wanted: Arc<Wanted>,
    first: First<Vec<u8>>,
    count: usize,
}

impl Visit for Paths {
    fn visit(&mut self, found: &Found<'_>) {
        if !self.wanted.fits(found.path) {
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

fn matching(args: &Glob, files: &Files, run: &Run) -> Result<Output, String> {
    let wanted = Arc::new(wanted(&args.pattern)?);
    let path = judged(run)?;
    let max = args.max.unwrap_or(place::MAX);
    let options =
        Options { all: args.all, dotted: wanted.dotted, steps: wanted.steps.clone(), ..Options::default() };
    let (visitors, told) = walk(files, path, &options, &run.cancel, || Paths {
        wanted: Arc::clone(&wanted),
        first: First::new(max, |_| 1),
        count: 0,
    })?;
    let count: usize = visitors.iter().map(|paths| paths.count).sum();
    let found = First::of_all(visitors.into_iter().map(|paths| paths.first));
    let front = files.in_front(path);
    let front = shown(front.as_bytes());
    let mut text = String::new();
    for path in &found {
        text.push_str(&front);
        text.push_str(&shown(path));
        text.push('\n');
    }
    if count == 0 {
        let hint = if args.all {
            "list_dir shows what is there"
        } else {
            "all = true looks at what is hidden or ignored as well"
        };
        say(&mut text, &format!("nothing fits `{}`; {hint}", args.pattern.escape_debug()));
    } else if found.len() < count {
        say(
            &mut text,
            &format!(
                "{} of {count} paths are shown; narrow the pattern or `path`, or raise `max`",
                found.len()
            ),
        );
    }
    tell_left_out(&mut text, &told);
    let data = json!({ "path": path, "paths": count, "shown": found.len() });
    Ok(Output { truncated: found.len() < count, ..Output::text(text).with_data(data) })
}
