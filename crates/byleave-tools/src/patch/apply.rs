//! Applies hunks to the content of a file. Pure.
//!
//! A hunk with a line number is searched there, then at increasing distance, then with up to two outer context lines omitted, like
//! patch(1). The offset and the fuzz are reported. No other difference is ignored, neither whitespace nor line ends. A hunk without a
//! number must match in exactly one place.

use std::cell::Cell;

use super::{Hunk, HunkLine, HunkLineKind, HunkPosition};
use crate::near_match;

/// The maximum number of outer context lines that may differ at each end.
const FUZZ_MAX: usize = 2;

/// The maximum number of line comparisons. A patch of many hunks could otherwise search a long file for each hunk.
const LOOKS_MAX: u64 = 100_000_000;

/// Where a hunk was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HunkPlacement {
    /// The first line in the old content, from 1.
    pub(crate) line: usize,
    /// The offset in lines from the stated position; negative if further up.
    pub(crate) offset: isize,
    /// The number of outer context lines that were omitted at an end.
    pub(crate) fuzz: usize,
    /// Whether a heading matched only after whitespace was ignored.
    pub(crate) ignored_whitespace: bool,
}

/// Returns the new content and the placement of each hunk. An error includes what to do.
pub(crate) fn apply(content: &[u8], hunks: &[Hunk]) -> Result<(Vec<u8>, Vec<HunkPlacement>), String> {
    // The form without counts cannot say that the last line has no line end. Such a line keeps its current state.
    let by_words = hunks.iter().any(|hunk| matches!(hunk.position, HunkPosition::After { .. }));
    let lacks_end = by_words && !content.is_empty() && !content.ends_with(b"\n");
    let mut whole = content.to_vec();
    if lacks_end {
        whole.push(b'\n');
    }
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let mut work = PatchApplier {
        lines: &lines,
        done: 0,
        drift: 0,
        looks_left: Cell::new(LOOKS_MAX),
        out: Vec::with_capacity(whole.len()),
    };
    let mut fits = Vec::with_capacity(hunks.len());
    for (number, hunk) in (1..).zip(hunks) {
        fits.push(work.add(hunk).map_err(|why| format!("hunk {number} of {} {why}", hunks.len()))?);
    }
    let mut out = work.finish();
    if lacks_end && out.ends_with(b"\n") {
        out.pop();
    }
    Ok((out, fits))
}

struct PatchApplier<'a> {
    lines: &'a [&'a [u8]],
    /// The number of old lines that are already in `out`, changed or not.
    done: usize,
    /// The offset of the hunks so far.
    drift: isize,
    /// The number of line comparisons that are left.
    looks_left: Cell<u64>,
    out: Vec<u8>,
}

/// A match of a hunk: the start of its lines, and how many of them are omitted at each end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HunkMatch {
    start: usize,
    cut: (usize, usize),
    fit_fuzz: usize,
}

/// The search pattern of a hunk.
#[derive(Clone, Copy)]
struct HunkPattern<'a> {
    /// The lines.
    before: &'a [&'a str],
    /// The number of lines that are omitted at each end.
    cut: (usize, usize),
    /// Whether the lines must be the first of the file.
    at_start: bool,
    /// Whether the lines must be the last of the file.
    at_end: bool,
}

impl<'a> PatchApplier<'a> {
    fn add(&mut self, hunk: &Hunk) -> Result<HunkPlacement, String> {
        if hunk.lines.iter().all(|line| line.kind == HunkLineKind::Context) {
            return Err("changes nothing; leave it out, or give lines with `+` and `-`".into());
        }
        let before: Vec<&str> = before(&hunk.lines).collect();
        let mut by_words = false;
        let (spot, offset) = match &hunk.position {
            HunkPosition::Line(line) => self.at_line(*line, &hunk.lines, &before)?,
            HunkPosition::After { headings, at_end_of_file: to_the_end } => {
                let from = self.after(headings, &mut by_words)?;
                (self.sought(from, !headings.is_empty(), *to_the_end, &before)?, 0)
            }
        };
        self.put(hunk, spot)?;
        Ok(HunkPlacement { line: spot.start + 1, offset, fuzz: spot.fit_fuzz, ignored_whitespace: by_words })
    }

    /// Appends the remaining lines and returns the content.
    fn finish(mut self) -> Vec<u8> {
        self.copy_to(self.lines.len());
        self.out
    }

