//! Values of settings, as written in files and variables.

use std::fmt;

use toml::Spanned;
use toml::de::DeValue;

use super::suggestion::nearest;
use crate::time::parse_duration;

/// The kind of a setting's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SettingKind {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number in this range.
    Number(u64, u64),
    /// A duration in milliseconds, in this range.
    Span(u64, u64),
    /// Yes or no.
    Flag,
    /// A list of words, with a check for each.
    Words(Option<fn(&str) -> Option<String>>),
    /// Any text.
    Text,
    /// A text, with a check that returns the error.
    CheckedText(fn(&str) -> Option<String>),
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingValue {
    Text(String),
    Number(u64),
    /// In milliseconds.
    Span(u64),
    Flag(bool),
    Words(Vec<String>),
}

/// The error in a value, and what to do.
pub(super) type SettingValueError = (String, String);

impl fmt::Display for SettingValue {
    /// Formats the value as in a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Span(ms) => write!(f, "\"{}\"", span(*ms)),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Words(words) => write!(f, "{words:?}"),
        }
    }
}

impl SettingValue {
    /// Returns the value as JSON. Durations are in milliseconds.
    pub(crate) fn json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Number(number) | Self::Span(number) => (*number).into(),
            Self::Flag(flag) => (*flag).into(),
            Self::Words(words) => words.clone().into(),
        }
    }

    /// Converts a value from a file.
    pub(super) fn from_toml(
        kind: SettingKind,
        found: &Spanned<DeValue<'_>>,
    ) -> Result<Self, SettingValueError> {
        let value = found.get_ref();
        let wrong =
            |wanted: &str, todo: &str| (format!("this is {}, not {wanted}", kind_of(value)), todo.to_owned());
        match kind {
            SettingKind::Number(..) => {
                let number = value.as_integer().map(ToString::to_string);
                let number = number.ok_or_else(|| wrong("a number", "write it without quotes"))?;
                Self::from_text(kind, &number)
            }
            SettingKind::Flag => {
                let flag = value.as_bool();
                let todo = "write `true` or `false`, without quotes";
                Ok(Self::Flag(flag.ok_or_else(|| wrong("true or false", todo))?))
            }
            SettingKind::Words(check) => {
                let todo = "write a list of strings, as in `[\"one\", \"two\"]`";
                let items = value.as_array().ok_or_else(|| wrong("a list", todo))?;
                let words = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
                checked(words.collect::<Option<_>>().ok_or_else(|| wrong("a list of strings", todo))?, check)
            }
            SettingKind::Choice(_)
            | SettingKind::Span(..)
            | SettingKind::Text
            | SettingKind::CheckedText(_) => {
                Self::from_text(kind, value.as_str().ok_or_else(|| wrong("a string", "put it in quotes"))?)
            }
        }
    }

    /// Parses a value from a variable or a flag.
    pub(super) fn from_text(kind: SettingKind, text: &str) -> Result<Self, SettingValueError> {
        match kind {
            SettingKind::Choice(words) if words.contains(&text) => Ok(Self::Text(text.to_owned())),
            SettingKind::Choice(words) => {
                let near = nearest(text, words.iter().copied());
                let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
                let all: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                Err((
                    format!("`{text}` is not a valid value"),
                    format!("{near}the values are {}", all.join(", ")),
                ))
            }
            SettingKind::Number(least, most) => {
                let number = text.parse().ok().filter(|number| (least..=most).contains(number));
                let todo = || format!("write a number from {least} to {most}");
                Ok(Self::Number(number.ok_or_else(|| (format!("`{text}` is not a valid value"), todo()))?))
            }
            SettingKind::Span(least, most) => {
                let ms = parse_duration(text).ok().filter(|ms| (least..=most).contains(ms));
                let todo = || {
                    let (least, most) = (span(least), span(most));
                    format!("write a number and s, m, h, d or w, from `{least}` to `{most}`")
                };
                Ok(Self::Span(ms.ok_or_else(|| (format!("`{text}` is not a valid value"), todo()))?))
            }
            SettingKind::Flag => match text {
                "1" | "true" | "yes" => Ok(Self::Flag(true)),
                "" | "0" | "false" | "no" => Ok(Self::Flag(false)),
                _ => Err((format!("`{text}` is not a valid value"), "write 1 or 0".to_owned())),
            },
            SettingKind::Words(check) => {
                let words = text.split([',', ' ']).filter(|word| !word.is_empty());
                checked(words.map(str::to_owned).collect(), check)
            }
            SettingKind::Text => Ok(Self::Text(text.to_owned())),
            SettingKind::CheckedText(check) => match check(text) {
                None => Ok(Self::Text(text.to_owned())),
                Some(todo) => Err((format!("`{}` is not a valid value", text.escape_debug()), todo)),
            },
        }
    }
}

fn checked(
    words: Vec<String>,
    check: Option<fn(&str) -> Option<String>>,
) -> Result<SettingValue, SettingValueError> {
    for word in &words {
        if let Some(todo) = check.and_then(|check| check(word)) {
            return Err((format!("`{word}` is not a valid name"), todo));
        }
    }
    Ok(SettingValue::Words(words))
}

/// Formats a duration in the largest unit that is exact.
fn span(ms: u64) -> String {
    let units = [(7 * 86_400_000, 'w'), (86_400_000, 'd'), (3_600_000, 'h'), (60_000, 'm')];
    // A day is commonly written in hours.
    let fits = |(each, _): &&(u64, char)| ms.is_multiple_of(*each) && ms > *each;
    let (each, unit) = units.iter().find(fits).unwrap_or(&(1_000, 's'));
    format!("{}{unit}", ms / each)
}

/// Names the type of a value.
const fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_written_as_it_is_read() {
        for text in ["30s", "90s", "24h", "2d", "52w", "10m", "3d"] {
            assert_eq!(span(parse_duration(text).unwrap()), text);
        }
        assert_eq!(span(parse_duration("60s").unwrap()), "60s");
        assert_eq!(span(parse_duration("1d").unwrap()), "24h");
    }
}
