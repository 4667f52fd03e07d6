//! Recognizes fence lines, a byte at a time, by the rules of CommonMark.
//!
//! A fence is at most three spaces, then three or more marks (backticks or tildes), then an info string. After backticks, the info string
//! has no backtick. Only lines are examined; a surrounding list, quote or HTML is ignored.

use memchr::{memchr, memchr2};

/// The maximum size of an opening line without its line end. It limits how much text is held back.
pub const OPENING_BYTES_MAX: usize = 32;

const TAG: &[u8] = b"tool";
const TAG_BYTES: usize = TAG.len();
const SPACES_MAX: usize = 3;
const MARKS_MIN: usize = 3;

/// The marks that opened a code block. The closing line must have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    mark: u8,
    length: usize,
}

/// The part of a line that is needed to decide whether it is a fence.
#[derive(Clone, Copy, Debug)]
pub(super) enum LinePrefix {
    /// Only blanks.
    Margin(LineIndent),
    /// Blanks and marks, and what follows them.
    Marked(FenceCandidate),
    /// Not a fence, regardless of what follows.
    Prose,
}

/// The blanks at the beginning of a line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineIndent {
    bytes: usize,
    /// Whether it has a tab, or more spaces than a fence may have.
    is_deep: bool,
}

/// A line that begins with marks.
#[derive(Clone, Copy, Debug)]
pub(super) struct FenceCandidate {
    fence: Fence,
    info: InfoString,
    is_deep: bool,
    bytes: usize,
}

/// The text after the marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InfoString {
    /// Nothing: a further mark extends the fence.
    Nothing,
    Blanks,
    /// The first letters of the tag, or all of them.
    Tag(usize),
    /// The tag, and blanks.
    TagAndBlanks,
    /// The tag, and something else.
    TagAndMore,
    /// The tag and more, with a backtick that is not allowed.
    TagAndBacktick,
    Other,
}

impl LinePrefix {
    /// The beginning of a line.
    pub(super) const START: Self = Self::Margin(LineIndent { bytes: 0, is_deep: false });

    /// Scans text up to the end of the next line that begins with marks. Returns where the line ends, and the line.
    ///
    /// Within a code block it looks only for the marks of that block.
    pub(super) fn run(
        &mut self,
        text: &[u8],
        mut at: usize,
        within: Option<Fence>,
    ) -> Option<(usize, FenceCandidate)> {
        loop {
            if let Self::Marked(marked) = self {
                let byte = *text.get(at)?;
                if is_end(byte) {
                    let line = *marked;
                    *self = Self::START;
                    return Some((at, line));
                }
                if !marked.step(byte) {
                    *self = Self::Prose;
                }
                at += 1;
                continue;
            }
            let rest = text.get(at..).unwrap_or_default();
            let found = within.map_or_else(|| memchr2(b'`', b'~', rest), |fence| memchr(fence.mark, rest));
            let (skipped, from) = rest.split_at(found.unwrap_or(rest.len()));
            *self = self.over(skipped);
            let mark = *from.first()?;
            if let Self::Margin(margin) = *self {
                *self = Self::Marked(FenceCandidate::new(margin, mark));
                at += skipped.len() + 1;
                continue;
            }
            // Prose: the rest of this line does not matter.
            at += skipped.len() + memchr2(b'\n', b'\r', from)? + 1;
            *self = Self::START;
        }
    }

    /// Returns the state at the end of a text without marks.
    fn over(self, text: &[u8]) -> Self {
        let blanks = text.iter().rev().take_while(|byte| is_blank(**byte)).count();
        let (before, blanks) = text.split_at(text.len() - blanks);
        let margin = match (before.last(), self) {
            (None, Self::Margin(margin)) => margin,
            (Some(byte), _) if is_end(*byte) => LineIndent::default(),
            _ => return Self::Prose,
        };
        let bytes = margin.bytes + blanks.len();
        Self::Margin(LineIndent {
            bytes,
            is_deep: margin.is_deep || bytes > SPACES_MAX || blanks.contains(&b'\t'),
        })
    }

