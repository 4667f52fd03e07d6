//! Searches tools by words (G3): a BM25 ranking over names, aliases, hints and descriptions.
//!
//! Each tool has its own small index, built once at registration. A query scans all of them. No shared index has to be
//! rebuilt at registration or could block a reader.

use byleave_core::manifest::Manifest;

/// The weight of a word by field.
const NAME_WEIGHT: f32 = 4.0;
const ALIAS_WEIGHT: f32 = 3.0;
const HINT_WEIGHT: f32 = 2.0;
const DESCRIPTION_WEIGHT: f32 = 1.0;
/// The bonus for a match of the exact name, or of its prefix.
const EXACT_NAME_BONUS: f32 = 1_000.0;
const NAME_PREFIX_BONUS: f32 = 10.0;
/// The usual constants of BM25: the saturation of repetition, and the penalty for long texts.
const BM25_K1: f32 = 1.2;
const BM25_B: f32 = 0.5;
/// The minimum length for prefix matches. Shorter words must match exactly.
const PREFIX_CHARS_MIN: usize = 3;
/// The weight of a prefix match relative to an exact match.
const PREFIX_MATCH_WEIGHT: f32 = 0.5;
/// The maximum number of query words. Further words are ignored.
const QUERY_WORDS_MAX: usize = 16;
const QUERY_CHARS_MAX: usize = 512;
const TEXT_CHARS_MAX: usize = 4_096;

/// The searchable words of one tool.
#[derive(Debug)]
pub(crate) struct ToolDocument {
    /// A bit set of word prefixes. It alone rules out most documents.
    prefixes: u128,
    /// The sorted words, concatenated.
    text: Box<[u8]>,
    words: Box<[IndexedWord]>,
    length: f32,
    /// The names, in lower case.
    names: Box<[Box<str>]>,
}

#[derive(Debug)]
struct IndexedWord {
    start: u32,
    end: u32,
    weight: f32,
}

impl ToolDocument {
    /// Builds the document of a manifest.
    pub(crate) fn from_manifest(manifest: &Manifest) -> Self {
        let mut words: Vec<(String, f32)> = Vec::new();
        let mut take = |text: &str, weight: f32| {
            words.extend(tokenize(text, TEXT_CHARS_MAX).into_iter().map(|word| (word, weight)));
        };
        take(&manifest.name, NAME_WEIGHT);
        manifest.aliases.iter().for_each(|alias| take(alias, ALIAS_WEIGHT));
        take(manifest.search_hint.as_deref().unwrap_or_default(), HINT_WEIGHT);
        take(&manifest.description, DESCRIPTION_WEIGHT);
        words.sort_by(|a, b| a.0.cmp(&b.0));
        words.dedup_by(|later, first| {
            let same = later.0 == first.0;
            if same {
                first.1 += later.1;
            }
            same
        });
        let mut text = String::new();
        let mut marks = Vec::with_capacity(words.len());
        let mut length = 0.0;
        let mut beginnings = 0;
        for (word, weight) in words {
            beginnings |= prefix_bit(word.as_bytes());
            let start = u32::try_from(text.len()).unwrap_or(u32::MAX);
            text.push_str(&word);
            let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
            marks.push(IndexedWord { start, end, weight });
            length += weight;
        }
        let names = std::iter::once(&manifest.name).chain(&manifest.aliases);
        Self {
            prefixes: beginnings,
            text: text.into_bytes().into(),
            words: marks.into(),
            length,
            names: names.map(|name| name.to_lowercase().into()).collect(),
        }
    }

    /// Returns the frequency of a query word. Exact matches have full weight, prefix matches less.
    fn frequency(&self, query: &QueryWord) -> f32 {
        if self.prefixes & query.prefix == 0 {
            return 0.0;
        }
        let mut sum = 0.0;
        for word in &self.words {
            let Some(text) = self.text.get(word.start as usize..word.end as usize) else { continue };
            match text.strip_prefix(query.text.as_bytes()) {
                Some([]) => sum += word.weight,
                Some(_) if query.text.len() >= PREFIX_CHARS_MIN => sum += word.weight * PREFIX_MATCH_WEIGHT,
                Some(_) => {}
                // The words are sorted, so no later one can match.
                None if text > query.text.as_bytes() => break,
                None => {}
            }
        }
        sum
    }

