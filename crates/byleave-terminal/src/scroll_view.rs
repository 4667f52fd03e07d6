//! Lays out, scrolls and folds the lines of a question on a screen that may be too small for them. It never leaves a line out.
//!
//! It knows whether the end was on the screen. Until then nothing can be approved.

use std::collections::HashMap;

use byleave_core::render::{LineRole, RenderLine, Rendering};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr as _;

use crate::keys::KeyPress;
use crate::palette::Palette;
use crate::syntax_highlight::{StyledSpan, SyntaxHighlighter};

/// The maximum number of code lines that one drawing colours. The rest follows in the next, because a grammar is slow.
const COLOURED_MAX: usize = 16;

/// The lines of a question on a screen.
pub struct QuestionPager {
    lines: Vec<RenderLine>,
    folds: Vec<Fold>,
    columns: usize,
    rows: Vec<ScreenRow>,
    top: usize,
    height: usize,
    has_reached_end: bool,
    is_cut: bool,
    colours: HighlightCache,
}

/// Lines that can be folded under the line before them.
struct Fold {
    head: usize,
    end: usize,
    kind: FoldKind,
    is_folded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FoldKind {
    Part,
    Details,
    Difference,
}

/// One row of the screen: a line or a part of one.
struct ScreenRow {
    line: usize,
    text: String,
    /// The number of gutter characters at its start.
    gutter: usize,
    /// The start of the part in its line, in bytes after the gutter.
    from: usize,
}

impl QuestionPager {
    /// Creates a view of these lines. The details are folded; `d` opens them.
    pub fn new(rendering: &Rendering) -> Self {
        let lines = rendering.lines.clone();
        Self {
            folds: folds(&lines),
            lines,
            columns: 0,
            rows: Vec::new(),
            top: 0,
            height: 0,
            has_reached_end: false,
            is_cut: false,
            colours: HighlightCache::default(),
        }
    }

    /// Checks whether the end was on the screen with no line cut off.
    pub const fn has_reached_end(&self) -> bool {
        self.has_reached_end && !self.is_cut
    }

    /// Checks whether the screen is too narrow for the lines.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the number of rows below the screen.
    pub fn below(&self) -> usize {
        self.rows.len().saturating_sub(self.top + self.height)
    }

    /// Returns the number of rows above the screen.
    pub const fn above(&self) -> usize {
        self.top
    }

    /// Returns the number of rows at this width.
    pub fn rows(&mut self, columns: u16) -> usize {
        self.lay_out(usize::from(columns));
        self.rows.len()
    }

    /// Handles a key that moves, and returns whether it did.
    pub fn key(&mut self, key: &KeyPress) -> bool {
        let page = self.height.saturating_sub(1).max(1);
        match key {
            KeyPress::Up => self.top = self.top.saturating_sub(1),
            KeyPress::Down => self.top += 1,
            KeyPress::PageUp => self.top = self.top.saturating_sub(page),
            KeyPress::PageDown | KeyPress::Char(' ') => self.top += page,
            KeyPress::Home => self.top = 0,
            KeyPress::End => self.top = self.rows.len(),
            KeyPress::Left => self.fold_here(),
            KeyPress::Right => self.unfold_here(),
            KeyPress::Tab => self.fold_differences(),
            _ => return false,
        }
        self.clamp();
        true
    }

    /// Shows or folds the details.
    pub fn toggle_details(&mut self) {
        let mut head = None;
        for fold in self.folds.iter_mut().filter(|fold| fold.kind == FoldKind::Details) {
            fold.is_folded = !fold.is_folded;
            head = Some(fold.head).filter(|_| !fold.is_folded).or(head);
        }
        self.lay_out_again();
        if let Some(head) = head {
            self.go_to(head);
        }
    }

    /// Lays out the lines for an area, so that the rows above and below are known.
    pub fn measure(&mut self, area: Rect) {
        self.height = usize::from(area.height);
        self.lay_out(usize::from(area.width));
        self.clamp();
    }

    /// Draws what fits, and remembers whether the end was visible.
    pub fn draw(&mut self, area: Rect, buf: &mut Buffer, palette: Palette) {
        self.measure(area);
        self.colours.left = COLOURED_MAX;
        for (row, y) in self.rows.iter().skip(self.top).take(self.height).zip(area.y..) {
            let Some(line) = self.lines.get(row.line) else { continue };
            let pieces = match line.role {
                LineRole::Change => self.colours.of(&self.lines, &self.folds, row.line, palette),
                _ => &[],
            };
            draw_row(row, line, pieces, Rect { y, height: 1, ..area }, buf, palette);
        }
        if self.height > 0 && self.below() == 0 {
            self.has_reached_end = true;
        }
    }

