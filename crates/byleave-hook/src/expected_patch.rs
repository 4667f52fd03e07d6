//! The files that Codex's `apply_patch` should leave, computed from the patch and the current contents.
//!
//! Codex ignores differences in whitespace and punctuation if a hunk does not match exactly, and its versions differ in that. So only exact
//! matches are computed here. Every other patch is judged without its result.

/// The change of a patch to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchedFile {
    /// The name, as the patch says it.
    pub name: String,
    change: PatchedFileChange,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PatchedFileChange {
    Add(String),
    Delete,
    Update(Vec<PatchChunk>),
}

/// Lines that replace others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PatchChunk {
    /// A line after which the old lines are.
    heading: Option<String>,
    old: Vec<String>,
    new: Vec<String>,
    is_at_end: bool,
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";

/// Parses a patch. An error says why its result cannot be computed.
pub fn parse_patch(text: &str) -> Result<Vec<PatchedFile>, &'static str> {
    if text.contains('\r') {
        return Err("lines of the patch end in a carriage return");
    }
    let body = text.trim().strip_prefix(BEGIN).and_then(|body| body.strip_suffix(END));
    let body = body.ok_or("the patch does not begin and end as usual")?;
    let body = body.strip_prefix('\n').and_then(|body| body.strip_suffix('\n'));
    let body = body.ok_or("the patch changes nothing")?;
    let mut files: Vec<PatchedFile> = Vec::new();
    for line in body.split('\n') {
        let header = [("*** Add File: ", 0), ("*** Delete File: ", 1), ("*** Update File: ", 2)];
        let header = header.into_iter().find_map(|(begin, kind)| Some((line.strip_prefix(begin)?, kind)));
        if let Some((name, kind)) = header {
            if name.is_empty() || name.trim() != name || files.iter().any(|file| file.name == name) {
                return Err("a file name in the patch is empty, repeated, or has spaces at its ends");
            }
            let change = match kind {
                0 => PatchedFileChange::Add(String::new()),
                1 => PatchedFileChange::Delete,
                _ => PatchedFileChange::Update(Vec::new()),
            };
            files.push(PatchedFile { name: name.to_owned(), change });
            continue;
        }
        match files.last_mut().map(|file| &mut file.change) {
            Some(PatchedFileChange::Add(content)) => {
                let added = line.strip_prefix('+').ok_or("a line of a new file does not begin with `+`")?;
                content.push_str(added);
                content.push('\n');
            }
            Some(PatchedFileChange::Update(chunks)) => add_line(line, chunks)?,
            Some(PatchedFileChange::Delete) | None => return Err("a line of the patch belongs to no file"),
        }
    }
    let is_empty = |file: &PatchedFile| match &file.change {
        PatchedFileChange::Add(_) | PatchedFileChange::Delete => false,
        PatchedFileChange::Update(chunks) => {
            chunks.is_empty() || chunks.iter().any(|chunk| chunk.old == chunk.new)
        }
    };
    if files.is_empty() || files.iter().any(is_empty) {
        return Err("the patch changes nothing in a file");
    }
    Ok(files)
}

fn add_line(line: &str, chunks: &mut Vec<PatchChunk>) -> Result<(), &'static str> {
    if line == "@@" {
        chunks.push(PatchChunk::default());
        return Ok(());
    }
    if let Some(heading) = line.strip_prefix("@@ ") {
        chunks.push(PatchChunk { heading: Some(heading.to_owned()), ..PatchChunk::default() });
        return Ok(());
    }
    // The heading of the first chunk may be missing.
    if chunks.is_empty() {
        chunks.push(PatchChunk::default());
    }
    let Some(chunk) = chunks.last_mut().filter(|chunk| !chunk.is_at_end) else {
        return Err("a line of the patch comes after the end of its file");
    };
    if line == END_OF_FILE {
        chunk.is_at_end = true;
        return Ok(());
    }
    // An empty line is one of the context.
    let (sign, text) = if line.is_empty() { (" ", "") } else { line.split_at_checked(1).unwrap_or(("", "")) };
    if sign != "+" {
        chunk.old.push(text.to_owned());
    }
    if sign != "-" {
        chunk.new.push(text.to_owned());
    }
    if ["+", "-", " "].contains(&sign) {
        Ok(())
    } else {
        Err("the patch moves a file, or has an unknown line")
    }
}

impl PatchedFile {
    /// Returns the accepted contents, or none if the patch deletes the file. `before` is the current content, if the file exists.
    pub fn accepted(&self, before: Option<&[u8]>) -> Result<Vec<Vec<u8>>, &'static str> {
        let before = before.map(str::from_utf8).transpose().map_err(|_| "the file is not UTF-8")?;
        match (&self.change, before) {
            (PatchedFileChange::Add(content), _) => Ok(vec![content.clone().into_bytes()]),
            (PatchedFileChange::Delete, Some(_)) => Ok(Vec::new()),
            (PatchedFileChange::Update(chunks), Some(before)) => updated(chunks, before),
            (PatchedFileChange::Delete | PatchedFileChange::Update(_), None) => {
                Err("the file does not exist")
            }
        }
    }
}

