//! Measures how fast replies are parsed, alternating with a `memchr` search for a fence in the same text.
//!
//! `cargo bench -p byleave-agent --bench blocks` measures and writes its part of docs/performance.md. With `BYLEAVE_PROOF=short`
//! it runs fewer rounds and writes nothing.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use byleave_agent::tool_blocks::{ToolBlockEvent, ToolBlockParser};
use memchr::memmem::Finder;

const TEXT_BYTES: usize = 4 << 20;
/// For plain text, in one chunk and in chunks of the size that a connection delivers.
const RATE_MIN: f64 = 500.0;
const RATIO_MIN: f64 = 0.3;

/// A text, and the size of the chunks in which it arrives.
struct ParserCase {
    what: &'static str,
    text: String,
    chunk_bytes: usize,
    has_bar: bool,
}

fn main() {
    let short = std::env::var("BYLEAVE_PROOF").is_ok_and(|proof| proof == "short");
    let rounds = if short { 15 } else { 101 };
    let mut table =
        String::from("| text, in chunks of | `memchr` | ours | ratio | bar | |\n|---|--:|--:|--:|--:|---|\n");
    let mut holds = true;
    for case in cases() {
        let chunks: Vec<&str> = case
            .text
            .as_bytes()
            .chunks(case.chunk_bytes)
            .map(|chunk| std::str::from_utf8(chunk).unwrap())
            .collect();
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            theirs.push(timed(|| search(black_box(&chunks))));
            ours.push(timed(|| read(black_box(&chunks))));
        }
        let rate = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            case.text.len() as f64 / 1e6 / times.get(times.len() / 2).unwrap()
        };
        let (theirs, ours) = (rate(&mut theirs), rate(&mut ours));
        let ratio = ours / theirs;
        let within = ours >= RATE_MIN && ratio >= RATIO_MIN;
        // A result that misses half the bar is a real regression, even on a noisy machine.
        holds &= !case.has_bar || (ours >= RATE_MIN / 2.0 && ratio >= RATIO_MIN / 2.0);
        let (bar, verdict) = match (case.has_bar, within) {
            (false, _) => (String::new(), ""),
            (true, true) => (format!("≥ {RATE_MIN:.0} MB/s, ≥ {RATIO_MIN}"), "within"),
            (true, false) => (format!("≥ {RATE_MIN:.0} MB/s, ≥ {RATIO_MIN}"), "**beyond**"),
        };
        writeln!(
            table,
            "| {}, {} | {theirs:.0} MB/s | {ours:.0} MB/s | {ratio:.2} | {bar} | {verdict} |",
            case.what,
            size(case.chunk_bytes),
        )
        .unwrap();
    }
    let exe = std::env::current_exe().unwrap();
    let profile = exe.ancestors().nth(2).and_then(Path::file_name).unwrap().to_string_lossy().into_owned();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    writeln!(
        table,
        "\nMedians of {rounds} rounds over {}, each way in turn, on one thread, profile `{profile}`, load {}. `memchr` counts where \
         three backticks stand, chunk by chunk, and does nothing with it; ours hands on all text and reads every call.",
        size(TEXT_BYTES),
        load.split(' ').next().unwrap_or_default(),
    )
    .unwrap();
    println!("{table}");
    if !short {
        byleave_testkit::write_bench_page!("blocks", &table);
    }
    assert!(holds, "plain text is read too slowly");
}

fn cases() -> Vec<ParserCase> {
    let prose = || {
        filled(
            "The tests pass now; what was missing is the check of the length, which the caller relied on.\n",
        )
    };
    let notes = || {
        filled(
            "Call `open` before `read`, or see what `errno` says: the *second* one fails where the file is away.\nSo:\n\n```c\n\
             int fd = open(path, O_RDONLY);\nif (fd < 0) {\n    perror(path);\n    return errno;\n}\nssize_t n = read(fd, buffer, \
             sizeof buffer);\nclose(fd);\n```\n\nThe caller of `load` need not know.\n\n",
        )
    };
    let calls = || {
        filled(
            "Now I change the file.\n\n```tool\n{\"name\": \"edit\", \"args\": {\"path\": \"src/main.rs\", \"old\": \"let a = 1;\\n\", \
             \"new\": \"let a = 2;\\n\"},\n \"reason\": \"the count begins at two\"}\n```\n\n",
        )
    };
    let case = |what, text, chunk_bytes, has_bar| ParserCase { what, text, chunk_bytes, has_bar };
    vec![
        case("plain text", prose(), TEXT_BYTES, true),
        case("plain text", prose(), 16 << 10, true),
        case("plain text", prose(), 1 << 10, false),
        case("plain text", prose(), 16, false),
        case("plain text", prose(), 1, false),
        case("text with code", notes(), TEXT_BYTES, false),
        case("a call in every paragraph", calls(), TEXT_BYTES, false),
        case("a call in every paragraph", calls(), 16, false),
    ]
}

/// Repeats an ASCII paragraph up to the size of the test text.
fn filled(paragraph: &str) -> String {
    let mut text = paragraph.repeat(TEXT_BYTES / paragraph.len() + 1);
    text.truncate(TEXT_BYTES);
    text
}

fn size(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 => format!("{} KiB", bytes >> 10),
        1 => "1 byte".to_owned(),
        _ => format!("{bytes} bytes"),
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> f64 {
    let began = Instant::now();
    black_box(work());
    began.elapsed().as_secs_f64()
}

/// Counts the fences with `memchr`.
fn search(chunks: &[&str]) -> usize {
    let fence = Finder::new("```");
    chunks.iter().map(|chunk| fence.find_iter(chunk.as_bytes()).count()).sum()
}

/// Parses the reply. Returns the number of text bytes and of calls.
fn read(chunks: &[&str]) -> (usize, usize) {
    let (mut text_bytes, mut calls) = (0, 0);
    let mut take = |piece: ToolBlockEvent<'_>| match piece {
        ToolBlockEvent::Text(text) => text_bytes += black_box(text).len(),
        ToolBlockEvent::Call(_) => calls += 1,
        ToolBlockEvent::Error(_) => {}
    };
    let mut blocks = ToolBlockParser::new();
    for chunk in chunks {
        blocks.push(chunk, &mut take);
    }
    blocks.finish(&mut take);
    (text_bytes, calls)
}
