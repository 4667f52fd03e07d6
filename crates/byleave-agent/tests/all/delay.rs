//! Text is passed on at once. Only the beginning of a line that may still open a block is held back.

use byleave_agent::tool_blocks::{OPENING_BYTES_MAX, ToolBlockParser};
use proptest::prelude::*;

use crate::plain::{ReferenceParser, lines};
use crate::stage::{ParsedPiece, ParsedPieces, cut, soup};

/// The longest prefixes of a line that opens a block.
const LONGEST: [&str; 4] = [
    "```tool                         ",
    "   ~~~~~~~~~~~~~~~~~~~~~~~~~tool",
    "```                         tool",
    "  ````````  tool \t \t \t \t \t \t \t \t",
];

// req: L1
#[test]
fn nothing_is_held_back_for_longer_than_the_longest_line_that_opens_a_block() {
    for longest in LONGEST {
        assert_eq!(longest.len(), OPENING_BYTES_MAX, "{longest:?}");
        let (mut blocks, mut all) = (ToolBlockParser::new(), ParsedPieces::default());
        for byte in cut(longest, &[1]) {
            blocks.push(byte, &mut |piece| all.take(piece));
        }
        assert_eq!(all.0, [], "{longest:?} opens no block");
        blocks.push(" ", &mut |piece| all.take(piece));
        assert_eq!(all.0, [ParsedPiece::Text(format!("{longest} "))], "held back for longer");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    // req: L1
    #[test]
    fn after_every_byte_all_is_handed_on_that_cannot_open_a_block(text in soup()) {
        let mut blocks = ToolBlockParser::new();
        let mut all = ParsedPieces::default();
        for (at, c) in text.char_indices() {
            let (so_far, _) = text.split_at(at + c.len_utf8());
            blocks.push(so_far.get(at..).unwrap(), &mut |piece| all.take(piece));

            let mut plain = ReferenceParser::new(usize::MAX);
            for (line, end) in lines(so_far) {
                if end.is_empty() { plain.begun(line) } else { plain.line(line, end) }
            }
            prop_assert_eq!(&all.0, &plain.all.0, "after {:?}", so_far);
        }
    }
}
