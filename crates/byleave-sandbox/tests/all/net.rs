//! The network: real sockets on loopback, a real `curl`, and hostile clients byte by byte.

mod cost;
mod git_server;
mod hostile;
mod lookups;
mod namespace;
mod passes;
mod proxy;
mod read_only;
pub(crate) mod tls;
pub(crate) mod world;
