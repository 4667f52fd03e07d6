//! A fleet, for as long as this server is its gateway.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use byleave_fleet::{Awaited, Fleet, Gateway};
use byleave_server::listen::ListenFault;
use byleave_worker::Roster;

use super::Plot;
use crate::command::fleet::fleet_of;
use crate::complaint::Complaint;
use crate::options::Options;
use crate::screen::{Screen, Tone, prose};

/// A durable engine and Postgres. Workers drive the calls.
pub(in crate::command::serve) struct OnFleet {
    fleet: Fleet,
    gateway: Gateway,
    lease: Duration,
}

impl OnFleet {
    /// Becomes the gateway of a fleet.
    pub(super) async fn begin(
        file: &Path,
        lease: Duration,
        options: &Options,
        screen: &mut Screen,
    ) -> Result<Self> {
        let fleet = fleet_of(file)?;
        let gateway = fleet.gateway(&fleet_dir(options))?;
        // Before anybody is let in: who lives is known to one gateway only.
        let wait = |awaited: Awaited<'_>| match awaited {
            Awaited::Place => "another gateway serves this fleet; waiting for its place".to_owned(),
            Awaited::Engine(fault) => format!("waiting for the engine: {fault}"),
        };
        gateway.take(|awaited| screen.say(&prose(&wait(awaited)))).await?;
        Ok(Self { fleet, gateway, lease })
    }

    pub(super) async fn plot(&self, options: &Options) -> Result<Plot> {
        let here = fleet_dir(options);
        let ledger = Arc::new(self.fleet.ledger(&options.tenant, &here)?);
        let held = self.gateway.held();
        let crew = Roster::in_dir(ledger.deputy(move || held.is_sure()), self.lease, options.cwd.clone());
        let book = self.fleet.book(&options.tenant, &here, Arc::clone(&ledger) as Arc<_>).await?;
        Ok(Plot { ledger, book: Arc::new(book), crew: Some(crew) })
    }

    /// Serves for as long as this is the gateway of its fleet.
    pub(super) async fn hold(
        self,
        serving: impl Future<Output = Result<(), ListenFault>>,
        screen: &mut Screen,
    ) -> Result<()> {
        tokio::select! {
            served = serving => served?,
            fault = self.gateway.keep() => {
                return Err(Complaint::new(fault.to_string())
                    .hint("the other one serves now; start this one again if it is to wait for its turn")
                    .into());
            }
        }
        // It has ended all the same.
        if let Err(fault) = self.gateway.leave().await {
            let what = "the engine could not be told, so another gateway waits some seconds for this place";
            screen.toned(Tone::Careful, "note:", &prose(&format!("{what}: {fault}")));
        }
        Ok(())
    }
}

/// Where a state directory keeps what it has of a fleet.
fn fleet_dir(options: &Options) -> PathBuf {
    options.state.join("fleet")
}
