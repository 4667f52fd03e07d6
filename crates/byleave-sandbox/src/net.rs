//! The network of the sandbox: an empty network namespace, whose listening sockets were handed out to us.
//!
//! ```text
//! inside │ 127.0.0.1:3128 ─┐        policy: judge the name, ask, look up once,
//!        │ 198.18.x.y:443 ─┼─▶ Door ────▶ check the address, connect to it ─▶ host
//!        │ 127.0.0.1:53   ─┘        log: what was wanted, what was given
//! ```
//!
//! A socket belongs to the namespace that it was made in, whoever holds it: the supervisor accepts on it from outside, and
//! there is no other way out. Nothing here ever reaches a host that the [`egress::HostPolicy`] did not grant by its name,
//! nor an address that is not of the public internet unless the operator opened its net.

pub mod address;
mod buffered_stream;
mod client_hello;
pub mod credential;
mod credential_mask;
pub mod decision_log;
mod dns;
pub mod egress;
mod host_normalize;
mod http;
mod http_head;
mod proxy;
pub mod proxy_server;
pub mod refusal;
pub mod session_router;
mod socks;
pub mod tls_intercept;
pub mod transparent_proxy;
mod tunnel;