    /// Finds the match of a hunk with a number, and its offset.
    fn at_line(
        &mut self,
        line: usize,
        all: &[HunkLine],
        before: &[&str],
    ) -> Result<(HunkMatch, isize), String> {
        if before.is_empty() {
            // There is nothing to search. The hunk is applied at its position plus the offset of the hunks before it.
            let start = line.saturating_add_signed(self.drift);
            return match start >= self.done && start <= self.lines.len() {
                true => Ok((HunkMatch { start, cut: (0, 0), fit_fuzz: 0 }, self.drift)),
                false => Err(format!(
                    "should be inserted after line {line}, and the file has {}; give the lines around the new ones",
                    self.lines.len()
                )),
            };
        }
        let guess = line.saturating_sub(1).saturating_add_signed(self.drift);
        let (lead, trail) = (kept(all.iter()), kept(all.iter().rev()));
        let context = lead.max(trail);
        for fuzz in 0..=FUZZ_MAX.min(context) {
            // The longer end is cut first. A shorter context means the beginning or end of the file.
            let cut = ((fuzz + lead).saturating_sub(context), (fuzz + trail).saturating_sub(context));
            let at_start = fuzz + lead < context && line <= 1;
            let at_end = fuzz + trail < context;
            // A hunk with little context must match in one place only.
            let is_loose = fuzz > 0 || context == 0;
            let wanted = HunkPattern { before, cut, at_start, at_end };
            let mut found = self.places(wanted, guess);
            let Some(start) = found.next() else { continue };
            let is_alone = fuzz == 0 && (context > 0 || start == guess) || found.next().is_none();
            if is_loose && !is_alone {
                let mut places: Vec<usize> =
                    self.places(wanted, guess).map(|start| start + 1).take(8).collect();
                places.sort_unstable();
                let places: Vec<String> = places.iter().map(usize::to_string).collect();
                return Err(format!(
                    "would fit loosely at lines {}; give more of the lines around it",
                    places.join(", ")
                ));
            }
            let offset = start.cast_signed() - line.saturating_sub(1).cast_signed();
            drop(found);
            self.drift = offset;
            return Ok((HunkMatch { start, cut, fit_fuzz: fuzz }, offset));
        }
        Err(self.unfit(before))
    }

    /// Returns all matches after the changed lines, sorted by distance from a line; of two equally near, the lower one first.
    fn places(&self, wanted: HunkPattern<'_>, near: usize) -> impl Iterator<Item = usize> {
        let HunkPattern { before, cut, at_start, at_end } = wanted;
        let reach = before.len() - cut.1;
        let (first, last) = (self.done, self.lines.len().checked_sub(reach));
        let (first, end) = match last {
            None => (0, 0),
            Some(last) if at_end => (last.max(first), last + 1),
            Some(last) => (first, last + 1),
        };
        let end = if at_start { end.min(1) } else { end };
        let near = near.clamp(first, end.max(first));
        let mut below = (near..end).peekable();
        let mut above = (first..near.min(end)).rev().peekable();
        let by_distance = std::iter::from_fn(move || match (below.peek(), above.peek()) {
            (Some(one), Some(other)) if one - near <= near - other => below.next(),
            (_, Some(_)) => above.next(),
            (_, None) => below.next(),
        });
        by_distance.filter(move |start| self.is_at(*start, wanted))
    }

    fn is_at(&self, start: usize, wanted: HunkPattern<'_>) -> bool {
        let (from, to) = (wanted.cut.0, wanted.before.len() - wanted.cut.1);
        let core = wanted.before.get(from..to).unwrap_or_default();
        let there = self.lines.get(start + from..start + to).unwrap_or_default();
        let same = there.iter().zip(core).take_while(|(is, wanted)| **is == wanted.as_bytes()).count();
        self.looks_left.set(self.looks_left.get().saturating_sub(same as u64 + 1));
        self.looks_left.get() > 0 && same == core.len() && there.len() == core.len()
    }

