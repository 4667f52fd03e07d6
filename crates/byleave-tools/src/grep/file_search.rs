//! Searches one file after another, in one thread, with reusable buffers.
//!
//! It searches a file only if the opened file is a regular one and is not a hard link to a hidden file.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd as _;

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use rustix::fs::{FileType, Stat, fstat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::GrepMode;
use crate::dir_walk::{WalkEntry, WalkVisitor};
use crate::gate_lines::LINE_ENDS;
use crate::top_n::TopN;
use crate::workspace_files::Files;

/// The maximum size of a file that is read as a whole; a larger one is read in parts. It equals ripgrep's buffer, so that the same files
/// are binary.
const WHOLE_BYTES_MAX: usize = 1 << 16;
/// The maximum length of a line that is shown in full.
const SHOWN_BYTES_MAX: usize = 1_000;
/// The number of bytes that are shown of a longer line, and how many of them precede the match.
const CUT_BYTES: usize = 500;
const IN_FRONT_BYTES: usize = 100;

/// The settings for every file.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchSettings {
    pub(super) mode: GrepMode,
    pub(super) max_lines: usize,
    pub(super) lines_before: usize,
    pub(super) lines_after: usize,
}

/// The counts of a search.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SearchCounts {
    /// The number of files with a match.
    pub(super) files: u64,
    /// The number of matching lines. If only files are wanted, it is the number of files.
    pub(super) lines: u64,
    /// The number of binary files without a match before the first binary data.
    pub(super) binary: u64,
    /// The number of hard links to hidden files.
    pub(super) hidden_alias_files: u64,
    /// The number of unreadable files.
    pub(super) unreadable_files: u64,
    /// The number of files whose names are not valid text.
    pub(super) non_utf8_names: u64,
}

impl SearchCounts {
    pub(super) const fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.lines += other.lines;
        self.binary += other.binary;
        self.hidden_alias_files += other.hidden_alias_files;
        self.unreadable_files += other.unreadable_files;
        self.non_utf8_names += other.non_utf8_names;
    }
}

/// The matches in one file.
pub(super) struct FileMatches {
    pub(super) path: Vec<u8>,
    pub(super) lines: Vec<MatchLine>,
    pub(super) matched: u64,
    /// The offset of binary data that follows a match.
    pub(super) binary: Option<u64>,
}

impl Ord for FileMatches {
    fn cmp(&self, other: &Self) -> Ordering {
        self.path.cmp(&other.path)
    }
}

impl PartialOrd for FileMatches {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for FileMatches {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for FileMatches {}

/// A line of the output.
pub(super) struct MatchLine {
    pub(super) kind: MatchLineKind,
    pub(super) number: u64,
    pub(super) text: String,
}

/// The kind of an output line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchLineKind {
    Match,
    Context,
    /// Not a line: a gap of lines that are not shown.
    Gap,
}

/// The search of one thread.
pub(super) struct FileSearcher<'a> {
    matcher: RegexMatcher,
    /// The searcher for text in memory.
    whole: Searcher,
    /// The searcher for files that are read in parts or have another encoding.
    parts: Searcher,
    settings: SearchSettings,
    files: &'a Files,
    cancel: &'a CancellationToken,
    room: Vec<u8>,
    pub(super) hits: TopN<FileMatches>,
    pub(super) counts: SearchCounts,
}

impl<'a> FileSearcher<'a> {
    pub(super) fn new(
        matcher: &RegexMatcher,
        settings: SearchSettings,
        files: &'a Files,
        cancel: &'a CancellationToken,
    ) -> Self {
        let mut builder = SearcherBuilder::new();
        builder.line_number(settings.mode == GrepMode::Lines);
        if settings.mode == GrepMode::Lines {
            builder.before_context(settings.lines_before).after_context(settings.lines_after);
        }
        let weight = match settings.mode {
            GrepMode::Lines => |hits: &FileMatches| hits.lines.len(),
            GrepMode::Files | GrepMode::Counts => |_: &FileMatches| 1,
        };
        let whole = builder.binary_detection(BinaryDetection::none()).build();
        // A line that is longer than the largest file is not searched. A file that is not larger always fits with its lines.
        let bytes_max = usize::try_from(files.bytes_max()).unwrap_or(usize::MAX);
        let heap_max = bytes_max.saturating_add(WHOLE_BYTES_MAX);
        builder.binary_detection(BinaryDetection::quit(0)).heap_limit(Some(heap_max));
        Self {
            matcher: matcher.clone(),
            whole,
            parts: builder.build(),
            settings,
            files,
            cancel,
            room: vec![0; WHOLE_BYTES_MAX + 1],
            hits: TopN::new(settings.max_lines, weight),
            counts: SearchCounts::default(),
        }
    }

