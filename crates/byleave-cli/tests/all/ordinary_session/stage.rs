//! The machine of the session: its project, its registries, the agent, and the person.

use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byleave_hook::AgentKind;
use byleave_testkit::fake_internet::FakeInternet;
use byleave_testkit::machine::SECRET;
use serde_json::{Value, json};

use super::{SessionCall, is_there};
use crate::hooks::{ended, rewritten, said, start};

const PROGRAM: &str = "/byleave";
const STATE: &str = "/state/log";
/// The patience of the agent with its hook. Longer than any call takes.
const PATIENT_MS: &str = "120000";
/// The port of the server that a call starts.
const PORT: u16 = 8125;

/// The end of a command.
#[derive(Clone, Debug)]
pub(super) struct CommandEnd {
    exit: Option<i32>,
    printed: String,
}

/// Makes the project, the person's policy and the package registries.
pub(super) fn prepare(internet: &FakeInternet) {
    bash(include_str!("project.sh"));
    bash("cp -a /ws /state/template");
    fs::create_dir_all("/home/u/.config/byleave").unwrap();
    fs::write("/home/u/.config/byleave/policy.toml", "profile = \"everyday\"\n").unwrap();
    bash(
        "mkdir -p /state/npm/package /state/wheel && cd /state/npm &&
         echo '{\"name\": \"left-pad\", \"version\": \"1.3.0\", \"main\": \"index.js\"}' >package/package.json &&
         echo 'module.exports = String;' >package/index.js && tar czf left-pad-1.3.0.tgz package &&
         python3 -c 'import zipfile
wheel = zipfile.ZipFile(\"/state/wheel/six-1.16.0-py3-none-any.whl\", \"w\")
wheel.writestr(\"six.py\", \"x = 1\\n\")
wheel.writestr(\"six-1.16.0.dist-info/METADATA\", \"Metadata-Version: 2.1\\nName: six\\nVersion: 1.16.0\\n\")
wheel.writestr(\"six-1.16.0.dist-info/WHEEL\", \"Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n\")
wheel.writestr(\"six-1.16.0.dist-info/RECORD\", \"six.py,,\\nsix-1.16.0.dist-info/METADATA,,\\nsix-1.16.0.dist-info/WHEEL,,\\nsix-1.16.0.dist-info/RECORD,,\\n\")
wheel.close()'",
    );
    let tarball = "registry.npmjs.org/left-pad/-/left-pad-1.3.0.tgz";
    let versions = json!({"1.3.0": {"name": "left-pad", "version": "1.3.0", "dist": {"tarball": format!("http://{tarball}")}}});
    let package = json!({"name": "left-pad", "dist-tags": {"latest": "1.3.0"}, "versions": versions});
    internet.serve_page("registry.npmjs.org/left-pad", package.to_string());
    internet.serve_page(tarball, fs::read("/state/npm/left-pad-1.3.0.tgz").unwrap());
    let wheel = "six-1.16.0-py3-none-any.whl";
    internet.serve_page(
        "pypi.org/simple/six/",
        format!("<html><body><a href=\"/simple/six/{wheel}\">{wheel}</a></body></html>"),
    );
    internet.serve_page(
        &format!("pypi.org/simple/six/{wheel}"),
        fs::read(format!("/state/wheel/{wheel}")).unwrap(),
    );
}

/// Restores the project.
pub(super) fn restore() {
    bash("find /ws -mindepth 1 -delete; cp -a /state/template/. /ws/");
}

fn bash(script: &str) {
    let mut bash = Command::new("bash");
    let done =
        bash.args(["--norc", "-c", script]).current_dir("/ws").env_remove("API_TOKEN").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Runs a call without a gate. `None` if it is not a command that ends.
pub(super) fn run_bare(call: &SessionCall) -> Option<CommandEnd> {
    let command = match call.tool.as_str() {
        "Bash" if call.input["run_in_background"] != true && call.expect.starts_with("pass") => {
            call.input["command"].as_str()?
        }
        _ => {
            perform_file_tool(call);
            return None;
        }
    };
    let done = shell(command).output().unwrap();
    set_index(command);
    Some(end_of(&done))
}

/// A shell in the project, as the agent starts it.
fn shell(command: &str) -> Command {
    let mut shell = Command::new("/bin/bash");
    shell.args(["-c", command]).current_dir("/ws").stdin(Stdio::null());
    own_settings(&mut shell);
    shell
}

fn own_settings(command: &mut Command) {
    // No cgroups are delegated to tests.
    command.env("BYLEAVE_STATE", STATE).env("BYLEAVE_WAIVE", "memory-limited");
}

fn end_of(done: &Output) -> CommandEnd {
    let printed = [done.stdout.clone(), done.stderr.clone()].concat();
    CommandEnd { exit: done.status.code(), printed: String::from_utf8_lossy(&printed).into_owned() }
}

/// The package index of this machine speaks HTTP, so pip must be told about it, as in a company with an index of its own.
fn set_index(command: &str) {
    if command.ends_with("venv .venv") {
        fs::write(
            "/ws/.venv/pip.conf",
            "[global]\nindex-url = http://pypi.org/simple\ntrusted-host = pypi.org\n",
        )
        .unwrap();
    }
}

/// Performs the agent's own file tools, as it does after the hook let them pass.
fn perform_file_tool(call: &SessionCall) {
    let text = |key: &str| call.input[key].as_str().unwrap_or_default();
    let path = Path::new(text("file_path"));
    match call.tool.as_str() {
        "Edit" => {
            let before = fs::read_to_string(path).unwrap();
            fs::write(path, before.replacen(text("old_string"), text("new_string"), 1)).unwrap();
        }
        "Write" => fs::write(path, text("content")).unwrap(),
        _ => {}
    }
}

/// Makes a call as the agent does, and says what was asked and what was wrong.
pub(super) fn run_through_hook(
    call: &SessionCall,
    bare: Option<&CommandEnd>,
    person: &Person,
    questions: &mut Vec<String>,
    wrong: &mut Vec<String>,
) {
    person.expects(call);
    let request = said(AgentKind::ClaudeCode, "/ws", &call.tool, &call.input, None);
    let told = ended(start(hook(), request.to_string().as_bytes()));
    let may_run = told.status.code() == Some(0);
    if call.expect == "deny" {
        wrong.extend(may_run.then(|| "it was not denied".to_owned()));
    } else if call.expect == "ask" {
        wrong.extend(may_run.then(|| "the answer was no, and it ran".to_owned()));
    } else if !may_run {
        wrong.push(format!("denied: {}", String::from_utf8_lossy(&told.stderr)));
    }
    let mut response = json!({"output": "done"});
    if may_run && call.tool == "Bash" {
        let command = rewritten(AgentKind::ClaudeCode, &told).unwrap_or_default();
        if call.input["run_in_background"] == true {
            wrong.extend(serve(&command).err());
        } else {
            let done = end_of(&shell(&command).output().unwrap());
            set_index(call.input["command"].as_str().unwrap_or_default());
            let bare = bare.unwrap();
            if done.exit != bare.exit {
                let (own, bare) = ((done.exit, &done.printed), (bare.exit, &bare.printed));
                wrong.push(format!("ended as {own:?}, without a gate as {bare:?}"));
            }
            wrong.extend(done.printed.contains(SECRET).then(|| "the secret was printed".to_owned()));
            response = json!({"output": done.printed});
        }
    } else if may_run {
        perform_file_tool(call);
    }
    if may_run {
        let request = said(AgentKind::ClaudeCode, "/ws", &call.tool, &call.input, Some(&response));
        let told = ended(start(hook(), request.to_string().as_bytes()));
        if told.status.code() != Some(0) {
            wrong.push(format!("after it: {}", String::from_utf8_lossy(&told.stderr)));
        }
    }
    questions.extend(person.take_questions());
    if call.expect == "ask" && questions.is_empty() {
        wrong.push("nobody was asked".into());
    }
    if call.expect == "pass" && call.tool == "Bash" && !is_there("/ws/README.md") {
        wrong.push("the project is gone".into());
    }
}

fn hook() -> Command {
    let mut hook = Command::new(PROGRAM);
    hook.args(["hook", "claude-code", "--timeout-ms", PATIENT_MS]).current_dir("/ws");
    own_settings(&mut hook);
    hook
}

/// Starts a server in the background, and waits until it runs. Ends it afterwards.
fn serve(command: &str) -> Result<(), String> {
    let mut server =
        shell(command).process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let runs = wait_for_server(&mut server);
    let group = format!("-{}", server.id());
    drop(Command::new("kill").args(["-TERM", "--", &group]).status());
    server.wait().unwrap();
    runs
}

fn wait_for_server(server: &mut Child) -> Result<(), String> {
    let began = Instant::now();
    loop {
        if TcpStream::connect(("127.0.0.1", PORT)).is_ok() {
            return Ok(());
        }
        if let Some(status) = server.try_wait().unwrap() {
            return Err(format!("the server ended: {status}"));
        }
        if began.elapsed() > Duration::from_secs(10) {
            return Err("nobody outside of the sandbox can connect to the server".into());
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// The person, who reads the inbox and answers: no where the session expects a question, and yes to everything else.
pub(super) struct Person {
    says_no: Arc<AtomicBool>,
    is_done: Arc<AtomicBool>,
    questions: Arc<Mutex<Vec<String>>>,
    thread: JoinHandle<()>,
}

impl Person {
    pub(super) fn start() -> Self {
        let says_no = Arc::<AtomicBool>::default();
        let is_done = Arc::<AtomicBool>::default();
        let questions = Arc::<Mutex<Vec<String>>>::default();
        let (no, done, seen) = (Arc::clone(&says_no), Arc::clone(&is_done), Arc::clone(&questions));
        let thread = std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                answer_all(&no, &seen);
                std::thread::park_timeout(Duration::from_millis(250));
            }
        });
        Self { says_no, is_done, questions, thread }
    }

    fn expects(&self, call: &SessionCall) {
        self.says_no.store(call.expect == "ask", Ordering::Relaxed);
    }

    fn take_questions(&self) -> Vec<String> {
        std::mem::take(&mut *self.questions.lock().unwrap())
    }

    pub(super) fn stop(self) {
        self.is_done.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

fn answer_all(says_no: &AtomicBool, seen: &Mutex<Vec<String>>) {
    let told = byleave(&["inbox", "--json"]);
    let open: Value = serde_json::from_slice(&told.stdout).unwrap_or_default();
    for question in open.as_array().into_iter().flatten() {
        let Some(id) = question["question"].as_str() else { continue };
        // Both are about the call that asks: the hook goes on as soon as there is an answer, and then comes the next call.
        let answer = if says_no.load(Ordering::Relaxed) { "no" } else { "yes" };
        let line: String = question.to_string().chars().take(300).collect();
        seen.lock().unwrap().push(line.clone());
        let answered = byleave(&["inbox", "answer", id, answer]);
        let why = String::from_utf8_lossy(&answered.stderr).into_owned();
        // The hook may have gone on in the meantime.
        if !matches!(answered.status.code(), Some(0 | 3 | 4)) {
            seen.lock().unwrap().retain(|own| *own != line);
            println!("not answered: {why} {question}");
        }
    }
}

fn byleave(words: &[&str]) -> Output {
    let mut command = Command::new("setsid");
    command.args(["--wait", PROGRAM]).args(words).current_dir("/ws").stdin(Stdio::null());
    own_settings(&mut command);
    command.output().unwrap()
}
