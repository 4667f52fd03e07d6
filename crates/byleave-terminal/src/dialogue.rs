//! One question, or several that get one answer: keys and times go in, a drawing and an answer come out.
//!
//! Pure: it reads no terminal and no clock. A yes comes out only when the end of the question was on the screen, the guard heard it,
//! and the words were typed where it cannot be taken back.

mod draw;
mod edit;
mod leave;
mod parts;

use std::time::Duration;

use byleave::approve::{Gravity, Reply};
use byleave_core::call::Millis;
use byleave_core::leave::Leave;
use byleave_core::offer::Offer;
use byleave_core::question::QuestionKind;
use byleave_core::render::{LineRole, RenderLine, Rendering, render};
use byleave_core::sheet::{Seen, Sheet};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::colour::Palette;
use crate::field::Field;
use crate::guard::{Guard, Heard};
use crate::keys::Key;
use crate::view::View;

pub use edit::Edit;
pub use leave::LeaveForm;
pub(crate) use leave::offered;
pub use parts::Parts;

/// What a key came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing that concerns anyone else.
    Stay,
    /// The answer.
    Reply(Reply),
    /// The person wants to change this text in an editor of their own; [`Dialogue::edited`] takes it back.
    Editor(String),
    /// The person considers this leave; [`Dialogue::past`] takes what it would have covered.
    Consider(Leave),
    /// The person wants to take back what was changed last.
    Undo,
    /// The person leaves the question as it is.
    Back,
}

/// What a dialogue is told when it begins.
#[derive(Clone, Debug)]
pub struct Setting {
    /// How things are coloured.
    pub palette: Palette,
    /// How long a question must be looked at, in percent of what is usual; never less.
    pub dwell_percent: u32,
    /// The person can go away from the question and leave it open.
    pub can_go_back: bool,
    /// What an undo would take back, in words, where there is something.
    pub undo: Option<String>,
    /// What time it is, for leaves that end.
    pub now: Millis,
}

/// One question, or several that get one answer.
pub struct Dialogue {
    sheets: Vec<Sheet>,
    setting: Setting,
    gravity: Gravity,
    is_complete: bool,
    view: View,
    guard: Guard,
    stage: Stage,
    /// Something to say about the last key.
    said: Option<String>,
    /// What stands below the question did not fit when it was last drawn.
    is_foot_cut: bool,
    offered: Result<Vec<Offer>, String>,
}

/// What the person is doing.
enum Stage {
    /// Reads, and chooses.
    Reading,
    /// Says no, and what to do instead.
    Feedback(Field),
    /// Types the words that a yes needs.
    Words(Field),
    /// Changes the arguments, or the result.
    Edit(Edit),
    /// Considers a leave.
    Leave(LeaveForm),
    /// Chooses what to keep.
    Parts(Parts),
    /// Names words to be masked in a result.
    Mask(Field),
}

/// A letter that can be chosen, and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The letter.
    pub key: char,
    /// What it is called.
    pub name: &'static str,
    /// What it will do.
    pub meaning: String,
    /// Why it cannot be chosen, where it cannot.
    pub off: Option<&'static str>,
}

impl Dialogue {
    /// About one question or several; several are shown one after the other, whole.
    ///
    /// What leaves could be given is worked out by whoever holds the dialogue.
    pub fn new(sheets: Vec<Sheet>, offered: Result<Vec<Offer>, String>, setting: Setting) -> Self {
        let rendering = together(&sheets);
        let gravity = sheets.iter().map(Gravity::of).max().unwrap_or(Gravity::Final);
        Self {
            guard: Guard::new(gravity.dwell() * setting.dwell_percent.max(100) / 100),
            view: View::new(&rendering),
            is_complete: rendering.complete && !sheets.is_empty(),
            gravity,
            sheets,
            setting,
            stage: Stage::Reading,
            said: None,
            is_foot_cut: false,
            offered,
        }
    }

    /// The sheets that it is about.
    pub fn sheets(&self) -> &[Sheet] {
        &self.sheets
    }