fn updated(chunks: &[PatchChunk], before: &str) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut lines: Vec<&str> = before.split('\n').collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    // The place, the number of replaced lines, and the new lines.
    let mut replacements: Vec<(usize, usize, &[String])> = Vec::new();
    let mut from = 0;
    for chunk in chunks {
        if let Some(heading) = &chunk.heading {
            let found = lines.iter().skip(from).position(|line| line == heading);
            from = from + found.ok_or("a heading of the patch is not a line of the file")? + 1;
        }
        if chunk.old.is_empty() {
            let is_blank_end = lines.last() == Some(&"");
            replacements.push((lines.len() - usize::from(is_blank_end), 0, &chunk.new));
            continue;
        }
        let (mut old, mut new) = (chunk.old.as_slice(), chunk.new.as_slice());
        let mut found = find(&lines, old, from, chunk.is_at_end);
        // An empty last line may stand for the end of the file.
        if let (None, Some((last, rest))) = (found, old.split_last())
            && last.is_empty()
            && !rest.is_empty()
        {
            old = rest;
            new = new.split_last().filter(|(last, _)| last.is_empty()).map_or(new, |(_, rest)| rest);
            found = find(&lines, old, from, chunk.is_at_end);
        }
        let at = found.ok_or("the old lines are not in the file exactly as the patch has them")?;
        replacements.push((at, old.len(), new));
        from = at + old.len();
    }
    replacements.sort_by_key(|(at, ..)| *at);
    let (mut result, mut done) = (Vec::new(), 0);
    for (at, count, new) in replacements {
        result.extend(lines.get(done..at).unwrap_or_default());
        result.extend(new.iter().map(String::as_str));
        done = at + count;
    }
    result.extend(lines.get(done..).unwrap_or_default());
    let text = result.join("\n");
    // Codex ends the file with a line end. Other versions of it keep the end as it was.
    let mut accepted = vec![format!("{text}\n").into_bytes()];
    if !before.ends_with('\n') {
        accepted.push(text.into_bytes());
    }
    Ok(accepted)
}

/// Returns the first place of these lines.
fn find(lines: &[&str], old: &[String], from: usize, is_at_end: bool) -> Option<usize> {
    let from = if is_at_end { lines.len().checked_sub(old.len())? } else { from };
    let found = lines.get(from..)?.windows(old.len()).position(|window| window == old)?;
    Some(from + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(patch: &str, before: Option<&str>) -> Result<Vec<String>, &'static str> {
        let files = parse_patch(&format!("*** Begin Patch\n{patch}\n*** End Patch\n"))?;
        let accepted = files.first().ok_or("no file")?.accepted(before.map(str::as_bytes))?;
        Ok(accepted.into_iter().map(|bytes| String::from_utf8(bytes).unwrap()).collect())
    }

    // req: M2
    #[test]
    fn what_a_patch_leaves_is_computed() {
        let rows: [(&str, Option<&str>, &[&str]); 8] = [
            ("*** Add File: a\n+x\n+y", None, &["x\ny\n"]),
            ("*** Delete File: a", Some("x"), &[]),
            (
                "*** Update File: a\n@@\n one\n-two\n+2\n three",
                Some("one\ntwo\nthree\n"),
                &["one\n2\nthree\n"],
            ),
            // The heading chooses the place.
            ("*** Update File: a\n@@ b:\n-x\n+y", Some("a:\nx\nb:\nx\n"), &["a:\nx\nb:\ny\n"]),
            // Two chunks, and a file without a line end.
            (
                "*** Update File: a\n-1\n+one\n@@\n-3\n+three",
                Some("1\n2\n3"),
                &["one\n2\nthree\n", "one\n2\nthree"],
            ),
            ("*** Update File: a\n@@\n+new", Some("old\n"), &["old\nnew\n"]),
            ("*** Update File: a\n@@\n-x\n+y\n*** End of File", Some("x\nx\n"), &["x\ny\n"]),
            ("*** Update File: a\n@@\n-x\n", Some("w\nx\n"), &["w\n"]),
        ];
        for (patch, before, wanted) in rows {
            assert_eq!(results(patch, before).unwrap(), wanted, "{patch}");
        }
    }

    // req: M2
    #[test]
    fn what_codex_may_read_in_several_ways_is_not_computed() {
        for (patch, before) in [
            ("*** Update File: a\n@@\n-x \n+y", Some("x\n")),
            ("*** Update File: a\n@@\n-x\n+y", Some("x\r\n")),
            ("*** Update File: a\n@@ gone\n-x\n+y", Some("x\n")),
            ("*** Update File: a\n@@\n-x\n+y", None),
            ("*** Update File: a\n*** Move to: b\n@@\n-x\n+y", Some("x\n")),
            ("*** Update File: a\n@@\n-x\n+y\n*** Update File: a\n@@\n-y\n+z", Some("x\n")),
            ("*** Update File: a\n@@\n x", Some("x\n")),
            ("*** Delete File: a\n+x", Some("x\n")),
            ("*** Delete File: a", None),
            ("nonsense", Some("x\n")),
            ("", None),
        ] {
            assert!(results(patch, before).is_err(), "{patch}: {:?}", results(patch, before));
        }
        assert!(
            parse_patch("apply_patch <<'E'\n*** Begin Patch\n*** Delete File: a\n*** End Patch\nE").is_err()
        );
        let not_text = parse_patch("*** Begin Patch\n*** Delete File: a\n*** End Patch").unwrap();
        assert!(not_text[0].accepted(Some(&[0xff])).is_err());
    }
}
