//! Parses the `*** Begin Patch` form: headers, and lines that begin with a space, `+` or `-`, without counts.

use super::{FileOperation, FilePatch, Hunk, HunkLine, HunkLineKind, HunkPosition, numbered, quoted};

/// The first line.
pub(super) const BEGIN_MARKER: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";
const MOVE: &str = "*** Move to: ";

const SHAPE: &str = "the form is `*** Begin Patch`, then for each file `*** Add File: NAME`, `*** Update File: NAME` or \
    `*** Delete File: NAME`, then its lines, then `*** End Patch`";

/// Parses a patch in this form.
pub(super) fn parse_begin_patch(text: &str) -> Result<Vec<FilePatch>, String> {
    let mut lines = numbered(text.trim_start_matches('\n'));
    if lines.next().is_none_or(|(_, line)| line != BEGIN_MARKER) {
        return Err(format!(
            "the first line is not `{BEGIN_MARKER}`, alone and with no carriage return; {SHAPE}"
        ));
    }
    let mut sections: Vec<FilePatch> = Vec::new();
    let mut is_ended = false;
    for (number, line) in lines {
        let at = |why: &str| format!("line {number} of the patch, {}, {why}; {SHAPE}", quoted(line));
        if is_ended {
            if line.is_empty() {
                continue;
            }
            return Err(at("comes after the end"));
        }
        if line == END {
            is_ended = true;
        } else if line.starts_with("***") && line != END_OF_FILE {
            header(line, &mut sections).map_err(at)?;
        } else {
            let section = sections.last_mut().ok_or_else(|| at("belongs to no file"))?;
            content(line, section).map_err(at)?;
        }
    }
    if !is_ended {
        return Err(format!("the patch has no `{END}`; {SHAPE}"));
    }
    sections.iter().try_for_each(check)?;
    Ok(sections)
}

fn header(line: &str, sections: &mut Vec<FilePatch>) -> Result<(), &'static str> {
    let is_name = |name: &str| !name.is_empty() && name.trim() == name && !name.contains(char::is_control);
    if let Some(to) = line.strip_prefix(MOVE) {
        let moved =
            sections.last_mut().filter(|one| one.operation == FileOperation::Update && one.hunks.is_empty());
        let moved = moved.ok_or("does not follow `*** Update File:` at once")?;
        if !is_name(to) {
            return Err("has no name, or a name with whitespace at its ends or control characters");
        }
        moved.operation = FileOperation::Move(to.to_owned());
        return Ok(());
    }
    let kinds = [
        ("*** Add File: ", FileOperation::Add),
        ("*** Update File: ", FileOperation::Update),
        ("*** Delete File: ", FileOperation::Delete),
    ];
    let found = kinds.into_iter().find_map(|(start, what)| Some((line.strip_prefix(start)?, what)));
    let (name, what) = found.ok_or("is not a known header")?;
    if !is_name(name) {
        return Err("has no name, or a name with whitespace at its ends or control characters");
    }
    sections.push(FilePatch { name: name.to_owned(), operation: what, executable: None, hunks: Vec::new() });
    Ok(())
}

fn content(line: &str, section: &mut FilePatch) -> Result<(), &'static str> {
    if section.operation == FileOperation::Delete {
        return Err("is in the section of a deleted file, which needs no lines");
    }
    let is_ended = matches!(
        section.hunks.last(),
        Some(Hunk { position: HunkPosition::After { at_end_of_file: true, .. }, .. })
    );
    if let Some(heading) = line.strip_prefix("@@") {
        if section.operation == FileOperation::Add {
            return Err("is in the section of a new file, where every line begins with `+`");
        }
        let heading = match heading.strip_prefix(' ') {
            Some(heading) => heading,
            None if heading.is_empty() => "",
            None => return Err("has no space after `@@`"),
        };
        return opened(heading, section);
    }
    if line == END_OF_FILE {
        let last = section.hunks.last_mut().filter(|hunk| !hunk.lines.is_empty());
        let Some(Hunk { position: HunkPosition::After { at_end_of_file: to_the_end, .. }, .. }) = last else {
            return Err("does not follow lines");
        };
        *to_the_end = true;
        return Ok(());
    }
    let mut letters = line.chars();
    let fate = match letters.next() {
        Some('+') => HunkLineKind::Added,
        Some('-') if section.operation != FileOperation::Add => HunkLineKind::Removed,
        Some(' ') | None if section.operation != FileOperation::Add => HunkLineKind::Context,
        _ if section.operation == FileOperation::Add => {
            return Err("does not begin with `+`, as every line of a new file must");
        }
        _ => return Err("begins neither with a space nor with `+` or `-`"),
    };
    if is_ended {
        return Err("comes after the end of its file");
    }
    if section.hunks.is_empty() {
        section.hunks.push(anywhere());
    }
    let text = format!("{}\n", letters.as_str());
    section
        .hunks
        .last_mut()
        .into_iter()
        .for_each(|hunk| hunk.lines.push(HunkLine { kind: fate, text: text.clone() }));
    Ok(())
}

/// Starts a hunk, or adds a heading to a hunk that has no lines yet.
fn opened(heading: &str, section: &mut FilePatch) -> Result<(), &'static str> {
    let heading = (!heading.trim().is_empty()).then(|| heading.to_owned());
    match section.hunks.last_mut() {
        Some(Hunk { position: HunkPosition::After { headings, .. }, lines }) if lines.is_empty() => {
            headings.extend(heading);
        }
        _ => {
            let place =
                HunkPosition::After { headings: heading.into_iter().collect(), at_end_of_file: false };
            section.hunks.push(Hunk { position: place, lines: Vec::new() });
        }
    }
    Ok(())
}

const fn anywhere() -> Hunk {
    Hunk { position: HunkPosition::After { headings: Vec::new(), at_end_of_file: false }, lines: Vec::new() }
}

/// Checks that a file has all required parts.
fn check(section: &FilePatch) -> Result<(), String> {
    let name = section.name.escape_debug();
    if section.hunks.iter().any(|hunk| hunk.lines.is_empty()) {
        return Err(format!("an `@@` for `{name}` has no lines after it; leave it out, or give its lines"));
    }
    if section.operation == FileOperation::Update && section.hunks.is_empty() {
        return Err(format!("nothing of `{name}` is changed; leave it out, or give lines with `+` and `-`"));
    }
    Ok(())
}
