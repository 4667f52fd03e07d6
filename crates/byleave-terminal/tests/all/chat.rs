//! The chat: typed keys reach the right place, even when something else comes up.

use std::time::Duration;

use byleave_core::escape::is_printable;
use byleave_core::id::{CallId, QuestionId};
use byleave_core::question_view::QuestionView;
use byleave_terminal::chat::{
    CallCard, CallCardState, Chat, ChatAction, ChatStatusBar, PickerItem, SlashCommand, TranscriptEntry,
};
use byleave_terminal::keys::{KeyParser, KeyPress};
use byleave_terminal::palette::Palette;
use byleave_terminal::question_dialog::DialogSettings;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use uuid::Uuid;

use crate::sheets;
use crate::typist::{TypingRandom, Typist};

const KEYSTROKES: usize = 10_000;
const KEYSTROKES_LONG: usize = 1_000_000;

fn chat() -> Chat {
    let setting = DialogSettings {
        palette: Palette::Plain,
        min_read_time_percent: 100,
        can_go_back: true,
        can_answer_later: false,
        has_one_key_answers: false,
        undo: None,
        now: 0,
    };
    let mut chat = Chat::new(setting);
    let heading = ChatStatusBar {
        persona_and_model: "coder with openai/some-model".into(),
        session: "a1b2c3d4".into(),
        directory: "/home/ann/project".into(),
        is_dry_run: false,
    };
    chat.begin(heading, Vec::new());
    chat
}

