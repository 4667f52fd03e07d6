//! Reads a question from a screen as a person does, row by row to its end, and parses the original values back from it.

use std::iter::Peekable;

use byleave_gate::core::escape::is_printable;
use regex::Regex;
use serde_json::{Map, Value};

use crate::window::{CARD, TestWindow};

const PAGE_DOWN: &str = "\u{1b}[6~";

/// Returns all rows of the details of the question on the screen. The screen must be at its beginning.
pub(crate) fn whole(window: &mut TestWindow) -> Vec<String> {
    window.await_screen("a question", |screen| QuestionPage::of(screen).is_some());
    window.open_details();
    rows(window)
}

/// Returns all rows of the page on the screen, which must be at its beginning.
fn rows(window: &mut TestWindow) -> Vec<String> {
    let mut page = QuestionPage::of(&window.screen()).unwrap();
    let mut rows = page.rows.clone();
    while page.below > 0 {
        window.press(PAGE_DOWN);
        let before = page.below;
        window
            .await_screen("more", |screen| QuestionPage::of(screen).is_some_and(|page| page.below < before));
        page = QuestionPage::of(&window.screen()).unwrap();
        let fresh = before - page.below;
        let known = page.rows.len() - fresh;
        rows.extend(page.rows.iter().skip(known).cloned());
    }
    rows
}

/// Checks that a yes is refused before everything that it needs was on the screen to its end. A card that allows a yes must say the whole
/// command.
pub(crate) fn no_yes_before_the_end(window: &mut TestWindow, arguments: &Value) {
    window.await_screen("a question", |screen| QuestionPage::of(screen).is_some());
    window.await_ready();
    let page = QuestionPage::of(&window.screen()).unwrap();
    if page.is_card && page.needs_details {
        window.press("y");
        window.await_shown("read the details first");
        window.open_details();
        window.await_ready();
    } else if page.is_card {
        if page.below > 0 {
            window.press("y");
            window.await_shown("scroll to the end first");
        }
        let card = rows(window);
        let command = arguments.get("command").and_then(Value::as_str).unwrap_or_default();
        let squeezed = |text: &str| text.split_whitespace().collect::<String>();
        let shown = read_back(&squeezed(&card.concat()));
        assert!(squeezed(&shown).contains(&squeezed(command)), "no {command} in {card:#?}");
        return;
    }
    if QuestionPage::of(&window.screen()).unwrap().below > 0 {
        window.press("y");
        window.await_shown("scroll to the end first");
    }
}

/// A page of a question: its rows, and the number of rows below.
struct QuestionPage {
    rows: Vec<String>,
    below: usize,
    is_card: bool,
    needs_details: bool,
}

impl QuestionPage {
    fn of(screen: &str) -> Option<Self> {
        let rows: Vec<&str> = screen.lines().collect();
        let standing = rows.iter().rposition(|row| row.starts_with("── "))?;
        let head = rows.get(..standing)?.iter().rposition(|row| row.starts_with(" Byleave: "))?;
        let says = rows[standing];
        let number = |after: &str| {
            let rest = says.split_once(after)?.1.trim_start();
            rest.split(' ').next()?.parse::<usize>().ok()
        };
        let is_card = says.starts_with(CARD);
        let is_end = says.starts_with("── the whole question")
            || says.starts_with("── the end")
            || is_card && !says.contains('▼');
        let below = if is_end { 0 } else { number("▼")? };
        let rows = rows[head + 1..standing].iter().map(|row| row.trim_end().to_owned()).collect();
        Some(Self { rows, below, is_card, needs_details: says.contains("a yes needs the details") })
    }
}

/// Returns the rows without everything that depends on the width: blanks and bars.
pub(crate) fn without_width(rows: &[String]) -> String {
    rows.concat().chars().filter(|c| !matches!(c, ' ' | '│' | '┃')).collect()
}

/// Returns the part of a question below a heading.
pub(crate) fn part<'a>(rows: &'a [String], heading: &str) -> Option<Vec<&'a str>> {
    let at = rows.iter().position(|row| row.starts_with(heading))?;
    Some(rows.iter().skip(at + 1).take_while(|row| !row.is_empty()).map(String::as_str).collect())
}

/// Parses the arguments back from the rows of a screen that is wide enough for them.
pub(crate) fn arguments(rows: &[String]) -> Value {
    let part = part(rows, "Arguments, in full").unwrap_or_else(|| panic!("no arguments: {rows:#?}"));
    let rows: Vec<&str> =
        part.into_iter().filter_map(|row| row.strip_prefix("  │ ")).map(str::trim).collect();
    let mut rows = rows.into_iter().peekable();
    let first = rows.next().unwrap();
    let value = value(first, &mut rows);
    assert_eq!(rows.next(), None, "more than one value");
    value
}

