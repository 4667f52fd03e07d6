//! Every text is parsed without a panic, and quickly.

use byleave_shell::parse_commands;
use proptest::prelude::*;

use crate::stage::FakeShellEnv;

proptest! {
    // req: P3
    #[test]
    fn any_text_is_read(text in any::<String>()) {
        parse_commands(&text, &FakeShellEnv::default());
    }

    // req: P3
    #[test]
    fn any_soup_of_operators_is_read(text in "[a{}()<>|&;$`'\"\\\\ \n#=*?~!0\\[\\],.-]{0,200}") {
        let reading = parse_commands(&text, &FakeShellEnv::default());
        prop_assert!(!reading.commands.is_empty() || !reading.unresolved.is_empty() || text.chars().all(|c| " \n#".contains(c)) || is_quiet(&text));
    }
}

/// Text that bash ignores: comments and arithmetic.
fn is_quiet(text: &str) -> bool {
    text.contains('#') || text.contains("((") || text.contains('!') || text.contains("\\\n")
}

// Found by fuzzing: for a parse error within backquotes, the position was relative to the inner text.
#[test]
fn every_place_is_one_in_the_text() {
    for text in ["`lt'/ws.l\u{200b}`l", "é`é'`", "eval \"é 'é\"", "é $(`é \"`)"] {
        let reading = parse_commands(text, &FakeShellEnv::default());
        let spans = reading.commands.iter().map(|command| &command.span);
        for span in spans.chain(reading.unresolved.iter().map(|riddle| &riddle.span)) {
            assert!(text.get(span.clone()).is_some_and(|_| span.end <= text.len()), "{text}: {span:?}");
        }
    }
}

// req: P3
#[test]
fn what_is_nested_endlessly_is_read() {
    for (open, middle, close) in [
        ("(", "touch x", ")"),
        ("$(", "touch x", ")"),
        ("\"$(", "touch x", ")\""),
        ("${a:-", "touch x", "}"),
        ("{ ", "touch x", "; }"),
        ("if a; then ", "touch x", "; fi"),
        ("case a in a) ", "touch x", ";; esac"),
        ("$((", "1", "))"),
        ("((", "1", "))"),
        ("<(", "touch x", ")"),
        ("{a,", "b", "}"),
        ("a=(", "b", ")"),
        ("[[ ( ", "b", " ) ]]"),
        ("! ", "touch x", ""),
        ("eval '", "touch x", "'"),
        ("`", "touch x", "`"),
        ("f() { ", "touch x", "; }"),
        ("cat <<A $(", "x", ")\nA\n"),
    ] {
        for depth in [3, 30, 200, 3000] {
            let text = format!("{}{middle}{}", open.repeat(depth), close.repeat(depth));
            // Exponential time would show as a test that does not end.
            let reading = parse_commands(&text, &FakeShellEnv::default());
            assert!(
                !reading.commands.is_empty() || !reading.unresolved.is_empty() || middle == "1",
                "{open} {depth}"
            );
        }
    }
}