    /// Returns the line after the headings, which are searched one after the other.
    fn after(&self, headings: &[String], by_words: &mut bool) -> Result<usize, String> {
        let mut from = self.done;
        for heading in headings {
            let rest = || self.lines.iter().enumerate().skip(from);
            let bare = |line: &[u8]| String::from_utf8_lossy(line).trim_end_matches(['\n', '\r']).to_owned();
            let found = rest().find(|(_, line)| bare(line) == *heading).or_else(|| {
                *by_words = true;
                rest().find(|(_, line)| bare(line).trim() == heading.trim())
            });
            let Some((at, _)) = found else {
                let (heading, above) = (heading.escape_debug(), self.done);
                return Err(format!(
                    "has the heading `@@ {heading}`, and there is no such line below line {above}; use a complete line of the file"
                ));
            };
            from = at + 1;
        }
        Ok(from)
    }

    /// Returns the only match after a line; with a heading, the first match.
    fn sought(
        &self,
        from: usize,
        headed: bool,
        to_the_end: bool,
        before: &[&str],
    ) -> Result<HunkMatch, String> {
        let spot = |start| HunkMatch { start, cut: (0, 0), fit_fuzz: 0 };
        if before.is_empty() {
            return Ok(spot(if headed && !to_the_end { from } else { self.lines.len() }));
        }
        let wanted = HunkPattern { before, cut: (0, 0), at_start: false, at_end: to_the_end };
        let found: Vec<usize> = self.places(wanted, from).filter(|start| *start >= from).collect();
        match found.as_slice() {
            [] => Err(self.unfit(before)),
            [first, _, ..] if headed => Ok(spot(*first)),
            [only] => Ok(spot(*only)),
            several => {
                let lines: Vec<String> =
                    several.iter().take(8).map(|start| (start + 1).to_string()).collect();
                Err(format!(
                    "fits in {} places, at lines {}; give more of the lines around it, or `@@` with a line above it",
                    several.len(),
                    lines.join(", ")
                ))
            }
        }
    }

    fn unfit(&self, before: &[&str]) -> String {
        if self.looks_left.get() == 0 {
            return "was not found within the search limit; apply the patch in parts, or give the correct line numbers".into();
        }
        let rest: Vec<u8> = self.lines.concat();
        let (text, wanted) = (String::from_utf8_lossy(&rest), before.concat());
        if let Some(at) = text.find(&wanted) {
            let line = text.get(..at).map_or(0, |above| above.matches('\n').count()) + 1;
            let above = self.done;
            return format!(
                "does not fit: its old lines are at line {line}, but earlier hunks reach down to line {above}, or the lines are not at the end of \
                 the file as stated; put the hunks into the order of the file"
            );
        }
        if wanted.ends_with('\n') && text.ends_with(wanted.trim_end_matches('\n')) {
            return "does not fit: the last line of the file has no newline; put `\\ No newline at end of file` after it".into();
        }
        format!("does not fit: {}", near_match::describe_near_match(&text, &wanted, "its old text"))
    }

    /// Copies the lines before a hunk, and adds its new lines.
    fn put(&mut self, hunk: &Hunk, spot: HunkMatch) -> Result<(), String> {
        let HunkMatch { start, cut, .. } = spot;
        let old = before(&hunk.lines).count();
        self.copy_to(start + cut.0);
        let core = hunk.lines.get(cut.0..hunk.lines.len() - cut.1).unwrap_or_default();
        for line in core.iter().filter(|line| line.kind != HunkLineKind::Removed) {
            // A line without a line end can only be followed by another if the patch is wrong.
            if !self.out.is_empty() && !self.out.ends_with(b"\n") {
                return Err(
                    "adds a line after one that has no newline; also add the newline to that line".into()
                );
            }
            self.out.extend_from_slice(line.text.as_bytes());
        }
        self.done = start + old - cut.1;
        if self.done < self.lines.len() && !self.out.is_empty() && !self.out.ends_with(b"\n") {
            return Err("removes the newline from a line that is not the last; leave out `\\ No newline at end of file`".into());
        }
        Ok(())
    }

    fn copy_to(&mut self, line: usize) {
        let rest = self.lines.get(self.done..line).unwrap_or_default();
        rest.iter().for_each(|line| self.out.extend_from_slice(line));
        self.done = self.done.max(line);
    }
}

/// Returns the lines that the old content must have.
fn before(lines: &[HunkLine]) -> impl Iterator<Item = &str> {
    lines.iter().filter(|line| line.kind != HunkLineKind::Added).map(|line| line.text.as_str())
}

/// Counts the context lines at one end.
fn kept<'a>(lines: impl Iterator<Item = &'a HunkLine>) -> usize {
    lines.take_while(|line| line.kind == HunkLineKind::Context).count()
}
