//! Tool blocks: how a model without tool calls of its own asks for one, read from the stream of what it writes.
//!
//! A tool block is a fenced code block tagged `tool` that holds one JSON object: `{"name": …, "args": {…}, "reason": …}`. Text goes
//! in as it comes, in chunks of any size. Out come, in their order, the text without the blocks, the calls, and the flaws of
//! blocks that are no calls. However the text is cut into chunks, the same comes out.
//!
//! - Text is handed on at once, as parts of the chunk that it came in. Only what may still become the line that opens a block is
//!   held back: at most [`OPENING_BYTES_MAX`] bytes.
//! - A block is a call as it stands, or it is a flaw. Nothing is mended, filled in or left out, so nothing can run that the
//!   model did not write; and nothing that begins as a block goes unmentioned.
//! - A block that is not closed is never a call, however whole it looks: it may have been cut off.
//!
//! The guide (docs/guide/tool-blocks.md) says what every case means.
//!
//! ```
//! use byleave_agent::tool_blocks::{ToolBlockEvent, ToolBlockParser};
//!
//! let (mut text, mut calls) = (String::new(), Vec::new());
//! let mut take = |piece: ToolBlockEvent<'_>| match piece {
//!     ToolBlockEvent::Text(part) => text.push_str(part),
//!     ToolBlockEvent::Call(call) => calls.push(call),
//!     ToolBlockEvent::Flaw(flaw) => panic!("{flaw}"),
//! };
//! let mut blocks = ToolBlockParser::new();
//! for chunk in ["Let me look.\n``", "`tool\n{\"name\": \"ls\", ", "\"args\": {}}\n```\n"] {
//!     blocks.push(chunk, &mut take);
//! }
//! blocks.finish(&mut take);
//! assert_eq!(text, "Let me look.\n");
//! assert_eq!(calls[0].name, "ls");
//! ```

mod call;
mod error;
mod fence;

pub use call::BlockCall;
#[cfg(feature = "agent")]
pub(crate) use call::read_args;
pub use error::{ErrorLocation, ToolBlockError, ToolBlockErrorKind};
pub use fence::OPENING_BYTES_MAX;
use fence::{Fence, FenceCandidate, LinePrefix};

/// How to ask by blocks, in words for the model: those of the guide.
pub const PROTOCOL: &str = include_str!("tool_blocks/protocol.md").trim_ascii_end();

/// A block has at most so many bytes, the line that closes it included.
///
/// Arguments have at most 1 MiB; this is for those of which every character is written with a backslash.
pub const BLOCK_BYTES_MAX: usize = 2 << 20;

/// What was found, in the order of the text.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolBlockEvent<'a> {
    /// Text outside of tool blocks, as it was written. Never empty.
    Text(&'a str),
    /// A tool block that is a call.
    Call(BlockCall),
    /// A tool block that is none. To be told to the model.
    Flaw(ToolBlockError),
}

/// Reads the tool blocks of one reply of a model.
#[derive(Debug)]
pub struct ToolBlockParser {
    inside: BlockParserState,
    line: LinePrefix,
    /// What earlier chunks left: outside, the beginning of a line that may open a block; in a block, all of it so far.
    kept: String,
    /// A line feed that comes next belongs to the line that was taken out with its carriage return.
    after_return: bool,
    /// Tool blocks so far.
    count: usize,
    block_bytes_max: usize,
}

/// Where in the text we are.
#[derive(Clone, Copy, Debug)]
enum BlockParserState {
    Nothing,
    /// A code block that is no tool block: text.
    Code(Fence),
    Block(Fence),
    /// A tool block whose flaw was told already: the rest of it is nothing more.
    Told(Fence),
}

impl Default for ToolBlockParser {
    fn default() -> Self {
        Self::new()
    }
}

impl ToolBlockParser {
    /// Begins a reply.
    pub const fn new() -> Self {
        Self::bounded(BLOCK_BYTES_MAX)
    }

    /// Begins a reply whose blocks have at most so many bytes.
    pub const fn bounded(block_bytes_max: usize) -> Self {
        Self {
            inside: BlockParserState::Nothing,
            line: LinePrefix::START,
            kept: String::new(),
            after_return: false,
            count: 0,
            block_bytes_max,
        }
    }

