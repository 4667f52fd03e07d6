//! Properties of single characters, from the tables of Unicode.

use unicode_normalization::{IsNormalized, is_nfc, is_nfc_quick};
use unicode_properties::{GeneralCategory as Gc, UnicodeGeneralCategory as _};
use unicode_security::mixed_script::AugmentedScriptSet;
use unicode_security::{GeneralSecurityProfile as _, skeleton};

/// The opening bracket of our marks. In the text it is itself written as a code point.
pub const MARK_OPEN: char = '⟨';
/// The closing bracket of our marks.
pub const MARK_CLOSE: char = '⟩';
/// The sign for a tab.
pub const TAB_MARK: char = '⇥';

/// The properties of a character.
#[derive(Clone, Copy, Debug)]
pub(super) struct CharProperties {
    /// It has a shape, and is not one of our signs.
    pub(super) printable: bool,
    /// It is a letter or a digit.
    pub(super) word: bool,
    /// It is drawn onto the character before it.
    pub(super) mark: bool,
    /// It is drawn around the character before it.
    pub(super) enclosing: bool,
    /// It is by itself in normal form C, and not a part of a syllable.
    pub(super) normal: bool,
    /// It is from a right-to-left script.
    pub(super) rtl: bool,
    /// It is a Latin letter.
    pub(super) latin: bool,
    /// It is not allowed in names by the general security profile.
    pub(super) restricted: bool,
    /// It is outside ASCII, and can be mistaken for ASCII.
    pub(super) ascii_lookalike: bool,
    /// It is outside ASCII, and can be mistaken for a single ASCII character: `ı` can, `æ` cannot.
    pub(super) letter_lookalike: bool,
    /// The scripts that it belongs to.
    pub(super) script: AugmentedScriptSet,
}

/// A cache of properties. A text has few different characters, and the tables are slow.
#[derive(Default)]
pub(super) struct CharPropertyCache {
    slots: Vec<Option<(char, CharProperties)>>,
}

const SLOTS: usize = 1024;

impl CharPropertyCache {
    /// Returns the properties of a character.
    pub(super) fn get(&mut self, c: char) -> CharProperties {
        if self.slots.is_empty() {
            self.slots = vec![None; SLOTS];
        }
        let Some(slot) = self.slots.get_mut(c as usize % SLOTS) else { return look_up(c) };
        match slot {
            Some((known, traits)) if *known == c => *traits,
            _ => slot.insert((c, look_up(c))).1,
        }
    }
}

fn look_up(c: char) -> CharProperties {
    let script = AugmentedScriptSet::for_char(c);
    CharProperties {
        printable: is_printable(c) && !is_bracket(c) && c != TAB_MARK,
        word: c.is_alphanumeric(),
        mark: is_mark(c),
        enclosing: c.general_category() == Gc::EnclosingMark,
        normal: !is_conjoining(c) && is_normal(std::iter::once(c)),
        rtl: is_rtl(c),
        latin: !script.is_all() && share_script(script, AugmentedScriptSet::for_char('a')),
        restricted: !c.identifier_allowed(),
        ascii_lookalike: !c.is_ascii() && is_ascii_lookalike(c),
        letter_lookalike: !c.is_ascii() && is_letter_lookalike(c),
        script,
    }
}

/// Checks whether two sets of scripts have one in common.
pub(super) fn share_script(mut a: AugmentedScriptSet, b: AugmentedScriptSet) -> bool {
    a.intersect_with(b);
    !a.is_empty()
}

/// Checks whether a character has a shape of its own, moves no others, and is not an odd space.
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
    // Letters, marks and symbols by category that are blank on the screen.
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

/// Checks whether a character is drawn onto the one before it.
pub fn is_mark(c: char) -> bool {
    !c.is_ascii() && matches!(c.general_category(), Gc::NonspacingMark | Gc::SpacingMark | Gc::EnclosingMark)
}

/// Checks whether a character is one of our brackets, or can be mistaken for one.
pub(super) const fn is_bracket(c: char) -> bool {
    matches!(
        c,
        MARK_OPEN
            | MARK_CLOSE
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

/// Checks whether a text is in normal form C.
pub(super) fn is_normal(text: impl Iterator<Item = char> + Clone) -> bool {
    match is_nfc_quick(text.clone()) {
        IsNormalized::Yes => true,
        IsNormalized::No => false,
        IsNormalized::Maybe => is_nfc(&text.collect::<String>()),
    }
}

/// Checks whether a character is a part of a Hangul syllable. Such parts are drawn as if they were the syllable.
const fn is_conjoining(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}' | '\u{a960}'..='\u{a97f}' | '\u{d7b0}'..='\u{d7ff}')
}

/// Checks whether a character is in the ranges that Unicode reserves for right-to-left scripts, including their digits and signs.
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

/// Checks whether a character outside ASCII can be mistaken for ASCII.
fn is_ascii_lookalike(c: char) -> bool {
    // Similar enough in most fonts, and not in the tables.
    if matches!(c, 'к' | 'κ' | 'τ' | 'ι' | 'η' | 'п' | 'г') {
        return true;
    }
    let mut buffer = [0; 4];
    skeleton(c.encode_utf8(&mut buffer)).all(|s| s.is_ascii())
}

/// Checks whether a letter can be mistaken for a single ASCII letter: `ı` can, `æ` cannot.
fn is_letter_lookalike(c: char) -> bool {
    let mut buffer = [0; 4];
    let mut shape = skeleton(c.encode_utf8(&mut buffer));
    shape.next().is_some_and(|first| first.is_ascii()) && shape.next().is_none()
}
