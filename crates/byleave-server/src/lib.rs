//! The HTTP server: accepts calls, shows questions and reads the audit log, for agents and people in any language.
//!
//! [`Server`] serves gates, one for each tenant, on any ledger. It decides nothing that a gate decides. It authenticates
//! callers ([`principal`], [`tokens`]), checks their permissions and passes their requests on. Every request to the API has a
//! token; a request without a valid one learns nothing. People with a browser sign in first, and the pages have their own
//! authentication. Nothing happens that cannot be checked or recorded.
//!
//! - `server`, `state`: builds the server; the state behind all routes.
//! - `listen`, `write_timeout`: the accept loop (loopback unless TLS); closes connections that do not read.
//! - `auth`, `caller`, `principal`, `tokens`: checks host, origin, token and rate; the caller; permissions; the token file.
//! - `rate_limit`, `stream_limit`, `limits`: requests; open streams; other bounds.
//! - `routes`, `api_types`, `extract`, `problem`: the operations and the OpenAPI document; bodies; strict parsing; problems
//!   (RFC 9457).
//! - `tenant`: the gate and audit log of one tenant.
//! - `client_tools`: functions in the clients' own processes, as tools of the gate.
//! - `call_watchers`: clients that follow a call. Its record is read once for all of them.
//! - `submit_answer`: accepts an answer after checking who gives it and what was shown.
//! - `record_access`, `replay`: looks up records and revokes standing approvals; past calls under other rules.
//! - `webhooks`: notifies others of new questions, signed.
//! - `pages`: the web pages, rendered on the server, with their own authentication.
//! - `browser_sessions`, `oidc`: signed-in browsers; sign-in with OpenID Connect.
//! - `metrics`, `otlp_export`, `trace_parents`: Prometheus metrics; traces from settled records; traces that clients brought.
//! - `server_lock`, `public_url`: which server serves a state directory; where people reach it.
//! - `private_json_file`, `secure_random`: a JSON file for its owner only; random values.

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
