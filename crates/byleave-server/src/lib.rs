//! Speaks HTTP: calls in, questions out, the book read; for agents and people in any language.
//!
//! [`Server`] stands around gates, one for each tenant, on whatever ledger they have. It decides nothing that a gate decides: it
//! says who is there ([`principal`], [`tokens`]), what they may do, and hands their words on. Every request to the API carries a
//! token; a request without a good one learns nothing. People with a browser sign in first, and their pages stand behind a door of
//! their own. What cannot be checked or recorded does not happen.

mod answering;
mod app;
mod body;
mod caller;
mod door;
mod limits;
pub mod listen;
mod looks;
pub mod oidc;
pub mod otlp;
mod own_file;
mod own_tools;
mod pace;
mod pages;
mod parents;
pub mod principal;
mod problem;
mod public_url;
mod random;
mod replay;
mod routes;
mod seats;
mod server;
pub mod serving;
mod shelf;
mod slow;
pub mod telemetry;
mod tenancy;
pub mod tokens;
mod visits;
pub mod webhooks;
mod wire;

pub use limits::Limits;
pub use own_file::FileFault;
pub use own_tools::OwnTools;
pub use problem::Trouble;
pub use public_url::{BadPublicUrl, PublicUrl};
pub use random::fresh_pages_host;
pub use server::{Server, ServerBuilder, openapi};
pub use tenancy::{Tenancy, Tried, is_for_workers};
