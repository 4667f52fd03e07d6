//! Bar charts in the terminal: a name, a bar, a number. Names with outside text must already be escaped.

use crate::console::Console;

/// One bar.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) number: u64,
    /// A remark behind the number.
    pub(crate) remark: String,
}

/// The width if it is unknown.
const COLUMNS: usize = 80;
const BAR_COLUMNS_MIN: usize = 4;
const BAR_COLUMNS_MAX: usize = 40;
/// A longer name is cut in the middle, because both ends are informative.
const NAME_COLUMNS_MAX: usize = 40;

/// Draws bars to one scale. The longest bar is the largest number.
pub(crate) fn draw(screen: &mut Console, bars: &[Bar]) {
    for line in lines(bars, screen.columns().unwrap_or(COLUMNS), screen.styled()) {
        screen.line(&line);
    }
}

fn lines(bars: &[Bar], columns: usize, blocks: bool) -> Vec<String> {
    let most = bars.iter().map(|bar| bar.number).max().unwrap_or(0).max(1);
    let wide = |text: &str| text.chars().count();
    let names: Vec<String> = bars.iter().map(|bar| shortened(&bar.name, NAME_COLUMNS_MAX)).collect();
    let name_columns = names.iter().map(|name| wide(name)).max().unwrap_or(0);
    let number_columns = most.to_string().len();
    let remark_columns = bars.iter().map(|bar| wide(&bar.remark)).max().unwrap_or(0);
    // Two spaces before the bar, one before the number, two before the remark. If space is short, the remark overflows.
    let taken = name_columns + number_columns + 3 + if remark_columns == 0 { 0 } else { remark_columns + 2 };
    let room = columns.saturating_sub(taken).clamp(BAR_COLUMNS_MIN, BAR_COLUMNS_MAX);
    let line = |(name, bar): (&String, &Bar)| {
        let drawn = stroke(bar.number, most, room, blocks);
        let padding = " ".repeat(room.saturating_sub(wide(&drawn)));
        let whole = format!(
            "{name:<name_columns$}  {drawn}{padding} {:>number_columns$}  {}",
            bar.number, bar.remark
        );
        whole.trim_end().to_owned()
    };
    names.iter().zip(bars).map(line).collect()
}

/// Returns a bar of the right length. A number above zero always gets a visible bar.
fn stroke(number: u64, most: u64, room: usize, blocks: bool) -> String {
    const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let room = u64::try_from(room).unwrap_or(u64::MAX);
    let scaled = |steps: u64| -> u64 {
        let exact = u128::from(number) * u128::from(steps) / u128::from(most.max(1));
        u64::try_from(exact).unwrap_or(u64::MAX).max(u64::from(number > 0))
    };
    let times = |many: u64| usize::try_from(many).unwrap_or(0);
    if !blocks {
        return "#".repeat(times(scaled(room)));
    }
    let eighths = scaled(room.saturating_mul(8));
    let mut drawn = "█".repeat(times(eighths / 8));
    if eighths % 8 > 0 {
        drawn.extend(PARTS.get(times(eighths % 8)));
    }
    drawn
}

/// Shortens a name to fit by cutting its middle.
pub(crate) fn shortened(name: &str, columns: usize) -> String {
    let chars: Vec<char> = name.chars().collect();
    if chars.len() <= columns {
        return name.to_owned();
    }
    let kept = columns.saturating_sub(1);
    let front = kept.div_ceil(2);
    let (head, tail) = (chars.iter().take(front), chars.iter().skip(chars.len() - (kept - front)));
    head.chain(['…'].iter()).chain(tail).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, number: u64, remark: &str) -> Bar {
        Bar { name: name.into(), number, remark: remark.into() }
    }

    #[test]
    fn bars_fit_and_never_hide_what_is_there() {
        let bars = [bar("bash", 400, "asked 3"), bar("look", 200, ""), bar("x", 1, ""), bar("none", 0, "")];
        let drawn = lines(&bars, 40, false);
        assert_eq!(
            drawn,
            [
                "bash  ##################### 400  asked 3",
                "look  ##########            200",
                "x     #                       1",
                "none                          0",
            ]
        );
        for columns in [20, 40, 80, 200] {
            for blocks in [false, true] {
                let drawn = lines(&bars, columns, blocks);
                assert!(drawn.iter().all(|line| line.chars().count() <= columns.max(24)), "{drawn:?}");
                assert!(drawn[2].contains(if blocks { '▏' } else { '#' }), "{drawn:?}");
            }
        }
        assert!(lines(&bars, 40, true)[1].starts_with("look  ██████████▌ "));
        assert_eq!(lines(&[], 40, true), Vec::<String>::new());
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shortened("abcdefghij", 10), "abcdefghij");
        assert_eq!(shortened("abcdefghij", 5), "ab…ij");
        assert_eq!(shortened("abcdefghij", 4), "ab…j");
    }
}
