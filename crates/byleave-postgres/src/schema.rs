//! The tables: made by migrations, which only one process at a time runs, and how a connection to them is set up.

use std::borrow::Cow;

use byleave::ledger::LedgerError;
use byleave_core::digest::Digest;
use byleave_core::id::TenantId;
use sqlx_core::migrate::{Migration, MigrationType, Migrator};
use sqlx_core::query::query;
use sqlx_core::query_scalar::query_scalar;
use sqlx_postgres::{PgConnectOptions, PgConnection, PgPool};

/// Over how many shards tenants are spread. To change it is to move every record: the tables are made for it.
pub const SHARDS: i16 = 8;

/// A row of `line` that belongs to a record.
pub(crate) const RECORD: i16 = 0;
/// A row of `line` that is an act.
pub(crate) const ACT: i16 = 1;

/// The shard that a tenant belongs to.
pub fn shard_of(tenant: &TenantId) -> i16 {
    let digest = Digest::of_parts("byleave.shard", &[tenant.as_str().as_bytes()]);
    let [first, ..] = digest.as_bytes();
    i16::from(*first) % SHARDS
}

/// What is committed is on the disk, whatever the server or the role is set to. And who falls silent in the middle of a
/// transaction, because its host or its network is gone, does not keep the end of the book locked for hours.
pub(crate) fn durable(connect: PgConnectOptions) -> PgConnectOptions {
    let silence = "idle_in_transaction_session_timeout";
    connect.options([("synchronous_commit", "on"), ("jit", "off"), (silence, "60s")])
}

/// What makes a server go by key and along an index, however little it knows of its tables yet.
const BY_KEY: [&str; 5] =
    ["enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "enable_sort"];

/// A connection that goes by key, and along the list that it pages through: a guess at how much fits a filter, made before
/// the server has looked at its tables, is not worth a pass over all of them.
pub(crate) fn by_key(connect: PgConnectOptions) -> PgConnectOptions {
    // To plan for hundreds of partitions takes longer than to look into all of them: it is done once. Some statements name
    // partitions, so there are many.
    let once = [("plan_cache_mode", "force_generic_plan")];
    connect.options(BY_KEY.map(|way| (way, "off"))).options(once).statement_cache_capacity(500)
}

/// Lets a transaction go over everything in whatever way is best for that.
pub(crate) async fn over_everything(transaction: &mut PgConnection) -> Result<(), sqlx_core::Error> {
    for way in BY_KEY {
        query(&format!("SET LOCAL {way} = on")).execute(&mut *transaction).await?;
    }
    Ok(())
}

/// Makes the schema that a connection names, where it is not there. One at a time: two who make it at once would fail.
const MAKE_SCHEMA: &str = "DO $$ BEGIN
    IF current_schema() IS NULL THEN
        PERFORM pg_advisory_xact_lock(7217351);
        EXECUTE format('CREATE SCHEMA IF NOT EXISTS %I', current_setting('search_path'));
    END IF;
END $$";

/// Makes or changes the tables, and the partitions of this month and the next.
pub(crate) async fn prepare(pool: &PgPool) -> Result<(), LedgerError> {
    query(MAKE_SCHEMA)
        .execute(pool)
        .await
        .map_err(|error| LedgerError::new("cannot make the schema of the book", error))?;
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
        .map_err(|error| LedgerError::new("cannot prepare the tables of the book", error))?;
    let months = async {
        let mut connection = pool.acquire().await?;
        let month = query_scalar::<_, i32>("SELECT this_month()").fetch_one(&mut *connection).await?;
        prepare_months(&mut connection, month).await
    };
    months.await.map_err(|error| LedgerError::new("cannot prepare the tables of this month", error))
}

/// Makes the partitions of a month and of the next, as far as they are missing.
pub(crate) async fn prepare_months(
    connection: &mut PgConnection,
    month: i32,
) -> Result<(), sqlx_core::Error> {
    query("SELECT prepare_month($1), prepare_month($1 + 1)").bind(month).execute(connection).await?;
    Ok(())
}

/// Checks that a key is the one this book was made with.
pub(crate) async fn belongs(pool: &PgPool, name: &str, mark: &[u8; 32]) -> Result<(), LedgerError> {
    let find = async {
        query("INSERT INTO meta(name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(name)
            .bind(mark.as_slice())
            .execute(pool)
            .await?;
        let sql = "SELECT value FROM meta WHERE name = $1";
        query_scalar::<_, Vec<u8>>(sql).bind(name).fetch_one(pool).await
    };
    let found = find.await.map_err(|error| LedgerError::new("cannot open the book", error))?;
    if found == mark {
        return Ok(());
    }
    Err(LedgerError::new("cannot open the book", format!("the {name} key is not the one it was made with")))
}
