//! The network of the sandbox: an empty network namespace, whose listening sockets were handed out to us.
//!
//! ```text
//! inside │ 127.0.0.1:3128 ─┐        policy: judge the name, ask, look up once,
//!        │ 198.18.x.y:443 ─┼─▶ Door ────▶ check the address, connect to it ─▶ host
//!        │ 127.0.0.1:53   ─┘        log: what was wanted, what was given
//! ```
//!
//! A socket belongs to the namespace that it was made in, whoever holds it: the supervisor accepts on it from outside, and
//! there is no other way out. Nothing here ever reaches a host that the [`policy::Doorkeeper`] did not grant by its name,
//! nor an address that is not of the public internet unless the operator opened its net.

pub mod address;
pub mod credential;
mod dns;
pub mod doors;
mod head;
mod hello;
mod http;
pub mod intercept;
mod line;
pub mod log;
mod mask;
pub mod policy;
mod proxy;
pub mod refusal;
pub mod serve;
mod socks;
mod spelling;
pub mod transparent;
mod tunnel;
