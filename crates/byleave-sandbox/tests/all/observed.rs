//! Observations for a rehearsal apart from files: processes left running, and attempted network access.

use byleave_sandbox::confinement::Network;
use byleave_sandbox::launch::{self, CommandOutcome, CommandStatus, NetworkBridge, RunAs};
use byleave_sandbox::net::egress::Egress;

use crate::launch::{bash, confinement, text};
use crate::online::lines;
use crate::ways::ways;
use byleave_testkit::user::unprivileged;

// req: E5
#[test]
fn who_is_left_running_is_counted_and_killed() {
    if !unprivileged("observed::who_is_left_running_is_counted_and_killed") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let confinement = confinement(workspace.path());
    for (script, survivors) in [
        ("true", 0),
        ("sleep 0 & wait; (true); true | cat; for i in 1 2 3; do true & done; wait", 0),
        ("sleep 5151 & exit 3", 1),
        ("for i in 1 2 3; do setsid sleep 5151 >/dev/null 2>&1 & done", 3),
        // Its parent has exited, and it has its own child.
        (
            "(setsid bash -c 'trap \"\" TERM HUP; sleep 5151 & : > up; wait' &); until [ -e up ]; do :; done; rm up",
            2,
        ),
        // It writes as long as it lives.
        ("bash -c 'while :; do echo >> late; done' & until [ -s late ]; do :; done", 1),
    ] {
        for (way, run) in ways(&confinement) {
            let outcome = run(script);
            // A process that waits for its child while it is killed may be counted once for both.
            assert_eq!(outcome.survivors == 0, survivors == 0, "{script}, {way}: {outcome:?}");
            assert!(outcome.survivors <= survivors, "{script}, {way}: {outcome:?}");
            assert!(matches!(outcome.status, CommandStatus::Exited(_)), "{script}, {way}");
            assert!(!crate::ladder::anything_runs("sleep\u{0}5151"), "{script}, {way}");
        }
    }
}

/// Connections to addresses, each by other means.
const RAW: [&str; 8] = [
    "s.socket(s.AF_INET, s.SOCK_STREAM).connect(('192.0.2.1', 80))",
    "s.socket(s.AF_INET, s.SOCK_STREAM).connect(('10.1.2.3', 5432))",
    "s.socket(s.AF_INET, s.SOCK_STREAM).connect(('169.254.169.254', 80))",
    "s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
    "s.socket(s.AF_INET, s.SOCK_DGRAM).connect(('192.0.2.1', 53))",
    "s.socket(s.AF_INET6, s.SOCK_STREAM).connect(('2001:db8::1', 80))",
    "s.socket(s.AF_INET6, s.SOCK_DGRAM).sendto(b'x', ('2001:db8::1', 53))",
    "s.socket(s.AF_INET6, s.SOCK_STREAM).connect(('::ffff:192.0.2.1', 80))",
];

const OWN: [&str; 4] = [
    "true; ls -l / >/dev/null; git init -q . ; git status >/dev/null; id >/dev/null",
    // Connections to itself.
    "python3 -c '
import socket as s
for family, host in [(s.AF_INET, \"127.0.0.1\"), (s.AF_INET6, \"::1\")]:
    listening = s.socket(family); listening.bind((host, 0)); listening.listen()
    s.socket(family).connect(listening.getsockname())
    message = s.socket(family, s.SOCK_DGRAM); message.bind((host, 0))
    s.socket(family, s.SOCK_DGRAM).sendto(b\"x\", message.getsockname())
'",
    "python3 -c 'import socket as s; s.getaddrinfo(\"localhost\", 80)'",
    "python3 -c '
import socket as s
a = s.socket(s.AF_UNIX); a.bind(\"own\"); a.listen(); s.socket(s.AF_UNIX).connect(\"own\")'; rm own",
];

// req: E5
#[test]
fn what_goes_where_no_way_leads_is_counted() {
    if !unprivileged("observed::what_goes_where_no_way_leads_is_counted") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let uplink = NetworkBridge::new().unwrap();
    for network in [Network::Off, Network::Proxied] {
        let mut confinement = confinement(workspace.path());
        confinement.network = network.clone();
        let run = |script: &str| -> CommandOutcome {
            let started = launch::start_with_network(
                &confinement,
                &bash(script),
                RunAs::Caller,
                &uplink,
                Egress::deny_all(),
            );
            started.unwrap_or_else(|error| panic!("{error}")).finish().unwrap()
        };
        for own in OWN {
            let outcome = run(own);
            assert_eq!(
                (outcome.unrouted_count, outcome.status),
                (Some(0), CommandStatus::Exited(0)),
                "{own}: {outcome:?}"
            );
            assert!(outcome.network.decisions.is_empty(), "{own}: {outcome:?}");
        }
        for raw in RAW {
            let outcome = run(&format!("python3 -c \"import socket as s; {raw}\""));
            assert!(text(&outcome.stderr).contains("nreachable"), "{raw}: {outcome:?}");
            assert_eq!(outcome.unrouted_count, Some(1), "{network:?}, {raw}: {outcome:?}");
        }
        // Also by a process that is left running, and if the command reports no failure.
        let outcome = run("for i in 1 2 3; do : 2>/dev/null > /dev/tcp/192.0.2.1/80; done; true");
        assert_eq!((outcome.unrouted_count, outcome.status), (Some(3), CommandStatus::Exited(0)));
    }
    // In a session it is not known which command it was.
    let confinement = confinement(workspace.path());
    for (way, run) in ways(&confinement).into_iter().skip(1) {
        assert_eq!(run(": > /dev/tcp/192.0.2.1/80").unrouted_count, None, "{way}");
    }
}

// req: E5
#[test]
fn a_closed_door_lets_nothing_out_and_says_what_was_wanted() {
    if !unprivileged("observed::a_closed_door_lets_nothing_out_and_says_what_was_wanted") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let uplink = NetworkBridge::new().unwrap();
    let mut confinement = confinement(workspace.path());
    confinement.network = Network::Proxied;
    let wanted = |script: &str| -> Vec<String> {
        let started = launch::start_with_network(
            &confinement,
            &bash(script),
            RunAs::Caller,
            &uplink,
            Egress::deny_all(),
        );
        let outcome = started.unwrap_or_else(|error| panic!("{error}")).finish().unwrap();
        let ports = outcome.network.decisions.iter().map(|one| one.port.to_string());
        lines(&outcome).into_iter().zip(ports).map(|(line, port)| format!("{line} {port}")).collect()
    };
    // A lookup alone, which could exfiltrate data.
    let lookup = "python3 -c 'import socket; socket.gethostbyname(\"secret.example.org\")'";
    assert_eq!(wanted(lookup), ["lookup secret.example.org refused 0"]);
    assert_eq!(wanted("curl -s https://example.org/"), ["connect example.org refused 443"]);
    assert_eq!(
        wanted("curl -s --noproxy '*' https://example.org/; curl -s --noproxy '*' http://127.0.0.1:9/"),
        ["lookup example.org refused 0", "transparent example.org refused 443"]
    );
    assert_eq!(wanted("true; echo hello > file"), [""; 0]);
}
