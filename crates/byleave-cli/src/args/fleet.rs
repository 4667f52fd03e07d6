//! What is typed after `byleave fleet`.

use std::path::PathBuf;

use byleave_server::principal::Slug;
use clap::{Args as Group, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Say how its parts stand: engine, service, gateway, books; fails unless all are well
    Status(FleetArgs),
    /// Have its books sent what the engine still holds, after an old copy of them was put back
    Resend(FleetArgs),
}

#[derive(Debug, Group)]
pub(crate) struct FleetArgs {
    /// The file that says how it is reached, as for `byleave serve --fleet`
    pub(crate) file: PathBuf,
    /// A tenant beside `local`
    #[arg(long = "tenant", value_name = "NAME")]
    pub(crate) tenants: Vec<Slug>,
}
