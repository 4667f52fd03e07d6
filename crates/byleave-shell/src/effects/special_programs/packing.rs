//! Additional readers for programs that pack and unpack files: the names that they make of other names.

use byleave_core::effect::Effect;

use super::super::command_analyzer::CommandAnalyzer;
use super::extra::operands;
use super::files::{add_packed_places, add_unpacked_member, archive_paths, note_packed_place};
use crate::commands::WorkingDir;
use crate::manual::{ParsedOptions, WordRole};
use crate::word::Word;

/// The suffixes of compressed files, and the suffixes that replace them after decompression.
const PACKED_SUFFIXES: [(&str, &str); 23] = [
    (".gz", ""),
    (".bz2", ""),
    (".bz", ""),
    (".tbz", ".tar"),
    (".tbz2", ".tar"),
    (".taz", ".tar"),
    (".tlz", ".tar"),
    (".tzst", ".tar"),
    (".tlz4", ".tar"),
    (".lz", ""),
    (".br", ""),
    (".xz", ""),
    (".zst", ""),
    (".lz4", ""),
    (".lzma", ""),
    (".Z", ""),
    (".z", ""),
    ("-gz", ""),
    ("-z", ""),
    ("_z", ""),
    (".zip", ""),
    (".tgz", ".tar"),
    (".txz", ".tar"),
];

/// Adds the unpacked files: the operands after the archive.
pub(super) fn unzip(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    if parsed.has(&["-l"]) {
        return;
    }
    let folder = parsed.values(&["-d"]).last().map(|folder| Word::literal(*folder));
    if let Some(folder) = &folder {
        teller.change_directory(folder);
    }
    for member in operands(parsed).into_iter().skip(1) {
        add_unpacked_member(teller, member, true);
    }
}

/// Adds the files that are read in place of a missing one: each name with an ending of packed files.
pub(super) fn packed(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    for file in operands(parsed) {
        for (end, _) in PACKED_SUFFIXES {
            teller.add_path(WordRole::Read, &format!("{file}{end}"));
        }
    }
}

/// Adds the archive under the ending that is added to its name, and the files that an earlier command of the text has packed into it.
pub(super) fn archive(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let packs = teller.facts.program == "zip";
    let role = if packs { WordRole::Edit } else { WordRole::Read };
    let names = operands(parsed);
    let Some((file, members)) = names.split_first() else { return };
    let spellings = [(*file).to_owned(), format!("{file}.zip"), format!("{file}.ZIP")];
    for file in spellings.iter().skip(1) {
        teller.add_path(role, file);
    }
    let archives = archive_paths(teller, &spellings);
    if packs {
        members.iter().for_each(|member| note_packed_place(teller, &archives, member));
    } else if teller.facts.program == "unzip" && !parsed.has(&["-l"]) {
        add_packed_places(teller, &archives, parsed.has(&["-j"]));
    }
}

/// Adds the files of packing and unpacking: unpacking removes a suffix, and packing adds one. Where a file is missing, the one with a suffix
/// is unpacked.
pub(super) fn pack(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let unpacks = parsed.has(&["--decompress", "--list", "--test"])
        || teller.facts.program.starts_with("un")
        || matches!(teller.facts.program.as_str(), "gunzip" | "bunzip2" | "lunzip" | "lbunzip2");
    let prints = parsed.has(&["--stdout"]);
    let role = if prints { WordRole::Read } else { WordRole::Edit };
    for file in operands(parsed) {
        if parsed.has(&["--recursive"]) {
            teller.add_packed_contents(file, unpacks);
        }
        let mut packed = false;
        for (end, other) in PACKED_SUFFIXES {
            if let Some(stem) = file.strip_suffix(end) {
                packed = true;
                if !prints {
                    teller.add_path(WordRole::Write, &format!("{stem}{other}"));
                }
            }
        }
        if unpacks && !packed {
            for (end, _) in PACKED_SUFFIXES {
                teller.add_path(role, &format!("{file}{end}"));
            }
        }
        let end = packed_suffix(&teller.facts.program);
        if !packed && !prints && !unpacks && !end.is_empty() {
            teller.add_path(WordRole::Write, &format!("{file}{end}"));
        }
        if unpacks && !packed && !prints && end == ".bz2" {
            // Where bzip2 does not know the ending, it adds one.
            teller.add_path(WordRole::Write, &format!("{file}.out"));
        }
    }
}

/// Returns the suffix that a program adds to the names of the files that it packs.
fn packed_suffix(program: &str) -> &'static str {
    match program {
        "bzip2" | "bunzip2" | "pbzip2" | "lbzip2" | "lbunzip2" => ".bz2",
        "xz" => ".xz",
        "zstd" => ".zst",
        "lz4" => ".lz4",
        "compress" => ".Z",
        "gzip" | "pigz" => ".gz",
        "lzma" => ".lzma",
        "lzip" | "plzip" => ".lz",
        "brotli" => ".br",
        _ => "",
    }
}

impl CommandAnalyzer<'_> {
    /// Adds the files beneath a directory that are packed or unpacked in their place: each is removed, and another name is written.
    fn add_packed_contents(&mut self, directory: &str, unpacks: bool) {
        let WorkingDir::At(place) = &self.working_dir else { return };
        let Some(start) = self.env.resolve(place, directory).filter(|path| self.env.is_directory(path))
        else {
            return;
        };
        let end = packed_suffix(&self.facts.program);
        for entry in self.walk(&start) {
            let path = entry.path;
            if self.env.is_directory(&path) {
                continue;
            }
            let stems = PACKED_SUFFIXES.iter().filter_map(|(end, other)| {
                path.strip_suffix(end).filter(|_| unpacks).map(|stem| format!("{stem}{other}"))
            });
            let written: Vec<String> = stems.chain((!unpacks).then(|| format!("{path}{end}"))).collect();
            if !written.is_empty() {
                self.add_contained(Effect::Delete { path });
                written.into_iter().for_each(|path| self.add_contained(Effect::Write { path }));
            }
        }
    }
}
