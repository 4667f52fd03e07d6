//! The guide is correct: its replies give the results that it shows, and its numbers match the constants.

use byleave_agent::tool_blocks::{BLOCK_BYTES_MAX, OPENING_BYTES_MAX, ToolBlockParser};

use crate::stage::{ParsedPiece, read};

const GUIDE: &str = include_str!("../../../../docs/guide/tool-blocks.md");

// req: L1
#[test]
fn the_guide_shows_what_comes_out() {
    let shown: Vec<&str> = GUIDE.split("\n~~~~~reply\n").skip(1).collect();
    assert!(shown.len() > 2, "the guide has {} replies", shown.len());
    for reply in shown {
        let (reply, rest) = reply.split_once("\n~~~~~\n").unwrap();
        let (_, rest) = rest.split_once("~~~~~text\n").unwrap();
        let (expected, _) = rest.split_once("~~~~~\n").unwrap();
        let lines = read([format!("{reply}\n").as_str()], ToolBlockParser::new())
            .iter()
            .map(line)
            .collect::<String>();
        assert_eq!(lines, expected, "{reply}");
    }
}

// req: L1
#[test]
fn the_guide_has_our_numbers() {
    assert!(GUIDE.contains(&format!("at most {OPENING_BYTES_MAX} bytes in all")));
    assert!(GUIDE.contains(&format!("{} MiB ({BLOCK_BYTES_MAX} bytes)", BLOCK_BYTES_MAX >> 20)));
}

fn line(seen: &ParsedPiece) -> String {
    match seen {
        ParsedPiece::Text(text) => format!("text {text:?}\n"),
        ParsedPiece::Call(call) => {
            let args = serde_json::to_string(&call.args).unwrap();
            let because =
                call.reason.as_ref().map(|reason| format!(", because: {reason}")).unwrap_or_default();
            format!("call {} {args}{because}\n", call.name)
        }
        ParsedPiece::Flaw(flaw) => format!("flaw {flaw}\n"),
    }
}
