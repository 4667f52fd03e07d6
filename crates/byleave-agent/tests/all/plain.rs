//! A reference parser: the same rules for a whole text, line by line. The stream parser must give the same
//! result.

use byleave_agent::tool_blocks::{OPENING_BYTES_MAX, ToolBlockError, ToolBlockErrorKind, ToolBlockParser};

use crate::stage::{ParsedPiece, ParsedPieces, read};

/// A reply that is parsed line by line.
pub(crate) struct ReferenceParser {
    pub(crate) all: ParsedPieces,
    inside: ReferenceState,
    count: usize,
    block_bytes_max: usize,
}

enum ReferenceState {
    Nothing,
    Code(String),
    /// The marks, and the content of the block so far.
    Block(String, String),
}

/// A line that begins with three or more marks.
struct ReferenceFence<'a> {
    is_deep: bool,
    marks: &'a str,
    info: &'a str,
}

impl ReferenceParser {
    pub(crate) fn new(block_bytes_max: usize) -> Self {
        Self { all: ParsedPieces::default(), inside: ReferenceState::Nothing, count: 0, block_bytes_max }
    }

    /// Parses a whole reply.
    pub(crate) fn read(text: &str, block_bytes_max: usize) -> Vec<ParsedPiece> {
        let mut plain = Self::new(block_bytes_max);
        for (line, end) in lines(text) {
            plain.line(line, end);
        }
        if let ReferenceState::Block(_, held) = &plain.inside {
            let too_large = ToolBlockErrorKind::TooLarge { bytes_max: block_bytes_max };
            let wrong = if held.len() > block_bytes_max { too_large } else { ToolBlockErrorKind::Unfinished };
            plain.flaw(wrong);
        }
        plain.all.0
    }

    /// Parses a whole line.
    pub(crate) fn line(&mut self, line: &str, end: &str) {
        let fence = ReferenceFence::of(line);
        match &mut self.inside {
            ReferenceState::Nothing => match fence {
                Some(fence) if fence.opens_block(line) => {
                    self.count += 1;
                    self.inside = ReferenceState::Block(fence.marks.to_owned(), String::new());
                }
                fence => {
                    self.all.text(line);
                    if let Some(fence) = fence {
                        if fence.info.split([' ', '\t']).next() == Some("tool") {
                            self.count += 1;
                            self.flaw(ToolBlockErrorKind::InvalidOpening);
                        }
                        if fence.opens() {
                            self.inside = ReferenceState::Code(fence.marks.to_owned());
                        }
                    }
                    self.all.text(end);
                }
            },
            ReferenceState::Code(marks) => {
                self.all.text(line);
                self.all.text(end);
                if fence.is_some_and(|fence| fence.closes(marks)) {
                    self.inside = ReferenceState::Nothing;
                }
            }
            ReferenceState::Block(marks, held) if fence.is_some_and(|fence| fence.closes(marks)) => {
                if held.len() + line.len() > self.block_bytes_max {
                    self.inside = ReferenceState::Nothing;
                    return self.flaw(ToolBlockErrorKind::TooLarge { bytes_max: self.block_bytes_max });
                }
                // The content is parsed on its own. Other tests cover the result.
                let alone = format!("{marks}tool\n{held}{marks}");
                let mut seen = read([alone.as_str()], ToolBlockParser::new());
                assert_eq!(seen.len(), 1, "{alone:?}");
                if let Some(ParsedPiece::Flaw(flaw)) = seen.last_mut() {
                    flaw.block = self.count;
                }
                self.all.0.append(&mut seen);
                self.inside = ReferenceState::Nothing;
            }
            ReferenceState::Block(_, held) => held.extend([line, end]),
        }
    }

    /// Parses the beginning of a line and passes on the text that cannot open a block.
    pub(crate) fn begun(&mut self, line: &str) {
        match self.inside {
            ReferenceState::Nothing if could_open(line) => {}
            ReferenceState::Nothing | ReferenceState::Code(_) => self.all.text(line),
            ReferenceState::Block(..) => {}
        }
    }

    fn flaw(&mut self, wrong: ToolBlockErrorKind) {
        self.all.0.push(ParsedPiece::Flaw(ToolBlockError { block: self.count, kind: wrong }));
    }
}

impl<'a> ReferenceFence<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let marked = line.trim_start_matches([' ', '\t']);
        let margin = line.strip_suffix(marked)?;
        let mark = marked.chars().next().filter(|mark| "`~".contains(*mark))?;
        let after = marked.trim_start_matches(mark);
        let marks = marked.strip_suffix(after)?;
        let is_deep = margin.len() > 3 || margin.contains('\t');
        (marks.len() >= 3).then_some(Self { is_deep, marks, info: after.trim_matches([' ', '\t']) })
    }

    fn opens(&self) -> bool {
        let has_backtick = self.marks.starts_with('`') && self.info.contains('`');
        !self.is_deep && !has_backtick
    }

    fn opens_block(&self, line: &str) -> bool {
        self.opens() && self.info == "tool" && line.len() <= OPENING_BYTES_MAX
    }

    fn closes(&self, marks: &str) -> bool {
        !self.is_deep && self.info.is_empty() && self.marks.starts_with(marks)
    }
}

/// Splits a text into lines, each with its line end. The last may have none.
pub(crate) fn lines(mut text: &str) -> Vec<(&str, &str)> {
    let mut lines = Vec::new();
    while !text.is_empty() {
        let (line, rest) = text.split_at(text.find(['\n', '\r']).unwrap_or(text.len()));
        let end = ["\r\n", "\n", "\r", ""].into_iter().find(|end| rest.starts_with(end)).unwrap();
        lines.push((line, end));
        text = rest.strip_prefix(end).unwrap();
    }
    lines
}

/// Tests whether a line with this beginning could open a block.
fn could_open(line: &str) -> bool {
    let marked = line.trim_start_matches(' ');
    let Some(mark) = marked.chars().next() else { return line.len() <= 3 };
    let after = marked.trim_start_matches(mark);
    let marks = marked.len() - after.len();
    let word = after.trim_start_matches([' ', '\t']);
    let blanks_after = word.len() > word.trim_end_matches([' ', '\t']).len();
    let word = word.trim_end_matches([' ', '\t']);
    let is_begun = if blanks_after { word == "tool" } else { "tool".starts_with(word) };
    let missing = 3_usize.saturating_sub(marks) + 4_usize.saturating_sub(word.len());
    line.len() - marked.len() <= 3
        && "`~".contains(mark)
        && (marks >= 3 || after.is_empty())
        && is_begun
        && line.len() + missing <= OPENING_BYTES_MAX
}
