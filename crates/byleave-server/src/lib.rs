//! Speaks HTTP: calls in, questions out, the book read; for agents and people in any language.
//!
//! [`Server`] stands around gates, one for each tenant, on whatever ledger they have. It decides nothing that a gate decides: it
//! says who is there ([`principal`], [`tokens`]), what they may do, and hands their words on. Every request to the API carries a
//! token; a request without a good one learns nothing. People with a browser sign in first, and their pages stand behind a door of
//! their own. What cannot be checked or recorded does not happen.

mod api_types;
mod auth;
mod browser_sessions;
mod call_watchers;
mod caller;
mod client_tools;
mod extract;
mod limits;
pub mod listen;
pub mod metrics;
pub mod oidc;
pub mod otlp_export;
mod pages;
pub mod principal;
mod private_json_file;
mod problem;
mod public_url;
mod rate_limit;
mod record_access;
mod replay;
mod routes;
mod secure_random;
mod server;
pub mod server_lock;
mod state;
mod stream_limit;
mod submit_answer;
mod tenant;
pub mod tokens;
mod trace_parents;
pub mod webhooks;
mod write_timeout;

pub use client_tools::ClientTools;
pub use limits::ServerLimits;
pub use private_json_file::PrivateFileError;
pub use problem::ProblemKind;
pub use public_url::{PublicUrl, PublicUrlError};
pub use secure_random::fresh_pages_host;
pub use server::{Server, ServerBuilder, openapi};
pub use tenant::{Tenant, TrialPolicyBuilder, is_for_workers};
