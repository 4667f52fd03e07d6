//! Draws the list: a bar with the number of questions, a line for each question, news and keys.

use std::time::Duration;

use byleave_core::call::Millis;
use byleave_core::escape::{EscapeLevel, make_visible};
use byleave_core::question::QuestionKind;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthStr as _;

use super::Inbox;
use super::list::InboxItem;
use crate::palette::Palette;
use crate::text::{clock, fit, wrap_text};

/// The number of lines of news.
const NEWS_ROWS: u16 = 3;

/// Draws the list and returns the position of the cursor.
pub(super) fn draw(inbox: &mut Inbox, area: Rect, buf: &mut Buffer, time: Millis) -> Option<Position> {
    let palette = inbox.setting.palette;
    let mut told: Vec<String> = Vec::new();
    for text in inbox.news.iter().rev().take(usize::from(NEWS_ROWS)).rev() {
        told.extend(wrap_text(&make_visible(text, EscapeLevel::Text), usize::from(area.width)));
    }
    let rows = usize::from(NEWS_ROWS.min(area.height / 4));
    let told = told.split_off(told.len().saturating_sub(rows));
    let news_rows = u16::try_from(told.len()).unwrap_or(NEWS_ROWS);
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(2 + news_rows), ..area };
    head(inbox, Rect { height: area.height.min(1), ..area }, buf);
    questions(inbox, body, buf, time);
    let news = Rect { y: body.y + body.height, height: news_rows, ..area };
    for (text, y) in told.iter().zip(news.y..) {
        buf.set_stringn(area.x, y, text, usize::from(area.width), palette.careful());
    }
    foot(inbox, Rect { y: news.y + news.height, height: 1, ..area }, buf)
}

fn head(inbox: &Inbox, area: Rect, buf: &mut Buffer) {
    let (open, shown, marked) = inbox.list.counts();
    let mut text = format!(" Byleave inbox: {open} open");
    if shown != open {
        text.push_str(&format!(
            ", {shown} shown for “{}”",
            make_visible(inbox.list.text(), EscapeLevel::Text)
        ));
    }
    if marked > 0 {
        text.push_str(&format!(", {marked} marked"));
    }
    text.push_str(&format!(", {}", inbox.list.order().description()));
    buf.set_style(area, inbox.setting.palette.bar());
    buf.set_stringn(area.x, area.y, text, usize::from(area.width), inbox.setting.palette.bar());
}

fn questions(inbox: &mut Inbox, area: Rect, buf: &mut Buffer, time: Millis) {
    let palette = inbox.setting.palette;
    let height = usize::from(area.height);
    let list = &mut inbox.list;
    list.height = height;
    list.top = list.top.min(list.place).max((list.place + 1).saturating_sub(height));
    if list.counts().1 == 0 {
        let text = match (inbox.is_read, list.counts().0) {
            (false, _) => "reading the audit log …",
            (true, 0) => "no open questions; new ones appear here automatically",
            (true, _) => "no open question matches the filter",
        };
        buf.set_stringn(area.x + 1, area.y, text, usize::from(area.width), palette.faint());
        return;
    }
    for ((place, item, is_marked), y) in list.window(height).zip(area.y..) {
        let row = Rect { y, height: 1, ..area };
        draw_item(item, is_marked, row, buf, palette, time);
        if place == list.place {
            buf.set_style(row, Style::new().add_modifier(Modifier::REVERSED));
        }
    }
}

fn draw_item(
    item: &InboxItem,
    is_marked: bool,
    area: Rect,
    buf: &mut Buffer,
    palette: Palette,
    time: Millis,
) {
    let left = Duration::from_millis(item.expires_at.saturating_sub(time));
    let age = Duration::from_millis(time.saturating_sub(item.asked_at));
    let left_style = if left < Duration::from_secs(60) { palette.grave() } else { palette.faint() };
    let (kind, kind_style) = match item.kind {
        QuestionKind::Approval => (" ", Style::new()),
        QuestionKind::Checkpoint => ("!", palette.grave()),
        QuestionKind::Release => ("⇧", palette.careful()),
    };
    let (mark, mark_style) = if is_marked { ("✔", palette.good()) } else { (" ", Style::new()) };
    let mut x = area.x;
    let mut put = |text: &str, wide: usize, style: Style| {
        buf.set_stringn(x, area.y, fit(text, wide), wide, style);
        x = x.saturating_add(u16::try_from(wide + 1).unwrap_or(u16::MAX));
    };
    let left = clock(left);
    // The question first, and on the right who asks, for how long it has waited, and the time that is left.
    let about = match area.width {
        0..60 => String::new(),
        60..100 => fit(&item.agent, 12),
        _ => format!("{} · {} · {} ago", fit(&item.session, 14), fit(&item.agent, 14), clock(age)),
    };
    let right = about.width() + left.width().max(8) + 2;
    let room = usize::from(area.width).saturating_sub(right + 4);
    put(mark, 1, mark_style);
    put(kind, 1, kind_style);
    put(&item.line, room, Style::new());
    put(&about, about.width(), palette.faint());
    put(&left, left.width(), left_style);
}

fn foot(inbox: &mut Inbox, area: Rect, buf: &mut Buffer) -> Option<Position> {
    let palette = inbox.setting.palette;
    if let Some(field) = &mut inbox.filter {
        let label = "show only: ";
        let (x, _) = buf.set_stringn(area.x, area.y, label, usize::from(area.width), palette.key());
        let room = Rect { x, width: area.width.saturating_sub(x - area.x), ..area };
        return field.draw(room, buf, Style::new());
    }
    let undo = if inbox.setting.undo.is_some() { "  u undo" } else { "" };
    let keys = format!("Enter opens  Space marks  * marks all  / filter  s order{undo}  q quit");
    buf.set_stringn(area.x, area.y, keys, usize::from(area.width), palette.faint());
    None
}
