//! Times for people: in UTC, or how long ago; and how long something shall last.

use byleave::clock::{Clock as _, SystemClock};
use byleave::core::call::Millis;

pub(crate) use byleave::core::moment::{span, utc};

use crate::complaint::Complaint;

const SECOND: Millis = 1_000;
const MINUTE: Millis = 60 * SECOND;
const HOUR: Millis = 60 * MINUTE;
const DAY: Millis = 24 * HOUR;

/// The time now.
pub(crate) fn now() -> Millis {
    SystemClock.now()
}

/// How long something shall last: a number and a unit.
pub(crate) fn lasting(typed: &str) -> Result<Millis, Complaint> {
    let wrong = || {
        Complaint::new(format!("`{typed}` is not a time"))
            .hint("write a number and s, m, h, d or w, as in `--for 2h`")
    };
    let unit = typed.chars().next_back().ok_or_else(wrong)?;
    let number: u64 = typed.strip_suffix(unit).and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
    let each = match unit {
        's' => SECOND,
        'm' => MINUTE,
        'h' => HOUR,
        'd' => DAY,
        'w' => 7 * DAY,
        _ => return Err(wrong()),
    };
    number.checked_mul(each).filter(|ms| *ms > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_written() {
        assert_eq!(lasting("2h").unwrap(), 2 * HOUR);
        assert_eq!(lasting("1w").unwrap(), 7 * DAY);
        for wrong in ["", "h", "2", "0h", "-1h", "2 h", "2y", "99999999999999999999d", "2é"] {
            assert!(lasting(wrong).is_err(), "{wrong}");
        }
    }
}
