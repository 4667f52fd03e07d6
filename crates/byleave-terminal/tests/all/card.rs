//! The card of a question in the dialog: what must be read before a yes, and where one key answers.

use std::time::Duration;

use byleave_core::decision::{AskCause, DecisionReason, Verdict};
use byleave_core::question_view::QuestionView;
use byleave_gate::approver::Reply;
use byleave_terminal::keys::{KeyParser, KeyPress};
use byleave_terminal::palette::Palette;
use byleave_terminal::question_dialog::{DialogEvent, DialogSettings, QuestionDialog};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::sheets;
use crate::typist::{TypingRandom, Typist};

const YES: DialogEvent = DialogEvent::Reply(Reply::Yes { note: None });

/// A dialog on a screen of 80 by 24, and its clock.
struct Screen {
    dialog: QuestionDialog,
    now: Duration,
}

impl Screen {
    fn new(sheet: QuestionView, has_one_key_answers: bool) -> Self {
        let setting = DialogSettings {
            palette: Palette::Plain,
            min_read_time_percent: 100,
            can_go_back: has_one_key_answers,
            can_answer_later: true,
            has_one_key_answers,
            undo: None,
            now: 0,
        };
        let dialog = QuestionDialog::new(vec![sheet], Err("none".into()), setting);
        let mut screen = Self { dialog, now: Duration::ZERO };
        screen.text();
        screen
    }

    /// A dialog that was on the screen for long enough.
    fn ready(sheet: QuestionView, has_one_key_answers: bool) -> Self {
        let mut screen = Self::new(sheet, has_one_key_answers);
        screen.now = Duration::from_secs(60);
        screen
    }

    fn press(&mut self, key: &KeyPress) -> DialogEvent {
        let event = self.dialog.key(self.now, key);
        self.now += Duration::from_millis(400);
        self.text();
        event
    }

    fn text(&mut self) -> String {
        let area = Rect::new(0, 0, 80, 24);
        let mut buf = Buffer::empty(area);
        self.dialog.draw(area, &mut buf, self.now, None);
        let row = |y: u16| (0..80).map(|x| buf[(x, y)].symbol().to_owned()).collect::<String>();
        (0..24).map(|y| row(y).trim_end().to_owned() + "\n").collect()
    }
}

/// A question about a call that is dangerous, so the card is not enough.
fn dangerous() -> QuestionView {
    let [mut sheet, ..] = sheets::all();
    sheet.decision.reasons = vec![DecisionReason {
        verdict: Verdict::Ask,
        cause: Some(AskCause::FirmRule),
        rule: Some("firm".into()),
        origin: None,
        message: "ask the owner".into(),
        effects: vec![0],
    }];
    sheet
}

// req: R5
#[test]
fn one_key_answers_where_the_person_came_to_answer_and_nowhere_else() {
    let [ordinary, ..] = sheets::all();
    let mut screen = Screen::ready(ordinary.clone(), true);
    assert!(screen.text().contains("Write a"), "{}", screen.text());
    assert_eq!(screen.press(&KeyPress::Char('y')), YES);
    // A prompt that comes up over a terminal needs Enter as well.
    let mut screen = Screen::ready(ordinary.clone(), false);
    assert_eq!(screen.press(&KeyPress::Char('y')), DialogEvent::Stay);
    assert_eq!(screen.press(&KeyPress::Enter), YES);
    // It must have been on the screen for a while.
    let mut screen = Screen::new(ordinary.clone(), true);
    assert_eq!(screen.press(&KeyPress::Char('y')), DialogEvent::Stay);
    // A key that was typed before it came up makes it wait until the keyboard is quiet.
    let mut screen = Screen::new(ordinary, true);
    let ahead: Vec<KeyPress> = "ls -l ".chars().map(KeyPress::Char).collect();
    screen.dialog.note_typed_ahead(screen.now, &ahead);
    screen.now = Duration::from_secs(3);
    assert_eq!(screen.press(&KeyPress::Char('y')), DialogEvent::Stay);
    // Neither stops one key everything.
    let [ordinary, ..] = sheets::all();
    let mut screen = Screen::ready(ordinary, true);
    assert_eq!(screen.press(&KeyPress::Char('x')), DialogEvent::Stay);
    assert_eq!(screen.press(&KeyPress::Enter), DialogEvent::Reply(Reply::Abort));
}

