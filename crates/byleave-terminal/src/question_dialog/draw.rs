//! Draws a dialog: a bar with the agent and the remaining time, the question, and the choices below it.

use std::time::Duration;

use byleave_core::escape::{EscapeLevel, make_visible};
use byleave_gate::approver::RiskLevel;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::{ChangeSelection, DialogChoice, DialogMode, DialogPage, QuestionDialog, StandingApprovalForm};
use crate::palette::Palette;
use crate::text::{clock, wrap_text};

/// The minimum number of rows of the question that are worth showing.
const BODY_MIN: u16 = 3;
/// The beginning of the line below a card that does not say everything.
const NEEDS_DETAILS: &str = "in short; a yes needs the details: press d";

/// The part below the question: lines, and perhaps a field.
struct DialogFooter {
    lines: Vec<Line<'static>>,
    field_rows: u16,
}

impl QuestionDialog {
    /// Returns the number of rows of the part below the question.
    pub(super) fn foot_rows(&self, columns: u16) -> usize {
        let foot = self.foot(columns, Duration::MAX);
        foot.lines.len() + usize::from(foot.field_rows)
    }

    fn foot(&self, columns: u16, now: Duration) -> DialogFooter {
        let palette = self.setting.palette;
        let mut lines = Vec::new();
        let field = |rows: usize| u16::try_from(rows).unwrap_or(u16::MAX);
        let wide = usize::from(columns);
        let mut field_rows = 0;
        match &self.stage {
            DialogMode::Reading => {
                lines.push(self.standing(wide, now));
                lines.extend(self.keys(wide, now));
            }
            DialogMode::Feedback(text) => {
                lines.extend(wrapped(
                    "No. What should the model do instead? (optional) Enter sends, Esc goes back",
                    wide,
                    palette.careful(),
                ));
                field_rows = field(text.height(wide)).min(4);
            }
            DialogMode::Words(_) => {
                let words = self.words().unwrap_or_default();
                let text = format!(
                    "This may be irreversible. To approve, type “{words}” and press Enter; Esc goes back"
                );
                lines.extend(wrapped(&text, wide, palette.grave()));
                field_rows = 1;
            }
            DialogMode::Mask(text) => {
                let text_above = "Detected secrets are masked. Enter more words to mask, separated by spaces; Enter sends, Esc goes back";
                lines.extend(wrapped(text_above, wide, palette.careful()));
                field_rows = field(text.height(wide)).min(4);
            }
            DialogMode::Challenge(form) => {
                lines.extend(wrapped(&form.prompt(), wide, palette.careful()));
                field_rows = field(form.field.height(wide)).clamp(1, 4);
            }
            DialogMode::Edit(edit) => {
                let keys = "Ctrl-D sends the edited text; Ctrl-O opens your editor; Esc goes back";
                lines.extend(wrapped(keys, wide, palette.key()));
                if let Some(wrong) = &edit.error {
                    lines.extend(wrapped(&make_visible(wrong, EscapeLevel::Text), wide, palette.grave()));
                }
                field_rows = field(edit.field.height(wide)).max(3);
            }
            DialogMode::Result(editor) => {
                let keys = "The tool does not run. Write the result that the model gets instead; Ctrl-D sends it; Ctrl-O opens your editor; Esc goes back";
                lines.extend(wrapped(keys, wide, palette.careful()));
                field_rows = field(editor.field.height(wide)).max(3);
            }
            DialogMode::Leave(form) => lines.extend(leave(form, wide, palette)),
            DialogMode::Parts(parts) => lines.extend(kept(parts, palette)),
        }
        if let Some(said) = &self.said {
            let said = wrapped(&make_visible(said, EscapeLevel::Text), wide, palette.careful());
            // If there is much below the question, the remark must not be the part that is cut off.
            let place = if matches!(self.stage, DialogMode::Leave(_) | DialogMode::Parts(_)) {
                0
            } else {
                lines.len()
            };
            lines.splice(place..place, said);
        }
        DialogFooter { lines, field_rows }
    }

