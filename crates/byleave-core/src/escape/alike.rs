//! Look-alikes: characters that a person would take for others, above all for ASCII.
//!
//! A word all in one script is honest, unless every letter of it passes for an ASCII one. A word that mixes scripts is not.

use unicode_security::mixed_script::AugmentedScriptSet;

use super::fate::{Care, Fate, Unit};
use super::glyph::shares;

/// What a word is, as far as look-alikes go; or what stands between two words.
#[derive(Clone, Copy)]
enum Part {
    /// Nothing between the words but a space, as in a sentence.
    Sentence,
    /// Something else between the words.
    Break,
    /// A word of which nothing more is to be said.
    Word,
    /// A word of one script that cannot be taken for ASCII.
    Honest(AugmentedScriptSet),
    /// A word of one script, every letter of which can.
    Masked(AugmentedScriptSet),
}

/// Marks what looks like something else.
pub(super) fn mark(units: &mut [Unit], care: Care) {
    mark_symbols(units, care);
    let mut groups: Vec<&mut [Unit]> = units.chunk_by_mut(|a, b| is_word(a) == is_word(b)).collect();
    let mut parts: Vec<Part> = groups.iter_mut().map(|group| judge(group, care)).collect();
    if care == Care::Text {
        vouch(parts.iter_mut());
        vouch(parts.iter_mut().rev());
    }
    for (group, part) in groups.iter_mut().zip(parts) {
        if matches!(part, Part::Masked(_)) {
            set_alike(group, |_| true);
        }
    }
}

fn is_word(unit: &Unit) -> bool {
    unit.fate != Fate::Hidden && (unit.traits.word || unit.traits.mark)
}

/// In a sentence of a script, a short word like `с` or `а` is just that.
fn vouch<'a>(parts: impl Iterator<Item = &'a mut Part>) {
    let mut voucher: Option<AugmentedScriptSet> = None;
    for part in parts {
        match *part {
            Part::Sentence => {}
            Part::Break | Part::Word => voucher = None,
            Part::Honest(script) => voucher = Some(script),
            Part::Masked(script) => {
                voucher = voucher.filter(|with| shares(*with, script));
                if voucher.is_some() {
                    *part = Part::Honest(script);
                }
            }
        }
    }
}

fn judge(group: &mut [Unit], care: Care) -> Part {
    if !group.first().is_some_and(is_word) {
        let sentence =
            group.iter().all(|unit| matches!(unit.c, ' ' | ',')) && group.iter().any(|unit| unit.c == ' ');
        return if sentence { Part::Sentence } else { Part::Break };
    }
    if group.iter().all(|unit| unit.c.is_ascii()) {
        return Part::Word;
    }
    set_alike(group, |unit| unit.traits.odd && unit.traits.like_ascii);
    let has_latin = group.iter().any(|unit| unit.traits.latin);
    let script = resolve(group.iter());
    if script.is_empty() {
        let others = resolve(group.iter().filter(|unit| !unit.traits.latin));
        if has_latin && (others.hanb || others.jpan || others.kore) {
            set_alike(group, |unit| unit.traits.like_ascii);
        } else if has_latin {
            set_alike(group, |unit| !unit.traits.latin || unit.traits.like_letter);
        } else {
            set_alike(group, |_| true);
        }
        return Part::Word;
    }
    if has_latin {
        if care == Care::Name {
            set_alike(group, |unit| unit.traits.like_letter);
        }
        return Part::Word;
    }
    if script.is_all() {
        return Part::Word;
    }
    let masked = group.iter().all(|unit| unit.c.is_ascii() || unit.traits.like_ascii);
    if masked { Part::Masked(script) } else { Part::Honest(script) }
}

/// Marks those outside ASCII that are meant.
fn set_alike(group: &mut [Unit], which: impl Fn(&Unit) -> bool) {
    for unit in group {
        if unit.fate != Fate::Hidden && !unit.c.is_ascii() && which(unit) {
            unit.fate = Fate::Alike;
        }
    }
}

fn mark_symbols(units: &mut [Unit], care: Care) {
    let mut before = None;
    let mut rest = units;
    while let Some((unit, tail)) = rest.split_first_mut() {
        let after = tail.first().map(|next| next.c);
        if unit.fate == Fate::Plain && !unit.c.is_ascii() && !is_word(unit) {
            let at_home = care == Care::Text
                && (is_typographic(unit.c)
                    || is_wide_form(unit.c) && (before.is_some_and(is_wide) || after.is_some_and(is_wide)));
            if !at_home && unit.traits.like_ascii {
                unit.fate = Fate::Alike;
            }
        }
        before = Some(unit.c);
        rest = tail;
    }
}

/// Quotes, dashes and frames of ordinary prose and of drawings in text.
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

fn resolve<'a>(units: impl Iterator<Item = &'a Unit>) -> AugmentedScriptSet {
    let mut set = AugmentedScriptSet::default();
    for unit in units {
        set.intersect_with(unit.traits.script);
    }
    set
}
