//! Makes every character visible, in a reversible way: a person sees the whole text, and no two different texts are shown the same.
//!
//! Nothing is ever dropped. Some characters have no shape of their own: controls, direction marks, zero-width characters, variation
//! selectors, tags, fillers, odd spaces, private and unassigned code points. They are written as their code point in brackets, `⟨U+202E⟩`.
//! A character that looks like another one keeps its shape and gets its code point, `⟨а U+0430⟩`. A bracket in the text is itself written
//! as a code point. A bracket on the screen is therefore always ours, and the text can be read back from what is shown.
//!
//! **Right-to-left text.** Right-to-left letters reorder the characters next to them: `א/ב` is drawn as `ב/א`. Every such run is therefore
//! fenced by left-to-right letters on both sides, `⟨rtl שלום rtl⟩`. It is read from right to left inside the fence, and nothing outside of
//! it moves, whatever direction the screen uses. In prose a fence contains several words. In a name, a path or a command it never extends
//! over a separator.
//!
//! **Limits.** The font decides whether `l` and `1`, or `O` and `0`, look different. Look-alikes are known from the tables of Unicode (UTS
//! 39) and from a few letters of ours. A pair that is in neither is not marked, but it is never shown as the code point of its ASCII twin
//! either.

mod classify;
mod homoglyphs;
mod unicode;

use std::fmt::Write as _;

use unicode_properties::UnicodeEmoji as _;

pub use classify::EscapeLevel;
use classify::{CharTreatment, ClassifiedChar};
use unicode::CharPropertyCache;
pub use unicode::{MARK_CLOSE, MARK_OPEN, TAB_MARK, is_mark, is_printable};

/// The maximum number of consecutive spaces at the start of a line. More are counted instead of shown.
const INDENT_MAX: usize = 64;
/// The maximum number of consecutive spaces within a line. More are counted instead of shown. The same for tabs.
const BLANKS_MAX: usize = 16;
/// The maximum number of characters that share one look-alike mark.
const ALIKE_RUN: usize = 16;
/// The maximum number of characters that share one right-to-left fence.
const RTL_RUN: usize = 200;

/// The numbers of suspicious characters, so that a screen can warn of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EscapeCounts {
    /// Characters that are invisible or that move others. Tabs, ends of lines and emoji are not counted.
    pub hidden_chars: usize,
    /// The first of them.
    pub first_hidden: Option<char>,
    /// Characters that look like others.
    pub lookalikes: usize,
    /// The first of them.
    pub first_lookalike: Option<char>,
    /// Runs of right-to-left text.
    pub rtl_runs: usize,
}

/// Returns the text with everything in it visible, on one line.
pub fn make_visible(text: &str, care: EscapeLevel) -> String {
    let mut out = String::with_capacity(text.len());
    Escaper::default().write(text, care, &mut out);
    out
}

/// Returns JSON in which nothing can act on a terminal. The value is the same: invisible characters are written as code points.
pub fn escape_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // White space between values is ours. Control characters inside texts are already escaped.
        if c == '\n' || is_printable(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            write!(out, "\\u{unit:04x}").unwrap_or_default();
        }
    }
    out
}

/// Makes many texts visible, and counts the suspicious characters in all of them.
#[derive(Default)]
pub struct Escaper {
    counts: EscapeCounts,
    lookup: CharPropertyCache,
}

impl Escaper {
    /// Returns the counts so far.
    pub const fn counts(&self) -> &EscapeCounts {
        &self.counts
    }

    /// Writes the text with everything in it visible, on one line.
    pub fn write(&mut self, text: &str, care: EscapeLevel, out: &mut String) {
        if is_plain_ascii(text) {
            out.push_str(text);
            return;
        }
        let mut units: Vec<ClassifiedChar> =
            text.chars().map(|c| ClassifiedChar::new(c, self.lookup.get(c))).collect();
        if !text.is_ascii() {
            classify::classify_clusters(&mut units);
            homoglyphs::mark_lookalikes(&mut units, care);
            classify::fence_rtl(&mut units, care);
        }
        count(&units, &mut self.counts);
        write_units(&units, out);
    }
}

