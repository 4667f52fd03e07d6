//! Shared by the tests: the parsed pieces of a reply, and a generator for replies.

use byleave_agent::tool_blocks::{BlockCall, ToolBlockError, ToolBlockEvent, ToolBlockParser};
use proptest::prelude::*;

/// A parsed piece. Adjacent text is merged.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ParsedPiece {
    Text(String),
    Call(BlockCall),
    Flaw(ToolBlockError),
}

/// All pieces so far.
#[derive(Debug, Default)]
pub(crate) struct ParsedPieces(pub(crate) Vec<ParsedPiece>);

impl ParsedPieces {
    pub(crate) fn take(&mut self, piece: ToolBlockEvent<'_>) {
        match piece {
            ToolBlockEvent::Text(text) => {
                assert!(!text.is_empty(), "a text of nothing");
                self.text(text);
            }
            ToolBlockEvent::Call(call) => self.0.push(ParsedPiece::Call(call)),
            ToolBlockEvent::Error(flaw) => self.0.push(ParsedPiece::Flaw(flaw)),
        }
    }

    pub(crate) fn text(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(ParsedPiece::Text(before)) => before.push_str(text),
            _ if text.is_empty() => {}
            _ => self.0.push(ParsedPiece::Text(text.to_owned())),
        }
    }
}

/// Parses a reply that arrives in these chunks.
pub(crate) fn read<'a>(
    chunks: impl IntoIterator<Item = &'a str>,
    mut blocks: ToolBlockParser,
) -> Vec<ParsedPiece> {
    let mut all = ParsedPieces::default();
    for chunk in chunks {
        blocks.push(chunk, &mut |piece| all.take(piece));
    }
    blocks.finish(&mut |piece| all.take(piece));
    all.0
}

/// Splits a text into chunks of these sizes in characters, in rotation. A size of zero gives an empty chunk.
pub(crate) fn cut<'a>(mut text: &'a str, sizes: &[usize]) -> Vec<&'a str> {
    let mut chunks = Vec::new();
    let mut sizes = sizes.iter().cycle();
    while !text.is_empty() {
        let size = sizes.next().copied().unwrap_or(usize::MAX);
        let end = text.char_indices().nth(size).map_or(text.len(), |(at, _)| at);
        let (chunk, rest) = text.split_at(end);
        chunks.push(chunk);
        text = rest;
    }
    chunks
}

/// Generates chunk sizes. Not all of them are zero, so that splitting ends.
pub(crate) fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0_usize..9, 0..6).prop_map(|mut sizes| {
        if sizes.iter().all(|size| *size == 0) {
            sizes.clear();
        }
        sizes
    })
}

/// Generates replies from relevant parts, in any order.
pub(crate) fn soup() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "`",
        "``",
        "```",
        "````",
        "~~~",
        "~~~~",
        "```````````````````````````",
        "tool",
        "too",
        "tools",
        "rust",
        " ",
        "   ",
        "    ",
        "\t",
        "\n",
        "\n",
        "\n",
        "\r\n",
        "\r",
        "x",
        "é",
        "\u{1f980}",
        "{",
        "}",
        "\"",
        "```tool\n",
        "~~~ tool\r\n",
        "  ```tool \r",
        "\n```\n",
        "\n~~~\r\n",
        "{\"name\":\"a\",\"args\":{}}",
        "{\"name\":\"a\",\"args\":{\"b\":\"``` é\"},\n\"reason\":\"c\"}",
        "- ",
        "> ",
        "\\n",
    ]);
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}
