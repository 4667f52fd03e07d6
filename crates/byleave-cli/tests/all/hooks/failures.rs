//! Everything that can fail between an agent and the gate. Each failure must lead to a deny in every dialect.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use byleave_hook::AgentKind;
use serde_json::json;

use super::page;
use super::{HookFixture, PATIENT_MS, ended, is_denied, said, start, tools};

/// The behavior of a fake gate.
type FakeGateBehavior = fn(UnixStream);

/// One failure, in one dialect.
type FailureCase = fn(&FailureFixture, AgentKind) -> Output;

/// The patience of an agent whose counterpart never replies.
const SHORT_MS: u64 = 900;

const READS: fn(&UnixStream) = |stream| {
    let mut line = String::new();
    drop(BufReader::new(stream).read_line(&mut line));
};

/// Failures between the hook and a gate that listens.
const GATE: &[(&str, FailureCase)] = &[
    ("the gate crashes before it has read", |lab, dialect| lab.with_gate(dialect, PATIENT_MS, drop)),
    ("the gate crashes after it has read", |lab, dialect| {
        lab.with_gate(dialect, PATIENT_MS, |stream| READS(&stream))
    }),
    ("the gate hangs", |lab, dialect| {
        lab.with_gate(dialect, SHORT_MS, |stream| {
            READS(&stream);
            std::thread::park_timeout(super::PATIENCE);
            drop(stream);
        })
    }),
    ("the gate talks nonsense", |lab, dialect| {
        lab.with_gate(dialect, PATIENT_MS, |mut stream| {
            READS(&stream);
            drop(stream.write_all(b"\x00\xff allow yes pass {\"answer\":\n"));
        })
    }),
    ("the gate answers something else", |lab, dialect| {
        lab.with_gate(dialect, PATIENT_MS, |mut stream| {
            READS(&stream);
            drop(stream.write_all(b"{\"answer\":{\"pass\":{}}}\n"));
        })
    }),
    ("the gate gives no answer", |lab, dialect| {
        lab.with_gate(dialect, PATIENT_MS, |mut stream| {
            READS(&stream);
            drop(stream.write_all(reply("null", "0.1.0").as_bytes()));
        })
    }),
    ("the gate's answer is cut short", |lab, dialect| {
        lab.with_gate(dialect, PATIENT_MS, |mut stream| {
            READS(&stream);
            let whole = reply("{\"pass\":{\"note\":null}}", "0.1.0");
            drop(stream.write_all(whole.trim_end().as_bytes()));
        })
    }),
    ("the gate is of another version, and no program is there", |lab, dialect| {
        lab.with_gate(dialect, PATIENT_MS, |mut stream| {
            READS(&stream);
            drop(stream.write_all(reply("{\"pass\":{\"note\":null}}", "9.9.9").as_bytes()));
        })
    }),
];

/// Failures without a listening gate, when the hook lets the program judge.
const PROGRAM: &[(&str, FailureCase)] = &[
    ("no gate, and the program is not there", |lab, dialect| {
        let mut hook = lab.stand.hook(dialect, PATIENT_MS);
        hook.args(["--program", "/nonexistent/byleave"]);
        ended(start(hook, &lab.said(dialect)))
    }),
    ("no gate, and the program crashes", |lab, dialect| lab.with_program(dialect, PATIENT_MS, "exit 101")),
    ("no gate, and the program is killed", |lab, dialect| {
        lab.with_program(dialect, PATIENT_MS, "kill -9 $$")
    }),
    ("no gate, and the program hangs", |lab, dialect| lab.with_program(dialect, SHORT_MS, "exec sleep 30")),
    ("no gate, and the program denies without a word", |lab, dialect| {
        lab.with_program(dialect, PATIENT_MS, "exit 2")
    }),
    ("no gate, and the output of `byleave` is not valid UTF-8", |lab, dialect| {
        lab.with_program(dialect, PATIENT_MS, "printf '\\377\\376'")
    }),
];

