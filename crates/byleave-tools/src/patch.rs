//! Parses patches for application: unified diffs as `diff -u` and `git diff` write them, and the `*** Begin Patch` form. Pure.
//!
//! This parser is strict, whereas `byleave_gate::patch` is lenient. That one returns all files that a patch could mean to any reader, and the
//! gate evaluates by it. This one must never accept input with two readings. Both use the same functions for names. The caller must compare
//! the names found here with the evaluated ones.
//!
//! The `diffy` crate also parses and applies diffs. It skips unknown lines, does not report where it moved a hunk, has no fuzz, and does
//! not know the second form. That is too much silence for a tool that must report.

pub(crate) mod apply;
mod begin_patch;
mod diff;
#[cfg(test)]
mod differential_tests;

/// The changes of a patch to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePatch {
    /// The file. For a move or copy, it is the source.
    pub(crate) name: String,
    /// The operation.
    pub(crate) operation: FileOperation,
    /// Whether the file is executable afterwards, if the patch says so.
    pub(crate) executable: Option<bool>,
    /// The changes in the file.
    pub(crate) hunks: Vec<Hunk>,
}

/// An operation on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileOperation {
    /// Creates the file.
    Add,
    /// Changes the file.
    Update,
    /// Deletes the file.
    Delete,
    /// Moves the file to this name.
    Move(String),
    /// Copies the file to this name.
    Copy(String),
}

/// A group of adjacent lines and their changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// The position.
    pub(crate) position: HunkPosition,
    /// The lines, in order.
    pub(crate) lines: Vec<HunkLine>,
}

/// The position where a hunk is searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HunkPosition {
    /// At or near a line, from 1; 0 if the old content is empty.
    Line(usize),
    /// After these lines, one after the other, and optionally at the end of the file.
    After {
        /// The lines.
        headings: Vec<String>,
        /// Whether the hunk must reach the end of the file.
        at_end_of_file: bool,
    },
}

/// One line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HunkLine {
    /// The kind of the line.
    pub(crate) kind: HunkLineKind,
    /// The line, including its line end if it has one.
    pub(crate) text: String,
}

/// The kind of a hunk line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HunkLineKind {
    /// An unchanged line.
    Context,
    /// A removed line.
    Removed,
    /// An added line.
    Added,
}

impl FilePatch {
    /// Returns the names of all files of the patch.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let other = match &self.operation {
            FileOperation::Move(to) | FileOperation::Copy(to) => Some(to.as_str()),
            FileOperation::Add | FileOperation::Update | FileOperation::Delete => None,
        };
        std::iter::once(self.name.as_str()).chain(other)
    }
}

/// Parses a patch. An error includes what to do.
pub(crate) fn parse_patch(text: &str) -> Result<Vec<FilePatch>, String> {
    let sections = if text.lines().any(|line| line.trim() == begin_patch::BEGIN_MARKER) {
        begin_patch::parse_begin_patch(text)?
    } else {
        diff::parse_diff(text)?
    };
    match sections.is_empty() {
        true => Err(
            "the patch changes no file; give a diff as `git diff` writes it, or the `*** Begin Patch` form"
                .into(),
        ),
        false => Ok(sections),
    }
}

/// Returns the lines of a patch with their numbers, from 1, without line feeds.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.split_terminator('\n'))
}

