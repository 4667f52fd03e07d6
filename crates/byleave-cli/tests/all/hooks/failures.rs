//! Everything that can go wrong between an agent and the gate: a deny each time, in every dialect.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use byleave_hook::Dialect;
use serde_json::json;

use super::page::{self, Failed};
use super::{Stand, ended, is_denied, said, start, tools};

/// What a gate does that is not one.
type Mischief = fn(UnixStream);

const READS: fn(&UnixStream) = |stream| {
    let mut line = String::new();
    drop(BufReader::new(stream).read_line(&mut line));
};

/// What the gate may do, in words.
const MISCHIEF: &[(&str, Mischief)] = &[
    ("the gate crashes before it has read", drop),
    ("the gate crashes after it has read", |stream| READS(&stream)),
    ("the gate hangs", |stream| {
        READS(&stream);
        std::thread::park_timeout(super::PATIENCE);
        drop(stream);
    }),
    ("the gate talks nonsense", |mut stream| {
        READS(&stream);
        drop(stream.write_all(b"\x00\xff allow yes pass {\"answer\":\n"));
    }),
    ("the gate answers something else", |mut stream| {
        READS(&stream);
        drop(stream.write_all(b"{\"answer\":{\"pass\":{}}}\n"));
    }),
    ("the gate gives no answer", |mut stream| {
        READS(&stream);
        drop(stream.write_all(reply("null", "0.1.0").as_bytes()));
    }),
    ("the gate's answer is cut short", |mut stream| {
        READS(&stream);
        let whole = reply("{\"pass\":{\"note\":null}}", "0.1.0");
        drop(stream.write_all(whole.trim_end().as_bytes()));
    }),
    ("the gate is of another version, and no program is there", |mut stream| {
        READS(&stream);
        drop(stream.write_all(reply("{\"pass\":{\"note\":null}}", "9.9.9").as_bytes()));
    }),
];

fn reply(answer: &str, program: &str) -> String {
    format!("{{\"protocol\":1,\"program\":\"{program}\",\"answer\":{answer}}}\n")
}

struct Lab {
    stand: Stand,
    cwd: String,
}

impl Lab {
    fn new() -> Self {
        let stand = Stand::new();
        let cwd = stand.desk.world.workspace().to_str().unwrap().to_owned();
        Self { stand, cwd }
    }

    /// A harmless call, which a sound gate lets pass.
    fn said(&self, dialect: Dialect) -> Vec<u8> {
        let input = json!({"command": "ls"});
        said(dialect, &self.cwd, tools(dialect).0, &input, None).to_string().into_bytes()
    }

    /// The hook with a gate that does this, and nothing to judge by itself.
    fn with_gate(&self, dialect: Dialect, mischief: Mischief) -> Output {
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
        let mut hook = self.stand.hook(dialect, 900);
        hook.arg("--state").arg(place.path()).args(["--program", "/nonexistent/byleave"]);
        ended(start(hook, &self.said(dialect)))
    }

    /// The hook without a gate, with a program of this text to judge.
    fn with_program(&self, dialect: Dialect, script: &str) -> Output {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        let program = place.path().join("byleave");
        // Written by another process: one of ours that is just being made would hold it open.
        let made = Command::new("sh")
            .args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", script])
            .arg(&program)
            .status()
            .unwrap();
        assert!(made.success());
        let mut hook = self.stand.hook(dialect, 900);
        hook.arg("--program").arg(&program);
        ended(start(hook, &self.said(dialect)))
    }

    /// The hook with the true program behind it, started by a shell that says how.
    fn started(&self, dialect: Dialect, script: &str, input: &[u8]) -> Output {
        let mut command = self.stand.desk.world.command(Path::new("/bin/bash"));
        command.args(["-c", script, "bash"]).arg(&self.stand.hook).arg(dialect.name());
        command.env(super::WAIVE.0, super::WAIVE.1);
        ended(start(self.stand.desk.by_another(command), input))
    }
}

