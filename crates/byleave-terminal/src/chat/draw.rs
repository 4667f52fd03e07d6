//! Draws the chat: a status bar, the transcript, the model's activity, the input field and keys. A question is drawn over all of
//! it.

use std::time::Duration;

use byleave_core::call::Millis;
use byleave_core::escape::{EscapeLevel, make_visible};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr as _;

use super::transcript::{StyledRow, TextStyle};
use super::{Chat, ModelActivity, slash_commands};
use crate::palette::Palette;
use crate::text::{clock, fit};

/// The maximum number of rows of the input field.
const FIELD_ROWS_MAX: usize = 8;
/// The minimum number of transcript rows above a question.
const ABOVE_MIN: u16 = 3;

pub(super) fn draw(
    chat: &mut Chat,
    area: Rect,
    buf: &mut Buffer,
    now: Duration,
    time: Millis,
) -> Option<Position> {
    let palette = chat.setting.palette;
    if let Some(dialogue) = chat.dialogue.as_mut().filter(|_| !chat.is_away) {
        let wanted = u16::try_from(dialogue.height(area.width)).unwrap_or(u16::MAX);
        // A question is shown whole. The transcript gets the remaining rows.
        let above = area.height.saturating_sub(wanted);
        let above = if above < ABOVE_MIN { 0 } else { above };
        let left = Duration::from_millis(dialogue.expires_at().saturating_sub(time));
        let modal = Rect { y: area.y + above, height: area.height - above, ..area };
        let cursor = dialogue.draw(modal, buf, now, Some(left));
        if above > 0 {
            let upper = Rect { height: above, ..area };
            head(chat, upper, buf);
            conversation(chat, below_head(upper), buf);
        }
        return cursor;
    }
    if let Some(page) = &mut chat.page {
        page.draw(area, buf, palette);
        return None;
    }
    if let Some(picker) = &mut chat.picker {
        let cursor = picker.draw(area, buf, palette);
        if let Some(told) = chat.told.as_ref().filter(|_| area.height > 0) {
            let last = Rect { y: area.bottom() - 1, height: 1, ..area };
            buf.set_string(last.x, last.y, " ".repeat(usize::from(last.width)), Style::new());
            put(&make_visible(told, EscapeLevel::Text), last, last.y, buf, palette.careful());
        }
        return cursor;
    }
    let field_rows = chat.field.height(usize::from(area.width.saturating_sub(2))).min(FIELD_ROWS_MAX);
    let fitting = slash_commands::matching_commands(&chat.field.text());
    let rows = |many: usize| u16::try_from(many).unwrap_or(u16::MAX);
    // From the bottom: keys, the input field, slash commands, queued messages, the model's activity.
    let mut rest = area.height.saturating_sub(1);
    let mut take = |wanted: u16| {
        let taken = wanted.min(rest);
        rest -= taken;
        (taken, area.y + 1 + rest)
    };
    let (keys_rows, keys_y) = take(1);
    let (field_rows, field_y) = take(rows(field_rows));
    let (doing_rows, doing_y) = take(1);
    let (orders_rows, orders_y) = take(rows(fitting.len()));
    let (next_rows, next_y) = take(rows(chat.next.len()).min(3));
    head(chat, Rect { height: area.height.min(1), ..area }, buf);
    conversation(chat, Rect { y: area.y + 1, height: rest, ..area }, buf);
    for (text, y) in chat.next.iter().zip(next_y..next_y + next_rows) {
        let text = format!(
            "› {} (queued until the model is done; Esc takes it back)",
            make_visible(text, EscapeLevel::Text)
        );
        put(&text, area, y, buf, palette.faint());
    }
    for ((name, what, does), y) in fitting.iter().zip(orders_y..orders_y + orders_rows) {
        put(&format!("  {name} {what}  {does}"), area, y, buf, palette.faint());
    }
    if doing_rows > 0 {
        doing(chat, Rect { y: doing_y, height: 1, ..area }, buf, time);
    }
    if keys_rows > 0 {
        keys(chat, Rect { y: keys_y, height: 1, ..area }, buf);
    }
    if field_rows == 0 {
        return None;
    }
    let (x, _) = buf.set_stringn(area.x, field_y, "› ", usize::from(area.width), palette.key());
    let room = Rect { x, y: field_y, width: area.right().saturating_sub(x), height: field_rows };
    chat.field.draw(room, buf, Style::new())
}

