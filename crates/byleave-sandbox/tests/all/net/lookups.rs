//! Lookups: a granted name gets a placeholder address, other names are refused, and no query leaves the
//! machine.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use byleave_sandbox::net::proxy_server::{ProxyServer, ProxySockets, serve};
use byleave_sandbox::net::session_router::SessionRouter;

use super::world::{FakeHostPolicy, FakeResolver, door_of};

const A: u16 = 1;
const AAAA: u16 = 28;
const TXT: u16 = 16;

struct LookupFixture {
    socket: UdpSocket,
    serving: ProxyServer,
    keeper: Arc<FakeHostPolicy>,
    names: Arc<FakeResolver>,
}

fn responder() -> LookupFixture {
    let keeper = Arc::new(FakeHostPolicy {
        granted: vec!["a.example"],
        asks: vec!["ask.example"],
        ..FakeHostPolicy::default()
    });
    let names = Arc::new(FakeResolver::default());
    let door = door_of(Arc::clone(&keeper)).with_resolver(Arc::<FakeResolver>::clone(&names));
    let lookups = UdpSocket::bind("127.0.0.1:0").unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(lookups.local_addr().unwrap()).unwrap();
    let transparent = vec![std::net::TcpListener::bind("127.0.0.1:0").unwrap()];
    let sockets = ProxySockets { lookups: Some(lookups), transparent, ..ProxySockets::default() };
    let serving = serve(sockets, &Arc::default(), SessionRouter::single(Arc::new(door))).unwrap();
    LookupFixture { socket, serving, keeper, names }
}

impl LookupFixture {
    /// Returns the response code and the address.
    fn ask(&self, name: &str, kind: u16) -> (u8, Option<Ipv4Addr>) {
        let mut query = vec![7, 8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            query.push(u8::try_from(label.len()).unwrap());
            query.extend(label.bytes());
        }
        query.push(0);
        query.extend(kind.to_be_bytes());
        query.extend([0, 1]);
        self.socket.send(&query).unwrap();
        let mut answer = [0; 512];
        let mut length = self.socket.recv(&mut answer).unwrap();
        // Skips an answer to an earlier query.
        while answer[..2] != query[..2] {
            length = self.socket.recv(&mut answer).unwrap();
        }
        let address: [u8; 4] = answer[length - 4..length].try_into().unwrap();
        (answer[3] & 15, (answer[7] == 1).then(|| address.into()))
    }
}

// req: E7
#[tokio::test(flavor = "multi_thread")]
async fn a_name_has_an_address_if_it_may_be_reached_and_no_lookup_leaves() {
    let asked = responder();
    let first = Some(Ipv4Addr::new(198, 18, 0, 16));
    assert_eq!(asked.ask("a.example", A), (0, first));
    assert_eq!(asked.ask("A.EXAMPLE", A), (0, first), "the same name, the same address");
    assert_eq!((asked.ask("a.example", AAAA), asked.ask("a.example", TXT)), ((0, None), (0, None)));
    // A name that would be asked about gets an address. The question comes with the connection.
    assert_eq!(asked.ask("ask.example", A), (0, Some(Ipv4Addr::new(198, 18, 0, 17))));
    for (name, code) in [
        ("b.example", 5),
        ("c2VjcmV0.a.example", 5),
        ("a.example.evil.example", 5),
        ("127.0.0.1", 5),
        ("010.0.0.1", 5),
        ("a\\.example", 1),
        ("a example", 1),
    ] {
        assert_eq!(asked.ask(name, A), (code, None), "{name}");
    }
    // Malformed queries get no answer or a short one, and the next query is answered as before.
    for nonsense in
        [&[][..], &[0], &[0xff; 12], &[0; 600], &[1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1]]
    {
        asked.socket.send(nonsense).unwrap();
    }
    assert_eq!(asked.ask("a.example", A), (0, first));
    assert_eq!(
        (asked.names.lookups.load(Ordering::SeqCst), asked.keeper.asked.lock().unwrap().len()),
        (0, 0)
    );
    let refused: Vec<String> = asked.serving.decisions().into_iter().map(|one| one.host).collect();
    assert_eq!(
        refused,
        ["b.example", "c2vjcmv0.a.example", "a.example.evil.example", "127.0.0.1", "010.0.0.1"]
    );
}
