//! What becomes of each character: shown, shown with its code point, or shown as its code point.

use unicode_normalization::is_nfc;
use unicode_properties::{GeneralCategory as Gc, UnicodeGeneralCategory as _};
use unicode_security::mixed_script::AugmentedScriptSet;

/// Opens a mark of ours; in the text it is itself written as a code point.
pub const OPEN: char = '⟨';
/// Closes a mark of ours.
pub const CLOSE: char = '⟩';
/// Stands for a tab.
pub const TAB: char = '⇥';

/// Marks on one base before they only pile up.
const MARKS_MAX: usize = 4;

/// How strictly a text is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// A name, a path, an address, a word of a command: every look-alike is marked.
    Name,
    /// Text of several lines: typographic quotes and dashes, and words among others of their script, are left alone.
    Text,
}

/// What becomes of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Shown.
    Plain,
    /// Shown as its code point.
    Hidden,
    /// Shown, with its code point.
    Alike,
    /// Shown inside a right-to-left fence.
    Rtl,
}

/// A character and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) c: char,
    pub(super) fate: Fate,
}

impl Unit {
    pub(super) fn new(c: char) -> Self {
        let shown = is_printable(c) && !is_bracket(c) && c != TAB;
        Self { c, fate: if shown { Fate::Plain } else { Fate::Hidden } }
    }
}

/// Whether a character has a shape of its own, moves nothing about, and is no odd space.
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let shapeless = matches!(
        c.general_category(),
        Gc::Control
            | Gc::Format
            | Gc::Surrogate
            | Gc::PrivateUse
            | Gc::Unassigned
            | Gc::SpaceSeparator
            | Gc::LineSeparator
            | Gc::ParagraphSeparator
    );
    // Letters, marks and symbols by category, blank on the screen.
    let blank = matches!(
        c,
        '\u{34f}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffc}'
            | '\u{16fe4}'
            | '\u{1d159}'
            | '\u{e0000}'..='\u{e0fff}'
    );
    !shapeless && !blank
}

/// Whether a character is drawn onto the one before it.
pub fn is_mark(c: char) -> bool {
    !c.is_ascii() && matches!(c.general_category(), Gc::NonspacingMark | Gc::SpacingMark | Gc::EnclosingMark)
}

/// Whether a character is one of our brackets, or would pass for one.
pub(super) const fn is_bracket(c: char) -> bool {
    matches!(
        c,
        OPEN | CLOSE
            | '\u{2329}'
            | '\u{232a}'
            | '\u{3008}'
            | '\u{3009}'
            | '\u{276c}'
            | '\u{276d}'
            | '\u{2770}'
            | '\u{2771}'
            | '\u{29fc}'
            | '\u{29fd}'
    )
}

/// Decides on marks and the bases they stand on.
///
/// What stays plain is in normal form C, so two spellings of one shape (`é` as one or as two code points) never look the same.
pub(super) fn settle_clusters(units: &mut [Unit]) {
    let mut rest = units;
    while let Some((base, tail)) = rest.split_first_mut() {
        let marks = tail.iter().take_while(|unit| is_mark(unit.c)).count();
        let (marks, tail) = tail.split_at_mut(marks);
        settle_cluster(base, marks);
        rest = tail;
    }
}

fn settle_cluster(base: &mut Unit, marks: &mut [Unit]) {
    if base.c.is_ascii() && marks.is_empty() {
        return;
    }
    // A mark at the very start, or on a blank, has nothing of its own to stand on.
    let carries = base.fate == Fate::Plain && base.c.is_alphanumeric() && !is_mark(base.c);
    if is_mark(base.c) {
        base.fate = Fate::Hidden;
    }
    for (place, mark) in marks.iter_mut().enumerate() {
        if !carries || place >= MARKS_MAX || mark.c.general_category() == Gc::EnclosingMark {
            mark.fate = Fate::Hidden;
        }
    }
    let shown = marks.iter().take_while(|mark| mark.fate == Fate::Plain).count();
    for mark in marks.iter_mut().skip(shown) {
        mark.fate = Fate::Hidden;
    }
    if base.fate != Fate::Plain {
        return;
    }
    let general = marks.iter().take(shown).any(|mark| AugmentedScriptSet::for_char(mark.c).is_all());
    let text = std::iter::once(base.c).chain(marks.iter().take(shown).map(|mark| mark.c));
    if general || is_conjoining(base.c) || !is_nfc_all(text) {
        base.fate = Fate::Alike;
        for mark in marks.iter_mut().take(shown) {
            mark.fate = Fate::Alike;
        }
    }
}

fn is_nfc_all(text: impl Iterator<Item = char>) -> bool {
    let text: String = text.collect();
    is_nfc(&text)
}

/// The parts of Hangul syllables, which are drawn as if they were the syllable.
const fn is_conjoining(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}' | '\u{a960}'..='\u{a97f}' | '\u{d7b0}'..='\u{d7ff}')
}

/// Lets marks share the fate of the base they stand on.
pub(super) fn follow_bases(units: &mut [Unit]) {
    let mut before = Fate::Hidden;
    for unit in units {
        if unit.fate == Fate::Plain && is_mark(unit.c) {
            unit.fate = before;
        }
        before = unit.fate;
    }
}

/// Puts right-to-left runs behind a fence: in prose over several words, in names one word each.
pub(super) fn fence_rtl(units: &mut [Unit], care: Care) {
    for unit in units.iter_mut() {
        if unit.fate == Fate::Plain && is_rtl(unit.c) {
            unit.fate = Fate::Rtl;
        }
    }
    if care == Care::Name {
        return;
    }
    let mut rest = units;
    while let Some((first, tail)) = rest.split_first_mut() {
        if first.fate == Fate::Rtl {
            let glue = glue(tail);
            for unit in tail.iter_mut().take(glue) {
                unit.fate = Fate::Rtl;
            }
        }
        rest = tail;
    }
}

/// How many characters between two right-to-left words belong to the sentence that both are in.
fn glue(after: &[Unit]) -> usize {
    let fates = |n: usize| after.get(n).map(|unit| unit.fate);
    match after {
        [space, ..] if space.c == ' ' && fates(1) == Some(Fate::Rtl) => 1,
        [stop, space, ..]
            if matches!(stop.c, ',' | '.' | '?' | '!' | ':')
                && space.c == ' '
                && fates(2) == Some(Fate::Rtl) =>
        {
            2
        }
        _ => 0,
    }
}

/// The ranges that Unicode sets aside for right-to-left scripts, their digits and signs included.
const fn is_rtl(c: char) -> bool {
    matches!(
        c,
        '\u{590}'..='\u{8ff}'
            | '\u{fb1d}'..='\u{fdff}'
            | '\u{fe70}'..='\u{feff}'
            | '\u{10800}'..='\u{10fff}'
            | '\u{1e800}'..='\u{1efff}'
    )
}
