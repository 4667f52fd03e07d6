//! Parses patches: the files that a patch would create, change, move or delete, in either of the two common formats.
//!
//! It is pure. It reads headers and skips content by the counts in the patch, so that content is never mistaken for a
//! header, or a header for content. Ambiguous text becomes a doubt, which the caller must report.

use std::iter::Peekable;
use std::str::Lines;

/// The effects of a patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// The changes by file, in order.
    pub changes: Vec<PatchChange>,
    /// Descriptions of everything uncertain.
    pub doubts: Vec<String>,
}

/// The effect of a patch on one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchChange {
    /// The file is created.
    Add(String),
    /// Its content changes.
    Update(String),
    /// It is deleted.
    Delete(String),
    /// Its content is compared with the patch. Someone who learns whether it matches has effectively read it.
    Compare(String),
}

/// The reason why a text is not a patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It names no file.
    #[error("the patch names no file; begin with `*** Begin Patch` or give a diff as `git diff` writes it")]
    NoFileNamed,
    /// A quoted name does not end, or has an unknown escape.
    #[error("the patch has an unreadable file name: `{0}`")]
    InvalidName(String),
}

/// A constructor of a change from a name.
type PatchChangeConstructor = fn(String) -> PatchChange;

const ENVELOPE: &str = "*** Begin Patch";
/// The headers of the enveloped format with their changes.
const HEADERS: [(&str, PatchChangeConstructor); 4] = [
    ("*** Add File:", PatchChange::Add),
    ("*** Update File:", PatchChange::Update),
    ("*** Delete File:", PatchChange::Delete),
    ("*** Move to:", PatchChange::Add),
];

/// Parses a patch.
pub fn parse(text: &str) -> Result<Patch, PatchError> {
    let mut patch = Patch::default();
    if text.contains('\r') {
        patch.add_doubt("lines end in a carriage return, which some programs read as part of a file name");
    }
    if text.lines().any(|line| line.trim() == ENVELOPE) {
        parse_enveloped(text, &mut patch);
        if is_diff(text) {
            patch.add_doubt("the patch has both formats, and programs differ in which one they read");
            // An unreadable name in it is only a doubt, like the rest.
            if let Err(why) = parse_diff(text, &mut patch) {
                patch.add_doubt(why.to_string());
            }
        }
    } else {
        parse_diff(text, &mut patch)?;
        if text.lines().any(resembles_header) {
            patch.add_doubt("the patch has headers of the `*** Begin Patch` format outside of one");
        }
    }
    if patch.changes.is_empty() { Err(PatchError::NoFileNamed) } else { Ok(patch) }
}

/// Parses a name after `---` or `+++`: optional quotes, prefix `a/` or `b/`, and date. Returns `None` for `/dev/null`.
pub fn parse_file_name(text: &str) -> Result<Option<String>, PatchError> {
    let bare = unquote_name(text.split('\t').next().unwrap_or(text))?;
    if bare == "/dev/null" {
        return Ok(None);
    }
    Ok(Some(bare.strip_prefix("a/").or_else(|| bare.strip_prefix("b/")).unwrap_or(&bare).to_owned()))
}

/// Returns the name that both halves of `diff --git` have in common. The text is given without that word.
pub fn parse_git_header_name(names: &str) -> Option<String> {
    let both = name_splits(names)
        .filter_map(|(old, new)| Some((parse_file_name(old).ok()??, parse_file_name(new).ok()??)));
    both.into_iter().find(|(old, new)| old == new).map(|(same, _)| same)
}

