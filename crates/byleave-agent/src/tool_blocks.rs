//! Tool blocks: reads the tool calls of a model without native calls from the stream of its text.
//!
//! A tool block is a fenced code block with the tag `tool` that contains one JSON object:
//! `{"name": …, "args": {…}, "reason": …}`. The input is text in chunks of any size. The output is, in order, the text without the
//! blocks, the calls, and the errors of invalid blocks. It does not depend on how the text is chunked.
//!
//! - Text is passed on at once, as parts of its chunk. Only text that may still become an opening line is held back: at most
//!   [`OPENING_BYTES_MAX`] bytes.
//! - A block is a valid call as written, or it is an error. Nothing is repaired, added or omitted. So nothing can run that the
//!   model did not write, and everything that begins as a block is reported.
//! - An unclosed block is never a call, even if it looks complete, because it may have been cut off.
//!
//! The guide (docs/guide/tool-blocks.md) describes every case.
//!
//! ```
//! use byleave_agent::tool_blocks::{ToolBlockEvent, ToolBlockParser};
//!
//! let (mut text, mut calls) = (String::new(), Vec::new());
//! let mut take = |piece: ToolBlockEvent<'_>| match piece {
//!     ToolBlockEvent::Text(part) => text.push_str(part),
//!     ToolBlockEvent::Call(call) => calls.push(call),
//!     ToolBlockEvent::Error(flaw) => panic!("{flaw}"),
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
pub(crate) use call::parse_args;
pub use error::{ErrorLocation, ToolBlockError, ToolBlockErrorKind};
pub use fence::OPENING_BYTES_MAX;
use fence::{Fence, FenceCandidate, LinePrefix};

/// The protocol in words for the model, the same as in the guide.
pub const PROTOCOL: &str = include_str!("tool_blocks/protocol.md").trim_ascii_end();

/// The maximum size of a block, including its closing line.
///
/// No model writes that much at once. The gate accepts larger arguments from other callers.
pub const BLOCK_BYTES_MAX: usize = 2 << 20;

/// A parsed piece, in the order of the text.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolBlockEvent<'a> {
    /// Text outside of tool blocks, as written. Never empty.
    Text(&'a str),
    /// A valid tool block.
    Call(BlockCall),
    /// An invalid tool block, to be reported to the model.
    Error(ToolBlockError),
}

/// A parser for the tool blocks of one reply.
#[derive(Debug)]
pub struct ToolBlockParser {
    inside: BlockParserState,
    line: LinePrefix,
    /// The rest of earlier chunks. Outside of a block, it is the beginning of a line that may open one; inside, it is the block so far.
    kept: String,
    /// Whether a line feed that comes next belongs to the line that was removed with its carriage return.
    after_return: bool,
    /// The number of tool blocks so far.
    count: usize,
    block_bytes_max: usize,
}

/// The position in the text.
#[derive(Clone, Copy, Debug)]
enum BlockParserState {
    Nothing,
    /// A code block that is not a tool block. It is text.
    Code(Fence),
    Block(Fence),
    /// A tool block that was already reported as invalid. The rest of it is ignored.
    Told(Fence),
}

impl Default for ToolBlockParser {
    fn default() -> Self {
        Self::new()
    }
}

impl ToolBlockParser {
    /// Creates a parser for a reply.
    pub const fn new() -> Self {
        Self::with_max_block_bytes(BLOCK_BYTES_MAX)
    }

    /// Creates a parser with this maximum block size.
    pub const fn with_max_block_bytes(block_bytes_max: usize) -> Self {
        Self {
            inside: BlockParserState::Nothing,
            line: LinePrefix::START,
            kept: String::new(),
            after_return: false,
            count: 0,
            block_bytes_max,
        }
    }

    /// Adds a chunk, and passes on everything that is certain by now.
    pub fn push(&mut self, chunk: &str, out: &mut impl FnMut(ToolBlockEvent<'_>)) {
        // The part that is neither passed on nor stored yet, and how much of it was scanned.
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

    /// Ends the reply, and passes on the rest.
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

    /// Handles the end of a line that begins with fence marks. Returns the rest, and how much of it was scanned.
    fn end_line<'a>(
        &mut self,
        rest: &'a str,
        end: usize,
        line: FenceCandidate,
        out: &mut impl FnMut(ToolBlockEvent<'_>),
    ) -> (&'a str, usize) {
        let (before, after) = rest.split_at(end);
        match self.inside {
            BlockParserState::Nothing => match line.opening_fence() {
                Some(fence) if line.opens_block() => {
                    match before.len().checked_sub(line.bytes()) {
                        Some(at) => self.hand_on(before.split_at(at).0, out),
                        // The line began in an earlier chunk, so the stored text is its beginning.
                        None => self.kept.clear(),
                    }
                    self.count += 1;
                    self.inside = BlockParserState::Block(fence);
                }
                opened => {
                    self.inside = opened.map_or(BlockParserState::Nothing, BlockParserState::Code);
                    if !line.looks_like_tool_block() {
                        return (rest, end + 1);
                    }
                    self.hand_on(before, out);
                    self.count += 1;
                    self.flaw(ToolBlockErrorKind::InvalidOpening, out);
                    return (after, 1);
                }
            },
            BlockParserState::Block(fence) if line.closes_fence(fence) => {
                self.inside = BlockParserState::Nothing;
                self.end_block(before, line.bytes(), out);
            }
            BlockParserState::Told(fence) if line.closes_fence(fence) => {
                self.inside = BlockParserState::Nothing
            }
            BlockParserState::Code(fence) if line.closes_fence(fence) => {
                self.inside = BlockParserState::Nothing;
                return (rest, end + 1);
            }
            BlockParserState::Code(_) | BlockParserState::Block(_) | BlockParserState::Told(_) => {
                return (rest, end + 1);
            }
        }
        // The line is removed with its line end.
        self.after_return = after.starts_with('\r');
        (after.get(1..).unwrap_or_default(), 0)
    }

    /// Parses a block whose last line is its closing line.
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
        match call::parse(json) {
            Ok(call) => out(ToolBlockEvent::Call(call)),
            Err(place) => self.flaw(ToolBlockErrorKind::Malformed(place), out),
        }
    }

    /// Stores the end of a chunk.
    fn keep(&mut self, rest: &str, out: &mut impl FnMut(ToolBlockEvent<'_>)) {
        match self.inside {
            BlockParserState::Nothing => match rest.len().checked_sub(self.line.pending_bytes()) {
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

    /// Passes text on, after the text that was held back before it.
    fn hand_on(&mut self, text: &str, out: &mut impl FnMut(ToolBlockEvent<'_>)) {
        for part in [self.kept.as_str(), text] {
            if !part.is_empty() {
                out(ToolBlockEvent::Text(part));
            }
        }
        self.kept.clear();
    }

    fn flaw(&self, wrong: ToolBlockErrorKind, out: &mut impl FnMut(ToolBlockEvent<'_>)) {
        out(ToolBlockEvent::Error(ToolBlockError { block: self.count, kind: wrong }));
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
