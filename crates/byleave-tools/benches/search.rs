//! Compares searching and listing with established programs: `grep` with ripgrep, `glob` and `list_files` with fd and find,
//! `list_dir` with find. They alternate on the same tree, and the results must be equal.
//!
//! `cargo bench -p byleave-tools --bench search` measures and writes its part of docs/performance.md. With `BYLEAVE_PROOF=short`
//! it uses a smaller tree and fewer rounds, and writes nothing. Needs `rg`, `fdfind` (or `fd`) and `find`.
#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::panic, reason = "a benchmark")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byleave_gate::catalog::Catalog;
use byleave_gate::core::call::Mode;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::id::{AgentId, CallId, SessionId};
use byleave_gate::core::policy::{PathVariables, Policy, builtin_rules};
use byleave_gate::tool::{RunContext, ToolContext};
use byleave_tools::{BuiltinToolOptions, ExecutionEnv, builtin_catalog};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const BAR: f64 = 1.15;
/// A result beyond this is a real regression, even on a noisy machine.
const LOOSE: f64 = 2.0;

fn main() {
    let short = std::env::var("BYLEAVE_PROOF").is_ok_and(|proof| proof == "short");
    let (directories, rounds) = if short { (60, 7) } else { (600, 21) };
    let ground = SearchFixture::new(directories);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let fd = if is_there("fdfind") { "fdfind" } else { "fd" };
    let mut table = String::from(
        "| what | beside | its median | ours | ratio | of the best | bar | |\n|---|---|--:|--:|--:|--:|--:|---|\n",
    );
    let mut worst: f64 = 0.0;
    for case in cases(fd) {
        let told = ground.compare(&runtime, &case);
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            theirs.push(ground.theirs(&case).1);
            ours.push(runtime.block_on(ground.ours(&case)).1);
        }
        theirs.sort();
        ours.sort();
        let median = |all: &[Duration]| all.get(all.len() / 2).unwrap().as_secs_f64();
        let best = |all: &[Duration]| all.first().unwrap().as_secs_f64();
        let ratio = median(&ours) / median(&theirs);
        let of_best = best(&ours) / best(&theirs);
        worst = worst.max(of_best);
        let verdict = if ratio <= BAR { "within" } else { "**beyond**" };
        writeln!(
            table,
            "| {}: {told} | `{}` | {:.1} ms | {:.1} ms | {ratio:.2} | {of_best:.2} | ≤ {BAR:.2} | {verdict} |",
            case.what,
            case.theirs.join(" ").replace('|', "\\|"),
            median(&theirs) * 1e3,
            median(&ours) * 1e3,
        )
        .unwrap();
    }
    let starts = ["rg", fd, "find"].map(|program| {
        let mut all: Vec<Duration> = (0..rounds).map(|_| ground.started(program).1).collect();
        all.sort();
        let version = ground.started(program).0;
        let version = version.lines().next().unwrap_or_default().to_owned();
        format!("{version} ({:.1} ms to start)", all.get(all.len() / 2).unwrap().as_secs_f64() * 1e3)
    });
    let exe = std::env::current_exe().unwrap();
    let profile = exe.ancestors().nth(2).and_then(Path::file_name).unwrap().to_string_lossy().into_owned();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    writeln!(
        table,
        "\nA tree of {} files in {directories} directories with {} ignore files, on disk and read before; {rounds} rounds, each way in \
         turn, on {} threads each, profile `{profile}`, load {}. Beside {}. The programs' times include starting them and reading what \
         they print; ours include the rules, which are asked about whatever they could mean, and the sizes that `list_files` and \
         `list_dir` tell. Results are compared as sets and are the same.",
        ground.files,
        ground.ignores,
        std::thread::available_parallelism().map_or(1, usize::from).min(12),
        load.split(' ').next().unwrap_or_default(),
        starts.join(", "),
    )
    .unwrap();
    println!("{table}");
    if !short {
        byleave_testkit::write_bench_page!("search", &table);
    }
    assert!(worst <= LOOSE, "something takes {worst:.2} times as long");
}

/// One search, with our tool and with the other program.
struct SearchCase {
    what: &'static str,
    tool: &'static str,
    arguments: Value,
    path: &'static str,
    theirs: Vec<&'static str>,
    /// Normalizes a line of either output for comparison.
    line: fn(&str) -> String,
}

