//! The arguments of `byleave serve`, `byleave worker`, `byleave token` and `byleave webhook`.

use std::net::SocketAddr;
use std::path::PathBuf;

use byleave_server::PublicUrl;
use byleave_server::principal::Slug;
use clap::{Args as Group, Subcommand, ValueEnum};

use super::ModeArg;

#[derive(Debug, Group)]
pub(crate) struct ServeArgs {
    /// Address to listen on; other than this machine only with TLS
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7411")]
    pub(crate) listen: SocketAddr,
    /// TLS certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// TLS key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Host name that clients use, besides localhost
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Public URL of the pages, for links to questions [default: the listening address]
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<PublicUrl>,
    /// Let workers execute all calls (`byleave worker`), and run nothing here
    #[arg(long, group = "crewed")]
    pub(crate) workers: bool,
    /// Fleet file: use a durable engine and Postgres, and let workers execute all calls
    #[cfg(feature = "fleet")]
    #[arg(long, value_name = "FILE", group = "crewed")]
    pub(crate) fleet: Option<PathBuf>,
    /// Time that a disconnected worker keeps its calls: a number and s, m or h
    #[arg(long, value_name = "DURATION", default_value = "60s", requires = "crewed")]
    pub(crate) worker_lease: String,
    /// Tenant with its own audit log, besides `local`
    #[arg(long = "tenant", value_name = "NAME")]
    pub(crate) tenants: Vec<Slug>,
    /// Least strict mode; calls may use a stricter one [default: setting `mode`, or confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
    /// OpenID Connect issuer that authenticates people, as in https://id.example.org
    #[arg(long, value_name = "URL", requires = "oidc_client")]
    pub(crate) oidc_issuer: Option<String>,
    /// Client id of the server at the issuer; the redirect path is /sign-in/callback
    #[arg(long, value_name = "ID", requires = "oidc_issuer")]
    pub(crate) oidc_client: Option<String>,
    /// File with the client secret, if there is one; only its owner may read it
    #[arg(long, value_name = "FILE", requires = "oidc_client")]
    pub(crate) oidc_secret: Option<PathBuf>,
    /// Requests per second for each principal; 1/25 for an address without a valid token
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) requests_per_second: u32,
    /// Maximum concurrent calls of a tenant; further calls are rejected, to be retried later
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) calls: u32,
    /// Maximum concurrent connections; further ones are rejected
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) connections: u32,
    /// Maximum concurrent event streams of a tenant; 1/8 of that for each principal
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    pub(crate) streams: u32,
}

#[derive(Debug, Group)]
pub(crate) struct WorkArgs {
    /// Server URL: https, or http on this machine, as in https://gate.example.org:7411
    #[arg(long, value_name = "URL")]
    pub(crate) server: String,
    /// File with the token (`byleave token add NAME --scope work`); only its owner may read it
    #[arg(long, value_name = "FILE")]
    pub(crate) token: PathBuf,
    /// Additional certificates to trust (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Maximum concurrent calls
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(crate) capacity: u32,
    /// Label of the worker, for people
    #[arg(long = "label", value_name = "LABEL")]
    pub(crate) labels: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token
    ///
    /// The token is printed once. Only its digest is stored.
    Add(AddTokenArgs),
    /// List the tokens (the default)
    List,
    /// Remove a token; it is rejected at once
    Remove {
        /// Token id, as shown in the list
        id: String,
    },
}

#[derive(Debug, Group)]
pub(crate) struct AddTokenArgs {
    /// Name of the holder; calls and answers are recorded under it
    pub(crate) name: Slug,
    /// The holder is a person, not an agent
    #[arg(long)]
    pub(crate) person: bool,
    /// Scopes, separated by commas [default: submit for an agent, answer and read for a person]
    #[arg(long = "scope", value_enum, value_delimiter = ',', value_name = "SCOPE")]
    pub(crate) scopes: Vec<ScopeArg>,
    /// OpenID Connect issuer where the person signs in, instead of a token
    #[arg(long, value_name = "ISSUER", requires = "signs_in_as", requires = "person")]
    pub(crate) at: Option<String>,
    /// Identity at the issuer: sub:SUBJECT, or email:ADDRESS if the issuer has verified it
    #[arg(long = "as", value_name = "IDENTITY", requires = "at")]
    pub(crate) signs_in_as: Option<String>,
    /// Lifetime: a number and s, m, h, d or w
    #[arg(long = "for", value_name = "DURATION", default_value = "90d")]
    pub(crate) lasting: String,
    /// Tenant
    #[arg(long, value_name = "NAME", default_value = "local")]
    pub(crate) tenant: Slug,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WebhookCommand {
    /// Add a webhook
    ///
    /// The secret that signs its messages is printed once.
    Add(AddWebhookArgs),
    /// List the webhooks and their delivery status (the default)
    List,
    /// Remove a webhook
    Remove {
        /// Webhook id, as shown in the list
        id: String,
    },
    /// Send a test message
    Test {
        /// Webhook id, as shown in the list [default: all webhooks]
        id: Option<String>,
    },
}

#[derive(Debug, Group)]
pub(crate) struct AddWebhookArgs {
    /// URL: https, or http on this machine; `-` reads it from stdin, hidden from process lists
    pub(crate) url: String,
    /// Use the format of incoming webhooks of Slack
    #[arg(long)]
    pub(crate) slack: bool,
    /// Tenant whose questions are sent
    #[arg(long, value_name = "NAME", default_value = "local")]
    pub(crate) tenant: Slug,
}

/// The scope of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeArg {
    /// Make calls and read their results
    Submit,
    /// Read questions in full, and answer those of others
    Answer,
    /// Read the audit log
    Read,
    /// Halt, revoke and cancel; for people only
    Administer,
    /// Execute calls as a worker; not combined with other scopes
    Work,
}
