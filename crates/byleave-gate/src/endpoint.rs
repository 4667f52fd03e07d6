//! An HTTP endpoint of a third party: https, or http on this machine.
//!
//! It must never follow a redirect or use a proxy, so that messages only reach the configured URL. The URL may itself be a
//! secret, so no output here contains more of it than scheme, host and port.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url, redirect};
use rustls::{ClientConfig, RootCertStore, crypto};

const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The reason why a URL cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidEndpointError {
    /// It is not a URL.
    #[error("the URL is not valid: {0}")]
    InvalidUrl(String),
    /// It is not encrypted in transit.
    #[error("the URL must begin with https, unless it is on this machine")]
    InsecureScheme,
    /// It contains a user name or password.
    #[error("the URL contains a user name or password; remove them")]
    Credentials,
    /// The machine cannot check certificates.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
}

/// An HTTP endpoint.
#[derive(Clone)]
pub struct Endpoint {
    url: Url,
    client: Client,
}

impl Endpoint {
    /// Creates the endpoint for a URL: https, or http on this machine.
    pub fn new(url: &str) -> Result<Self, InvalidEndpointError> {
        let url = Url::parse(url).map_err(|error| InvalidEndpointError::InvalidUrl(error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidEndpointError::Credentials);
        }
        let is_https = url.scheme() == "https";
        let is_private = url.scheme() == "http" && is_local(&url);
        if !is_https && !is_private {
            return Err(InvalidEndpointError::InsecureScheme);
        }
        let client = Client::builder()
            .redirect(redirect::Policy::none())
            .no_proxy()
            .https_only(is_https)
            .connect_timeout(CONNECT_LIMIT)
            .tls_backend_preconfigured(tls(is_https)?)
            .build()
            .map_err(|error| InvalidEndpointError::Tls(error.to_string()))?;
        Ok(Self { url, client })
    }

    /// Returns the part of the URL that is not secret: scheme, host and port.
    fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Posts JSON and returns the response status within the time limit. The response body is not read.
    pub async fn post_json(
        &self,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<u16, String> {
        let mut more = HeaderMap::new();
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
            more.insert(HeaderName::from_static(name), value);
        }
        let told = tokio::time::timeout(limit, self.post(more, body)).await;
        Ok(told.map_err(|_| format!("no answer within {} s", limit.as_secs_f32()))??.status().as_u16())
    }

    /// Requests a path of the same origin and returns the response status within the time limit.
    pub async fn get_status(&self, path: &str, limit: Duration) -> Result<u16, String> {
        let url = self.url.join(path).map_err(|error| error.to_string())?;
        let looked = tokio::time::timeout(limit, self.client.get(url).send()).await;
        let response = looked.map_err(|_| format!("no answer within {} s", limit.as_secs_f32()))?;
        Ok(response.map_err(|error| error_chain(&error.without_url()))?.status().as_u16())
    }

    pub(crate) async fn post(&self, headers: HeaderMap, body: Vec<u8>) -> Result<Response, String> {
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        let sent = request.headers(headers).body(body).send().await;
        sent.map_err(|error| error_chain(&error.without_url()))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({}/…)", self.origin())
    }
}

fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

/// Sets up TLS with the machine's certificates. It uses its own provider, so that none is installed process-wide.
fn tls(used: bool) -> Result<ClientConfig, InvalidEndpointError> {
    let bad = |error: rustls::Error| InvalidEndpointError::Tls(error.to_string());
    let provider = Arc::new(crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(bad)?;
    if !used {
        return Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
    }
    let verifier = rustls_platform_verifier::Verifier::new(provider).map_err(bad)?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// Formats an error with its causes, because the outermost error of an HTTP client is not informative.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_protected_or_local_and_say_only_where_they_are() {
        for good in ["http://127.0.0.1:9/x", "http://[::1]:9/", "http://localhost/"] {
            assert!(Endpoint::new(good).is_ok(), "{good}");
        }
        for bad in [
            "http://example.org/",
            "http://127.0.0.1.example.org/",
            "http://10.0.0.1/",
            "ftp://127.0.0.1/",
            "file:///x",
        ] {
            assert!(matches!(Endpoint::new(bad), Err(InvalidEndpointError::InsecureScheme)), "{bad}");
        }
        for bad in ["", "example.org"] {
            assert!(matches!(Endpoint::new(bad), Err(InvalidEndpointError::InvalidUrl(_))), "{bad}");
        }
        let secret = Endpoint::new("https://ann:pw@example.org/services/T0/xyz").unwrap_err();
        assert!(matches!(secret, InvalidEndpointError::Credentials) && !secret.to_string().contains("xyz"));
        let known = Endpoint::new("http://[::1]:9/services/xyz?k=xyz").unwrap();
        assert_eq!(known.origin(), "http://[::1]:9");
        assert!(!format!("{known:?}").contains("xyz"));
    }
}
