//! `byleave-hook DIALECT`: the program that an agent starts before and after each tool use. It asks the gate and prints
//! the answer in the agent's format.
//!
//! It decides nothing. Every failure is a deny: no input, no gate and no program to evaluate the call, or another version. So is a
//! crash, a hang, a truncated answer, or an answer that cannot be written. It must never end with an exit code other than 0 and 2,
//! because most agents go ahead on any other code. It ends with 0 only after its whole answer is written.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use std::env;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use byleave_hook::{
    AgentKind, AgentVariables, GateReply, GateRequest, HookDecision, HookEvent, HookOutput, HookRequest,
    MAX_INPUT_BYTES, PROTOCOL_VERSION, SOCKET_NAME, format_response, parse_request,
};

const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// The device number of `/dev/null`: major 1, minor 3.
const NULL: u64 = 0x103;

/// Set if the request is the end of a turn. A deny would then make the agent go on, so there is none.
static IS_TURN_END: AtomicBool = AtomicBool::new(false);

/// Set by the first thread that answers. Only that thread writes.
static SPOKEN: AtomicBool = AtomicBool::new(false);

/// The command line.
struct HookCliArgs {
    dialect: AgentKind,
    /// The state directory as typed. If it was not typed, the program finds it, because its settings may name it.
    state: Option<PathBuf>,
    program: Option<PathBuf>,
    timeout_ms: u64,
}

/// The source of the answer.
enum AnswerSource {
    Answer(HookDecision),
    /// No running gate evaluates this call, so the program does.
    Alone,
}

fn main() {
    // Only the deny may reach the agent, not the text of a panic.
    panic::set_hook(Box::new(|_| {}));
    // `byleave doctor` runs this.
    if env::args_os().skip(1).eq(["--version"]) {
        let is_said = write_all(io::stdout(), &format!("byleave-hook {PROGRAM}\n"));
        std::process::exit(if is_said { 0 } else { 2 });
    }
    let typed = match typed() {
        Ok(typed) => typed,
        Err(why) => {
            write_all(io::stderr(), &format!("byleave-hook: {why}\n"));
            std::process::exit(2);
        }
    };
    let dialect = typed.dialect;
    let said = panic::catch_unwind(AssertUnwindSafe(|| answer(&typed)));
    let said =
        said.unwrap_or_else(|_| denied(dialect, None, "the hook crashed, so the call was not evaluated"));
    speak(&said);
}

fn answer(typed: &HookCliArgs) -> HookOutput {
    let began = Instant::now();
    let dialect = typed.dialect;
    let mut deadline = began + Duration::from_millis(AgentKind::deadline_ms(typed.timeout_ms));
    watch(dialect, deadline);
    let mut said = Vec::new();
    if let Err(error) = io::stdin().lock().take(MAX_INPUT_BYTES + 1).read_to_end(&mut said) {
        return denied(dialect, None, &format!("cannot read the agent's request: {error}"));
    }
    if said.len() as u64 > MAX_INPUT_BYTES {
        return denied(dialect, None, "the call is too large to evaluate");
    }
    let heard = match parse_request(dialect, &said) {
        Ok(heard) => heard,
        Err(why) => return denied(dialect, None, &why.to_string()),
    };
    // VS Code reads the same settings as Copilot CLI, but was never seen to wait as long as they say.
    let default_ms = dialect.default_timeout_ms();
    if heard.is_editor && default_ms < typed.timeout_ms {
        deadline = began + Duration::from_millis(AgentKind::deadline_ms(default_ms));
        watch(dialect, deadline);
    }
    IS_TURN_END.store(heard.kind == HookEvent::TurnEnd, Ordering::SeqCst);
    let Ok(text) = String::from_utf8(said) else {
        return denied(dialect, Some(&heard), "the agent's request is not valid UTF-8");
    };
    let answer = ask(typed, &text, deadline).and_then(|judged| match judged {
        AnswerSource::Answer(answer) => Ok(format_response(dialect, Some(&heard), &answer)),
        AnswerSource::Alone => alone(typed, &text, deadline),
    });
    answer.unwrap_or_else(|why| denied(dialect, Some(&heard), &why))
}