    /// Takes the next chunk, and hands on all that is certain by now.
    pub fn push(&mut self, chunk: &str, out: &mut impl FnMut(ToolBlockEvent<'_>)) {
        // What is neither handed on nor kept yet, and how much of it was looked at.
        let (mut rest, mut looked) = (chunk, 0);
        loop {
            if self.after_return && !rest.is_empty() {
                self.after_return = false;
                rest = rest.strip_prefix('\n').unwrap_or(rest);
            }
            let Some((end, line)) = self.line.run(rest.as_bytes(), looked, self.inside.fence()) else {
                break;
            };
            (rest, looked) = self.end_line(rest, end, line, out);
        }
        self.keep(rest, out);
    }

    /// Ends the reply, and hands on what was still open.
    pub fn finish(mut self, out: &mut impl FnMut(ToolBlockEvent<'_>)) {
        if let LinePrefix::Marked(line) = self.line {
            self.end_line("", 0, line, out);
        }
        match self.inside {
            BlockParserState::Nothing | BlockParserState::Code(_) => self.hand_on("", out),
            BlockParserState::Block(_) => self.flaw(ToolBlockErrorKind::Unfinished, out),
            BlockParserState::Told(_) => {}
        }
    }

    /// Takes a line that begins with marks, at its end. Says what is left, and how much of that was looked at.
    fn end_line<'a>(
        &mut self,
        rest: &'a str,
        end: usize,
        line: FenceCandidate,
        out: &mut impl FnMut(ToolBlockEvent<'_>),
    ) -> (&'a str, usize) {
        let (before, after) = rest.split_at(end);
        match self.inside {
            BlockParserState::Nothing => match line.opens() {
                Some(fence) if line.opens_block() => {
                    match before.len().checked_sub(line.bytes()) {
                        Some(at) => self.hand_on(before.split_at(at).0, out),
                        // It began in an earlier chunk: all that is kept is its beginning.
                        None => self.kept.clear(),
                    }
                    self.count += 1;
                    self.inside = BlockParserState::Block(fence);
                }
                opened => {
                    self.inside = opened.map_or(BlockParserState::Nothing, BlockParserState::Code);
                    if !line.is_meant() {
                        return (rest, end + 1);
                    }
                    self.hand_on(before, out);
                    self.count += 1;
                    self.flaw(ToolBlockErrorKind::Opening, out);
                    return (after, 1);
                }
            },
            BlockParserState::Block(fence) if line.closes(fence) => {
                self.inside = BlockParserState::Nothing;
                self.end_block(before, line.bytes(), out);
            }
            BlockParserState::Told(fence) if line.closes(fence) => self.inside = BlockParserState::Nothing,
            BlockParserState::Code(fence) if line.closes(fence) => {
                self.inside = BlockParserState::Nothing;
                return (rest, end + 1);
            }
            BlockParserState::Code(_) | BlockParserState::Block(_) | BlockParserState::Told(_) => {
                return (rest, end + 1);
            }
        }
        // The line is taken out with its end.
        self.after_return = after.starts_with('\r');
        (after.get(1..).unwrap_or_default(), 0)
    }

    /// Reads a block, of which the last line is the one that closes it.
    fn end_block(&mut self, last: &str, closing_bytes: usize, out: &mut impl FnMut(ToolBlockEvent<'_>)) {
        let mut kept = std::mem::take(&mut self.kept);
        let bytes = kept.len() + last.len();
        if bytes > self.block_bytes_max {
            return self.flaw(ToolBlockErrorKind::TooLarge { bytes_max: self.block_bytes_max }, out);
        }
        let json = match last.len().checked_sub(closing_bytes) {
            Some(at) if kept.is_empty() => last.split_at(at).0,
            _ => {
                kept.push_str(last);
                kept.truncate(bytes - closing_bytes);
                &kept
            }
        };
        match call::read(json) {
            Ok(call) => out(ToolBlockEvent::Call(call)),
            Err(place) => self.flaw(ToolBlockErrorKind::Malformed(place), out),
        }
    }

    /// Puts the end of a chunk where it belongs.
    fn keep(&mut self, rest: &str, out: &mut impl FnMut(ToolBlockEvent<'_>)) {
        match self.inside {
            BlockParserState::Nothing => match rest.len().checked_sub(self.line.held()) {
                Some(at) => {
                    let (text, held) = rest.split_at(at);
                    self.hand_on(text, out);
                    self.kept.push_str(held);
                }
                None => self.kept.push_str(rest),
            },
            BlockParserState::Code(_) => self.hand_on(rest, out),
            BlockParserState::Block(_) if self.kept.len() + rest.len() <= self.block_bytes_max => {
                self.kept.push_str(rest)
            }
            BlockParserState::Block(fence) => {
                self.kept = String::new();
                self.inside = BlockParserState::Told(fence);
                self.flaw(ToolBlockErrorKind::TooLarge { bytes_max: self.block_bytes_max }, out);
            }
            BlockParserState::Told(_) => {}
        }
    }

    /// Hands text on, after what was held back before it.
    fn hand_on(&mut self, text: &str, out: &mut impl FnMut(ToolBlockEvent<'_>)) {
        for part in [self.kept.as_str(), text] {
            if !part.is_empty() {
                out(ToolBlockEvent::Text(part));
            }
        }
        self.kept.clear();
    }

    fn flaw(&self, wrong: ToolBlockErrorKind, out: &mut impl FnMut(ToolBlockEvent<'_>)) {
        out(ToolBlockEvent::Flaw(ToolBlockError { block: self.count, wrong }));
    }
}

impl BlockParserState {
    const fn fence(self) -> Option<Fence> {
        match self {
            Self::Nothing => None,
            Self::Code(fence) | Self::Block(fence) | Self::Told(fence) => Some(fence),
        }
    }
}