    /// Searches an open file.
    pub(super) fn file(&mut self, path: &[u8], mut file: File, stat: &Stat) {
        let mut sink = LineCollector {
            matcher: &self.matcher,
            settings: self.settings,
            lines: Vec::new(),
            matched: 0,
            binary: None,
        };
        let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
        let searched = if size > WHOLE_BYTES_MAX {
            let file = CancellableFile { file, cancel: self.cancel };
            self.parts.search_reader(&self.matcher, file, &mut sink)
        } else {
            match fill(&mut file, &mut self.room, size) {
                Err(error) => Err(error),
                Ok(bytes) if has_mark(bytes) => self.parts.search_slice(&self.matcher, bytes, &mut sink),
                Ok(bytes) => match memchr::memchr(0, bytes) {
                    None => self.whole.search_slice(&self.matcher, bytes, &mut sink),
                    Some(nul) => {
                        sink.binary = Some(nul as u64);
                        Ok(())
                    }
                },
            }
        };
        let LineCollector { lines, matched, binary, .. } = sink;
        if searched.is_err() {
            self.counts.unreadable_files += 1;
        }
        self.counts.binary += u64::from(binary.is_some() && matched == 0);
        // Outside of the mode that shows lines, a binary file is not listed.
        let counts = matched > 0 && (binary.is_none() || self.settings.mode == GrepMode::Lines);
        if counts {
            self.counts.files += 1;
            self.counts.lines += matched;
            self.hits.push(FileMatches { path: path.to_vec(), lines, matched, binary });
        }
    }
}

impl WalkVisitor for FileSearcher<'_> {
    fn visit(&mut self, found: &WalkEntry<'_>) {
        if found.kind != FileType::RegularFile {
            return;
        }
        if !found.is_text() {
            self.counts.non_utf8_names += 1;
            return;
        }
        let handle = match found.open() {
            Ok(handle) => handle,
            // It is gone or has another type by now.
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NODEV) => return,
            Err(_) => {
                self.counts.unreadable_files += 1;
                return;
            }
        };
        let Ok(stat) = fstat(handle.as_fd()) else {
            self.counts.unreadable_files += 1;
            return;
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return;
        }
        if self.files.is_hidden_alias(&stat) {
            self.counts.hidden_alias_files += 1;
            return;
        }
        self.file(found.path, File::from(handle), &stat);
    }
}

/// Reads a file into the buffer. Data that is appended meanwhile is not read.
fn fill<'r>(file: &mut File, room: &'r mut Vec<u8>, size: usize) -> io::Result<&'r [u8]> {
    if room.len() <= size {
        room.resize(size + 1, 0);
    }
    let mut length = 0;
    while let Some(free) = room.get_mut(length..).filter(|free| !free.is_empty()) {
        let read = match file.read(free) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        length += read;
        // Files that the kernel generates report a size of zero.
        if read == 0 || length == size {
            break;
        }
    }
    Ok(room.get(..length).unwrap_or_default())
}

/// Checks whether the bytes begin with a byte order mark.
fn has_mark(bytes: &[u8]) -> bool {
    [&b"\xff\xfe"[..], b"\xfe\xff", b"\xef\xbb\xbf"].iter().any(|mark| bytes.starts_with(mark))
}

/// A file whose reads end when the call is cancelled.
struct CancellableFile<'a> {
    file: File,
    cancel: &'a CancellationToken,
}

impl Read for CancellableFile<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() { Ok(0) } else { self.file.read(room) }
    }
}

/// A collector for the lines of one file.
struct LineCollector<'a> {
    matcher: &'a RegexMatcher,
    settings: SearchSettings,
    lines: Vec<MatchLine>,
    matched: u64,
    binary: Option<u64>,
}

impl LineCollector<'_> {
    fn keeps(&self) -> bool {
        self.settings.mode == GrepMode::Lines && self.lines.len() < self.settings.max_lines
    }
}

impl Sink for &mut LineCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.matched += 1;
        if self.keeps() {
            let bytes = found.bytes();
            let at = || self.matcher.find(bytes).ok().flatten().map_or(0, |found| found.start());
            let text = text(bytes, at);
            let number = found.line_number().unwrap_or_default();
            self.lines.push(MatchLine { kind: MatchLineKind::Match, number, text });
        }
        Ok(self.settings.mode != GrepMode::Files)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        if self.keeps() && *found.kind() != SinkContextKind::Other {
            let number = found.line_number().unwrap_or_default();
            self.lines.push(MatchLine {
                kind: MatchLineKind::Context,
                number,
                text: text(found.bytes(), || 0),
            });
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if self.keeps() {
            self.lines.push(MatchLine { kind: MatchLineKind::Gap, number: 0, text: String::new() });
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        // Like ripgrep, do not search a buffer that contains a NUL byte.
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, end: &grep_searcher::SinkFinish) -> io::Result<()> {
        self.binary = end.binary_byte_offset();
        Ok(())
    }
}

/// Formats a line for the output: on one line, and a long one cut around the match.
fn text(line: &[u8], at: impl FnOnce() -> usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= SHOWN_BYTES_MAX {
        return one_line(line);
    }
    let from = at().saturating_sub(IN_FRONT_BYTES).min(line.len());
    let to = (from + CUT_BYTES).min(line.len());
    let part = one_line(line.get(from..to).unwrap_or_default());
    format!("[{from} bytes more]{part}[{} bytes more]", line.len() - to)
}

fn one_line(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    // Text after one of these characters could be read as a separate line.
    if !text.contains(LINE_ENDS) {
        return text.into_owned();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for one in text.chars() {
        if LINE_ENDS.contains(&one) { shown.extend(one.escape_debug()) } else { shown.push(one) }
    }
    shown
}