    /// Whether the person is typing into a field rather than reading.
    pub const fn is_typing(&self) -> bool {
        !matches!(self.stage, Stage::Reading)
    }

    /// Until when the question can be answered.
    pub fn expires_at(&self) -> Millis {
        self.sheets.iter().map(|sheet| sheet.question.expires_at).min().unwrap_or(0)
    }

    /// How many rows it would like to have.
    pub fn height(&mut self, columns: u16) -> usize {
        self.view.rows(columns).saturating_add(self.foot_rows(columns)).saturating_add(1)
    }

    /// Draws it, with so much time left; returns where the cursor is.
    pub fn draw(
        &mut self,
        area: Rect,
        buf: &mut Buffer,
        now: Duration,
        left: Option<Duration>,
    ) -> Option<Position> {
        let cursor = draw::draw(self, area, buf, now, left);
        self.guard.drawn(now);
        cursor
    }

    /// Keys that were pressed before it was on the screen: no answers, but they say whether somebody is in the middle of a line.
    pub fn ahead(&mut self, now: Duration, keys: &[Key]) {
        for key in keys {
            match key {
                Key::Char(c) => drop(self.guard.typed(now, *c, false)),
                Key::Enter => drop(self.guard.enter(now)),
                Key::Escape => self.guard.clear(),
                Key::Backspace => self.guard.erased(now),
                Key::Paste(_) => self.guard.pasted(now),
                _ => continue,
            }
            self.guard.amid(now, Duration::ZERO);
        }
    }

    /// How long ago something was typed here, for [`Dialogue::amid`] of the next question, where this one was not answered.
    pub fn wrote(&self, now: Duration) -> Option<Duration> {
        self.guard.wrote(now)
    }

    /// Somebody typed something at the question before, which was not answered, so long ago.
    pub fn amid(&mut self, now: Duration, ago: Duration) {
        self.guard.amid(now, ago);
    }

    /// Takes a key.
    pub fn key(&mut self, now: Duration, key: &Key) -> Step {
        self.said = None;
        if self.is_typing() {
            self.guard.wrote_at(now);
        }
        match &mut self.stage {
            Stage::Reading => self.read(now, key),
            Stage::Feedback(field) => match key {
                Key::Enter => {
                    let text = field.text().trim().to_owned();
                    Step::Reply(Reply::No { feedback: (!text.is_empty()).then_some(text) })
                }
                _ => self.typed(key),
            },
            Stage::Words(field) => match key {
                Key::Paste(_) => self.say("type it: what is pasted is no answer"),
                Key::Enter if Some(field.text().as_str()) == self.words() => self.yes(),
                Key::Enter => {
                    self.stage = Stage::Reading;
                    self.say("those were not the words: nothing was answered")
                }
                _ => self.typed(key),
            },
            Stage::Mask(field) => match key {
                Key::Enter => {
                    let words = field.text();
                    self.masked(&words)
                }
                _ => self.typed(key),
            },
            Stage::Edit(edit) => match edit.key(key) {
                edit::Came::Nothing => Step::Stay,
                edit::Came::Back => self.back(),
                edit::Came::Editor(text) => Step::Editor(text),
                edit::Came::Value(value) => Step::Reply(Reply::Edit { value, note: None }),
            },
            // A leave is given only as it is shown.
            Stage::Leave(_) if *key == Key::Enter && self.is_foot_cut => {
                self.say("the window is too small to show what the leave covers: make it larger")
            }
            Stage::Leave(form) => match form.key(key) {
                leave::Came::Nothing => Step::Stay,
                leave::Came::Back => self.back(),
                leave::Came::Other(leave) => Step::Consider(leave),
                leave::Came::Given(leave) => Step::Reply(Reply::Leave(leave)),
            },
            Stage::Parts(parts) => match parts.key(key) {
                parts::Came::Nothing => Step::Stay,
                parts::Came::Back => self.back(),
                parts::Came::Chosen(paths) => Step::Reply(Reply::Part { paths, note: None }),
            },
        }
    }

