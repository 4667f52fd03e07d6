//! What is typed after `byleave serve`, `byleave token` and `byleave webhook`.

use std::net::SocketAddr;
use std::path::PathBuf;

use byleave_server::PublicUrl;
use byleave_server::principal::Slug;
use clap::{Args as Group, Subcommand, ValueEnum};

use super::ModeArg;

#[derive(Debug, Group)]
pub(crate) struct ServeArgs {
    /// Where to listen; beyond this machine only with TLS
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7411")]
    pub(crate) listen: SocketAddr,
    /// The certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A name by which clients reach it, beside localhost
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Where people reach its pages, and what links to questions begin with [default: where it listens]
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<PublicUrl>,
    /// Calls are driven by workers (`byleave worker`), and nothing runs here
    #[arg(long, group = "crewed")]
    pub(crate) workers: bool,
    /// Stands on a durable engine and Postgres, as this file says; calls are driven by workers
    #[cfg(feature = "fleet")]
    #[arg(long, value_name = "FILE", group = "crewed")]
    pub(crate) fleet: Option<PathBuf>,
    /// How long a worker may be away and keep what it runs: a number and s, m or h
    #[arg(long, value_name = "SPAN", default_value = "60s", requires = "crewed")]
    pub(crate) worker_lease: String,
    /// A tenant beside `local`, with a book of its own
    #[arg(long = "tenant", value_name = "NAME")]
    pub(crate) tenants: Vec<Slug>,
    /// How little is asked at most: calls may ask for a stricter mode [default: as set, confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
    /// Who says who people are: the address of an OpenID Connect issuer, as in https://id.example.org
    #[arg(long, value_name = "URL", requires = "oidc_client")]
    pub(crate) oidc_issuer: Option<String>,
    /// What the server is called there; it comes back to /sign-in/done
    #[arg(long, value_name = "ID", requires = "oidc_issuer")]
    pub(crate) oidc_client: Option<String>,
    /// The file that holds its secret there, where it has one; for its owner only
    #[arg(long, value_name = "FILE", requires = "oidc_client")]
    pub(crate) oidc_secret: Option<PathBuf>,
    /// How many requests a second each principal may make; each address without a good token a 25th of that
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) requests_per_second: u32,
    /// How many calls of a tenant are driven at once; whoever makes more is told to come back
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) calls: u32,
    /// How many connections there are at once; whoever comes then is turned away
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) connections: u32,
    /// How many calls and inboxes of a tenant are followed at once; an eighth of it by each principal
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    pub(crate) streams: u32,
}

#[derive(Debug, Group)]
pub(crate) struct WorkArgs {
    /// The server: https, or http on this machine, as in https://gate.example.org:7411
    #[arg(long, value_name = "URL")]
    pub(crate) server: String,
    /// The file that holds its token (`byleave token add NAME --scope work`); for its owner only
    #[arg(long, value_name = "FILE")]
    pub(crate) token: PathBuf,
    /// Certificates to trust beside those of the system, as PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// How many calls it drives at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(crate) capacity: u32,
    /// A word for people to tell it apart by
    #[arg(long = "label", value_name = "WORD")]
    pub(crate) labels: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; its text is printed once, and only its digest is kept
    Add(AddTokenArgs),
    /// List the tokens (the default)
    List,
    /// Remove a token; it is refused at once
    Remove {
        /// Its id, as the list has it
        id: String,
    },
}

#[derive(Debug, Group)]
pub(crate) struct AddTokenArgs {
    /// Who shows it: calls and answers stand under this name
    pub(crate) name: Slug,
    /// A person, not an agent
    #[arg(long)]
    pub(crate) person: bool,
    /// What it is good for; several with commas [default: submit for an agent, answer and read for a person]
    #[arg(long = "scope", value_enum, value_delimiter = ',', value_name = "SCOPE")]
    pub(crate) scopes: Vec<ScopeArg>,
    /// They sign in at this OpenID Connect issuer, and show no token
    #[arg(long, value_name = "ISSUER", requires = "signs_in_as", requires = "person")]
    pub(crate) at: Option<String>,
    /// As whom: sub:SUBJECT, or email:ADDRESS where the issuer has verified it
    #[arg(long = "as", value_name = "WHO", requires = "at")]
    pub(crate) signs_in_as: Option<String>,
    /// How long it counts: a number and s, m, h, d or w
    #[arg(long = "for", value_name = "SPAN", default_value = "90d")]
    pub(crate) lasting: String,
    /// Whose book
    #[arg(long, value_name = "NAME", default_value = "local")]
    pub(crate) tenant: Slug,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WebhookCommand {
    /// Tell an address of questions; what its messages are signed with is printed once
    Add(AddWebhookArgs),
    /// List the webhooks, and how it went with each (the default)
    List,
    /// Remove a webhook; it is told nothing more
    Remove {
        /// Its id, as the list has it
        id: String,
    },
    /// Send a message that says that nothing happened
    Test {
        /// Its id, as the list has it; all of them if none is named
        id: Option<String>,
    },
}

#[derive(Debug, Group)]
pub(crate) struct AddWebhookArgs {
    /// The address: https, or http on this machine. `-` reads it from standard input, so that no list of programs has it
    pub(crate) url: String,
    /// Say it as incoming webhooks of Slack take it
    #[arg(long)]
    pub(crate) slack: bool,
    /// Whose questions
    #[arg(long, value_name = "NAME", default_value = "local")]
    pub(crate) tenant: Slug,
}

/// What a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeArg {
    /// Make calls, and see what came of them
    Submit,
    /// See questions in full, and answer those of others
    Answer,
    /// Read the book
    Read,
    /// Halt, revoke, cancel; for people only
    Administer,
    /// Drive calls, as a worker; with nothing else
    Work,
}
