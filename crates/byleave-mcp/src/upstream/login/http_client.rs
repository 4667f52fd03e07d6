//! The courier: carries every request of a login and of a refresh, and looks at where it goes first.
//!
//! While a server is asked where to log in, it only fetches. Afterwards it only posts, and only to the endpoints that were
//! looked at and shown. It follows no redirect, and what it is answered has a bound.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::{Method, Request, Response, StatusCode};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use rmcp::transport::{OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest};
use serde_json::{Value, json};
use url::Url;

use super::super::http;
use super::endpoint::{EndpointError, EndpointPolicy};

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(20);
/// The most that an answer may hold.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// How many requests a login or a connection may need: a server could name endpoints without end.
const DISCOVERY_MAX: usize = 40;

/// Carries requests.
pub(in crate::upstream) struct LoginHttpClient {
    client: reqwest::Client,
    standpoint: EndpointPolicy,
    fetched: AtomicUsize,
    /// Where it may post to; nothing while it fetches.
    endpoints: Mutex<Vec<Url>>,
    /// What an endpoint said when it said no.
    said: Mutex<Option<String>>,
    refused: Mutex<Option<EndpointError>>,
}

impl LoginHttpClient {
    pub(super) fn new(standpoint: EndpointPolicy) -> Result<Self, reqwest::Error> {
        let resolver = LoginResolver(standpoint.clone());
        let client = http::client().dns_resolver(resolver).timeout(REQUEST).build()?;
        let (fetched, endpoints, said, refused) = Default::default();
        Ok(Self { client, standpoint, fetched, endpoints, said, refused })
    }

    /// From now on it posts to these endpoints, and fetches nothing.
    pub(super) fn only(&self, endpoints: Vec<Url>) {
        *self.endpoints.lock().unwrap_or_else(PoisonError::into_inner) = endpoints;
    }

    /// What an endpoint said when it said no, in words that hold nothing secret.
    pub(super) fn said(&self) -> Option<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An address that it was to go to, and did not.
    pub(super) fn refused(&self) -> Option<EndpointError> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn carried(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
        let url = self.standpoint.sound("address", &request.uri().to_string()).inspect_err(|unsound| {
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(unsound.clone());
        })?;
        let fetches = request.method() == Method::GET && request.body().is_empty();
        let endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if endpoints.is_empty() {
            if !fetches || self.fetched.fetch_add(1, Ordering::Relaxed) >= DISCOVERY_MAX {
                return Err("nothing more is sent before it is known where to".into());
            }
        } else if request.method() != Method::POST || !endpoints.contains(&url) {
            return Err("nothing is sent but to the endpoints that were shown".into());
        }
        let mut answered = self.client.execute(reqwest::Request::try_from(request)?).await.map_err(plain)?;
        let status = answered.status();
        // A redirect would take what is sent to somebody else. For who looks for something it is simply not there.
        if status.is_redirection() {
            let nothing = Response::builder().status(StatusCode::NOT_FOUND).body(Vec::new())?;
            return if fetches { Ok(nothing) } else { Err("it redirects, and that is not followed".into()) };
        }
        let mut response = Response::builder().status(status);
        for (name, value) in answered.headers() {
            response = response.header(name, value);
        }
        let mut body = Vec::new();
        while let Some(piece) = answered.chunk().await.map_err(plain)? {
            if body.len() + piece.len() > ANSWER_BYTES_MAX {
                return Err("its answer is too long".into());
            }
            body.extend_from_slice(&piece);
        }
        if !fetches && !status.is_success() {
            // What else it says could be what it was sent, and would go from one message into the next.
            let code = code(&body);
            let said = code.as_ref().map_or_else(String::new, |code| format!(" {code}"));
            let said = format!("{}{said}", status.as_u16());
            *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
            body = code.map(|code| json!({ "error": code }).to_string().into_bytes()).unwrap_or_default();
        }
        Ok(response.body(body)?)
    }
}

impl OAuthHttpClient for LoginHttpClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(self.carried(request.request))
    }
}

/// Leads names only to addresses that they may lead to. The server's own was named by the person.
struct LoginResolver(EndpointPolicy);

impl Resolve for LoginResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let standpoint = self.0.clone();
        Box::pin(async move {
            let own = standpoint.server.host_str() == Some(name.as_str());
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let may: Vec<_> = found.filter(|found| own || standpoint.reaches(found.ip())).collect();
            if may.is_empty() {
                return Err("it leads to no host that everyone can reach".into());
            }
            Ok(Box::new(may.into_iter()) as Addrs)
        })
    }
}

/// The code of an error, as the protocol has them.
fn code(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    body.get("error")?.as_str().filter(|code| is_code(code)).map(str::to_owned)
}

/// Whether a text is the code of an error as the protocol has them.
pub(super) fn is_code(text: &str) -> bool {
    (1..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

fn plain(error: reqwest::Error) -> OAuthHttpClientError {
    Box::new(error.without_url())
}
