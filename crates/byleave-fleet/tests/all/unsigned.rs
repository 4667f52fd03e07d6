//! Whoever reaches the service and is not the engine.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::engine::ingress;

// req: R4
#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_the_engine_is_turned_away() {
    let (host, port) =
        ingress().rsplit_once(':').map(|(host, port)| (host.to_owned(), port.to_owned())).unwrap();
    // As `scripts/fleet` has it: ingress, admin, node, service.
    let service = format!("{host}:{}", port.parse::<u16>().unwrap() + 3);
    let stream = TcpStream::connect(&service).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for path in ["/discover", "/invoke/Call/append", "/invoke/Tenant/act"] {
        for (name, value) in
            [("x-none", "x"), ("x-restate-signature-scheme", "v1"), ("x-restate-jwt-v1", "a.b.c")]
        {
            let request = Request::post(format!("http://{service}{path}"))
                .header("content-type", "application/vnd.restate.invocation.v5")
                .header("accept", "application/vnd.restate.endpointmanifest.v3+json")
                .header(name, value)
                .body(Full::new(Bytes::new()))
                .unwrap();
            let response = sender.send_request(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{path} {name}");
        }
    }
}
