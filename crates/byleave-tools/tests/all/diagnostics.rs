//! `diagnostics` behind a real gate, in the real sandbox, with real compilers and linters.
//!
//! Those from PyPI and npm are in the cache of `.ci/run`, which installs them. A test prints a message if one is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use byleave_gate::approver::{Reply, callback};
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_gate::core::outcome::Output;
use byleave_gate::core::policy::{PathVariables, Policy, builtin_rules};
use byleave_gate::gate::Gate;
use byleave_gate::result::{CallOutcome, CallResult};
use byleave_gate::tool::{RunContext, Tool as _, ToolContext};
use byleave_sandbox::guarantee::Guarantee;
use byleave_sandbox::launch::RunAs;
use byleave_sandbox::plan::UserIdentity;
use byleave_tools::{ExecutionEnv, diagnostics};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::world::tree;
use byleave_testkit::user::UID;

/// A home with a workspace in it, and compilers. Removed when it is dropped.
struct DiagnosticsFixture {
    _folder: tempfile::TempDir,
    at: PathBuf,
}

impl DiagnosticsFixture {
    fn new() -> Self {
        // Not in a temporary directory, because each command has its own, nor where other tests create and
        // remove files.
        let folder =
            tempfile::tempdir_in("/srv").or_else(|_| tempfile::tempdir_in(std::env::var("HOME").unwrap()));
        let folder = folder.unwrap();
        let at = folder.path().canonicalize().unwrap();
        for directory in ["home/w", "home/.cargo", "home/.rustup/toolchains", "state/copies", "outside"] {
            fs::create_dir_all(at.join(directory)).unwrap();
        }
        fs::set_permissions(&at, PermissionsExt::from_mode(0o755)).unwrap();
        Self { _folder: folder, at }
    }

    /// Adds the toolchain of the user who runs the tests. It is linked, because it is large and nothing
    /// changes it.
    fn with_rust(self) -> Self {
        let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
        let sysroot = String::from_utf8(sysroot.stdout).unwrap();
        let to = self.at.join("home/.rustup/toolchains/here");
        let linked = Command::new("cp").args(["-al", sysroot.trim()]).arg(&to).status().unwrap();
        assert!(linked.success(), "the toolchain cannot be linked: is it on another disk?");
        fs::remove_dir_all(to.join("share")).ok();
        self
    }

    /// Adds a part of the cache to the workspace. Returns false, with a message, if it is not installed.
    fn has(&self, what: &str, name: &str) -> bool {
        self.brought("-a", what, &self.w(name))
    }

    /// Adds Go. Returns false, with a message, if it is not installed.
    fn has_go(&self) -> bool {
        let lib = self.at.join("home/.local/lib");
        fs::create_dir_all(&lib).unwrap();
        self.brought("-al", "go", &lib.join("go"))
    }

    fn brought(&self, how: &str, what: &str, to: &Path) -> bool {
        let home = || PathBuf::from(std::env::var("HOME").unwrap()).join(".cache/byleave-ci");
        let cache = std::env::var_os("BYLEAVE_CI_CACHE").map_or_else(home, PathBuf::from).join("diagnostics");
        if !cache.join(what).exists() {
            println!("SKIPPED: `{}` is not installed; `.ci/run` does that", cache.join(what).display());
            return false;
        }
        assert!(
            Command::new("cp").arg(how).arg(cache.join(what)).arg(to).status().unwrap().success(),
            "{what}"
        );
        true
    }

    fn w(&self, path: &str) -> PathBuf {
        self.at.join("home/w").join(path)
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        fs::create_dir_all(self.w(path).parent().unwrap()).unwrap();
        fs::write(self.w(path), text).unwrap();
        self
    }

    fn policy(&self) -> Policy {
        let texts = ["home/w", "home", "state"].map(|name| self.at.join(name).to_str().unwrap().to_owned());
        let [workspace, home, state] = texts.each_ref().map(|text| Some(text.as_str()));
        Policy::new(
            builtin_rules(&PathVariables { workspace, home, state, ..PathVariables::default() }).unwrap(),
        )
        .unwrap()
    }

