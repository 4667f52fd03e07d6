//! A pool of read-only connections.

use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;

use super::schema;
use crate::ledger::LedgerError;

/// How many idle connections are kept. More are opened when needed and closed again.
const MAX_IDLE: usize = 4;

/// A pool of read-only connections.
pub(super) struct ReadConnectionPool {
    path: PathBuf,
    busy_timeout: Duration,
    idle: Mutex<Vec<Connection>>,
}

impl ReadConnectionPool {
    pub(super) const fn new(path: PathBuf, busy: Duration) -> Self {
        Self { path, busy_timeout: busy, idle: Mutex::new(Vec::new()) }
    }

    /// Reads with an exclusive connection.
    pub(super) fn with_connection<T>(&self, read: impl FnOnce(&Connection) -> T) -> Result<T, LedgerError> {
        let idle = self.idle.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => schema::connect_reader(&self.path, self.busy_timeout)
                .map_err(|error| LedgerError::new("cannot open the audit log", error))?,
        };
        let value = read(&connection);
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
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
        self.with_connection(read)?.map_err(|error| LedgerError::new(what, error))
    }
}
