//! Parses unified diffs, as `diff -u` and `git diff` write them.

use std::iter::Peekable;

use byleave_gate::patch::{parse_file_name, parse_git_header_name, unquote_name};

use super::{FileOperation, FilePatch, Hunk, HunkLine, HunkLineKind, HunkPosition, numbered, quoted};

/// Parses a patch in this form.
pub(super) fn parse_diff(text: &str) -> Result<Vec<FilePatch>, String> {
    let mut lines = numbered(text).peekable();
    let mut sections = Vec::new();
    let mut is_after_hunk = false;
    while let Some((number, line)) = lines.next() {
        let at = |why: &str| format!("line {number} of the patch, {}, {why}", quoted(line));
        if let Some(names) = line.strip_prefix("diff --git ") {
            let head = DiffHeader::of_git(names, &mut lines).map_err(|why| at(&why))?;
            sections.push(section(&head, &mut lines).map_err(|why| at(&why))?);
            is_after_hunk = true;
        } else if line.starts_with("--- ") {
            let mut head = DiffHeader::default();
            head.both(line, &mut lines).map_err(|why| at(&why))?;
            sections.push(section(&head, &mut lines).map_err(|why| at(&why))?);
            is_after_hunk = true;
        } else if line.starts_with("@@") {
            return Err(at("belongs to no file; give `--- a/NAME` and `+++ b/NAME` before it"));
        } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
            return Err(at("is a binary patch; change that file with bash"));
        } else if line == "-- " || line == "---" {
            // Part of the text that `git format-patch` adds. It is not a hunk line, because the counts of the hunk would have included it.
            is_after_hunk = false;
        } else if is_after_hunk && line.starts_with(['+', '-', ' ', '\t', '\\']) {
            return Err(at(
                "is more than the counts in the `@@` line before it state; correct the counts, or use the `*** Begin Patch` form, which needs none",
            ));
        } else {
            is_after_hunk &= line.is_empty();
        }
    }
    Ok(sections)
}

/// An old and a new name, each optional.
type OldNewNames = (Option<String>, Option<String>);

/// The header above the hunks of a file.
#[derive(Default)]
struct DiffHeader {
    /// The name that `diff --git` gives twice.
    same: Option<String>,
    /// The names in `---` and `+++`; an inner `None` means `/dev/null`.
    both: Option<OldNewNames>,
    is_new: bool,
    is_deleted: bool,
    renamed: OldNewNames,
    copied: OldNewNames,
    runs: Option<bool>,
}

impl DiffHeader {
    /// Parses the lines after `diff --git`, up to the first hunk.
    fn of_git<'a>(
        names: &str,
        lines: &mut Peekable<impl Iterator<Item = (usize, &'a str)>>,
    ) -> Result<Self, String> {
        let mut head = Self { same: parse_git_header_name(names), ..Self::default() };
        while let Some((_, line)) = lines.peek().copied() {
            let rest = |start: &str| line.strip_prefix(start);
            let named = |text: &str| unquote_name(plain(text)?).map(Some).map_err(|why| why.to_string());
            if let Some(mode) = rest("new file mode ") {
                (head.is_new, head.runs) = (true, Some(runs(mode)?));
            } else if let Some(mode) = rest("new mode ") {
                head.runs = Some(runs(mode)?);
            } else if let Some(mode) = rest("deleted file mode ") {
                runs(mode)?;
                head.is_deleted = true;
            } else if let Some(mode) = rest("old mode ") {
                runs(mode)?;
            } else if let Some(from) = rest("rename from ") {
                head.renamed.0 = named(from)?;
            } else if let Some(to) = rest("rename to ") {
                head.renamed.1 = named(to)?;
            } else if let Some(from) = rest("copy from ") {
                head.copied.0 = named(from)?;
            } else if let Some(to) = rest("copy to ") {
                head.copied.1 = named(to)?;
            } else if line.starts_with("--- ") {
                lines.next();
                head.both(line, lines)?;
                break;
            } else if !["index ", "similarity index ", "dissimilarity index "]
                .iter()
                .any(|word| line.starts_with(word))
            {
                break;
            }
            lines.next();
        }
        Ok(head)
    }

