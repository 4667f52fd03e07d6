//! A sandbox with a network proxy: from a real command through the sockets inside to a fake host.
//!
//! Needs curl and python3.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use byleave_sandbox::confinement::{Confinement, Network};
use byleave_sandbox::launch::{
    self, CommandOutcome, CommandStatus, LaunchError, NetworkBridge, NetworkServeError, RunAs,
    RunningCommand, SandboxSession,
};
use byleave_sandbox::net::credential::{Credential, CredentialTransport};
use byleave_sandbox::net::egress::Egress;
use byleave_sandbox::net::tls_intercept::TlsInterceptor;
use byleave_sandbox::plan::CommandSpec;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::launch::{bash, confinement, text};
use crate::net::tls::FakeHttpsServer;
use crate::net::world::{FakeHostPolicy, FakeHttpServer, door, door_of};
use byleave_testkit::user::unprivileged;

/// How a command is run: one-shot, in a session, or in a session with prepared processes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LaunchMethod {
    OneShot,
    Session,
    Pool,
}

pub(crate) const ALL: [LaunchMethod; 3] = [LaunchMethod::OneShot, LaunchMethod::Session, LaunchMethod::Pool];

/// A sandbox with a network proxy, and its workspace.
pub(crate) struct NetworkedSandbox {
    workspace: TempDir,
    confinement: Confinement,
    uplink: NetworkBridge,
    session: Option<SandboxSession>,
}

impl NetworkedSandbox {
    pub(crate) fn new(means: LaunchMethod, uplink: NetworkBridge) -> Self {
        let workspace = tempfile::tempdir().unwrap();
        let mut confinement = confinement(workspace.path());
        confinement.network = Network::Proxied;
        confinement.limits.wall_time = Duration::from_secs(60);
        confinement.environment.insert("HTTPS_PROXY".into(), "http://proxy.of.the.host:1".into());
        let open = |parked| {
            SandboxSession::open_with_network(confinement.clone(), RunAs::Caller, parked, uplink.clone())
        };
        let session = match means {
            LaunchMethod::OneShot => None,
            LaunchMethod::Session => Some(open(0)),
            LaunchMethod::Pool => Some(open(2)),
        };
        let session = session.map(|session| session.unwrap_or_else(|error| panic!("{error}")));
        Self { workspace, confinement, uplink, session }
    }

    pub(crate) fn path(&self) -> &Path {
        self.workspace.path()
    }

