//! `byleave serve worker`: drives the calls of a remote server with the tools and files of this machine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use byleave_worker::websocket::{SocketConnector, tls_config};
use byleave_worker::{Capabilities, ConnectionStatus, RemoteLedger, RemoteLedgerOptions as Place};
use clap::Args as Group;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::active_policy::ActivePolicy;
use crate::app_context::{AppContext, recover_and_gc_copies, state_dir, with_tools};
use crate::args::AskArg;
use crate::console::{Console, one_line, prose};
use crate::drive_call::record_waivers;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::private_file::read_private;
use crate::resolved_options::ResolvedOptions;
use crate::{reviewers, signals, tool_catalog};

#[derive(Debug, Group)]
pub(crate) struct WorkerArgs {
    /// Server URL: https, or http on this machine, as in https://gate.example.org:7411
    #[arg(long, value_name = "URL")]
    pub(crate) server: String,
    /// File with the token (`byleave serve token add NAME --scope work`); only its owner may read it
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

/// The path of the worker endpoint on a server.
const DOOR: &str = "v1/workers/connect";
/// How long an unreachable server is retried for entries that must be written, so that results are not lost.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

pub(crate) async fn run(
    typed: WorkerArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let options = &options.for_many();
    let token = read_private(&typed.token).map_err(|why| {
        CliError::new(format!("cannot use the token in `{}`: {why}", typed.token.display()))
            .hint("the file must contain only the token, and only its owner may read it: `chmod 600`")
    })?;
    let unusable = |why: String| {
        CliError::new(why).hint("`--server` is the URL of the server: https, or http on this machine")
    };
    let trusted = tls_config(typed.tls_ca.as_deref()).map_err(|fault| {
        CliError::new(fault.to_string())
            .hint("`--tls-ca` is a PEM file with the server's certificate, or its authority's")
    })?;
    let address = format!("{}/{DOOR}", typed.server.trim_end_matches('/'));
    let dial = SocketConnector::new(&address, token, trusted).map_err(|fault| unusable(fault.to_string()))?;

    let known = tool_catalog::catalog(options, &options.cwd, None)?;
    let skills = Capabilities {
        tools: known.list().iter().map(|entry| entry.name().to_owned()).collect(),
        capacity: typed.capacity,
        dir: options.cwd.clone(),
        labels: typed.labels.into_iter().collect(),
    };
    let place = Place { dir: options.state.join("worker"), response_timeout: PATIENCE };
    let (ledger, offers) = RemoteLedger::open_as_worker(&place, skills, dial)?;
    recover_and_gc_copies(options, screen)?;
    let rules = ActivePolicy { options, workspace: &options.cwd, state: &state_dir(options)? }.load()?;
    let builder =
        with_tools(options, &options.cwd, AskArg::Inbox, options.settings.gate(), Arc::new(ledger))?
            .policy(rules.policy);
    let gate = AppContext::build_gate(reviewers::attach(builder, &options.settings, &options.cwd)?)?;
    let (reach, (leave, at_once)) = (offers.status(), signals::two_stage_shutdown()?);
    let work = async {
        // Before the first call is taken.
        tokio::select! {
            waived = record_waivers(&gate, options) => waived?,
            () = leave.cancelled() => return Ok(ExitStatus::Completed),
        }
        offers.run(gate.clone(), leave.clone()).await;
        Ok(ExitStatus::Completed)
    };
    let place = format!("working in {} for {}", options.cwd, one_line(&typed.server));
    tokio::select! {
        done = work => done,
        () = at_once.cancelled() => Ok(ExitStatus::Unknown),
        never = tell(reach, &leave, &place, screen) => never,
    }
}

/// Reports the state of the connection whenever it changes, and what is waited for at the end.
async fn tell(
    mut reach: watch::Receiver<ConnectionStatus>,
    leave: &CancellationToken,
    place: &str,
    screen: &mut Console,
) -> Result<ExitStatus> {
    loop {
        let now = reach.borrow_and_update().clone();
        match now {
            ConnectionStatus::Unknown => {}
            ConnectionStatus::Connected => screen.message(&prose(place)),
            ConnectionStatus::Unreachable(why) => {
                screen.message(&prose(&format!("cannot use the server: {}; retrying", one_line(&why))));
            }
        }
        tokio::select! {
            changed = reach.changed() => if changed.is_err() { return std::future::pending().await },
            () = leave.cancelled() => break,
        }
    }
    screen.message(
        "shutting down: no new calls are accepted; waiting until the server has the results of running calls",
    );
    screen.message("a second signal exits at once, and leaves their outcome unknown");
    std::future::pending().await
}
