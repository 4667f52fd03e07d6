//! Times for people: on the clock of this machine, in UTC or relative, and durations.

use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::call::Millis;

use byleave_gate::core::time_format::{LocalTime, civil_date};
pub(crate) use byleave_gate::core::time_format::{format_duration, format_utc};
use chrono::{Local, LocalResult, NaiveDateTime, Offset as _, TimeZone as _};

use crate::error::CliError;

const SECOND: Millis = 1_000;
const MINUTE: Millis = 60 * SECOND;
const HOUR: Millis = 60 * MINUTE;
pub(crate) const DAY: Millis = 24 * HOUR;

/// Returns the current time.
pub(crate) fn now() -> Millis {
    SystemClock.now()
}

/// Returns how many seconds the person's clock is ahead of UTC at a time. `TZ` says which clock that is, as for other programs.
pub(crate) fn utc_offset(at: Millis) -> i32 {
    let at = i64::try_from(at).ok().and_then(|at| Local.timestamp_millis_opt(at).single());
    at.map_or(0, |at| at.offset().fix().local_minus_utc())
}

/// Formats a time on the person's clock.
pub(crate) fn format_local(at: Millis) -> String {
    LocalTime::new(at, utc_offset(at)).to_string()
}

/// Returns the time at which the person's clock shows this. `shown` is what a clock in UTC would show at the same time.
fn from_local(shown: Millis) -> Millis {
    let shown_at = i64::try_from(shown).ok().and_then(chrono::DateTime::from_timestamp_millis);
    let Some(shown_at) = shown_at else { return shown };
    let naive: NaiveDateTime = shown_at.naive_utc();
    match Local.from_local_datetime(&naive) {
        LocalResult::Single(at) | LocalResult::Ambiguous(at, _) => {
            u64::try_from(at.timestamp_millis()).unwrap_or(0)
        }
        // The clock was put forward over this time.
        LocalResult::None => shown.saturating_add_signed(-i64::from(utc_offset(shown)) * 1_000),
    }
}

/// Formats a day since 1970-01-01 as its date.
pub(crate) fn date(day: u64) -> String {
    let (year, month, day) = civil_date(day);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns the day since 1970-01-01 of a date, if the date exists.
fn day_of(year: u64, month: u64, day: u64) -> Option<u64> {
    // From 1970 on a year has 365 or 366 days, so the day is found within a few steps.
    let least =
        year.checked_sub(1970)?.checked_mul(365)?.checked_add(month.checked_sub(1)?.checked_mul(28)?)?;
    let most = least.checked_add(year / 4)?.checked_add(64)?;
    (year < 10_000).then(|| (least..most).find(|days| civil_date(*days) == (year, month, day)))?
}

/// Formats a short duration, to the tenth of a second.
pub(crate) fn precise(ms: Millis) -> String {
    if ms < MINUTE { format!("{}.{} s", ms / SECOND, ms % SECOND / 100) } else { format_duration(ms) }
}

/// Parses a duration: a number and a unit.
pub(crate) fn parse_duration(typed: &str) -> Result<Millis, CliError> {
    let wrong = || {
        CliError::new(format!("`{typed}` is not a duration"))
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

/// Parses a time: a duration ago, or a date with or without a time of day, on the person's clock. A `Z` at the end means UTC.
pub(crate) fn parse_time(typed: &str, now: Millis) -> Result<Millis, CliError> {
    let wrong = || {
        CliError::new(format!("`{typed}` is not a valid time")).hint(
            "write how long ago (a number and s, m, h, d or w, as in `2h`) or a date, as in `2026-03-01` or `2026-03-01T14:30`; `2026-03-01T14:30Z` is in UTC",
        )
    };
    match parse_duration(typed) {
        Ok(span) => Ok(now.saturating_sub(span)),
        Err(_) => {
            let shown = dated(typed).ok_or_else(wrong)?;
            Ok(if typed.ends_with('Z') { shown } else { from_local(shown) })
        }
    }
}

/// Parses a start time: the next time of day, or a date, in UTC.
#[cfg(feature = "agent")]
pub(crate) fn parse_start_time(typed: &str, now: Millis) -> Result<Millis, CliError> {
    let wrong = || {
        CliError::new(format!("`{typed}` is not a time in the future"))
            .hint("write a time of day in UTC, as in `07:30`, or a date, as in `2026-03-01T14:30`")
    };
    let today = now - now % DAY;
    let clock = dated(&format!("1970-01-01T{typed}")).filter(|ms| *ms < DAY);
    let next =
        clock.map(|ms| today.saturating_add(ms)).map(|at| if at < now { at.saturating_add(DAY) } else { at });
    next.or_else(|| dated(typed)).filter(|at| *at >= now).ok_or_else(wrong)
}

fn dated(typed: &str) -> Option<Millis> {
    let (date, clock) = match typed.split_once(['T', ' ']) {
        Some((date, clock)) => (date, clock.trim_end_matches('Z')),
        None => (typed, "00:00"),
    };
    let numbers = |text: &str, by: char| -> Option<Vec<u64>> {
        let plain = |part: &str| part.chars().all(|c| c.is_ascii_digit()).then(|| part.parse().ok())?;
        text.split(by).map(plain).collect()
    };
    let [year, month, day] = *numbers(date, '-')?.as_slice() else { return None };
    let (hour, minute, second) = match *numbers(clock, ':')?.as_slice() {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let in_range = hour < 24 && minute < 60 && second < 60;
    let day = day_of(year, month, day).filter(|_| in_range)?;
    Some(day * DAY + hour * HOUR + minute * MINUTE + second * SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read() {
        let now = 1_709_251_200_000;
        let check = |typed: &str, wanted: &str| {
            assert_eq!(format_utc(parse_time(typed, now).unwrap()), wanted, "{typed}")
        };
        check("2h", "2024-02-29 22:00:00Z");
        check("2024-02-29T00:00Z", "2024-02-29 00:00:00Z");
        check("2000-02-29T12:34:56Z", "2000-02-29 12:34:56Z");
        check("2100-12-31 23:59Z", "2100-12-31 23:59:00Z");
        check("1970-01-01T00:00Z", "1970-01-01 00:00:00Z");
        check("9999-12-31T00:00Z", "9999-12-31 00:00:00Z");
        for days in (0..200_000).step_by(11) {
            assert_eq!(parse_time(&format!("{}T00:00Z", date(days)), now).unwrap(), days * DAY);
        }
        // Without a `Z` it is what the clock of the reader shows.
        for typed in ["2024-02-29 12:00:00", "2024-07-01 00:00:00"] {
            assert_eq!(format_local(parse_time(typed, now).unwrap()), typed);
        }
        for wrong in [
            "",
            "yesterday",
            "2023-02-29",
            "2024-13-01",
            "2024-00-10",
            "2024-01-32",
            "1969-12-31",
            "2024-01",
            "2024-01-01T24:00",
            "2024-01-01T12",
            "2024-01-01T12:60",
            "2024-1-+1",
            "99999-01-01",
            "2024-01-01T",
            "18446744073709551615-01-01",
        ] {
            assert!(parse_time(wrong, now).is_err(), "{wrong}");
        }
    }

    #[test]
    fn spans_are_read_and_written() {
        assert_eq!(parse_duration("2h").unwrap(), 2 * HOUR);
        assert_eq!(parse_duration("1w").unwrap(), 7 * DAY);
        for wrong in ["", "h", "2", "0h", "-1h", "2 h", "2y", "99999999999999999999d", "2é"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
