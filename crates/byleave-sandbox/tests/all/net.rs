//! The network: real sockets on loopback, a real `curl`, and hostile clients byte by byte.

mod cost;
mod hostile;
mod lookups;
mod namespace;
mod passes;
mod proxy;
pub(crate) mod tls;
pub(crate) mod world;
