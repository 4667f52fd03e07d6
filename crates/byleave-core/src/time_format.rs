//! Times and durations as text. This module must not read a clock: the current time is passed in.

use std::fmt;

use crate::call::Millis;

const SECOND: Millis = 1_000;
const MINUTE: Millis = 60 * SECOND;
const HOUR: Millis = 60 * MINUTE;
const DAY: Millis = 24 * HOUR;

/// Formats a time in UTC, to the second.
pub fn format_utc(at: Millis) -> String {
    let (days, seconds) = (at / DAY, at % DAY / SECOND);
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// A time on the clock of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// The date, as in `2026-03-01`.
    pub date: String,
    /// The time of day to the second, as in `14:30:00`.
    pub clock: String,
}

impl LocalTime {
    /// Returns a time on a clock that is this many seconds ahead of UTC.
    pub fn new(at: Millis, utc_offset: i32) -> Self {
        let shift = i64::from(utc_offset) * 1_000;
        let local = at.saturating_add_signed(shift);
        let (days, seconds) = (local / DAY, local % DAY / SECOND);
        let (year, month, day) = civil_date(days);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        Self {
            date: format!("{year:04}-{month:02}-{day:02}"),
            clock: format!("{hour:02}:{minute:02}:{second:02}"),
        }
    }
}

impl fmt::Display for LocalTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.date, self.clock)
    }
}

/// Formats the difference of a clock from UTC in seconds, as in `UTC+01:00`.
pub fn format_utc_offset(utc_offset: i32) -> String {
    let sign = if utc_offset < 0 { '-' } else { '+' };
    let minutes = utc_offset.unsigned_abs() / 60;
    match minutes {
        0 => "UTC".to_owned(),
        _ => format!("UTC{sign}{:02}:{:02}", minutes / 60, minutes % 60),
    }
}

/// Returns the date of a day since 1970-01-01. It uses eras of 400 years, and years that begin in March so that leap days come last.
pub const fn civil_date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// Formats a duration in one unit, rounded down.
pub fn format_duration(ms: Millis) -> String {
    match ms {
        0..MINUTE => format!("{} s", ms / SECOND),
        MINUTE..HOUR => format!("{} min", ms / MINUTE),
        HOUR..DAY => format!("{} h", ms / HOUR),
        _ => format!("{} d", ms / DAY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_in_utc() {
        assert_eq!(format_utc(0), "1970-01-01 00:00:00Z");
        assert_eq!(format_utc(951_827_696_789), "2000-02-29 12:34:56Z");
        assert_eq!(format_utc(1_709_251_199_000), "2024-02-29 23:59:59Z");
        assert_eq!(format_utc(1_709_251_200_000), "2024-03-01 00:00:00Z");
        assert_eq!(format_utc(4_107_542_399_000), "2100-02-28 23:59:59Z");
        assert_eq!(format_utc(4_107_542_400_000), "2100-03-01 00:00:00Z");
    }

    #[test]
    fn clocks_differ_from_utc_in_both_directions() {
        let at = |offset| LocalTime::new(1_709_251_199_000, offset).to_string();
        assert_eq!(at(0), "2024-02-29 23:59:59");
        assert_eq!(at(3_600), "2024-03-01 00:59:59");
        assert_eq!(at(-34_200), "2024-02-29 14:29:59");
        assert_eq!(LocalTime::new(0, -3_600).to_string(), "1970-01-01 00:00:00", "there is no time before");
        assert_eq!(format_utc_offset(0), "UTC");
        assert_eq!(format_utc_offset(20_700), "UTC+05:45");
        assert_eq!(format_utc_offset(-34_200), "UTC-09:30");
    }

    #[test]
    fn spans_have_one_unit() {
        assert_eq!(format_duration(59_999), "59 s");
        assert_eq!(format_duration(90 * MINUTE), "1 h");
    }
}