    /// The text that came out of the person's editor, or why none did.
    pub fn edited(&mut self, text: Result<String, String>) {
        match (&mut self.stage, text) {
            (Stage::Edit(edit), Ok(text)) => edit.replace(&text),
            (_, Err(why)) => self.said = Some(why),
            (_, Ok(_)) => {}
        }
    }

    /// What the leave that is considered would have covered.
    pub fn past(&mut self, words: Vec<String>) {
        if let Stage::Leave(form) = &mut self.stage {
            form.past(words);
        }
    }

    /// Something to be told beside the keys.
    pub fn tell(&mut self, text: impl Into<String>) {
        self.said = Some(text.into());
    }

    /// What can be chosen, and what not, and why.
    pub fn choices(&self) -> Vec<Choice> {
        let unseen = "scroll to the end first";
        let approving = if !self.is_complete {
            Some("it cannot be shown in full")
        } else if self.view.is_cut() {
            Some("the window is too narrow to show it")
        } else if !self.view.has_reached_end() {
            Some(unseen)
        } else {
            None
        };
        let choice = |key, name, meaning: &str, off| Choice { key, name, meaning: meaning.to_owned(), off };
        let one = self.only();
        let kind = one.map(|sheet| sheet.question.kind);
        if kind == Some(QuestionKind::Release) {
            return vec![
                choice('y', "release", "the model sees the result as it is", approving),
                choice('r', "redact", "the model sees it with secrets and words of yours masked", approving),
                choice('e', "edit", "the model sees what you make of it", None),
                choice('n', "withhold", "the model does not see it", None),
                choice('a', "abort", "stops everything", None),
            ];
        }
        let yes = match self.stands() {
            true => "makes exactly this final; it can be undone",
            false => "lets it run",
        };
        let mut choices =
            vec![choice('y', "yes", yes, approving), choice('n', "no", "it does not run", None)];
        if let Some(sheet) = one {
            choices.push(choice('e', "edit", "other arguments, judged again", None));
            let changes = |seen: &Seen| match seen {
                Seen::Ran { rehearsal, .. } => rehearsal.stands() && rehearsal.changes.list.len() > 1,
                Seen::Not { .. } => false,
            };
            if sheet.seen.as_ref().is_some_and(changes) {
                choices.push(choice('p', "part", "keeps some of the changes", approving));
            }
            let off = match (&self.offered, kind) {
                (_, Some(QuestionKind::Checkpoint)) => Some("no leave passes a checkpoint"),
                (Err(_), _) => Some("no leave can be given for this"),
                (Ok(offers), _) if offers.is_empty() => Some("no leave can be given for this"),
                (Ok(_), _) => approving,
            };
            choices.push(choice('l', "leave", "yes, and no longer asked within bounds that you choose", off));
        }
        if let Some(undo) = &self.setting.undo {
            let meaning = format!("takes back {undo}; this stays open");
            choices.push(choice('u', "undo", &meaning, None));
        }
        choices.push(choice('a', "abort", "stops everything", None));
        choices
    }

    fn only(&self) -> Option<&Sheet> {
        match self.sheets.as_slice() {
            [sheet] => Some(sheet),
            _ => None,
        }
    }

    fn stands(&self) -> bool {
        let stands =
            |sheet: &Sheet| matches!(&sheet.seen, Some(Seen::Ran { rehearsal, .. }) if rehearsal.stands());
        !self.sheets.is_empty() && self.sheets.iter().all(stands)
    }