/// Removes quotes from a name and decodes git's escapes.
pub fn unquote_name(text: &str) -> Result<String, PatchError> {
    let wrong = || PatchError::InvalidName(text.escape_debug().to_string());
    let text = text.trim();
    let Some(inner) = text.strip_prefix('"') else { return Ok(text.to_owned()) };
    let inner = inner.strip_suffix('"').ok_or_else(wrong)?;
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' => {}
            // Two quoted names are not one name.
            b'"' => return Err(wrong()),
            byte => {
                bytes.push(byte);
                continue;
            }
        }
        bytes.push(match rest.next().ok_or_else(wrong)? {
            b'a' => 7,
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 11,
            b'f' => 12,
            b'r' => b'\r',
            same @ (b'"' | b'\\') => same,
            first @ b'0'..=b'3' => {
                let digits = [Some(first), rest.next(), rest.next()];
                let digits: Option<String> = digits.iter().map(|digit| digit.map(char::from)).collect();
                let digits = digits.ok_or_else(wrong)?;
                u8::from_str_radix(&digits, 8).map_err(|_| wrong())?
            }
            _ => return Err(wrong()),
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

impl Patch {
    fn add_doubt(&mut self, why: impl Into<String>) {
        let why = why.into();
        if !self.doubts.contains(&why) {
            self.doubts.push(why);
        }
    }

    fn add_change(&mut self, change: PatchChange) {
        if !self.changes.contains(&change) {
            self.changes.push(change);
        }
    }
}

/// Parses `*** Begin Patch`, headers, and lines that begin with a space, `+`, `-` or `@@`.
fn parse_enveloped(text: &str, patch: &mut Patch) {
    for line in text.lines() {
        let bare = line.trim();
        let Some((header, change)) = HEADERS.iter().find(|(header, _)| bare.starts_with(header)) else {
            let known = matches!(bare, ENVELOPE | "*** End Patch" | "*** End of File");
            if !known && (line.starts_with("***") || resembles_header(line)) {
                patch.add_doubt(format!("`{bare}` is not a known header"));
            }
            continue;
        };
        if !line.starts_with("***") {
            patch.add_doubt("a header is indented; some programs read it as a header, some as content");
        }
        let name = bare.get(header.len()..).unwrap_or_default().trim();
        if line.trim_end_matches('\r') != line.trim_end() {
            patch.add_doubt(format!("the name `{name}` is followed by spaces"));
        }
        if *header == "*** Move to:"
            && let Some(PatchChange::Update(from)) = patch.changes.last().cloned()
        {
            patch.add_change(PatchChange::Delete(from));
        }
        patch.add_change(change(name.to_owned()));
    }
}

/// Checks whether a parser that is less strict about whitespace and case could take a line for an enveloped header.
fn resembles_header(line: &str) -> bool {
    let Some(rest) = line.trim().strip_prefix("***") else { return false };
    let words: Vec<String> = rest.split_whitespace().map(str::to_ascii_lowercase).collect();
    let line = words.join(" ");
    ["begin patch", "add file", "update file", "delete file", "move to", "move file", "rename"]
        .iter()
        .any(|header| line.starts_with(header))
}

/// Checks whether a text contains a diff, possibly among other content.
fn is_diff(text: &str) -> bool {
    let mut after_old = false;
    text.lines().any(|line| {
        let new = after_old && line.starts_with("+++ ");
        after_old = line.starts_with("--- ");
        new || line.starts_with("diff --git ")
    })
}

/// Parses the output of `diff -u` and `git diff`.
fn parse_diff(text: &str, patch: &mut Patch) -> Result<(), PatchError> {
    let mut lines = text.lines().peekable();
    let mut same = None;
    while let Some(line) = lines.next() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "---" => {
                let new = lines.peek().and_then(|next| next.strip_prefix("+++ "));
                let Some(new) = new else {
                    patch.add_doubt("a file has an old name and no new one");
                    continue;
                };
                let (old, new) = (parse_file_name(rest)?, parse_file_name(new)?);
                lines.next();
                parse_names(old, new, patch);
            }
            "+++" => patch.add_doubt("a file has a new name and no old one"),
            "@@" => parse_hunk(rest, &mut lines, patch),
            "rename" | "copy" => match rest.split_once(' ') {
                Some(("from", from)) if word == "rename" => {
                    patch.add_change(PatchChange::Delete(unquote_name(from)?))
                }
                Some(("from", from)) => patch.add_change(PatchChange::Update(unquote_name(from)?)),
                Some(("to", to)) => patch.add_change(PatchChange::Add(unquote_name(to)?)),
                _ => {}
            },
            "diff" if rest.starts_with("--git ") => same = parse_git_header(rest, patch)?,
            "new" | "old" | "deleted" => {
                // The deletion of an empty file has no content lines.
                if let Some(name) = same.clone().filter(|_| line.starts_with("deleted file mode ")) {
                    patch.add_change(PatchChange::Delete(name));
                }
                parse_modes(line, patch);
            }
            "GIT" => patch.add_doubt("the patch has binary content"),
            _ => {}
        }
    }
    Ok(())
}