    /// Returns the line that says how much of the question is off the screen, and why a key would not count now.
    fn standing(&self, columns: usize, now: Duration) -> Line<'static> {
        let palette = self.setting.palette;
        let view = self.view();
        let (above, below) = (view.above(), view.below());
        let is_card = self.page == DialogPage::Card;
        let needs_details = is_card && !self.is_card_enough && !self.details.has_reached_end();
        let text = match (above, below) {
            (0, 0) if needs_details => format!("── {NEEDS_DETAILS}"),
            (above, 0) if needs_details => format!("── {NEEDS_DETAILS} ▲ {} above", rows(above)),
            (_, below) if needs_details => format!("── {NEEDS_DETAILS} ▼ {} below", rows(below)),
            (0, 0) if is_card => "── in short; d shows the details".to_owned(),
            (above, 0) if is_card => format!("── in short, the end; {} above", rows(above)),
            (_, below) if is_card => format!("── in short ▼ {} below: Space, arrows, End", rows(below)),
            (0, 0) => "── the whole question is visible".to_owned(),
            (above, 0) => format!("── the end; {} above", rows(above)),
            (_, below) => format!("── ▼ {} below: Space, arrows, End", rows(below)),
        };
        let style = if below > 0 || needs_details { palette.careful() } else { palette.faint() };
        let is_waiting = now != Duration::MAX && self.guard.remaining_wait(now) > Duration::ZERO;
        let remark = match () {
            () if is_waiting && self.guard.strays() > 0 => "  ⏳ wait: keys were typed",
            () if is_waiting => "  ⏳ read first",
            () if self.guard.is_running() => "  not a valid answer: press Esc to clear",
            () => "",
        };
        // In a narrow window the remark matters more than the names of the keys.
        let text = match below {
            _ if remark.is_empty() || text.width() + remark.width() <= columns => text,
            0 => "──".to_owned(),
            below => format!("── ▼ {below}"),
        };
        Line::from(vec![Span::styled(text, style), Span::styled(remark, palette.careful())])
    }

    fn keys(&self, columns: usize, now: Duration) -> Vec<Line<'static>> {
        let palette = self.setting.palette;
        let choices = self.choices();
        if let Some(choice) = self.guard.chosen().and_then(|c| choices.iter().find(|choice| choice.key == c))
        {
            let meaning = make_visible(&choice.meaning, EscapeLevel::Text);
            let text = format!("{}: {meaning}. Enter confirms, Esc cancels", choice.name);
            return wrapped(&text, columns, palette.key());
        }
        let ready = now == Duration::MAX || self.guard.remaining_wait(now) == Duration::ZERO;
        let mut spans: Vec<Vec<Span<'static>>> =
            choices.iter().map(|choice| key(choice, ready, palette)).collect();
        let turns = match self.page {
            DialogPage::Card => " details",
            DialogPage::Details => " ids",
            DialogPage::DetailsWithIds => " back",
        };
        // Before the choices that do not answer.
        let place = choices.iter().position(|choice| matches!(choice.key, 'u' | 'l' | 'x'));
        let place = place.unwrap_or(spans.len());
        spans.insert(place, vec![Span::styled("d", palette.key()), Span::raw(turns.to_owned())]);
        flow(spans, columns)
    }
}

/// Draws the dialog and returns the position of the cursor.
pub(super) fn draw(
    dialogue: &mut QuestionDialog,
    area: Rect,
    buf: &mut Buffer,
    now: Duration,
    left: Option<Duration>,
) -> Option<Position> {
    let palette = dialogue.setting.palette;
    head(dialogue, Rect { height: area.height.min(1), ..area }, buf, left);
    let room = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    // The number of rows below is known only after layout, and the room for the question depends on the text of the footer.
    let (body, _) = split(&dialogue.foot(area.width, now), room);
    dialogue.view_mut().measure(body);
    let foot = dialogue.foot(area.width, now);
    let (body, below) = split(&foot, room);
    dialogue.view_mut().draw(body, buf, palette);
    let lines = u16::try_from(foot.lines.len()).unwrap_or(u16::MAX);
    let line_rows = lines.min(below.height.saturating_sub(foot.field_rows.min(1)));
    dialogue.is_foot_cut = line_rows < lines;
    for (line, y) in foot.lines.iter().take(usize::from(line_rows)).zip(below.y..) {
        buf.set_line(below.x, y, line, below.width);
    }
    let field = Rect { y: below.y + line_rows, height: below.height - line_rows, ..below };
    match &mut dialogue.stage {
        DialogMode::Feedback(text) | DialogMode::Words(text) | DialogMode::Mask(text) => {
            text.draw(field, buf, Style::new())
        }
        DialogMode::Challenge(form) => form.field.draw(field, buf, Style::new()),
        DialogMode::Edit(edit) => edit.field.draw(field, buf, Style::new()),
        DialogMode::Result(editor) => editor.field.draw(field, buf, Style::new()),
        DialogMode::Reading | DialogMode::Leave(_) | DialogMode::Parts(_) => None,
    }
}

/// Splits the room into a part for the question and a part for the footer.
fn split(foot: &DialogFooter, room: Rect) -> (Rect, Rect) {
    let lines = u16::try_from(foot.lines.len()).unwrap_or(u16::MAX);
    let wanted = lines.saturating_add(foot.field_rows);
    let rows = wanted.min(room.height.saturating_sub(BODY_MIN)).max(room.height.min(2));
    let body = Rect { height: room.height - rows, ..room };
    (body, Rect { y: body.y + body.height, height: rows, ..room })
}

