//! The arguments of `byleave fleet`.

use std::path::PathBuf;

use byleave_server::principal::Slug;
use clap::{Args as Group, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Show the health of a fleet
    ///
    /// Checks the engine, the service, the gateway and the audit log of each tenant. Exits with 1 unless all are healthy.
    Status(FleetArgs),
    /// Send entries that the engine holds to the audit logs again
    ///
    /// Use this after you have restored the audit logs from a backup.
    Resend(FleetArgs),
}

#[derive(Debug, Group)]
pub(crate) struct FleetArgs {
    /// Fleet file, as for `byleave serve --fleet`
    pub(crate) file: PathBuf,
    /// Tenant to include, besides `local`
    #[arg(long = "tenant", value_name = "NAME")]
    pub(crate) tenants: Vec<Slug>,
}
