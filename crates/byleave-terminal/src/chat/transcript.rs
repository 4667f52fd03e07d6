//! What was said and done, as far as it has come, and which part of it is on the screen.

use byleave_core::escape::{EscapeLevel, Escaper, visible};
use byleave_core::id::CallId;

use unicode_width::UnicodeWidthStr as _;

use crate::keys::KeyPress;
use crate::text::{broken, fit};

/// The most of what a call put out that is kept to be shown: its end.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// How many lines of it are shown where it is folded.
const FOLDED_LINES: usize = 4;
/// The most of one line that is shown there.
const LINE_CHARS_MAX: usize = 1_000;

/// Something that was said or done.
#[derive(Clone, Debug, PartialEq)]
pub enum TranscriptEntry {
    /// A person's word.
    Person(String),
    /// The model's.
    Model(String),
    /// A call that the model asked for.
    Card(CallCard),
    /// Something that the program says.
    Note(String),
}

/// A call, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CallCard {
    /// Which.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// What it is to do, in short.
    pub what: String,
    /// Why, in the model's words.
    pub why: Option<String>,
    /// How far it has come.
    pub state: CallCardState,
    /// The end of what it put out.
    pub output: String,
}

/// How far a call has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallCardState {
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
pub(super) enum TextStyle {
    Plain,
    Strong,
    Faint,
    Good,
    Careful,
    Bad,
    Person,
}

/// A row of the screen.
pub(super) type StyledRow = Vec<(String, TextStyle)>;

/// Everything, and where one looks.
#[derive(Default)]
pub(super) struct Transcript {
    kept: Vec<CachedEntry>,
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
struct CachedEntry {
    entry: TranscriptEntry,
    rows: Option<(usize, Vec<StyledRow>)>,
}

impl From<TranscriptEntry> for CachedEntry {
    fn from(entry: TranscriptEntry) -> Self {
        Self { entry, rows: None }
    }
}

impl Transcript {
    pub(super) fn with(entries: Vec<TranscriptEntry>) -> Self {
        Self { kept: entries.into_iter().map(CachedEntry::from).collect(), ..Self::default() }
    }

    /// Comes last; but what the model is saying stays together.
    pub(super) fn push(&mut self, entry: TranscriptEntry) {
        let place = self.kept.len().saturating_sub(usize::from(self.is_hearing));
        self.kept.insert(place, entry.into());
    }

    /// More of what the model says.
    pub(super) fn hear(&mut self, text: &str) {
        if !self.is_hearing {
            self.push(TranscriptEntry::Model(String::new()));
            self.is_hearing = true;
        }
        if let Some(CachedEntry { entry: TranscriptEntry::Model(said), rows }) = self.kept.last_mut() {
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
            self.push(TranscriptEntry::Model(text));
        }
    }

    /// A call; one that is here already begins anew.
    pub(super) fn card(&mut self, card: CallCard) {
        match self.found(card.call) {
            Some(known) => *known = card,
            None => self.push(TranscriptEntry::Card(card)),
        }
    }

    pub(super) fn printed(&mut self, call: CallId, text: &str) {
        // What it put out in all is known of one that has ended.
        if let Some(card) = self.found(call).filter(|card| !matches!(card.state, CallCardState::Ended { .. }))
        {
            card.output.push_str(text);
            shorten(&mut card.output);
        }
    }

    pub(super) fn progress(&mut self, call: CallId, said: String) {
        if let Some(CallCard { state: CallCardState::Works { detail }, .. }) = self.found(call) {
            *detail = said;
        }
    }

    pub(super) fn called(&mut self, call: CallId, state: CallCardState, output: &str) {
        if let Some(card) = self.found(call) {
            card.state = state;
            output.clone_into(&mut card.output);
            shorten(&mut card.output);
        }
    }

