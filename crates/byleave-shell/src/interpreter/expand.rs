//! Word expansion in the order of the shell: braces, tilde, parameters and substitutions, splitting, globs.

use super::ScriptReader;
use super::atom::WordAtom;
use super::braces::{self, BraceExpansion};
use super::glob::{self, GlobChar};
use super::state::{ShellDirectory, ShellState};
use crate::syntax::is_name;
use crate::syntax::tree::{RawWord, WordPart};
use crate::word::{PIPE_REASON, UnknownWord, Word};

/// One resulting word, and whether it may actually be several.
pub(super) struct ExpandedField {
    pub(super) word: Word,
    pub(super) splits: bool,
    /// For a name that a glob matched: the certain parts of the word if files change before the glob is evaluated.
    pattern: Option<Word>,
}

impl ExpandedField {
    pub(super) fn new(word: Word) -> Self {
        Self { word, splits: false, pattern: None }
    }

    /// Makes a glob match uncertain. Bash matches files after all words are expanded, so a later word may have created some.
    pub(super) fn mark_unsettled(&mut self) {
        if let Some(pattern) = self.pattern.take() {
            self.word = pattern;
        }
    }
}

/// The way to read a word that stays one word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SingleWordMode {
    /// The value of an assignment: tildes after `=` and `:`.
    Value,
    /// Any other word.
    Plain,
}

/// The positions in a word where a tilde may mean a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TildePosition {
    /// Only at the front, as in the result of braces. Such a word is not an assignment, even if it looks like one.
    Front,
    /// At the front, and after `=` and `:` in a word that looks like an assignment.
    Word,
    /// At the front and after every `:`.
    Value,
}