    /// Parses `---` and `+++`.
    fn both<'a>(
        &mut self,
        old: &str,
        lines: &mut Peekable<impl Iterator<Item = (usize, &'a str)>>,
    ) -> Result<(), String> {
        let new = lines.next().and_then(|(_, line)| line.strip_prefix("+++ "));
        let new = new.ok_or("has no `+++` line after it")?;
        let old = old.strip_prefix("--- ").unwrap_or(old);
        let read = |text: &str| parse_file_name(plain(text)?).map_err(|why| why.to_string());
        self.both = Some((read(old)?, read(new)?));
        Ok(())
    }

    /// Returns the file and its operation. All given names must agree.
    fn told(&self) -> Result<(String, FileOperation), String> {
        let two =
            "names its file in different ways; give one name, and `rename from` and `rename to` for a move";
        let agreed = |of: fn(&OldNewNames) -> &Option<String>, same: Option<&String>| {
            let given = self.both.as_ref().and_then(|both| of(both).as_ref());
            match (given, same) {
                (Some(given), Some(same)) if given != same => Err(two.to_owned()),
                (Some(name), _) | (None, Some(name)) => Ok(name.clone()),
                (None, None) => Err("does not name its file unambiguously; use `---` and `+++` lines".into()),
            }
        };
        let (old, new) = (self.both.as_ref().map(|both| &both.0), self.both.as_ref().map(|both| &both.1));
        let is_moved = self.renamed.0.is_some() || self.renamed.1.is_some();
        let is_copied = self.copied.0.is_some() || self.copied.1.is_some();
        match (is_moved, is_copied, self.is_new, self.is_deleted) {
            (true, false, false, false) | (false, true, false, false) => {
                let (from, to) = if is_moved { &self.renamed } else { &self.copied };
                let (Some(from), Some(to)) = (from, to) else {
                    return Err("names the source or the target of a file, and not both".into());
                };
                let same_from = agreed(|both| &both.0, Some(from))?;
                let to = agreed(|both| &both.1, Some(to))?;
                if same_from == to || old == Some(&None) || new == Some(&None) {
                    return Err(two.into());
                }
                Ok((same_from, if is_moved { FileOperation::Move(to) } else { FileOperation::Copy(to) }))
            }
            (false, false, true, false) if old.is_none_or(Option::is_none) => {
                Ok((agreed(|both| &both.1, self.same.as_ref())?, FileOperation::Add))
            }
            (false, false, false, true) if new.is_none_or(Option::is_none) => {
                Ok((agreed(|both| &both.0, self.same.as_ref())?, FileOperation::Delete))
            }
            (false, false, false, false) => match &self.both {
                Some((None, Some(_))) => {
                    Ok((agreed(|both| &both.1, self.same.as_ref())?, FileOperation::Add))
                }
                Some((Some(_), None)) => {
                    Ok((agreed(|both| &both.0, self.same.as_ref())?, FileOperation::Delete))
                }
                Some((Some(old), Some(new))) if old == new => {
                    Ok((agreed(|both| &both.1, self.same.as_ref())?, FileOperation::Update))
                }
                None => Ok((agreed(|both| &both.1, self.same.as_ref())?, FileOperation::Update)),
                Some(_) => Err(two.into()),
            },
            _ => Err("contradicts itself about one file: created, deleted, moved or copied".into()),
        }
    }
}

/// Returns a header, or an error if it has a carriage return, which some programs treat as part of a name.
fn plain(text: &str) -> Result<&str, String> {
    if text.contains('\r') {
        return Err("has a carriage return in a name; end the header lines of the patch in LF only".into());
    }
    Ok(text)
}

/// Checks whether a Git mode is executable. Only regular files are allowed.
fn runs(mode: &str) -> Result<bool, String> {
    match mode {
        "100644" => Ok(false),
        "100755" => Ok(true),
        "120000" => {
            Err("changes a link, and only files can be patched; create the link with `ln -s` in bash".into())
        }
        "160000" => Err("changes a submodule, and only files can be patched; use git in bash".into()),
        other => {
            Err(format!("gives a file the mode {}, and only 100644 and 100755 are supported", quoted(other)))
        }
    }
}