/// Adds the changes for the names in `--- old` and `+++ new`.
fn parse_names(old: Option<String>, new: Option<String>, patch: &mut Patch) {
    match (old, new) {
        (None, None) => patch.add_doubt("a file has neither an old nor a new name"),
        (Some(old), None) => {
            patch.add_change(PatchChange::Compare(old.clone()));
            patch.add_change(PatchChange::Delete(old));
        }
        (None, Some(new)) => patch.add_change(PatchChange::Add(new)),
        (Some(old), Some(new)) if old == new => patch.add_change(PatchChange::Update(new)),
        (Some(old), Some(new)) => {
            patch.add_doubt("the old and the new name of a file differ");
            patch.add_change(PatchChange::Update(old));
            patch.add_change(PatchChange::Update(new));
        }
    }
}

/// Parses `diff --git a/x b/x`, which has the only names if just a mode changes. Returns the name if both are the same.
fn parse_git_header(rest: &str, patch: &mut Patch) -> Result<Option<String>, PatchError> {
    let names = rest.strip_prefix("--git ").unwrap_or(rest);
    if let Some(same) = parse_git_header_name(names) {
        patch.add_change(PatchChange::Update(same.clone()));
        return Ok(Some(same));
    }
    let both = |(old, new): (&str, &str)| {
        let are_named =
            old.trim_start_matches('"').starts_with("a/") && new.trim_start_matches('"').starts_with("b/");
        are_named.then(|| Some([parse_file_name(old).ok()??, parse_file_name(new).ok()??])).flatten()
    };
    let certain: Vec<[String; 2]> = name_splits(names).filter_map(both).collect();
    match certain.as_slice() {
        [both] => both.iter().for_each(|name| patch.add_change(PatchChange::Update(name.clone()))),
        _ => {
            for part in names.split(" b/").map(str::trim) {
                patch.changes.extend(parse_file_name(part)?.map(PatchChange::Update));
            }
        }
    }
    Ok(None)
}

/// Returns all ways to split two names, because unquoted names may contain spaces.
fn name_splits(names: &str) -> impl Iterator<Item = (&str, &str)> {
    let blanks = names.char_indices().filter(|(_, c)| *c == ' ').map(|(at, _)| names.split_at(at));
    blanks.map(|(old, new)| (old, new.trim_start()))
}

/// Adds doubts for file modes. The content does not show links, other special files, or executable permission.
fn parse_modes(line: &str, patch: &mut Patch) {
    let Some((_, mode)) = line.rsplit_once("mode ") else { return };
    match (line.split(' ').next(), mode.trim()) {
        (Some("old"), _) | (_, "100644" | "644") => {}
        (Some("deleted"), "100755") => {}
        (_, "100755" | "755") => patch.add_doubt("the patch makes a file executable"),
        (_, "120000") => patch.add_doubt("the patch creates a symbolic link, whose target is its content"),
        (_, mode) => patch.add_doubt(format!("the patch sets the unusual file mode `{mode}`")),
    }
}