    pub(crate) fn begin(&self, command: &CommandSpec, door: Egress) -> RunningCommand {
        let started = match &self.session {
            Some(session) => session.start_with_network(command, door),
            None => launch::start_with_network(&self.confinement, command, RunAs::Caller, &self.uplink, door),
        };
        started.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn start(&self, script: &str, door: Egress) -> RunningCommand {
        self.begin(&bash(script), door)
    }

    pub(crate) fn run(&self, script: &str, door: Egress) -> CommandOutcome {
        self.start(script, door).finish().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The output of a script, followed by its errors.
    pub(crate) fn told(&self, script: &str, door: Egress) -> String {
        let outcome = self.run(script, door);
        text(&outcome.stdout) + &text(&outcome.stderr)
    }
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// The decisions, one line each.
pub(crate) fn lines(outcome: &CommandOutcome) -> Vec<String> {
    let given = |given| if given { "given" } else { "refused" };
    let decisions = outcome.network.decisions.iter();
    decisions.map(|one| format!("{} {} {}", one.method, one.host, given(one.is_allowed))).collect()
}

// req: E7
#[test]
fn a_command_reaches_what_was_granted_whichever_way_and_is_told_what_was_not() {
    if !unprivileged("online::a_command_reaches_what_was_granted_whichever_way_and_is_told_what_was_not") {
        return;
    }
    let runtime = runtime();
    let server = runtime.block_on(FakeHttpServer::hello());
    let port = server.port;
    for (means, own) in [
        (LaunchMethod::OneShot, true),
        (LaunchMethod::OneShot, false),
        (LaunchMethod::Session, true),
        (LaunchMethod::Pool, false),
    ] {
        let uplink =
            if own { NetworkBridge::new() } else { NetworkBridge::with_runtime(runtime.handle().clone()) };
        let online = NetworkedSandbox::new(means, uplink.unwrap().with_ports([80, port]));
        let script = format!(
            "get() {{ curl -sS --max-time 50 \"$@\" 2>&1; }}
            get http://a.example:{port}/; get --proxytunnel http://a.example:{port}/; get --noproxy '*' http://a.example:{port}/
            get http://b.example:{port}/; get --noproxy '*' http://b.example:{port}/
            get --noproxy '*' http://198.18.9.9/; get --noproxy '*' http://192.0.2.1/
            cat /etc/resolv.conf; echo x > /etc/resolv.conf; echo $HTTPS_PROXY$NO_PROXY"
        );
        for _ in 0..2 {
            let outcome = online.run(&script, door(FakeHostPolicy::granting(&["a.example"])));
            let told = text(&outcome.stdout);
            let told: Vec<&str> = told.lines().collect();
            assert_eq!(told[..3], ["hello"; 3], "{means:?} {told:?}");
            let refused = format!("blocked by policy: `b.example:{port}` is not allowed: no rule allows it");
            assert_eq!(told[3], refused, "{means:?}");
            assert_eq!(told[4], "curl: (6) Could not resolve host: b.example");
            assert_eq!(
                told[5],
                "blocked by policy: 198.18.9.9 is not the address of a resolved host name; connect by host name"
            );
            assert!(told[6].contains("curl: (7)"), "{told:?}");
            assert_eq!(told[7], "nameserver 127.0.0.1");
            assert!(
                told[8].starts_with("http://") && told[8].ends_with("127.0.0.1:3128localhost,127.0.0.1,::1")
            );
            assert!(text(&outcome.stderr).contains("/etc/resolv.conf: "), "{}", text(&outcome.stderr));
            assert_eq!(
                lines(&outcome),
                [
                    "http a.example given",
                    "connect a.example given",
                    "transparent a.example given",
                    "http b.example refused",
                    "lookup b.example refused",
                    "transparent 198.18.9.9 refused"
                ],
                "{means:?}"
            );
            let given = outcome.network.decisions.first().unwrap();
            assert!(given.sent > 50 && given.received > 40, "{given:?}");
        }
    }
    assert_eq!(server.connections(), 4 * 2 * 3);
}

// req: E7
#[test]
fn what_a_person_grants_for_one_call_is_refused_in_the_next() {
    if !unprivileged("online::what_a_person_grants_for_one_call_is_refused_in_the_next") {
        return;
    }
    let runtime = runtime();
    let server = runtime.block_on(FakeHttpServer::hello());
    for means in ALL {
        let online = NetworkedSandbox::new(means, NetworkBridge::new().unwrap().with_ports([server.port]));
        let script = format!(
            "curl -sS http://b.example:{0}/; curl -sS --noproxy '*' http://b.example:{0}/ || echo closed",
            server.port
        );
        let keeper =
            |says| Arc::new(FakeHostPolicy { asks: vec!["b.example"], says, ..FakeHostPolicy::default() });
        let (yes, no, nobody) =
            (keeper(None), keeper(Some("not today")), Arc::new(FakeHostPolicy::default()));
        assert_eq!(online.told(&script, door_of(Arc::clone(&yes))), "hello\nhello\n");
        let told = online.told(&script, door_of(Arc::clone(&no)));
        assert!(told.contains("is not allowed: not today") && told.contains("closed"), "{means:?} {told}");
        let told = online.told(&script, door_of(nobody));
        assert!(told.contains("no rule allows it") && told.contains("Could not resolve"), "{means:?} {told}");
        for keeper in [yes, no] {
            assert_eq!(*keeper.asked.lock().unwrap(), ["b.example"], "once a call");
        }
    }
}

// req: E7
#[test]
fn commands_at_once_have_their_own_doors_and_what_shows_no_pass_is_nobodys() {
    if !unprivileged("online::commands_at_once_have_their_own_doors_and_what_shows_no_pass_is_nobodys") {
        return;
    }
    let runtime = runtime();
    let server = runtime.block_on(FakeHttpServer::hello());
    for means in [LaunchMethod::Session, LaunchMethod::Pool] {
        let online =
            NetworkedSandbox::new(means, NetworkBridge::new().unwrap().with_ports([80, server.port]));
        let slow = online.start(
            &format!(
                "touch up; until [ -e done ]; do sleep 0.01; done; curl -sS http://a.example:{}/",
                server.port
            ),
            door(FakeHostPolicy::granting(&["a.example"])),
        );
        let script = format!(
            "until [ -e up ]; do sleep 0.01; done; curl -sS http://a.example:{0}/; curl -sS http://b.example:{0}/
            curl -sS --noproxy '*' http://a.example/; curl -sS --noproxy '*' http://b.example/; touch done",
            server.port
        );
        let outcome = online.run(&script, door(FakeHostPolicy::granting(&["b.example"])));
        let told = text(&outcome.stdout);
        assert!(told.contains("`a.example:") && told.contains("hello\n"), "{means:?} {told}");
        assert_eq!(told.matches("it is unknown which of them connects to").count(), 2, "{told}");
        let slow = slow.finish().unwrap();
        assert_eq!(text(&slow.stdout), "hello\n");
        let refused = ["transparent a.example refused", "transparent b.example refused"];
        assert_eq!(lines(&slow), [refused[0], refused[1], "http a.example given"]);
        assert_eq!(
            lines(&outcome),
            ["http a.example refused", "http b.example given", refused[0], refused[1]]
        );
        // If it runs alone again, the access can be attributed to it.
        let alone = format!("curl -sS --noproxy '*' http://b.example:{}/", server.port);
        assert_eq!(online.told(&alone, door(FakeHostPolicy::granting(&["b.example"]))), "hello\n");
        // Without a token, or with the token of a finished call, the proxy refuses.
        let bare = format!(
            "curl -sS -x http://127.0.0.1:3128 http://b.example:{}/ -o /dev/null -w '%{{http_code}}'",
            server.port
        );
        assert_eq!(online.told(&bare, door(FakeHostPolicy::granting(&["b.example"]))), "407");
        online.run("echo $http_proxy > old", door(FakeHostPolicy::default()));
        let old = bare.replace("http://127.0.0.1:3128", "$(cat old)");
        assert_eq!(online.told(&old, door(FakeHostPolicy::granting(&["b.example"]))), "407");
    }
}

// req: E7
#[test]
fn a_credential_is_used_and_never_inside() {
    if !unprivileged("online::a_credential_is_used_and_never_inside") {
        return;
    }
    let runtime = runtime();
    let server = runtime.block_on(FakeHttpsServer::start());
    let interception = Arc::new(TlsInterceptor::towards(server.trusting()).unwrap());
    let port = server.port;
    for means in ALL {
        server.seen.lock().unwrap().clear();
        let uplink =
            NetworkBridge::new().unwrap().with_ports([port]).with_interceptor(Arc::clone(&interception));
        let online = NetworkedSandbox::new(means, uplink);
        let door = || {
            let credential = Credential::new(
                "a.example",
                port,
                CredentialTransport::Tls,
                "Authorization",
                "Bearer hunter2",
            )
            .unwrap();
            door(FakeHostPolicy::granting(&["a.example"]))
                .with_credentials(vec![credential], Some(Arc::clone(&interception)))
                .unwrap()
        };
        let script = format!(
            "curl -sS --max-time 50 https://a.example:{port}/ && curl -sS --noproxy '*' https://a.example:{port}/ &&
            python3 -c 'import urllib.request as u; print(u.urlopen(\"https://a.example:{port}/\").read().decode(), end=\"\")' &&
            grep -c BEGIN $SSL_CERT_FILE | sed 's/^1$/only ours/;s/^[0-9]*$/many/'"
        );
        let outcome = online.run(&script, door());
        let told = text(&outcome.stdout) + &text(&outcome.stderr);
        assert!(told.starts_with("hello\nhello\nhello\n"), "{means:?} {told}");
        let seen = server.seen.lock().unwrap().clone();
        assert_eq!(seen.matches("authorization: Bearer hunter2").count(), 3, "{seen}");
        assert!(
            outcome.network.decisions.iter().all(|one| one.credential && one.is_allowed),
            "{:?}",
            outcome.network
        );
        assert!(!format!("{outcome:?}").contains("hunter2"));
        // Searches everything that can be read inside: variables, processes, their memory, and files that do not
        // belong to the system.
        let search = format!(
            "curl -sS -D head https://a.example:{port}/ > body; export A=b; env; cat head body
            for p in /proc/[0-9]*; do cat $p/environ $p/cmdline $p/mem $p/maps $p/stack; ls -l $p/fd; done 2>&1 | tr '\\0' ' '
            find / -xdev -newer /proc/1 -type f -size -1M -print0 2>/dev/null | xargs -0 cat 2>/dev/null
            cat /dev/byleave/* /tmp/* /dev/shm/* ./* /proc/net/* 2>/dev/null; true"
        );
        let told = online.told(&search, door());
        assert!(told.contains("A=b") && told.contains("hello"), "{told}");
        let secret = ["hunter", "2"].concat();
        assert!(!told.replace(&search, "").contains(&secret), "{means:?}: the credential is inside");
        assert!(!told.contains("PRIVATE KEY"), "{means:?}: the key of the authority is inside");
    }
}

// req: E7
#[test]
fn who_cannot_serve_starts_nothing() {
    if !unprivileged("online::who_cannot_serve_starts_nothing") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let mut confinement = confinement(workspace.path());
    confinement.network = Network::Proxied;
    let touch = bash("touch ran");
    let refused = |error: LaunchError| {
        assert!(matches!(error, LaunchError::Network(_)), "{error}");
        assert!(!workspace.path().join("ran").exists());
        error.to_string()
    };
    assert!(refused(launch::run(&confinement, &touch).unwrap_err()).contains("with a network bridge"));
    refused(SandboxSession::open(confinement.clone(), RunAs::Caller, 0).unwrap_err());
    let one_thread = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(matches!(
        NetworkBridge::with_runtime(one_thread.handle().clone()),
        Err(NetworkServeError::SingleThreadedRuntime)
    ));
    // A runtime without I/O enabled cannot serve.
    let bare = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    assert!(matches!(NetworkBridge::with_runtime(bare.handle().clone()), Err(NetworkServeError::Idle)));
    let start = |uplink: &NetworkBridge, door: Egress| {
        launch::start_with_network(&confinement, &touch, RunAs::Caller, uplink, door).map(drop).unwrap_err()
    };
    // A runtime that has shut down cannot serve either.
    let ended = runtime();
    let uplink = NetworkBridge::with_runtime(ended.handle().clone()).unwrap();
    ended.shutdown_background();
    refused(start(&uplink, door(FakeHostPolicy::default())));
    // Certificates that are not trusted inside.
    let roots =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
    let interception = Some(Arc::new(TlsInterceptor::towards(roots).unwrap()));
    let opening = door(FakeHostPolicy::default()).with_credentials(Vec::new(), interception).unwrap();
    assert!(
        refused(start(&NetworkBridge::new().unwrap(), opening))
            .contains("a certificate authority that the sandbox does not trust")
    );
    // If the network is off, an egress has no effect.
    confinement.network = Network::Off;
    let uplink = NetworkBridge::new().unwrap();
    let curl = bash("curl -sS -x http://127.0.0.1:3128 http://a.example/; env | grep -i proxy");
    let running = launch::start_with_network(
        &confinement,
        &curl,
        RunAs::Caller,
        &uplink,
        door(FakeHostPolicy::granting(&["a.example"])),
    );
    let outcome = running.unwrap().finish().unwrap();
    assert_eq!((outcome.status, text(&outcome.stdout).as_str()), (CommandStatus::Exited(1), ""));
    assert!(text(&outcome.stderr).contains("curl: (7)"), "{outcome:?}");
}

const LINKED: &str = "BYLEAVE_TEST_LINKED";

/// The resolver file is a link into a hidden directory, as with systemd, a dangling link, or missing.
// req: E7
#[test]
fn names_are_looked_up_by_us_wherever_the_machine_keeps_its_resolver() {
    if std::env::var_os(LINKED).is_some() {
        if !unprivileged("online::names_are_looked_up_by_us_wherever_the_machine_keeps_its_resolver") {
            return;
        }
        let runtime = runtime();
        let server = runtime.block_on(FakeHttpServer::hello());
        for means in ALL {
            let online =
                NetworkedSandbox::new(means, NetworkBridge::new().unwrap().with_ports([server.port]));
            let curl = format!("curl -sS --noproxy '*' http://a.example:{}/", server.port);
            assert_eq!(
                online.told(&curl, door(FakeHostPolicy::granting(&["a.example"]))),
                "hello\n",
                "{means:?}"
            );
        }
        return;
    }
    assert!(
        rustix::process::geteuid().is_root(),
        "needs root, to change the resolver in a namespace of its own"
    );
    let script = "set -e; place=$1; shift
        mount -t tmpfs -o mode=755 place $place; mkdir $place/upper $place/work
        mount -t tmpfs -o mode=755 run /run; mkdir -p /run/systemd/resolve; echo nameserver 127.0.0.53 > /run/systemd/resolve/stub-resolv.conf
        mount -t overlay etc -o lowerdir=/etc,upperdir=$place/upper,workdir=$place/work /etc
        for to in ../run/systemd/resolve/stub-resolv.conf ../run/nowhere; do rm -f /etc/resolv.conf; ln -s $to /etc/resolv.conf; \"$@\"; done
        rm /etc/resolv.conf; \"$@\"";
    let place = tempfile::tempdir().unwrap();
    let mut unshare = std::process::Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "bash", "-c", script, "bash"]).arg(place.path());
    unshare.arg(std::env::current_exe().unwrap());
    unshare.args(["--exact", "online::names_are_looked_up_by_us_wherever_the_machine_keeps_its_resolver"]);
    let ended = unshare.env(LINKED, "1").output().unwrap();
    let told = [ended.stdout, ended.stderr].map(|told| String::from_utf8_lossy(&told).into_owned()).concat();
    assert!(ended.status.success() && told.matches("1 passed").count() == 3, "{told}");
}
