//! Brace expansion over atoms. Quoted text and the results of expansions do not take part.

use super::atom::WordAtom;

/// The most words that one word may become.
const ALTERNATIVES_MAX: usize = 512;

/// The result of brace expansion.
pub(super) enum BraceExpansion {
    /// There are no effective braces.
    NoBraces,
    /// The resulting words.
    Words(Vec<Vec<WordAtom>>),
    /// There are more words than the limit, or shells differ.
    Unbounded,
}

pub(super) fn expand(atoms: &[WordAtom]) -> BraceExpansion {
    if !atoms.contains(&WordAtom::Bare('{')) {
        return BraceExpansion::NoBraces;
    }
    let mut budget = ALTERNATIVES_MAX;
    match alternatives(atoms, &mut budget, 0) {
        Some(words) if matches!(words.as_slice(), [only] if only.as_slice() == atoms) => {
            BraceExpansion::NoBraces
        }
        Some(words) => BraceExpansion::Words(words),
        None => BraceExpansion::Unbounded,
    }
}

fn alternatives(atoms: &[WordAtom], budget: &mut usize, depth: usize) -> Option<Vec<Vec<WordAtom>>> {
    if depth > 16 {
        return None;
    }
    for (open, atom) in atoms.iter().enumerate() {
        // `{}` at the front is the placeholder of `find` and `xargs`.
        let filled = open == 0 && atoms.get(1) == Some(&WordAtom::Bare('}'));
        if *atom != WordAtom::Bare('{') || filled {
            continue;
        }
        let Some(close) = closing(atoms, open) else { continue };
        let inner = atoms.get(open + 1..close)?;
        let middles = if let Some(pieces) = pieces(inner) {
            let mut middles = Vec::new();
            for piece in pieces {
                middles.extend(alternatives(piece, budget, depth + 1)?);
            }
            middles
        } else {
            match sequence(inner) {
                BraceSequence::NotASequence => continue,
                BraceSequence::Unbounded => return None,
                BraceSequence::Items(items) => items,
            }
        };
        let before = atoms.get(..open)?;
        let tails = alternatives(atoms.get(close + 1..)?, budget, depth + 1)?;
        let mut words = Vec::new();
        for middle in &middles {
            for tail in &tails {
                *budget = budget.checked_sub(1)?;
                let mut word = before.to_vec();
                word.extend(middle.iter().cloned());
                word.extend(tail.iter().cloned());
                words.push(word);
            }
        }
        return Some(words);
    }
    Some(vec![atoms.to_vec()])
}

/// Returns the position of the closing brace. A brace before any comma or `..` is an ordinary character.
fn closing(atoms: &[WordAtom], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut parts = false;
    for (at, atom) in atoms.iter().enumerate().skip(open + 1) {
        match atom {
            WordAtom::Bare('{') => depth += 1,
            WordAtom::Bare('}') if depth > 0 => depth -= 1,
            WordAtom::Bare('}') if parts => return Some(at),
            WordAtom::Bare(',') if depth == 0 => parts = true,
            WordAtom::Bare('.') if depth == 0 && atoms.get(at + 1) == Some(&WordAtom::Bare('.')) => {
                parts |= atoms.get(at + 2) != Some(&WordAtom::Bare('}'));
            }
            _ => {}
        }
    }
    None
}

/// Returns the pieces between commas, or `None` without a comma.
fn pieces(inner: &[WordAtom]) -> Option<Vec<&[WordAtom]>> {
    let mut depth = 0_usize;
    let mut start = 0;
    let mut pieces = Vec::new();
    for (at, atom) in inner.iter().enumerate() {
        match atom {
            WordAtom::Bare('{') => depth += 1,
            WordAtom::Bare('}') => depth = depth.saturating_sub(1),
            WordAtom::Bare(',') if depth == 0 => {
                pieces.push(inner.get(start..at)?);
                start = at + 1;
            }
            _ => {}
        }
    }
    if pieces.is_empty() {
        return None;
    }
    pieces.push(inner.get(start..)?);
    Some(pieces)
}

enum BraceSequence {
    NotASequence,
    Items(Vec<Vec<WordAtom>>),
    Unbounded,
}

/// Reads `1..5` or `a..e`, with an optional step.
fn sequence(inner: &[WordAtom]) -> BraceSequence {
    let mut text = String::new();
    for atom in inner {
        match atom {
            WordAtom::Bare(c) => text.push(*c),
            // Quotes and expansions within a sequence are rare, and shells differ.
            _ if text.contains("..") => return BraceSequence::Unbounded,
            _ => text.push('\u{0}'),
        }
    }
    if !text.contains("..") {
        return BraceSequence::NotASequence;
    }
    let ends: Vec<&str> = text.split("..").collect();
    let (first, last, step) = match ends.as_slice() {
        [first, last] => (*first, *last, "1"),
        [first, last, step] => (*first, *last, *step),
        _ => return BraceSequence::Unbounded,
    };
    let Ok(step) = step.parse::<i64>() else { return BraceSequence::Unbounded };
    let step = if step == 0 { 1 } else { step.unsigned_abs() };
    let items = match (first.parse::<i64>(), last.parse::<i64>()) {
        (Ok(from), Ok(to)) if is_plain(first) && is_plain(last) => between(from, to, step, |n| n.to_string()),
        _ => {
            let (mut one, mut two) = (first.chars(), last.chars());
            let (Some(from), None, Some(to), None) = (one.next(), one.next(), two.next(), two.next()) else {
                return BraceSequence::Unbounded;
            };
            let same = (from.is_ascii_lowercase() && to.is_ascii_lowercase())
                || (from.is_ascii_uppercase() && to.is_ascii_uppercase());
            if !same {
                return BraceSequence::Unbounded;
            }
            between(i64::from(u32::from(from)), i64::from(u32::from(to)), step, |n| {
                u32::try_from(n).ok().and_then(char::from_u32).map_or_else(String::new, |c| c.to_string())
            })
        }
    };
    match items {
        Some(items) => BraceSequence::Items(
            items.iter().map(|item| item.chars().map(WordAtom::Bare).collect()).collect(),
        ),
        None => BraceSequence::Unbounded,
    }
}

/// Checks for a number without leading zeros or a plus, because leading zeros would pad the result.
fn is_plain(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits == "0" || (digits.starts_with(|c: char| c.is_ascii_digit() && c != '0') && digits.len() < 10)
}

fn between(from: i64, to: i64, step: u64, text: impl Fn(i64) -> String) -> Option<Vec<String>> {
    let count = from.abs_diff(to) / step + 1;
    if count > ALTERNATIVES_MAX as u64 {
        return None;
    }
    let step = i64::try_from(step).ok()?;
    let step = if from <= to { step } else { -step };
    let mut items = Vec::new();
    let mut at = from;
    for _ in 0..count {
        items.push(text(at));
        at = at.checked_add(step)?;
    }
    Some(items)
}
