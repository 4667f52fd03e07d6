//! The engine run bare: an empty handler of a keyed object, in a process of its own, and who asks for it through the ingress.

use std::net::TcpListener as StdListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::http2;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use restate_sdk::hyper::HyperEndpoint;
use restate_sdk::prelude::*;

const ADDRESS: &str = "BYLEAVE_BARE";
/// About as long as what a call says.
const SAID: &str =
    r#"{"tenant":"local","session":"s1","agent":"bench","tool":"look","arguments":{"path":"src/lib.rs"}}"#;

struct Bare;

#[restate_sdk::object(name = "Bare", journal_retention = "0s", idempotency_retention = "0s")]
impl Bare {
    /// Does nothing.
    #[handler]
    async fn nothing(
        &self,
        _ctx: ObjectContext<'_>,
        _said: Json<serde_json::Value>,
    ) -> HandlerResult<Json<()>> {
        Ok(Json(()))
    }
}

/// Serves the empty handler, if this process was started for that.
pub(crate) fn serve_if_told() -> bool {
    let Ok(address) = std::env::var(ADDRESS) else { return false };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let service = HyperEndpoint::new(Endpoint::builder().bind(Bare).build());
        let listener = tokio::net::TcpListener::bind(&address).await.unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let service = service.clone();
            tokio::spawn(async move {
                let io = TokioIo::new(stream);
                // A connection that ends is the engine's to open again.
                http2::Builder::new(TokioExecutor::new())
                    .serve_connection(io, service)
                    .await
                    .unwrap_or_default();
            });
        }
    })
}

/// The process with the empty handler. Ended when dropped.
pub(crate) struct Served {
    child: Child,
    address: String,
}

impl Served {
    pub(crate) fn start() -> Self {
        let address = StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let program = std::env::current_exe().unwrap();
        let child = Command::new(program).env(ADDRESS, &address).stdout(Stdio::null()).spawn().unwrap();
        Self { child, address }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Asks over HTTP, as the ledger does.
#[derive(Clone)]
pub(crate) struct Asker(Client<HttpConnector, Full<Bytes>>);

impl Asker {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self(Client::builder(TokioExecutor::new()).build(connector))
    }

    /// Has the engine know the empty handler.
    pub(crate) async fn register(&self, admin: &str, served: &Served) {
        let body =
            serde_json::json!({ "uri": format!("http://{}", served.address), "force": true }).to_string();
        for _ in 0..100 {
            if self.post(&format!("http://{admin}/deployments"), body.clone()).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the engine does not take the empty handler");
    }

    /// Asks for the empty handler once, under a key of its own.
    pub(crate) async fn ask(&self, ingress: &str) {
        let key = uuid::Uuid::now_v7();
        self.post(&format!("http://{ingress}/restate/call/Bare/{key}/nothing"), SAID.to_owned())
            .await
            .unwrap();
    }

    async fn post(&self, url: &str, body: String) -> Result<(), String> {
        let request = hyper::Request::post(url).header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let answer = self.0.request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let said = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        if status.is_success() { Ok(()) } else { Err(String::from_utf8_lossy(&said).into_owned()) }
    }

    /// What a page says.
    pub(crate) async fn page(&self, url: &str) -> String {
        let request = hyper::Request::get(url).body(Full::default()).unwrap();
        let answer = self.0.request(request).await.unwrap().into_body().collect().await.unwrap();
        String::from_utf8_lossy(&answer.to_bytes()).into_owned()
    }
}