fn cases(fd: &'static str) -> Vec<SearchCase> {
    let grep = |what, pattern: &'static str, more: Value, flags: &[&'static str]| {
        let mut arguments = json!({"pattern": pattern, "max": 100_000});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let theirs =
            [&["rg", "--no-config", "--color=never", "--no-heading"], flags, &["-e", pattern, "."]].concat();
        SearchCase { what, tool: "grep", arguments, path: "", theirs, line: whole }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(12);
    let jobs: &'static str = Box::leak(format!("-j{threads}").into_boxed_str());
    let list = |what, tool, path, arguments, theirs: &[&'static str], line| SearchCase {
        what,
        tool,
        arguments,
        path,
        theirs: theirs.to_vec(),
        line,
    };
    vec![
        grep("grep, a text", "needle_in_hay", json!({"literal": true}), &["-n", "-F"]),
        grep("grep, as many threads by name", "needle_in_hay", json!({"literal": true}), &["-n", "-F", jobs]),
        grep("grep, an expression", "handle_\\w+7\\(", json!({}), &["-n"]),
        grep(
            "grep, either case",
            "NEEDLE_in_hay",
            json!({"literal": true, "ignore_case": true}),
            &["-n", "-F", "-i"],
        ),
        grep("grep, counts", "value", json!({"mode": "counts"}), &["-c"]),
        grep("grep, files", "return", json!({"mode": "files"}), &["-l"]),
        grep(
            "grep, one type, with context",
            "needle_in_hay",
            json!({"type": "rust", "context": 2}),
            &["-n", "-trust", "-C2"],
        ),
        grep("grep, nothing", "no_such_thing_anywhere", json!({}), &["-n"]),
        list(
            "glob, a name",
            "glob",
            "",
            json!({"pattern": "*.rs", "max": 100_000}),
            &[fd, "--color=never", "-g", "*.rs"],
            whole,
        ),
        list(
            "glob, braces",
            "glob",
            "",
            json!({"pattern": "m*1.{rs,py}", "max": 100_000}),
            &[fd, "--color=never", "-g", "m*1.{rs,py}"],
            whole,
        ),
        list(
            "glob, nothing",
            "glob",
            "",
            json!({"pattern": "*.none", "max": 100_000}),
            &[fd, "--color=never", "-g", "*.none"],
            whole,
        ),
        list(
            "list_files",
            "list_files",
            "",
            json!({"max": 100_000}),
            &[fd, "--color=never", "-tf"],
            name_only,
        ),
        list(
            "list_files, all",
            "list_files",
            "",
            json!({"all": true, "max": 100_000}),
            &["find", ".", "-name", ".git", "-prune", "-o", "-type", "f", "-printf", "%P\\t%s\\n"],
            whole,
        ),
        list(
            "list_dir, a directory of directories",
            "list_dir",
            "tree",
            json!({"all": true}),
            &["find", "tree", "-mindepth", "1", "-maxdepth", "1", "-printf", "%f\\t%s\\n"],
            name_only,
        ),
        list(
            "list_dir, a directory of files",
            "list_dir",
            "tree/d0/e0",
            json!({"all": true}),
            &["find", "tree/d0/e0", "-mindepth", "1", "-maxdepth", "1", "-printf", "%f\\t%s\\n"],
            name_only,
        ),
    ]
}

fn whole(line: &str) -> String {
    line.trim_start_matches("./").to_owned()
}

