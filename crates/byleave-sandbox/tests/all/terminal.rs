//! A command with its own terminal, created inside.
//!
//! Needs python3.

use std::fs::File;
use std::io::{Read as _, Write as _};

use byleave_sandbox::launch::{self, CommandOutcome, CommandStatus, RunAs, RunningCommand, SandboxSession};
use byleave_sandbox::plan::{CommandSpec, TerminalSize};

use crate::launch::{bash, confinement, text};
use crate::online::{ALL, LaunchMethod};
use byleave_testkit::user::unprivileged;

const SIZE: TerminalSize = TerminalSize { rows: 33, columns: 121 };

fn with_terminal(script: &str) -> CommandSpec {
    CommandSpec { terminal: Some(SIZE), ..bash(script) }
}

fn start(
    means: LaunchMethod,
    workspace: &std::path::Path,
    command: &CommandSpec,
) -> (RunningCommand, Option<SandboxSession>) {
    let confinement = confinement(workspace);
    let session = match means {
        LaunchMethod::OneShot => None,
        LaunchMethod::Session => Some(SandboxSession::open(confinement.clone(), RunAs::Caller, 0).unwrap()),
        LaunchMethod::Pool => Some(SandboxSession::open(confinement.clone(), RunAs::Caller, 2).unwrap()),
    };
    let running = match &session {
        Some(session) => session.start(command),
        None => launch::start(&confinement, command, RunAs::Caller),
    };
    (running.unwrap_or_else(|error| panic!("{error}")), session)
}

fn run(means: LaunchMethod, command: &CommandSpec) -> CommandOutcome {
    let workspace = tempfile::tempdir().unwrap();
    let (running, _session) = start(means, workspace.path(), command);
    running.finish().unwrap_or_else(|error| panic!("{error}"))
}

// req: E2
#[test]
fn a_terminal_is_the_commands_own_and_has_the_size_that_was_asked_for() {
    if !unprivileged("terminal::a_terminal_is_the_commands_own_and_has_the_size_that_was_asked_for") {
        return;
    }
    for means in ALL {
        let script = "tty; stty size; [ -t 0 -a -t 1 -a -t 2 ] && echo all; echo err >&2; ls -1 /dev/pts /proc/self/fd; \
            echo to-it > /dev/tty; exit 7";
        let outcome = run(means, &with_terminal(script));
        assert_eq!(outcome.status, CommandStatus::Exited(7), "{means:?}");
        let shown = text(&outcome.stdout).replace('\r', "");
        let wanted =
            "/dev/pts/0\n33 121\nall\nerr\n/dev/pts:\n0\nptmx\n\n/proc/self/fd:\n0\n1\n2\n3\nto-it\n";
        assert_eq!((shown.as_str(), text(&outcome.stderr).as_str()), (wanted, ""), "{means:?}");
        // Without a terminal there is none, not even as `/dev/tty`.
        let outcome = run(means, &bash("tty; ls /dev/pts; true < /dev/tty"));
        assert_eq!(text(&outcome.stdout), "not a tty\nptmx\n", "{means:?}");
        assert!(text(&outcome.stderr).contains("/dev/tty: No such device"), "{outcome:?}");
    }
}

// req: E2
#[test]
fn what_is_typed_has_an_end() {
    if !unprivileged("terminal::what_is_typed_has_an_end") {
        return;
    }
    for (typed, shown) in [("hi\n", "hi\nhi\n"), ("", ""), ("half", "halfhalf")] {
        let cat = CommandSpec { stdin: typed.into(), ..with_terminal("cat") };
        let outcome = run(LaunchMethod::OneShot, &cat);
        assert_eq!(
            (outcome.status, text(&outcome.stdout).replace('\r', "").as_str()),
            (CommandStatus::Exited(0), shown)
        );
    }
    // More than fits into the terminal's buffer, in both directions.
    let many = "0123456789\n".repeat(20_000);
    let count = CommandSpec { stdin: many.clone().into(), ..with_terminal("stty -echo; touch ready; wc -l") };
    assert!(text(&run(LaunchMethod::OneShot, &count).stdout).trim_end().ends_with("20000"));
    let flood = run(LaunchMethod::OneShot, &with_terminal("yes 0123456789 | head -n 20000"));
    assert_eq!(text(&flood.stdout).replace('\r', ""), many);
}

