//! Sessions: many commands in one sandbox, each with its own processes only.

use std::fs;
use std::time::Duration;

use byleave_sandbox::launch::{CommandOutcome, CommandStatus, RunAs, SandboxSession};

use crate::launch::{bash, confinement, text};
use byleave_testkit::user::unprivileged;

fn run(session: &SandboxSession, script: &str) -> CommandOutcome {
    let running = session.start(&bash(script)).unwrap_or_else(|error| panic!("{error}"));
    running.finish().unwrap_or_else(|error| panic!("{error}"))
}

fn seen(session: &SandboxSession, script: &str) -> String {
    let outcome = run(session, script);
    text(&outcome.stdout) + &text(&outcome.stderr)
}

// req: E2
#[test]
fn commands_of_a_session_share_a_place_and_no_processes() {
    if !unprivileged("session::commands_of_a_session_share_a_place_and_no_processes") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let session = SandboxSession::open(confinement(workspace.path()), RunAs::Caller, 0)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(run(&session, "exit 7").status, CommandStatus::Exited(7));
    // Lists the numbers instead of counting them, because `wc` may begin after `ls` has looked.
    assert_eq!(seen(&session, "echo $$; cd /proc; echo [0-9]*"), "2\n1 2\n", "init and bash");
    assert_eq!(seen(&session, "echo kept > /tmp/kept; ls /proc/self/fd"), "0\n1\n2\n3\n");
    assert_eq!(
        seen(&session, "cat /tmp/kept; cat /proc/1/environ | wc -c"),
        "kept\n0\ncat: /proc/1/environ: Permission denied\n"
    );
    // The server of one command is available to another while it runs, and ends with its command.
    let server = "python3 -c 'import socket\ns = socket.create_server((\"127.0.0.1\", 7000))\nopen(\"up\", \"w\").close()\nwhile True: s.accept()[0].send(b\"served\")'";
    let server = session.start(&bash(server)).unwrap();
    let client = "until [ -e up ]; do :; done; exec 3<>/dev/tcp/127.0.0.1/7000; head -c 6 <&3";
    assert_eq!(seen(&session, client), "served");
    drop(server);
    assert_ne!(run(&session, "exec 3<>/dev/tcp/127.0.0.1/7000").status, CommandStatus::Exited(0));
}

// req: E2
#[test]
fn a_place_whose_mask_has_gone_stale_is_made_anew() {
    if !unprivileged("session::a_place_whose_mask_has_gone_stale_is_made_anew") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let root = workspace.path().canonicalize().unwrap();
    fs::write(root.join(".env"), "SECRET-1").unwrap();
    let mut confinement = confinement(&root);
    confinement.files.hidden.push(root.join(".env"));
    let session = SandboxSession::open(confinement, RunAs::Caller, 0).unwrap();
    assert!(!seen(&session, "cat .env").contains("SECRET"));
    fs::write(root.join("new"), "SECRET-2").unwrap();
    fs::rename(root.join("new"), root.join(".env")).unwrap();
    assert!(!seen(&session, "cat .env").contains("SECRET"), "an editor saved it, and the mask is lifted");
}

// req: E2
#[test]
fn many_commands_leave_nothing_behind() {
    if !unprivileged("session::many_commands_leave_nothing_behind") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let session = SandboxSession::open(confinement(workspace.path()), RunAs::Caller, 2).unwrap();
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    run(&session, "true");
    let before = open();
    for _ in 0..200 {
        assert_eq!(run(&session, "sleep 4444 & true").status, CommandStatus::Exited(0));
    }
    // Mounts are released in the background, a few at a time.
    let began = std::time::Instant::now();
    while open() > before {
        assert!(began.elapsed() < Duration::from_secs(120), "{} descriptors, {before} before", open());
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(!crate::ladder::anything_runs("sleep\u{0}4444"), "a process survived");
    let mut limited = confinement(workspace.path());
    limited.limits.wall_time = Duration::from_millis(300);
    let session = SandboxSession::open(limited, RunAs::Caller, 0).unwrap();
    assert_eq!(run(&session, "sleep 4444").status, CommandStatus::Signalled(9));
    // The limit applies to this one as well, so a slow machine may need more than one try.
    assert!((0..100).any(|_| run(&session, "echo on").status == CommandStatus::Exited(0)));
}
