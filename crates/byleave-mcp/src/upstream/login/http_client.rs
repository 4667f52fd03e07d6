//! The HTTP client of a login and of a refresh. It checks the destination of every request first.
//!
//! During discovery it only sends GET requests. Afterwards it only sends POST requests, and only to the endpoints that were
//! checked and shown. It follows no redirects, and the size of a response is limited.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use rmcp::transport::{OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest};
use serde_json::{Value, json};
use url::Url;

use super::super::http;
use super::endpoint::{EndpointError, EndpointPolicy};

/// The timeout of one request.
const REQUEST: Duration = Duration::from_secs(20);
/// The maximum size of a response.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// The maximum number of requests of a login or a connection. A server could name endpoints without end.
const DISCOVERY_MAX: usize = 40;

/// Sends the requests of a login.
pub(in crate::upstream) struct LoginHttpClient {
    client: reqwest::Client,
    standpoint: EndpointPolicy,
    fetched: AtomicUsize,
    /// The endpoints for POST requests; empty during discovery.
    endpoints: Mutex<Vec<Url>>,
    /// The error that an endpoint gave.
    said: Mutex<Option<String>>,
    refused: Mutex<Option<EndpointError>>,
}

impl LoginHttpClient {
    pub(super) fn new(standpoint: EndpointPolicy) -> Result<Self, reqwest::Error> {
        let resolver = LoginResolver(standpoint.clone());
        let client = http::client_builder().dns_resolver(resolver).timeout(REQUEST).build()?;
        let (fetched, endpoints, said, refused) = Default::default();
        Ok(Self { client, standpoint, fetched, endpoints, said, refused })
    }

    /// Ends discovery: allows only POST requests to these endpoints.
    pub(super) fn restrict_to(&self, endpoints: Vec<Url>) {
        *self.endpoints.lock() = endpoints;
    }

    /// Returns the error that an endpoint gave, without secrets.
    pub(super) fn error_message(&self) -> Option<String> {
        self.said.lock().clone()
    }

    /// Returns an address whose request was refused.
    pub(super) fn refused(&self) -> Option<EndpointError> {
        self.refused.lock().clone()
    }

    async fn carried(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
        let url =
            self.standpoint.check_endpoint("address", &request.uri().to_string()).inspect_err(|unsound| {
                *self.refused.lock() = Some(unsound.clone());
            })?;
        let fetches = request.method() == Method::GET && request.body().is_empty();
        let endpoints = self.endpoints.lock().clone();
        if endpoints.is_empty() {
            if !fetches || self.fetched.fetch_add(1, Ordering::Relaxed) >= DISCOVERY_MAX {
                return Err(
                    "too many requests, or a request that is not a plain GET, before the endpoints are known"
                        .into(),
                );
            }
        } else if request.method() != Method::POST || !endpoints.contains(&url) {
            return Err("only POST requests to the shown endpoints are allowed".into());
        }
        let mut answered = self.client.execute(reqwest::Request::try_from(request)?).await.map_err(plain)?;
        let status = answered.status();
        // A redirect would send the request to another party. Discovery treats it as not found.
        if status.is_redirection() {
            let nothing = Response::builder().status(StatusCode::NOT_FOUND).body(Vec::new())?;
            return if fetches {
                Ok(nothing)
            } else {
                Err("the server redirects, and redirects are not followed".into())
            };
        }
        let mut response = Response::builder().status(status);
        for (name, value) in answered.headers() {
            response = response.header(name, value);
        }
        let mut body = Vec::new();
        while let Some(piece) = answered.chunk().await.map_err(plain)? {
            if body.len() + piece.len() > ANSWER_BYTES_MAX {
                return Err("the response is too long".into());
            }
            body.extend_from_slice(&piece);
        }
        if !fetches && !status.is_success() {
            // The rest of the response could repeat what was sent, and would leak into other messages.
            let code = code(&body);
            let said = code.as_ref().map_or_else(String::new, |code| format!(" {code}"));
            let said = format!("{}{said}", status.as_u16());
            *self.said.lock() = Some(said);
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

/// Resolves names only to allowed addresses. The server's own address was configured by the person.
struct LoginResolver(EndpointPolicy);

impl Resolve for LoginResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let standpoint = self.0.clone();
        Box::pin(async move {
            let own = standpoint.server.host_str() == Some(name.as_str());
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let may: Vec<_> = found.filter(|found| own || standpoint.allows_address(found.ip())).collect();
            if may.is_empty() {
                return Err("the name does not resolve to a public address".into());
            }
            Ok(Box::new(may.into_iter()) as Addrs)
        })
    }
}

/// Returns the error code of a response, as the protocol defines it.
fn code(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    body.get("error")?.as_str().filter(|code| is_oauth_error_code(code)).map(str::to_owned)
}

/// Checks whether a text has the form of the protocol's error codes.
pub(super) fn is_oauth_error_code(text: &str) -> bool {
    (1..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

fn plain(error: reqwest::Error) -> OAuthHttpClientError {
    Box::new(error.without_url())
}
