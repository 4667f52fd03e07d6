//! The network: real sockets on loopback, a real `curl`, and hostile clients byte by byte.

mod hostile;
mod proxy;
mod tls;
mod world;
