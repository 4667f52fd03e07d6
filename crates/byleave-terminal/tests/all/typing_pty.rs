//! Typing ahead on a real pseudo-terminal, with the real prompt. Keys come at full speed while questions come up at random moments.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use byleave_core::render::render;
use byleave_gate::approver::{Approver as _, ApproverError};
use byleave_terminal::palette::Palette;
use byleave_terminal::{NoBackend, Prompt, PromptSettings};

use crate::person::TestTerminal;
use crate::sheets;
use crate::typist::{TypingRandom, Typist};

const KEYSTROKES: usize = 10_000;
/// A person who types without a pause never goes this long without a key. On a slow machine that can happen, and the next keys may then
/// answer.
const STALL: Duration = Duration::from_millis(300);

// req: R5
#[test]
fn ten_thousand_keys_at_a_real_terminal_answer_nothing() {
    // Two terminals in parallel, because a terminal accepts only a limited number of keys per second.
    let asked = [(5, 6), (7, 8)].map(|seeds| std::thread::spawn(move || types(KEYSTROKES / 2, seeds)));
    let counts = asked.map(|typing| typing.join().unwrap());
    let (asked, excused) = counts.iter().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    println!(
        "figure: {KEYSTROKES} keystrokes, {asked} questions, {excused} answered, each after a stall of the typist"
    );
    assert!(asked >= 5, "{asked}");
}

/// Types this many keys at its own terminal while questions come up. Returns the number of questions, and how many were answered after the
/// typist stalled.
fn types(keystrokes: usize, (typed_by, asked_by): (u64, u64)) -> (usize, usize) {
    let person = TestTerminal::sit_down(80, 24);
    person.looks_away();
    let (end, path) = (person.program(), person.path.clone());
    let mut keyboard = person.end;
    let manner = PromptSettings { palette: Palette::Plain, min_read_time_percent: 100, editor: Vec::new() };
    let prompt = Arc::new(Prompt::open("ann", path, manner, Arc::new(NoBackend)).unwrap());
    let (typed, stalled) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let hands = {
        let (typed, stalled) = (Arc::clone(&typed), Arc::clone(&stalled));
        std::thread::spawn(move || {
            let (mut dice, mut text, mut last) = (TypingRandom(typed_by), Vec::new(), Instant::now());
            while typed.load(Ordering::SeqCst) < keystrokes {
                let typist =
                    dice.of(&[Typist::Fast, Typist::Prose, Typist::Random, Typist::Paste, Typist::Reports]);
                let (_, keys) = typist.next(&mut dice, &mut text);
                stalled.fetch_or(last.elapsed() > STALL, Ordering::SeqCst);
                last = Instant::now();
                keyboard.write_all(&keys).unwrap();
                typed.fetch_add(1, Ordering::SeqCst);
                // Full speed, but not faster than a terminal accepts. A dropped key would not have been typed.
                std::thread::sleep(Duration::from_micros(700));
            }
        })
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut dice, mut asked, mut excused) = (TypingRandom(asked_by), 0, 0);
    while typed.load(Ordering::SeqCst) < keystrokes {
        let sheet = dice.of(&[0, 1, 2, 3, 4]);
        let sheet = sheets::all().into_iter().nth(sheet).unwrap();
        let rendering = render(&sheet);
        runtime.block_on(async {
            tokio::time::sleep(dice.ms(0, 100)).await;
            // Open for long enough that a letter and Enter could answer.
            let open = dice.ms(100, 1_500);
            let answer = tokio::time::timeout(open, prompt.ask(&sheet, &rendering)).await;
            let is_answered = !matches!(answer, Err(_) | Ok(Err(ApproverError::Failed(_))));
            assert!(!is_answered || stalled.load(Ordering::SeqCst), "answered: {answer:?}");
            excused += usize::from(is_answered);
            stalled.store(false, Ordering::SeqCst);
        });
        asked += 1;
    }
    hands.join().unwrap();
    drop(end);
    (asked, excused)
}
