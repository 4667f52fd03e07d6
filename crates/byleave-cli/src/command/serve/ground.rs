//! What a server stands on: the book of this machine, or a fleet.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use byleave::book::Book;
use byleave::ledger::Ledger;
use byleave_fleet::{Fleet, Gateway, Held};
use byleave_worker::{Roster, SqliteDeputy};

use crate::complaint::Complaint;
use crate::house::{House, leave_to_workers};
use crate::options::Options;
use crate::private::read_private;

/// What a server stands on, for all of its tenants.
pub(super) enum Ground {
    /// A book in each state directory; with a lease, workers drive the calls.
    Here(Option<Duration>),
    /// A durable engine and Postgres. Workers drive the calls.
    Fleet { fleet: Fleet, held: Held, lease: Duration },
}

/// The same for one tenant.
pub(super) struct Plot {
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) book: Arc<dyn Book>,
    pub(super) crew: Option<Roster>,
}

impl Ground {
    pub(super) async fn plot(&self, options: &Options) -> Result<Plot> {
        let dir = options.cwd.clone();
        match self {
            Self::Here(lease) => {
                let book = House::open_or_make(options)?.book;
                // Before there is a gate, and for the gates of other programs on this book as well.
                leave_to_workers(options, lease.is_some())?;
                let crew = lease.map(|lease| Roster::in_dir(SqliteDeputy(Arc::clone(&book)), lease, dir));
                Ok(Plot { ledger: Arc::clone(&book) as Arc<_>, book, crew })
            }
            Self::Fleet { fleet, held, lease } => {
                let here = fleet_dir(options);
                let ledger = Arc::new(fleet.ledger(&options.tenant, &here)?);
                let held = held.clone();
                let crew = Roster::in_dir(ledger.deputy(move || held.is_sure()), *lease, dir);
                let book = fleet.book(&options.tenant, &here, Arc::clone(&ledger) as Arc<_>).await?;
                Ok(Plot { ledger, book: Arc::new(book), crew: Some(crew) })
            }
        }
    }
}

/// Reads the file of a fleet.
pub(super) fn fleet_of(path: &Path) -> Result<Fleet> {
    let flawed = |why: String| {
        Complaint::new(format!("cannot use the fleet in `{}`: {why}", path.display())).hint(
            "docs/operations.md says what is in it; it holds keys, and only its owner may read it: `chmod 600`",
        )
    };
    let text = read_private(path).map_err(|error| flawed(error.to_string()))?;
    let text = std::str::from_utf8(text.expose()).map_err(|error| flawed(error.to_string()))?;
    Ok(Fleet::parse(text).map_err(|fault| flawed(fault.to_string()))?)
}

/// Wants to be the gateway of a fleet.
pub(super) fn gateway_of(fleet: &Fleet, options: &Options) -> Result<Gateway> {
    Ok(fleet.gateway(&fleet_dir(options))?)
}

/// Where a state directory keeps what it has of a fleet.
fn fleet_dir(options: &Options) -> std::path::PathBuf {
    options.state.join("fleet")
}