/// Formats a line of the patch for a message.
fn quoted(line: &str) -> String {
    let mut short: String = line.chars().take(80).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    format!("`{}`", short.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str, content: &str) -> Result<(String, Vec<apply::HunkPlacement>), String> {
        let sections = parse_patch(text)?;
        let [section] = sections.as_slice() else { panic!("{sections:?}") };
        let (content, fits) = apply::apply(content.as_bytes(), &section.hunks)?;
        Ok((String::from_utf8(content).unwrap(), fits))
    }

    // req: B4
    #[test]
    fn hunks_are_put_where_they_fit_and_that_is_told() {
        let ten = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";
        let head = "--- a/x\n+++ b/x\n";
        let check = |hunk: &str, content: &str, wanted: &str, (line, offset, fuzz): (usize, isize, usize)| {
            let text = if hunk.starts_with("***") { hunk.to_owned() } else { format!("{head}{hunk}") };
            let (content, fits) = applied(&text, content).unwrap_or_else(|why| panic!("{hunk}: {why}"));
            assert_eq!(content, wanted, "{hunk}");
            let fit = fits.last().unwrap();
            assert_eq!((fit.line, fit.offset, fit.fuzz), (line, offset, fuzz), "{hunk}");
        };
        check("@@ -4,3 +4,3 @@\n 4\n-5\n+five\n 6\n", ten, &ten.replace('5', "five"), (4, 0, 0));
        check("@@ -2,3 +2,3 @@ fn x\n 4\n-5\n+five\n 6\n", ten, &ten.replace('5', "five"), (4, 2, 0));
        check("@@ -9,3 +9,3 @@\n 4\n-5\n+five\n 6\n", ten, &ten.replace('5', "five"), (4, -5, 0));
        check("@@ -3,5 +3,5 @@\n x\n 4\n-5\n+five\n 6\n y\n", ten, &ten.replace('5', "five"), (3, 0, 1));
        check(
            "@@ -2,7 +2,7 @@\n x\n x\n 4\n-5\n+five\n 6\n y\n y\n",
            ten,
            &ten.replace('5', "five"),
            (2, 0, 2),
        );
        check("@@ -5 +5 @@\n-5\n+five\n", ten, &ten.replace('5', "five"), (5, 0, 0));
        check("@@ -10,0 +11 @@\n+11\n", ten, &format!("{ten}11\n"), (11, 0, 0));
        check("@@ -0,0 +1 @@\n+a\n", "", "a\n", (1, 0, 0));
        check("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n", "a", "b\n", (1, 0, 0));
        check("@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n", "a\n", "b", (1, 0, 0));
        check("@@ -1,2 +1,2 @@\n-a\n+b\n\n", "a\n\n", "b\n\n", (1, 0, 0));
        check("@@ -1,2 +1,2 @@\n-a\r\n+b\r\n c\r\n", "a\r\nc\r\n", "b\r\nc\r\n", (1, 0, 0));
        let form = |lines: &str| format!("*** Begin Patch\n*** Update File: x\n{lines}*** End Patch");
        check(&form("@@\n 4\n-5\n+five\n"), ten, &ten.replace('5', "five"), (4, 0, 0));
        check(&form("-5\n+five\n"), ten, &ten.replace('5', "five"), (5, 0, 0));
        check(&form("@@\n-a\n+b\n"), "x\na", "x\nb", (2, 0, 0));
        check(&form("@@\n+b\n"), "a", "a\nb", (2, 0, 0));
        let twice = "fn a\n  x\nfn b\n  x\nfn c\n  x\n";
        check(&form("@@ fn b\n-  x\n+  y\n"), twice, "fn a\n  x\nfn b\n  y\nfn c\n  x\n", (4, 0, 0));
        check(&form("@@ fn b\n+  new\n"), twice, "fn a\n  x\nfn b\n  new\n  x\nfn c\n  x\n", (4, 0, 0));
        check(
            &form("@@\n-  x\n+  y\n*** End of File\n"),
            twice,
            "fn a\n  x\nfn b\n  x\nfn c\n  y\n",
            (6, 0, 0),
        );
    }

    // req: B4
    #[test]
    fn what_does_not_fit_is_told_with_what_to_do() {
        let ten = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";
        let head = "--- a/x\n+++ b/x\n";
        let form = |lines: &str| format!("*** Begin Patch\n*** Update File: x\n{lines}*** End Patch");
        for (text, content, wanted) in [
            (format!("{head}@@ -4,3 +4,3 @@\n 4\n-five\n+5\n 6\n"), ten, "hunk 1 of 1 does not fit"),
            (format!("{head}@@ -1 +1 @@\n-a\n+b\n"), "a", "no newline; put `\\ No newline at end of file`"),
            (format!("{head}@@ -1 +1 @@\n-a\n+b\n"), "a\r\n", "end in CRLF"),
            (format!("{head}@@ -1 +1 @@\n-    a\n+b\n"), "\ta\n", "ignoring whitespace"),
            (format!("{head}@@ -1,2 +1,2 @@\n-a\n+b\n"), "a\n", "missing; correct the counts"),
            (format!("{head}@@ -1 +1 @@\n-a\n+b\n+c\n"), "a\n", "more than the counts"),
            (format!("{head}@@ -1 +1,0 @@\n-a\n-b\n"), "a\n", "more than the counts"),
            (format!("{head}@@ -1,2 +1,1 @@\n-a\n+b\n+c\n d\n"), "a\n", "more lines than its header states"),
            (format!("{head}@@ some @@\n-a\n"), "a\n", "does not state its position"),
            (format!("{head}@@ -1 +1 @@\n*a\n"), "a\n", "begins neither with a space"),
            (format!("{head}@@ -1 +1 @@\n a\n"), "a\n", "changes nothing"),
            (format!("{head}@@ -30,0 +31 @@\n+a\n"), "a\n", "after line 30, and the file has 1"),
            (format!("{head}@@ -9 +9 @@\n-a\n+b\n"), "a\nc\na\n", "loosely at lines 1, 3"),
            ("--- a/x\n".to_owned(), "", "no `+++` line"),
            ("@@ -1 +1 @@\n-a\n+b\n".to_owned(), "", "belongs to no file"),
            ("--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n".to_owned(), "", "different ways; give one name"),
            ("diff --git a/x b/x\nnew file mode 120000\n".to_owned(), "", "`ln -s` in bash"),
            ("diff --git a/x b/x\nnew mode 160000\n".to_owned(), "", "use git in bash"),
            (
                "diff --git a/x b/x\nindex 1..2\nGIT binary patch\n".to_owned(),
                "",
                "change that file with bash",
            ),
            ("diff --git a/x b/x\nindex 1..2\nBinary files a/x and b/x differ\n".to_owned(), "", "with bash"),
            ("diff --git a/x b/x\nindex 1..2\n".to_owned(), "", "changes nothing of its file"),
            ("diff --git a/x b/y\nrename from x\n".to_owned(), "", "and not both"),
            ("--- a/x\r\n+++ b/x\r\n".to_owned(), "", "in LF only"),
            ("hello".to_owned(), "", "changes no file; give a diff"),
            (form("@@\n 1\n-x\n"), ten, "does not fit"),
            (form("@@\n-a\n"), "a\nb\na\n", "fits in 2 places, at lines 1, 3; give more"),
            (form("@@ fn z\n-5\n"), ten, "there is no such line below line 0"),
            (form("@@\n-8\n@@\n-2\n"), ten, "order of the file"),
            (form("@@\n-8\n*** End of File\n"), ten, "not at the end"),
            (form(""), "", "nothing of `x` is changed"),
            (form("@@\n"), "", "has no lines after it"),
            (form("x\n"), "", "begins neither"),
            ("*** Begin Patch\n*** Add File: x\nx\n*** End Patch".into(), "", "does not begin with `+`"),
            ("*** Begin Patch\n*** Add File: x \n+x\n*** End Patch".into(), "", "whitespace at its ends"),
            ("*** Begin Patch\r\n*** Add File: x\r\n+x\r\n*** End Patch".into(), "", "carriage return"),
            ("*** Begin Patch\n*** Add File: x\n+x\n".into(), "", "has no `*** End Patch`"),
            ("*** Begin Patch\n*** Rename File: x\n*** End Patch".into(), "", "not a known header"),
            ("*** Begin Patch\n*** Move to: x\n*** End Patch".into(), "", "does not follow"),
            ("*** Begin Patch\n+x\n*** End Patch".into(), "", "belongs to no file"),
            ("*** Begin Patch\n*** Delete File: x\n-x\n*** End Patch".into(), "", "needs no lines"),
            ("x\n*** Begin Patch\n*** End Patch".into(), "", "the first line is not"),
            ("*** Begin Patch\n*** End Patch\nx".into(), "", "after the end"),
        ] {
            let why = applied(&text, content).expect_err(&text);
            assert!(why.contains(wanted), "{text}: no {wanted:?} in {why}");
        }
    }

    // req: B4
    #[test]
    fn every_kind_of_file_header_is_read() {
        let check = |text: &str, wanted: &[(&str, FileOperation, Option<bool>)]| {
            let found: Vec<_> = parse_patch(text)
                .unwrap()
                .into_iter()
                .map(|one| (one.name, one.operation, one.executable))
                .collect();
            let wanted: Vec<_> =
                wanted.iter().map(|(name, what, runs)| ((*name).to_owned(), what.clone(), *runs)).collect();
            assert_eq!(found, wanted, "{text}");
        };
        let to = |name: &str| FileOperation::Move(name.to_owned());
        check(
            "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
            &[("x", FileOperation::Update, Some(true))],
        );
        check(
            "diff --git a/x b/x\nnew file mode 100755\nindex 0..1\n",
            &[("x", FileOperation::Add, Some(true))],
        );
        check(
            "diff --git a/x b/x\ndeleted file mode 100644\nindex 1..0\n",
            &[("x", FileOperation::Delete, None)],
        );
        check(
            "diff --git a/x b/y z\nsimilarity index 90%\nrename from x\nrename to y z\n--- a/x\n+++ b/y z\n@@ -1 +1 @@\n-a\n+b\n",
            &[("x", to("y z"), None)],
        );
        check(
            "diff --git a/x b/y\ncopy from x\ncopy to y\n",
            &[("x", FileOperation::Copy("y".into()), None)],
        );
        check(
            "diff --git \"a/\\303\\244\" \"b/\\303\\244\"\n--- \"a/\\303\\244\"\n+++ \"b/\\303\\244\"\n@@ -1 +1 @@\n-a\n+b\n",
            &[("ä", FileOperation::Update, None)],
        );
        check(
            "From 1 Mon\nSubject: x\n---\n a | 2 +-\n 1 file changed\n\ndiff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n-- \n2.47.3\n\n",
            &[("a", FileOperation::Update, None)],
        );
        check(
            "--- a/x\t2026\n+++ /dev/null\t1970\n@@ -1 +0,0 @@\n-a\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+a\n",
            &[("x", FileOperation::Delete, None), ("y", FileOperation::Add, None)],
        );
        check(
            "*** Begin Patch\n*** Add File: a b\n+x\n*** Update File: c\n*** Move to: d\n@@\n-a\n+b\n*** Delete File: e\n*** End Patch\n",
            &[("a b", FileOperation::Add, None), ("c", to("d"), None), ("e", FileOperation::Delete, None)],
        );
    }
}