/// How a failure is tried in all dialects.
#[derive(Clone, Copy)]
enum Run<'a> {
    AtOnce(&'a (dyn Fn(Dialect) -> Output + Sync)),
    InTurn(&'a dyn Fn(Dialect) -> Output),
}

// req: M2
#[test]
fn whatever_fails_denies_in_every_dialect() {
    let lab = Lab::new();
    let mut all: Vec<Failed> = Vec::new();
    let mut check = |what: &'static str, run: Run<'_>| {
        let denied = match run {
            Run::InTurn(run) => Dialect::ALL.map(run),
            Run::AtOnce(run) => std::thread::scope(|scope| {
                let running = Dialect::ALL.map(|dialect| scope.spawn(move || run(dialect)));
                running.map(|one| one.join().unwrap())
            }),
        };
        for (dialect, told) in Dialect::ALL.into_iter().zip(&denied) {
            assert!(is_denied(dialect, told), "{what}, {}: {told:?}", dialect.name());
        }
        all.push(Failed { what, denied: denied.map(|_| true) });
    };
    // It would pass.
    for dialect in Dialect::ALL {
        let told = lab.started(dialect, "exec \"$@\"", &lab.said(dialect));
        assert!(told.status.code() == Some(0) && !is_denied(dialect, &told), "{}: {told:?}", dialect.name());
    }
    for (what, mischief) in MISCHIEF {
        check(what, Run::AtOnce(&|dialect| lab.with_gate(dialect, *mischief)));
    }
    for (what, script) in [
        ("no gate, and the program is not there", None),
        ("no gate, and the program crashes", Some("exit 101")),
        ("no gate, and the program is killed", Some("kill -9 $$")),
        ("no gate, and the program hangs", Some("exec sleep 30")),
        ("no gate, and the program denies without a word", Some("exit 2")),
        ("no gate, and the program talks nonsense", Some("printf '\\377\\376'")),
    ] {
        check(
            what,
            Run::AtOnce(&|dialect| match script {
                Some(script) => lab.with_program(dialect, script),
                None => {
                    let mut hook = lab.stand.hook(dialect, 900);
                    hook.args(["--program", "/nonexistent/byleave"]);
                    ended(start(hook, &lab.said(dialect)))
                }
            }),
        );
    }
    for (what, input) in [
        ("the agent says nothing", &b""[..]),
        ("the agent says something that is no JSON", b"{\"hook_event_name\": "),
        ("the agent says something that is no text", b"\xff\xfe\x00"),
        ("the agent names no tool", b"{\"hook_event_name\":\"PreToolUse\",\"event\":\"PreToolUse\"}"),
        (
            "the agent names an event that nobody knows",
            b"{\"hook_event_name\":\"X\",\"event\":\"X\",\"tool_name\":\"Bash\"}",
        ),
    ] {
        check(what, Run::AtOnce(&|dialect| lab.started(dialect, "exec \"$@\"", input)));
    }
    check(
        "the agent never ends what it says",
        Run::AtOnce(&|dialect| {
            let mut hook = lab.stand.hook(dialect, 900);
            let mut child =
                hook.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut held = child.stdin.take().unwrap();
            held.write_all(b"{").unwrap();
            let told = ended(child);
            drop(held);
            told
        }),
    );
    check(
        "standard output is closed",
        Run::AtOnce(&|dialect| {
            // An allow that prints nothing needs none; so it is one that prints, or a deny.
            let asks = said(dialect, &lab.cwd, tools(dialect).0, &json!({"command": "cat .env"}), None);
            lab.started(dialect, "exec \"$@\" >&-", asks.to_string().as_bytes())
        }),
    );
    check(
        "standard output is full",
        Run::AtOnce(&|dialect| {
            let asks = said(dialect, &lab.cwd, tools(dialect).0, &json!({"command": "cat .env"}), None);
            lab.started(dialect, "exec \"$@\" >/dev/full", asks.to_string().as_bytes())
        }),
    );
    check(
        "the disk is full: no file may grow",
        Run::AtOnce(&|dialect| {
            lab.started(dialect, "ulimit -f 0; trap '' XFSZ; exec \"$@\"", &lab.said(dialect))
        }),
    );
    check(
        "the disk is full, and the program dies of it",
        Run::AtOnce(&|dialect| lab.started(dialect, "ulimit -f 0; exec \"$@\"", &lab.said(dialect))),
    );
    check(
        "the state directory cannot be written",
        Run::AtOnce(&|dialect| {
            let mut hook = lab.stand.hook(dialect, 20_000);
            hook.args(["--state", "/proc/nowhere"]);
            ended(start(hook, &lab.said(dialect)))
        }),
    );
    check(
        "the gate is killed while a person is asked",
        Run::InTurn(&|dialect| {
            let mut served = lab.stand.serve();
            let file = format!("killed-{}", dialect.name());
            let asks = said(
                dialect,
                &lab.cwd,
                tools(dialect).0,
                &json!({ "command": format!("touch {file}") }),
                None,
            );
            let mut asks = asks;
            for key in ["session_id", "conversation_id", "sessionId"] {
                if asks.get(key).is_some() {
                    asks[key] = file.clone().into();
                }
            }
            let hook = start(lab.stand.hook(dialect, 30_000), asks.to_string().as_bytes());
            super::until("it is asked", || {
                let open = lab.stand.json(&["inbox", "--json"]);
                open.to_string().contains(&file).then_some(())
            });
            served.kill();
            let told = ended(hook);
            assert!(!lab.stand.file(&file).exists());
            told
        }),
    );
    check(
        "the settings do not load",
        Run::InTurn(&|dialect| {
            let own = lab.stand.desk.world.workspace().parent().unwrap().join(".config/byleave");
            fs::create_dir_all(&own).unwrap();
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(own.join("config.toml"))
                .unwrap();
            file.write_all(b"mode = nonsense").unwrap();
            let told = lab.started(dialect, "exec \"$@\"", &lab.said(dialect));
            fs::remove_file(own.join("config.toml")).unwrap();
            told
        }),
    );
    page::check(&all);
}