fn name_only(line: &str) -> String {
    line.trim_start_matches("./").split('\t').next().unwrap().trim_end_matches('/').to_owned()
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// A tree of files, and the tools on it.
struct SearchFixture {
    _folder: tempfile::TempDir,
    root: PathBuf,
    catalog: Catalog,
    rules: Arc<Policy>,
    files: usize,
    ignores: usize,
}

impl SearchFixture {
    fn new(directories: usize) -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = folder.path().canonicalize().unwrap().join("w");
        let (files, ignores) = plant(&root, directories);
        let places = PathVariables { workspace: root.to_str(), ..PathVariables::default() };
        let rules = Arc::new(Policy::new(builtin_rules(&places).unwrap()).unwrap());
        let workplace = ExecutionEnv::new(folder.path().join("kept"), root.clone());
        let catalog = builtin_catalog(&workplace, &BuiltinToolOptions::default()).unwrap();
        Self { _folder: folder, root, catalog, rules, files, ignores }
    }

    fn theirs(&self, case: &SearchCase) -> (String, Duration) {
        let (program, words) = case.theirs.split_first().unwrap();
        let mut command = Command::new(program);
        command
            .args(words)
            .current_dir(&self.root)
            .env("HOME", "/nonexistent")
            .env("XDG_CONFIG_HOME", "/nonexistent");
        let began = Instant::now();
        let output = command.output();
        let took = began.elapsed();
        let output = output.unwrap_or_else(|error| panic!("`{program}` is needed: {error}"));
        (String::from_utf8(output.stdout).unwrap(), took)
    }

    /// The version of a program, and the time to print it.
    fn started(&self, program: &str) -> (String, Duration) {
        let began = Instant::now();
        let output = Command::new(program).arg("--version").current_dir(&self.root).output().unwrap();
        (String::from_utf8_lossy(&output.stdout).into_owned(), began.elapsed())
    }

    async fn ours(&self, case: &SearchCase) -> (String, Duration) {
        let path = if case.path.is_empty() { self.root.clone() } else { self.root.join(case.path) };
        let effects = vec![Effect::Read { path: path.to_str().unwrap().to_owned() }];
        let plan = Arc::new(Plan { effects, read_only: true, ..Plan::default() });
        let site = ToolContext {
            tenant: "t".parse().unwrap(),
            session: SessionId::new("s").unwrap(),
            agent: AgentId::new("a").unwrap(),
            cwd: self.root.clone(),
        };
        let tool = Arc::clone(self.catalog.get(case.tool).unwrap().tool());
        let call = CallId::new(Uuid::new_v4());
        let run = RunContext::new(call, site, plan, CancellationToken::new(), Arc::new(|_| {}))
            .with_policy(Arc::clone(&self.rules), Mode::ConfirmSensitive);
        let arguments = case.arguments.clone();
        let began = Instant::now();
        let output = tool.execute(arguments, run).await;
        let took = began.elapsed();
        assert!(!output.is_error && !output.truncated, "{}: {:?}", case.what, output.error);
        (output.text, took)
    }

    /// Fails if the results differ. Returns their number.
    fn compare(&self, runtime: &tokio::runtime::Runtime, case: &SearchCase) -> String {
        let set = |text: &str| -> BTreeSet<String> {
            let lines = text.lines().filter(|line| !line.starts_with("[byleave]"));
            lines.map(|line| (case.line)(line)).collect()
        };
        let theirs = set(&self.theirs(case).0);
        let ours = set(&runtime.block_on(self.ours(case)).0);
        let differ: Vec<_> = theirs.symmetric_difference(&ours).take(5).collect();
        assert!(differ.is_empty(), "{}: the results differ: {differ:?}", case.what);
        format!("{} results", ours.len())
    }
}

/// Creates the same tree each time. Returns the number of files and of ignore files.
fn plant(root: &Path, directories: usize) -> (usize, usize) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    let words = [
        "let", "value", "return", "self", "match", "if", "else", "import", "def", "class", "handle",
        "result", "error",
    ];
    let (mut files, mut ignores) = (0, 0);
    fs::create_dir_all(root.join(".git/info")).unwrap();
    fs::write(root.join(".git/info/exclude"), "*.swp\n").unwrap();
    fs::write(root.join(".gitignore"), "*.o\n/built/\nnode_modules/\n*.log\n!keep.log\n").unwrap();
    for number in 0..directories {
        let at = root.join(format!("tree/d{}/e{}", number % 60, number / 60));
        fs::create_dir_all(&at).unwrap();
        if number % 20 == 0 {
            let name = if number % 40 == 0 { ".gitignore" } else { ".ignore" };
            fs::write(at.join(name), "*.tmp\nm*9.md\n!keep.tmp\n").unwrap();
            ignores += 1;
        }
        for file in 0..40 {
            let ending =
                ["rs", "py", "md", "ts", "txt", "rs", "toml", "o", "tmp", "log"].get(file % 10).unwrap();
            let mut text = String::new();
            for line in 0..20 + random(120) {
                let indent = " ".repeat(4 * random(4));
                let some: Vec<&str> =
                    (0..3 + random(6)).map(|_| *words.get(random(words.len())).unwrap()).collect();
                writeln!(
                    text,
                    "{indent}{} = {}_{line}({file});",
                    some.join("_"),
                    words.get(random(words.len())).unwrap()
                )
                .unwrap();
                match random(9_000) {
                    0 => text.push_str("// needle_in_hay\n"),
                    1 => text.push_str("// Needle_In_Hay\n"),
                    2..6 => text.push_str("fn handle_a7(x)\n"),
                    _ => {}
                }
            }
            let mut bytes = text.into_bytes();
            if file % 10 == 4 && number % 5 == 0 {
                bytes.splice(100..100, [0, 1, 2, 255]);
            }
            fs::write(at.join(format!("m{file}.{ending}")), bytes).unwrap();
            files += 1;
        }
    }
    (files, ignores + 2)
}
