//! Typing ahead, with a simulated clock. People type while questions come up at random moments, and must not answer any by accident.

use std::time::Duration;

use byleave_core::question_view::QuestionView;
use byleave_terminal::keys::{KeyParser, KeyPress};
use byleave_terminal::palette::Palette;
use byleave_terminal::question_dialog::{DialogEvent, DialogSettings, QuestionDialog};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::sheets;
use crate::typist::{TypingRandom, Typist};

const KEYSTROKES: usize = 10_000;
const KEYSTROKES_LONG: usize = 1_000_000;

/// The result of a simulated typing session.
#[derive(Debug, Default)]
struct TypingResult {
    keystrokes: usize,
    questions: usize,
    /// Questions that were answered, or that left the page on which they are read.
    accidents: Vec<String>,
}

// req: R5
#[test]
fn nobody_who_types_ahead_answers_anything() {
    let wanted = match std::env::var("BYLEAVE_PROOF").is_ok_and(|form| form == "long") {
        true => KEYSTROKES_LONG,
        false => KEYSTROKES,
    };
    for typist in Typist::ALL {
        let tally = types(typist, wanted, 11);
        println!(
            "figure: {typist:?}: {} keystrokes, {} questions, {} answered",
            tally.keystrokes,
            tally.questions,
            tally.accidents.len()
        );
        assert!(tally.questions * 100 > tally.keystrokes / 10, "too few questions came up: {tally:?}");
        assert!(tally.accidents.is_empty(), "{typist:?}: {:#?}", tally.accidents);
    }
}

/// Types this many keys. Questions come up at random and are withdrawn unanswered after a while.
fn types(typist: Typist, wanted: usize, seed: u64) -> TypingResult {
    let mut dice = TypingRandom(seed);
    let (mut text, mut keyboard, mut now) = (Vec::new(), KeyParser::default(), Duration::ZERO);
    let mut tally = TypingResult::default();
    let all = sheets::all();
    let mut open: Option<OpenDialog> = None;
    // The keys that were typed while no question was open, and the time of the last key that an earlier question received.
    let (mut ahead, mut wrote): (Vec<KeyPress>, Option<Duration>) = (Vec::new(), None);
    let mut changes_at = dice.ms(0, 20_000);
    while tally.keystrokes < wanted {
        let (pause, bytes) = typist.next(&mut dice, &mut text);
        let at = now + pause;
        while changes_at <= at {
            now = changes_at;
            match open.take() {
                None => {
                    tally.questions += 1;
                    open = Some(OpenDialog::new(dice.of(&[0, 1, 2, 3, 4]), &all, now));
                    let question = open.as_mut().unwrap();
                    question.comes_up(now, &ahead, wrote);
                    ahead.clear();
                    changes_at = now + dice.ms(200, 30_000);
                }
                Some(question) => {
                    wrote = question.dialogue.time_since_typing(now).map(|ago| now - ago).or(wrote);
                    changes_at = now + dice.ms(1, 20_000);
                }
            }
        }
        now = at;
        let mut keys = keyboard.read(&bytes, true);
        keys.extend(keyboard.flush());
        tally.keystrokes += bytes.len().min(1).max(keys.len());
        let Some(question) = &mut open else {
            ahead.extend(keys);
            continue;
        };
        if let Some(accident) = question.press(now, &keys) {
            tally.accidents.push(accident);
            open = None;
            changes_at = now + dice.ms(1, 20_000);
        }
    }
    tally
}

/// A question on a screen.
struct OpenDialog {
    dialogue: QuestionDialog,
    since: Duration,
    pressed: String,
}

impl OpenDialog {
    fn new(place: usize, all: &[QuestionView], now: Duration) -> Self {
        let setting = DialogSettings {
            palette: Palette::Plain,
            min_read_time_percent: 100,
            can_go_back: false,
            can_answer_later: true,
            has_one_key_answers: false,
            undo: Some("something".into()),
            now: 0,
        };
        let sheet = all.get(place).unwrap().clone();
        let dialogue = QuestionDialog::new(vec![sheet], Ok(Vec::new()), setting);
        Self { dialogue, since: now, pressed: String::new() }
    }

    /// Does what the prompt does: reports earlier keys to the dialog, and draws it.
    fn comes_up(&mut self, now: Duration, ahead: &[KeyPress], wrote: Option<Duration>) {
        self.pressed.push_str(&format!("after {} keys: ", ahead.len()));
        if let Some(wrote) = wrote {
            self.dialogue.note_interrupted_typing(now, now - wrote);
        }
        self.dialogue.note_typed_ahead(now, ahead);
        self.draw(now);
    }

    fn draw(&mut self, now: Duration) {
        let area = Rect::new(0, 0, 80, 40);
        self.dialogue.draw(area, &mut Buffer::empty(area), now, None);
    }

    /// Presses keys. Returns the event if a key had an effect.
    fn press(&mut self, now: Duration, keys: &[KeyPress]) -> Option<String> {
        for key in keys {
            let after = (now - self.since).as_millis();
            self.pressed.push_str(&format!("{key:?}@{after} "));
            let step = self.dialogue.key(now, key);
            if step != DialogEvent::Stay || self.dialogue.is_typing() {
                return Some(format!("{step:?} {}", self.pressed));
            }
        }
        None
    }
}
