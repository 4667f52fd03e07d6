//! Signed messages to a service and back: HMAC-SHA256 over time and body, with a shared secret.
//!
//! A message has two headers: [`TIMESTAMP_HEADER`], seconds since 1970, and [`SIGNATURE_HEADER`], the HMAC in lower-case hexadecimal over
//! the time, a full stop and the body. The service signs its answer in the same way. It must never follow a redirect, use a
//! proxy, or accept an answer that is unsigned, old, too large or truncated.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderValue};
use sha2::Sha256;

use crate::endpoint::{Endpoint, InvalidEndpointError, error_chain};
use crate::secret::Secret;

/// The header with the time of signing, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "x-byleave-timestamp";
/// The header with the signature, in lower-case hexadecimal.
pub const SIGNATURE_HEADER: &str = "x-byleave-signature";
/// How far the time of a message may differ from the local clock.
pub const MAX_CLOCK_SKEW: Duration = Duration::from_secs(300);
/// The maximum size of an answer.
pub const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// The minimum length of a secret.
pub const SECRET_BYTES_MIN: usize = 16;

/// The reason why a service cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The URL cannot be used.
    #[error("cannot use the URL of the service: {0}")]
    Endpoint(#[from] InvalidEndpointError),
    /// The secret is too short and could be guessed.
    #[error("the shared secret has {0} bytes; use at least {SECRET_BYTES_MIN}")]
    ShortSecret(usize),
}

/// The reason why a message is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The signature is missing or unreadable.
    #[error("the message is not signed")]
    Missing,
    /// The time differs too much from the local clock.
    #[error("the signature is too old, or a clock is wrong")]
    Stale,
    /// The signature is from another sender, or for another message.
    #[error("the signature does not match the message")]
    Mismatch,
}

/// The reason for the lack of a usable answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceResponseError {
    /// The service could not be reached, or reported an error.
    #[error("{0}")]
    Failed(String),
    /// The answer cannot be trusted.
    #[error("{0}")]
    InvalidResponse(String),
}

/// Returns the signature of a message, for the header [`SIGNATURE_HEADER`].
pub fn sign(secret: &Secret, timestamp: u64, body: &[u8]) -> String {
    use std::fmt::Write as _;
    let bytes = mac(secret, timestamp, body).map(|mac| mac.finalize().into_bytes());
    bytes.into_iter().flatten().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap_or_default();
        out
    })
}

/// Verifies that a message was signed with the secret, and recently. `now` is in seconds since 1970.
pub fn verify(
    secret: &Secret,
    timestamp: Option<&str>,
    signature: Option<&str>,
    body: &[u8],
    now: u64,
) -> Result<(), SignatureError> {
    let timestamp: u64 = timestamp.and_then(|text| text.parse().ok()).ok_or(SignatureError::Missing)?;
    let signature = signature.and_then(from_hex).ok_or(SignatureError::Missing)?;
    let mac = mac(secret, timestamp, body).ok_or(SignatureError::Mismatch)?;
    // In constant time, because an early exit would reveal how much of a guess was right.
    mac.verify_slice(&signature).map_err(|_| SignatureError::Mismatch)?;
    if now.abs_diff(timestamp) > MAX_CLOCK_SKEW.as_secs() {
        return Err(SignatureError::Stale);
    }
    Ok(())
}

/// Returns seconds since 1970 by the local clock.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A service with a shared secret, called over HTTP.
pub(crate) struct SignedService {
    endpoint: Endpoint,
    secret: Secret,
}

impl SignedService {
    pub(crate) fn new(url: &str, secret: Secret) -> Result<Self, ServiceError> {
        let endpoint = Endpoint::new(url)?;
        if secret.expose().len() < SECRET_BYTES_MIN {
            return Err(ServiceError::ShortSecret(secret.expose().len()));
        }
        Ok(Self { endpoint, secret })
    }

