//! Ports of this machine: one that a rule or a person opened works from inside, no other does, and the server of a job is reached from
//! outside.
//!
//! Needs curl and python3.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use byleave_gate::core::call::Mode;
use byleave_gate::core::refusal::Code;
use serde_json::json;

use crate::attacks::as_user;
use crate::bashing::soon;
use crate::world::{ToolTestWorld, yes};

/// A service on the loopback of this machine that greets every connection.
struct LocalService {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl LocalService {
    fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// Speaks first, and no HTTP, as a database would.
    fn on(listener: TcpListener) -> Self {
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&connections);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                let mut stream = stream.unwrap();
                let mut word = [0; 5];
                stream.write_all(b"ready").unwrap();
                if stream.read_exact(&mut word).is_ok() {
                    stream.write_all(&[b"heard ", &word[..]].concat()).unwrap();
                }
            }
        });
        Self { port, connections }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// A script that connects to these addresses, and prints what each said.
fn client(addresses: &[(&str, u16)]) -> String {
    let tries: String = addresses.iter().map(|(host, port)| format!("say({host:?}, {port})\n")).collect();
    format!(
        "import socket\n\
         def say(host, port):\n  \
           try:\n    \
             s = socket.create_connection((host, port), timeout=20)\n    \
             first = s.recv(5)\n    \
             s.sendall(b'hello')\n    \
             print(host, first.decode(), s.recv(11).decode())\n  \
           except OSError as e: print(host, 'failed')\n\
         {tries}"
    )
}

fn rule(verdict: &str, reach: &str) -> String {
    format!(
        "[[rule]]\nid = \"local\"\nverdict = \"{verdict}\"\nreach = \"{reach}\"\nreason = \"a service\"\n"
    )
}

// req: E7
#[test]
fn a_rule_opens_one_port_of_this_machine_to_programs_that_know_no_proxy() {
    as_user("local_ports::a_rule_opens_one_port_of_this_machine_to_programs_that_know_no_proxy", async {
        let (open, closed) = (LocalService::start(), LocalService::start());
        let world =
            ToolTestWorld::with(&rule("allow", &format!("localhost:{}", open.port)), Default::default());
        world.write(
            "client.py",
            &client(&[
                ("localhost", open.port),
                ("127.0.0.1", open.port),
                ("::1", open.port),
                ("localhost", closed.port),
                ("127.0.0.2", open.port),
            ]),
        );
        let played = world.bash("python3 client.py", &[yes()]).await;
        let text = played.text();
        let lines: Vec<&str> = text.lines().take(4).collect();
        assert_eq!(
            lines,
            [
                "localhost ready heard hello",
                "127.0.0.1 ready heard hello",
                "::1 ready heard hello",
                "localhost failed",
            ],
            "{text}"
        );
        assert!(!text.contains("127.0.0.2 ready"), "another address of the loopback: {text}");
        assert_eq!(closed.connections(), 0, "a port that nobody opened was connected to");
    });
}

// req: E7
#[test]
fn a_question_about_a_port_names_the_program_and_a_yes_is_for_that_program() {
    as_user("local_ports::a_question_about_a_port_names_the_program_and_a_yes_is_for_that_program", async {
        let open = LocalService::start();
        let world = ToolTestWorld::new();
        let command = format!("exec 3<>/dev/tcp/localhost/{}; head -c 5 <&3", open.port);
        let played = world.bash(&command, &[yes()]).await;
        let [question] = played.asked.as_slice() else { panic!("{:?}", played.asked) };
        let bound = question.plan.bindings.iter().find_map(|bound| bound.local_port()).unwrap();
        let own = std::env::current_exe().unwrap();
        assert_eq!(bound.0, open.port);
        assert!(bound.1.starts_with(own.to_str().unwrap()), "{bound:?}");
        assert!(played.text().contains("ready"), "{}", played.text());
        // Nothing listens when the person is asked. Another program takes the port before the call runs.
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        world.meanwhile(move || {
            LocalService::on(TcpListener::bind((Ipv4Addr::LOCALHOST, free)).unwrap());
        });
        let command = format!("exec 3<>/dev/tcp/localhost/{free}; head -c 5 <&3");
        let played = world.bash(&command, &[yes()]).await;
        assert_eq!(played.asked.len(), 1);
        assert_eq!(
            played.result.outcome.refusal().map(|refusal| refusal.code),
            Some(Code::ContentChanged),
            "{:?}",
            played.result
        );
    });
}

