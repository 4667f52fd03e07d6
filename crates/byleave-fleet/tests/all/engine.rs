//! The engine that the tests share. `cargo nextest run` starts it before the first of them, with `scripts/fleet tests`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use byleave_conformance::ledger::LedgerHarness;
use byleave_fleet::{Options, RestateLedger};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::hash_chain::ChainedEntry;
use byleave_gate::core::id::CallId;
use byleave_gate::ledger::{Batch, Ledger, LedgerError};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// Where the engine is, as `scripts/fleet` has written it down in the target directory.
pub(crate) fn ingress() -> String {
    let binary = std::env::current_exe().unwrap();
    let said = match std::env::var_os("BYLEAVE_FLEET_RUN") {
        Some(run) => PathBuf::from(run).join("ingress"),
        // This binary is target/debug/deps/all-….
        None => binary.ancestors().nth(3).expect("a target directory").join("fleet/ingress"),
    };
    let Ok(address) = std::fs::read_to_string(&said) else {
        panic!("there is no engine (nothing at `{}`); start it: scripts/fleet up", said.display())
    };
    address.trim().to_owned()
}

/// How every owner in the tests opens a ledger.
pub(crate) fn options(ingress: &str, name: &str, workers: &Path) -> Options {
    Options {
        ingress: vec![ingress.to_owned()],
        name: name.to_owned(),
        workers: workers.to_owned(),
        master: MASTER.into(),
        patience: Duration::from_secs(20),
        books: None,
    }
}

/// The key that all of these ledgers seal under.
pub(crate) const MASTER: [u8; 32] = [7; 32];

/// The engine's port for administrators: as `scripts/fleet` has it, the one after the ingress.
pub(crate) fn admin(ingress: &str) -> String {
    let (host, port) = ingress.rsplit_once(':').unwrap();
    format!("{host}:{}", port.parse::<u16>().unwrap() + 1)
}

/// What the entity of a call says when it is asked for its record, as it stands on the wire.
pub(crate) async fn load(ingress: &str, ledger: &str, call: CallId) -> String {
    let id = URL_SAFE_NO_PAD.encode(call.as_bytes());
    post(&format!("http://{ingress}/restate/call/Call/{ledger}%2F{id}/load"), "null").await
}

/// What the engine holds for the entities of one kind of a ledger: key, name, size.
pub(crate) async fn state(ingress: &str, ledger: &str, entity: &str) -> Vec<(String, String, u64)> {
    let sql = format!(
        "select service_key, key, length(encode(value, 'hex')) / 2 as bytes from state
         where service_name = '{entity}' and starts_with(service_key, '{ledger}/') order by service_key, key"
    );
    let rows = query(ingress, &sql).await;
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    rows.iter()
        .map(|row| (text(&row["service_key"]), text(&row["key"]), row["bytes"].as_u64().unwrap()))
        .collect()
}

/// Nothing is on its way between the entities of a ledger, but for questions that will expire.
pub(crate) async fn is_quiet(ingress: &str, ledger: &str) -> bool {
    let sql = format!(
        "select id from sys_invocation where starts_with(target_service_key, '{ledger}/')
         and target_handler_name <> 'expire' limit 1"
    );
    query(ingress, &sql).await.is_empty()
}

async fn query(ingress: &str, sql: &str) -> Vec<serde_json::Value> {
    let query = serde_json::json!({ "query": sql }).to_string();
    let said = post(&format!("http://{}/query", admin(ingress)), &query).await;
    let answer: serde_json::Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
    answer["rows"].as_array().unwrap_or_else(|| panic!("{said}")).clone()
}

pub(crate) async fn post(url: &str, body: &str) -> String {
    let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let request = hyper::Request::post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json")
        .body(Full::new(Bytes::from(body.to_owned())))
        .unwrap();
    let answer = client.request(request).await.unwrap().into_body().collect().await.unwrap();
    String::from_utf8(answer.to_bytes().to_vec()).unwrap()
}

/// The same entries as lines of another call.
pub(crate) fn as_lines_of(call: CallId, batch: Batch) -> Batch {
    let mut before = batch.prev_link;
    let line = |line: &ChainedEntry| {
        let line = ChainedEntry::new(call, before, line.seq(), line.body().to_owned());
        before = line.link();
        line
    };
    let lines = batch.chained_entries.iter().map(line).collect();
    Batch { call, chained_entries: lines, ..batch }
}

/// An empty ledger on the engine that is there, under a name of its own.
pub(crate) struct RestateBench {
    ingress: String,
    name: String,
    workers: tempfile::TempDir,
}

impl RestateBench {
    pub(crate) fn new() -> Self {
        let name = uuid::Uuid::now_v7().to_string();
        Self { ingress: ingress(), name, workers: tempfile::tempdir().unwrap() }
    }
}

impl LedgerHarness for RestateBench {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Ledger>, LedgerError>> {
        Box::pin(async {
            let ledger = RestateLedger::open(options(&self.ingress, &self.name, self.workers.path()))?;
            Ok(Arc::new(ledger) as Arc<dyn Ledger>)
        })
    }

    // The kernel drops the lock when the last handle is closed, as it does at death.
    fn kill(&self, ledger: Arc<dyn Ledger>) -> BoxFuture<'_, Result<(), LedgerError>> {
        drop(ledger);
        Box::pin(async { Ok(()) })
    }

    // The engine is shared by all tests, so it stays. It is killed for real in the proofs.
    fn restart(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }
}
