//! The tables of the SQLite audit log, and the setup of connections.
//!
//! `line` and `segment` are the audit log. `meta` identifies the keys that it was created with. Everything else is a
//! projection that `rebuild` builds again from the entries. A call that settles with its first commit writes to three
//! trees: the entries, their index, and the list of calls.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// The application id of the file, also for `file`: `Bylv`.
const APPLICATION_ID: i32 = 0x4279_6c76;
/// The version of the tables.
const SCHEMA_VERSION: i32 = 1;

/// A row of `line` that belongs to a record.
pub(super) const KIND_RECORD: i64 = 0;
/// A row of `line` that is an admin action.
pub(super) const KIND_ADMIN_ACTION: i64 = 1;

const LOG_TABLES: &str = "
CREATE TABLE meta(name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;

-- One row per append: all its lines, and the contents they speak of. What is looked at often stands first, before the
-- row runs over into further pages. `head` is the link of the last line; `key` stands on the first row of a record.
CREATE TABLE line(
    pos INTEGER PRIMARY KEY,
    call BLOB NOT NULL,
    kind INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    count INTEGER NOT NULL,
    head BLOB NOT NULL,
    key BLOB,
    body BLOB NOT NULL,
    contents BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX line_place ON line(call, seq);
CREATE INDEX line_act ON line(pos) WHERE kind = 1;

CREATE TABLE segment(number INTEGER PRIMARY KEY, body BLOB NOT NULL, signature BLOB NOT NULL) STRICT;
";

/// The projections. A row's `pos` is that of its row in `line`. `call` is the `pos` of the call's first row.
pub(super) const PROJECTIONS: &str = "
CREATE TABLE call(
    pos INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    agent TEXT NOT NULL,
    tool TEXT NOT NULL,
    operation TEXT NOT NULL,
    summary TEXT NOT NULL,
    opened_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    state INTEGER NOT NULL,
    outcome TEXT,
    code TEXT,
    due INTEGER
) STRICT;
-- From when on a call can be driven on; settled calls are not in it.
CREATE INDEX call_due ON call(due) WHERE due IS NOT NULL;

CREATE TABLE question(
    pos INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    call INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    kind INTEGER NOT NULL,
    asked_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    open INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX question_id ON question(id);
CREATE INDEX question_open ON question(pos) WHERE open = 1;
CREATE INDEX question_call ON question(call) WHERE open = 1;

-- The effects of calls that a person was asked about and that have not ended.
CREATE TABLE hold(
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    kind INTEGER NOT NULL,
    target TEXT NOT NULL,
    call INTEGER NOT NULL,
    PRIMARY KEY(tenant, session, kind, target, call)
) STRICT, WITHOUT ROWID;
CREATE INDEX hold_call ON hold(call);

-- Open attempts that run alone in their session.
CREATE TABLE seat(
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    call BLOB NOT NULL,
    attempt BLOB NOT NULL,
    owner BLOB NOT NULL,
    PRIMARY KEY(tenant, session, call)
) STRICT, WITHOUT ROWID;

-- Where leaves were given, and where they were used. Both only say where to look.
CREATE TABLE leave(
    tenant TEXT NOT NULL,
    tool TEXT NOT NULL,
    id BLOB NOT NULL,
    call BLOB NOT NULL,
    PRIMARY KEY(tenant, tool, id, call)
) STRICT, WITHOUT ROWID;
CREATE TABLE leave_use(
    leave BLOB NOT NULL,
    call BLOB NOT NULL,
    attempt BLOB NOT NULL,
    PRIMARY KEY(leave, call, attempt)
) STRICT, WITHOUT ROWID;
";

/// The names of the projections.
pub(super) const PROJECTION_TABLES: [&str; 6] = ["call", "question", "hold", "seat", "leave", "leave_use"];

/// The error for a file that is not an audit log, or one that this program cannot read.
#[derive(Debug, thiserror::Error)]
pub(super) enum DatabaseSchemaError {
    #[error("it is not a book")]
    NotAnAuditLog,
    #[error("it was written by a newer program (version {0})")]
    UnknownVersion(i32),
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Opens a connection for writing.
pub(super) fn connect(path: &Path, busy: Duration) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    // SQLite's own back-off goes up to 100 ms. Commits take far less, and another process should get its turn.
    let nap = Duration::from_micros(500);
    let naps_max = i32::try_from(busy.as_micros() / nap.as_micros()).unwrap_or(i32::MAX);
    connection.busy_handler(Some(move |naps| {
        std::thread::sleep(nap);
        naps < naps_max
    }))?;
    connection.set_prepared_statement_cache_capacity(64);
    // Query plans do not depend on bound values. Otherwise statements are compiled again at every use.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection
        .execute_batch("PRAGMA synchronous = FULL; PRAGMA secure_delete = ON; PRAGMA foreign_keys = OFF;")?;
    Ok(connection)
}

/// Opens a read-only connection.
pub(super) fn connect_reader(path: &Path, busy: Duration) -> Result<Connection, rusqlite::Error> {
    let connection = connect(path, busy)?;
    connection.execute_batch("PRAGMA query_only = ON;")?;
    Ok(connection)
}

/// Checks whether nothing was ever written. Fails if the file is not an audit log of Byleave.
pub(super) fn is_blank(connection: &Connection) -> Result<bool, DatabaseSchemaError> {
    let number = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i32>(0));
    match (number("application_id")?, number("user_version")?) {
        (APPLICATION_ID, SCHEMA_VERSION) => Ok(false),
        (APPLICATION_ID, newer) if newer > SCHEMA_VERSION => Err(DatabaseSchemaError::UnknownVersion(newer)),
        (0, 0) => {
            let sql = "SELECT count(*) FROM sqlite_schema";
            let tables: i64 = connection.query_row(sql, [], |row| row.get(0))?;
            if tables == 0 { Ok(true) } else { Err(DatabaseSchemaError::NotAnAuditLog) }
        }
        _ => Err(DatabaseSchemaError::NotAnAuditLog),
    }
}

/// Creates the tables if they do not exist.
pub(super) fn create_tables(connection: &Connection) -> Result<(), DatabaseSchemaError> {
    if !is_blank(connection)? {
        return Ok(());
    }
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {LOG_TABLES} {PROJECTIONS}
         PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    ))?;
    Ok(())
}