impl ScriptReader<'_> {
    /// Returns the words that a word expands to.
    pub(super) fn expand_fields(&mut self, raw: &RawWord, state: &mut ShellState) -> Vec<ExpandedField> {
        let atoms = self.expand_atoms(raw, state);
        let words = match braces::expand(&atoms) {
            BraceExpansion::NoBraces => {
                let word = self.expand_tildes(atoms, state, TildePosition::Word);
                let mut fields = Vec::new();
                self.split(&word, state, &mut fields);
                return fields;
            }
            // Braces are expanded before dollars: `$x{a,b}` is `$xa $xb`.
            BraceExpansion::Words(_)
                if raw.parts.iter().any(|part| matches!(part, WordPart::Parameter(_))) =>
            {
                return vec![unknown("braces next to an expansion change what is expanded")];
            }
            BraceExpansion::Words(_) if atoms.contains(&WordAtom::Bare('$')) => {
                return vec![unknown("braces next to a dollar sign change what is expanded")];
            }
            BraceExpansion::Words(words) => words,
            BraceExpansion::Unbounded => {
                return vec![unknown("the braces produce more words than are analyzed")];
            }
        };
        let mut fields = Vec::new();
        for word in words {
            let word = self.expand_tildes(word, state, TildePosition::Front);
            self.split(&word, state, &mut fields);
        }
        fields
    }

    /// Returns the one word that results where the shell does not split.
    pub(super) fn expand_single(
        &mut self,
        raw: &RawWord,
        state: &mut ShellState,
        single: SingleWordMode,
    ) -> Word {
        let atoms = self.expand_atoms(raw, state);
        let tildes = if single == SingleWordMode::Value { TildePosition::Value } else { TildePosition::Word };
        let atoms = self.expand_tildes(atoms, state, tildes);
        join_atoms(&atoms)
    }

    fn expand_atoms(&mut self, raw: &RawWord, state: &mut ShellState) -> Vec<WordAtom> {
        let mut atoms = Vec::new();
        self.expand_parts(&raw.parts, false, state, &mut atoms);
        atoms
    }

    /// Expands parts, and reads the commands in them.
    pub(super) fn expand_parts(
        &mut self,
        parts: &[WordPart],
        quoted: bool,
        state: &mut ShellState,
        atoms: &mut Vec<WordAtom>,
    ) {
        for part in parts {
            match part {
                WordPart::Bare(text) => atoms.extend(text.chars().map(WordAtom::Bare)),
                WordPart::Quoted(text) => {
                    atoms.push(WordAtom::EmptyQuotes);
                    atoms.extend(text.chars().map(WordAtom::Exact));
                }
                WordPart::Double(inner) => {
                    let before = atoms.len();
                    self.expand_parts(inner, true, state, atoms);
                    // An empty `"$@"` produces no word at all.
                    let only_hole = inner.len() == 1
                        && matches!(atoms.get(before..), Some([WordAtom::UnknownValue { splits: true, .. }]));
                    if !only_hole {
                        atoms.insert(before, WordAtom::EmptyQuotes);
                    }
                }
                WordPart::Parameter(parameter) => self.parameter(parameter, quoted, state, atoms),
                WordPart::Command(list) => {
                    self.read_subshell("substitution", list, state);
                    atoms.push(WordAtom::UnknownValue {
                        why: "the value is the output of a command".to_owned(),
                        splits: !quoted,
                    });
                }
                WordPart::Backquoted(text) => {
                    self.read_subshell_text("substitution", text, state);
                    atoms.push(WordAtom::UnknownValue {
                        why: "the value is the output of a command".to_owned(),
                        splits: !quoted,
                    });
                }
                WordPart::Process(list) => {
                    state.files_unchanged = false;
                    self.read_subshell("process substitution", list, state);
                    atoms.push(WordAtom::UnknownValue { why: PIPE_REASON.to_owned(), splits: false });
                }
                WordPart::Arithmetic(inner) => {
                    self.arithmetic(inner, state);
                    atoms.push(WordAtom::UnknownValue {
                        why: "the value is computed".to_owned(),
                        splits: !quoted,
                    });
                }
                WordPart::Array(elements) => {
                    for element in elements {
                        self.expand_fields(element, state);
                    }
                    atoms.push(WordAtom::UnknownValue {
                        why: "the value is an array".to_owned(),
                        splits: true,
                    });
                }
                WordPart::Opaque(why) => {
                    atoms.push(WordAtom::UnknownValue { why: (*why).to_owned(), splits: false })
                }
            }
        }
    }

    /// Replaces each `~` that means a directory.
    fn expand_tildes(
        &mut self,
        atoms: Vec<WordAtom>,
        state: &ShellState,
        tildes: TildePosition,
    ) -> Vec<WordAtom> {
        let is_value = tildes == TildePosition::Value;
        if !atoms.contains(&WordAtom::Bare('~')) {
            return atoms;
        }
        // `NAME=~` is expanded in any word, even if the word is not an assignment.
        let equals = atoms.iter().position(|atom| *atom == WordAtom::Bare('='));
        let name: Option<String> = equals.and_then(|equals| {
            atoms
                .get(..equals)?
                .iter()
                .map(|atom| if let WordAtom::Bare(c) = atom { Some(*c) } else { None })
                .collect()
        });
        let after_name = equals.filter(|_| {
            tildes == TildePosition::Word
                && name.as_deref().is_some_and(|name| is_name(name.strip_suffix('+').unwrap_or(name)))
        });
        // `a[1]=~` is also expanded, if the subscript is valid.
        let subscripted = tildes == TildePosition::Word && atoms.contains(&WordAtom::Bare('['));
        let mut expanded = Vec::new();
        let mut rest = atoms.iter().enumerate().peekable();
        while let Some((at, atom)) = rest.next() {
            let before = at.checked_sub(1).and_then(|before| atoms.get(before));
            let may = match before {
                None => true,
                Some(WordAtom::Bare('=')) => after_name == Some(at - 1),
                Some(WordAtom::Bare(':')) => is_value || after_name.is_some_and(|equals| at > equals),
                Some(_) => false,
            };
            if subscripted
                && *atom == WordAtom::Bare('~')
                && matches!(before, Some(WordAtom::Bare('=' | ':')))
            {
                expanded.push(WordAtom::UnknownValue {
                    why: "`~` after a subscript is not certain".to_owned(),
                    splits: false,
                });
                continue;
            }
            if !may || *atom != WordAtom::Bare('~') {
                expanded.push(atom.clone());
                continue;
            }
            let mut login = String::new();
            let mut plain = true;
            let mut colon = false;
            let assigns = is_value || after_name.is_some_and(|equals| at > equals);
            for atom in atoms.get(at + 1..).unwrap_or_default() {
                match atom {
                    WordAtom::Bare('/') => break,
                    WordAtom::Bare(':') if assigns => break,
                    WordAtom::Bare(c) => {
                        colon |= *c == ':';
                        login.push(*c);
                    }
                    _ => {
                        plain = false;
                        break;
                    }
                }
            }
            if colon {
                // The following text decides whether bash ends the name here.
                expanded.push(WordAtom::UnknownValue {
                    why: "the meaning of `~` before a colon is not certain".to_owned(),
                    splits: false,
                });
                rest.by_ref().take(login.chars().count()).for_each(drop);
                continue;
            }
            if !plain {
                expanded.push(atom.clone());
                continue;
            }
            for _ in 0..login.chars().count() {
                rest.next();
            }
            let directory = match login.as_str() {
                "" => state.home(self.env),
                "+" => match &state.working_dir {
                    ShellDirectory::At { logical, .. } if !state.is_set("PWD") => Some(logical.clone()),
                    _ => None,
                },
                _ => None,
            };
            match directory {
                Some(directory) => {
                    expanded.push(WordAtom::EmptyQuotes);
                    expanded.extend(directory.chars().map(WordAtom::Exact));
                }
                None => expanded.push(WordAtom::UnknownValue {
                    why: format!("`~{login}` is an unknown directory"),
                    splits: false,
                }),
            }
        }
        expanded
    }

    /// Splits unquoted text, and matches globs.
    fn split(&mut self, atoms: &[WordAtom], state: &ShellState, fields: &mut Vec<ExpandedField>) {
        // A dollar that begins nothing prevents bash from splitting its word.
        let usual = state.splits_as_usual() && !atoms.contains(&WordAtom::Bare('$'));
        let doubtful = |atom: &WordAtom| match atom {
            WordAtom::UnknownValue { splits, .. } => *splits,
            WordAtom::Split(text) => !usual || text.contains(['*', '?', '[', '\\']),
            _ => false,
        };
        if atoms.iter().any(|atom| doubtful(atom) || matches!(atom, WordAtom::UnknownValue { .. })) {
            let splits = atoms.iter().any(|atom| doubtful(atom) || matches!(atom, WordAtom::Split(_)));
            let why = atoms.iter().find_map(|atom| {
                if let WordAtom::UnknownValue { why, .. } = atom { Some(why.clone()) } else { None }
            });
            let why = why.unwrap_or_else(|| "how its value is split is not certain".to_owned());
            let pieces = if splits { Vec::new() } else { certain_pieces(atoms) };
            let globs = atoms.iter().any(|atom| matches!(atom, WordAtom::Bare('*' | '?' | '[')));
            let one = !splits && !globs;
            fields.push(ExpandedField {
                splits,
                ..ExpandedField::new(Word::Unknown(UnknownWord { reason: why, pieces, single_word: one }))
            });
            return;
        }
        let mut current: Vec<GlobChar> = Vec::new();
        let mut present = false;
        let mut ready: Vec<Vec<GlobChar>> = Vec::new();
        for atom in atoms {
            match atom {
                WordAtom::Bare(c) => current.push(GlobChar { c: *c, quoted: false }),
                WordAtom::Exact(c) => current.push(GlobChar { c: *c, quoted: true }),
                WordAtom::EmptyQuotes => present = true,
                WordAtom::Split(text) => {
                    for c in text.chars() {
                        if matches!(c, ' ' | '\t' | '\n') {
                            if present || !current.is_empty() {
                                ready.push(std::mem::take(&mut current));
                            }
                            present = false;
                        } else {
                            current.push(GlobChar { c, quoted: true });
                        }
                    }
                }
                WordAtom::UnknownValue { .. } => {}
            }
        }
        if present || !current.is_empty() {
            ready.push(current);
        }
        for word in ready {
            if glob::is_glob(&word) {
                let pattern = glob::unknown(&word);
                let names = self.expand_glob(&word, state).unwrap_or_else(|| vec![pattern.clone()]);
                fields.extend(names.into_iter().map(|name| ExpandedField {
                    pattern: Some(pattern.clone()),
                    ..ExpandedField::new(name)
                }));
            } else {
                let text = word.iter().map(|glyph| glyph.c).collect();
                fields.push(ExpandedField::new(Word::Literal(text)));
            }
        }
    }
}

