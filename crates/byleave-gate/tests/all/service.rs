//! A real HTTP service on this machine, which signs correctly or does not.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use byleave_gate::secret::Secret;
use byleave_gate::signed_http::{SIGNATURE_HEADER, TIMESTAMP_HEADER, sign, verify};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const SECRET: &str = "the secret that both sides know";

/// A received request.
pub(crate) struct ReceivedRequest {
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl ReceivedRequest {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Tests whether it is signed with the secret.
    pub(crate) fn is_signed(&self) -> bool {
        let (time, signature) = (self.header(TIMESTAMP_HEADER), self.header(SIGNATURE_HEADER));
        verify(&Secret::from(SECRET), time, signature, &self.body, now()).is_ok()
    }
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Starts a service and returns its address. `answer` makes the bytes of the response.
pub(crate) async fn serve(answer: impl Fn(ReceivedRequest) -> Vec<u8> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            tokio::spawn(async move { converse(stream, &*answer).await });
        }
    });
    format!("http://{address}/ask")
}

async fn converse(mut stream: TcpStream, answer: &(dyn Fn(ReceivedRequest) -> Vec<u8> + Send + Sync)) {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let headers: HashMap<String, String> = text
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers["content-length"].parse().unwrap();
    while bytes.len() < head + length {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the request was cut short");
    }
    let response = answer(ReceivedRequest { headers, body: bytes[head..].to_vec() });
    // The other side may have closed the connection early.
    if stream.write_all(&response).await.is_ok() {
        drop(stream.shutdown().await);
    }
}

/// A correctly signed response.
pub(crate) fn signed(body: &[u8]) -> Vec<u8> {
    signed_by(SECRET, now(), body)
}

pub(crate) fn signed_by(secret: &str, at: u64, body: &[u8]) -> Vec<u8> {
    let signature = sign(&Secret::from(secret), at, body);
    response(200, &[(TIMESTAMP_HEADER, &at.to_string()), (SIGNATURE_HEADER, &signature)], body)
}

pub(crate) fn response(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}