/// Parses the hunks of a file after its header.
fn section<'a>(
    head: &DiffHeader,
    lines: &mut Peekable<impl Iterator<Item = (usize, &'a str)>>,
) -> Result<FilePatch, String> {
    let (name, what) = head.told()?;
    let mut hunks = Vec::new();
    while let Some((number, counts)) = lines.next_if(|(_, line)| line.starts_with("@@ ")) {
        if head.both.is_none() {
            return Err("has no `---` and `+++` lines, and hunks; give both".into());
        }
        hunks.push(hunk(counts, lines).map_err(|why| format!("has a hunk at line {number} that {why}"))?);
    }
    if let Some((_, line)) = lines.peek()
        && (line.starts_with("GIT binary patch") || line.starts_with("Binary files "))
    {
        return Err("is a binary patch; change that file with bash".into());
    }
    let is_empty = hunks.is_empty();
    if is_empty && what == FileOperation::Update && head.runs.is_none() {
        return Err("changes nothing of its file; leave it out, or give its hunks".into());
    }
    Ok(FilePatch { name, operation: what, executable: head.runs, hunks })
}

fn hunk<'a>(
    counts: &str,
    lines: &mut Peekable<impl Iterator<Item = (usize, &'a str)>>,
) -> Result<Hunk, String> {
    let (start, mut old, mut new) = counted(counts)
        .ok_or("does not state its position and its number of lines, as in `@@ -1,3 +1,4 @@`")?;
    let place = HunkPosition::Line(start);
    let mut hunk = Hunk { position: place, lines: Vec::new() };
    while old > 0 || new > 0 {
        let Some((_, line)) = lines.next() else {
            return Err(format!(
                "ends with {old} old and {new} new lines missing; correct the counts, or use the `*** Begin Patch` form, which needs none"
            ));
        };
        let mut letters = line.chars();
        let (fate, is_old, is_new) = match letters.next() {
            Some('-') => (HunkLineKind::Removed, 1, 0),
            Some('+') => (HunkLineKind::Added, 0, 1),
            Some(' ') | None => (HunkLineKind::Context, 1, 1),
            Some('\\') => {
                without_end(&mut hunk)?;
                continue;
            }
            Some(_) => {
                let line = quoted(line);
                return Err(format!(
                    "has the line {line}, which begins neither with a space nor with `+` or `-`"
                ));
            }
        };
        (old, new) = old.checked_sub(is_old).zip(new.checked_sub(is_new)).ok_or(
            "has more lines than its header states; correct the counts, or use the `*** Begin Patch` form, which needs none",
        )?;
        hunk.lines.push(HunkLine { kind: fate, text: format!("{}\n", letters.as_str()) });
    }
    if lines.next_if(|(_, line)| line.starts_with('\\')).is_some() {
        without_end(&mut hunk)?;
    }
    Ok(hunk)
}

/// Handles `\ No newline at end of file`: removes the line end of the line before.
fn without_end(hunk: &mut Hunk) -> Result<(), String> {
    let last = hunk.lines.last_mut().filter(|line| line.text.ends_with('\n'));
    let last = last.ok_or("has `\\ No newline at end of file` after no line")?;
    last.text.pop();
    Ok(())
}

/// Parses the position and the old and new line counts of a hunk: `@@ -1,2 +3,4 @@`.
fn counted(line: &str) -> Option<(usize, usize, usize)> {
    let mut words = line.split(' ');
    (words.next() == Some("@@")).then_some(())?;
    let range = |word: &str, sign: char| -> Option<(usize, usize)> {
        let (start, count) = word.strip_prefix(sign)?.split_once(',').unwrap_or((word.get(1..)?, "1"));
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    let (start, old) = range(words.next()?, '-')?;
    let (_, new) = range(words.next()?, '+')?;
    (words.next()?.trim_end_matches('\r') == "@@").then_some((start, old, new))
}
