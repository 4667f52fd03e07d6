//! The result of each case in the guide (docs/guide/tool-blocks.md).

use byleave_agent::tool_blocks::{BLOCK_BYTES_MAX, ToolBlockErrorKind, ToolBlockParser};

use crate::stage::{ParsedPiece, read};

const A: &str = r#"{"name": "a", "args": {}}"#;

/// Parses a reply in which `A` is replaced with a call, and checks the result.
fn check(text: &str, expected: &[&str]) {
    let seen = read([text.replace('A', A).as_str()], ToolBlockParser::new());
    assert_eq!(seen.iter().map(words).collect::<Vec<_>>(), expected, "{text}");
}

fn words(seen: &ParsedPiece) -> String {
    match seen {
        ParsedPiece::Text(text) => text.replace(A, "A"),
        ParsedPiece::Call(call) => format!("call {}", call.name),
        ParsedPiece::Flaw(flaw) => {
            let wrong = match &flaw.kind {
                ToolBlockErrorKind::InvalidOpening => "opening".to_owned(),
                ToolBlockErrorKind::Unfinished => "unfinished".to_owned(),
                ToolBlockErrorKind::TooLarge { .. } => "too large".to_owned(),
                ToolBlockErrorKind::Malformed(place) => format!("{}:{}", place.line, place.column),
            };
            format!("flaw {} {wrong}", flaw.block)
        }
    }
}

// req: L1
#[test]
fn a_block_is_taken_out_of_the_text() {
    check("", &[]);
    check("no block", &["no block"]);
    check("```tool\nA\n```", &["call a"]);
    check("Look:\n\n```tool\nA\n```\n\nDone.\n", &["Look:\n\n", "call a", "\nDone.\n"]);
    check("text right before\n```tool\nA\n```\nand after", &["text right before\n", "call a", "and after"]);
    check("```tool\n\n  A  \n\n```\n", &["call a"]);
}

// req: L1
#[test]
fn several_blocks_are_several_calls_in_their_order() {
    check("```tool\nA\n```\n```tool\nA\n```\n", &["call a", "call a"]);
    check(
        "1\n```tool\nA\n```\n2\n~~~tool\n[]\n~~~\n3\n```tool\nA\n```\n4",
        &["1\n", "call a", "2\n", "flaw 2 1:1", "3\n", "call a", "4"],
    );
}

// req: L1
#[test]
fn fences_are_those_of_commonmark() {
    // Tildes, more than three marks, and an end fence that is longer than the opening fence.
    check("~~~tool\nA\n~~~\n", &["call a"]);
    check("`````tool\nA\n`````\n", &["call a"]);
    check("```tool\nA\n``````\n", &["call a"]);
    // Blanks around the tag and after the end.
    check("``` \t tool \t\nA\n``` \t\n", &["call a"]);
    // Fewer than three marks, or two kinds mixed, do not make a fence.
    check("``tool\nA\n``\n", &["``tool\nA\n``\n"]);
    check("``~tool\nA\n", &["``~tool\nA\n"]);
    // Other tags.
    for tag in [
        "tools",
        "Tool",
        "TOOL",
        "tool_call",
        "tool-output",
        "tool:",
        "tool{",
        "json",
        "too",
        "{tool}",
        "ｔool",
    ] {
        let text = format!("```{tag}\nA\n```\n");
        check(&text, &[&text]);
    }
    // A fence in the middle of a line, or after another mark.
    for text in
        ["x ```tool\nA\n", "> ```tool\n> A\n> ```\n", "- ```tool\n", "\u{feff}```tool\nA\n", "\\```tool\nA\n"]
    {
        check(text, &[text]);
    }
}

// req: L1
#[test]
fn up_to_three_spaces_are_a_margin() {
    check(" ```tool\n A\n```\n", &["call a"]);
    check("   ```tool\n   A\n   ```\n", &["call a"]);
    check("```tool\nA\n   ```\n", &["call a"]);
    // Four spaces or a tab do not open a fence, but the attempt is reported as a flaw.
    check("    ```tool\n    A\n    ```\n", &["    ```tool", "flaw 1 opening", "\n    A\n    ```\n"]);
    check("\t```tool\n\tA\n\t```\n", &["\t```tool", "flaw 1 opening", "\n\tA\n\t```\n"]);
    // Nor do they close a block.
    check("```tool\nA\n    ```\n", &["flaw 1 unfinished"]);
}

