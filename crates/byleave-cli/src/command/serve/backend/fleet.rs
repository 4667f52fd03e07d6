//! A fleet, as long as this server is its gateway.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use byleave_fleet::{Awaited, Fleet, Gateway};
use byleave_server::listen::ListenError;
use byleave_worker::WorkerRegistry;

use super::TenantBackend;
use crate::command::serve::fleet::load_fleet;
use crate::console::{Console, Tone, prose};
use crate::error::CliError;
use crate::resolved_options::ResolvedOptions;

/// A durable engine and Postgres. Workers drive the calls.
pub(in crate::command::serve) struct FleetBackend {
    fleet: Fleet,
    gateway: Gateway,
    lease: Duration,
}

impl FleetBackend {
    /// Becomes the gateway of a fleet.
    pub(super) async fn join(
        file: &Path,
        lease: Duration,
        options: &ResolvedOptions,
        screen: &mut Console,
    ) -> Result<Self> {
        let fleet = load_fleet(file)?;
        let gateway = fleet.gateway(&fleet_dir(options))?;
        // Before any client is accepted, because only one gateway knows which workers are alive.
        let wait = |awaited: Awaited<'_>| match awaited {
            Awaited::Place => "another gateway serves this fleet; waiting to take over".to_owned(),
            Awaited::Engine(fault) => format!("waiting for the engine: {fault}"),
        };
        gateway.take(|awaited| screen.message(&prose(&wait(awaited)))).await?;
        Ok(Self { fleet, gateway, lease })
    }

    pub(super) async fn tenant_backend(&self, options: &ResolvedOptions) -> Result<TenantBackend> {
        let here = fleet_dir(options);
        let ledger = Arc::new(self.fleet.ledger(&options.tenant, &here)?);
        let held = self.gateway.held();
        let crew = WorkerRegistry::with_directory(
            ledger.deputy(move || held.is_sure()),
            self.lease,
            options.cwd.clone(),
        );
        let book = self.fleet.book(&options.tenant, &here, Arc::clone(&ledger) as Arc<_>).await?;
        Ok(TenantBackend { ledger, audit_log: Arc::new(book), workers: Some(crew) })
    }

    /// Serves as long as this server is the gateway of its fleet.
    pub(super) async fn serve(
        self,
        serving: impl Future<Output = Result<(), ListenError>>,
        screen: &mut Console,
    ) -> Result<()> {
        tokio::select! {
            served = serving => served?,
            fault = self.gateway.keep() => {
                return Err(CliError::new(fault.to_string())
                    .hint("another gateway serves now; start this one again if it should wait for its turn")
                    .into());
            }
        }
        // The server has ended anyway.
        if let Err(fault) = self.gateway.leave().await {
            let what = "the engine could not be notified, so another gateway waits some seconds before it takes over";
            screen.message_with_tone(Tone::Careful, "note:", &prose(&format!("{what}: {fault}")));
        }
        Ok(())
    }
}

/// Returns the directory for fleet data in a state directory.
fn fleet_dir(options: &ResolvedOptions) -> PathBuf {
    options.state.join("fleet")
}
