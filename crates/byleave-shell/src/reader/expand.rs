//! Expansion: what the shell makes of a word, in the order in which it does so: braces, tilde, parameters and
//! substitutions, splitting, globs.

use super::Reader;
use super::atom::Atom;
use super::braces::{self, Braced};
use super::glob::{self, Glyph};
use super::state::{State, Where};
use crate::syntax::is_name;
use crate::syntax::tree::{Part, Raw};
use crate::word::{Riddle, Word};

/// One word that came out, and whether it may in truth be several.
pub(super) struct Field {
    pub(super) word: Word,
    pub(super) splits: bool,
    /// For a name that a glob matched: what is certain of it if files change before the glob is looked at.
    pattern: Option<Word>,
}

impl Field {
    pub(super) fn new(word: Word) -> Self {
        Self { word, splits: false, pattern: None }
    }

    /// Bash looks for files when all words of a command are expanded: what ran in a later one may have made some.
    pub(super) fn unsettle(&mut self) {
        if let Some(pattern) = self.pattern.take() {
            self.word = pattern;
        }
    }
}

/// How a word that stays one word is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Single {
    /// The value of an assignment: tildes after `=` and `:`.
    Value,
    /// Others.
    Plain,
}

/// Where in a word a tilde may stand for a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tildes {
    /// At its front only, as in what braces made: it is no assignment, even where it looks like one.
    Front,
    /// At its front, and in what looks like an assignment after `=` and `:`.
    Word,
    /// At its front and after every `:`.
    Value,
}