fn unknown(why: &str) -> ExpandedField {
    ExpandedField { splits: true, ..ExpandedField::new(Word::unknown(why)) }
}

/// Returns everything as one word.
fn join_atoms(atoms: &[WordAtom]) -> Word {
    let why = atoms.iter().find_map(|atom| {
        if let WordAtom::UnknownValue { why, .. } = atom { Some(why.clone()) } else { None }
    });
    if let Some(why) = why {
        return Word::Unknown(UnknownWord { reason: why, pieces: certain_pieces(atoms), single_word: true });
    }
    let mut text = String::new();
    for atom in atoms {
        match atom {
            WordAtom::Bare(c) | WordAtom::Exact(c) => text.push(*c),
            WordAtom::Split(value) => text.push_str(value),
            WordAtom::EmptyQuotes | WordAtom::UnknownValue { .. } => {}
        }
    }
    Word::Literal(text)
}

/// Returns the text between holes, without patterns.
fn certain_pieces(atoms: &[WordAtom]) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut stretch: Vec<GlobChar> = Vec::new();
    // A bracket that is not closed before a hole may be closed in it.
    let has_bracket = atoms.contains(&WordAtom::Bare('['));
    for atom in atoms {
        match atom {
            WordAtom::Bare(c) => stretch.push(GlobChar { c: *c, quoted: false }),
            WordAtom::Exact(c) => stretch.push(GlobChar { c: *c, quoted: true }),
            WordAtom::Split(text) => stretch.extend(text.chars().map(|c| GlobChar { c, quoted: true })),
            WordAtom::EmptyQuotes => {}
            WordAtom::UnknownValue { .. } => pieces.extend(glob::pieces(&std::mem::take(&mut stretch))),
        }
    }
    pieces.extend(glob::pieces(&stretch));
    if has_bracket { Vec::new() } else { pieces }
}
