//! What was said and done, as far as it has come, and which part of it is on the screen.

use byleave_core::escape::{Care, Escaper, visible};
use byleave_core::id::CallId;

use unicode_width::UnicodeWidthStr as _;

use crate::keys::Key;
use crate::words::{broken, fit};

/// The most of what a call put out that is kept to be shown: its end.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// How many lines of it are shown where it is folded.
const FOLDED_LINES: usize = 4;
/// The most of one line that is shown there.
const LINE_CHARS_MAX: usize = 1_000;

/// Something that was said or done.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A person's word.
    Person(String),
    /// The model's.
    Model(String),
    /// A call that the model asked for.
    Card(Card),
    /// Something that the program says.
    Note(String),
}

/// A call, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// Which.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// What it is to do, in short.
    pub what: String,
    /// Why, in the model's words.
    pub why: Option<String>,
    /// How far it has come.
    pub state: State,
    /// The end of what it put out.
    pub output: String,
}

/// How far a call has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is looked at, or runs.
    Works {
        /// How far it is, in words of the tool's.
        detail: String,
    },
    /// A person is asked.
    Waits,
    /// It has ended.
    Ended {
        /// How, in words.
        words: String,
        /// It did what it was to do.
        is_good: bool,
    },
}

/// How a part of a row is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    Strong,
    Faint,
    Good,
    Careful,
    Bad,
    Person,
}

/// A row of the screen.
pub(super) type Row = Vec<(String, Ink)>;

/// Everything, and where one looks.
#[derive(Default)]
pub(super) struct Scroll {
    kept: Vec<Kept>,
    /// The model is in the middle of the last word of its own.
    is_hearing: bool,
    /// Outputs are shown in full.
    is_unfolded: bool,
    /// The first row on the screen; none where the end is followed.
    top: Option<usize>,
    /// How many rows there are, and are on the screen.
    rows: usize,
    height: usize,
}

/// An entry, and its rows as they were last drawn.
struct Kept {
    entry: Entry,
    rows: Option<(usize, Vec<Row>)>,
}

impl From<Entry> for Kept {
    fn from(entry: Entry) -> Self {
        Self { entry, rows: None }
    }
}

impl Scroll {
    pub(super) fn with(entries: Vec<Entry>) -> Self {
        Self { kept: entries.into_iter().map(Kept::from).collect(), ..Self::default() }
    }

    /// Comes last; but what the model is saying stays together.
    pub(super) fn push(&mut self, entry: Entry) {
        let place = self.kept.len().saturating_sub(usize::from(self.is_hearing));
        self.kept.insert(place, entry.into());
    }

    /// More of what the model says.
    pub(super) fn hear(&mut self, text: &str) {
        if !self.is_hearing {
            self.push(Entry::Model(String::new()));
            self.is_hearing = true;
        }
        if let Some(Kept { entry: Entry::Model(said), rows }) = self.kept.last_mut() {
            said.push_str(text);
            *rows = None;
        }
    }

    /// What it was saying is gone.
    pub(super) fn unhear(&mut self) {
        if std::mem::take(&mut self.is_hearing) {
            self.kept.pop();
        }
    }

    /// What it has said, whole.
    pub(super) fn heard(&mut self, text: String) {
        self.unhear();
        if !text.trim().is_empty() {
            self.push(Entry::Model(text));
        }
    }

    /// A call; one that is here already begins anew.
    pub(super) fn card(&mut self, card: Card) {
        match self.found(card.call) {
            Some(known) => *known = card,
            None => self.push(Entry::Card(card)),
        }
    }

    pub(super) fn printed(&mut self, call: CallId, text: &str) {
        // What it put out in all is known of one that has ended.
        if let Some(card) = self.found(call).filter(|card| !matches!(card.state, State::Ended { .. })) {
            card.output.push_str(text);
            shorten(&mut card.output);
        }
    }

    pub(super) fn progress(&mut self, call: CallId, said: String) {
        if let Some(Card { state: State::Works { detail }, .. }) = self.found(call) {
            *detail = said;
        }
    }

    pub(super) fn called(&mut self, call: CallId, state: State, output: &str) {
        if let Some(card) = self.found(call) {
            card.state = state;
            output.clone_into(&mut card.output);
            shorten(&mut card.output);
        }
    }

    /// A person is asked about a call, or no longer.
    pub(super) fn waits(&mut self, call: CallId, waits: bool) {
        if let Some(card) = self.found(call).filter(|card| !matches!(card.state, State::Ended { .. })) {
            card.state = if waits { State::Waits } else { State::Works { detail: String::new() } };
        }
    }

    /// The end is looked at, and what comes after it.
    pub(super) fn follow(&mut self) {
        self.top = None;
    }

    pub(super) fn unfold(&mut self) {
        self.is_unfolded = !self.is_unfolded;
        self.top = None;
        self.kept.iter_mut().for_each(|kept| kept.rows = None);
    }

    pub(super) fn key(&mut self, key: &Key) {
        let last = self.rows.saturating_sub(self.height);
        let page = self.height.saturating_sub(2).max(1);
        let top = self.top.unwrap_or(last);
        let top = match key {
            Key::PageUp => top.saturating_sub(page),
            _ => top + page,
        };
        self.top = (top < last).then_some(top);
    }

