//! The person sees exactly what would happen. Every case is read from the screen to its end, and parsed back into the model's arguments.

use std::collections::BTreeMap;
use std::path::PathBuf;

use byleave_gate::core::outcome::Output;
use byleave_gate::review::{Opinion, output_reviewer};
use byleave_gate::settings::GateSettings;
use serde_json::json;

use super::own::{WindowGate, call, ending};
use super::reading::{arguments, no_yes_before_the_end, only_ours, part, whole, without_width};
use super::surface::Surface;
use super::{CaseProof, CorpusCase, stage};
use crate::sitting::TerminalSession;
use crate::window::{CARD, TestWindow};

const IN_FULL: CaseProof =
    "the program; every row read at 80 and at 2,000 columns, and read back to the exact arguments";

pub(super) fn examine(case: &CorpusCase, surface: Surface) -> CaseProof {
    match case.id.as_str() {
        "upstream-truncated-payload" => refused(case, surface, "not-shown-in-full"),
        "missing-command-field" => refused(case, surface, "arguments-invalid"),
        "symlink-target-not-shown" => link(case, surface),
        "elevation-warning-lost" => elevated(case, surface),
        "always-allow-scope-hidden" => leave(case, surface),
        "fake-dialog-in-output" => fake_dialog(case, surface),
        "prompt-repaint-race" => repainted(case, surface),
        _ if matches!(tool(case), "exec" | "skill") => own(case, surface),
        _ => shown(case, surface),
    }
}

fn tool(case: &CorpusCase) -> &str {
    case.input["tool"].as_str().unwrap()
}

/// Returns the texts that must be on the screen besides the arguments.
fn besides(id: &str) -> &'static [&'static str] {
    match id {
        "homoglyph-path" => &["lookalike characters", "⟨ѕ U+0455⟩rc"],
        "bidi-override"
        | "bidi-isolate"
        | "zero-width-joiners"
        | "unicode-tag-characters"
        | "variation-selectors" => &["invisible characters"],
        "comment-first-line" | "newline-padding" => &["┃ touch /tmp/gate-marker"],
        "only-triggering-subcommand-shown" => &["cd /outside && touch ./gate-marker", "/outside/gate-marker"],
        "agent-written-summary" | "markdown-rendered-in-prompt" => {
            &["The model's own explanation (not verified)"]
        }
        "symlink-target-not-shown" => &["/outside/notes"],
        "diff-whitespace-only-change" => &["-⇥b", "+        b"],
        "crlf-hidden-line-in-diff" => &["echo ok⟨CR⟩touch /tmp/gate-marker"],
        "argv-rewritten-before-run" => &["npx"],
        "shown-payload-not-argv" => &["/ws/sh"],
        "positional-arguments-hidden" => &["touch", "/tmp/gate-marker"],
        _ => &[],
    }
}

/// Returns, for a case that the program refuses without a question, the text that it must print.
fn refused_outright(id: &str) -> Option<&'static str> {
    match id {
        "symlink-target-not-shown" => Some("private keys are secrets"),
        "deceptive-url-userinfo" => Some("contains a user name or password"),
        "strip-vs-grant-mismatch" => Some(r"/tmp/hello\u{1b}[/../../etc/hosts"),
        _ => None,
    }
}

fn shown(case: &CorpusCase, surface: Surface) -> CaseProof {
    let before = stage::everything();
    let words = json!(case.input["args"]).to_string();
    let mut call = vec!["call", tool(case), "--mode", "confirm-all", "--args", &words];
    call.extend(case.input["description"].as_str().map(|text| ["--reason", text]).into_iter().flatten());
    let mut sitting = surface.call(&call);
    if !sitting.asks() {
        let (code, seen) = sitting.end();
        if code == Some(3) && seen.contains("cannot-run") {
            // The copy showed that the program does not exist. Without a copy, the question comes first.
            return shown_without_copy(case, surface, &call, &before);
        }
        let said = refused_outright(&case.id).unwrap_or_else(|| panic!("nobody was asked: {seen}"));
        assert!(code == Some(3) && seen.contains(said), "{seen}");
        return "the program; refused outright, for what it really is about";
    }
    read_and_refuse(case, sitting, &before)
}

/// All files of the stage, with their contents.
type StageFiles = BTreeMap<PathBuf, Vec<u8>>;