// req: E7
#[test]
fn a_port_by_which_programs_are_controlled_is_denied_before_anybody_is_asked() {
    as_user(
        "local_ports::a_port_by_which_programs_are_controlled_is_denied_before_anybody_is_asked",
        async {
            let world = ToolTestWorld::new();
            for host in ["localhost:2375", "127.0.0.1:9229", "[::1]:9222", "127.1:2375"] {
                let played = world.bash(&format!("curl -s 'http://{host}/'"), &[yes()]).await;
                assert!(
                    played.asked.is_empty() && !played.result.is_success(),
                    "{host}: {:?}",
                    played.result
                );
                assert!(played.text().contains("nothing can open"), "{host}: {}", played.text());
            }
        },
    );
}

/// A server that answers every request with the same words.
const SERVER: &str = "import http.server, socketserver, sys\n\
    class H(http.server.BaseHTTPRequestHandler):\n  \
      def do_GET(self):\n    \
        self.send_response(200); self.end_headers(); self.wfile.write(b'served inside')\n  \
      def log_message(self, *a): pass\n\
    socketserver.TCPServer.allow_reuse_address = True\n\
    socketserver.ThreadingTCPServer((sys.argv[1], int(sys.argv[2])), H).serve_forever()\n";

fn get(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a job and reads its messages until one contains this text.
async fn serve(world: &ToolTestWorld, arguments: serde_json::Value, until: &str) -> String {
    let played = world.call("bash", arguments, &[yes()], Mode::ConfirmSensitive).await;
    assert!(played.result.is_success(), "{:?}", played.result);
    let job = played.result.to_report().data.unwrap()["job"].as_str().unwrap().to_owned();
    let mut heard = String::new();
    for _ in 0..20 {
        let asked = json!({"job": job, "wait_ms": 20_000});
        let read = world.call("bash_output", asked, &[], Mode::ConfirmSensitive).await;
        heard.push_str(&read.text());
        if heard.contains(until) {
            return job;
        }
    }
    panic!("no `{until}` in {heard}");
}

// req: B1, E7
#[test]
fn the_server_of_a_job_is_reached_from_outside_and_by_the_next_command() {
    as_user("local_ports::the_server_of_a_job_is_reached_from_outside_and_by_the_next_command", async {
        for inside in ["127.0.0.1", "0.0.0.0"] {
            let port = free_port();
            let world = ToolTestWorld::with(&rule("allow", &format!("localhost:{port}")), Default::default());
            world.write("server.py", SERVER);
            let command = format!("python3 server.py {inside} {port}");
            let address = format!("http://job-1.localhost:{port}");
            let job = serve(&world, json!({"command": command, "background": true}), &address).await;
            for local in [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), (Ipv6Addr::LOCALHOST, port).into()] {
                // More often than there are sockets, one after the other.
                for _ in 0..40 {
                    assert!(
                        get(local).is_some_and(|text| text.ends_with("served inside")),
                        "{inside} {local}"
                    );
                }
            }
            let next = world.bash(&format!("curl -sm 20 http://localhost:{port}/"), &[yes()]).await;
            assert!(next.text().contains("served inside"), "{}", next.text());
            // Bound on the loopback only.
            let tables = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
            let everywhere = format!("00000000:{port:04X} 00000000:0000 0A");
            assert!(!tables.contains(&everywhere), "bound on every address");
            let killed = world.call("bash_kill", json!({ "job": job }), &[], Mode::ConfirmSensitive).await;
            assert!(killed.result.is_success(), "{:?}", killed.result);
            soon("the port is closed with the job", || get((Ipv4Addr::LOCALHOST, port).into()).is_none());
        }
    });
}

// req: B1, E7
#[test]
fn a_port_of_a_job_that_nobody_opened_stays_closed_and_a_person_can_open_it() {
    as_user("local_ports::a_port_of_a_job_that_nobody_opened_stays_closed_and_a_person_can_open_it", async {
        let port = free_port();
        let world = ToolTestWorld::new();
        world.write("server.py", SERVER);
        let command = format!("python3 server.py 127.0.0.1 {port}");
        let until = format!("reach = \"localhost:{port}\"");
        let job = serve(&world, json!({"command": command, "background": true}), &until).await;
        assert_eq!(get((Ipv4Addr::LOCALHOST, port).into()), None);
        world.call("bash_kill", json!({ "job": job }), &[], Mode::ConfirmSensitive).await;
        let arguments = json!({"command": command, "background": true, "ports": [port]});
        let address = format!("http://job-2.localhost:{port}");
        serve(&world, arguments, &address).await;
        assert!(get((Ipv4Addr::LOCALHOST, port).into()).is_some_and(|text| text.ends_with("served inside")));
        for ports in [json!([80]), json!([2375])] {
            let arguments = json!({"command": command, "background": true, "ports": ports});
            let played = world.call("bash", arguments, &[yes()], Mode::ConfirmSensitive).await;
            assert!(played.asked.is_empty() && !played.result.is_success(), "{:?}", played.result);
        }
    });
}