/// Failures in the agent's request.
const AGENT: &[(&str, FailureCase)] = &[
    ("the agent says nothing", |lab, dialect| lab.started(dialect, "exec \"$@\"", b"")),
    ("the agent says something that is no JSON", |lab, dialect| {
        lab.started(dialect, "exec \"$@\"", b"{\"hook_event_name\": ")
    }),
    ("the agent says something that is no text", |lab, dialect| {
        lab.started(dialect, "exec \"$@\"", b"\xff\xfe\x00")
    }),
    ("the agent names no tool", |lab, dialect| {
        lab.started(dialect, "exec \"$@\"", b"{\"hook_event_name\":\"PreToolUse\",\"event\":\"PreToolUse\"}")
    }),
    ("the agent names an event that nobody knows", |lab, dialect| {
        let said = b"{\"hook_event_name\":\"X\",\"event\":\"X\",\"tool_name\":\"Bash\"}";
        lab.started(dialect, "exec \"$@\"", said)
    }),
    ("the agent never ends what it says", |lab, dialect| {
        let mut hook = lab.stand.hook(dialect, SHORT_MS);
        let mut child =
            hook.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut held = child.stdin.take().unwrap();
        held.write_all(b"{").unwrap();
        let told = ended(child);
        drop(held);
        told
    }),
];

/// Failures of the machine around the hook and of the program behind it.
const MACHINE: &[(&str, FailureCase)] = &[
    // An allow that prints nothing needs no standard output. So these cases lead to an allow that prints, or to a deny.
    ("standard output is closed", |lab, dialect| {
        lab.started(dialect, "exec \"$@\" >&-", &lab.said_of(dialect, "cat .env"))
    }),
    ("standard output is full", |lab, dialect| {
        lab.started(dialect, "exec \"$@\" >/dev/full", &lab.said_of(dialect, "cat .env"))
    }),
    ("the disk is full: no file may grow", |lab, dialect| {
        lab.started(dialect, "ulimit -f 0; trap '' XFSZ; exec \"$@\"", &lab.said(dialect))
    }),
    ("the disk is full, and the program dies of it", |lab, dialect| {
        lab.started(dialect, "ulimit -f 0; exec \"$@\"", &lab.said(dialect))
    }),
    ("the state directory cannot be written", |lab, dialect| {
        let mut hook = lab.stand.hook(dialect, PATIENT_MS);
        hook.args(["--state", "/proc/nowhere"]);
        ended(start(hook, &lab.said(dialect)))
    }),
];

const KILLED: &str = "the gate is killed while a person is asked";
const SETTINGS: &str = "the settings do not load";

fn reply(answer: &str, program: &str) -> String {
    format!("{{\"protocol\":1,\"program\":\"{program}\",\"answer\":{answer}}}\n")
}

struct FailureFixture {
    stand: HookFixture,
    cwd: String,
}

impl FailureFixture {
    fn new() -> Self {
        let stand = HookFixture::new();
        let cwd = stand.desk.world.workspace().to_str().unwrap().to_owned();
        Self { stand, cwd }
    }

    /// Returns a harmless call, which a working gate allows.
    fn said(&self, dialect: AgentKind) -> Vec<u8> {
        self.said_of(dialect, "ls")
    }

    /// Returns a call with this command.
    fn said_of(&self, dialect: AgentKind, command: &str) -> Vec<u8> {
        let input = json!({ "command": command });
        said(dialect, &self.cwd, tools(dialect).0, &input, None).to_string().into_bytes()
    }

