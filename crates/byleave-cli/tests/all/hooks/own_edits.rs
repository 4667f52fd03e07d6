//! Edits that agents make with their own tools: the before-image is kept first, what is there afterwards is compared, undo restores it, and
//! a line at the end of a turn says what passed.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Output;

use byleave_hook::AgentKind;
use serde_json::{Value, json};

use super::{HookFixture, PATIENT_MS, ended, is_denied, rewritten, said, start};

const EVERYDAY: &str = "profile = \"everyday\"\n";
const CLAUDE: AgentKind = AgentKind::ClaudeCode;

/// A user under a policy, with an agent.
struct EditFixture {
    stand: HookFixture,
    cwd: String,
}

impl EditFixture {
    fn new(policy: &str) -> Self {
        let stand = HookFixture::new();
        let cwd = stand.desk.world.workspace().to_str().unwrap().to_owned();
        let edits = Self { stand, cwd };
        edits.put("../.config/byleave/policy.toml", policy, 0o644);
        edits
    }

    /// Writes a file that belongs to the user, with its directories.
    fn put(&self, name: &str, text: &str, mode: u32) {
        let path = self.stand.file(name);
        let mut missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        missing.reverse();
        missing.into_iter().for_each(|path| self.stand.desk.give(path));
        // A change of the owner would clear the set-id bits.
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Replaces the content of a file, as a tool that writes in place.
    fn write(&self, name: &str, text: &str) {
        if self.stand.file(name).exists() {
            fs::write(self.stand.file(name), text).unwrap();
        } else {
            self.put(name, text, 0o644);
        }
    }

    fn read(&self, name: &str) -> (String, u32) {
        let path = self.stand.file(name);
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        (fs::read_to_string(path).unwrap(), mode)
    }

    fn exists(&self, name: &str) -> bool {
        self.stand.file(name).symlink_metadata().is_ok()
    }

    fn request(&self, session: &str, tool: &str, input: &Value, after: Option<&Value>) -> Value {
        let mut said = said(CLAUDE, &self.cwd, tool, input, after);
        said["session_id"] = session.into();
        said
    }

    /// Returns what the agent reads before it uses a tool.
    fn before(&self, session: &str, tool: &str, input: &Value) -> Output {
        self.stand.asks(CLAUDE, &self.request(session, tool, input, None), PATIENT_MS)
    }

    /// Returns what the agent reads after it used a tool.
    fn after(&self, session: &str, tool: &str, input: &Value) -> Output {
        let report = self.request(session, tool, input, Some(&json!({"success": true})));
        self.stand.asks(CLAUDE, &report, PATIENT_MS)
    }

    fn turn_ends(&self, session: &str) -> Output {
        let said = json!({
            "session_id": session, "transcript_path": "/t", "cwd": self.cwd, "hook_event_name": "Stop", "stop_hook_active": false
        });
        self.stand.asks(CLAUDE, &said, PATIENT_MS)
    }

    fn write_input(&self, name: &str, content: &str) -> Value {
        json!({ "file_path": format!("{}/{name}", self.cwd), "content": content })
    }

    /// A whole edit: the agent asks, writes and reports.
    fn writes(&self, session: &str, name: &str, content: &str) {
        let input = self.write_input(name, content);
        passes(&self.before(session, "Write", &input));
        self.write(name, content);
        silent(&self.after(session, "Write", &input));
    }

    /// Checks that a person is asked, and says no.
    fn is_asked(&self, session: &str, tool: &str, input: &Value, dialect: AgentKind) {
        let mut asks = said(dialect, &self.cwd, tool, input, None);
        for key in ["session_id", "conversation_id"] {
            if asks.get(key).is_some() {
                asks[key] = session.into();
            }
        }
        let mut hook = start(self.stand.hook(dialect, PATIENT_MS), asks.to_string().as_bytes());
        let is_open = super::until("somebody is asked, or the hook ends", || {
            let has_ended = hook.try_wait().unwrap().is_some();
            let is_open = self.stand.json(&["inbox", "--json"]) != json!([]);
            (has_ended || is_open).then_some(is_open)
        });
        if is_open {
            self.stand.answers(&["no"]);
        }
        let told = ended(hook);
        assert!(is_denied(dialect, &told), "{tool} {input}: {told:?}");
        let both = format!("{}{}", text(&told.stdout), text(&told.stderr));
        assert!(both.contains("said no"), "{tool} {input}: {both}");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn passes(told: &Output) {
    assert!(told.status.code() == Some(0) && !is_denied(CLAUDE, told), "{told:?}");
    assert!(text(&told.stdout).contains("\"allow\""), "{told:?}");
}

fn silent(told: &Output) {
    assert_eq!((told.status.code(), text(&told.stdout)), (Some(0), String::new()), "{told:?}");
}

/// Returns the line that the agent shows to the person.
fn shown(told: &Output) -> String {
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    let said: Value =
        serde_json::from_slice(&told.stdout).unwrap_or_else(|error| panic!("{error}: {told:?}"));
    said["systemMessage"].as_str().unwrap().to_owned()
}

// req: M2, P1, E6, E9
#[test]
fn an_edit_passes_because_its_before_image_is_kept_and_undo_restores_it() {
    let edits = EditFixture::new(EVERYDAY);
    let _served = edits.stand.serve();
    edits.put("src/a.txt", "one\ntwo\n", 0o640);
    edits.put("run.sh", "#!/bin/sh\necho a\n", 0o755);
    let path = |name: &str| format!("{}/{name}", edits.cwd);
    let rows = [
        ("Write", edits.write_input("new/deep/n.txt", "x"), "new/deep/n.txt", "x"),
        ("Write", edits.write_input("src/a.txt", "other\n"), "src/a.txt", "other\n"),
        (
            "Edit",
            json!({"file_path": path("src/a.txt"), "old_string": "other", "new_string": "third"}),
            "src/a.txt",
            "third\n",
        ),
        (
            "MultiEdit",
            json!({"file_path": path("run.sh"), "edits": [
                {"old_string": "echo a", "new_string": "echo b"}, {"old_string": "b", "new_string": "c", "replace_all": true}
            ]}),
            "run.sh",
            "#!/cin/sh\necho c\n",
        ),
    ];
    for (tool, input, name, content) in &rows {
        passes(&edits.before("s", tool, input));
        edits.write(name, content);
        silent(&edits.after("s", tool, input));
    }
    assert_eq!(edits.stand.json(&["inbox", "--json"]), json!([]));
    let calls = edits.stand.json(&["log", "--json", "--session", "claude-code:s"]);
    assert_eq!(calls.as_array().unwrap().len(), rows.len(), "{calls}");
    let record = edits.stand.json(&["log", "show", calls[0]["call"].as_str().unwrap(), "--json"]).to_string();
    for part in ["\"undoable\":true", "\"rule\":\"undoable\"", "evaluated, not enforced"] {
        assert!(record.contains(part), "{part}: {record}");
    }
    let shown = edits.stand.byleave(&["diff"]);
    assert!(text(&shown.stdout).contains("+echo c"), "{shown:?}");
    let undone = edits.stand.byleave(&["undo"]);
    assert_eq!(undone.status.code(), Some(0), "{undone:?}");
    assert_eq!(edits.read("run.sh"), ("#!/bin/sh\necho a\n".into(), 0o755));
    let undone = edits.stand.byleave(&["undo", "--session", "claude-code:s"]);
    assert_eq!(undone.status.code(), Some(0), "{undone:?}");
    assert_eq!(edits.read("src/a.txt"), ("one\ntwo\n".into(), 0o640));
    assert!(!edits.exists("new"));
}

/// Sends what Codex says before or after a patch.
fn patched(edits: &EditFixture, session: &str, patch: &str, after: bool) -> Output {
    let input = json!({ "command": format!("*** Begin Patch\n{patch}\n*** End Patch") });
    let response = json!("Success. Updated the following files");
    let mut request = said(AgentKind::Codex, &edits.cwd, "apply_patch", &input, after.then_some(&response));
    request["session_id"] = session.into();
    edits.stand.asks(AgentKind::Codex, &request, PATIENT_MS)
}

// req: M2, P1, E6, E9
#[test]
fn a_patch_of_codex_is_undoable_work_and_half_of_it_is_not_the_patch() {
    let edits = EditFixture::new(EVERYDAY);
    let _served = edits.stand.serve();
    edits.put("src/a.txt", "one\ntwo\n", 0o640);
    edits.put("old.txt", "x", 0o644);
    let patch = "*** Add File: new/n.txt\n+n\n*** Update File: src/a.txt\n@@\n one\n-two\n+2\n*** Delete File: old.txt";
    let told = patched(&edits, "s", patch, false);
    assert!(told.status.code() == Some(0) && !is_denied(AgentKind::Codex, &told), "{told:?}");
    assert_eq!(edits.stand.json(&["inbox", "--json"]), json!([]));
    edits.write("new/n.txt", "n\n");
    edits.write("src/a.txt", "one\n2\n");
    fs::remove_file(edits.stand.file("old.txt")).unwrap();
    let told = patched(&edits, "s", patch, true);
    assert!(!text(&told.stdout).contains("not what was judged"), "{told:?}");
    let undone = edits.stand.byleave(&["undo"]);
    assert_eq!(undone.status.code(), Some(0), "{undone:?}");
    assert_eq!(edits.read("src/a.txt"), ("one\ntwo\n".into(), 0o640));
    assert_eq!((edits.read("old.txt"), edits.exists("new")), (("x".into(), 0o644), false));
    // The agent made a part of it.
    let told = patched(&edits, "t", patch, false);
    assert!(!is_denied(AgentKind::Codex, &told), "{told:?}");
    edits.write("src/a.txt", "one\n2\n");
    let told = patched(&edits, "t", patch, true);
    assert!(text(&told.stdout).contains("not what was judged"), "{told:?}");
}

// req: M2, P1, E9
#[test]
fn a_patch_whose_result_is_not_certain_is_asked_about() {
    let edits = EditFixture::new(EVERYDAY);
    edits.put("a.txt", "one \ntwo\n", 0o644);
    let _served = edits.stand.serve();
    for (number, patch) in [
        "*** Update File: a.txt\n@@\n-one\n+1",
        "*** Update File: a.txt\n*** Move to: b.txt\n@@\n-two\n+2",
        "*** Add File: .github/workflows/ci.yml\n+x",
        "*** Add File: ../outside.txt\n+x",
    ]
    .into_iter()
    .enumerate()
    {
        let input = json!({ "command": format!("*** Begin Patch\n{patch}\n*** End Patch") });
        edits.is_asked(&number.to_string(), "apply_patch", &input, AgentKind::Codex);
    }
}

// req: M2, P1, E6, E9
#[test]
fn an_edit_of_a_notebook_is_undoable_work() {
    let edits = EditFixture::new(EVERYDAY);
    let _served = edits.stand.serve();
    let book = "{\n \"cells\": [\n  {\n   \"cell_type\": \"code\",\n   \"execution_count\": 1,\n   \"id\": \"a\",\n   \"metadata\": {},\n   \"outputs\": [],\n   \"source\": \"x\"\n  }\n ],\n \"metadata\": {},\n \"nbformat\": 4,\n \"nbformat_minor\": 5\n}";
    edits.put("book.ipynb", book, 0o644);
    let input =
        json!({"notebook_path": format!("{}/book.ipynb", edits.cwd), "new_source": "y", "cell_id": "a"});
    passes(&edits.before("s", "NotebookEdit", &input));
    edits.write("book.ipynb", &book.replace("\"x\"", "\"y\"").replace("_count\": 1", "_count\": null"));
    silent(&edits.after("s", "NotebookEdit", &input));
    let undone = edits.stand.byleave(&["undo"]);
    assert_eq!((undone.status.code(), edits.read("book.ipynb").0), (Some(0), book.into()), "{undone:?}");
}

// req: M2, P1, E9
#[test]
fn an_edit_that_could_not_be_taken_back_is_asked_about_as_before() {
    let edits = EditFixture::new(EVERYDAY);
    edits.put("real.txt", "x", 0o644);
    edits.put("twice.txt", "x", 0o644);
    edits.put("book.ipynb", "{}", 0o644);
    edits.put("as-owner.txt", "x", 0o4755);
    edits.put("../outside.txt", "x", 0o644);
    edits.put("../.config/byleave/config.toml", "file_bytes = 65536\n", 0o644);
    edits.put("large.txt", &"x".repeat(70_000), 0o644);
    symlink("real.txt", edits.stand.file("link.txt")).unwrap();
    symlink("..", edits.stand.file("up")).unwrap();
    fs::hard_link(edits.stand.file("twice.txt"), edits.stand.file("other-name.txt")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        edits.stand.file("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let _served = edits.stand.serve();
    let write = |name: &str| edits.write_input(name, "y");
    let mut with_more = write("real.txt");
    with_more["as_root"] = true.into();
    let notebook =
        json!({"notebook_path": format!("{}/book.ipynb", edits.cwd), "new_source": "1", "cell_id": "a"});
    let large = json!({"file_path": format!("{}/large.txt", edits.cwd), "content": "y"});
    let cursor = json!({"path": format!("{}/real.txt", edits.cwd), "content": "y"});
    let rows = [
        (CLAUDE, "Write", write(".github/workflows/ci.yml")),
        (CLAUDE, "Write", write("AGENTS.md")),
        (CLAUDE, "Write", write("link.txt")),
        (CLAUDE, "Write", write("up/outside.txt")),
        (CLAUDE, "Write", write("../outside.txt")),
        (CLAUDE, "Write", write("twice.txt")),
        (CLAUDE, "Write", write("pipe")),
        (CLAUDE, "Write", write("as-owner.txt")),
        (CLAUDE, "Write", with_more),
        (CLAUDE, "Write", large),
        (CLAUDE, "NotebookEdit", notebook),
        (AgentKind::Cursor, "Write", cursor),
    ];
    for (number, (dialect, tool, input)) in rows.into_iter().enumerate() {
        edits.is_asked(&number.to_string(), tool, &input, dialect);
    }
    // Without the default for undoable work nothing passes.
    let careful = EditFixture::new("");
    careful.is_asked("s", "Write", &careful.write_input("n.txt", "x"), CLAUDE);
}

// req: M2, P1
#[test]
fn an_edit_that_would_fail_is_answered_without_a_person() {
    let edits = EditFixture::new(EVERYDAY);
    let input =
        json!({"file_path": format!("{}/notes.txt", edits.cwd), "old_string": "gone", "new_string": "x"});
    let told = edits.before("s", "Edit", &input);
    assert!(
        is_denied(CLAUDE, &told) && text(&told.stderr).contains("the old text is not in the file"),
        "{told:?}"
    );
    assert_eq!(edits.stand.json(&["inbox", "--json"]), json!([]));
}

// req: M2, P1, E6, E9
#[test]
fn other_bytes_are_reported_at_once_and_the_session_asks_from_then_on() {
    let edits = EditFixture::new(EVERYDAY);
    let input = edits.write_input("notes.txt", "judged");
    passes(&edits.before("s", "Write", &input));
    edits.write("notes.txt", "smuggled");
    let told = edits.after("s", "Write", &input);
    let line = shown(&told);
    assert!(line.contains("notes.txt") && line.contains("byleave undo"), "{line}");
    let said: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!((&said["decision"], &said["reason"]), (&json!("block"), &json!(line)));
    // It is on the record, and another process knows it.
    let reports = edits.stand.json(&["log", "--json", "--tool", "agent_ran"]);
    let record =
        edits.stand.json(&["log", "show", reports[0]["call"].as_str().unwrap(), "--contents", "--json"]);
    assert!(record.to_string().contains("is not what was judged"), "{record}");
    let status = text(&edits.stand.byleave(&[]).stdout);
    assert!(status.contains("claude-code:s") && status.contains("asks about every call"), "{status}");
    let _served = edits.stand.serve();
    edits.is_asked("s", "Write", &edits.write_input("other.txt", "x"), CLAUDE);
    edits.is_asked("s", "Bash", &json!({"command": "touch made"}), CLAUDE);
    passes(&edits.before("s", "Read", &json!({"file_path": format!("{}/notes.txt", edits.cwd)})));
    // A new session does not ask.
    edits.writes("t", "other.txt", "x");
    let undone = edits.stand.byleave(&["undo", "--session", "claude-code:s"]);
    assert_eq!(undone.status.code(), Some(0), "{undone:?}");
    assert_eq!(edits.read("notes.txt").0, "hello");
}

// req: M2, P1, E9
#[test]
fn another_path_or_no_change_at_all_is_reported() {
    let edits = EditFixture::new(EVERYDAY);
    let _served = edits.stand.serve();
    // The tool was used with another input than was judged.
    passes(&edits.before("input", "Write", &edits.write_input("a.txt", "x")));
    edits.write("b.txt", "x");
    let line = shown(&edits.after("input", "Write", &edits.write_input("b.txt", "x")));
    assert!(line.contains("another input"), "{line}");
    edits.is_asked("input", "Write", &edits.write_input("c.txt", "x"), CLAUDE);
    // The agent says that it succeeded, and the file is as before.
    let input = edits.write_input("notes.txt", "x");
    passes(&edits.before("unchanged", "Write", &input));
    let line = shown(&edits.after("unchanged", "Write", &input));
    assert!(line.contains("changed nothing"), "{line}");
    edits.is_asked("unchanged", "Write", &edits.write_input("c.txt", "x"), CLAUDE);
    // It names another path in its report.
    let input = edits.write_input("d.txt", "x");
    passes(&edits.before("path", "Write", &input));
    edits.write("d.txt", "x");
    let response = json!({"filePath": format!("{}/e.txt", edits.cwd)});
    let report = edits.request("path", "Write", &input, Some(&response));
    let line = shown(&edits.stand.asks(CLAUDE, &report, PATIENT_MS));
    assert!(line.contains("e.txt"), "{line}");
    // A tool that failed changed nothing, and says so.
    let input = edits.write_input("notes.txt", "x");
    passes(&edits.before("failed", "Write", &input));
    let mut report = edits.request("failed", "Write", &input, Some(&json!("the file was not read")));
    report["hook_event_name"] = "PostToolUseFailure".into();
    silent(&edits.stand.asks(CLAUDE, &report, PATIENT_MS));
    edits.writes("failed", "notes.txt", "y");
}

// req: M2, E6, E9
#[test]
fn an_edit_without_a_report_is_compared_later_and_shown_until_then() {
    let edits = EditFixture::new(EVERYDAY);
    let _served = edits.stand.serve();
    let unreported = |status: &Value| status["sessions"]["unreported"].as_array().unwrap().len();
    // The agent wrote what was judged and crashed.
    passes(&edits.before("s", "Write", &edits.write_input("a.txt", "x")));
    assert_eq!(unreported(&edits.stand.json(&["--json"])), 0);
    edits.write("a.txt", "x");
    assert_eq!(unreported(&edits.stand.json(&["--json"])), 1);
    let found = edits.stand.json(&["doctor", "--json"]);
    let sessions =
        found["findings"].as_array().unwrap().iter().find(|one| one["subject"] == "sessions").unwrap();
    assert_eq!(sessions["ok"], false, "{sessions}");
    // Undo covers it all the same.
    let undone = edits.stand.byleave(&["undo", "--session", "claude-code:s"]);
    assert!(undone.status.code() == Some(0) && !edits.exists("a.txt"), "{undone:?}");
    // The next call of the session compares.
    passes(&edits.before("s", "Write", &edits.write_input("b.txt", "x")));
    edits.write("b.txt", "x");
    passes(&edits.before("s", "Write", &edits.write_input("c.txt", "x")));
    assert_eq!(unreported(&edits.stand.json(&["--json"])), 0);
    // Something else lets the next call ask, and is reported at the end of the turn.
    edits.write("c.txt", "smuggled");
    edits.is_asked("s", "Write", &edits.write_input("d.txt", "x"), CLAUDE);
    let line = shown(&edits.turn_ends("s"));
    assert!(line.contains("is not what was judged") && line.contains("c.txt"), "{line}");
    edits.is_asked("s", "Write", &edits.write_input("d.txt", "x"), CLAUDE);
    let undone = edits.stand.byleave(&["undo", "--session", "claude-code:s"]);
    assert_eq!(undone.status.code(), Some(0), "{undone:?}");
    assert!(!edits.exists("b.txt") && !edits.exists("c.txt"));
}

// req: M2, E6
#[test]
fn undo_shows_a_conflict_and_overwrites_nothing() {
    let edits = EditFixture::new(EVERYDAY);
    let _served = edits.stand.serve();
    edits.writes("s", "notes.txt", "by the agent");
    edits.write("notes.txt", "by the person");
    let refused = edits.stand.byleave(&["undo", "--session", "claude-code:s"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused.stderr).contains("changed since"), "{refused:?}");
    assert_eq!(edits.read("notes.txt").0, "by the person");
}

// req: M2, P1, E6
#[test]
fn a_line_at_the_end_of_a_turn_says_what_passed() {
    let edits = EditFixture::new(EVERYDAY);
    let _served = edits.stand.serve();
    edits.put("old.txt", "x", 0o644);
    silent(&edits.turn_ends("s"));
    edits.writes("s", "a.txt", "x");
    edits.writes("s", "build.rs", "fn main() {}");
    let told = edits.before("s", "Bash", &json!({"command": "rm old.txt; echo x > c.txt"}));
    let line = rewritten(CLAUDE, &told).unwrap_or_else(|| panic!("{told:?}"));
    assert_eq!(edits.stand.shell(&line).status.code(), Some(0));
    silent(&edits.after("s", "Bash", &json!({ "command": line })));
    // What a person was asked about needs no line.
    let asked = json!({"file_path": format!("{}/AGENTS.md", edits.cwd), "content": "x"});
    let hook = start(
        edits.stand.hook(CLAUDE, PATIENT_MS),
        edits.request("s", "Write", &asked, None).to_string().as_bytes(),
    );
    edits.stand.answers(&["yes"]);
    passes(&ended(hook));
    edits.write("AGENTS.md", "x");
    silent(&edits.after("s", "Write", &asked));
    let line = shown(&edits.turn_ends("s"));
    let wanted = "3 files changed, 1 deleted without a question: byleave diff, byleave undo --session claude-code:s; \
                  runs by itself in an editor: build.rs";
    assert_eq!(line, wanted);
    silent(&edits.turn_ends("s"));
    edits.writes("s", "a.txt", "y");
    assert!(shown(&edits.turn_ends("s")).starts_with("1 file changed without a question"));
    silent(&edits.turn_ends("another"));
    // The command of the line works, and takes back what a person allowed as well.
    let undone = edits.stand.byleave(&["undo", "--session", "claude-code:s"]);
    assert_eq!(undone.status.code(), Some(0), "{undone:?}");
    let left = ["a.txt", "build.rs", "c.txt", "AGENTS.md"].map(|name| edits.exists(name));
    assert_eq!((left, edits.exists("old.txt")), ([false; 4], true));
}

// req: M2
#[test]
fn the_end_of_a_turn_never_blocks_even_when_the_hook_fails() {
    let edits = EditFixture::new("this is not a policy");
    let told = edits.turn_ends("s");
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    assert!(!text(&told.stdout).contains("\"decision\""), "{told:?}");
    assert!(is_denied(CLAUDE, &edits.before("s", "Write", &edits.write_input("a.txt", "x"))));
}

// req: M2, P1, E9
#[test]
fn an_edit_whose_before_image_cannot_be_kept_does_not_pass() {
    let edits = EditFixture::new(EVERYDAY);
    let _served = edits.stand.serve();
    edits.writes("s", "a.txt", "x");
    let kept = edits.stand.desk.world.state().join("copies/copies");
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o500)).unwrap();
    let told = edits.before("s", "Write", &edits.write_input("b.txt", "x"));
    assert!(is_denied(CLAUDE, &told), "{told:?}");
    assert!(text(&told.stderr).contains("cannot be judged"), "{told:?}");
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o700)).unwrap();
    edits.writes("s", "b.txt", "x");
}

// req: M2, P1, E9
#[test]
fn an_edit_that_can_no_longer_be_compared_lets_the_session_ask() {
    let edits = EditFixture::new(EVERYDAY);
    let _served = edits.stand.serve();
    let input = edits.write_input("a.txt", "x");
    passes(&edits.before("s", "Write", &input));
    let workspace = edits.stand.desk.world.workspace();
    fs::rename(&workspace, workspace.with_file_name("moved")).unwrap();
    fs::create_dir(&workspace).unwrap();
    edits.stand.desk.give(&workspace);
    let line = shown(&edits.after("s", "Write", &input));
    assert!(line.contains("cannot be compared"), "{line}");
    edits.is_asked("s", "Write", &input, CLAUDE);
    silent(&edits.turn_ends("t"));
}

// req: E6
#[test]
fn a_gate_for_hooks_drops_what_is_older_than_the_store_keeps() {
    let edits = EditFixture::new(EVERYDAY);
    edits.writes("s", "old.txt", "x");
    edits.writes("s", "recent.txt", "x");
    let calls = edits.stand.json(&["log", "--json", "--session", "claude-code:s"]);
    let copies = edits.stand.desk.world.state().join("copies/copies");
    let copy = |number: usize| copies.join(calls[number]["call"].as_str().unwrap());
    let at = copy(1).join("done.json");
    let mut done: Value = serde_json::from_slice(&fs::read(&at).unwrap()).unwrap();
    let committed = done["at_time"]["secs_since_epoch"].as_u64().unwrap();
    done["at_time"]["secs_since_epoch"] = (committed - 31 * 24 * 3600).into();
    fs::write(&at, done.to_string()).unwrap();
    let _served = edits.stand.serve();
    super::until("the old before-image is dropped", || (!copy(1).exists()).then_some(()));
    assert!(copy(0).exists());
}
