//! The time for a frame of the inbox on a real terminal, with 10,000 open questions.

use std::time::{Duration, Instant};

use byleave_core::file_change::{FileChange, FileChanges, FileNode, FileNodeKind, GitStatus};
use byleave_core::id::{CallId, QuestionId, SessionId, TenantId};
use byleave_core::outcome::{ExecutionStatus, Output};
use byleave_core::question::QuestionKind;
use byleave_core::question_view::{QuestionView, RehearsalView};
use byleave_core::rehearsal::Rehearsal;
use byleave_gate::audit_log::{Cursor, QuestionItem};
use byleave_gate::ledger::CallSummary;
use byleave_terminal::inbox::{Inbox, InboxItem};
use byleave_terminal::keys::KeyPress;
use byleave_terminal::palette::Palette;
use byleave_terminal::question_dialog::DialogSettings;
use byleave_terminal::tty::{DrawMode, Tty};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustix::time::{ClockId, clock_gettime};
use uuid::Uuid;

use crate::person::TestTerminal;
use crate::sheets;

const QUESTIONS: u32 = 10_000;
const FRAME_MAX: Duration = Duration::from_millis(16);

fn setting() -> DialogSettings {
    DialogSettings {
        palette: Palette::Colours,
        min_read_time_percent: 100,
        can_go_back: true,
        can_answer_later: false,
        has_one_key_answers: true,
        undo: None,
        now: 0,
    }
}

fn items() -> Vec<InboxItem> {
    (0..QUESTIONS).map(|number| InboxItem::from(&listed(number))).collect()
}

/// One of many open questions.
fn listed(number: u32) -> QuestionItem {
    QuestionItem {
        question: QuestionId::new(Uuid::from_u128(u128::from(number) + 1)),
        cursor: Cursor(i64::from(number)),
        kind: QuestionKind::Approval,
        call: CallId::new(Uuid::from_u128(u128::from(number) + 1)),
        call_summary: CallSummary {
            tenant: TenantId::new("local").unwrap(),
            session: SessionId::new(format!("session-{}", number % 97)).unwrap(),
            agent: format!("agent {}", number % 13),
            tool: if number.is_multiple_of(3) { "bash".into() } else { "write_file".into() },
            operation: "execute".into(),
            summary: format!("run /usr/bin/git push origin feature-{number}, write /ws/src/file-{number}.rs"),
        },
        asked_at: u64::from(number) * 7_919 % 900_000,
        expires_at: 2_000_000 + u64::from(number),
    }
}

/// A question about a command that changed this many lines of code.
fn with_difference(lines: usize) -> QuestionView {
    let line =
        |place: usize| format!("+    let value_{place} = compute(\"text {place}\", {place}); // why\n");
    let diff: String =
        std::iter::once(format!("@@ -0,0 +1,{lines} @@\n")).chain((0..lines).map(line)).collect();
    let file = FileNodeKind::File { size: diff.len() as u64, digest: None };
    let change = FileChange {
        path: "/ws/src/main.rs".into(),
        before: None,
        after: Some(FileNode { kind: file, mode: 0o644, modified_ns: 1 }),
        git_status: GitStatus::Untracked,
        diff: Some(diff),
    };
    let changes = FileChanges { list: vec![change], ..FileChanges::default() };
    let rehearsal = Rehearsal::new(changes, ExecutionStatus::Succeeded, Output::text(""));
    let [mut sheet, ..] = sheets::all();
    sheet.rehearsal = Some(RehearsalView::Ran { rehearsal, decision: None });
    sheet
}

/// The time for a frame: wall-clock time and processor time.
struct FrameTime {
    wall: Duration,
    busy: Duration,
}

fn busy() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

/// Measures one frame: a key, the drawing, and the output to the terminal.
fn frame(tty: &mut Tty, inbox: &mut Inbox, key: &KeyPress) -> FrameTime {
    let (began, busy_before) = (Instant::now(), busy());
    inbox.key(tty.now(), key);
    let (columns, rows) = tty.size();
    let area = Rect::new(0, 0, columns, rows);
    let mut buf = Buffer::empty(area);
    let cursor = inbox.draw(area, &mut buf, tty.now(), 1_000_000);
    tty.draw(&buf, cursor).unwrap();
    FrameTime { wall: began.elapsed(), busy: busy().saturating_sub(busy_before) }
}

// req: L5
#[test]
#[ignore = "measures time: scripts/prove frames"]
fn a_frame_of_the_inbox_takes_less_than_16_ms_with_10_000_questions() {
    let person = TestTerminal::sit_down(200, 60);
    person.looks_away();
    let mut tty = Tty::from_file(person.program(), DrawMode::Full).unwrap();
    let mut inbox = Inbox::new(setting());
    inbox.questions(items());
    let keys = [
        KeyPress::Down,
        KeyPress::PageDown,
        KeyPress::Char(' '),
        KeyPress::Char('s'),
        KeyPress::End,
        KeyPress::Home,
        KeyPress::Up,
    ];
    let mut took: Vec<FrameTime> = Vec::new();
    for _ in 0..40 {
        took.extend(keys.iter().map(|key| frame(&mut tty, &mut inbox, key)));
    }
    // While a filter is typed.
    for key in "/agent 7".chars().map(KeyPress::Char).chain([KeyPress::Escape]).cycle().take(90) {
        took.push(frame(&mut tty, &mut inbox, &key));
    }
    report("list of 10,000", &took);
}

// req: L5
#[test]
#[ignore = "measures time: scripts/prove frames"]
fn a_frame_of_a_long_question_takes_less_than_16_ms() {
    let person = TestTerminal::sit_down(200, 60);
    person.looks_away();
    let mut tty = Tty::from_file(person.program(), DrawMode::Full).unwrap();
    let mut inbox = Inbox::new(setting());
    inbox.questions(items());
    let mut sheet = with_difference(5_000);
    sheet.question.id = listed(0).question;
    inbox.open(vec![sheet], Err("none".into()), 0);
    // The first frames load the grammars and lay out the lines, of the card and of the details.
    frame(&mut tty, &mut inbox, &KeyPress::Other);
    std::thread::sleep(Duration::from_secs(1));
    frame(&mut tty, &mut inbox, &KeyPress::Char('d'));
    let keys = [KeyPress::PageDown, KeyPress::Down, KeyPress::Down, KeyPress::PageDown, KeyPress::Up];
    let frames = (0..60).flat_map(|_| &keys).map(|key| frame(&mut tty, &mut inbox, key));
    let took: Vec<FrameTime> = frames.collect();
    report("difference of 5,000 lines", &took);
}

/// Prints and checks the frame times. Other work on the machine lengthens the wall-clock time of a frame, but not its processor time.
fn report(what: &str, took: &[FrameTime]) {
    let (mut wall, mut busy): (Vec<_>, Vec<_>) = took.iter().map(|took| (took.wall, took.busy)).unzip();
    wall.sort();
    busy.sort();
    let at = |times: &[Duration], percent: usize| *times.get((times.len() - 1) * percent / 100).unwrap();
    for (clock, times) in [("wall", &wall), ("busy", &busy)] {
        println!(
            "figure: {what}, {clock}: median {:?}, 99 of 100 {:?}, worst {:?} of {}",
            at(times, 50),
            at(times, 99),
            at(times, 100),
            times.len()
        );
    }
    assert!(at(&wall, 50) < FRAME_MAX, "{what}: half of the frames took more than {:?}", at(&wall, 50));
    assert!(at(&busy, 95) < FRAME_MAX, "{what}: 95 of 100 took up to {:?} of a processor", at(&busy, 95));
}
