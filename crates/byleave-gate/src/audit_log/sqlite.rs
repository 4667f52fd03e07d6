//! A ledger and audit log in one SQLite file, in a state directory that only its owner can access.
//!
//! ```text
//! audit.sqlite   the entries, the segments, and the projections for lookups
//! audit.key      wraps the keys of records
//! signing.key     signs segments
//! anchor.json   the identity of the newest segment; meant to be kept elsewhere
//! owners/       one lock per process that may hold claims
//! open.lock     held while a process opens the audit log
//! sealer.lock   held while a process seals
//! ```
//!
//! Several processes may share the directory. When an append returns, it is on the disk. This module must never trust a
//! projection for a decision: permissions, answers and admin actions in force come from entries that verify.

mod admin_actions;
mod ledger;
mod pending_effects;
mod projections;
mod queries;
mod read_pool;
mod reader;
mod row;
mod schema;
mod seal;
mod seal_thread;
mod standing_approvals;
mod state_dir;
mod verify;
mod write_op;
mod writer;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use byleave_core::digest::RecordKey;
use byleave_core::id::{CallId, OwnerId};
use ed25519_dalek::SigningKey;
use lru::LruCache;
use parking_lot::Mutex;
use rusqlite::Connection;
use uuid::Uuid;

use self::read_pool::ReadConnectionPool;
use self::schema::DatabaseSchemaError;
use self::seal::Sealer;
use self::seal_thread::SealThread;
use self::write_op::WriteContext;
use self::writer::SqliteWriter;
use crate::audit_log::anchor_file::AnchorFile;
use crate::audit_log::encryption::KeyVault;
use crate::ledger::LedgerError;
use crate::ledger::owner_locks::{self, OwnerLiveness, OwnerLock};

/// The options of a SQLite audit log.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The path of the anchor. `None` means the state directory, where it does not protect against a writer of that directory.
    pub anchor: Option<PathBuf>,
    /// How long an entry may stay unsealed. `None` means until [`crate::audit_log::AuditLog::seal`] is called.
    pub seal_every: Option<Duration>,
    /// How long to wait for another process that is writing.
    pub busy_timeout: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { anchor: None, seal_every: Some(Duration::from_secs(1)), busy_timeout: Duration::from_secs(10) }
    }
}

/// A ledger and audit log in one SQLite file.
pub struct SqliteLedger {
    // Dropped in this order: the last seal needs the store, and this owner's claims must last until nothing more is written.
    seal_thread: Option<SealThread>,
    store: Arc<SqliteStore>,
    owner: OwnerId,
    _lock: OwnerLock,
}

/// The state shared by the ledger, the audit log and the seal thread.
struct SqliteStore {
    owners_dir: PathBuf,
    /// Reports which owners are alive elsewhere.
    remote_owner_check: OnceLock<OwnerLiveness>,
    path: PathBuf,
    busy_timeout: Duration,
    readers: ReadConnectionPool,
    writer: SqliteWriter,
    context: Arc<WriteContext>,
    sealer: Sealer,
    /// The keys of calls that this process runs.
    key_cache: Mutex<LruCache<CallId, RecordKey>>,
}

const FILE: &str = "audit.sqlite";
/// The file of the format 1, which was never released.
const OLD_FILE: &str = "book.sqlite";
/// The space that opening the audit log needs, for its shared index.
const WRITE_BYTES: u64 = 64 << 10;

const KEYS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1_024 - 1);

/// Returns the version of the built-in SQLite.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}

/// Checks whether a state directory has an audit log, of this format or of another.
pub fn has_audit_log(dir: &Path) -> bool {
    [FILE, OLD_FILE].iter().any(|name| dir.join(name).exists())
}

/// Checks whether there is space for a write on the disk of a directory. If the kernel does not tell, there is.
fn has_space(dir: &Path) -> bool {
    rustix::fs::statvfs(dir).map_or(true, |disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= WRITE_BYTES)
}

impl SqliteLedger {
    /// Opens the audit log in a state directory. Creates both if they do not exist.
    pub fn open(dir: &Path, options: &SqliteOptions) -> Result<Self, LedgerError> {
        if dir.join(OLD_FILE).exists() {
            let error = DatabaseSchemaError::OtherFormat("1".into());
            return Err(LedgerError::new(
                format!("cannot use the state directory `{}`", dir.display()),
                error,
            ));
        }
        state_dir::create_private_dir(dir)?;
        let owners = dir.join("owners");
        state_dir::create_private_dir(&owners)?;
        // Only one process at a time, because two that open a new audit log at once must not create two keys.
        let opening = owner_locks::open_lock(&dir.join("open.lock"))
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|error| LedgerError::new(format!("cannot lock `{}`", dir.display()), error))?;

