//! Lists over many open questions.

use std::time::{Duration, Instant};

use byleave_gate::audit_log::{AuditLog as _, CallFilter, CallState, Cursor, PageRequest, QuestionFilter};
use byleave_gate::core::id::{SessionId, TenantId};
use byleave_gate::core::question::QuestionKind;
use byleave_postgres::{PgAuditLog, shard_for_tenant};

use crate::server::PgSchema;

const TENANTS: i64 = 20;
const PAGE_MAX: Duration = Duration::from_millis(50);

/// Inserts open questions for listing, without their records, which lists do not read.
async fn fill(ground: &PgSchema, questions: i64, months: u64) {
    ground
        .execute(&format!(
            "SELECT prepare_month(this_month() - n) FROM generate_series(0, {months} - 1) AS n"
        ))
        .await;
    let month = format!("this_month() - {months} + 1 + ((n - 1) * {months} / {questions})::integer");
    // One of a hundred sessions, and as many questions of the rare kind.
    let rare = questions / 100;
    let sql = format!(
        "INSERT INTO month SELECT {month}, min(n) FROM generate_series(1::bigint, {questions}) AS n GROUP BY 1"
    );
    assert_eq!(ground.execute(&sql).await, months);
    for tenant in 0..TENANTS {
        let shard = shard_for_tenant(&TenantId::new(format!("t{tenant}")).unwrap());
        ground
            .execute(&format!(
                "INSERT INTO call SELECT {shard}, {month}, n, gen_random_uuid(), 't{tenant}', 's' || n % 100, 'agent',
                    'tool', 'op', 'does something with number ' || n, n, n, 1, NULL, NULL, true, 6, ''::bytea
                 FROM generate_series({tenant} + 1::bigint, {questions}, {TENANTS}) AS n"
            ))
            .await;
        ground
            .execute(&format!(
                "INSERT INTO unsettled SELECT {shard}, {month}, n, gen_random_uuid(), 't{tenant}', 's' || n % 100, n,
                    gen_random_uuid(), CASE WHEN n % {rare} = 7 THEN 2 ELSE 0 END, n, n + 1000
                 FROM generate_series({tenant} + 1::bigint, {questions}, {TENANTS}) AS n"
            ))
            .await;
    }
}

/// The median time of a page.
async fn page(book: &PgAuditLog, filter: &QuestionFilter, after: Option<i64>) -> Duration {
    let mut took = Vec::new();
    for _ in 0..9 {
        let begun = Instant::now();
        let page = PageRequest { limit: 50, after: after.map(Cursor) };
        let listed = book.questions(filter.clone(), page).await.unwrap();
        took.push(begun.elapsed());
        assert_eq!(listed.len(), 50);
        assert!(listed.is_sorted_by(|one, next| one.cursor > next.cursor));
        assert!(after.is_none_or(|after| listed[0].cursor.0 < after));
    }
    took.sort();
    took[took.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_open_questions_is_full_sorted_and_behind_the_one_before() {
    pages(10_000, 3, Duration::MAX).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures time: scripts/prove lists"]
async fn a_page_of_100_000_open_questions_takes_no_time() {
    // With this many months, a scan over all partitions would take longer than a page may.
    pages(100_000, 12, PAGE_MAX).await;
}

/// Reads pages of this many questions over this many months. Each page takes at most this long.
#[expect(clippy::print_stdout, reason = "what was measured")]
async fn pages(questions: i64, months: u64, page_max: Duration) {
    let ground = PgSchema::new().await;
    let book = ground.open().await;
    fill(&ground, questions, months).await;
    let any = QuestionFilter::default;
    let filters = [
        ("any", any()),
        ("of a tenant", QuestionFilter { tenant: Some(TenantId::new("t3").unwrap()), ..any() }),
        ("of a session", QuestionFilter { session: Some(SessionId::new("s7").unwrap()), ..any() }),
        ("of a rare kind", QuestionFilter { kind: Some(QuestionKind::Release), ..any() }),
        ("of the usual kind", QuestionFilter { kind: Some(QuestionKind::Approval), ..any() }),
    ];
    // With and without statistics about the tables.
    for analyzed in [false, true] {
        if analyzed {
            ground.execute("ANALYZE").await;
        }
        for (what, filter) in &filters {
            for after in [None, Some(questions * 6 / 10)] {
                let took = page(&book, filter, after).await;
                println!("figure: a page {what}, after {after:?}, analyzed {analyzed}: {took:?}");
                assert!(took < page_max, "a page {what} after {after:?} took {took:?}");
            }
        }
        let waiting = CallFilter { state: Some(CallState::Waiting), ..CallFilter::default() };
        for (what, filter) in [("waiting calls", waiting), ("calls", CallFilter::default())] {
            let begun = Instant::now();
            assert_eq!(book.calls(filter, PageRequest::with_limit(50)).await.unwrap().len(), 50);
            let took = begun.elapsed();
            println!("figure: a page of {what}, analyzed {analyzed}: {took:?}");
            assert!(took < page_max, "a page of {what} took {took:?}");
        }
    }
}
