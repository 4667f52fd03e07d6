//! The card of a question on a page: the command or the edit first, then what it did on the copy, whether it can be undone, and why it
//! asks. The details are folded below it if the card says everything that matters, and open otherwise.

use byleave_gate::core::escape::{EscapeLevel, make_visible};
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::core::render::{CardChange, QuestionCard, QuestionClass, render};
use byleave_gate::core::time_format::format_duration;
use maud::{Markup, html};

use super::question_view::{HeadingLevel, lines, render_diffs};

/// Renders the card. `level` says whether it is the heading of the page or of a part of it.
pub(super) fn card(sheet: &QuestionView, card: &QuestionCard, level: HeadingLevel, now: u64) -> Markup {
    let place = sheet.cwd.rsplit('/').find(|part| !part.is_empty()).unwrap_or("/");
    let left = sheet.question.expires_at.saturating_sub(now);
    html! {
        div.question.grave[card.class == QuestionClass::Grave] {
            div.asker {
                span { (make_visible(sheet.agent.as_str(), EscapeLevel::Name)) " in " (make_visible(place, EscapeLevel::Name)) }
                span { span data-until=(sheet.question.expires_at) { (format_duration(left)) } " left" }
            }
            @if level == HeadingLevel::Page {
                h1.command { (headline(card)) }
            } @else {
                h2.command { (headline(card)) }
            }
            @if !card.headline.arguments.is_empty() {
                div.printed { @for line in &card.headline.arguments { div { span.text { (line) } } } }
            }
            @for warning in &card.warnings { div.danger { span.text { "⚠ " (warning) } } }
            div.facts {
                span.tag.bad[card.class == QuestionClass::Grave].good[card.class == QuestionClass::Undoable] { (card.undo) }
                @if let Some(tried) = &card.tried { span.tag { (tried) } }
                @for line in &card.uses { span.tag { (line) } }
            }
            @let is_named = card.headline.names_change && card.changes.files.len() == 1;
            @for file in &card.changes.files { (change(file, is_named && file.note.is_none())) }
            @if let Some(more) = &card.changes.more { div.more { (more) } }
            @for line in &card.changes.repository { div.more { span.text { (line) } } }
            @if !card.output.is_empty() {
                div.printed { @for line in &card.output { div { span.text { (line) } } } }
            }
            div.why { span.text { (card.why) } }
        }
    }
}

fn headline(card: &QuestionCard) -> Markup {
    html! {
        @for (place, line) in card.headline.lines.iter().enumerate() {
            span.row {
                @if card.headline.is_command { span.prompt { @if place == 0 { "$ " } @else { "  " } } }
                span.text { (line) }
            }
        }
    }
}

/// Renders a changed file: its line, unless the headline says the same, and the lines that differ.
fn change(file: &CardChange, is_said: bool) -> Markup {
    html! {
        div.change {
            @if !is_said {
                div.path {
                    span.mark { (file.mark) }
                    span.text { (file.path) @if let Some(note) = &file.note { "  " (note) } }
                    span.counts {
                        @if file.added > 0 { span.plus { "+" (file.added) } }
                        @if file.removed > 0 { " " span.minus { "−" (file.removed) } }
                    }
                }
            }
            @if !file.diff.is_empty() {
                div.delta {
                    @for pair in pairs(&file.diff) {
                        div.pair {
                            @for line in pair {
                                div class=(if line.starts_with('+') { "plus" } else { "minus" }) { span.text { (line) } }
                            }
                        }
                    }
                    @if file.folded_lines > 0 { div.rest { "… " (file.folded_lines) " more lines" } }
                }
            }
        }
    }
}

/// Splits a difference where removed lines follow added ones. A wide screen shows the removed lines of a part beside the added ones.
fn pairs(diff: &[String]) -> impl Iterator<Item = &[String]> {
    diff.chunk_by(|line, next| line.starts_with('-') || next.starts_with('+'))
}

/// Renders the details: folded if the card is enough, and open otherwise.
pub(super) fn details(sheet: &QuestionView, card: &QuestionCard, level: HeadingLevel) -> Markup {
    let all = html! {
        (lines(&render(sheet), level.below()))
        (render_diffs(sheet, level.below()))
    };
    let is_page = level == HeadingLevel::Page;
    html! {
        @if card.is_enough {
            details.details {
                summary data-key=[is_page.then_some("d")] { "Details" @if is_page { kbd { "d" } } }
                (all)
            }
        } @else {
            section.details aria-label="Details" {
                p.hint { "Read the details before you approve." }
                (all)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_lines_are_beside_those_that_replace_them() {
        let diff = ["-a", "+b", "-c", "-d", "+e", "+f", "-g"].map(str::to_owned);
        let found: Vec<Vec<&str>> =
            pairs(&diff).map(|pair| pair.iter().map(String::as_str).collect()).collect();
        assert_eq!(found, [vec!["-a", "+b"], vec!["-c", "-d", "+e", "+f"], vec!["-g"]]);
    }
}
