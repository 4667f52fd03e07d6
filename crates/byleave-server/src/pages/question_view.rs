//! A question on a page: every line of the one renderer, and the changes of the rehearsal side by side.
//!
//! A line has two cells, its gutter and its text. Wrapped text stays beside the gutter, so it cannot imitate a line of ours.

use byleave_gate::core::escape::{EscapeLevel, make_visible};
use byleave_gate::core::question_view::{QuestionView, RehearsalView};
use byleave_gate::core::render::{LineRole, RenderLine, Rendering};
use maud::{Markup, html};

/// The maximum number of rows side by side. Larger changes are shown only as lines.
const ROWS_MAX: usize = 20_000;

/// Renders all lines of a question. The question itself is the heading of the page, or of a part of it.
pub(super) fn lines(rendering: &Rendering, heads: HeadingLevel) -> Markup {
    html! {
        div.sheet {
            @for line in &rendering.lines { (one(line, heads)) }
        }
    }
}

/// The level of a question's heading.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadingLevel {
    /// The heading of the page.
    Page,
    /// The heading of a part of the page.
    Section,
    /// The heading of a part of a part.
    Subsection,
}

impl HeadingLevel {
    /// Returns the level below.
    pub(super) const fn below(self) -> Self {
        match self {
            Self::Page => Self::Section,
            Self::Section | Self::Subsection => Self::Subsection,
        }
    }
}

fn one(line: &RenderLine, heads: HeadingLevel) -> Markup {
    let (gutter, text) = line.split_gutter();
    let cells = html! { span.gutter { (gutter) } span.text { (text) } };
    let class = format!("line {}", class(line.role));
    match line.role {
        LineRole::Title if heads == HeadingLevel::Page => html! { h1 class=(class) { (cells) } },
        LineRole::Title if heads == HeadingLevel::Section => html! { h2 class=(class) { (cells) } },
        LineRole::Heading if line.gutter == 0 && heads == HeadingLevel::Page => {
            html! { h2 class=(class) { (cells) } }
        }
        LineRole::Title => html! { h3 class=(class) { (cells) } },
        LineRole::Heading if line.gutter == 0 => html! { h3 class=(class) { (cells) } },
        _ => html! { div class=(class) { (cells) } },
    }
}

const fn class(role: LineRole) -> &'static str {
    match role {
        LineRole::Headline => "headline",
        LineRole::Outcome => "outcome",
        LineRole::Title => "title",
        LineRole::Heading => "heading",
        LineRole::Effect => "effect",
        LineRole::Content => "content",
        LineRole::Change => "change",
        LineRole::Model => "model",
        LineRole::Reason => "reason",
        LineRole::Review => "review",
        LineRole::Challenge => "challenge",
        LineRole::Warning => "warning",
        LineRole::Detail => "detail",
        LineRole::Expiry => "expiry",
    }
}

/// Renders the texts that the rehearsal changed, before and after.
pub(super) fn render_diffs(sheet: &QuestionView, heads: HeadingLevel) -> Markup {
    let Some(RehearsalView::Ran { rehearsal, .. }) = &sheet.rehearsal else { return html! {} };
    let mut files = Vec::new();
    let mut rows_all = 0;
    for change in &rehearsal.changes.list {
        let Some(diff) = &change.diff else { continue };
        let rows = rows(diff);
        rows_all += rows.len();
        if rows_all > ROWS_MAX {
            break;
        }
        files.push((change, rows));
    }
    if files.is_empty() {
        return html! {};
    }
    html! {
        section.beside aria-label="Side by side" {
            @if heads == HeadingLevel::Subsection { h3 { "Side by side" } } @else { h2 { "Side by side" } }
            @for (change, rows) in &files {
                details open {
                    summary { (change.kind()) " " code { (make_visible(&change.path, EscapeLevel::Name)) } }
                    div.scroll tabindex="0" role="region" aria-label={ "Changes to " (make_visible(&change.path, EscapeLevel::Name)) } {
                        table.diff {
                            colgroup { col.number; col; col.number; col; }
                            thead.away {
                                tr { th scope="col" { "Line" } th scope="col" { "Before" } th scope="col" { "Line" } th scope="col" { "After" } }
                            }
                            tbody { @for row in rows { (drawn(row)) } }
                        }
                    }
                }
            }
            @if rows_all > ROWS_MAX { p.hint { "The remaining changes are too large for this view. They are in the lines above." } }
        }
    }
}