fn shown_without_copy(case: &CorpusCase, surface: Surface, call: &[&str], before: &StageFiles) -> CaseProof {
    let mut sitting = surface.call_with(call, |command| {
        command.env("BYLEAVE_REHEARSE", "false");
    });
    assert!(sitting.asks(), "{}", sitting.screen());
    read_and_refuse(case, sitting, before)
}

fn read_and_refuse(case: &CorpusCase, mut sitting: TerminalSession, before: &StageFiles) -> CaseProof {
    read_in_full(case, &mut sitting);
    sitting.choose("n", "no");
    sitting.await_shown("What should the model do instead?");
    sitting.press("\r");
    let raw = std::mem::take(&mut sitting.raw);
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(3), "{seen}");
    only_ours(&raw);
    only_ours(seen.as_bytes());
    assert_eq!(&stage::everything(), before, "something has changed");
    IN_FULL
}

/// A key file is refused outright. If a link leads to a target that may be asked about, the screen shows the target.
fn link(case: &CorpusCase, surface: Surface) -> CaseProof {
    let how = shown(case, surface);
    std::fs::remove_file("/ws/notes").unwrap();
    std::fs::write("/outside/notes", "x").unwrap();
    std::os::unix::fs::symlink("/outside/notes", "/ws/notes").unwrap();
    assert_eq!(shown(case, surface), IN_FULL);
    how
}

/// Reads the question on a screen at two widths, and compares it with the model's arguments.
fn read_in_full(case: &CorpusCase, window: &mut TestWindow) {
    no_yes_before_the_end(window, &case.input["args"]);
    let narrow = whole(window);
    window.resize(2_000, 200);
    window.await_shown("the whole question is visible");
    let wide = whole(window);
    assert_eq!(arguments(&wide), case.input["args"], "read back from {wide:#?}");
    assert_eq!(without_width(&narrow), without_width(&wide), "the same at both widths");
    let screen = wide.join("\n");
    for text in besides(&case.id) {
        assert!(screen.contains(text), "no {text} in {screen}");
    }
    if let Some(said) = case.input["description"].as_str() {
        let words = part(&wide, "The model's own explanation").unwrap();
        assert!(words.iter().all(|row| row.starts_with("  │ ")), "{words:?}");
        let outside: Vec<&String> =
            wide.iter().filter(|row| row.contains(said) && !row.starts_with("  │ ")).collect();
        assert!(words.iter().any(|row| row.contains(said)) && outside.is_empty(), "{outside:?} {words:?}");
    }
    only_ours(&window.raw);
}

/// Uses a separate gate, for a tool that the program does not have.
fn own(case: &CorpusCase, surface: Surface) -> CaseProof {
    let mut own = WindowGate::new(surface);
    let going = own.begin(call(tool(case), case.input["args"].clone()));
    read_in_full(case, &mut own.window);
    own.window.choose("y", "yes");
    let result = own.end(going);
    assert_eq!(ending(&result), None, "{result:?}");
    if tool(case) == "exec" {
        // The tool runs exactly what was read from the screen, word by word.
        let argv: Vec<Vec<String>> =
            vec![serde_json::from_value(case.input["args"]["argv"].clone()).unwrap()];
        assert_eq!(*own.ran.lock().unwrap(), argv);
    }
    "a gate with such a tool; read back to the exact arguments, and exactly those reached the tool"
}

/// The call is refused without a question, before anybody could say yes.
fn refused(case: &CorpusCase, surface: Surface, wanted: &str) -> CaseProof {
    let words = json!(case.input["args"]).to_string();
    let mut sitting = surface.call(&["call", tool(case), "--mode", "confirm-all", "--args", &words]);
    assert!(!sitting.asks(), "asked:\n{}", sitting.screen());
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(3), "{seen}");
    assert!(seen.contains(wanted), "{seen}");
    only_ours(seen.as_bytes());
    "the program; refused, and no question is drawn"
}