// req: L1
#[test]
fn lines_end_with_a_line_feed_a_carriage_return_or_both() {
    check("1\r\n```tool\r\nA\r\n```\r\n2\r\n", &["1\r\n", "call a", "2\r\n"]);
    check("1\r```tool\rA\r```\r2\r", &["1\r", "call a", "2\r"]);
    check("```tool\r\r\nA\n```\r\r\n2", &["call a", "\r\n2"]);
    check(
        "```rust\r\n```tool\r\n```\r\n```tool\r\nA\r\n```\r\n",
        &["```rust\r\n```tool\r\n```\r\n", "call a"],
    );
}

// req: L1
#[test]
fn a_block_within_another_code_block_is_text() {
    for text in [
        "````markdown\n```tool\nA\n```\n````\n",
        "~~~\n```tool\nA\n```\n~~~\n",
        "```\n```tool\nA\n```\n",
        "```never closed\n```tool\nA\n",
        "~~~ `info`\n```tool\nA\n```\n",
    ] {
        check(text, &[text]);
    }
    check("```rust\nfn f() {}\n```\n```tool\nA\n```\n", &["```rust\nfn f() {}\n```\n", "call a"]);
    // Backticks after backticks are not a fence, so nothing was opened.
    check("``` `x` ```\n```tool\nA\n```\n", &["``` `x` ```\n", "call a"]);
}

// req: L1
#[test]
fn fences_within_a_block_are_part_of_it() {
    // A JSON string contains no line end, so it contains no fence.
    let json = r#"{"name": "a", "args": {"text": "```rust\n```\n"}}"#;
    check(&format!("```tool\n{json}\n```\n"), &["call a"]);
    // A block is closed only by marks of the same kind, at least as many, alone on their line.
    check("```tool\nA\n~~~\n```\n", &["flaw 1 2:1"]);
    check("````tool\nA\n```\n````\n", &["flaw 1 2:1"]);
    check("```tool\nA\n``` x\n```\n", &["flaw 1 2:1"]);
    // If a block is not closed before the next one begins, both are one block, which is not a call.
    check("```tool\nA\n```tool\nA\n```\n", &["flaw 1 2:1"]);
    // A string over several lines is not valid JSON. Text after the first closing line is parsed as usual.
    let text =
        "```tool\n{\"name\": \"a\", \"args\": {\"text\": \"\n```rust\n```\n\"}}\n```\n```tool\nA\n```\n";
    check(text, &["flaw 1 1:33", "\"}}\n```\n```tool\nA\n```\n"]);
}

// req: L1
#[test]
fn what_is_not_closed_is_no_call() {
    for text in [
        "```tool",
        "```tool\n",
        "```tool\nA",
        "```tool\nA\n",
        "```tool\nA\n``",
        "```tool\nA```",
        "```tool\nA\n~~~",
    ] {
        check(text, &["flaw 1 unfinished"]);
    }
    check("1\n  ``", &["1\n  ``"]);
    check("1\n```too", &["1\n```too"]);
}

// req: L1
#[test]
fn a_first_line_with_more_than_the_tag_is_told_and_stays_in_the_text() {
    check("```tool json\nA\n```\n2", &["```tool json", "flaw 1 opening", "\nA\n```\n2"]);
    check("```tool A\n```\r\n", &["```tool A", "flaw 1 opening", "\n```\r\n"]);
    // A block on one line is not a fence, so the text after it is not inside a code block.
    check("```tool A```\n```tool\nA\n```\n", &["```tool A```", "flaw 1 opening", "\n", "call a"]);
    check("~~~tool `x`", &["~~~tool `x`", "flaw 1 opening"]);
    let long = format!("```{}tool", " ".repeat(30));
    check(&format!("{long}\nA\n```\n"), &[&long, "flaw 1 opening", "\nA\n```\n"]);
}

// req: L1
#[test]
fn a_block_that_is_too_large_is_told_once_and_taken_out() {
    let filled = |bytes: usize| {
        let (open, close) = (r#"{"name": "a", "args": {"text": ""#, "\"}}\n");
        format!("```tool\n{open}{}{close}```\nrest", "x".repeat(bytes - open.len() - close.len() - 3))
    };
    check(&filled(BLOCK_BYTES_MAX), &["call a", "rest"]);
    check(&filled(BLOCK_BYTES_MAX + 1), &["flaw 1 too large", "rest"]);
    let unfinished = format!("1\n```tool\n{}", "x".repeat(BLOCK_BYTES_MAX + 1));
    check(&unfinished, &["1\n", "flaw 1 too large"]);
}
