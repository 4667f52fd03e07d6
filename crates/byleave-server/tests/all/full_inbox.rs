//! The inbox with very many open questions: its first page costs as much as with few, and a new question is on it soon.
//!
//! `scripts/prove inbox` measures it with 10,000 open questions. Every other run uses a few hundred, and measures no time.

use std::time::{Duration, Instant};

use byleave_server::principal::AccessScope;
use byleave_testkit::machine::is_long;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::pages::Browser;
use crate::stage::{SOON, ServerFixture};

/// The number of questions that one page lists.
const LISTED: usize = 200;
/// How often a page is fetched to measure it.
const ROUNDS: usize = 21;
/// The most that the page may cost with very many open questions, relative to one full page.
const RATIO_MAX: f64 = 2.0;
/// How soon a new question must be on the page.
const SOON_ON_THE_PAGE: Duration = Duration::from_secs(1);

/// Asks this many questions, several at a time.
async fn ask(stage: &ServerFixture, bot: &str, from: usize, to: usize) {
    let one = |at: usize| async move { stage.waiting(bot, &format!("q{at}")).await };
    for chunk in (from..to).collect::<Vec<_>>().chunks(16) {
        futures::future::join_all(chunk.iter().copied().map(one)).await;
    }
}

async fn median(browser: &Browser<'_>) -> Duration {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let page = browser.get("/").await;
        times.push(began.elapsed());
        assert_eq!((page.status, page.text.matches("data-id=").count()), (200, LISTED));
    }
    times.sort_unstable();
    times[ROUNDS / 2]
}

/// Reads a stream of events until it has this text.
async fn read_until(stream: &mut TcpStream, text: &str) {
    let mut heard = String::new();
    let mut buffer = vec![0; 65_536];
    while !heard.contains(text) {
        let read = tokio::time::timeout(SOON, stream.read(&mut buffer)).await.expect("an event").unwrap();
        assert!(read > 0, "the stream has ended");
        heard.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
}

// req: R5
#[tokio::test(flavor = "multi_thread")]
async fn the_first_page_of_a_full_inbox_is_as_quick_as_that_of_a_small_one() {
    let many = if is_long() { 10_000 } else { LISTED + 50 };
    let stage = ServerFixture::new().await;
    let (bot, ann) = (stage.agent("bot"), stage.person("ann", &[AccessScope::Answer, AccessScope::Read]));
    ask(&stage, &bot, 0, LISTED).await;
    let browser = Browser::sign_in(&stage, &ann).await;
    let few = median(&browser).await;
    ask(&stage, &bot, LISTED, many).await;
    let full = median(&browser).await;
    let page = browser.get("/").await.text;
    assert!(page.contains("The newest 200 questions; there may be more."), "{page}");

    // A new question: the stream says so, and the page that is fetched then has it.
    let mut live = TcpStream::connect(stage.address).await.unwrap();
    let head =
        format!("GET /live HTTP/1.1\r\nhost: {}\r\ncookie: {}\r\n\r\n", stage.address, browser.cookie());
    live.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut live, "event: questions").await;
    let began = Instant::now();
    let (_, question, _) = stage.waiting(&bot, "new").await;
    read_until(&mut live, &question).await;
    let page = browser.get("/").await.text;
    let shown = began.elapsed();
    assert!(page.contains(&format!("data-id=\"{question}\"")));
    if is_long() {
        let ratio = full.as_secs_f64() / few.as_secs_f64();
        println!(
            "figure: the first page of the inbox takes {} ms with {many} open questions, {ratio:.2} times as long as with {LISTED}; a new question is on it after {} ms",
            full.as_millis(),
            shown.as_millis()
        );
        assert!(ratio <= RATIO_MAX, "{few:?} with {LISTED}, {full:?} with {many}");
        assert!(shown <= SOON_ON_THE_PAGE, "{shown:?}");
    }
}
