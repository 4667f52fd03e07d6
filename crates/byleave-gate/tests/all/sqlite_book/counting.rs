//! A large audit log: its records are counted one by one, in an acceptable time.

use std::time::{Duration, Instant};

use byleave_gate::audit_log::{AuditLog as _, CallFilter, PageRequest};
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::question::Answer;
use byleave_gate::ledger::Ledger as _;
use byleave_gate::stats::{self, StatsFilter};

use super::scribe::{RecordWriter, open, write_to};

/// The number of calls. For figures: `BYLEAVE_LARGE_BOOK=20000 cargo nextest run -p byleave --no-capture -E
/// 'test(counting)'`
fn size() -> u64 {
    std::env::var("BYLEAVE_LARGE_BOOK").ok().and_then(|size| size.parse().ok()).unwrap_or(2_000)
}

// req: A1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_book_is_counted_and_looked_through() {
    let dir = tempfile::tempdir().unwrap();
    let book = open(dir.path());
    let calls = size();
    for first in (0..calls).step_by(250) {
        let many = (first..calls.min(first + 250)).map(|number| {
            let book = &book;
            async move {
                let mut scribe = RecordWriter::new(&format!("s{}", number % 7), write_to("/w/a"));
                scribe.concurrency_safe = true;
                if number % 10 == 0 {
                    scribe.ruled(Verdict::Ask, None);
                    let question = scribe.ask();
                    scribe.append(book).await.unwrap();
                    scribe.answer(&question, Answer::Yes { note: None });
                } else {
                    scribe.ruled(Verdict::Allow, None);
                }
                let attempt = scribe.begin(book.owner());
                scribe.end(attempt);
                scribe.append(book).await.unwrap();
            }
        });
        futures::future::join_all(many).await;
    }

    let begun = Instant::now();
    let mut told = 0;
    let stats = stats::collect(&book, StatsFilter::default(), |read| told = read).await.unwrap();
    let counted = begun.elapsed();
    assert_eq!((stats.calls, told, stats.outcomes.completed), (calls, calls, calls));
    assert_eq!(stats.questions.answers.yes, calls.div_ceil(10));

    // A text that no call contains requires a scan of the whole list, the worst case of a filter.
    let begun = Instant::now();
    let nowhere = CallFilter { text: Some("nowhere to be found".into()), ..CallFilter::default() };
    assert_eq!(book.calls(nowhere, PageRequest::with_limit(50)).await.unwrap(), []);
    let listed = begun.elapsed();
    let begun = Instant::now();
    let asked = CallFilter { asked_only: true, ..CallFilter::default() };
    assert_eq!(book.calls(asked, PageRequest::with_limit(50)).await.unwrap().len(), 50);
    let looked_up = begun.elapsed();
    let figures = format!(
        "{calls} calls: counted in {counted:?}, all of the list in {listed:?}, those asked about in {looked_up:?}"
    );
    // Ten times the duration here, in an unoptimised build.
    let each = Duration::from_millis(5);
    assert!(counted < each * u32::try_from(calls).unwrap(), "{figures}");
    eprintln!("{figures}");
}