impl Reader<'_> {
    /// The words that a word becomes.
    pub(super) fn fields(&mut self, raw: &Raw, state: &mut State) -> Vec<Field> {
        let atoms = self.atoms(raw, state);
        let words = match braces::expand(&atoms) {
            Braced::Not => {
                let word = self.tilde(atoms, state, Tildes::Word);
                let mut fields = Vec::new();
                self.split(&word, state, &mut fields);
                return fields;
            }
            // Braces are expanded before the dollar is looked at: `$x{a,b}` is `$xa $xb`.
            Braced::Words(_) if raw.parts.iter().any(|part| matches!(part, Part::Parameter(_))) => {
                return vec![unknown("braces beside an expansion change what is expanded")];
            }
            Braced::Words(_) if atoms.contains(&Atom::Bare('$')) => {
                return vec![unknown("braces beside a dollar change what is expanded")];
            }
            Braced::Words(words) => words,
            Braced::Unbounded => return vec![unknown("its braces make more words than are followed")],
        };
        let mut fields = Vec::new();
        for word in words {
            let word = self.tilde(word, state, Tildes::Front);
            self.split(&word, state, &mut fields);
        }
        fields
    }

    /// The one word that a word stays where the shell does not split.
    pub(super) fn single(&mut self, raw: &Raw, state: &mut State, single: Single) -> Word {
        let atoms = self.atoms(raw, state);
        let tildes = if single == Single::Value { Tildes::Value } else { Tildes::Word };
        let atoms = self.tilde(atoms, state, tildes);
        whole(&atoms)
    }

    fn atoms(&mut self, raw: &Raw, state: &mut State) -> Vec<Atom> {
        let mut atoms = Vec::new();
        self.atoms_of(&raw.parts, false, state, &mut atoms);
        atoms
    }

    /// Expands parts; whatever runs in them is read on the way.
    pub(super) fn atoms_of(
        &mut self,
        parts: &[Part],
        quoted: bool,
        state: &mut State,
        atoms: &mut Vec<Atom>,
    ) {
        for part in parts {
            match part {
                Part::Bare(text) => atoms.extend(text.chars().map(Atom::Bare)),
                Part::Quoted(text) => {
                    atoms.push(Atom::Mark);
                    atoms.extend(text.chars().map(Atom::Exact));
                }
                Part::Double(inner) => {
                    let before = atoms.len();
                    self.atoms_of(inner, true, state, atoms);
                    // "$@" of nothing is no word at all.
                    let only_hole = inner.len() == 1
                        && matches!(atoms.get(before..), Some([Atom::Hole { splits: true, .. }]));
                    if !only_hole {
                        atoms.insert(before, Atom::Mark);
                    }
                }
                Part::Parameter(parameter) => self.parameter(parameter, quoted, state, atoms),
                Part::Command(list) => {
                    self.apart("substitution", list, state);
                    atoms.push(Atom::Hole { why: "it is what a command prints".to_owned(), splits: !quoted });
                }
                Part::Backquoted(text) => {
                    self.text_apart("substitution", text, state);
                    atoms.push(Atom::Hole { why: "it is what a command prints".to_owned(), splits: !quoted });
                }
                Part::Process(list) => {
                    state.settled = false;
                    self.apart("process substitution", list, state);
                    atoms.push(Atom::Hole { why: "it is a pipe to a command".to_owned(), splits: false });
                }
                Part::Arithmetic(inner) => {
                    self.arithmetic(inner, state);
                    atoms.push(Atom::Hole { why: "it is computed".to_owned(), splits: !quoted });
                }
                Part::Array(elements) => {
                    for element in elements {
                        self.fields(element, state);
                    }
                    atoms.push(Atom::Hole { why: "it is an array".to_owned(), splits: true });
                }
                Part::Opaque(why) => atoms.push(Atom::Hole { why: (*why).to_owned(), splits: false }),
            }
        }
    }

    /// Replaces `~` where it stands for a directory.
    fn tilde(&mut self, atoms: Vec<Atom>, state: &State, tildes: Tildes) -> Vec<Atom> {
        let is_value = tildes == Tildes::Value;
        if !atoms.contains(&Atom::Bare('~')) {
            return atoms;
        }
        // `NAME=~` counts in any word, also of a command that is no assignment.
        let equals = atoms.iter().position(|atom| *atom == Atom::Bare('='));
        let name: Option<String> = equals.and_then(|equals| {
            atoms
                .get(..equals)?
                .iter()
                .map(|atom| if let Atom::Bare(c) = atom { Some(*c) } else { None })
                .collect()
        });
        let after_name = equals.filter(|_| {
            tildes == Tildes::Word
                && name.as_deref().is_some_and(|name| is_name(name.strip_suffix('+').unwrap_or(name)))
        });
        // `a[1]=~` counts too, where the subscript is one.
        let subscripted = tildes == Tildes::Word && atoms.contains(&Atom::Bare('['));
        let mut expanded = Vec::new();
        let mut rest = atoms.iter().enumerate().peekable();
        while let Some((at, atom)) = rest.next() {
            let before = at.checked_sub(1).and_then(|before| atoms.get(before));
            let may = match before {
                None => true,
                Some(Atom::Bare('=')) => after_name == Some(at - 1),
                Some(Atom::Bare(':')) => is_value || after_name.is_some_and(|equals| at > equals),
                Some(_) => false,
            };
            if subscripted && *atom == Atom::Bare('~') && matches!(before, Some(Atom::Bare('=' | ':'))) {
                expanded.push(Atom::Hole {
                    why: "`~` after a subscript is not certain".to_owned(),
                    splits: false,
                });
                continue;
            }
            if !may || *atom != Atom::Bare('~') {
                expanded.push(atom.clone());
                continue;
            }
            let mut login = String::new();
            let mut plain = true;
            let mut colon = false;
            let assigns = is_value || after_name.is_some_and(|equals| at > equals);
            for atom in atoms.get(at + 1..).unwrap_or_default() {
                match atom {
                    Atom::Bare('/') => break,
                    Atom::Bare(':') if assigns => break,
                    Atom::Bare(c) => {
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
                // Bash ends the name here or does not, by what follows.
                expanded.push(Atom::Hole {
                    why: "what `~` stands for before a colon is not certain".to_owned(),
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
                "" => state.home(self.scene),
                "+" => match &state.place {
                    Where::At { logical, .. } if !state.is_set("PWD") => Some(logical.clone()),
                    _ => None,
                },
                _ => None,
            };
            match directory {
                Some(directory) => {
                    expanded.push(Atom::Mark);
                    expanded.extend(directory.chars().map(Atom::Exact));
                }
                None => expanded.push(Atom::Hole {
                    why: format!("`~{login}` is a directory that is not known"),
                    splits: false,
                }),
            }
        }
        expanded
    }

    /// Splits what is not quoted, and looks for files.
    fn split(&mut self, atoms: &[Atom], state: &State, fields: &mut Vec<Field>) {
        // A dollar that begins nothing keeps bash from splitting the word it stands in.
        let usual = state.splits_as_usual() && !atoms.contains(&Atom::Bare('$'));
        let doubtful = |atom: &Atom| match atom {
            Atom::Hole { splits, .. } => *splits,
            Atom::Split(text) => !usual || text.contains(['*', '?', '[', '\\']),
            _ => false,
        };
        if atoms.iter().any(|atom| doubtful(atom) || matches!(atom, Atom::Hole { .. })) {
            let splits = atoms.iter().any(|atom| doubtful(atom) || matches!(atom, Atom::Split(_)));
            let why = atoms
                .iter()
                .find_map(|atom| if let Atom::Hole { why, .. } = atom { Some(why.clone()) } else { None });
            let why = why.unwrap_or_else(|| "how its value is split is not certain".to_owned());
            let pieces = if splits { Vec::new() } else { certain_pieces(atoms) };
            let globs = atoms.iter().any(|atom| matches!(atom, Atom::Bare('*' | '?' | '[')));
            let one = !splits && !globs;
            fields.push(Field { splits, ..Field::new(Word::Unknown(Riddle { why, pieces, one })) });
            return;
        }
        let mut current: Vec<Glyph> = Vec::new();
        let mut present = false;
        let mut ready: Vec<Vec<Glyph>> = Vec::new();
        for atom in atoms {
            match atom {
                Atom::Bare(c) => current.push(Glyph { c: *c, quoted: false }),
                Atom::Exact(c) => current.push(Glyph { c: *c, quoted: true }),
                Atom::Mark => present = true,
                Atom::Split(text) => {
                    for c in text.chars() {
                        if matches!(c, ' ' | '\t' | '\n') {
                            if present || !current.is_empty() {
                                ready.push(std::mem::take(&mut current));
                            }
                            present = false;
                        } else {
                            current.push(Glyph { c, quoted: true });
                        }
                    }
                }
                Atom::Hole { .. } => {}
            }
        }
        if present || !current.is_empty() {
            ready.push(current);
        }
        for word in ready {
            if glob::is_glob(&word) {
                let pattern = glob::unknown(&word);
                let names = self.glob(&word, state).unwrap_or_else(|| vec![pattern.clone()]);
                fields.extend(
                    names
                        .into_iter()
                        .map(|name| Field { pattern: Some(pattern.clone()), ..Field::new(name) }),
                );
            } else {
                let text = word.iter().map(|glyph| glyph.c).collect();
                fields.push(Field::new(Word::Literal(text)));
            }
        }
    }
}

fn unknown(why: &str) -> Field {
    Field { splits: true, ..Field::new(Word::unknown(why)) }
}

/// Everything as one word.
fn whole(atoms: &[Atom]) -> Word {
    let why = atoms
        .iter()
        .find_map(|atom| if let Atom::Hole { why, .. } = atom { Some(why.clone()) } else { None });
    if let Some(why) = why {
        return Word::Unknown(Riddle { why, pieces: certain_pieces(atoms), one: true });
    }
    let mut text = String::new();
    for atom in atoms {
        match atom {
            Atom::Bare(c) | Atom::Exact(c) => text.push(*c),
            Atom::Split(value) => text.push_str(value),
            Atom::Mark | Atom::Hole { .. } => {}
        }
    }
    Word::Literal(text)
}

/// The stretches between holes, patterns taken out.
fn certain_pieces(atoms: &[Atom]) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut stretch: Vec<Glyph> = Vec::new();
    // A bracket that is not closed before a hole may be closed in it.
    let has_bracket = atoms.contains(&Atom::Bare('['));
    for atom in atoms {
        match atom {
            Atom::Bare(c) => stretch.push(Glyph { c: *c, quoted: false }),
            Atom::Exact(c) => stretch.push(Glyph { c: *c, quoted: true }),
            Atom::Split(text) => stretch.extend(text.chars().map(|c| Glyph { c, quoted: true })),
            Atom::Mark => {}
            Atom::Hole { .. } => pieces.extend(glob::pieces(&std::mem::take(&mut stretch))),
        }
    }
    pieces.extend(glob::pieces(&stretch));
    if has_bracket { Vec::new() } else { pieces }
}
