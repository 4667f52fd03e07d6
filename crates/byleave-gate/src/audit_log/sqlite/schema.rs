//! The tables of the SQLite audit log, and the setup of connections.
//!
//! `batch` and `segment` are the audit log. `meta` identifies the keys that it was created with. Everything else is a
//! projection that `rebuild` builds again from the entries. A call that settles with its first commit writes to three
//! trees: the entries, their index, and the list of calls.

use std::path::Path;
use std::time::Duration;

use byleave_core::format;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

/// The application id of the file, also for `file`: `Bylv`.
const APPLICATION_ID: i32 = 0x4279_6c76;
/// The version of the tables. Version 1 was never released.
const SCHEMA_VERSION: i32 = 2;

/// A row of `batch` that belongs to a record.
pub(super) const KIND_RECORD: i64 = 0;
/// A row of `batch` that is an admin action.
pub(super) const KIND_ADMIN_ACTION: i64 = 1;

const LOG_TABLES: &str = "
CREATE TABLE meta(name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;

-- One row per append: a batch of entries and the contents that they refer to. Columns that are read often come first,
-- before the row overflows into further pages. `head` is the link of the last entry. Only the first row of a record has a `key`.
CREATE TABLE batch(
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
CREATE UNIQUE INDEX batch_place ON batch(call, seq);
CREATE INDEX batch_admin_action ON batch(pos) WHERE kind = 1;

CREATE TABLE segment(number INTEGER PRIMARY KEY, body BLOB NOT NULL, signature BLOB NOT NULL) STRICT;
";

/// The projections. A row's `pos` is that of its row in `batch`. `call` is the `pos` of the call's first row.
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
-- The time from which a call can be continued. NULL for settled calls.
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
CREATE TABLE pending_effect(
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    kind INTEGER NOT NULL,
    target TEXT NOT NULL,
    call INTEGER NOT NULL,
    PRIMARY KEY(tenant, session, kind, target, call)
) STRICT, WITHOUT ROWID;
CREATE INDEX pending_effect_call ON pending_effect(call);

-- Open attempts that run alone in their session.
CREATE TABLE exclusive_attempt(
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    call BLOB NOT NULL,
    attempt BLOB NOT NULL,
    owner BLOB NOT NULL,
    PRIMARY KEY(tenant, session, call)
) STRICT, WITHOUT ROWID;

-- The sessions that have read text of strangers, and the sessions above them.
CREATE TABLE foreign_text(
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    PRIMARY KEY(tenant, session)
) STRICT, WITHOUT ROWID;

-- The calls in which standing approvals were given and used. The records are authoritative.
CREATE TABLE standing_approval(
    tenant TEXT NOT NULL,
    tool TEXT NOT NULL,
    id BLOB NOT NULL,
    call BLOB NOT NULL,
    PRIMARY KEY(tenant, tool, id, call)
) STRICT, WITHOUT ROWID;
CREATE TABLE standing_approval_use(
    approval BLOB NOT NULL,
    call BLOB NOT NULL,
    attempt BLOB NOT NULL,
    PRIMARY KEY(approval, call, attempt)
) STRICT, WITHOUT ROWID;
";

/// The names of the projections.
pub(super) const PROJECTION_TABLES: [&str; 7] = [
    "call",
    "question",
    "pending_effect",
    "exclusive_attempt",
    "foreign_text",
    "standing_approval",
    "standing_approval_use",
];

/// The error for a file that is not an audit log, or one that this program cannot read.
#[derive(Debug, thiserror::Error)]
pub(super) enum DatabaseSchemaError {
    #[error("the file is not an audit log")]
    NotAnAuditLog,
    #[error(
        "the audit log has the format {0}, but this program reads {now}; move the state directory away to start a new audit log, or use the program that wrote it",
        now = stored_format()
    )]
    OtherFormat(String),
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

/// Returns the name of the format with the beginning of its digest, as the audit log stores it.
fn stored_format() -> String {
    let digest = format::digest(&format!("{LOG_TABLES}{PROJECTIONS}")).to_string();
    format!("{} ({})", format::NAME, digest.chars().take(16).collect::<String>())
}

/// Checks whether nothing was ever written. Fails if the file is not an audit log of Byleave.
pub(super) fn is_blank(connection: &Connection) -> Result<bool, DatabaseSchemaError> {
    let number = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i32>(0));
    match (number("application_id")?, number("user_version")?) {
        (APPLICATION_ID, SCHEMA_VERSION) => {
            let sql = "SELECT value FROM meta WHERE name = 'format'";
            let found: Option<Vec<u8>> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
            let found =
                found.map_or_else(|| "2".to_owned(), |text| String::from_utf8_lossy(&text).into_owned());
            if found == stored_format() { Ok(false) } else { Err(DatabaseSchemaError::OtherFormat(found)) }
        }
        (APPLICATION_ID, other) => Err(DatabaseSchemaError::OtherFormat(other.to_string())),
        (0, 0) => {
            let sql = "SELECT count(*) FROM sqlite_schema";
            let tables: i64 = connection.query_row(sql, [], |row| row.get(0))?;
            if tables == 0 { Ok(true) } else { Err(DatabaseSchemaError::NotAnAuditLog) }
        }
        _ => Err(DatabaseSchemaError::NotAnAuditLog),
    }
}

/// Creates the tables in a file that [is blank](is_blank).
pub(super) fn create_tables(connection: &Connection) -> Result<(), DatabaseSchemaError> {
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    let format = stored_format();
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {LOG_TABLES} {PROJECTIONS}
         INSERT INTO meta(name, value) VALUES('format', CAST('{format}' AS BLOB));
         PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    ))?;
    Ok(())
}
