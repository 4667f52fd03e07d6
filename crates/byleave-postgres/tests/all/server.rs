//! The server that the tests share, and an audit log for each test. `cargo nextest run` starts it with `scripts/postgres
//! tests`.

use std::path::Path;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use byleave_gate::audit_log::anchor_file::AnchorFile;
use byleave_gate::audit_log::encryption::KeyVault;
use byleave_gate::ledger::{Ledger, LedgerError};
use byleave_postgres::{PgAuditLog, PgAuditLogOptions, PgConnectOptions};
use sqlx_core::connection::{ConnectOptions as _, Connection as _};
use sqlx_core::query::query;
use sqlx_postgres::PgConnection;
use tempfile::TempDir;

/// The URL of the server, which `scripts/postgres` has written to the target directory.
fn url() -> String {
    let binary = std::env::current_exe().unwrap();
    // This binary is target/debug/deps/all-….
    let said = binary.ancestors().nth(3).expect("a target directory").join("postgres.url");
    let Ok(url) = std::fs::read_to_string(&said) else {
        panic!("there is no server (nothing at `{}`); start it: scripts/postgres up", said.display())
    };
    url.trim().to_owned()
}

/// An empty schema on the existing server, and a directory for data outside of it.
pub(crate) struct PgSchema {
    pub(crate) schema: String,
    pub(crate) dir: TempDir,
}

impl PgSchema {
    pub(crate) async fn new() -> Self {
        let schema = format!("t{}", uuid::Uuid::now_v7().simple());
        let mut connection = PgConnectOptions::from_str(&url()).unwrap().connect().await.unwrap();
        query(&format!("CREATE SCHEMA {schema}")).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        Self { schema, dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn connect(&self) -> PgConnectOptions {
        connect(&self.schema)
    }

    /// Opens a separate connection.
    pub(crate) async fn connection(&self) -> PgConnection {
        self.connect().connect().await.unwrap()
    }

    /// Executes SQL directly, without the audit log.
    pub(crate) async fn execute(&self, sql: &str) -> u64 {
        query(sql).execute(&mut self.connection().await).await.unwrap().rows_affected()
    }

    pub(crate) async fn open(&self) -> PgAuditLog {
        PgAuditLog::open(options(&self.schema, self.dir.path(), None)).await.unwrap()
    }

    pub(crate) async fn open_with(&self, ledger: Arc<dyn Ledger>) -> Result<PgAuditLog, LedgerError> {
        PgAuditLog::open(options(&self.schema, self.dir.path(), Some(ledger))).await
    }
}

fn connect(schema: &str) -> PgConnectOptions {
    PgConnectOptions::from_str(&url()).unwrap().options([("search_path", schema)])
}

/// The options with which every audit log in the tests is opened.
pub(crate) fn options(schema: &str, dir: &Path, ledger: Option<Arc<dyn Ledger>>) -> PgAuditLogOptions {
    PgAuditLogOptions {
        connect: connect(schema),
        unsealer: Arc::new(vault()),
        signing_key: [5; 32].into(),
        anchor_store: Arc::new(AnchorFile::new(dir.join("anchor.json"))),
        ledger,
        seal_interval: None,
        lease: Duration::from_secs(10),
        max_readers: 4,
    }
}

/// The key vault that writers and readers share.
pub(crate) fn vault() -> KeyVault {
    KeyVault::new([7; 32].into())
}
