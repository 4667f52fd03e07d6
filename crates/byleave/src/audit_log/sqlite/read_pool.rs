//! A pool of read-only connections.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::Connection;

use super::schema;
use crate::ledger::LedgerError;
use crate::lock::locked;

/// How many idle connections are kept. More are opened when needed and closed again.
const KEPT_MAX: usize = 4;

/// A pool of read-only connections.
pub(super) struct ReadConnectionPool {
    path: PathBuf,
    busy: Duration,
    idle: Mutex<Vec<Connection>>,
}

impl ReadConnectionPool {
    pub(super) const fn new(path: PathBuf, busy: Duration) -> Self {
        Self { path, busy, idle: Mutex::new(Vec::new()) }
    }

    /// Reads with an exclusive connection.
    pub(super) fn with<T>(&self, read: impl FnOnce(&Connection) -> T) -> Result<T, LedgerError> {
        let idle = locked(&self.idle).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => schema::connect_reader(&self.path, self.busy)
                .map_err(|error| LedgerError::new("cannot open the book", error))?,
        };
        let value = read(&connection);
        let mut idle = locked(&self.idle);
        if idle.len() < KEPT_MAX {
            idle.push(connection);
        }
        Ok(value)
    }

    /// Does the same for reads that can fail. `what` describes the operation in the error.
    pub(super) fn read<T>(
        &self,
        what: &str,
        read: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, LedgerError> {
        self.with(read)?.map_err(|error| LedgerError::new(what, error))
    }
}