/// Skips the content of a hunk by its own counts: `@@ -1,2 +3,4 @@`.
fn parse_hunk(counts: &str, lines: &mut Peekable<Lines<'_>>, patch: &mut Patch) {
    let mut parts = counts.split(' ');
    let count = |part: Option<&str>, sign: char| -> Option<usize> {
        let part = part?.strip_prefix(sign)?;
        part.split_once(',').map_or(Some(1), |(_, count)| count.parse().ok())
    };
    let (Some(mut old), Some(mut new)) = (count(parts.next(), '-'), count(parts.next(), '+')) else {
        return patch.add_doubt("a hunk does not say how many lines it has");
    };
    while old > 0 || new > 0 {
        let Some(line) = lines.next() else {
            return patch.add_doubt("a hunk has fewer lines than it says");
        };
        match line.chars().next() {
            Some('-') => old = old.saturating_sub(1),
            Some('+') => new = new.saturating_sub(1),
            Some(' ' | '\t') | None => {
                old = old.saturating_sub(1);
                new = new.saturating_sub(1);
            }
            Some('\\') => {}
            Some(_) => return patch.add_doubt("a hunk has lines that are neither old nor new"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> (Vec<String>, usize) {
        let patch = parse(text).unwrap();
        let changes = patch.changes.iter().map(|change| match change {
            PatchChange::Add(path) => format!("add {path}"),
            PatchChange::Update(path) => format!("update {path}"),
            PatchChange::Delete(path) => format!("delete {path}"),
            PatchChange::Compare(path) => format!("compare {path}"),
        });
        (changes.collect(), patch.doubts.len())
    }

    #[test]
    fn both_forms_say_which_files_they_change() {
        for (text, wanted, doubts) in [
            ("*** Begin Patch\n*** Add File: a b\n+x\n*** End Patch", &["add a b"][..], 0),
            (
                "*** Begin Patch\n*** Update File: a\n*** Move to: ../b\n@@\n-a\n+b\n*** Delete File: c\n*** End Patch",
                &["update a", "delete a", "add ../b", "delete c"],
                0,
            ),
            // A header that is not at the start of its line could be content.
            (
                "*** Begin Patch\n*** Update File: a\n@@\n *** Add File: b\n*** End Patch",
                &["update a", "add b"],
                1,
            ),
            ("*** Begin Patch\n*** Add File: .git/config \n+x\n*** End Patch", &["add .git/config"], 1),
            ("*** Begin Patch\r\n*** Add File: a\r\n+x\r\n*** End Patch\r\n", &["add a"], 1),
            // Lines that another parser may take for a header, and both formats in one.
            (
                "*** Begin Patch\n*** Update File: a\n*** Move To: b\n@@\n-a\n+b\n*** End Patch",
                &["update a"],
                1,
            ),
            ("*** Begin Patch\n*** Add File: a\n+x\n***  Add File: b\n+x\n*** End Patch", &["add a"], 1),
            (
                "*** Begin Patch\n*** Update File: a\n@@\n ** b\n+*** c\n*** End of File\n*** End Patch",
                &["update a"],
                0,
            ),
            (
                "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\n--- a/.git/x\n+++ b/.git/x\n@@ -1 +1 @@\n-a\n+b\n",
                &["add a", "update .git/x"],
                1,
            ),
            (
                "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n***  Begin Patch\n*** Add File: b\n+x\n",
                &["update x"],
                1,
            ),
            ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", &["update x"], 0),
            ("--- x\t2026-01-01\n+++ x\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n", &["update x"], 0),
            ("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n", &["add x"], 0),
            ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", &["compare x", "delete x"], 0),
            // Content that looks like headers.
            ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/y\n-- a\n+++ b/../../z\n++ b\n", &["update x"], 0),
            // A count that is too small reveals them.
            ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n", &["update x", "update y"], 0),
            (
                "diff --git \"a/\\056\\056/f\" \"b/\\056\\056/f\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/\\056\\056/f\"\n",
                &["update ../f", "add ../f"],
                0,
            ),
            ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", &["update x"], 1),
            ("diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n", &["update l", "add l"], 1),
            (
                "diff --git a/x b/h/y\nrename from x\nrename to h/y\n",
                &["update x", "update h/y", "delete x", "add h/y"],
                0,
            ),
            (
                "diff --git a/e b/e\ndeleted file mode 100644\nindex e69de29..0000000\n",
                &["update e", "delete e"],
                0,
            ),
            (
                "diff --git \"a/\\303\\244\" \"b/c d\"\nrename from \"\\303\\244\"\nrename to c d\n",
                &["update ä", "update c d", "delete ä", "add c d"],
                0,
            ),
            ("--- a/x\n+++ b/../o/f\n@@ -0,0 +1 @@\n+x\n", &["update x", "update ../o/f"], 1),
            ("--- a/x\n+++ b/x\n@@ -1,9 +1 @@\n-a\n", &["update x"], 1),
        ] {
            let (changes, count) = told(text);
            assert_eq!(changes, wanted, "{text}");
            assert_eq!(count, doubts, "{text}");
        }
        assert_eq!(parse("hello"), Err(PatchError::NoFileNamed));
        assert!(matches!(parse("--- \"a/\\x\"\n+++ b/x\n"), Err(PatchError::InvalidName(_))));
    }
}
