//! The transcript: messages and calls so far, and the part of them that is on the screen.

use byleave_core::escape::{EscapeLevel, Escaper, make_visible};
use byleave_core::id::CallId;

use unicode_width::UnicodeWidthStr as _;

use crate::keys::KeyPress;
use crate::text::{fit, wrap_text};

/// The maximum size of a call's output that is kept for display. The end is kept.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// The number of lines of a folded output.
const FOLDED_LINES: usize = 4;
/// The maximum length of a line of a folded output.
const LINE_CHARS_MAX: usize = 1_000;

/// An entry of the transcript.
#[derive(Clone, Debug, PartialEq)]
pub enum TranscriptEntry {
    /// A message of the person.
    Person(String),
    /// A message of the model.
    Model(String),
    /// A call that the model asked for.
    Card(CallCard),
    /// A note of the program.
    Note(String),
}

/// A call and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct CallCard {
    /// The id of the call.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// A short description of the call.
    pub summary: String,
    /// The reason in the model's words.
    pub reason: Option<String>,
    /// The state of the call.
    pub state: CallCardState,
    /// The end of the output.
    pub output: String,
}

/// The state of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallCardState {
    /// It is evaluated or runs.
    Running {
        /// The progress in the tool's words.
        detail: String,
    },
    /// A person is asked.
    Waiting,
    /// It has ended.
    Ended {
        /// How it ended, in words.
        description: String,
        /// It succeeded.
        is_success: bool,
    },
}

/// The style of a part of a row.
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

/// The whole transcript and the scroll position.
#[derive(Default)]
pub(super) struct Transcript {
    kept: Vec<CachedEntry>,
    /// The last message of the model is incomplete.
    is_hearing: bool,
    /// Outputs are shown in full.
    is_unfolded: bool,
    /// The first row on the screen, or `None` to follow the end.
    top: Option<usize>,
    /// The number of rows in total and on the screen.
    rows: usize,
    height: usize,
}