/// Denies when the time is up, whatever the other threads do.
fn watch(dialect: AgentKind, deadline: Instant) {
    let watching = std::thread::Builder::new().stack_size(64 * 1024).spawn(move || {
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
        speak(&denied(dialect, None, "no answer came in time, so the call was denied; see `byleave inbox`"));
    });
    if watching.is_err() {
        speak(&denied(dialect, None, "cannot start the timeout thread, so the call was not evaluated"));
    }
}

/// Asks the gate behind the socket.
fn ask(typed: &HookCliArgs, input: &str, deadline: Instant) -> Result<AnswerSource, String> {
    let Some(state) = typed.state.clone().or_else(state) else { return Ok(AnswerSource::Alone) };
    let Ok(mut gate) = UnixStream::connect(state.join(SOCKET_NAME)) else { return Ok(AnswerSource::Alone) };
    let left = deadline.saturating_duration_since(Instant::now());
    let cwd =
        env::current_dir().map_err(|error| format!("cannot determine the current directory: {error}"))?;
    let request = GateRequest {
        protocol: PROTOCOL_VERSION,
        program: PROGRAM.into(),
        dialect: typed.dialect.name().into(),
        deadline_ms: u64::try_from(left.as_millis()).unwrap_or(0),
        cwd: cwd.to_str().ok_or("the path of the current directory is not valid UTF-8")?.into(),
        environment: env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| GateRequest::is_relevant_variable(name))
            .collect(),
        agent: AgentVariables::read(|name| env::var(name).ok()),
        input: input.into(),
    };
    let mut line = serde_json::to_vec(&request)
        .map_err(|error| format!("cannot encode the call for the gate: {error}"))?;
    line.push(b'\n');
    let broke =
        |error: io::Error| format!("the connection to the gate failed: {error}; run `byleave doctor`");
    gate.set_write_timeout(Some(left.max(Duration::from_millis(1)))).map_err(broke)?;
    // A gate that declines may do so before it has read everything.
    let sent = gate.write_all(&line);
    let mut line = String::new();
    let read = BufReader::new(gate.take(MAX_INPUT_BYTES)).read_line(&mut line);
    if !line.ends_with('\n') {
        read.map_err(broke)?;
        sent.map_err(broke)?;
        return Err("the gate's answer is incomplete; run `byleave doctor`".into());
    }
    let reply: GateReply = serde_json::from_str(&line)
        .map_err(|_| "the gate's answer is not valid; run `byleave doctor`".to_owned())?;
    if reply.protocol != PROTOCOL_VERSION || reply.program != PROGRAM {
        return Ok(AnswerSource::Alone);
    }
    match reply {
        GateReply { not_handled_reason: Some(_), .. } => Ok(AnswerSource::Alone),
        GateReply { answer: Some(answer), .. } => Ok(AnswerSource::Answer(answer)),
        _ => Err("the gate gave no answer; run `byleave doctor`".into()),
    }
}