fn value<'a>(text: &'a str, rest: &mut Peekable<impl Iterator<Item = &'a str>>) -> Value {
    match text {
        "{}" => Value::Object(Map::new()),
        "[]" => Value::Array(Vec::new()),
        "{" => {
            let mut map = Map::new();
            loop {
                let row = rest.next().unwrap();
                if row == "}" {
                    return Value::Object(map);
                }
                let (name, item) = row.split_once(": ").unwrap();
                map.insert(name.to_owned(), value(item, rest));
            }
        }
        "[" => {
            let mut items = Vec::new();
            loop {
                let row = rest.next().unwrap();
                if row == "]" {
                    return Value::Array(items);
                }
                items.push(value(row, rest));
            }
        }
        text if text.starts_with("text, ") => {
            let mut lines: Vec<String> = Vec::new();
            let times = Regex::new(r"the same line (\d+) more").unwrap();
            while let Some((number, line)) = rest.peek().and_then(|row| row.split_once('┃')) {
                rest.next();
                if number.contains('–') {
                    let times: usize = times.captures(line).unwrap()[1].parse().unwrap();
                    let last = lines.last().unwrap().clone();
                    lines.extend(std::iter::repeat_n(last, times));
                } else {
                    lines.push(read_back(line.strip_prefix(' ').unwrap_or(line)));
                }
            }
            let end = if text.contains("no newline at the end") { "" } else { "\n" };
            Value::String(lines.join("\n") + end)
        }
        text if text.starts_with('“') => {
            let end = text.rfind('”').unwrap();
            Value::String(read_back(text.get('“'.len_utf8()..end).unwrap()))
        }
        text => serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}")),
    }
}

/// Parses a text back from its displayed form.
pub(crate) fn read_back(shown: &str) -> String {
    let mut text = String::new();
    let mut chars = shown.chars();
    while let Some(c) = chars.next() {
        match c {
            '⇥' => text.push('\t'),
            '⟨' => {
                let inside: String = chars.by_ref().take_while(|c| *c != '⟩').collect();
                text.push_str(&read_mark(&inside));
            }
            other => text.push(other),
        }
    }
    text
}

fn read_mark(inside: &str) -> String {
    if let Some(run) = inside.strip_prefix("rtl ").and_then(|rest| rest.strip_suffix(" rtl")) {
        return run.into();
    }
    // Where a line was broken, the blanks inside of a mark are gone.
    let spaced = inside.replace('×', " ×").replace("U+", " U+");
    let mut words: Vec<&str> = spaced.split_whitespace().collect();
    let times = match words.last().and_then(|word| word.strip_prefix('×')) {
        Some(times) if words.len() == 2 => {
            words.pop();
            times.parse().unwrap()
        }
        _ => 1,
    };
    let point = |word: &str| {
        let hex = word.strip_prefix("U+").unwrap_or_else(|| panic!("⟨{inside}⟩"));
        char::from_u32(u32::from_str_radix(hex, 16).unwrap()).unwrap()
    };
    let one: String = match words.as_slice() {
        ["space"] => " ".into(),
        ["tab"] => "\t".into(),
        ["NUL"] => "\0".into(),
        ["BEL"] => "\u{7}".into(),
        ["BS"] => "\u{8}".into(),
        ["LF"] => "\n".into(),
        ["CR"] => "\r".into(),
        ["ESC"] => "\u{1b}".into(),
        ["DEL"] => "\u{7f}".into(),
        [single] => point(single).to_string(),
        [_, points @ ..] => points.iter().map(|word| point(word)).collect(),
        [] => String::new(),
    };
    one.repeat(times)
}

/// Checks that only printable characters and Byleave's own sequences reached the terminal.
#[track_caller]
pub(crate) fn only_ours(raw: &[u8]) {
    let text = std::str::from_utf8(raw).expect("what was drawn is text");
    let ours = Regex::new(
        r"\x1b\[\?(2004|25|2026|7|1049)[hl]|\x1b\[[0-9;]*m|\x1b\[2?J|\x1b\[H|\x1b\[2?K|\x1b\[\d+[AC]",
    );
    let rest = ours.unwrap().replace_all(text, "");
    let strange: Vec<char> =
        rest.chars().filter(|c| !is_printable(*c) && !matches!(c, '\r' | '\n')).collect();
    assert!(strange.is_empty(), "reached the terminal: {strange:?} in {text:?}");
}