/// One row: the left and the right line, each with its line number.
#[derive(Debug, PartialEq, Eq)]
enum DiffRow<'a> {
    Gap(&'a str),
    Sides { before: Option<(usize, &'a str)>, after: Option<(usize, &'a str)>, same: bool },
}

fn drawn(row: &DiffRow<'_>) -> Markup {
    match row {
        DiffRow::Gap(text) => html! { tr.gap { td colspan="4" { (make_visible(text, EscapeLevel::Text)) } } },
        DiffRow::Sides { before, after, same } => html! {
            tr {
                (side(*before, if *same { "same" } else { "out" }))
                (side(*after, if *same { "same" } else { "in" }))
            }
        },
    }
}

fn side(side: Option<(usize, &str)>, class: &str) -> Markup {
    match side {
        None => html! { td.number {} td.nothing {} },
        Some((number, text)) => html! {
            td.number { (number) }
            td class=(class) {
                @match class {
                    "out" => del { (make_visible(text, EscapeLevel::Text)) },
                    "in" => ins { (make_visible(text, EscapeLevel::Text)) },
                    _ => (make_visible(text, EscapeLevel::Text)),
                }
            }
        },
    }
}

/// Converts a unified diff to rows. Removed lines and their replacements are side by side.
fn rows(diff: &str) -> Vec<DiffRow<'_>> {
    let mut rows = Vec::new();
    let (mut old, mut new) = (1, 1);
    let (mut out, mut into) = (Vec::new(), Vec::new());
    for line in diff.split_inclusive('\n').map(|line| line.strip_suffix('\n').unwrap_or(line)) {
        let mut chars = line.chars();
        match (chars.next(), chars.as_str()) {
            (Some('-'), text) => {
                out.push((old, text));
                old += 1;
            }
            (Some('+'), text) => {
                into.push((new, text));
                new += 1;
            }
            (Some(' ') | None, text) => {
                settle(&mut rows, &mut out, &mut into);
                rows.push(DiffRow::Sides { before: Some((old, text)), after: Some((new, text)), same: true });
                (old, new) = (old + 1, new + 1);
            }
            (Some('@'), _) => {
                settle(&mut rows, &mut out, &mut into);
                if let Some((at_old, at_new)) = places(line) {
                    (old, new) = (at_old, at_new);
                }
                rows.push(DiffRow::Gap(line));
            }
            (Some(_), _) => {
                settle(&mut rows, &mut out, &mut into);
                rows.push(DiffRow::Gap(line));
            }
        }
    }
    settle(&mut rows, &mut out, &mut into);
    rows
}

fn settle<'a>(
    rows: &mut Vec<DiffRow<'a>>,
    out: &mut Vec<(usize, &'a str)>,
    into: &mut Vec<(usize, &'a str)>,
) {
    for place in 0..out.len().max(into.len()) {
        let (before, after) = (out.get(place).copied(), into.get(place).copied());
        rows.push(DiffRow::Sides { before, after, same: false });
    }
    out.clear();
    into.clear();
}

/// Returns the first line numbers of a hunk, before and after.
fn places(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split(' ');
    let mut place = |sign: char| {
        let word = words.find(|word| word.starts_with(sign))?;
        word.trim_start_matches(sign).split(',').next()?.parse::<usize>().ok()
    };
    Some((place('-')?, place('+')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_stands_beside_what_comes() {
        let found = rows("@@ -3,3 +3,4 @@\n a\n-b\n+c\n+d\n e\n\\ No newline at end of file\n");
        let sides = |before, after, same| DiffRow::Sides { before, after, same };
        assert_eq!(
            found,
            [
                DiffRow::Gap("@@ -3,3 +3,4 @@"),
                sides(Some((3, "a")), Some((3, "a")), true),
                sides(Some((4, "b")), Some((4, "c")), false),
                sides(None, Some((5, "d")), false),
                sides(Some((5, "e")), Some((6, "e")), true),
                DiffRow::Gap("\\ No newline at end of file"),
            ]
        );
    }

    #[test]
    fn nothing_on_a_page_is_taken_for_markup() {
        let line = RenderLine { role: LineRole::Content, text: "│ <b onclick=x>&amp;".into(), gutter: 2 };
        let drawn = one(&line, HeadingLevel::Page).into_string();
        assert!(drawn.contains("&lt;b onclick=x&gt;&amp;amp;") && !drawn.contains("<b"), "{drawn}");
    }
}
