//! The last lines of a terminal, redrawn in place. Ended calls are written above them and stay.
//!
//! It reads no keys and changes no terminal mode, so there is nothing to restore at the end.

use std::fmt::Write as _;
use std::io;

use byleave_gate::core::entry::RecordEvent;

use super::call_tracker::{CallInfo, CallStage, CallTracker, TrackedCall, WatchEvent};
use super::format;
use crate::console::{Console, Tone, one_line, prose};
use crate::short_ids::short;
use crate::time::now;

const BAR_COLUMNS: usize = 20;

/// The last lines of a terminal.
pub(super) struct Region {
    /// The drawn lines.
    drawn: Vec<String>,
    size: (usize, usize),
}

impl Region {
    pub(super) const fn new() -> Self {
        Self { drawn: Vec::new(), size: (0, 0) }
    }

    /// Writes the ended calls, and draws the open ones.
    pub(super) fn draw(&mut self, screen: &mut Console, scene: &CallTracker, happened: &[WatchEvent]) {
        let size = size();
        let (columns, rows) = size;
        let ended: Vec<&WatchEvent> = happened.iter().filter(|happening| is_last(happening)).collect();
        let mut lines = Vec::new();
        for act in scene.calls().filter(|act| !matches!(act.stage, CallStage::Settled { .. })) {
            lines.extend(of(act, columns, screen));
        }
        if lines.is_empty() {
            lines.push(cut("no call is in progress; press Ctrl-C to exit", columns));
        }
        // One row stays free for the cursor.
        let room = rows.saturating_sub(1).max(1);
        if lines.len() > room {
            let more = lines.len() - room + 1;
            lines.truncate(room - 1);
            lines.push(cut(&format!("… {more} more lines; make the window taller"), columns));
        }
        if ended.is_empty() && lines == self.drawn && size == self.size {
            return;
        }
        self.clear(screen, size);
        for happening in ended {
            format::print_event(screen, happening);
            if let Some(act) = about(happening).and_then(|who| scene.call(who.call)) {
                let verdict =
                    act.verdict.as_deref().map(|verdict| format!("{verdict}; ")).unwrap_or_default();
                screen.line(&cut(
                    &format!("    {}", prose(&format!("{verdict}{}", format::format_caller(&act.info)))),
                    columns,
                ));
            }
        }
        let mut text = String::new();
        for line in &lines {
            // Writing to a string cannot fail.
            writeln!(text, "{line}").unwrap_or_default();
        }
        screen.raw_text(&text);
        (self.drawn, self.size) = (lines, size);
    }

    /// Leaves the screen as it is, for later output.
    pub(super) fn leave(&mut self, screen: &mut Console) {
        self.drawn.clear();
        screen.line("");
    }

    fn clear(&self, screen: &mut Console, size: (usize, usize)) {
        if self.size != (0, 0) && size != self.size {
            // After a resize the lines may be wrapped, and their start is unknown.
            screen.raw_text("\x1b[2J\x1b[H");
        } else if !self.drawn.is_empty() {
            screen.raw_text(&format!("\x1b[{}A\r\x1b[J", self.drawn.len()));
        }
    }
}

/// Returns the call of an entry event.
const fn about(happening: &WatchEvent) -> Option<&CallInfo> {
    match happening {
        WatchEvent::Entry { who, .. } => Some(who),
        _ => None,
    }
}

/// Checks whether an event stays on the screen.
fn is_last(happening: &WatchEvent) -> bool {
    match happening {
        WatchEvent::Entry { entry, .. } => matches!(entry.event, RecordEvent::Settled(_)),
        WatchEvent::Damaged { .. } => true,
        WatchEvent::AlreadyOpen(_) | WatchEvent::Progress { .. } | WatchEvent::Output { .. } => false,
    }
}

/// Draws a call: one line, its progress, and the end of its output.
fn of(act: &TrackedCall, columns: usize, screen: &Console) -> Vec<String> {
    let who = &act.info;
    let sign = match act.stage {
        CallStage::Open | CallStage::Settled { .. } => '.',
        CallStage::Rehearsing { .. } => '~',
        CallStage::Waiting { .. } => '?',
        CallStage::Running { .. } => '>',
        CallStage::Damaged => '!',
    };
    let head = format!(
        "{sign} {}  {}  {}  {}/{}  {}",
        short(&who.call),
        one_line(&who.tool),
        prose(&format::format_stage(&act.stage, now())),
        one_line(&who.agent),
        one_line(who.session.as_str()),
        one_line(&who.summary)
    );
    let head = cut(&head, columns);
    let mut lines = vec![match act.stage {
        CallStage::Waiting { .. } => screen.painted(Tone::Careful, &head),
        CallStage::Damaged => screen.painted(Tone::Bad, &head),
        CallStage::Running { .. } | CallStage::Rehearsing { .. } => screen.painted(Tone::Strong, &head),
        CallStage::Open | CallStage::Settled { .. } => head,
    }];
    if let CallStage::Waiting { question, .. } = &act.stage {
        lines.push(
            screen.painted(Tone::Careful, &cut(&format!("    {}", format::how_to_answer(question)), columns)),
        );
        let verdict = act.verdict.as_deref().unwrap_or_default();
        lines.push(cut(&format!("    {}", prose(verdict)), columns));
    }
    if let Some(live) = &act.live {
        let said = prose(&format::progress(live.fraction, &live.detail));
        match live.fraction {
            Some(fraction) => lines.push(cut(&format!("    {} {said}", bar(fraction)), columns)),
            None if !said.is_empty() => lines.push(cut(&format!("    {said}"), columns)),
            None => {}
        }
    }
    lines.extend(act.tail.iter().map(|line| cut(&format!("    | {}", prose(line)), columns)));
    lines
}

fn bar(fraction: f64) -> String {
    let full = (0..BAR_COLUMNS).filter(|place| {
        let upto = f64::from(u32::try_from(*place).unwrap_or(u32::MAX)) + 1.0;
        upto <= fraction * 20.0 + 1e-9
    });
    let full = full.count();
    format!("[{}{}]", "#".repeat(full), "-".repeat(BAR_COLUMNS - full))
}

/// Cuts a line so that it certainly fits. A character that may be two columns wide is taken as two.
fn cut(line: &str, columns: usize) -> String {
    let wide = |c: char| if (c as u32) < 0x1100 || c == '…' { 1 } else { 2 };
    if line.chars().map(wide).sum::<usize>() <= columns {
        return line.to_owned();
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += wide(*c);
        used <= columns
    };
    line.chars().take_while(fits).chain(['…']).collect()
}

/// Returns the columns and rows of the terminal.
fn size() -> (usize, usize) {
    let known = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let known = known.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    known.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or((80, 24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_whatever_is_in_them() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("漢字漢字", 5), "漢字…");
        assert_eq!(bar(0.0), "[--------------------]");
        assert_eq!(bar(0.5), "[##########----------]");
        assert_eq!(bar(7.0), "[####################]");
    }
}