        let path = dir.join(FILE);
        state_dir::create_private_file(&path)?;
        let cannot_open = |error: DatabaseSchemaError| {
            // SQLite calls this an error of the device.
            let full = if has_space(dir) { "" } else { " because the disk is full; free some space on it" };
            LedgerError::new(format!("cannot open `{}`{full}", path.display()), error)
        };
        let connection = schema::connect(&path, options.busy_timeout)
            .map_err(|error| cannot_open(DatabaseSchemaError::Sqlite(error)))?;
        let is_new = schema::is_blank(&connection).map_err(cannot_open)?;
        let master = state_dir::read_or_create_key(&dir.join("audit.key"), is_new)?;
        let sign = state_dir::read_or_create_key(&dir.join("signing.key"), is_new)?;
        if is_new {
            schema::create_tables(&connection).map_err(cannot_open)?;
        }
        let vault = KeyVault::new(master);
        let sign = SigningKey::from_bytes(&sign);
        check_key_mark(&connection, "key", &vault.fingerprint())?;
        check_key_mark(&connection, "sign", sign.verifying_key().as_bytes())?;

        let cannot_lock =
            |error| LedgerError::new(format!("cannot create a lock in `{}`", owners.display()), error);
        owner_locks::remove_stale_locks(&owners).map_err(cannot_lock)?;
        let owner = OwnerId::new(Uuid::now_v7());
        let lock = owner_locks::acquire(&owners, owner)
            .map_err(cannot_lock)?
            .ok_or_else(|| LedgerError::new("cannot register as an owner", "the id is already in use"))?;
        drop(opening);

        let anchor = options.anchor.clone().unwrap_or_else(|| dir.join("anchor.json"));
        let bell = Arc::new(seal_thread::WriteSignal::default());
        let bench = Arc::new(WriteContext {
            vault,
            action_cache: admin_actions::ActionCache::default(),
            approval_cache: standing_approvals::ApprovalCache::default(),
        });
        let on_write = Box::new({
            let bell = Arc::clone(&bell);
            move || bell.notify()
        });
        let writer = SqliteWriter::start(
            path.clone(),
            options.busy_timeout,
            connection,
            Arc::clone(&bench),
            on_write,
        )?;
        let store = Arc::new(SqliteStore {
            owners_dir: owners,
            remote_owner_check: OnceLock::new(),
            readers: ReadConnectionPool::new(path.clone(), options.busy_timeout),
            path,
            busy_timeout: options.busy_timeout,
            writer,
            context: bench,
            sealer: Sealer::new(sign, dir.join("sealer.lock"), AnchorFile::new(anchor)),
            key_cache: Mutex::new(LruCache::new(KEYS_MAX)),
        });
        let keeper = match options.seal_every {
            None => None,
            Some(every) => Some(SealThread::start(Arc::clone(&store), bell, every)?),
        };
        Ok(Self { seal_thread: keeper, store, owner, _lock: lock })
    }

    /// Returns the same ledger for an owner that is elsewhere. That owner is alive for at least as long as this is held.
    pub fn for_owner(&self, owner: OwnerId) -> Result<Self, LedgerError> {
        let lock = owner_locks::acquire_with_retry(&self.store.owners_dir, owner)
            .map_err(|error| LedgerError::new("cannot take the lock of an owner", error))?
            .ok_or_else(|| LedgerError::new("cannot write for an owner", "another process already does"))?;
        Ok(Self { seal_thread: None, store: Arc::clone(&self.store), owner, _lock: lock })
    }

    /// Also treats owners as alive if `is_alive` says so. Only the first such function is used; returns whether this was it.
    pub fn set_remote_owner_check(&self, is_alive: OwnerLiveness) -> bool {
        self.store.remote_owner_check.set(is_alive).is_ok()
    }
}

impl Drop for SqliteLedger {
    fn drop(&mut self) {
        // Seals once more and is joined before anything else is dropped.
        drop(self.seal_thread.take());
    }
}

impl SqliteStore {
    fn forget_key(&self, call: CallId) {
        self.key_cache.lock().pop(&call);
    }
}

/// Checks that a key is the one that this audit log was created with.
fn check_key_mark(connection: &Connection, name: &str, mark: &[u8; 32]) -> Result<(), LedgerError> {
    let find = || -> Result<Vec<u8>, rusqlite::Error> {
        connection.execute(
            "INSERT INTO meta(name, value) VALUES(?1, ?2) ON CONFLICT DO NOTHING",
            rusqlite::params![name, mark],
        )?;
        connection.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0))
    };
    let found = find().map_err(|error| LedgerError::new("cannot open the audit log", error))?;
    if found == mark {
        return Ok(());
    }
    let file = if name == "sign" { "signing.key" } else { "audit.key" };
    let why = format!("`{file}` is not the key that the audit log was created with");
    Err(LedgerError::new("cannot open the audit log", why))
}
