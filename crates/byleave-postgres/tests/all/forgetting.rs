//! Erasure, and the data that Postgres gets to see.

use std::sync::Arc;

use byleave_conformance::ledger::record_script::{NOW, ScriptSettings};
use byleave_gate::audit_log::encryption::KeyVault;
use byleave_gate::audit_log::{AuditLog as _, CallFilter, PageRequest};
use byleave_gate::core::admin_action::{AdminAction, AdminActionKind};
use byleave_gate::core::id::{AdminActionId, TenantId};
use byleave_postgres::PgAuditLog;
use sqlx_core::query_scalar::query_scalar;
use uuid::Uuid;

use crate::server::{PgSchema, options};
use crate::story::{asked, taking, waiting};

fn forget(call: byleave_gate::core::id::CallId, tenant: &str) -> AdminAction {
    let (id, tenant) = (AdminActionId::new(Uuid::now_v7()), TenantId::new(tenant).unwrap());
    AdminAction { id, at: NOW, tenant, actor: "eve".into(), kind: AdminActionKind::Forget { call } }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forgotten_before_it_comes_stays_forgotten() {
    let ground = PgSchema::new().await;
    let book = ground.open().await;
    let (script, takings) = asked(ScriptSettings::default());
    let (stranger, strange) = asked(ScriptSettings { session: "r", ..ScriptSettings::default() });
    book.ingest(takings[2].clone()).await.unwrap();
    book.ingest_action(forget(script.call(), "local")).await.unwrap();
    // A tenant cannot erase the records of another.
    book.ingest_action(forget(stranger.call(), "other")).await.unwrap();
    for taking in takings.into_iter().chain(strange) {
        book.ingest(taking).await.unwrap();
    }
    for rebuilt in [false, true] {
        if rebuilt {
            book.rebuild().await.unwrap();
        }
        let kept = book.record(script.call()).await.unwrap().unwrap();
        assert!(kept.forgotten);
        assert_eq!(kept.record, script.record);
        assert_eq!(kept.call_summary.unwrap().summary, "");
        assert!(book.contents(script.call()).await.unwrap().is_empty());
        assert!(!book.contents(stranger.call()).await.unwrap().is_empty());
        let listed = book.calls(CallFilter::default(), PageRequest::with_limit(9)).await.unwrap();
        let summary =
            |call| listed.iter().find(|item| item.call == call).unwrap().call_summary.summary.as_str();
        assert_eq!((summary(script.call()), summary(stranger.call())), ("", "does something"));
        let verified = book.verify().await.unwrap();
        assert!(verified.is_intact(), "{:?}", verified.integrity_error);
    }
    let mut connection = ground.connection().await;
    let keys: Vec<Uuid> = query_scalar("SELECT call FROM record WHERE key IS NOT NULL")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(keys, vec![stranger.call().uuid()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_act_is_taken_once_and_never_changed() {
    let ground = PgSchema::new().await;
    let book = ground.open().await;
    let (script, _) = waiting(ScriptSettings::default());
    let act = forget(script.call(), "local");
    for _ in 0..2 {
        let (one, two) = tokio::join!(book.ingest_action(act.clone()), book.ingest_action(act.clone()));
        one.unwrap();
        two.unwrap();
    }
    let changed = AdminAction { actor: "mallory".into(), ..act.clone() };
    assert!(book.ingest_action(changed).await.is_err());
    assert_eq!(book.admin_actions().await.unwrap(), vec![act]);
}

#[tokio::test(flavor = "multi_thread")]
async fn contents_and_keys_are_nowhere_in_the_clear() {
    let ground = PgSchema::new().await;
    let book = ground.open().await;
    let (mut script, first) = waiting(ScriptSettings::default());
    script.content_ref(b"a secret that nobody else may read");
    script.answer(byleave_gate::core::question::Answer::Yes { note: None }).unwrap();
    let second = taking(&mut script);
    for taking in [second, first] {
        book.ingest(taking).await.unwrap();
    }
    let mut connection = ground.connection().await;
    let tables: Vec<String> =
        query_scalar("SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()")
            .fetch_all(&mut connection)
            .await
            .unwrap();
    assert!(tables.len() > 40, "{tables:?}");
    for table in tables {
        for secret in [b"a secret that nobody".as_slice(), script.key.expose(), &[7; 32], &[5; 32]] {
            // A row as text has its bytes in hexadecimal.
            let sql = format!(
                "SELECT count(*) FROM {table} AS row
                 WHERE strpos(row::text, encode($1, 'hex')) > 0 OR strpos(row::text, encode($1, 'escape')) > 0"
            );
            let found: i64 = query_scalar(&sql).bind(secret).fetch_one(&mut connection).await.unwrap();
            assert_eq!(found, 0, "{table}");
        }
    }
    let contents = book.contents(script.call()).await.unwrap();
    assert!(contents.iter().any(|content| content.bytes.starts_with(b"a secret")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_book_opens_only_with_the_keys_that_it_was_made_with() {
    let ground = PgSchema::new().await;
    drop(ground.open().await);
    let mut other = options(&ground.schema, ground.dir.path(), None);
    other.unsealer = Arc::new(KeyVault::new([8; 32].into()));
    let refused = PgAuditLog::open(other).await.err().expect("another master key");
    assert!(refused.to_string().contains("not the one that the audit log was created with"), "{refused}");
    let mut other = options(&ground.schema, ground.dir.path(), None);
    other.signing_key = [6; 32].into();
    assert!(PgAuditLog::open(other).await.is_err(), "another signing key");
}
