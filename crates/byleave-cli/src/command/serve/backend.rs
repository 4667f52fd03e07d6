//! The backend of a server: the audit log of this machine, or a fleet.

#[cfg(feature = "fleet")]
mod fleet;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use byleave_gate::audit_log::AuditLog;
use byleave_gate::ledger::Ledger;
use byleave_server::listen::ListenError;
use byleave_worker::{SqliteOwnerBackend, WorkerRegistry};
#[cfg(feature = "fleet")]
use fleet::FleetBackend;

use super::ServeArgs;
use crate::app_context::AppContext;
use crate::console::Console;
use crate::error::CliError;
use crate::resolved_options::ResolvedOptions;
use crate::time::parse_duration;
use crate::workers::workers_file;

/// The backend of a server, for all of its tenants.
pub(super) enum ServeBackend {
    /// An audit log in each state directory. With a lease, workers drive the calls.
    Local(Option<Duration>),
    /// A durable engine and Postgres. Workers drive the calls.
    #[cfg(feature = "fleet")]
    Fleet(Box<FleetBackend>),
}

/// The backend of one tenant.
pub(super) struct TenantBackend {
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) audit_log: Arc<dyn AuditLog>,
    pub(super) workers: Option<WorkerRegistry>,
}

impl ServeBackend {
    /// Creates the backend from the options. In a fleet it waits until this server is the gateway.
    #[cfg(feature = "fleet")]
    pub(super) async fn typed(
        typed: &ServeArgs,
        options: &ResolvedOptions,
        screen: &mut Console,
    ) -> Result<Self> {
        let lease = lease(typed)?;
        Ok(match &typed.fleet {
            Some(file) => Self::Fleet(Box::new(FleetBackend::join(file, lease, options, screen).await?)),
            None => Self::Local(typed.workers.then_some(lease)),
        })
    }

    /// Creates the backend from the options.
    #[cfg(not(feature = "fleet"))]
    pub(super) async fn typed(
        typed: &ServeArgs,
        _options: &ResolvedOptions,
        _screen: &mut Console,
    ) -> Result<Self> {
        let lease = lease(typed)?;
        Ok(Self::Local(typed.workers.then_some(lease)))
    }

    /// Checks whether workers drive the calls.
    pub(super) const fn has_workers(&self) -> bool {
        match self {
            Self::Local(lease) => lease.is_some(),
            #[cfg(feature = "fleet")]
            Self::Fleet(_) => true,
        }
    }

    pub(super) async fn tenant_backend(&self, options: &ResolvedOptions) -> Result<TenantBackend> {
        match self {
            Self::Local(lease) => {
                let book = AppContext::open_or_create(options)?.audit_log;
                // Before there is a gate, because gates of other programs on this audit log must know it as well.
                leave_to_workers(options, lease.is_some())?;
                let dir = options.cwd.clone();
                let crew = lease.map(|lease| {
                    WorkerRegistry::with_directory(SqliteOwnerBackend(Arc::clone(&book)), lease, dir)
                });
                Ok(TenantBackend { ledger: Arc::clone(&book) as Arc<_>, audit_log: book, workers: crew })
            }
            #[cfg(feature = "fleet")]
            Self::Fleet(fleet) => fleet.tenant_backend(options).await,
        }
    }

    /// Serves as long as the backend is usable.
    #[cfg_attr(
        not(feature = "fleet"),
        expect(unused_variables, reason = "only a fleet has something to say at the end")
    )]
    pub(super) async fn serve(
        self,
        serving: impl Future<Output = Result<(), ListenError>>,
        screen: &mut Console,
    ) -> Result<()> {
        match self {
            Self::Local(_) => Ok(serving.await?),
            #[cfg(feature = "fleet")]
            Self::Fleet(fleet) => fleet.serve(serving, screen).await,
        }
    }
}

/// Returns how long a worker may be unreachable.
fn lease(typed: &ServeArgs) -> Result<Duration> {
    Ok(Duration::from_millis(parse_duration(&typed.worker_lease)?))
}

/// Marks calls over HTTP as calls for workers. Without workers it fails if they were marked before, because running calls would
/// be lost.
fn leave_to_workers(options: &ResolvedOptions, left: bool) -> Result<()> {
    let path = workers_file(options);
    if left {
        let made = fs::write(&path, "");
        return made.with_context(|| {
            format!("cannot write `{}`, which says that workers execute the calls", path.display())
        });
    }
    if path.exists() {
        let what = "workers execute the calls of this audit log, and may still run some";
        let hint = format!(
            "start the server with `--workers`; or, if no worker will come back, remove `{}`: the outcome of \
             their calls is then unknown",
            path.display()
        );
        return Err(CliError::new(what).hint(&hint).into());
    }
    Ok(())
}
