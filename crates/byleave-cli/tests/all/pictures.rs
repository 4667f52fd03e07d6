//! Pictures of questions, made from the screen of the real program.
//!
//! `BYLEAVE_GUIDE=write cargo nextest run -p byleave-cli -E 'test(pictures::)'` writes them. Otherwise they must match the files.

#[cfg(feature = "agent")]
mod chat;

use std::fs;
use std::path::Path;

use regex::Regex;

use crate::desk::OtherUserWorld;
use crate::guide::{docs, put};
use crate::sitting::TerminalSession;

const COLUMNS: u16 = 130;
const CODE: &str = "use std::env;\n\nfn main() {\n    let name = env::args().nth(1).unwrap();\n    println!(\"hello {}\", name);\n}\n";
const RENAME: &str = "sed -i 's/unwrap()/unwrap_or_default()/; s/hello/Hello/' main.rs && rm notes.txt";

fn sit(desk: &OtherUserWorld, rows: u16, words: &[&str]) -> TerminalSession {
    let mut command = desk.world.command(Path::new("setsid"));
    command.args(["--ctty", "--wait"]).arg(&desk.program).args(["--color", "always"]).args(words);
    command.env("BYLEAVE_WAIVE", "memory-limited").env("TERM", "xterm");
    TerminalSession::sized(desk.by_another(command), COLUMNS, rows)
}

/// Makes the picture of a screen. Replaces everything that differs between runs.
fn draw(desk: &OtherUserWorld, sitting: &TerminalSession, name: &str) {
    let workspace = desk.world.workspace().display().to_string();
    let text = sitting.painted().replace(&workspace, "/home/ann/project");
    let whole = Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap();
    let text = whole.replace_all(&text, "0192c1d4-6a1e-7c55-9d1b-4d3f7f3c02a9");
    let clock = Regex::new(r"23:5\d:\d\d").unwrap();
    let text = clock.replace_all(&text, "23:59:41");
    let ago = Regex::new(r"\d s ago").unwrap();
    let text = ago.replace_all(&text, "9 s ago");
    let took = Regex::new(r"completed in [0-9.]+ (ms|s)").unwrap();
    let text = took.replace_all(&text, "completed in 12 ms");
    // Only pictures of a conversation have these.
    let session = Regex::new(r"(chat-[0-9a-f]{4}|project  )[0-9a-f]{8}\b").unwrap();
    let text = session.replace_all(&text, "${1}7f3c02a9");
    let text = Regex::new(r"chat-[0-9a-f]{4}").unwrap().replace_all(&text, "chat-4d3f");
    let until = Regex::new(r"until [0-9-]+ [0-9:]+Z").unwrap();
    let text = until.replace_all(&text, "until 2026-11-15 18:00:00Z");
    let svg = anstyle_svg::Term::new().min_width_px(1_120).render_svg(&text);
    let write = std::env::var("BYLEAVE_GUIDE").is_ok_and(|how| how == "write");
    put(&docs().join(format!("{name}.svg")), &svg, write);
}

// req: E5, R5
#[test]
fn the_pictures_show_the_screens() {
    let desk = OtherUserWorld::new();
    let code = desk.world.workspace().join("main.rs");
    fs::write(&code, CODE).unwrap();
    desk.give(&code);
    let args = serde_json::json!({ "command": RENAME }).to_string();
    let why = "unwrap panics without an argument, and the notes are no longer needed";
    let call =
        ["call", "bash", "--agent", "coder", "--session", "greeting", "--reason", why, "--args", &args];
    let mut sitting = sit(&desk, 36, &call);
    sitting.await_ready();
    sitting.await_shown("unwrap_or_default");
    draw(&desk, &sitting, "question");
    sitting.choose("n", "no");
    sitting.await_shown("instead?");
    sitting.press("\r");
    sitting.end();

    let note = |line: &str| format!(r#"{{"path":"CHANGES.md","line":"{line}"}}"#);
    for (agent, session, line) in [("coder", "greeting", "- greets"), ("writer", "docs", "- says how")] {
        let args = note(line);
        let words = [
            "call",
            "append_line",
            "--ask",
            "inbox",
            "--agent",
            agent,
            "--session",
            session,
            "--args",
            &args,
        ];
        assert_eq!(desk.command(&words).output().unwrap().status.code(), Some(4));
    }
    let mut waiting = call.to_vec();
    waiting.extend(["--ask", "inbox"]);
    let mut command = desk.command(&waiting);
    command.env("BYLEAVE_WAIVE", "memory-limited");
    assert_eq!(command.output().unwrap().status.code(), Some(4));
    let mut sitting = sit(&desk, 12, &["inbox"]);
    sitting.await_shown("3 open");
    sitting.press(" ");
    sitting.await_shown("1 marked");
    draw(&desk, &sitting, "inbox");
    sitting.press("\u{1b}");
    sitting.await_screen("nothing marked", |screen| !screen.contains("marked,"));
    sitting.resize(COLUMNS, 32);
    sitting.press("\u{1b}[H\r");
    sitting.choose("a", "don't ask again");
    sitting.await_shown("would have covered");
    draw(&desk, &sitting, "leave");
    sitting.press("\u{1b}");
    sitting.await_ready();
    sitting.press("\u{1b}");
    sitting.await_shown("3 open");
    sitting.press("q");
    assert_eq!(sitting.end().0, Some(0));
}