    /// How many rows are below what is on the screen.
    pub(super) fn below(&self) -> usize {
        let last = self.rows.saturating_sub(self.height);
        self.top.map_or(0, |top| last.saturating_sub(top))
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The rows that are on a screen of this size.
    pub(super) fn window(&mut self, columns: usize, height: usize) -> Vec<Row> {
        let is_unfolded = self.is_unfolded;
        self.height = height;
        self.rows = 0;
        for Kept { entry, rows } in &mut self.kept {
            if rows.as_ref().is_none_or(|(wide, _)| *wide != columns) {
                *rows = Some((columns, drawn(entry, columns, is_unfolded)));
            }
            self.rows += rows.as_ref().map_or(0, |(_, rows)| rows.len());
        }
        let last = self.rows.saturating_sub(height);
        let top = self.top.map_or(last, |top| top.min(last));
        let all = self.kept.iter().filter_map(|kept| kept.rows.as_ref()).flat_map(|(_, rows)| rows);
        all.skip(top).take(height).cloned().collect()
    }

    fn found(&mut self, call: CallId) -> Option<&mut Card> {
        self.kept.iter_mut().rev().find_map(|Kept { entry, rows }| match entry {
            Entry::Card(card) if card.call == call => {
                *rows = None;
                Some(card)
            }
            _ => None,
        })
    }
}

/// Keeps the end.
fn shorten(text: &mut String) {
    let over = text.len().saturating_sub(OUTPUT_BYTES_MAX);
    if over > 0 {
        let from = (over..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.drain(..from);
    }
}

fn drawn(entry: &Entry, columns: usize, is_unfolded: bool) -> Vec<Row> {
    let mut rows = match entry {
        Entry::Person(text) => said("› ", Ink::Person, text, Ink::Person, columns),
        Entry::Model(text) => said("  ", Ink::Plain, text.trim(), Ink::Plain, columns),
        Entry::Note(text) => said("! ", Ink::Careful, text, Ink::Careful, columns),
        Entry::Card(card) => drawn_card(card, columns, is_unfolded),
    };
    rows.push(Row::new());
    rows
}

/// A text behind a mark. Nothing in it acts on the terminal.
fn said(mark: &str, mark_ink: Ink, text: &str, ink: Ink, columns: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in lines(text, columns.saturating_sub(2)) {
        let mark = if rows.is_empty() { mark } else { "  " };
        rows.push(vec![(mark.to_owned(), mark_ink), (line, ink)]);
    }
    rows
}

/// A text line by line, broken where it is too long, with everything in it visible.
fn lines(text: &str, columns: usize) -> Vec<String> {
    let mut escaper = Escaper::default();
    let mut out = Vec::new();
    for line in text.lines() {
        let mut shown = String::new();
        // A tab is as wide as it looks.
        escaper.write(&line.replace('\t', "    "), Care::Text, &mut shown);
        out.extend(broken(&shown, columns));
    }
    out
}

/// A card. Each of its rows begins at the edge, where nothing that a model says can stand.
fn drawn_card(card: &Card, columns: usize, is_unfolded: bool) -> Vec<Row> {
    let (mark, ink, words) = match &card.state {
        State::Works { detail } if detail.is_empty() => ("•", Ink::Strong, "works".to_owned()),
        State::Works { detail } => ("•", Ink::Strong, format!("works: {}", visible(detail, Care::Text))),
        State::Waits => ("?", Ink::Careful, "waits for your answer".to_owned()),
        State::Ended { words, is_good: true } => ("✔", Ink::Good, visible(words, Care::Text)),
        State::Ended { words, is_good: false } => ("✘", Ink::Bad, visible(words, Care::Text)),
    };
    let tool = visible(&card.tool, Care::Name);
    let room = columns.saturating_sub(tool.width() + 3);
    let what = fit(&visible(&card.what, Care::Text), room);
    let mut rows =
        vec![vec![(format!("{mark} "), ink), (format!("{tool} "), Ink::Strong), (what, Ink::Plain)]];
    let mut put = |text: &str, ink: Ink| {
        rows.extend(lines(text, columns.saturating_sub(4)).into_iter().map(|line| edged("┊   ", line, ink)));
    };
    if let Some(why) = &card.why {
        put(&format!("“{}”", why.trim()), Ink::Faint);
    }
    put(&words, ink);
    let (before, output) = end_of(card.output.trim_end(), is_unfolded, columns.saturating_sub(6));
    if before > 0 {
        rows.push(edged("┊   │ ", format!("… {before} lines before; Ctrl-O shows all"), Ink::Faint));
    }
    rows.extend(output.into_iter().map(|line| edged("┊   │ ", line, Ink::Faint)));
    rows
}

fn edged(edge: &str, text: String, ink: Ink) -> Row {
    vec![(edge.to_owned(), Ink::Faint), (text, ink)]
}

/// What a call put out, or its end, and how many lines stand before that. No more is laid out than is shown.
fn end_of(output: &str, is_unfolded: bool, columns: usize) -> (usize, Vec<String>) {
    if is_unfolded {
        return (0, lines(output, columns));
    }
    let all = output.lines().count();
    let last: Vec<&str> = output.lines().skip(all.saturating_sub(FOLDED_LINES)).collect();
    let last: Vec<String> = last.iter().map(|line| line.chars().take(LINE_CHARS_MAX).collect()).collect();
    let mut rows = lines(&last.join("\n"), columns);
    let over = rows.len().saturating_sub(FOLDED_LINES);
    rows.drain(..over);
    (all.saturating_sub(last.len()) + over, rows)
}
