//! The cost of the proxy: a connection with one request, direct and proxied, interleaved in one run.
//!
//! `CARGO_PROFILE_DEV_OPT_LEVEL=3 cargo test -p byleave-sandbox --test all -- --ignored net::cost --nocapture`

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::world::{FakeHostPolicy, FakeHttpServer, ProxyFixture, door};

const ROUNDS: usize = 2_000;

#[derive(Clone, Copy, Debug)]
enum ProxyMethod {
    Direct,
    Http,
    Connect,
    Socks,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures"]
async fn a_proxied_connection_against_a_direct_one() {
    let server = FakeHttpServer::hello().await;
    let proxy = ProxyFixture::before(door(FakeHostPolicy::granting(&["a.example"])));
    let ways = [ProxyMethod::Direct, ProxyMethod::Http, ProxyMethod::Connect, ProxyMethod::Socks];
    let mut times: Vec<Vec<Duration>> = ways.iter().map(|_| Vec::with_capacity(ROUNDS)).collect();
    for round in 0..ROUNDS + 100 {
        for (way, times) in ways.iter().zip(&mut times) {
            let begun = Instant::now();
            one(*way, &proxy, server.port).await;
            if round >= 100 {
                times.push(begun.elapsed());
            }
        }
    }
    let middle = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let middles: Vec<Duration> = times.iter_mut().map(middle).collect();
    for (way, middle) in ways.iter().zip(&middles) {
        let more = middle.saturating_sub(middles[0]);
        println!("{way:?}: p50 {:.3} ms, +{:.3} ms", middle.as_secs_f64() * 1e3, more.as_secs_f64() * 1e3);
    }
    let limit = Duration::from_micros(300);
    assert!(middles.iter().all(|middle| middle.saturating_sub(middles[0]) <= limit), "{middles:?}");
}

async fn one(by: ProxyMethod, proxy: &ProxyFixture, port: u16) {
    let to = if matches!(by, ProxyMethod::Direct) { ([127, 0, 0, 1], port).into() } else { proxy.at };
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut target = "/".to_owned();
    match by {
        ProxyMethod::Direct => {}
        ProxyMethod::Http => target = format!("http://a.example:{port}/"),
        ProxyMethod::Connect => {
            stream.write_all(format!("CONNECT a.example:{port} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
            stream.read_exact(&mut [0; 39]).await.unwrap();
        }
        ProxyMethod::Socks => {
            stream
                .write_all(&[&[5, 1, 0, 5, 1, 0, 3, 9][..], b"a.example", &port.to_be_bytes()].concat())
                .await
                .unwrap();
            stream.read_exact(&mut [0; 12]).await.unwrap();
        }
    }
    stream
        .write_all(format!("GET {target} HTTP/1.1\r\nHost: a.example:{port}\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut all = Vec::new();
    while !all.ends_with(b"hello\n") {
        assert_ne!(stream.read_buf(&mut all).await.unwrap(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures"]
async fn bytes_through_a_tunnel_against_bytes_straight() {
    const TOTAL: usize = 1 << 30;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let part = vec![0; 256 << 10];
        while let Ok((mut stream, _)) = listener.accept().await {
            for _ in 0..TOTAL / part.len() {
                stream.write_all(&part).await.unwrap();
            }
        }
    });
    let proxy = ProxyFixture::before(door(FakeHostPolicy::granting(&["a.example"])));
    for round in 0..3 {
        for direct in [true, false] {
            let mut stream = if direct {
                TcpStream::connect(("127.0.0.1", port)).await.unwrap()
            } else {
                proxy.tunnel("a.example", port).await
            };
            let begun = Instant::now();
            let (mut part, mut left) = (vec![0; 256 << 10], TOTAL);
            while left > 0 {
                left -= stream.read(&mut part).await.unwrap();
            }
            let rate = TOTAL as f64 / 1e6 / begun.elapsed().as_secs_f64();
            println!(
                "round {round}, {}: {rate:.0} MB/s",
                if direct { "straight" } else { "through a tunnel" }
            );
        }
    }
}