    /// The execution environment, with all files owned by the user that runs the commands.
    fn workplace(&self) -> ExecutionEnv {
        let [workspace, home, state] = ["home/w", "home", "state"].map(|name| self.at.join(name));
        let mut workplace = ExecutionEnv::new(state.join("copies"), workspace);
        if rustix::process::geteuid().is_root() {
            workplace.run_as = RunAs::User(UserIdentity { uid: UID, gid: UID });
            let owner = format!("{UID}:{UID}");
            let owned =
                Command::new("chown").args(["-hR", &owner]).args([self.w(""), home.join(".cargo")]).status();
            assert!(owned.unwrap().success());
        }
        let path =
            format!("{0}/.rustup/toolchains/here/bin:{0}/.local/lib/go/bin:/usr/bin:/bin", home.display());
        workplace.environment =
            BTreeMap::from([("PATH".into(), path), ("HOME".into(), home.display().to_string())]);
        workplace.home = Some(home);
        workplace.private_paths = vec![state];
        // Tests have no delegated cgroups.
        workplace.waived = BTreeSet::from([Guarantee::MemoryLimited]);
        workplace
    }

    /// A call behind a gate whose approver says no, so every success was without a question.
    async fn check(&self, arguments: Value, mode: Mode) -> CallResult {
        let person = callback("ada", |_| Reply::No { feedback: None });
        let gate = Gate::builder().policy(self.policy()).tool(diagnostics(self.workplace()));
        let gate = gate.approver(Arc::new(person)).build().unwrap();
        let call = Call {
            id: CallId::new(uuid::Uuid::new_v4()),
            tenant: TenantId::new("local").unwrap(),
            session: SessionId::new("s").unwrap(),
            agent: AgentId::new("agent").unwrap(),
            tool: "diagnostics".into(),
            arguments,
            reason: None,
            cwd: self.at.join("home/w").to_str().unwrap().to_owned(),
            mode,
            dry_run: false,
        };
        gate.settle(call).await
    }

    async fn all(&self) -> CallResult {
        self.check(json!({}), Mode::ConfirmSensitive).await
    }
}

fn output(result: &CallResult) -> &Output {
    match &result.outcome {
        CallOutcome::Completed(output) | CallOutcome::Failed(output) => output,
        other => panic!("it did not run: {other:?}"),
    }
}

fn told(result: &CallResult) -> String {
    format!("{}{}", output(result).text, output(result).error.as_deref().unwrap_or_default())
}

const BUILD: &str = r##"
use std::{env, fs, net::TcpStream, time::*};
fn main() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let secret = fs::read_to_string(".env").unwrap_or_default();
    let reached = TcpStream::connect("127.0.0.1:PORT").is_ok();
    fs::write("planted", "x").ok();
    fs::write("src/main.rs.bak", "x").ok();
    fs::write("OUTSIDE/x", "x").ok();
    let out = format!("#[deprecated(note = \"{now} {secret} {reached}\")] pub fn f() {{}}");
    fs::write(format!("{}/f.rs", env::var("OUT_DIR").unwrap()), out).unwrap();
    println!("cargo:rerun-if-changed=build.rs");
}
"##;