    fn lay_out(&mut self, columns: usize) {
        if self.columns == columns {
            return;
        }
        let line = self.rows.get(self.top).map(|row| row.line);
        self.columns = columns;
        self.lay_out_again();
        if let Some(line) = line {
            self.go_to(line);
        }
    }

    fn lay_out_again(&mut self) {
        self.rows.clear();
        self.is_cut = false;
        let mut place = 0;
        while let Some(line) = self.lines.get(place) {
            let folded = self.folds.iter().find(|fold| fold.head == place && fold.is_folded);
            // The key line already mentions them.
            if let Some(details) = folded.filter(|fold| fold.kind == FoldKind::Details) {
                place = details.end;
                continue;
            }
            let mut line = line.clone();
            if let Some(fold) = folded {
                let count = fold.end - fold.head - 1;
                let lines = if count == 1 { "line" } else { "lines" };
                line.text.push_str(&format!(" ⟨{count} {lines} folded⟩"));
            }
            if line.role == LineRole::Heading && line.gutter == 0 && place > 0 {
                self.rows.push(ScreenRow { line: place, text: String::new(), gutter: 0, from: 0 });
            }
            let mut from = 0;
            for piece in line.wrap(self.columns) {
                let (gutter, body) = piece.split_gutter();
                let (gutter, body) = (gutter.chars().count(), body.len());
                self.is_cut |= piece.text.width() > self.columns;
                self.rows.push(ScreenRow { line: place, text: piece.text, gutter, from });
                from += body;
            }
            place = folded.map_or(place + 1, |fold| fold.end);
        }
        self.clamp();
    }

    fn clamp(&mut self) {
        self.top = self.top.min(self.rows.len().saturating_sub(self.height.max(1)));
    }

    fn go_to(&mut self, line: usize) {
        let place = self.rows.iter().position(|row| row.line >= line);
        self.top = place.unwrap_or_else(|| self.rows.len().saturating_sub(1));
        self.clamp();
    }

    /// Folds the block that the first row belongs to.
    fn fold_here(&mut self) {
        let Some(line) = self.rows.get(self.top).map(|row| row.line) else { return };
        let around = |fold: &&mut Fold| !fold.is_folded && fold.head <= line && line < fold.end;
        let innermost = self.folds.iter_mut().filter(around).max_by_key(|fold| fold.head);
        if let Some(fold) = innermost {
            fold.is_folded = true;
            let head = fold.head;
            self.lay_out_again();
            self.go_to(head);
        }
    }

    /// Unfolds the first folded block on the screen.
    fn unfold_here(&mut self) {
        let shown = self.rows.iter().skip(self.top).take(self.height.max(1)).map(|row| row.line);
        let (first, last) = (shown.clone().min(), shown.max());
        let (Some(first), Some(last)) = (first, last) else { return };
        let on_screen = |fold: &&mut Fold| fold.is_folded && (first..=last).contains(&fold.head);
        if let Some(fold) = self.folds.iter_mut().find(on_screen) {
            fold.is_folded = false;
            self.lay_out_again();
        }
    }

    /// Folds or unfolds all differences.
    fn fold_differences(&mut self) {
        let line = self.rows.get(self.top).map(|row| row.line);
        let mut differences: Vec<&mut Fold> =
            self.folds.iter_mut().filter(|fold| fold.kind == FoldKind::Difference).collect();
        let fold = differences.iter().any(|fold| !fold.is_folded);
        differences.iter_mut().for_each(|difference| difference.is_folded = fold);
        self.lay_out_again();
        if let Some(line) = line {
            self.go_to(line);
        }
    }
}

/// Returns the blocks that can be folded: each part, and each difference of a text.
fn folds(lines: &[RenderLine]) -> Vec<Fold> {
    let heading =
        |line: &RenderLine| matches!(line.role, LineRole::Heading | LineRole::Title) && line.gutter == 0;
    let run = |from: usize, goes_on: &dyn Fn(&RenderLine) -> bool| {
        from + lines.iter().skip(from).take_while(|line| goes_on(line)).count()
    };
    let mut folds = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        let (end, kind) = match line.role {
            LineRole::Heading if line.gutter == 0 => {
                let end = run(place + 1, &|line| !heading(line));
                let is_details = lines.get(place + 1).is_some_and(|line| line.role == LineRole::Detail);
                (end, if is_details { FoldKind::Details } else { FoldKind::Part })
            }
            LineRole::Effect => (run(place + 1, &|line| line.role == LineRole::Change), FoldKind::Difference),
            _ => continue,
        };
        if end > place + 1 {
            folds.push(Fold { head: place, end, kind, is_folded: kind == FoldKind::Details });
        }
    }
    folds
}