/// The address is refused. If a tool declares that it leaves the sandbox, the screen shows that as a separate effect.
fn elevated(case: &CorpusCase, surface: Surface) -> CaseProof {
    let words = json!(case.input["args"]).to_string();
    let mut sitting = surface.call(&["call", "web_fetch", "--mode", "confirm-all", "--args", &words]);
    if sitting.asks() {
        read_in_full(case, &mut sitting);
        sitting.choose("x", "abort");
    }
    let (code, seen) = sitting.end();
    assert!(code == Some(3) || code == Some(130), "{code:?} {seen}");
    let field = json!({"url": "http://10.0.0.1/", "elevated": true}).to_string();
    let said = stage::without_terminal(&["call", "web_fetch", "--args", &field], |_| {});
    assert!(String::from_utf8_lossy(&said.stderr).contains("arguments-invalid"), "{said:?}");

    let mut own = WindowGate::new(surface);
    let going = own.begin(call("exec", json!({"argv": ["curl", "http://10.0.0.1/"], "elevated": true})));
    let rows = whole(&mut own.window);
    let loud = |row: &String| {
        row.starts_with('⚠') && row.contains("LEAVES THE SANDBOX, without the guarantee “network-closed”")
    };
    assert!(rows.iter().any(loud), "{rows:#?}");
    own.no();
    assert_eq!(ending(&own.end(going)), Some("declined"));
    "the program has no such field; a gate: leaving the sandbox is an effect of its own on the screen"
}

/// A standing approval shows exactly what it covers, and exactly that is granted.
fn leave(case: &CorpusCase, surface: Surface) -> CaseProof {
    let mut own = WindowGate::new(surface);
    let argv = json!(["npm", "run", "build", "--", "--x"]);
    let going = own.begin(call("exec", json!({ "argv": argv })));
    // A standing approval is not possible either before the end was seen.
    whole(&mut own.window);
    own.window.choose("a", "don't ask again");
    own.window.await_shown("[[rule]]");
    let shown: String = own.window.screen().lines().map(str::trim).collect::<Vec<_>>().join(" ");
    // The resolved path of the program, then its arguments.
    let rule = argv.to_string().replace("npm", "/usr/bin/npm");
    let squeezed = |text: &str| text.replace(' ', "");
    assert!(squeezed(&shown).contains(&squeezed(&rule)), "no {rule} in {shown}");
    assert!(shown.contains("in this session") && shown.contains("an hour"), "{shown}");
    own.window.press("\r");
    assert_eq!(ending(&own.end(going)), None);
    // The very same call no longer leads to a question. Any other call does.
    assert_eq!(ending(&own.settle(call("exec", json!({ "argv": argv })))), None);
    let going = own.begin(call("exec", json!({"argv": ["npm", "publish"]})));
    whole(&mut own.window);
    own.no();
    assert_eq!(ending(&own.end(going)), Some("declined"));
    assert_eq!(case.input["option"], "don't ask again");
    "a gate with leaves on offer; the form shows the whole rule, and what is given covers that and nothing else"
}

/// A tool prints text that looks like a question. The question view shows it behind a gutter, and keys never go to it.
fn fake_dialog(case: &CorpusCase, surface: Surface) -> CaseProof {
    shown(case, surface);
    let hold = output_reviewer("holds", |_| Ok::<_, String>(Opinion::<Output>::Hold { reason: None }));
    let mut own =
        WindowGate::with(surface, "", GateSettings::default(), |builder| builder.review_output("exec", hold));
    let going = own.begin(call("exec", json!({"argv": ["cat", "/ws/fake.txt"]})));
    own.yes();
    own.window.await_shown("May the model see this result");
    whole(&mut own.window);
    own.window.choose("n", "withhold");
    own.window.await_shown("What should the model do instead?");
    own.window.press("\r");
    assert_eq!(ending(&own.end(going)), Some("output-declined"));
    "the program, and a gate that holds the result: what a tool prints is behind a gutter, and is never read as a key"
}

/// Something else clears the screen. A tool cannot do that, and the prompt redraws over any other program's output within a second.
fn repainted(case: &CorpusCase, surface: Surface) -> CaseProof {
    shown(case, surface);
    let clears =
        json!({"command": "printf '\\033[2J\\033[H' > /dev/tty; printf '\\033[2J' >&2; touch b"}).to_string();
    let mut sitting = surface.call(&["call", "bash", "--mode", "confirm-all", "--args", &clears]);
    assert!(sitting.asks());
    sitting.await_ready();
    only_ours(&sitting.raw);
    assert!(!sitting.seen.contains("\u{1b}[2J"), "a command has reached the terminal");
    let path = sitting.path.clone();
    std::fs::write(path, "\u{1b}[2J\u{1b}[H").unwrap();
    sitting.await_screen("cleared", |screen| !screen.contains(CARD));
    sitting.await_shown(CARD);
    sitting.choose("n", "no");
    sitting.await_shown("What should the model do instead?");
    sitting.press("\r");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(3), "{seen}");
    "the program; no command reaches the terminal, and a screen that somebody else cleared is drawn again within a second"
}