// req: B6, B8
#[tokio::test(flavor = "multi_thread")]
async fn a_crate_is_checked_on_a_copy_and_nothing_comes_of_it_but_findings() {
    let yard = DiagnosticsFixture::new().with_rust();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let outside = yard.at.join("outside");
    fs::set_permissions(&outside, PermissionsExt::from_mode(0o777)).unwrap();
    yard.write("Cargo.toml", "[package]\nname = \"tiny\"\nedition = \"2021\"\n");
    yard.write("build.rs", &BUILD.replace("PORT", &port).replace("OUTSIDE", outside.to_str().unwrap()));
    yard.write(".env", "KEY=GATE_SECRET");
    yard.write(
        "src/main.rs",
        "include!(concat!(env!(\"OUT_DIR\"), \"/f.rs\"));\nfn main() {\n    f();\n    let x = 5;\n    if x == x {}\n}\n",
    );
    yard.write("src/bin/bad.rs", "fn main() { let v: u32 = \"a\"; }\n");
    drop(yard.workplace());
    let before = tree(&yard.w(""));
    let began = Instant::now();
    let first = yard.all().await;
    let took = began.elapsed();
    assert!(first.is_success(), "{}", told(&first));
    let text = told(&first);
    assert!(text.contains("src/bin/bad.rs:1:26: error[E0308] mismatched types (cargo)\n"), "{text}");
    assert!(text.contains("src/main.rs:5:8: error[clippy::eq_op]"), "{text}");
    let deprecated = |text: &str| {
        text.lines().find(|line| line.contains("deprecated function")).unwrap_or(text).to_owned()
    };
    assert!(deprecated(&text).starts_with("src/main.rs:3:5: warning[deprecated]"), "{text}");
    assert!(deprecated(&text).contains("false") && !text.contains("GATE_SECRET"), "{text}");
    let data = output(&first).data.as_ref().unwrap();
    assert_eq!(data["findings"][0]["severity"], "error");
    assert_eq!(
        data["totals"]["error"], 2,
        "each is told once, though libraries and tests are checked apart: {text}"
    );
    // The build output is there for the next check, which rebuilds nothing: the build script would have printed
    // another time.
    let began = Instant::now();
    let second = yard.check(json!({"tools": ["cargo"], "paths": ["src/main.rs"]}), Mode::ReadOnly).await;
    println!("first {took:?}, second {:?}", began.elapsed());
    assert_eq!(deprecated(&told(&second)), deprecated(&text), "the scratch of the first was not found");
    assert!(!told(&second).contains("bad.rs"), "{}", told(&second));
    assert_eq!(tree(&yard.w("")), before, "the workspace has changed");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "a build script came out");
    let left = fs::read_dir(yard.at.join("state/copies/copies")).unwrap().count();
    assert_eq!(left, 0, "a copy was left");
}

/// All paths beneath a directory, because a Python environment is too large to read whole.
fn paths(root: &Path) -> BTreeSet<PathBuf> {
    let (mut all, mut left) = (BTreeSet::new(), vec![root.to_path_buf()]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            }
            all.insert(entry.path());
        }
    }
    all
}

/// A Python project with its own environment. `None` if that is not installed.
fn python() -> Option<DiagnosticsFixture> {
    let yard = DiagnosticsFixture::new();
    yard.write("pyproject.toml", "[tool.ruff.lint]\nselect = [\"F\"]\n");
    yard.write("src/a.py", "import os\n\nx: int = \"a\"\n");
    yard.write("b.py", "def f(:\n");
    let many: String = (0..250).map(|n| format!("import m{n} as n{n}  # type: ignore\n")).collect();
    yard.write("many/many.py", &many);
    yard.has("venv", ".venv").then_some(yard)
}

