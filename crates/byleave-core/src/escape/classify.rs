//! Decides how each character is shown: plain, with its code point, or as its code point.

use super::unicode::{CharProperties, is_normal};

/// The maximum number of marks on one base. More would only pile up.
const MARKS_MAX: usize = 4;

/// The strictness of the escaping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscapeLevel {
    /// A name, a path, an address, a word of a command. Every look-alike is marked.
    Name,
    /// Text of several lines. Typographic quotes and dashes are not marked, nor are words among others of their script.
    Text,
}

/// The way in which a character is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CharTreatment {
    /// Shown.
    Plain,
    /// Shown as its code point.
    Hidden,
    /// Shown, with its code point.
    Lookalike,
    /// Shown inside a right-to-left fence.
    Rtl,
}

/// A character and its treatment.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassifiedChar {
    pub(super) c: char,
    pub(super) treatment: CharTreatment,
    pub(super) traits: CharProperties,
}

impl ClassifiedChar {
    pub(super) const fn new(c: char, traits: CharProperties) -> Self {
        Self {
            c,
            treatment: if traits.printable { CharTreatment::Plain } else { CharTreatment::Hidden },
            traits,
        }
    }
}

/// Decides on marks and their bases.
///
/// Plain characters are in normal form C, so two spellings of one shape (`é` as one or as two code points) never look the same.
pub(super) fn classify_clusters(units: &mut [ClassifiedChar]) {
    let mut rest = units;
    while let Some((base, tail)) = rest.split_first_mut() {
        let marks = tail.iter().take_while(|unit| unit.traits.mark).count();
        let (marks, tail) = tail.split_at_mut(marks);
        classify_cluster(base, marks);
        rest = tail;
    }
}

fn classify_cluster(base: &mut ClassifiedChar, marks: &mut [ClassifiedChar]) {
    if base.c.is_ascii() && marks.is_empty() {
        return;
    }
    // A mark at the very start, or on a blank, has no base of its own.
    let carries = base.treatment == CharTreatment::Plain && base.traits.word && !base.traits.mark;
    if base.traits.mark {
        base.treatment = CharTreatment::Hidden;
    }
    for (place, mark) in marks.iter_mut().enumerate() {
        if !carries || place >= MARKS_MAX || mark.traits.enclosing {
            mark.treatment = CharTreatment::Hidden;
        }
    }
    let shown = marks.iter().take_while(|mark| mark.treatment == CharTreatment::Plain).count();
    for mark in marks.iter_mut().skip(shown) {
        mark.treatment = CharTreatment::Hidden;
    }
    if base.treatment != CharTreatment::Plain {
        return;
    }
    let general = marks.iter().take(shown).any(|mark| mark.traits.script.is_all());
    let normal = if shown == 0 {
        base.traits.normal
    } else {
        is_normal(std::iter::once(base.c).chain(marks.iter().take(shown).map(|mark| mark.c)))
    };
    if general || !normal {
        base.treatment = CharTreatment::Lookalike;
        for mark in marks.iter_mut().take(shown) {
            mark.treatment = CharTreatment::Lookalike;
        }
    }
}

/// Fences right-to-left runs: several words in prose, one word each in names.
pub(super) fn fence_rtl(units: &mut [ClassifiedChar], care: EscapeLevel) {
    for unit in units.iter_mut() {
        if unit.treatment == CharTreatment::Plain && unit.traits.rtl {
            unit.treatment = CharTreatment::Rtl;
        }
    }
    apply_base_treatment(units);
    if care == EscapeLevel::Name {
        return;
    }
    let mut rest = units;
    while let Some((first, tail)) = rest.split_first_mut() {
        if first.treatment == CharTreatment::Rtl {
            let glue = connector_len(tail);
            for unit in tail.iter_mut().take(glue) {
                unit.treatment = CharTreatment::Rtl;
            }
        }
        rest = tail;
    }
}

/// Gives marks the treatment of their base. A mark that cannot have it is written as a code point, so that none is drawn on our own signs.
fn apply_base_treatment(units: &mut [ClassifiedChar]) {
    let mut before = CharTreatment::Hidden;
    for unit in units {
        if unit.traits.mark && unit.treatment != before {
            unit.treatment =
                if unit.treatment == CharTreatment::Plain { before } else { CharTreatment::Hidden };
        }
        before = unit.treatment;
    }
}

/// Returns the number of characters between two right-to-left words that belong to the same sentence.
fn connector_len(after: &[ClassifiedChar]) -> usize {
    let fates = |n: usize| after.get(n).map(|unit| unit.treatment);
    match after {
        [space, ..] if space.c == ' ' && fates(1) == Some(CharTreatment::Rtl) => 1,
        [stop, space, ..]
            if matches!(stop.c, ',' | '.' | '?' | '!' | ':')
                && space.c == ' '
                && fates(2) == Some(CharTreatment::Rtl) =>
        {
            2
        }
        _ => 0,
    }
}