fn below_head(area: Rect) -> Rect {
    Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }
}

fn put(text: &str, area: Rect, y: u16, buf: &mut Buffer, style: Style) {
    let wide = usize::from(area.width);
    buf.set_stringn(area.x, y, fit(text, wide), wide, style);
}

fn head(chat: &Chat, area: Rect, buf: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    let bar = chat.setting.palette.bar();
    buf.set_style(Rect { height: 1, ..area }, bar);
    let heading = &chat.heading;
    let dry_run = if heading.is_dry_run { " (dry run)" } else { "" };
    let left =
        format!(" Byleave chat{dry_run}: {}", make_visible(&heading.persona_and_model, EscapeLevel::Text));
    put(&left, area, area.y, buf, bar);
    let right = make_visible(&format!("{}  {}", heading.directory, heading.session), EscapeLevel::Text);
    let (left, right_wide, wide) = (left.width(), right.width(), usize::from(area.width));
    if left + right_wide + 3 <= wide
        && let Ok(x) = u16::try_from(wide - right_wide - 1)
    {
        buf.set_stringn(area.x + x, area.y, right, right_wide, bar);
    }
}

fn conversation(chat: &mut Chat, area: Rect, buf: &mut Buffer) {
    let palette = chat.setting.palette;
    if chat.scroll.is_empty() {
        let hello = [
            "Describe the task. The model uses the available tools under your policy and asks you when needed.",
            match chat.heading.is_dry_run {
                true => "This is a dry run: nothing is executed, and nobody is asked.",
                false => "You can undo changes with /undo.",
            },
        ];
        for (line, y) in hello.iter().zip(area.y + area.height.min(1)..area.bottom()) {
            put(&format!("  {line}"), area, y, buf, palette.faint());
        }
        return;
    }
    let rows = chat.scroll.window(usize::from(area.width), usize::from(area.height));
    for (row, y) in rows.iter().zip(area.y..area.bottom()) {
        draw_row(row, area, y, buf, palette);
    }
}

fn draw_row(row: &StyledRow, area: Rect, y: u16, buf: &mut Buffer, palette: Palette) {
    let mut x = area.x;
    for (text, ink) in row {
        let room = usize::from(area.right().saturating_sub(x));
        (x, _) = buf.set_stringn(x, y, text, room, style(*ink, palette));
    }
}

fn style(ink: TextStyle, palette: Palette) -> Style {
    match ink {
        TextStyle::Plain => Style::new(),
        TextStyle::Strong => Style::new().add_modifier(Modifier::BOLD),
        TextStyle::Faint => palette.faint(),
        TextStyle::Good => palette.good(),
        TextStyle::Careful => palette.style(Color::Yellow),
        TextStyle::Bad => palette.style(Color::Red),
        TextStyle::Person => palette.style(Color::Cyan),
    }
}

fn doing(chat: &Chat, area: Rect, buf: &mut Buffer, time: Millis) {
    let palette = chat.setting.palette;
    if let Some(told) = &chat.told {
        put(&make_visible(told, EscapeLevel::Text), area, area.y, buf, palette.careful());
        return;
    }
    if chat.dialogue.is_some() {
        let many = match chat.questions.len() {
            1 => "one open question".to_owned(),
            many => format!("{many} open questions"),
        };
        put(&format!("{many}: press Tab"), area, area.y, buf, palette.careful());
        return;
    }
    let mut text = match &chat.doing {
        ModelActivity::Rests(words) => make_visible(words, EscapeLevel::Text),
        ModelActivity::Works { since, what } => {
            format!("{what}, {}", clock(Duration::from_millis(time.saturating_sub(*since))))
        }
    };
    let below = chat.scroll.below();
    if below > 0 {
        let gap = if text.is_empty() { "" } else { "; " };
        text.push_str(&format!("{gap}{below} rows below"));
    }
    put(&text, area, area.y, buf, palette.faint());
}

fn keys(chat: &Chat, area: Rect, buf: &mut Buffer) {
    let esc = if chat.is_working() { "  Esc Esc stops" } else { "" };
    let text = format!("Enter sends  Alt-Enter new line{esc}  PageUp scrolls  /help  /quit");
    put(&text, area, area.y, buf, chat.setting.palette.faint());
}