// req: B6
#[tokio::test(flavor = "multi_thread")]
async fn python_is_checked_by_what_its_environment_has() {
    let Some(yard) = python() else { return };
    drop(yard.workplace());
    let before = paths(&yard.w(""));
    let result = yard.check(json!({"paths": ["src", "b.py"]}), Mode::ConfirmSensitive).await;
    let text = told(&result);
    assert!(result.is_success(), "{text}");
    for wanted in ["src/a.py:1:8: error[F401] `os` imported but unused (ruff)", "b.py:1:", "(ruff)", "(mypy)"]
    {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(!text.contains("many.py"), "{text}");
    assert_eq!(paths(&yard.w("")), before, "the workspace has changed");
}

// req: B6
#[tokio::test(flavor = "multi_thread")]
async fn one_checker_of_python_is_run_alone_and_of_many_findings_the_first_are_told() {
    let Some(yard) = python() else { return };
    drop(yard.workplace());
    let before = paths(&yard.w(""));
    let all = yard.check(json!({"tools": ["ruff"]}), Mode::ConfirmSensitive).await;
    let text = told(&all);
    assert!(output(&all).truncated && text.contains("the first 200 of "), "{:.300}", text);
    let data = output(&all).data.as_ref().unwrap();
    assert_eq!(data["findings"].as_array().unwrap().len(), 200);
    assert!(data["totals"]["error"].as_u64().unwrap() > 250, "{}", data["totals"]);
    fs::remove_file(yard.w("b.py")).unwrap();
    let typed = yard.check(json!({"tools": ["mypy"], "paths": ["src"]}), Mode::ConfirmSensitive).await;
    assert!(told(&typed).contains("src/a.py:3:10: error[assignment] Incompatible types"), "{}", told(&typed));
    yard.write("b.py", "def f(:\n");
    drop(yard.workplace());
    assert_eq!(paths(&yard.w("")), before, "the workspace has changed");
}

// req: B6
#[tokio::test(flavor = "multi_thread")]
async fn typescript_and_javascript_are_checked_by_what_the_project_has() {
    let yard = DiagnosticsFixture::new();
    yard.write("package.json", "{\"name\": \"x\", \"type\": \"module\"}");
    yard.write(
        "eslint.config.js",
        "export default [{ rules: { 'no-unused-vars': 'warn', 'no-undef': 'error' } }];\n",
    );
    yard.write("a.js", "const a = 1;\nfoo();\n");
    yard.write(
        "tsconfig.json",
        "{\"compilerOptions\": {\"strict\": true, \"types\": []}, \"include\": [\"src\"]}",
    );
    yard.write("src/b.ts", "export const x: number = 'a';\n");
    if !yard.has("npm/node_modules", "node_modules") {
        return;
    }
    let result = yard.all().await;
    let text = told(&result);
    assert!(result.is_success(), "{text}");
    for wanted in [
        "a.js:1:7: warning[no-unused-vars] 'a' is assigned a value but never used. (eslint)",
        "a.js:2:1: error[no-undef] 'foo' is not defined. (eslint)",
        "src/b.ts:1:14: error[TS2322] Type 'string' is not assignable to type 'number'. (tsc)",
        "[byleave] 2 errors, 1 warning (eslint, tsc)",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

// req: B6
#[tokio::test(flavor = "multi_thread")]
async fn go_is_vetted() {
    let yard = DiagnosticsFixture::new();
    if !yard.has_go() {
        return;
    }
    yard.write("x/go.mod", "module x\n\ngo 1.18\n");
    yard.write(
        "x/main.go",
        "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Printf(\"%d\\n\", \"a\")\n}\n",
    );
    let result = yard.all().await;
    let text = told(&result);
    assert!(text.contains("x/main.go:6:2: warning[printf]") && text.contains("(go)"), "{text}");
    yard.write("x/main.go", "package main\n\nfunc main() {\n\tfoo()\n}\n");
    let text = told(&yard.all().await);
    assert!(text.contains("x/main.go:4:2: error ") && text.contains("foo (go)"), "{text}");
}

// req: B6
#[tokio::test(flavor = "multi_thread")]
async fn every_error_says_what_to_do_next() {
    let none: &[(&str, &str)] = &[];
    for (files, arguments, words) in [
        (
            none,
            json!({}),
            &["there is nothing to check in", "call diagnostics in the directory of a project"][..],
        ),
        (
            &[("Cargo.toml", "")],
            json!({"tools": ["tsc"]}),
            &["there is nothing to check in", "that `tools` allows"],
        ),
        (
            &[("tsconfig.json", "{}")],
            json!({}),
            &["tsc: not installed; to install it: npm install --save-dev typescript", "no checker finished"],
        ),
        (
            &[("Cargo.toml", "[package]\nname = \"x\"\n"), ("src/lib.rs", "")],
            json!({}),
            &[
                "cargo: not installed; to install it: rustup toolchain install",
                "follow the advice for each checker above",
            ],
        ),
        (
            &[("a.py", "x = 1\n")],
            json!({"tools": ["ruff"]}),
            &["ruff: not installed; to install it: pip install ruff"],
        ),
        (
            &[("a.py", "x = 1\n")],
            json!({"tools": ["mypy"]}),
            &["mypy: not installed; to install it: pip install mypy"],
        ),
    ] {
        // Some machines have the tool.
        let is_installed = |(tool, _): (&str, &str)| {
            ["/usr/bin", "/usr/local/bin"].iter().any(|dir| Path::new(dir).join(tool).exists())
        };
        if words.iter().filter_map(|words| words.split_once(": not installed")).any(is_installed) {
            println!("not tried, because it is installed here: {words:?}");
            continue;
        }
        let yard = DiagnosticsFixture::new();
        for (path, text) in files {
            yard.write(path, text);
        }
        let result = yard.check(arguments.clone(), Mode::ConfirmSensitive).await;
        assert!(!result.is_success(), "{arguments}");
        for words in words {
            assert!(told(&result).contains(words), "{words}: {}", told(&result));
        }
    }
    let yard = DiagnosticsFixture::new().with_rust();
    yard.write(
        "Cargo.toml",
        "[package]\nname = \"x\"\nedition = \"2021\"\n[dependencies]\nnowhere-to-be-found = \"1\"\n",
    );
    yard.write("src/lib.rs", "");
    let text = told(&yard.all().await);
    for words in [
        "cargo: the checker ended with status 101 and printed: error: no matching package",
        "There is no network here",
        "fix the problem, or run the checker with bash",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let refused = yard.check(json!({"tools": ["make"]}), Mode::ConfirmSensitive).await;
    assert!(!refused.is_success() && matches!(refused.outcome, CallOutcome::Refused(_)), "{refused:?}");
    // If the network guarantee is waived, code of the workspace does not run without a question.
    let mut open = yard.workplace();
    open.waived.insert(Guarantee::NetworkConfined);
    let error = alone(&yard, open, CancellationToken::new(), Arc::default()).await.error.unwrap();
    assert!(
        error.contains("without the guarantee `network-confined`") && error.ends_with("use bash"),
        "{error}"
    );
}

// req: B6, E2
#[tokio::test(flavor = "multi_thread")]
async fn it_stops_when_it_is_told_to() {
    let yard = DiagnosticsFixture::new().with_rust();
    yard.write("Cargo.toml", "[package]\nname = \"x\"\nedition = \"2021\"\n");
    yard.write("build.rs", "fn main() { loop { std::thread::park() } }");
    yard.write("src/lib.rs", "");
    let (cancel, told) = (CancellationToken::new(), Arc::<Mutex<Vec<String>>>::default());
    let output = alone(&yard, yard.workplace(), cancel, Arc::clone(&told)).await;
    assert_eq!(*told.lock().unwrap(), ["cargo"]);
    assert!(output.error.unwrap().contains("the call was stopped; use fewer `tools`"));
    assert_eq!(fs::read_dir(yard.at.join("state/copies/copies")).unwrap().count(), 0, "a copy was left");
}

/// The tool alone, cancelled as soon as it reports that a checker runs.
async fn alone(
    yard: &DiagnosticsFixture,
    workplace: ExecutionEnv,
    cancel: CancellationToken,
    told: Arc<Mutex<Vec<String>>>,
) -> Output {
    let cwd = yard.at.join("home/w");
    let effects = vec![Effect::Read { path: cwd.to_str().unwrap().to_owned() }];
    let plan = Plan { effects, read_only: true, ..Plan::default() };
    let site = ToolContext {
        tenant: "t".parse().unwrap(),
        session: SessionId::new("s").unwrap(),
        agent: AgentId::new("a").unwrap(),
        cwd,
    };
    let stop = cancel.clone();
    let hear = move |progress: byleave_gate::tool::Progress| {
        told.lock().unwrap().push(progress.detail);
        stop.cancel();
    };
    let run =
        RunContext::new(CallId::new(uuid::Uuid::new_v4()), site, Arc::new(plan), cancel, Arc::new(hear));
    let run = run.with_policy(Arc::new(yard.policy()), Mode::ConfirmSensitive);
    diagnostics(workplace).execute(json!({}), run).await
}