    /// Returns how many bytes at the end of the text may still become an opening line of a tool block.
    pub(super) fn pending_bytes(&self) -> usize {
        match self {
            Self::Margin(margin) if !margin.is_deep => margin.bytes,
            Self::Marked(marked) if marked.may_open() => marked.bytes,
            _ => 0,
        }
    }
}

impl FenceCandidate {
    const fn new(margin: LineIndent, mark: u8) -> Self {
        let fence = Fence { mark, length: 1 };
        Self { fence, info: InfoString::Nothing, is_deep: margin.is_deep, bytes: margin.bytes + 1 }
    }

    /// Takes the next byte of the line. Returns `false` if the line cannot be a fence any more.
    fn step(&mut self, byte: u8) -> bool {
        self.bytes += 1;
        if self.info == InfoString::Nothing && byte == self.fence.mark {
            self.fence.length += 1;
            return true;
        }
        if self.fence.length < MARKS_MIN {
            return false;
        }
        let blank = is_blank(byte);
        self.info = match self.info {
            InfoString::Nothing | InfoString::Blanks if blank => InfoString::Blanks,
            InfoString::Nothing | InfoString::Blanks if TAG.first() == Some(&byte) => InfoString::Tag(1),
            InfoString::Tag(letters) if TAG.get(letters) == Some(&byte) => InfoString::Tag(letters + 1),
            InfoString::Tag(letters) if blank && letters == TAG_BYTES => InfoString::TagAndBlanks,
            InfoString::TagAndBlanks if blank => InfoString::TagAndBlanks,
            InfoString::TagAndBlanks => InfoString::TagAndMore,
            InfoString::TagAndMore | InfoString::TagAndBacktick => self.info,
            InfoString::Nothing | InfoString::Blanks | InfoString::Tag(_) | InfoString::Other => {
                InfoString::Other
            }
        };
        if byte == b'`' && self.fence.mark == b'`' {
            if self.info == InfoString::Other {
                return false;
            }
            self.info = InfoString::TagAndBacktick;
        }
        true
    }

    /// Returns the number of bytes of the line.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the code block that the line opens, if it is outside of one.
    pub(super) fn opening_fence(&self) -> Option<Fence> {
        (!self.is_deep && self.fence.length >= MARKS_MIN && self.info != InfoString::TagAndBacktick)
            .then_some(self.fence)
    }

    /// Checks whether the line opens a tool block.
    pub(super) fn opens_block(&self) -> bool {
        self.may_open() && self.names_tag()
    }

    /// Checks whether the line was meant to open a tool block: its first word is the tag.
    pub(super) const fn looks_like_tool_block(&self) -> bool {
        self.names_tag() || matches!(self.info, InfoString::TagAndMore | InfoString::TagAndBacktick)
    }

    /// Checks whether the line closes the code block with these marks.
    pub(super) fn closes_fence(&self, fence: Fence) -> bool {
        let enough = self.fence.mark == fence.mark && self.fence.length >= fence.length;
        enough && !self.is_deep && matches!(self.info, InfoString::Nothing | InfoString::Blanks)
    }

    const fn names_tag(&self) -> bool {
        matches!(self.info, InfoString::Tag(TAG_BYTES) | InfoString::TagAndBlanks)
    }

    /// Checks whether the line opens a tool block, or may still do so.
    fn may_open(&self) -> bool {
        let missing = match self.info {
            InfoString::Nothing | InfoString::Blanks => {
                MARKS_MIN.saturating_sub(self.fence.length) + TAG_BYTES
            }
            InfoString::Tag(letters) => TAG_BYTES - letters,
            InfoString::TagAndBlanks => 0,
            InfoString::TagAndMore | InfoString::TagAndBacktick | InfoString::Other => return false,
        };
        !self.is_deep && self.bytes + missing <= OPENING_BYTES_MAX
    }
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Checks whether a byte ends a line. A single carriage return also does.
const fn is_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}