// req: E2
#[test]
fn nobody_types_into_a_terminal_from_inside_and_no_other_command_finds_it() {
    if !unprivileged("terminal::nobody_types_into_a_terminal_from_inside_and_no_other_command_finds_it") {
        return;
    }
    let tricks = "python3 -c '
import fcntl
for trick in [0x5412, 0x541c, 0x541d, 0x5423]:
    try:
        fcntl.ioctl(0, trick, b\"x\"); print(\"done\", trick)
    except PermissionError: print(\"refused\")
'";
    for means in ALL {
        let shown = text(&run(means, &with_terminal(tricks)).stdout).replace('\r', "");
        assert_eq!(shown, "refused\n".repeat(4), "{means:?}");
    }
    let workspace = tempfile::tempdir().unwrap();
    for means in [LaunchMethod::Session, LaunchMethod::Pool] {
        let (first, session) = start(
            means,
            workspace.path(),
            &with_terminal("touch up; until [ -e done ]; do sleep 0.01; done; tty"),
        );
        let session = session.unwrap();
        let look = "until [ -e up ]; do sleep 0.01; done; ls /dev/pts; echo forged > /dev/pts/0; touch done";
        let second = session.start(&bash(look)).unwrap().finish().unwrap();
        assert_eq!(text(&second.stdout), "ptmx\n", "{means:?}");
        assert_eq!(text(&first.finish().unwrap().stdout), "/dev/pts/0\r\n");
        std::fs::remove_file(workspace.path().join("up")).unwrap();
        std::fs::remove_file(workspace.path().join("done")).unwrap();
    }
}

// req: E2
#[test]
fn a_person_can_sit_before_a_terminal_and_hang_up() {
    if !unprivileged("terminal::a_person_can_sit_before_a_terminal_and_hang_up") {
        return;
    }
    for means in ALL {
        let workspace = tempfile::tempdir().unwrap();
        let shell = CommandSpec {
            argv: ["bash", "--norc", "--noprofile", "-i"].map(Into::into).to_vec(),
            terminal: Some(SIZE),
            ..CommandSpec::default()
        };
        let (mut running, _session) = start(means, workspace.path(), &shell);
        let mut terminal = File::from(running.take_terminal().unwrap().unwrap());
        assert!(running.take_terminal().unwrap().is_none());
        let mut until = |typed: &str, wanted: &str| {
            terminal.write_all(typed.as_bytes()).unwrap();
            let (mut shown, mut part) = (String::new(), [0; 1024]);
            while !shown.contains(wanted) {
                let read =
                    terminal.read(&mut part).unwrap_or_else(|error| panic!("{means:?} {error} {shown}"));
                shown.push_str(&String::from_utf8_lossy(&part[..read]));
            }
        };
        until("echo $((6*7))\n", "\n42\r\n");
        // Input reaches the foreground process, and can interrupt it.
        until("echo in-front > shown; tail -f shown\n", "\nin-front\r\n");
        until("\u{3}echo $?-\n", "130-\r\n");
        until("exit 3\n", "exit\r\n");
        let outcome = running.finish().unwrap();
        assert_eq!(
            (outcome.status, text(&outcome.stdout)),
            (CommandStatus::Exited(3), String::new()),
            "{means:?}"
        );
        let (mut running, _session) =
            start(means, workspace.path(), &with_terminal("echo up; exec sleep 4545"));
        let mut terminal = File::from(running.take_terminal().unwrap().unwrap());
        terminal.read_exact(&mut [0; 4]).unwrap();
        drop(terminal);
        assert_eq!(running.finish().unwrap().status, CommandStatus::Signalled(1), "{means:?}");
    }
}