    /// Runs the hook with a gate that behaves like this, and without a program to judge.
    fn with_gate(&self, dialect: AgentKind, timeout_ms: u64, mischief: FakeGateBehavior) -> Output {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        let socket = place.path().join("hook.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        fs::set_permissions(&socket, Permissions::from_mode(0o777)).unwrap();
        std::thread::spawn(move || {
            if let Ok((stream, _)) = listener.accept() {
                mischief(stream);
            }
        });
        let mut hook = self.stand.hook(dialect, timeout_ms);
        hook.arg("--state").arg(place.path()).args(["--program", "/nonexistent/byleave"]);
        ended(start(hook, &self.said(dialect)))
    }

    /// Runs the hook without a gate, with this script as the program that judges.
    fn with_program(&self, dialect: AgentKind, timeout_ms: u64, script: &str) -> Output {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        let program = place.path().join("byleave");
        // Another process writes the file. A child that this process is just starting would hold it open.
        let made = Command::new("sh")
            .args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", script])
            .arg(&program)
            .status()
            .unwrap();
        assert!(made.success());
        let mut hook = self.stand.hook(dialect, timeout_ms);
        hook.arg("--program").arg(&program);
        ended(start(hook, &self.said(dialect)))
    }

    /// Runs the hook with the real program behind it, started by this shell script.
    fn started(&self, dialect: AgentKind, script: &str, input: &[u8]) -> Output {
        let mut command = self.stand.desk.world.command(Path::new("/bin/bash"));
        command.args(["-c", script, "bash"]).arg(&self.stand.hook).arg(dialect.name());
        ended(start(self.stand.desk.by_another(command), input))
    }

    /// Tries each failure in all dialects in parallel. Every one must lead to a deny.
    fn try_all(&self, failures: &[(&str, FailureCase)]) {
        for (what, fails) in failures {
            let told = side_by_side(|dialect| fails(self, dialect));
            for (dialect, told) in AgentKind::ALL.into_iter().zip(&told) {
                assert!(is_denied(dialect, told), "{what}, {}: {told:?}", dialect.name());
            }
        }
    }
}

/// Runs a function for all dialects in parallel.
fn side_by_side(run: impl Fn(AgentKind) -> Output + Sync) -> [Output; AgentKind::ALL.len()] {
    std::thread::scope(|scope| {
        let running = AgentKind::ALL.map(|dialect| {
            scope.spawn({
                let run = &run;
                move || run(dialect)
            })
        });
        running.map(|one| one.join().unwrap())
    })
}

// req: M2
#[test]
fn a_gate_that_fails_is_a_deny_in_every_dialect() {
    FailureFixture::new().try_all(GATE);
}

// req: M2
#[test]
fn a_program_that_fails_to_judge_is_a_deny_in_every_dialect() {
    FailureFixture::new().try_all(PROGRAM);
}

// req: M2
#[test]
fn what_the_agent_says_wrongly_is_denied_in_every_dialect() {
    FailureFixture::new().try_all(AGENT);
}

// req: M2
#[test]
fn a_call_that_passes_is_denied_in_every_dialect_once_the_machine_fails() {
    let lab = FailureFixture::new();
    for (dialect, told) in AgentKind::ALL
        .into_iter()
        .zip(side_by_side(|dialect| lab.started(dialect, "exec \"$@\"", &lab.said(dialect))))
    {
        assert!(told.status.code() == Some(0) && !is_denied(dialect, &told), "{}: {told:?}", dialect.name());
    }
    lab.try_all(MACHINE);
    let own = lab.stand.desk.world.workspace().parent().unwrap().join(".config/byleave");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("config.toml"), "mode = nonsense").unwrap();
    lab.try_all(&[(SETTINGS, |lab, dialect| lab.started(dialect, "exec \"$@\"", &lab.said(dialect)))]);
}

// req: M2
#[test]
fn a_gate_killed_while_a_person_is_asked_is_a_deny_in_every_dialect() {
    let lab = FailureFixture::new();
    for dialect in AgentKind::ALL {
        let mut served = lab.stand.serve();
        let file = format!("killed-{}", dialect.name());
        let input = json!({ "command": format!("touch {file}") });
        let mut asks = said(dialect, &lab.cwd, tools(dialect).0, &input, None);
        for key in ["session_id", "conversation_id", "sessionId"] {
            if asks.get(key).is_some() {
                asks[key] = file.clone().into();
            }
        }
        let hook = start(lab.stand.hook(dialect, PATIENT_MS), asks.to_string().as_bytes());
        super::until("it is asked", || {
            let open = lab.stand.json(&["inbox", "--json"]);
            open.to_string().contains(&file).then_some(())
        });
        served.kill();
        let told = ended(hook);
        assert!(is_denied(dialect, &told), "{KILLED}, {}: {told:?}", dialect.name());
        // The reason is the gate, not the elapsed time.
        let why =
            format!("{}{}", String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
        assert!(why.contains("the gate"), "{}: {why}", dialect.name());
        assert!(!lab.stand.file(&file).exists());
    }
}

// req: M2
#[test]
fn the_page_has_every_failure_that_is_tried() {
    let tried = [GATE, PROGRAM, AGENT, MACHINE].into_iter().flatten().map(|(what, _)| *what);
    page::check(&tried.chain([KILLED, SETTINGS]).collect::<Vec<_>>());
}
