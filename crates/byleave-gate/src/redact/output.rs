//! Masks secrets and named words in a held result, so that a person can release the rest.
//!
//! It processes everything that a model could be shown: text, error, data and undo information, including field names. It
//! must mask every text that looks like a secret and every named word.

use byleave_core::outcome::Output;
use regex::{Captures, Regex, RegexBuilder};
use serde_json::Value;

use super::{has_placeholder, placeholder, placeholders, redact, redact_value};

/// The description in the mask of a named word.
const NAMED_WORD_KIND: &str = "by a person";

/// A result with secrets and named words masked.
#[derive(Clone, Debug, PartialEq)]
pub struct RedactedOutput {
    /// The result.
    pub output: Output,
    /// How many places were masked. 0 means that nothing changed.
    pub masked_count: usize,
    /// Named words that were not found, as they were named. The person expects them to be masked, so ask again.
    pub missing_words: Vec<String>,
}

/// Masks everything that looks like a secret, and every occurrence of these words in any case.
pub fn redact_output(output: &Output, words: &[String]) -> RedactedOutput {
    let whole = [Value::from(output.text.as_str()), Value::from(output.error.as_deref())];
    let whole: Vec<&Value> = whole.iter().chain(&output.data).chain(&output.undo).collect();
    let is_in = |word: &String| {
        let one = WordMask::new(std::slice::from_ref(word));
        one.is_some_and(|one| whole.iter().any(|value| one.matches(value)))
    };
    let missing = words.iter().filter(|word| !is_in(word)).cloned().collect();
    let mask = WordMask::new(words);
    let text = |text: &str| match &mask {
        Some(mask) => mask.mask_text(&redact(text)),
        None => redact(text),
    };
    let value = |value: &Value| match &mask {
        Some(mask) => mask.mask_value(&redact_value(value)),
        None => redact_value(value),
    };
    let after = Output {
        text: text(&output.text),
        error: output.error.as_deref().map(text),
        data: output.data.as_ref().map(value),
        undo: output.undo.as_ref().map(value),
        ..output.clone()
    };
    let count = |output: &Output| {
        let json = serde_json::to_string(output).unwrap_or_default();
        json.match_indices("[redacted: ")
            .filter(|(at, _)| json.get(*at..).is_some_and(has_placeholder))
            .count()
    };
    let masked = match after == *output {
        true => 0,
        // A mark that replaced others is still one place.
        false => count(&after).saturating_sub(count(output)).max(1),
    };
    RedactedOutput { output: after, masked_count: masked, missing_words: missing }
}

/// A matcher of named words that skips existing marks.
struct WordMask(Regex);

impl WordMask {
    /// Returns `None` if there are no words.
    fn new(words: &[String]) -> Option<Self> {
        let words = words.iter().map(|word| word.trim()).filter(|word| !word.is_empty());
        let mut all: Vec<String> = words
            .flat_map(|word| {
                let json = Value::from(word).to_string();
                let in_json = json.trim_matches('"').to_owned();
                // The word itself, its JSON encoding, and its redacted form.
                [word.to_owned(), in_json, redact(word)]
            })
            .collect();
        all.sort_by_key(|word| std::cmp::Reverse(word.len()));
        all.dedup();
        if all.is_empty() {
            return None;
        }
        let named: Vec<String> = all.iter().map(|word| regex::escape(word)).collect();
        let marks: Vec<String> = placeholders().map(|mark| regex::escape(&mark)).collect();
        let regex = format!("(?<mark>{})|(?<word>(?i:{}))", marks.join("|"), named.join("|"));
        // If the list of words is too long for one expression, everything is masked, never nothing.
        let all = || Regex::new("(?<word>(?s:.+))(?<mark>x)?");
        RegexBuilder::new(&regex).size_limit(64 << 20).build().or_else(|_| all()).ok().map(Self)
    }

    fn matches(&self, value: &Value) -> bool {
        let found = |text: &str| self.0.captures_iter(text).any(|found| found.name("word").is_some());
        match value {
            Value::String(text) => found(text),
            Value::Array(items) => items.iter().any(|item| self.matches(item)),
            Value::Object(fields) => fields.iter().any(|(name, item)| found(name) || self.matches(item)),
            Value::Number(number) => found(&number.to_string()),
            Value::Null | Value::Bool(_) => false,
        }
    }

    fn mask_text(&self, text: &str) -> String {
        let masked = self.0.replace_all(text, |found: &Captures<'_>| match found.name("mark") {
            Some(known) => known.as_str().to_owned(),
            None => placeholder(NAMED_WORD_KIND),
        });
        masked.into_owned()
    }

    fn mask_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.mask_text(text)),
            Value::Array(items) => items.iter().map(|item| self.mask_value(item)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(name, item)| (self.mask_text(name), self.mask_value(item))).collect()
            }
            Value::Number(number) if self.0.is_match(&number.to_string()) => {
                Value::String(placeholder(NAMED_WORD_KIND))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    // req: R1, R5
    #[test]
    fn everything_is_gone_through() {
        let output = Output {
            text: "Acme pays; ACME's password=hunter2".into(),
            error: Some("no acme".into()),
            data: Some(json!({"acme": [{"n": "x acme y"}, 77], "token": "t-1", "left": 1})),
            undo: Some(json!({"before": "acme"})),
            ..Output::default()
        };
        let found = redact_output(&output, &words(&["acme", "77"]));
        let mask = "[redacted: by a person]";
        assert_eq!(found.output.text, format!("{mask} pays; {mask}'s password=[redacted: secret]"));
        assert_eq!(found.output.error, Some(format!("no {mask}")));
        let data =
            json!({mask: [{"n": format!("x {mask} y")}, mask], "token": "[redacted: secret]", "left": 1});
        assert_eq!(found.output.data, Some(data));
        assert_eq!(found.output.undo, Some(json!({ "before": mask })));
        assert_eq!((found.masked_count, found.missing_words.len()), (9, 0));
        let again = redact_output(&found.output, &[]);
        assert_eq!((again.output, again.masked_count), (found.output, 0));
    }

    #[test]
    fn a_named_word_never_uncovers_a_secret() {
        for word in ["password", "secret", "redacted", "hunter2", "password=hunter2", "[redacted: secret]"] {
            let output =
                Output::text("password=hunter2").with_data(json!({"password": "hunter2", "secret": 5}));
            let found = redact_output(&output, &words(&[word]));
            let all = serde_json::to_string(&found.output).unwrap();
            assert!(!all.contains("hunter2") && !all.contains(":5"), "{word}: {all}");
        }
    }

    #[test]
    fn what_is_not_there_is_said() {
        let found = redact_output(&Output::text("nothing"), &words(&["nothin", "some thing", " "]));
        assert_eq!(found.missing_words, ["some thing", " "]);
        assert_eq!(found.masked_count, 1);
        assert_eq!(redact_output(&Output::text("plain"), &[]).masked_count, 0);
        let quoted = Output::text(r#"{"a":"say \"hi\""}"#);
        assert!(redact_output(&quoted, &words(&[r#"say "hi""#])).missing_words.is_empty());
    }

    #[test]
    fn a_mark_that_is_none_hides_nothing() {
        let found = redact_output(&Output::text("[redacted: acme]"), &words(&["acme"]));
        assert!(!found.output.text.contains("acme"), "{found:?}");
    }
}