    fn name_bonus(&self, query: &str) -> f32 {
        let bonus = |name: &str| match name.strip_prefix(query) {
            Some("") => EXACT_NAME_BONUS,
            Some(_) => NAME_PREFIX_BONUS,
            None => 0.0,
        };
        self.names.iter().map(|name| bonus(name)).fold(0.0, f32::max)
    }
}

/// Ranks the documents by relevance to the query, best first. Returns at most `limit` indexes of the input.
///
/// Equal results keep the order of the input, so the same query always has the same result.
pub(crate) fn rank<'a>(
    documents: impl ExactSizeIterator<Item = &'a ToolDocument>,
    query: &str,
    limit: usize,
) -> Vec<usize> {
    let name: String = query.trim().to_lowercase().chars().take(QUERY_CHARS_MAX).collect();
    let mut words = tokenize(query, QUERY_CHARS_MAX);
    words.sort();
    words.dedup();
    words.truncate(QUERY_WORDS_MAX);
    let words: Vec<QueryWord> = words.into_iter().map(QueryWord::new).collect();
    if name.is_empty() {
        return Vec::new();
    }
    let count = documents.len();
    let mut total_length = 0.0;
    let mut holders = vec![0_u32; words.len()];
    let mut hits: Vec<SearchHit> = Vec::new();
    for (place, document) in documents.enumerate() {
        total_length += document.length;
        let bonus = document.name_bonus(&name);
        let frequencies: [f32; QUERY_WORDS_MAX] = std::array::from_fn(|i| match words.get(i) {
            Some(word) => document.frequency(word),
            None => 0.0,
        });
        let mut found = bonus > 0.0;
        for (holder, frequency) in holders.iter_mut().zip(frequencies) {
            *holder += u32::from(frequency > 0.0);
            found |= frequency > 0.0;
        }
        if found {
            hits.push(SearchHit { index: place, length: document.length, bonus, frequencies });
        }
    }
    let mean_length = (total_length / as_f32(count)).max(1.0);
    let rarity: Vec<f32> = holders
        .iter()
        .map(|&holders| {
            let holders = as_f32(holders as usize);
            (1.0 + (as_f32(count) - holders + 0.5) / (holders + 0.5)).ln()
        })
        .collect();
    let mut scores: Vec<(f32, usize)> = hits
        .iter()
        .map(|hit| {
            let held_back = BM25_K1 * (1.0 - BM25_B + BM25_B * hit.length / mean_length);
            let words = hit.frequencies.iter().zip(&rarity);
            let sum: f32 = words.map(|(f, rarity)| rarity * f * (BM25_K1 + 1.0) / (f + held_back)).sum();
            (hit.bonus + sum, hit.index)
        })
        .collect();
    let order = |a: &(f32, usize), b: &(f32, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    if limit < scores.len() {
        scores.select_nth_unstable_by(limit, order);
        scores.truncate(limit);
    }
    scores.sort_unstable_by(order);
    scores.into_iter().map(|(_, place)| place).collect()
}

struct SearchHit {
    index: usize,
    length: f32,
    bonus: f32,
    frequencies: [f32; QUERY_WORDS_MAX],
}

struct QueryWord {
    text: String,
    prefix: u128,
}

impl QueryWord {
    fn new(text: String) -> Self {
        Self { prefix: prefix_bit(text.as_bytes()), text }
    }
}

/// Returns one bit for the first two bytes of a word.
fn prefix_bit(word: &[u8]) -> u128 {
    let byte = |at: usize| u32::from(word.get(at).copied().unwrap_or(0));
    1 << ((byte(0) * 31 + byte(1)) % u128::BITS)
}

#[expect(clippy::cast_precision_loss, reason = "a ranking does not depend on the last digit of a count")]
fn as_f32(count: usize) -> f32 {
    count as f32
}

/// Splits a text into lower-case words at punctuation and `camelCase`, without the plural `s`.
fn tokenize(text: &str, chars_max: usize) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut previous_lower = false;
    for c in text.chars().take(chars_max) {
        if !c.is_alphanumeric() || (c.is_uppercase() && previous_lower) {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        previous_lower = c.is_lowercase();
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    for word in &mut words {
        if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
            word.pop();
        }
    }
    words
}
