//! Look-alikes: characters that a person could mistake for others, above all for ASCII.
//!
//! A word in one script is honest, unless every letter of it can be mistaken for an ASCII one. A word that mixes scripts is not honest.

use unicode_security::mixed_script::AugmentedScriptSet;

use super::classify::{CharTreatment, ClassifiedChar, EscapeLevel};
use super::unicode::share_script;

/// The kind of a word with regard to look-alikes, or the kind of gap between two words.
#[derive(Clone, Copy)]
enum WordSegment {
    /// A gap of spaces and commas, as in a sentence.
    Sentence,
    /// Another gap.
    Break,
    /// A word that needs no further check.
    Word,
    /// A word of one script that cannot be mistaken for ASCII.
    SingleScript(AugmentedScriptSet),
    /// A word of one script whose letters can all be mistaken for ASCII.
    AllLookalike(AugmentedScriptSet),
}

/// Marks characters that look like others.
pub(super) fn mark_lookalikes(units: &mut [ClassifiedChar], care: EscapeLevel) {
    mark_symbols(units, care);
    let mut groups: Vec<&mut [ClassifiedChar]> =
        units.chunk_by_mut(|a, b| is_word(a) == is_word(b)).collect();
    let mut parts: Vec<WordSegment> = groups.iter_mut().map(|group| classify_word(group, care)).collect();
    if care == EscapeLevel::Text {
        accept_sentence_words(parts.iter_mut());
        accept_sentence_words(parts.iter_mut().rev());
    }
    for (group, part) in groups.iter_mut().zip(parts) {
        if matches!(part, WordSegment::AllLookalike(_)) {
            mark_units(group, |_| true);
        }
    }
}

fn is_word(unit: &ClassifiedChar) -> bool {
    unit.treatment != CharTreatment::Hidden && (unit.traits.word || unit.traits.mark)
}

/// Treats a short word like `с` or `а` as honest in a sentence of the same script.
fn accept_sentence_words<'a>(parts: impl Iterator<Item = &'a mut WordSegment>) {
    let mut voucher: Option<AugmentedScriptSet> = None;
    for part in parts {
        match *part {
            WordSegment::Sentence => {}
            WordSegment::Break | WordSegment::Word => voucher = None,
            WordSegment::SingleScript(script) => voucher = Some(script),
            WordSegment::AllLookalike(script) => {
                voucher = voucher.filter(|with| share_script(*with, script));
                if voucher.is_some() {
                    *part = WordSegment::SingleScript(script);
                }
            }
        }
    }
}

fn classify_word(group: &mut [ClassifiedChar], care: EscapeLevel) -> WordSegment {
    if !group.first().is_some_and(is_word) {
        let sentence =
            group.iter().all(|unit| matches!(unit.c, ' ' | ',')) && group.iter().any(|unit| unit.c == ' ');
        return if sentence { WordSegment::Sentence } else { WordSegment::Break };
    }
    if group.iter().all(|unit| unit.c.is_ascii()) {
        return WordSegment::Word;
    }
    mark_units(group, |unit| unit.traits.restricted && unit.traits.ascii_lookalike);
    let has_latin = group.iter().any(|unit| unit.traits.latin);
    let script = common_scripts(group.iter());
    if script.is_empty() {
        let others = common_scripts(group.iter().filter(|unit| !unit.traits.latin));
        if has_latin && (others.hanb || others.jpan || others.kore) {
            mark_units(group, |unit| unit.traits.ascii_lookalike);
        } else if has_latin {
            mark_units(group, |unit| !unit.traits.latin || unit.traits.letter_lookalike);
        } else {
            mark_units(group, |_| true);
        }
        return WordSegment::Word;
    }
    if has_latin {
        if care == EscapeLevel::Name {
            mark_units(group, |unit| unit.traits.letter_lookalike);
        }
        return WordSegment::Word;
    }
    if script.is_all() {
        return WordSegment::Word;
    }
    let masked = group.iter().all(|unit| unit.c.is_ascii() || unit.traits.ascii_lookalike);
    if masked { WordSegment::AllLookalike(script) } else { WordSegment::SingleScript(script) }
}

/// Marks the selected characters outside ASCII.
fn mark_units(group: &mut [ClassifiedChar], which: impl Fn(&ClassifiedChar) -> bool) {
    for unit in group {
        if unit.treatment != CharTreatment::Hidden && !unit.c.is_ascii() && which(unit) {
            unit.treatment = CharTreatment::Lookalike;
        }
    }
}

fn mark_symbols(units: &mut [ClassifiedChar], care: EscapeLevel) {
    let mut before = None;
    let mut rest = units;
    while let Some((unit, tail)) = rest.split_first_mut() {
        let after = tail.first().map(|next| next.c);
        if unit.treatment == CharTreatment::Plain && !unit.c.is_ascii() && !is_word(unit) {
            let at_home = care == EscapeLevel::Text
                && (is_typographic(unit.c)
                    || is_wide_form(unit.c) && (before.is_some_and(is_wide) || after.is_some_and(is_wide)));
            if !at_home && unit.traits.ascii_lookalike {
                unit.treatment = CharTreatment::Lookalike;
            }
        }
        before = Some(unit.c);
        rest = tail;
    }
}

/// Checks whether a character is a quote, dash or frame of ordinary prose or of drawings in text.
const fn is_typographic(c: char) -> bool {
    matches!(
        c,
        '‘' | '’'
            | '‚'
            | '“'
            | '”'
            | '„'
            | '‹'
            | '›'
            | '‐'
            | '–'
            | '−'
            | '…'
            | '×'
            | '№'
            | '׳'
            | '״'
            | '¼'
            | '½'
            | '¾'
            | '\u{2500}'..='\u{257f}'
    )
}

const fn is_wide_form(c: char) -> bool {
    matches!(c, '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' | '\u{ff3b}'..='\u{ff40}' | '\u{ff5b}'..='\u{ff65}')
}

const fn is_wide(c: char) -> bool {
    is_wide_form(c)
        || matches!(c, '\u{3001}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{20000}'..='\u{3ffff}')
}

fn common_scripts<'a>(units: impl Iterator<Item = &'a ClassifiedChar>) -> AugmentedScriptSet {
    let mut set = AugmentedScriptSet::default();
    for unit in units {
        set.intersect_with(unit.traits.script);
    }
    set
}
