//! Any text as a model's reply: the result does not depend on the chunks, no text is lost or held back, and every flaw has its
//! position.
#![no_main]

use byleave_agent::tool_blocks::{
    BlockCall, OPENING_BYTES_MAX, ToolBlockError, ToolBlockErrorKind, ToolBlockEvent, ToolBlockParser,
};
use libfuzzer_sys::fuzz_target;

/// Small, so that it is reached.
const BLOCK_BYTES_MAX: usize = 300;

/// All pieces. Adjacent text is merged.
#[derive(Debug, Default, PartialEq)]
struct All {
    pieces: Vec<Out>,
    text_bytes: usize,
}

#[derive(Debug, PartialEq)]
enum Out {
    Text(String),
    Call(BlockCall),
    Flaw(ToolBlockError),
}

impl All {
    fn take(&mut self, piece: ToolBlockEvent<'_>) {
        match piece {
            ToolBlockEvent::Text(text) => {
                assert!(!text.is_empty());
                self.text_bytes += text.len();
                match self.pieces.last_mut() {
                    Some(Out::Text(before)) => before.push_str(text),
                    _ => self.pieces.push(Out::Text(text.to_owned())),
                }
            }
            ToolBlockEvent::Call(call) => self.pieces.push(Out::Call(call)),
            ToolBlockEvent::Error(flaw) => self.pieces.push(Out::Flaw(flaw)),
        }
    }
}

/// Parses the text in chunks of these sizes in characters, in rotation.
fn read(mut text: &str, sizes: &[usize]) -> All {
    let (mut blocks, mut all) = (ToolBlockParser::with_max_block_bytes(BLOCK_BYTES_MAX), All::default());
    let mut sizes = sizes.iter().cycle();
    while !text.is_empty() {
        let size = sizes.next().expect("some sizes");
        let (chunk, rest) = text.split_at(text.char_indices().nth(*size).map_or(text.len(), |(at, _)| at));
        blocks.push(chunk, &mut |piece| all.take(piece));
        text = rest;
    }
    blocks.finish(&mut |piece| all.take(piece));
    all
}

fuzz_target!(|text: &str| {
    let whole = read(text, &[usize::MAX]);
    assert_eq!(read(text, &[1]), whole, "one by one");
    // Chunk sizes derived from the text itself.
    let sizes: Vec<usize> = text.bytes().take(16).map(|byte| usize::from(byte % 8)).chain([3]).collect();
    assert_eq!(read(text, &sizes), whole, "in chunks of {sizes:?}");

    // Text comes out unchanged and in order.
    let mut rest = text;
    for piece in &whole.pieces {
        match piece {
            Out::Text(part) => {
                let at = rest.find(part.as_str()).expect("a text that stands there");
                rest = rest.get(at + part.len()..).expect("the rest");
            }
            Out::Call(call) => assert!(!call.name.trim().is_empty()),
            Out::Flaw(flaw) => {
                assert!(flaw.to_string().contains("expected"), "{flaw}");
                if let ToolBlockErrorKind::Malformed(place) = &flaw.kind {
                    assert!(
                        place.line > 0 && place.line <= text.lines().count() + text.matches('\r').count()
                    );
                    assert!(place.column > 0 && place.column <= BLOCK_BYTES_MAX + 1, "{flaw}");
                }
            }
        }
    }

    // Without the word "tool" everything is text, and none of it waits longer than an opening line.
    if !text.contains("tool") {
        assert_eq!(whole.text_bytes, text.len());
        let (mut blocks, mut all) = (ToolBlockParser::new(), All::default());
        for (at, c) in text.char_indices() {
            let end = at + c.len_utf8();
            blocks.push(text.get(at..end).expect("a character"), &mut |piece| all.take(piece));
            assert!(end - all.text_bytes <= OPENING_BYTES_MAX);
        }
    }
});