fn draw_row(
    row: &ScreenRow,
    line: &RenderLine,
    pieces: &[StyledSpan],
    area: Rect,
    buf: &mut Buffer,
    palette: Palette,
) {
    let style = palette.line(line.role);
    let width = usize::from(area.width);
    if line.role != LineRole::Change {
        buf.set_stringn(area.x, area.y, &row.text, width, style);
        return;
    }
    let at = row.text.char_indices().nth(row.gutter).map_or(row.text.len(), |(at, _)| at);
    let (gutter, body) = row.text.split_at_checked(at).unwrap_or((&row.text, ""));
    let (x, _) = buf.set_stringn(area.x, area.y, gutter, width, palette.faint());
    let tone = tone(line, palette);
    let mut x = x;
    for (offset, c) in body.char_indices() {
        let place = row.from + offset;
        let piece = pieces.iter().find(|(end, _)| place < *end).map(|(_, style)| *style);
        let left = usize::from((area.x + area.width).saturating_sub(x));
        let mut cell = [0; 4];
        let style = piece.unwrap_or(tone);
        (x, _) = buf.set_stringn(x, area.y, c.encode_utf8(&mut cell), left, style);
    }
}

/// Returns the style of a line: removed is red, added is green, a destination is cyan. The sign says the same.
fn tone(line: &RenderLine, palette: Palette) -> Style {
    match sign(line) {
        '+' => palette.good(),
        '-' => palette.style(Color::Red),
        '@' => palette.style(Color::Cyan).add_modifier(Modifier::DIM),
        _ => Style::new(),
    }
}

/// Returns the sign of a line of a difference, after the bar.
fn sign(line: &RenderLine) -> char {
    let (_, body) = line.split_gutter();
    let body = body.strip_prefix("┃ ").unwrap_or(body);
    body.chars().next().unwrap_or(' ')
}

/// The colours of the code that was on the screen. Each line is worked out once.
#[derive(Default)]
struct HighlightCache {
    known: HashMap<usize, Vec<StyledSpan>>,
    /// The line that would be read next, and its highlighter.
    next: Option<(usize, SyntaxHighlighter)>,
    /// The number of lines that this drawing may still work out.
    left: usize,
}

impl HighlightCache {
    fn of(&mut self, lines: &[RenderLine], folds: &[Fold], place: usize, palette: Palette) -> &[StyledSpan] {
        if !self.known.contains_key(&place) && self.left > 0 {
            self.left -= 1;
            let pieces = self.read(lines, folds, place, palette);
            self.known.insert(place, pieces);
        }
        self.known.get(&place).map(Vec::as_slice).unwrap_or_default()
    }

    /// Continues from the line before, or starts fresh. After a fresh start the context above, such as an open comment, is not
    /// known.
    fn read(
        &mut self,
        lines: &[RenderLine],
        folds: &[Fold],
        place: usize,
        palette: Palette,
    ) -> Vec<StyledSpan> {
        let around =
            |fold: &&Fold| fold.kind == FoldKind::Difference && fold.head < place && place < fold.end;
        let Some(fold) = folds.iter().find(around) else { return Vec::new() };
        let before = self.next.take().filter(|(next, _)| *next == place && place > fold.head + 1);
        let path = || lines.get(fold.head).map(|line| path(&line.text)).unwrap_or_default();
        let colourer = before.map(|(_, colourer)| colourer).or_else(|| SyntaxHighlighter::for_path(path()));
        let (Some(mut colourer), Some(line)) = (colourer, lines.get(place)) else { return Vec::new() };
        let pieces = code(&mut colourer, line, palette);
        self.next = Some((place + 1, colourer));
        pieces
    }
}

/// Returns the spans of one line of code. Removed lines are not coloured: they are red, and would confuse the highlighter.
fn code(colourer: &mut SyntaxHighlighter, line: &RenderLine, palette: Palette) -> Vec<StyledSpan> {
    let (_, body) = line.split_gutter();
    let sign = sign(line);
    if matches!(sign, '-' | '@' | '\\') {
        return Vec::new();
    }
    let start = body.find(sign).map_or(body.len(), |at| at + sign.len_utf8());
    let code = body.get(start..).unwrap_or_default();
    let mark = if sign == '+' { palette.good().add_modifier(Modifier::BOLD) } else { Style::new() };
    let mut pieces = vec![(start, mark)];
    pieces.extend(colourer.line(code, palette).into_iter().map(|(end, style)| (start + end, style)));
    pieces
}

/// Returns the path in the line above a difference. A card has a plain path without quotes, after a letter.
fn path(text: &str) -> &str {
    let quoted = text.split_once('“').and_then(|(_, rest)| rest.split_once('”'));
    quoted.map_or_else(|| text.split_whitespace().nth(1).unwrap_or_default(), |(path, _)| path)
}