    /// A person is asked about a call, or no longer.
    pub(super) fn waits(&mut self, call: CallId, waits: bool) {
        if let Some(card) = self.found(call).filter(|card| !matches!(card.state, CallCardState::Ended { .. }))
        {
            card.state =
                if waits { CallCardState::Waits } else { CallCardState::Works { detail: String::new() } };
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

    pub(super) fn key(&mut self, key: &KeyPress) {
        let last = self.rows.saturating_sub(self.height);
        let page = self.height.saturating_sub(2).max(1);
        let top = self.top.unwrap_or(last);
        let top = match key {
            KeyPress::PageUp => top.saturating_sub(page),
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
    pub(super) fn window(&mut self, columns: usize, height: usize) -> Vec<StyledRow> {
        let is_unfolded = self.is_unfolded;
        self.height = height;
        self.rows = 0;
        for CachedEntry { entry, rows } in &mut self.kept {
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

    fn found(&mut self, call: CallId) -> Option<&mut CallCard> {
        self.kept.iter_mut().rev().find_map(|CachedEntry { entry, rows }| match entry {
            TranscriptEntry::Card(card) if card.call == call => {
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

fn drawn(entry: &TranscriptEntry, columns: usize, is_unfolded: bool) -> Vec<StyledRow> {
    let mut rows = match entry {
        TranscriptEntry::Person(text) => said("› ", TextStyle::Person, text, TextStyle::Person, columns),
        TranscriptEntry::Model(text) => said("  ", TextStyle::Plain, text.trim(), TextStyle::Plain, columns),
        TranscriptEntry::Note(text) => said("! ", TextStyle::Careful, text, TextStyle::Careful, columns),
        TranscriptEntry::Card(card) => drawn_card(card, columns, is_unfolded),
    };
    rows.push(StyledRow::new());
    rows
}

/// A text behind a mark. Nothing in it acts on the terminal.
fn said(mark: &str, mark_ink: TextStyle, text: &str, ink: TextStyle, columns: usize) -> Vec<StyledRow> {
    let mut rows: Vec<StyledRow> = Vec::new();
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
        escaper.write(&line.replace('\t', "    "), EscapeLevel::Text, &mut shown);
        out.extend(broken(&shown, columns));
    }
    out
}

/// A card. Each of its rows begins at the edge, where nothing that a model says can stand.
fn drawn_card(card: &CallCard, columns: usize, is_unfolded: bool) -> Vec<StyledRow> {
    let (mark, ink, words) = match &card.state {
        CallCardState::Works { detail } if detail.is_empty() => ("•", TextStyle::Strong, "works".to_owned()),
        CallCardState::Works { detail } => {
            ("•", TextStyle::Strong, format!("works: {}", visible(detail, EscapeLevel::Text)))
        }
        CallCardState::Waits => ("?", TextStyle::Careful, "waits for your answer".to_owned()),
        CallCardState::Ended { words, is_good: true } => {
            ("✔", TextStyle::Good, visible(words, EscapeLevel::Text))
        }
        CallCardState::Ended { words, is_good: false } => {
            ("✘", TextStyle::Bad, visible(words, EscapeLevel::Text))
        }
    };
    let tool = visible(&card.tool, EscapeLevel::Name);
    let room = columns.saturating_sub(tool.width() + 3);
    let what = fit(&visible(&card.what, EscapeLevel::Text), room);
    let mut rows = vec![vec![
        (format!("{mark} "), ink),
        (format!("{tool} "), TextStyle::Strong),
        (what, TextStyle::Plain),
    ]];
    let mut put = |text: &str, ink: TextStyle| {
        rows.extend(lines(text, columns.saturating_sub(4)).into_iter().map(|line| edged("┊   ", line, ink)));
    };
    if let Some(why) = &card.why {
        put(&format!("“{}”", why.trim()), TextStyle::Faint);
    }
    put(&words, ink);
    let (before, output) = end_of(card.output.trim_end(), is_unfolded, columns.saturating_sub(6));
    if before > 0 {
        rows.push(edged("┊   │ ", format!("… {before} lines before; Ctrl-O shows all"), TextStyle::Faint));
    }
    rows.extend(output.into_iter().map(|line| edged("┊   │ ", line, TextStyle::Faint)));
    rows
}

fn edged(edge: &str, text: String, ink: TextStyle) -> StyledRow {
    vec![(edge.to_owned(), TextStyle::Faint), (text, ink)]
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
