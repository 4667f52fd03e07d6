//! The tables and their connections. Migrations create the tables, and only one process at a time runs them.

use std::borrow::Cow;

use byleave_core::digest::Digest;
use byleave_core::id::TenantId;
use byleave_gate::ledger::LedgerError;
use sqlx_core::migrate::{Migration, MigrationType, Migrator};
use sqlx_core::query::query;
use sqlx_core::query_scalar::query_scalar;
use sqlx_postgres::{PgConnectOptions, PgConnection, PgPool};

/// The number of shards that tenants are spread over. A change would move every record, because the tables are created for
/// it.
pub const SHARDS: i16 = 8;

/// The kind of a row of `line` that belongs to a record.
pub(crate) const KIND_RECORD: i16 = 0;
/// The kind of a row of `line` that is an admin action.
pub(crate) const KIND_ADMIN_ACTION: i16 = 1;

/// Returns the shard of a tenant.
pub fn shard_for_tenant(tenant: &TenantId) -> i16 {
    let digest = Digest::compute_parts("byleave.shard", &[tenant.as_str().as_bytes()]);
    let [first, ..] = digest.as_bytes();
    i16::from(*first) % SHARDS
}

/// Configures a connection so that a commit is on disk, whatever the server or the role is set to. A client whose host or
/// network fails within a transaction does not lock the end of the audit log for hours.
pub(crate) fn with_durable_commits(connect: PgConnectOptions) -> PgConnectOptions {
    let silence = "idle_in_transaction_session_timeout";
    connect.options([("synchronous_commit", "on"), ("jit", "off"), (silence, "60s")])
}

/// Settings that make the server look up by key and along an index, even before it has statistics of its tables.
const BY_KEY: [&str; 5] =
    ["enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "enable_sort"];

/// Configures a connection that looks up by key and along the index of the list that it pages through. Without statistics,
/// the planner's estimates are not worth a full table scan.
pub(crate) fn with_index_scans(connect: PgConnectOptions) -> PgConnectOptions {
    // Planning for hundreds of partitions takes longer than searching all of them, so it is done once. Some statements name
    // partitions, so there are many statements.
    let once = [("plan_cache_mode", "force_generic_plan")];
    connect.options(BY_KEY.map(|way| (way, "off"))).options(once).statement_cache_capacity(500)
}

/// Lets a transaction use any plan, for full scans.
pub(crate) async fn allow_full_scans(transaction: &mut PgConnection) -> Result<(), sqlx_core::Error> {
    for way in BY_KEY {
        query(&format!("SET LOCAL {way} = on")).execute(&mut *transaction).await?;
    }
    Ok(())
}

/// Creates the schema of the connection if it is missing. One process at a time, because two at once would fail.
const MAKE_SCHEMA: &str = "DO $$ BEGIN
    IF current_schema() IS NULL THEN
        PERFORM pg_advisory_xact_lock(7217351);
        EXECUTE format('CREATE SCHEMA IF NOT EXISTS %I', current_setting('search_path'));
    END IF;
END $$";

/// Creates or migrates the tables, and creates the partitions of this month and the next.
pub(crate) async fn create_tables(pool: &PgPool) -> Result<(), LedgerError> {
    query(MAKE_SCHEMA)
        .execute(pool)
        .await
        .map_err(|error| LedgerError::new("cannot create the schema of the audit log", error))?;
    let book = Migration::new(
        1,
        Cow::Borrowed("book"),
        MigrationType::Simple,
        Cow::Borrowed(include_str!("../migrations/0001_book.sql")),
        false,
    );
    let migrator = Migrator { migrations: Cow::Owned(vec![book]), ..Migrator::DEFAULT };
    migrator
        .run(pool)
        .await
        .map_err(|error| LedgerError::new("cannot create the tables of the audit log", error))?;
    let months = async {
        let mut connection = pool.acquire().await?;
        let month = query_scalar::<_, i32>("SELECT this_month()").fetch_one(&mut *connection).await?;
        create_month_partitions(&mut connection, month).await
    };
    months.await.map_err(|error| LedgerError::new("cannot create the tables of this month", error))
}

/// Creates the missing partitions of a month and of the next one.
pub(crate) async fn create_month_partitions(
    connection: &mut PgConnection,
    month: i32,
) -> Result<(), sqlx_core::Error> {
    query("SELECT prepare_month($1), prepare_month($1 + 1)").bind(month).execute(connection).await?;
    Ok(())
}

/// Checks that a key is the one that this audit log was created with.
pub(crate) async fn check_key_fingerprint(
    pool: &PgPool,
    name: &str,
    mark: &[u8; 32],
) -> Result<(), LedgerError> {
    let find = async {
        query("INSERT INTO meta(name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(name)
            .bind(mark.as_slice())
            .execute(pool)
            .await?;
        let sql = "SELECT value FROM meta WHERE name = $1";
        query_scalar::<_, Vec<u8>>(sql).bind(name).fetch_one(pool).await
    };
    let found = find.await.map_err(|error| LedgerError::new("cannot open the audit log", error))?;
    if found == mark {
        return Ok(());
    }
    Err(LedgerError::new(
        "cannot open the audit log",
        format!("the {name} key is not the one that the audit log was created with"),
    ))
}
