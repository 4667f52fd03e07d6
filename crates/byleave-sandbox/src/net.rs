//! The network of the sandbox: an empty network namespace whose listening sockets are passed to the supervisor.
//!
//! ```text
//! inside │ 127.0.0.1:3128 ─┐          policy: check the name, ask, resolve once,
//!        │ 198.18.x.y:443 ─┼─▶ Egress ────▶ check the address, connect to it ─▶ host
//!        │ 127.0.0.1:53   ─┘          log: what was requested, what was allowed
//! ```
//!
//! A socket belongs to the namespace that it was created in, no matter which process holds it. The supervisor accepts on it from
//! outside, and there is no other way out. This module never reaches a host that the [`egress::HostPolicy`] did not grant by
//! name. It never reaches an address outside the public internet unless the operator opened that network.

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
pub mod published_ports;
mod read_only;
pub mod refusal;
pub mod session_router;
mod socks;
pub mod tls_intercept;
pub mod transparent_proxy;
mod tunnel;