/// Lets the program evaluate the call. It knows the dialect too.
fn alone(typed: &HookCliArgs, input: &str, deadline: Instant) -> Result<HookOutput, String> {
    let program = match &typed.program {
        Some(program) => program.clone(),
        None => beside().ok_or(
            "no gate is running, and the program `byleave` is not in the directory of `byleave-hook`",
        )?,
    };
    // It must finish before our deadline, so that its answer is used and not ours.
    let left = deadline.saturating_duration_since(Instant::now()).as_millis();
    let mut command = Command::new(&program);
    command.args(["hook", typed.dialect.name(), "--timeout-ms", &left.to_string()]);
    if let Some(state) = &typed.state {
        command.arg("--state").arg(state);
    }
    let cannot = |error: io::Error| {
        format!("no gate is running, and `{}` cannot evaluate the call: {error}", program.display())
    };
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it ends without reading, its exit code says what that means.
        drop(stdin.write_all(input.as_bytes()));
    }
    let told = child.wait_with_output().map_err(cannot)?;
    let text = |bytes: Vec<u8>| {
        String::from_utf8(bytes).map_err(|_| "the output of `byleave` is not valid UTF-8".to_owned())
    };
    let (stdout, stderr) = (text(told.stdout)?, text(told.stderr)?);
    match told.status.code() {
        Some(0) => Ok(HookOutput { stdout, stderr, exit_code: 0 }),
        Some(2) if !stderr.trim().is_empty() => Ok(HookOutput { stdout, stderr, exit_code: 2 }),
        _ => Err(format!("`{}` failed while it evaluated the call ({})", program.display(), told.status)),
    }
}

fn beside() -> Option<PathBuf> {
    let program = env::current_exe().ok()?.parent()?.join("byleave");
    program.is_file().then_some(program)
}

fn denied(dialect: AgentKind, heard: Option<&HookRequest>, why: &str) -> HookOutput {
    format_response(dialect, heard, &HookDecision::Deny { reason: why.into() })
}

/// Writes the answer and exits. An answer that cannot be written in full is a deny.
fn speak(said: &HookOutput) {
    if SPOKEN.swap(true, Ordering::SeqCst) {
        // The first thread ends the process.
        std::thread::sleep(Duration::from_secs(60));
    }
    write_all(io::stderr(), &said.stderr);
    let is_said = said.stdout.is_empty() || is_read() && write_all(io::stdout(), &said.stdout);
    if !is_said && said.stderr.is_empty() {
        write_all(io::stderr(), "byleave: the answer could not be written, so the call is denied\n");
    }
    let code = if is_said { i32::from(said.exit_code) } else { 2 };
    std::process::exit(if IS_TURN_END.load(Ordering::SeqCst) { 0 } else { code });
}

/// Checks whether standard output is read. A closed one is `/dev/null` by now and accepts everything.
fn is_read() -> bool {
    let about = io::stdout().as_fd().try_clone_to_owned().and_then(|out| File::from(out).metadata());
    about.is_ok_and(|about| about.rdev() != NULL)
}

fn write_all(mut to: impl io::Write, text: &str) -> bool {
    to.write_all(text.as_bytes()).and_then(|()| to.flush()).is_ok()
}

fn typed() -> Result<HookCliArgs, String> {
    let mut words = env::args_os().skip(1);
    let usage = "usage: byleave-hook DIALECT [--state DIR] [--program PATH] [--timeout-ms N]";
    let name = words.next().ok_or(usage)?;
    let dialect = name.to_str().and_then(AgentKind::from_name);
    let dialect =
        dialect.ok_or_else(|| format!("there is no dialect `{}`", name.to_string_lossy().escape_debug()))?;
    let mut typed =
        HookCliArgs { dialect, state: None, program: None, timeout_ms: dialect.default_timeout_ms() };
    while let Some(word) = words.next() {
        let value = words.next().ok_or(usage)?;
        match word.to_str() {
            Some("--state") => typed.state = Some(value.into()),
            Some("--program") => typed.program = Some(value.into()),
            Some("--timeout-ms") => {
                let timeout = value.to_str().and_then(|value| value.parse().ok());
                typed.timeout_ms = timeout.ok_or("--timeout-ms needs a number")?;
            }
            _ => return Err(usage.into()),
        }
    }
    Ok(typed)
}

/// Returns the state directory from the environment alone. The program finds one that its settings name.
fn state() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("BYLEAVE_STATE")
        .or_else(|| set("XDG_STATE_HOME").map(|dir| dir.join("byleave")))
        .or_else(|| set("HOME").map(|home| Path::new(&home).join(".local/state/byleave")))
}