/// Draws the bar with the agent and the remaining time.
fn head(dialogue: &QuestionDialog, area: Rect, buf: &mut Buffer, left: Option<Duration>) {
    let palette = dialogue.setting.palette;
    if area.height == 0 {
        return;
    }
    let who = match dialogue.sheets() {
        [sheet] => {
            let agent = make_visible(sheet.agent.as_str(), EscapeLevel::Name);
            // The details name the session.
            format!(" Byleave: {agent} asks in {}", make_visible(&sheet.cwd, EscapeLevel::Name))
        }
        several => format!(" Byleave: {} questions, one answer", several.len()),
    };
    let time = match left {
        Some(left) if dialogue.is_agent_waiting => format!(" agent waits {} ", clock(left)),
        Some(left) => format!(" {} left ", clock(left)),
        None => String::new(),
    };
    let style = match left {
        Some(left) if left < Duration::from_secs(30) => palette.bar().patch(palette.grave()),
        _ => Style::new(),
    };
    let bar = match dialogue.gravity {
        RiskLevel::Irreversible => palette.bar().patch(palette.grave()),
        RiskLevel::High => palette.bar().patch(palette.careful()),
        RiskLevel::Normal => palette.bar(),
    };
    buf.set_style(area, bar);
    let room = usize::from(area.width).saturating_sub(time.width() + 1);
    buf.set_stringn(area.x, area.y, who, room, bar);
    let x = area.x + area.width.saturating_sub(u16::try_from(time.width()).unwrap_or(area.width));
    buf.set_stringn(x, area.y, &time, time.width(), style);
}

/// Lays out the standing approval form: its rows, the rule, and the past calls it would have covered.
fn leave(form: &StandingApprovalForm, columns: usize, palette: Palette) -> Vec<Line<'static>> {
    let mut lines = wrapped(
        "Standing approval: yes, and don't ask again about this. ↑↓←→ choose; Enter confirms; Esc goes back",
        columns,
        palette.key(),
    );
    for (place, (label, value, at, count)) in form.rows().into_iter().enumerate() {
        let style =
            if place == form.row { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        let (left, right) = (if at > 0 { "◂" } else { " " }, if at + 1 < count { "▸" } else { " " });
        // The scope text was escaped where it was made.
        let text = format!("{label:>10} {left} {value} {right}");
        lines.extend(wrapped(&text, columns, style));
    }
    for text in form.standing_approval().to_rule_toml(form.now()).lines() {
        lines.extend(wrapped(
            &format!("  {}", make_visible(text, EscapeLevel::Text)),
            columns,
            palette.faint(),
        ));
    }
    match &form.covered_calls {
        None => lines.push(Line::styled("  looking up past calls …", palette.faint())),
        Some(words) => {
            for text in words {
                lines.extend(wrapped(
                    &format!("  {}", make_visible(text, EscapeLevel::Text)),
                    columns,
                    Style::new(),
                ));
            }
        }
    }
    lines
}

fn kept(parts: &ChangeSelection, palette: Palette) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(
        "Space turns a change to “apply” or “leave”; Enter confirms; Esc goes back",
        palette.key(),
    )];
    let from = parts.cursor.saturating_sub(4);
    for (place, (shown, _, is_applied)) in parts.rows.iter().enumerate().skip(from).take(9) {
        let mark = if *is_applied { "apply" } else { "leave" };
        let style =
            if place == parts.cursor { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        lines.push(Line::styled(format!("{mark}  {shown}"), style));
    }
    lines
}

fn key(choice: &DialogChoice, ready: bool, palette: Palette) -> Vec<Span<'static>> {
    let off = choice.disabled_reason.is_some() || !ready;
    let (letter, word) = if off { (palette.faint(), palette.faint()) } else { (palette.key(), Style::new()) };
    vec![Span::styled(choice.key.to_string(), letter), Span::styled(format!(" {}", choice.name), word)]
}

/// Lays out pieces side by side, on as many lines as needed.
fn flow(pieces: Vec<Vec<Span<'static>>>, columns: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Vec::new()];
    let mut used = 0;
    for piece in pieces {
        let wide: usize = piece.iter().map(Span::width).sum();
        if used > 0 && used + 2 + wide > columns {
            lines.push(Vec::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(Span::raw("  "));
                used += 2;
            }
            line.extend(piece);
        }
        used += wide;
    }
    lines.into_iter().map(Line::from).collect()
}

/// Wraps a text of the program to the width.
fn wrapped(text: &str, columns: usize, style: Style) -> Vec<Line<'static>> {
    // Continuation lines are indented two columns more than the first.
    let (body, deep) = (text.trim_start(), text.len() - text.trim_start().len());
    let hanging = if deep == 0 { 0 } else { deep + 2 };
    let lines = wrap_text(body, columns.saturating_sub(hanging.max(deep)));
    let indented = |(place, line): (usize, String)| {
        let indent = if place == 0 { deep } else { hanging };
        Line::styled(format!("{:indent$}{line}", ""), style)
    };
    lines.into_iter().enumerate().map(indented).collect()
}

fn rows(count: usize) -> String {
    if count == 1 { "1 line".to_owned() } else { format!("{count} lines") }
}