    /// Posts a signed body and returns the body of the signed answer.
    pub(crate) async fn request(&self, body: Vec<u8>) -> Result<Vec<u8>, ServiceResponseError> {
        let timestamp = now();
        let signature = sign(&self.secret, timestamp, &body);
        let mut headers = HeaderMap::new();
        headers.insert(TIMESTAMP_HEADER, HeaderValue::from(timestamp));
        let signature = HeaderValue::try_from(signature)
            .map_err(|error| ServiceResponseError::Failed(error.to_string()))?;
        headers.insert(SIGNATURE_HEADER, signature);
        let failed = |why: String| ServiceResponseError::Failed(format!("cannot reach the service: {why}"));
        let mut response = self.endpoint.post(headers, body).await.map_err(failed)?;
        if response.status() != StatusCode::OK {
            return Err(ServiceResponseError::Failed(format!(
                "the service answered with status {}",
                response.status()
            )));
        }
        let headers = response.headers().clone();
        let mut answer = Vec::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|error| failed(error_chain(&error.without_url())))?
        {
            if answer.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(ServiceResponseError::InvalidResponse(format!(
                    "the answer has more than {ANSWER_BYTES_MAX} bytes"
                )));
            }
            answer.extend_from_slice(&chunk);
        }
        let header = |name| header_text(&headers, name);
        verify(&self.secret, header(TIMESTAMP_HEADER), header(SIGNATURE_HEADER), &answer, now())
            .map_err(|error| ServiceResponseError::InvalidResponse(error.to_string()))?;
        Ok(answer)
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    // A duplicate header may have been injected, so neither is accepted.
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(only), None) => only.to_str().ok(),
        _ => None,
    }
}

fn mac(secret: &Secret, timestamp: u64, body: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose()).ok()?;
    mac.update(timestamp.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    Some(mac)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret::from("a secret of some length")
    }

    #[test]
    fn only_the_signed_message_is_believed() {
        let good = sign(&secret(), 1_000, b"body");
        let check = |time: &str, signature: &str, body: &[u8], now| {
            verify(&secret(), Some(time), Some(signature), body, now)
        };
        assert_eq!(check("1000", &good, b"body", 1_000), Ok(()));
        assert_eq!(check("1000", &good, b"body", 1_300), Ok(()));
        assert_eq!(check("1000", &good, b"body", 1_301), Err(SignatureError::Stale));
        assert_eq!(check("1000", &good, b"body", 699), Err(SignatureError::Stale));
        assert_eq!(check("1001", &good, b"body", 1_000), Err(SignatureError::Mismatch));
        assert_eq!(check("1000", &good, b"bodY", 1_000), Err(SignatureError::Mismatch));
        assert_eq!(
            check("1000", &sign(&Secret::from("another secret"), 1_000, b"body"), b"body", 1_000),
            Err(SignatureError::Mismatch)
        );
        assert_eq!(check("1000", "", b"body", 1_000), Err(SignatureError::Mismatch));
        assert_eq!(check("1000", &good.to_uppercase(), b"body", 1_000), Err(SignatureError::Missing));
        assert_eq!(check("1000", "abc", b"body", 1_000), Err(SignatureError::Missing));
        assert_eq!(check("soon", &good, b"body", 1_000), Err(SignatureError::Missing));
        assert_eq!(verify(&secret(), None, Some(&good), b"body", 1_000), Err(SignatureError::Missing));
    }

    #[test]
    fn the_signature_is_the_one_that_other_languages_compute() {
        // printf '1000.body' | openssl dgst -sha256 -hmac 'a secret of some length'
        assert_eq!(
            sign(&secret(), 1_000, b"body"),
            "39323d326a524109465cd65c8bfdd41bed8081ab4c76b4de9e84fa394ec86022"
        );
    }

    #[test]
    fn services_are_protected_and_their_secret_cannot_be_guessed() {
        assert!(SignedService::new("http://[::1]:9/", secret()).is_ok());
        let bad = SignedService::new("http://example.org/", secret());
        assert!(matches!(bad, Err(ServiceError::Endpoint(InvalidEndpointError::InsecureScheme))));
        assert!(matches!(
            SignedService::new("http://[::1]/", Secret::from("short")),
            Err(ServiceError::ShortSecret(5))
        ));
    }
}