fn card(call: u128) -> CallCard {
    CallCard {
        call: CallId::new(Uuid::from_u128(call)),
        tool: "bash".into(),
        summary: "cargo test".into(),
        reason: Some("to see what fails".into()),
        state: CallCardState::Running { detail: String::new() },
        output: String::new(),
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn typed(chat: &mut Chat, at: Duration, text: &str) -> Vec<ChatAction> {
    let mut keyboard = KeyParser::default();
    let mut keys = keyboard.read(text.as_bytes(), true);
    keys.extend(keyboard.flush());
    keys.iter().map(|key| chat.key(at, 0, key)).filter(|act| *act != ChatAction::Nothing).collect()
}

/// Draws the chat, and checks that no escape sequence reaches the terminal.
fn drawn(chat: &mut Chat, columns: u16, rows: u16, at: Duration) -> Buffer {
    let area = Rect::new(0, 0, columns, rows);
    let mut buf = Buffer::empty(area);
    chat.draw(area, &mut buf, at, 61_000);
    assert!(buf.content().iter().all(|cell| cell.symbol().chars().all(is_printable)), "{buf:?}");
    buf
}

fn screen(chat: &mut Chat, columns: u16, rows: u16, at: Duration) -> String {
    let buf = drawn(chat, columns, rows, at);
    let row = |y: u16| {
        let cells = (0..columns).map(|x| buf[(x, y)].symbol().to_owned());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..rows).map(row).collect::<Vec<_>>().join("\n")
}

// req: R5
#[test]
fn nobody_who_writes_to_the_model_at_a_persons_pace_answers_anything() {
    answers_nothing(Typist::Prose);
}

// req: R5
#[test]
fn nobody_who_writes_to_the_model_without_a_stop_answers_anything() {
    answers_nothing(Typist::Fast);
}

// req: R5
#[test]
fn nobody_who_writes_to_the_model_by_pasting_answers_anything() {
    answers_nothing(Typist::Paste);
}

// req: R5
#[test]
fn nobody_who_writes_to_the_model_at_a_terminal_that_reports_answers_anything() {
    answers_nothing(Typist::Reports);
}

// req: R5
#[test]
fn nobody_who_writes_to_the_model_at_random_answers_anything() {
    answers_nothing(Typist::Random);
}

fn answers_nothing(typist: Typist) {
    let wanted = match std::env::var("BYLEAVE_PROOF").is_ok_and(|form| form == "long") {
        true => KEYSTROKES_LONG,
        false => KEYSTROKES,
    };
    let (keystrokes, questions, accidents) = types(typist, wanted, 13);
    println!("{typist:?}: {keystrokes} keystrokes, {questions} questions, {} answered", accidents.len());
    assert!(questions * 100 > keystrokes / 10, "too few questions came up");
    assert!(accidents.is_empty(), "{typist:?}: {accidents:#?}");
}

/// Types this many keys. Questions come up at random and are withdrawn unanswered after a while.
fn types(typist: Typist, wanted: usize, seed: u64) -> (usize, usize, Vec<String>) {
    let mut dice = TypingRandom(seed);
    let (mut text, mut keyboard, mut now) = (Vec::new(), KeyParser::default(), Duration::ZERO);
    let (mut chat, all) = (chat(), sheets::all());
    let (mut keystrokes, mut questions, mut accidents) = (0, 0, Vec::new());
    let mut open: Option<QuestionId> = None;
    let mut changes_at = dice.ms(0, 20_000);
    while keystrokes < wanted {
        let (pause, bytes) = typist.next(&mut dice, &mut text);
        let at = now + pause;
        while changes_at <= at {
            now = changes_at;
            match open.take() {
                None => {
                    questions += 1;
                    let sheet: &QuestionView = all.get(dice.of(&[0, 1, 2, 3, 4])).unwrap();
                    open = Some(sheet.question.id);
                    chat.ask(now, 0, sheet.clone(), Some("something".into()));
                    drawn(&mut chat, 80, 40, now);
                    changes_at = now + dice.ms(200, 30_000);
                }
                Some(question) => {
                    chat.withdraw(now, 0, question);
                    changes_at = now + dice.ms(1, 20_000);
                }
            }
        }
        now = at;
        let mut keys = keyboard.read(&bytes, true);
        keys.extend(keyboard.flush());
        keystrokes += keys.len().max(1);
        for key in &keys {
            match chat.key(now, 0, key) {
                act @ (ChatAction::Answer(..) | ChatAction::Undo | ChatAction::CancelWork) => {
                    accidents.push(format!("{act:?}"))
                }
                // The message was sent, and its work is done at once.
                ChatAction::SendMessage(_) => drop(chat.finish_work(String::new())),
                _ => {}
            }
        }
        drawn(&mut chat, 80, 40, now);
    }
    (keystrokes, questions, accidents)
}

// req: R5
#[test]
fn half_a_line_waits_until_the_question_is_answered() {
    let (mut chat, [sheet, ..]) = (chat(), sheets::all());
    assert!(typed(&mut chat, ms(0), "and then").is_empty());
    chat.ask(ms(100), 0, sheet.clone(), None);
    let shown = screen(&mut chat, 80, 30, ms(100));
    assert!(shown.contains("Write a") && shown.contains("y yes"), "{shown}");
    // Continued typing answers nothing.
    assert!(typed(&mut chat, ms(2_000), "y\r").is_empty());
    assert!(typed(&mut chat, ms(9_000), "y").is_empty());
    let acts = typed(&mut chat, ms(9_100), "\r");
    assert!(
        matches!(acts.as_slice(), [ChatAction::Answer(question, _)] if *question == sheet.question.id),
        "{acts:?}"
    );
    assert!(screen(&mut chat, 80, 30, ms(9_200)).contains("› and then"));
    assert_eq!(typed(&mut chat, ms(9_300), "\r"), [ChatAction::SendMessage("and then".into())]);
}

// req: R5
#[test]
fn a_question_can_be_put_away_to_read_and_is_opened_again() {
    let (mut chat, [sheet, ..]) = (chat(), sheets::all());
    chat.finish_text("I write it down.".into(), Vec::new());
    chat.start_call(card(1), 0);
    chat.ask(ms(0), 0, sheet.clone(), None);
    screen(&mut chat, 80, 30, ms(0));
    typed(&mut chat, ms(3_000), "\u{1b}");
    let shown = screen(&mut chat, 80, 30, ms(3_100));
    assert!(
        shown.contains("one open question: press Tab") && shown.contains("waits for your answer"),
        "{shown}"
    );
    typed(&mut chat, ms(3_200), "\t");
    screen(&mut chat, 80, 30, ms(3_300));
    assert!(typed(&mut chat, ms(3_400), "y").is_empty());
    assert!(matches!(typed(&mut chat, ms(3_500), "\r").as_slice(), [ChatAction::Answer(..)]));
    // A question that was answered elsewhere is closed.
    chat.ask(ms(4_000), 0, sheet.clone(), None);
    chat.withdraw(ms(5_000), 0, sheet.question.id);
    assert!(!screen(&mut chat, 80, 30, ms(5_000)).contains("y yes"));
}

// req: R5
#[test]
fn what_is_written_for_a_question_that_goes_is_no_answer_to_the_next_and_no_word_for_the_model() {
    let (mut chat, [first, ..]) = (chat(), sheets::all());
    let mut second = first.clone();
    second.question.id = QuestionId::new(Uuid::from_u128(8));
    chat.ask(ms(0), 0, first.clone(), None);
    chat.ask(ms(0), 0, second.clone(), None);
    screen(&mut chat, 80, 40, ms(0));
    typed(&mut chat, ms(3_000), "n");
    typed(&mut chat, ms(3_100), "\r");
    for at in 40..120 {
        assert!(typed(&mut chat, ms(at * 100), "x").is_empty());
    }
    chat.withdraw(ms(12_000), 0, first.question.id);
    screen(&mut chat, 80, 40, ms(12_000));
    // Another pause in the same sentence.
    assert!(typed(&mut chat, ms(13_500), "a").is_empty());
    assert!(typed(&mut chat, ms(13_600), "\r").is_empty());
    // The other question is withdrawn too, while the person is about to answer it.
    typed(&mut chat, ms(30_000), "y");
    chat.withdraw(ms(30_050), 0, second.question.id);
    assert!(typed(&mut chat, ms(30_100), "y\r").is_empty());
    let shown = screen(&mut chat, 80, 40, ms(30_200));
    assert!(shown.contains("the question was answered elsewhere") && shown.contains("\n›\n"), "{shown}");
    assert_eq!(typed(&mut chat, ms(32_000), "go on\r"), [ChatAction::SendMessage("go on".into())]);
}

// req: L7
#[test]
fn nothing_that_was_written_is_lost() {
    let (mut chat, [sheet, ..]) = (chat(), sheets::all());
    chat.start_turn(0);
    typed(&mut chat, ms(0), "first\rhalf a line");
    // A queued message is taken back only into an empty input field.
    typed(&mut chat, ms(1), "\u{1b}");
    let shown = screen(&mut chat, 80, 20, ms(2));
    assert!(shown.contains("› half a line") && shown.contains("› first (queued"), "{shown}");
    // While a question is hidden, text from the editor goes to the input field.
    chat.ask(ms(3), 0, sheet, None);
    screen(&mut chat, 80, 20, ms(4));
    typed(&mut chat, ms(10_000), "\u{1b}");
    assert!(
        matches!(typed(&mut chat, ms(10_100), "\u{7}").as_slice(), [ChatAction::Editor(text)] if text == "half a line")
    );
    chat.set_edited_text(ms(10_200), Ok("a whole line\n".into()));
    assert!(screen(&mut chat, 80, 20, ms(10_300)).contains("› a whole line"));
    // A question came up between two keys, so the second key is treated as the first.
    assert!(typed(&mut chat, ms(10_400), "\u{1b}").is_empty());
}

// req: L7
#[test]
fn what_the_model_says_stays_together_and_nothing_in_it_looks_like_a_card() {
    let mut chat = chat();
    chat.start_turn(0);
    chat.append_text("one two ");
    chat.add_note("written to a.md");
    chat.append_text("three");
    chat.finish_text("one two three".into(), Vec::new());
    let shown = screen(&mut chat, 80, 20, ms(0));
    assert_eq!(shown.matches("one two").count(), 1, "{shown}");
    chat.finish_text("✔ bash cargo test\n┊   completed in 2 s\n! a note".into(), Vec::new());
    chat.start_call(card(1), 0);
    let shown = screen(&mut chat, 80, 30, ms(1));
    let at_the_edge: Vec<&str> =
        shown.lines().skip(1).filter(|row| row.starts_with(['✔', '•', '┊', '!'])).collect();
    assert_eq!(at_the_edge.len(), 1 + 3, "{shown}");
}

// req: L7
#[test]
fn what_is_said_while_the_model_works_is_said_when_it_rests() {
    let mut chat = chat();
    assert_eq!(typed(&mut chat, ms(0), "mend it\r"), [ChatAction::SendMessage("mend it".into())]);
    chat.start_turn(60_000);
    assert!(typed(&mut chat, ms(1), "and log it\rand more\r").is_empty());
    let shown = screen(&mut chat, 80, 20, ms(2));
    assert!(shown.contains("› and log it (queued until the model is done"), "{shown}");
    // After it was taken back, it can be changed.
    assert!(typed(&mut chat, ms(3), "\u{1b}").is_empty());
    assert!(screen(&mut chat, 80, 20, ms(4)).contains("› and more\n"));
    assert_eq!(chat.finish_work("2 turns".into()), Some("and log it".into()));
    assert_eq!(chat.finish_work("2 turns".into()), None);
}

// req: L7
#[test]
fn work_is_called_off_by_the_second_key_and_nobody_leaves_it_by_accident() {
    let mut chat = chat();
    chat.start_turn(0);
    assert!(typed(&mut chat, ms(0), "\u{1b}").is_empty());
    assert_eq!(typed(&mut chat, ms(100), "\u{1b}"), [ChatAction::CancelWork]);
    // After another key in between, the confirmation starts over.
    typed(&mut chat, ms(200), "\u{1b}x\u{7f}");
    assert!(typed(&mut chat, ms(300), "\u{1b}").is_empty());
    assert!(typed(&mut chat, ms(400), "/quit\r").is_empty());
    assert_eq!(typed(&mut chat, ms(500), "\r"), [ChatAction::Quit]);
    assert!(typed(&mut chat, ms(600), "/new\r").is_empty());
    chat.finish_work(String::new());
    assert_eq!(typed(&mut chat, ms(700), "\r"), [ChatAction::SlashCommand(SlashCommand::New)]);
    assert_eq!(typed(&mut chat, ms(800), "\u{4}"), [ChatAction::Quit]);
}

// req: L7
#[test]
fn lines_are_written_recalled_and_completed() {
    let mut chat = chat();
    assert_eq!(
        typed(&mut chat, ms(0), "one\u{1b}\rtwo\\\rthree\r"),
        [ChatAction::SendMessage("one\ntwo\nthree".into())]
    );
    chat.finish_work(String::new());
    assert_eq!(
        typed(&mut chat, ms(1), "\u{1b}[A\u{1b}[B\u{1b}[Afour\r"),
        [ChatAction::SendMessage("one\ntwo\nthreefour".into())]
    );
    chat.finish_work(String::new());
    assert_eq!(typed(&mut chat, ms(2), "/und\t\r"), [ChatAction::SlashCommand(SlashCommand::Undo)]);
    assert!(typed(&mut chat, ms(3), "/etc/passwd\r").is_empty());
    assert!(screen(&mut chat, 80, 20, ms(4)).contains("unknown command"));
}

// req: L7
#[test]
fn what_is_heard_and_done_stands_in_its_order() {
    let mut chat = chat();
    typed(&mut chat, ms(0), "Mend the failing test.\r");
    chat.start_turn(1_000);
    chat.append_text("I look ");
    chat.restart_turn();
    chat.append_text("I see what");
    assert!(!screen(&mut chat, 80, 20, ms(1)).contains("I look"));
    chat.finish_text("I see what fails.".into(), Vec::new());
    chat.start_call(card(1), 1_000);
    let lines: String = (0..20).map(|line| format!("line {line}\n")).collect();
    chat.append_output(CallId::new(Uuid::from_u128(1)), &lines);
    chat.progress(CallId::new(Uuid::from_u128(1)), "12 of 40".into());
    insta::assert_snapshot!("works", screen(&mut chat, 80, 20, ms(2)));
    let ended =
        CallCardState::Ended { description: "failed in 1.2 s: exit code 101".into(), is_success: false };
    chat.finish_call(CallId::new(Uuid::from_u128(1)), ended, &lines);
    chat.finish_text(String::new(), vec!["a block was not closed".into()]);
    chat.finish_work("2 turns, 120 tokens".into());
    insta::assert_snapshot!("rests", screen(&mut chat, 80, 20, ms(3)));
    typed(&mut chat, ms(4), "\u{f}");
    assert!(screen(&mut chat, 80, 40, ms(5)).contains("line 0\n"));
    screen(&mut chat, 80, 12, ms(6));
    typed(&mut chat, ms(6), "\u{1b}[5~\u{1b}[5~\u{1b}[5~\u{1b}[5~\u{1b}[5~");
    let top = screen(&mut chat, 80, 12, ms(7));
    assert!(top.contains("Mend the failing test.") && top.contains("rows below"), "{top}");
    // A repeated call is shown in the same card.
    chat.start_call(card(1), 2_000);
    assert_eq!(screen(&mut chat, 80, 60, ms(8)).matches("cargo test").count(), 1);
}

// req: R5, S1
#[test]
fn nothing_from_outside_acts_on_the_terminal_at_any_size() {
    let evil = "\u{1b}[2J\u{1b}]0;x\u{7}a\rb\u{202e}c\u{9b}31m\n\ttab\u{200b}";
    let mut chat = chat();
    let heading = ChatStatusBar {
        persona_and_model: evil.into(),
        session: evil.into(),
        directory: evil.into(),
        is_dry_run: true,
    };
    let ended = CallCardState::Ended { description: evil.into(), is_success: false };
    let cards = [CallCardState::Running { detail: evil.into() }, CallCardState::Waiting, ended]
        .into_iter()
        .enumerate();
    let cards = cards.map(|(call, state)| {
        let call = CallId::new(Uuid::from_u128(call as u128 + 1));
        let why = Some(evil.into());
        TranscriptEntry::Card(CallCard {
            call,
            tool: evil.into(),
            summary: evil.into(),
            reason: why,
            state,
            output: evil.into(),
        })
    });
    let said = [
        TranscriptEntry::Person(evil.into()),
        TranscriptEntry::Model(evil.into()),
        TranscriptEntry::Note(evil.into()),
    ];
    chat.begin(heading, said.into_iter().chain(cards).collect());
    chat.start_turn(0);
    chat.append_text(evil);
    chat.queue_message(evil.into());
    chat.key(ms(0), 0, &KeyPress::Paste(evil.into()));
    let sizes = || (1..40).flat_map(|columns| (1..12).map(move |rows| (columns, rows)));
    let all = |chat: &mut Chat| {
        for (columns, rows) in sizes().chain([(80, 24), (200, 60)]) {
            screen(chat, columns, rows, ms(1));
        }
    };
    all(&mut chat);
    chat.show_message(evil);
    chat.page(evil, evil);
    all(&mut chat);
    typed(&mut chat, ms(2), "q");
    let pick = PickerItem { key: evil.into(), title: evil.into(), description: evil.into() };
    chat.pick(vec![pick.clone(), pick]);
    all(&mut chat);
    let [sheet, ..] = sheets::all();
    chat.ask(ms(3), 0, sheet, None);
    all(&mut chat);
}

// req: L10, L5
#[test]
fn the_status_bar_says_that_it_is_a_dry_run() {
    let mut chat = chat();
    assert!(!screen(&mut chat, 80, 10, ms(0)).contains("dry run"));
    let heading = ChatStatusBar { is_dry_run: true, ..ChatStatusBar::default() };
    chat.begin(heading, vec![TranscriptEntry::Person("Deploy.".into())]);
    for columns in [30, 80, 200] {
        let screen = screen(&mut chat, columns, 10, ms(1));
        assert!(screen.lines().next().unwrap().contains("(dry run)"), "{screen}");
    }
}

// req: L7
#[test]
fn a_conversation_is_chosen_from_a_list_that_typing_narrows() {
    let mut chat = Chat::new(DialogSettings {
        palette: Palette::Plain,
        min_read_time_percent: 100,
        can_go_back: true,
        can_answer_later: false,
        has_one_key_answers: false,
        undo: None,
        now: 0,
    });
    let pick = |key: &str, title: &str| PickerItem {
        key: key.into(),
        title: title.into(),
        description: format!("{key}, 2 h ago, coder with openai/some-model, 6 turns"),
    };
    let picks = vec![pick("chat-1", "Mend the failing test."), pick("chat-2", "Write the release notes.")];
    chat.pick(picks.clone());
    insta::assert_snapshot!("picker", screen(&mut chat, 80, 10, ms(0)));
    assert_eq!(typed(&mut chat, ms(1), "RELEASE\r"), [ChatAction::Open("chat-2".into())]);
    chat.pick(picks.clone());
    assert_eq!(typed(&mut chat, ms(2), "\u{1b}[B\r"), [ChatAction::Open("chat-2".into())]);
    chat.pick(picks);
    // The chosen conversation is not available. The message appears where the person looks.
    chat.show_message("there is no key for it");
    assert!(screen(&mut chat, 80, 10, ms(3)).ends_with("there is no key for it"));
    // If nothing is open, going back starts a new conversation.
    assert_eq!(typed(&mut chat, ms(3), "\u{1b}"), [ChatAction::SlashCommand(SlashCommand::New)]);
}
