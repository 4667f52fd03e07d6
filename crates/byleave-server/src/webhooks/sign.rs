//! Signatures of Standard Webhooks: HMAC-SHA256 over the id, the time and the body of a message.
//!
//! This is our own implementation in forty lines, on the `hmac` crate of the workspace. The scheme's own crate has had only
//! one release; tests use it to verify this implementation.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use byleave_gate::secret::Secret;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Returns the headers that authenticate a message. The time is in seconds since 1970.
pub(super) fn signature_headers(
    key: &Secret,
    id: &str,
    timestamp: u64,
    body: &[u8],
) -> Option<[(&'static str, String); 3]> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.expose()).ok()?;
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    let signature = format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()));
    Some([
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", timestamp.to_string()),
        ("webhook-signature", signature),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_one_of_the_specification() {
        let key = BASE64_STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = br#"{"test": 2432232314}"#;
        let [_, _, (_, signature)] =
            signature_headers(&Secret::new(key), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body)
                .unwrap();
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