/// Checks whether the text can be shown unchanged.
fn is_plain_ascii(text: &str) -> bool {
    let mut spaces = 0;
    for byte in text.bytes() {
        match byte {
            b' ' => spaces += 1,
            0x21..=0x7e => spaces = 0,
            _ => return false,
        }
        if spaces > BLANKS_MAX {
            return false;
        }
    }
    spaces == 0
}

fn count(units: &[ClassifiedChar], tally: &mut EscapeCounts) {
    let mut before: Option<char> = None;
    tally.rtl_runs += units.chunk_by(|a, b| a.treatment == b.treatment).filter(|run| is_fenced(run)).count();
    for (place, unit) in units.iter().enumerate() {
        match unit.treatment {
            CharTreatment::Hidden if is_expected(before, unit.c, place + 1 == units.len()) => {}
            CharTreatment::Hidden => {
                tally.hidden_chars += 1;
                tally.first_hidden.get_or_insert(unit.c);
            }
            CharTreatment::Lookalike => {
                tally.lookalikes += 1;
                tally.first_lookalike.get_or_insert(unit.c);
            }
            CharTreatment::Plain | CharTreatment::Rtl => {}
        }
        before = Some(unit.c);
    }
}

fn is_fenced(run: &[ClassifiedChar]) -> bool {
    run.first().is_some_and(|unit| unit.treatment == CharTreatment::Rtl)
}

/// Checks whether an escaped character is in a normal place. It is shown all the same, but without a warning.
fn is_expected(before: Option<char>, c: char, is_last: bool) -> bool {
    match c {
        '\t' | '\n' | TAB_MARK => true,
        '\r' => is_last,
        '\u{200d}' | '\u{fe0f}' | '\u{20e3}' => before.is_some_and(|b| b.is_emoji_char() || b == '\u{fe0f}'),
        other => unicode::is_bracket(other),
    }
}

fn write_units(units: &[ClassifiedChar], out: &mut String) {
    let alike = |a: &ClassifiedChar, b: &ClassifiedChar| {
        a.treatment == b.treatment
            && match a.treatment {
                CharTreatment::Plain => (a.c == ' ') == (b.c == ' '),
                CharTreatment::Hidden => a.c == b.c,
                CharTreatment::Lookalike | CharTreatment::Rtl => true,
            }
    };
    let mut done = 0;
    for group in units.chunk_by(alike) {
        let is_first = done == 0;
        done += group.len();
        let is_last = done == units.len();
        let Some(first) = group.first() else { continue };
        match first.treatment {
            CharTreatment::Plain if first.c == ' ' => {
                let most = if is_first { INDENT_MAX } else { BLANKS_MAX };
                if is_last || group.len() > most {
                    write_counted("space", group.len(), out);
                } else {
                    out.extend(group.iter().map(|unit| unit.c));
                }
            }
            CharTreatment::Plain => out.extend(group.iter().map(|unit| unit.c)),
            CharTreatment::Hidden if first.c == '\t' && group.len() <= BLANKS_MAX => {
                out.extend(group.iter().map(|_| TAB_MARK));
            }
            CharTreatment::Hidden => write_counted(&name(first.c), group.len(), out),
            CharTreatment::Lookalike => {
                for run in runs(group, ALIKE_RUN) {
                    write_alike(run, out);
                }
            }
            CharTreatment::Rtl => {
                for run in runs(group, RTL_RUN) {
                    out.push_str("⟨rtl ");
                    out.extend(run.iter().map(|unit| unit.c));
                    out.push_str(" rtl⟩");
                }
            }
        }
    }
}

/// Returns the name that replaces a character without a shape.
fn name(c: char) -> String {
    match c {
        '\0' => "NUL".into(),
        '\u{7}' => "BEL".into(),
        '\u{8}' => "BS".into(),
        '\t' => "tab".into(),
        '\n' => "LF".into(),
        '\r' => "CR".into(),
        '\u{1b}' => "ESC".into(),
        '\u{7f}' => "DEL".into(),
        other => format!("U+{:04X}", u32::from(other)),
    }
}