/// An entry with its rows as last drawn.
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

    /// Appends an entry. An incomplete message of the model stays together.
    pub(super) fn push(&mut self, entry: TranscriptEntry) {
        let place = self.kept.len().saturating_sub(usize::from(self.is_hearing));
        self.kept.insert(place, entry.into());
    }

    /// Appends to the model's current message.
    pub(super) fn append_text(&mut self, text: &str) {
        if !self.is_hearing {
            self.push(TranscriptEntry::Model(String::new()));
            self.is_hearing = true;
        }
        if let Some(CachedEntry { entry: TranscriptEntry::Model(said), rows }) = self.kept.last_mut() {
            said.push_str(text);
            *rows = None;
        }
    }

    /// Drops the model's current message.
    pub(super) fn discard_text(&mut self) {
        if std::mem::take(&mut self.is_hearing) {
            self.kept.pop();
        }
    }

    /// Replaces the model's current message by the complete one.
    pub(super) fn finish_text(&mut self, text: String) {
        self.discard_text();
        if !text.trim().is_empty() {
            self.push(TranscriptEntry::Model(text));
        }
    }

    /// Adds a call. A call that is already shown starts again.
    pub(super) fn start_call(&mut self, card: CallCard) {
        match self.found(card.call) {
            Some(known) => *known = card,
            None => self.push(TranscriptEntry::Card(card)),
        }
    }

    pub(super) fn append_output(&mut self, call: CallId, text: &str) {
        // The complete output of an ended call is already known.
        if let Some(card) = self.found(call).filter(|card| !matches!(card.state, CallCardState::Ended { .. }))
        {
            card.output.push_str(text);
            shorten(&mut card.output);
        }
    }

    pub(super) fn progress(&mut self, call: CallId, said: String) {
        if let Some(CallCard { state: CallCardState::Running { detail }, .. }) = self.found(call) {
            *detail = said;
        }
    }

    pub(super) fn finish_call(&mut self, call: CallId, state: CallCardState, output: &str) {
        if let Some(card) = self.found(call) {
            card.state = state;
            output.clone_into(&mut card.output);
            shorten(&mut card.output);
        }
    }

    /// Marks whether a person is asked about a call.
    pub(super) fn set_waiting(&mut self, call: CallId, waits: bool) {
        if let Some(card) = self.found(call).filter(|card| !matches!(card.state, CallCardState::Ended { .. }))
        {
            card.state =
                if waits { CallCardState::Waiting } else { CallCardState::Running { detail: String::new() } };
        }
    }

    /// Scrolls to the end and follows it.
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

    /// Returns the number of rows below the screen.
    pub(super) fn below(&self) -> usize {
        let last = self.rows.saturating_sub(self.height);
        self.top.map_or(0, |top| last.saturating_sub(top))
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns the rows that are on a screen of this size.
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

/// Truncates the text to its end.
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

/// Lays out a text behind a mark. Control characters in it are escaped.
fn said(mark: &str, mark_ink: TextStyle, text: &str, ink: TextStyle, columns: usize) -> Vec<StyledRow> {
    let mut rows: Vec<StyledRow> = Vec::new();
    for line in lines(text, columns.saturating_sub(2)) {
        let mark = if rows.is_empty() { mark } else { "  " };
        rows.push(vec![(mark.to_owned(), mark_ink), (line, ink)]);
    }
    rows
}

/// Splits a text into lines, wraps long ones, and makes every character visible.
fn lines(text: &str, columns: usize) -> Vec<String> {
    let mut escaper = Escaper::default();
    let mut out = Vec::new();
    for line in text.lines() {
        let mut shown = String::new();
        // Four spaces for a tab.
        escaper.write(&line.replace('\t', "    "), EscapeLevel::Text, &mut shown);
        out.extend(wrap_text(&shown, columns));
    }
    out
}

/// Draws a card. Each of its rows begins at the edge, where text of a model is never drawn.
fn drawn_card(card: &CallCard, columns: usize, is_unfolded: bool) -> Vec<StyledRow> {
    let (mark, ink, words) = match &card.state {
        CallCardState::Running { detail } if detail.is_empty() => {
            ("•", TextStyle::Strong, "works".to_owned())
        }
        CallCardState::Running { detail } => {
            ("•", TextStyle::Strong, format!("works: {}", make_visible(detail, EscapeLevel::Text)))
        }
        CallCardState::Waiting => ("?", TextStyle::Careful, "waits for your answer".to_owned()),
        CallCardState::Ended { description: words, is_success: true } => {
            ("✔", TextStyle::Good, make_visible(words, EscapeLevel::Text))
        }
        CallCardState::Ended { description: words, is_success: false } => {
            ("✘", TextStyle::Bad, make_visible(words, EscapeLevel::Text))
        }
    };
    let tool = make_visible(&card.tool, EscapeLevel::Name);
    let room = columns.saturating_sub(tool.width() + 3);
    let what = fit(&make_visible(&card.summary, EscapeLevel::Text), room);
    let mut rows = vec![vec![
        (format!("{mark} "), ink),
        (format!("{tool} "), TextStyle::Strong),
        (what, TextStyle::Plain),
    ]];
    let mut put = |text: &str, ink: TextStyle| {
        rows.extend(lines(text, columns.saturating_sub(4)).into_iter().map(|line| edged("┊   ", line, ink)));
    };
    if let Some(why) = &card.reason {
        put(&format!("“{}”", why.trim()), TextStyle::Faint);
    }
    put(&words, ink);
    let (before, output) = end_of(card.output.trim_end(), is_unfolded, columns.saturating_sub(6));
    if before > 0 {
        rows.push(edged(
            "┊   │ ",
            format!("… {before} more lines above; Ctrl-O shows all"),
            TextStyle::Faint,
        ));
    }
    rows.extend(output.into_iter().map(|line| edged("┊   │ ", line, TextStyle::Faint)));
    rows
}

fn edged(edge: &str, text: String, ink: TextStyle) -> StyledRow {
    vec![(edge.to_owned(), TextStyle::Faint), (text, ink)]
}

/// Returns the output of a call or its end, and the number of lines before that. Lays out only the shown lines.
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