// req: R5, R8
#[test]
fn a_grave_question_needs_its_details_and_more_than_one_key() {
    let mut screen = Screen::ready(dangerous(), true);
    assert!(screen.text().contains("a yes needs the details"), "{}", screen.text());
    assert_eq!(screen.press(&KeyPress::Char('y')), DialogEvent::Stay);
    assert!(screen.text().contains("read the details first"), "{}", screen.text());
    assert_eq!(screen.press(&KeyPress::Enter), DialogEvent::Stay);
    screen.now += Duration::from_secs(10);
    screen.press(&KeyPress::Char('d'));
    assert!(screen.text().contains("May this call of “write_file” run?"), "{}", screen.text());
    screen.press(&KeyPress::End);
    screen.now += Duration::from_secs(10);
    assert_eq!(screen.press(&KeyPress::Char('y')), DialogEvent::Stay);
    assert_eq!(screen.press(&KeyPress::Enter), YES);
    // The words for an irreversible call are typed, wherever it is asked.
    let [_, _, is_final, ..] = sheets::all();
    let mut screen = Screen::ready(is_final, true);
    screen.press(&KeyPress::Char('d'));
    screen.press(&KeyPress::End);
    screen.now += Duration::from_secs(10);
    assert_eq!(screen.press(&KeyPress::Char('y')), DialogEvent::Stay);
    assert_eq!(screen.press(&KeyPress::Enter), DialogEvent::Stay);
    assert!(screen.text().contains("type “for good”"), "{}", screen.text());
    for key in "for good".chars().map(KeyPress::Char) {
        assert_eq!(screen.press(&key), DialogEvent::Stay);
    }
    assert_eq!(screen.press(&KeyPress::Enter), YES);
}

// req: R5
#[test]
fn a_question_is_left_open_with_a_key() {
    let [ordinary, ..] = sheets::all();
    let mut inbox = Screen::ready(ordinary.clone(), true);
    assert_eq!(inbox.press(&KeyPress::Char('l')), DialogEvent::Back);
    let mut prompt = Screen::ready(ordinary, false);
    assert_eq!(prompt.press(&KeyPress::Escape), DialogEvent::Stay);
    assert_eq!(prompt.press(&KeyPress::Char('l')), DialogEvent::Stay);
    assert_eq!(prompt.press(&KeyPress::Enter), DialogEvent::Back);
}

// req: R5
#[test]
fn the_details_open_and_close_with_one_key() {
    let [ordinary, ..] = sheets::all();
    let mut screen = Screen::ready(ordinary, false);
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(screen.text().contains("in short"));
        screen.press(&KeyPress::Char('d'));
    }
    assert_eq!(seen, [true, false, false, true]);
}

// req: R5
#[test]
fn what_a_terminal_sends_by_itself_answers_nothing_where_one_key_does() {
    let mut dice = TypingRandom(3);
    let (mut text, mut keyboard) = (Vec::new(), KeyParser::default());
    let [ordinary, ..] = sheets::all();
    let mut screen = Screen::ready(ordinary, true);
    for _ in 0..2_000 {
        let (pause, bytes) = Typist::Reports.next(&mut dice, &mut text);
        screen.now += pause;
        let mut keys = keyboard.read(&bytes, true);
        keys.extend(keyboard.flush());
        for key in keys {
            assert_eq!(screen.dialog.key(screen.now, &key), DialogEvent::Stay, "{key:?}");
            assert!(!screen.dialog.is_typing(), "{key:?}");
        }
    }
}