fn write_counted(name: &str, times: usize, out: &mut String) {
    out.push(MARK_OPEN);
    out.push_str(name);
    if times > 1 {
        push_fmt(out, format_args!(" ×{times}"));
    }
    out.push(MARK_CLOSE);
}

fn write_alike(run: &[ClassifiedChar], out: &mut String) {
    out.push(MARK_OPEN);
    out.extend(run.iter().map(|unit| unit.c));
    for unit in run {
        push_fmt(out, format_args!(" U+{:04X}", u32::from(unit.c)));
    }
    out.push(MARK_CLOSE);
}

/// Returns pieces of about `most` characters. No piece begins with a mark that belongs to the piece before.
fn runs(mut group: &[ClassifiedChar], most: usize) -> Vec<&[ClassifiedChar]> {
    let mut pieces = Vec::new();
    while group.len() > most {
        let extra = group.iter().skip(most).take_while(|unit| unit.traits.mark).count();
        let Some((head, tail)) = group.split_at_checked(most + extra) else { break };
        pieces.push(head);
        group = tail;
    }
    if !group.is_empty() {
        pieces.push(group);
    }
    pieces
}

fn push_fmt(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into a string cannot fail. If it ever did, the text would show the gap.
    if out.write_fmt(text).is_err() {
        out.push_str("⟨unwritable⟩");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads the text back from what is shown.
    fn read_back(shown: &str) -> String {
        let mut text = String::new();
        let mut chars = shown.chars();
        while let Some(c) = chars.next() {
            match c {
                TAB_MARK => text.push('\t'),
                MARK_OPEN => {
                    let inside: String = chars.by_ref().take_while(|c| *c != MARK_CLOSE).collect();
                    text.push_str(&read_mark(&inside));
                }
                MARK_CLOSE => panic!("a bracket that nobody opened in {shown}"),
                other => text.push(other),
            }
        }
        text
    }

    fn read_mark(inside: &str) -> String {
        if let Some(run) = inside.strip_prefix("rtl ").and_then(|rest| rest.strip_suffix(" rtl")) {
            return run.into();
        }
        let mut words: Vec<&str> = inside.split(' ').collect();
        let times = match words.last().and_then(|word| word.strip_prefix('×')) {
            Some(times) if words.len() == 2 => {
                words.pop();
                times.parse().unwrap()
            }
            _ => 1,
        };
        let point = |word: &str| {
            word.strip_prefix("U+").map(|hex| char::from_u32(u32::from_str_radix(hex, 16).unwrap()).unwrap())
        };
        let one = match words.as_slice() {
            ["space"] => " ".into(),
            ["tab"] => "\t".into(),
            ["NUL"] => "\0".into(),
            ["BEL"] => "\u{7}".into(),
            ["BS"] => "\u{8}".into(),
            ["LF"] => "\n".into(),
            ["CR"] => "\r".into(),
            ["ESC"] => "\u{1b}".into(),
            ["DEL"] => "\u{7f}".into(),
            [single] => point(single).unwrap().to_string(),
            [glyphs, points @ ..] => {
                let text: String = points.iter().filter_map(|word| point(word)).collect();
                assert_eq!(*glyphs, text, "what is shown is what is named");
                text
            }
            [] => String::new(),
        };
        one.repeat(times)
    }

    #[test]
    fn json_keeps_its_value_and_shows_everything() {
        let value =
            serde_json::json!({"a": "x\u{9b}31m\u{202e}é\n\t\u{e0041}\u{1b}", "b\u{200b}": [1, null]});
        let text = escape_json(&format!("{value:#}"));
        assert!(text.chars().all(|c| c == '\n' || is_printable(c)), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn what_is_shown_for_what() {
        let check = |text: &str, name: &str, prose: &str| {
            assert_eq!(make_visible(text, EscapeLevel::Name), name, "{text:?} as a name");
            assert_eq!(make_visible(text, EscapeLevel::Text), prose, "{text:?} as text");
            assert_eq!(read_back(name), text);
            assert_eq!(read_back(prose), text);
        };
        let same = |text: &str| check(text, text, text);
        let both = |text: &str, shown: &str| check(text, shown, shown);
        // Honest text stays as it is.
        same(r"echo \u{202e} \n 'a' && b");
        same("Grüße aus Zürich, naïve café");
        same("Привет, мир");
        same("/home/u/документы/отчёт.txt");
        same("日本語のテキスト");
        same("C言語とRustの話");
        same("한국어 문장");
        same("नमस्ते दुनिया");
        same("สวัสดีชาวโลก");
        same("ein 🦀 und ein ✓");
        check(
            "don’t “quote” – so",
            "don⟨’ U+2019⟩t ⟨“ U+201C⟩quote⟨” U+201D⟩ ⟨– U+2013⟩ so",
            "don’t “quote” – so",
        );
        check("он с ней", "он ⟨с U+0441⟩ ней", "он с ней");
        check("kapı", "kap⟨ı U+0131⟩", "kapı");
        check("你好，世界", "你好⟨， U+FF0C⟩世界", "你好，世界");
        // Invisible characters.
        both("ls\u{1b}[2K\u{1b}[1Gls", "ls⟨ESC⟩[2K⟨ESC⟩[1Gls");
        both("ls\u{9b}2J", "ls⟨U+009B⟩2J");
        both("a\rb\u{8}\u{8}\u{7f}\0", "a⟨CR⟩b⟨BS ×2⟩⟨DEL⟩⟨NUL⟩");
        both("echo \u{202e}txt\u{202c}", "echo ⟨U+202E⟩txt⟨U+202C⟩");
        both("l\u{200b}s\u{200d}", "l⟨U+200B⟩s⟨U+200D⟩");
        both("ls \u{e0074}\u{e006f}", "ls ⟨U+E0074⟩⟨U+E006F⟩");
        both("ls \u{fe0f}\u{fe0e}-la", "ls ⟨U+FE0F⟩⟨U+FE0E⟩-la");
        both("ls\u{3164}\u{3164}\u{3164}; x", "ls⟨U+3164 ×3⟩; x");
        both(
            "a\u{a0}b\u{2003}c\u{3000}d\u{2028}e\u{2029}f",
            "a⟨U+00A0⟩b⟨U+2003⟩c⟨U+3000⟩d⟨U+2028⟩e⟨U+2029⟩f",
        );
        both(
            "a\u{ad}b\u{2062}c\u{e000}d\u{378}e\u{ffff}f\u{2800}",
            "a⟨U+00AD⟩b⟨U+2062⟩c⟨U+E000⟩d⟨U+0378⟩e⟨U+FFFF⟩f⟨U+2800⟩",
        );
        both("👨\u{200d}👩\u{200d}👧", "👨⟨U+200D⟩👩⟨U+200D⟩👧");
        // Blanks.
        both("a:\tb", "a:⇥b");
        both(&format!("ls{};x", "\t".repeat(80)), "ls⟨tab ×80⟩;x");
        both(&format!("ls{};x", " ".repeat(300)), "ls⟨space ×300⟩;x");
        both("a  b ", "a  b⟨space⟩");
        both("   ", "⟨space ×3⟩");
        // Our own notation.
        both("⟨U+202E⟩", "⟨U+27E8⟩U+202E⟨U+27E9⟩");
        both("⇥", "⟨U+21E5⟩");
        // Look-alikes.
        both("pаypal.com", "p⟨а U+0430⟩ypal.com");
        both("/ws/ѕrc/main.rs", "/ws/⟨ѕ U+0455⟩rc/main.rs");
        both("сору", "⟨сору U+0441 U+043E U+0440 U+0443⟩");
        both("desкtop", "des⟨к U+043A⟩top");
        both("ｒｍ x", "⟨ｒｍ U+FF52 U+FF4D⟩ x");
        both("docs.python.org∕x", "docs.python.org⟨∕ U+2215⟩x");
        // Marks, and two spellings of one shape.
        both("cafe\u{301}", "caf⟨e\u{301} U+0065 U+0301⟩");
        both("א\u{307}b", "⟨א\u{307} U+05D0 U+0307⟩b");
        both("א\u{307}", "⟨rtl א\u{307} rtl⟩");
        both("a\u{5b0}", "a⟨U+05B0⟩");
        both("\u{301}x", "⟨U+0301⟩x");
        both("Å \u{212b}", "Å ⟨\u{212b} U+212B⟩");
        both("\u{1112}\u{1161}\u{11ab}", "⟨\u{1112}\u{1161}\u{11ab} U+1112 U+1161 U+11AB⟩");
        // Right to left.
        check("שלום עולם", "⟨rtl שלום rtl⟩ ⟨rtl עולם rtl⟩", "⟨rtl שלום עולם rtl⟩");
        both("/א/ב", "/⟨rtl א rtl⟩/⟨rtl ב rtl⟩");
    }

    #[test]
    fn stacked_marks_are_bounded_and_named() {
        let text = format!("a{}", "\u{300}".repeat(40));
        let shown = make_visible(&text, EscapeLevel::Text);
        assert!(shown.ends_with("⟨U+0300 ×36⟩"), "{shown}");
        assert_eq!(read_back(&shown), text);
    }

    /// Generates the relevant characters far more often than chance would.
    fn telling() -> impl Strategy<Value = char> {
        prop_oneof![
            any::<char>(),
            prop::char::range(' ', '~'),
            prop::char::range('\0', '\u{2ff}'),
            prop::char::range('\u{300}', '\u{6ff}'),
            prop::char::range('\u{900}', '\u{11ff}'),
            prop::char::range('\u{2000}', '\u{2bff}'),
            prop::char::range('\u{3000}', '\u{30ff}'),
            prop::char::range('\u{fe00}', '\u{ffff}'),
            prop::sample::select(vec!['\u{301}', '\u{307}', '\u{5b0}', '\u{64b}', 'é', 'ا']),
            prop::sample::select(vec![' ', '\t', '\n', '⟨', '⟩', '⇥', '×', 'U', '+', '0', 'а', 'a', 'א']),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        // Reading back gives the text, so no two texts are shown the same.
        #[test]
        fn what_is_shown_can_be_read_back(chars in prop::collection::vec(telling(), 0..40)) {
            let text: String = chars.into_iter().collect();
            for care in [EscapeLevel::Name, EscapeLevel::Text] {
                let shown = make_visible(&text, care);
                prop_assert_eq!(&read_back(&shown), &text, "{}", shown);
                prop_assert!(shown.chars().all(is_printable), "{:?}", shown);
            }
        }

        #[test]
        fn a_quote_of_ours_never_occurs_in_a_name(chars in prop::collection::vec(telling(), 0..40)) {
            let text: String = chars.into_iter().chain("“”".chars()).collect();
            let shown = make_visible(&text, EscapeLevel::Name);
            let outside: String = shown.split(MARK_OPEN).map(|part| part.rsplit(MARK_CLOSE).next().unwrap()).collect();
            prop_assert!(!outside.contains(['“', '”']), "{}", shown);
        }

        // Outside the brackets everything is in normal form C, where equal shapes are equal texts.
        #[test]
        fn what_is_plain_is_normal(chars in prop::collection::vec(telling(), 0..40)) {
            let text: String = chars.into_iter().collect();
            let shown = make_visible(&text, EscapeLevel::Text);
            for part in shown.split(MARK_OPEN) {
                let plain = part.split_once(MARK_CLOSE).map_or(part, |(_, plain)| plain);
                prop_assert!(unicode_normalization::is_nfc(plain), "{:?} in {:?}", plain, shown);
                prop_assert!(!plain.starts_with(is_mark), "{:?}", shown);
                let inside = part.strip_prefix("rtl ").unwrap_or(part);
                prop_assert!(!inside.starts_with(is_mark), "{:?}", shown);
            }
        }
    }
}
