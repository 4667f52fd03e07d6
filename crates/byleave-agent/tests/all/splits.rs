//! The result does not depend on how a reply is split into chunks, and equals the result of the line-by-line
//! parser.

use byleave_agent::tool_blocks::ToolBlockParser;
use proptest::prelude::*;

use crate::plain::ReferenceParser;
use crate::stage::{cut, read, sizes, soup};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    // req: L1
    #[test]
    fn any_split_gives_the_same_as_the_whole(text in prop_oneof![soup(), any::<String>()], sizes in sizes(), bound in 0_usize..99) {
        let whole = read([text.as_str()], ToolBlockParser::with_max_block_bytes(bound));
        prop_assert_eq!(&read(cut(&text, &sizes), ToolBlockParser::with_max_block_bytes(bound)), &whole);
        prop_assert_eq!(&read(cut(&text, &[1]), ToolBlockParser::with_max_block_bytes(bound)), &whole, "one by one");
    }

    // req: L1
    #[test]
    fn the_stream_says_what_the_lines_say(text in soup(), sizes in sizes(), bound in 0_usize..99) {
        prop_assert_eq!(read(cut(&text, &sizes), ToolBlockParser::with_max_block_bytes(bound)), ReferenceParser::read(&text, bound));
    }
}
