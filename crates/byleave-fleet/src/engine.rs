//! The engine's ingress, as a ledger talks to it: one question, one answer, asked again where it may be asked again. And its
//! administrator's port, for the one thing that only that one knows: which entities there are.
//!
//! Everything asked here may be asked twice: reads change nothing, and what writes carries a token or an id by which the
//! second time is known. So an engine that is away for a moment is waited for, and only then is it a fault.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use byleave_gate::ledger::LedgerError;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::{Method, Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// How long one try may take: longer than any handler, shorter than anyone's patience.
const TRY_MAX: Duration = Duration::from_secs(4);
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The engine's ingress.
pub(crate) struct Engine {
    client: Client<HttpConnector, Full<Bytes>>,
    /// The ingress of each node; any of them answers for all.
    addresses: Vec<String>,
    /// Which of them was last there.
    there: AtomicUsize,
    patience: Duration,
}

/// Why one try came to nothing.
enum Trouble {
    /// The engine is away, or busy: it may be asked again.
    Away(String),
    /// The engine says no; it would say so again.
    No(String),
}

/// What the engine says of its entities.
#[derive(Deserialize)]
struct Found {
    rows: Vec<FoundRow>,
}

#[derive(Deserialize)]
struct FoundRow {
    service_key: String,
}

impl Engine {
    pub(crate) fn at(addresses: &[String], patience: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_secs(2)));
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Self { client, addresses: addresses.to_vec(), there: AtomicUsize::new(0), patience }
    }

    /// Asks a handler of an entity.
    pub(crate) async fn ask<A: DeserializeOwned>(
        &self,
        entity: &str,
        key: &str,
        handler: &str,
        question: &impl Serialize,
    ) -> Result<A, LedgerError> {
        let cannot = |why: String| {
            LedgerError::new(
                format!("cannot ask the engine at `{}` for {entity}/{handler}", self.addresses.join("`, `")),
                why,
            )
        };
        let body = serde_json::to_vec(question).map_err(|error| cannot(error.to_string()))?;
        let body = Bytes::from(body);
        let path = format!("/restate/call/{entity}/{}/{handler}", escape(key));
        let until = Instant::now() + self.patience;
        let mut pause = PAUSE_MIN;
        loop {
            let there = self.there.load(Ordering::Relaxed);
            let address = self.addresses.get(there % self.addresses.len().max(1)).map_or("", String::as_str);
            let uri = format!("http://{address}{path}");
            let tried = tokio::time::timeout(TRY_MAX, self.once(&uri, body.clone())).await;
            let why = match tried {
                Ok(Ok(answer)) => {
                    return serde_json::from_slice(&answer).map_err(|error| cannot(error.to_string()));
                }
                Ok(Err(Trouble::No(why))) => return Err(cannot(why)),
                Ok(Err(Trouble::Away(why))) => why,
                Err(_) => format!("no answer within {} s", TRY_MAX.as_secs()),
            };
            if Instant::now() + pause > until {
                return Err(cannot(format!("{why}; is it running? `scripts/fleet status` says so")));
            }
            tracing::debug!(entity, handler, why, "asking the engine again");
            // Another node may be there. Who failed beside us may have moved on already.
            let next = there.wrapping_add(1);
            self.there.compare_exchange(there, next, Ordering::Relaxed, Ordering::Relaxed).unwrap_or(next);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The keys of all entities of a kind that begin with `prefix`, of those that hold something under a name that begins with
    /// `name`. Asked of the administrator's port.
    pub(crate) async fn keys(
        &self,
        admin: &str,
        entity: &str,
        name: &str,
        prefix: &str,
    ) -> Result<Vec<String>, LedgerError> {
        let cannot = |why: String| {
            LedgerError::new(format!("cannot ask the engine at `{admin}` which entities there are"), why)
        };
        let quoted = |text: &str| text.replace('\'', "''");
        let sql = format!(
            "SELECT DISTINCT service_key FROM state WHERE service_name = '{}' AND starts_with(key, '{}')
             AND starts_with(service_key, '{}')",
            quoted(entity),
            quoted(name),
            quoted(prefix)
        );
        let body = serde_json::json!({ "query": sql }).to_string();
        let answer = self.once(&format!("http://{admin}/query"), Bytes::from(body)).await;
        let answer = answer.map_err(|trouble| match trouble {
            Trouble::Away(why) | Trouble::No(why) => cannot(why),
        })?;
        let found: Found = serde_json::from_slice(&answer).map_err(|error| cannot(error.to_string()))?;
        Ok(found.rows.into_iter().map(|row| row.service_key).collect())
    }

    /// Whether the first node is there.
    pub(crate) async fn health(&self) -> Result<(), String> {
        let address = self.addresses.first().map_or("", String::as_str);
        let request = Request::get(format!("http://{address}/restate/health")).body(Full::default());
        let request = request.map_err(|error| error.to_string())?;
        match tokio::time::timeout(TRY_MAX, self.client.request(request)).await {
            Ok(Ok(response)) if response.status().is_success() => Ok(()),
            Ok(Ok(response)) => Err(response.status().to_string()),
            Ok(Err(error)) => Err(in_full(&error)),
            Err(_) => Err(format!("no answer within {} s", TRY_MAX.as_secs())),
        }
    }

    async fn once(&self, uri: &str, body: Bytes) -> Result<Bytes, Trouble> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .body(Full::new(body))
            .map_err(|error| Trouble::No(error.to_string()))?;
        let response = self.client.request(request).await.map_err(|error| Trouble::Away(in_full(&error)))?;
        let status = response.status();
        let answer = response.into_body().collect().await;
        let answer = answer.map_err(|error| Trouble::Away(in_full(&error)))?.to_bytes();
        if status.is_success() {
            return Ok(answer);
        }
        let why = format!("{status}: {}", String::from_utf8_lossy(&answer));
        match status {
            StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::GATEWAY_TIMEOUT => Err(Trouble::Away(why)),
            StatusCode::NOT_FOUND => Err(Trouble::No(format!(
                "{why}; the service is not registered there, `scripts/fleet up` does so"
            ))),
            _ => Err(Trouble::No(why)),
        }
    }
}

/// An error with everything behind it: the outermost seldom says what happened.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        said = format!("{said}: {error}");
        source = error.source();
    }
    said
}

/// A key as one segment of a path.
fn escape(key: &str) -> String {
    use std::fmt::Write as _;
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            escaped.push(char::from(byte));
        } else if write!(escaped, "%{byte:02X}").is_err() {
            // Writing to a string cannot fail.
            return escaped;
        }
    }
    escaped
}