    /// The words that a yes needs, where a key is not enough.
    fn words(&self) -> Option<&'static str> {
        self.sheets.iter().find_map(|sheet| Gravity::of(sheet).words(sheet.question.kind))
    }

    fn read(&mut self, now: Duration, key: &Key) -> Step {
        match key {
            Key::Paste(_) => {
                self.guard.pasted(now);
                return self.say("what is pasted is no answer: press a key");
            }
            Key::Escape => {
                let was_choosing = self.guard.chosen().is_some() || self.guard.is_running();
                self.guard.clear();
                if !was_choosing && self.setting.can_go_back {
                    return Step::Back;
                }
            }
            Key::Backspace => self.guard.erased(now),
            Key::Char(' ') if self.guard.chosen().is_none() && !self.guard.is_running() => {
                self.guard.scrolled(now);
                self.view.key(key);
            }
            Key::Char('d') if self.guard.shows(now) => self.view.toggle_details(),
            Key::Char(c) => {
                let choice = self.choices().into_iter().find(|choice| choice.key == *c);
                let heard = self.guard.typed(now, *c, choice.is_some());
                if let (Heard::Chosen(_), Some(off)) = (heard, choice.and_then(|choice| choice.off)) {
                    self.guard.clear();
                    return match (*c, &self.offered) {
                        ('l', Err(why)) => self.say(why.clone()),
                        _ => self.say(off),
                    };
                }
            }
            Key::Enter => {
                if let Heard::Confirmed(c) = self.guard.enter(now) {
                    return self.chosen(c);
                }
            }
            _ => {
                self.view.key(key);
            }
        }
        Step::Stay
    }

    /// A choice was confirmed; it may have been switched off since.
    fn chosen(&mut self, c: char) -> Step {
        let Some(choice) = self.choices().into_iter().find(|choice| choice.key == c) else {
            return Step::Stay;
        };
        if let Some(off) = choice.off {
            return self.say(off);
        }
        let is_release = self.only().is_some_and(|sheet| sheet.question.kind == QuestionKind::Release);
        match c {
            'y' if self.words().is_some() => self.stage = Stage::Words(Field::line()),
            'y' => return self.yes(),
            'n' => self.stage = Stage::Feedback(Field::line()),
            'r' if is_release => self.stage = Stage::Mask(Field::line()),
            'a' => return Step::Reply(Reply::Abort),
            'u' => return Step::Undo,
            'e' => {
                if let Some(edit) = self.only().map(Edit::of) {
                    self.stage = Stage::Edit(edit);
                }
            }
            'p' => {
                if let Some(parts) = self.only().and_then(Parts::of) {
                    self.stage = Stage::Parts(parts);
                }
            }
            'l' => {
                let form = match (self.only(), &self.offered) {
                    (Some(sheet), Ok(offers)) => LeaveForm::new(sheet, offers.clone(), self.setting.now),
                    _ => None,
                };
                if let Some(form) = form {
                    let leave = form.leave();
                    self.stage = Stage::Leave(form);
                    return Step::Consider(leave);
                }
            }
            _ => {}
        }
        Step::Stay
    }

    fn yes(&self) -> Step {
        // The one place where a yes is made: whatever led here, it must be possible to have seen everything.
        if !self.is_complete || !self.view.has_reached_end() {
            return Step::Stay;
        }
        Step::Reply(Reply::Yes { note: None })
    }

    /// The result with what must not be seen masked, as an edit.
    fn masked(&mut self, words: &str) -> Step {
        let Some(output) = self.only().and_then(|sheet| sheet.output.clone()) else { return Step::Stay };
        match edit::masked(&output, words) {
            Ok(value) => Step::Reply(Reply::Edit { value, note: None }),
            Err(why) => self.say(why),
        }
    }

    fn typed(&mut self, key: &Key) -> Step {
        if *key == Key::Escape {
            return self.back();
        }
        if let Stage::Feedback(field) | Stage::Words(field) | Stage::Mask(field) = &mut self.stage {
            field.key(key);
        }
        Step::Stay
    }

    fn back(&mut self) -> Step {
        self.stage = Stage::Reading;
        Step::Stay
    }

    fn say(&mut self, text: impl Into<String>) -> Step {
        self.said = Some(text.into());
        Step::Stay
    }
}

/// Several questions on one page, each whole and each behind a line that counts them.
fn together(sheets: &[Sheet]) -> Rendering {
    if let [sheet] = sheets {
        return render(sheet);
    }
    let mut all = Rendering { lines: Vec::new(), complete: true };
    for (sheet, place) in sheets.iter().zip(1..) {
        let one = render(sheet);
        let text = format!("═══ {place} of {} ═══", sheets.len());
        all.lines.push(RenderLine { role: LineRole::Title, text, gutter: 0 });
        all.lines.extend(one.lines);
        all.complete &= one.complete;
    }
    all
}
