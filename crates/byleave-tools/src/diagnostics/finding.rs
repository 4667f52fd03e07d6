//! Parses the output of each checker into one format.
//!
//! The checkers read untrusted files. Output that cannot be parsed is dropped, and the rest must never be trusted further.

use serde::{Deserialize, Serialize};
use serde_json::{Deserializer, Value};

const MESSAGE_CHARS_MAX: usize = 500;

/// The severity of a finding, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    Error,
    Warning,
    Note,
}

impl Severity {
    /// Returns the severity for a checker's word.
    fn of(word: &str) -> Self {
        match word {
            word if word.starts_with("error") || word == "fatal" => Self::Error,
            "note" | "info" | "information" | "help" | "hint" => Self::Note,
            _ => Self::Warning,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A finding of one checker, with its path as printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckerFinding {
    pub(super) file: String,
    pub(super) line: u64,
    pub(super) column: u64,
    pub(super) severity: Severity,
    pub(super) code: Option<String>,
    pub(super) message: String,
}

impl CheckerFinding {
    fn new(
        file: &str,
        (line, column): (u64, u64),
        severity: Severity,
        code: Option<&str>,
        message: &str,
    ) -> Self {
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let cut: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
        let message = if cut.len() < message.len() { format!("{cut}…") } else { message };
        let code = code.filter(|code| !code.is_empty()).map(|code| code.chars().take(80).collect());
        Self { file: file.to_owned(), line, column, severity, code, message }
    }
}

/// Parses the lines that are JSON objects.
fn objects(text: &str) -> impl Iterator<Item = Value> {
    text.lines().filter(|line| line.starts_with('{')).filter_map(|line| serde_json::from_str(line).ok())
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}

/// Parses the output of `cargo check` and `cargo clippy` with `--message-format=json`.
pub(super) fn parse_cargo(output: &str, _errors: &str) -> Vec<CheckerFinding> {
    let messages = objects(output).filter(|one| text(one, "/reason") == "compiler-message");
    let found = messages.filter_map(|one| {
        let message = one.get("message")?;
        let spans = message.get("spans")?.as_array()?;
        let primary = spans.iter().find(|span| span.get("is_primary") == Some(&Value::Bool(true)));
        // A message without a position is only a count.
        let primary = primary?;
        let place = (number(primary, "/line_start"), number(primary, "/column_start"));
        let severity = Severity::of(text(message, "/level"));
        let code = Some(text(message, "/code/code"));
        Some(CheckerFinding::new(
            text(primary, "/file_name"),
            place,
            severity,
            code,
            text(message, "/message"),
        ))
    });
    found.collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EslintFile {
    file_path: String,
    messages: Vec<EslintMessage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EslintMessage {
    rule_id: Option<String>,
    severity: u8,
    message: String,
    #[serde(default)]
    line: u64,
    #[serde(default)]
    column: u64,
}

/// Parses the output of `eslint --format json`.
pub(super) fn parse_eslint(output: &str, _errors: &str) -> Vec<CheckerFinding> {
    let files: Vec<EslintFile> = serde_json::from_str(output).unwrap_or_default();
    let of_file = |file: EslintFile| {
        let found = file.messages.into_iter().map(|one| {
            let severity = if one.severity >= 2 { Severity::Error } else { Severity::Warning };
            CheckerFinding::new(
                &file.file_path,
                (one.line, one.column),
                severity,
                one.rule_id.as_deref(),
                &one.message,
            )
        });
        found.collect::<Vec<_>>()
    };
    files.into_iter().flat_map(of_file).collect()
}

/// Parses the output of `tsc --pretty false`: `src/a.ts(1,7): error TS2322: …`.
pub(super) fn parse_tsc(output: &str, _errors: &str) -> Vec<CheckerFinding> {
    let found = output.lines().filter_map(|line| {
        // Continuation lines are indented.
        if line.starts_with(' ') {
            return None;
        }
        let (place, rest) = line.split_once(": ")?;
        let (severity, code, message, place) = match place.strip_suffix(')') {
            Some(place) => {
                let (kind, message) = rest.split_once(": ")?;
                let (severity, code) = kind.split_once(' ')?;
                (severity, code, message, place)
            }
            // A message about the project: `error TS18003: …`.
            None => {
                let (severity, code) = place.split_once(' ')?;
                (severity, code, rest, "tsconfig.json(1,1")
            }
        };
        if !code.starts_with("TS") {
            return None;
        }
        let (file, at) = place.rsplit_once('(')?;
        let (line, column) = at.split_once(',')?;
        let place = (line.parse().ok()?, column.parse().ok()?);
        Some(CheckerFinding::new(file, place, Severity::of(severity), Some(code), message))
    });
    found.collect()
}

#[derive(Deserialize)]
struct RuffMessage {
    code: Option<String>,
    filename: String,
    location: RuffLocation,
    message: String,
    severity: Option<String>,
}

#[derive(Deserialize)]
struct RuffLocation {
    row: u64,
    column: u64,
}

/// Parses the output of `ruff check --output-format=json`.
pub(super) fn parse_ruff(output: &str, _errors: &str) -> Vec<CheckerFinding> {
    let messages: Vec<RuffMessage> = serde_json::from_str(output).unwrap_or_default();
    let found = messages.into_iter().map(|one| {
        let place = (one.location.row, one.location.column);
        // Older versions have no severity, and no code for syntax errors.
        let severity = match (&one.severity, &one.code) {
            (Some(word), _) => Severity::of(word),
            (None, None) => Severity::Error,
            (None, Some(_)) => Severity::Warning,
        };
        CheckerFinding::new(&one.filename, place, severity, one.code.as_deref(), &one.message)
    });
    found.collect()
}

/// Parses the output of `mypy --output json`, or its lines: `a.py:2:10: error: …  [assignment]`.
pub(super) fn parse_mypy(output: &str, _errors: &str) -> Vec<CheckerFinding> {
    let of_object = |one: Value| {
        // Columns start at 0 in JSON, and at 1 in lines.
        let column = one.get("column").and_then(Value::as_i64).unwrap_or(-1).saturating_add(1);
        let place = (number(&one, "/line"), u64::try_from(column).unwrap_or(0));
        let severity = Severity::of(text(&one, "/severity"));
        CheckerFinding::new(
            text(&one, "/file"),
            place,
            severity,
            Some(text(&one, "/code")),
            text(&one, "/message"),
        )
    };
    let of_line = |line: &str| {
        let (place, rest) = line.split_once(": ")?;
        let (file, place) = placed(place)?;
        let (severity, message) = rest.split_once(": ")?;
        let coded = message.strip_suffix(']').and_then(|message| message.rsplit_once("  ["));
        let (message, code) = coded.map_or((message, None), |(message, code)| (message, Some(code)));
        Some(CheckerFinding::new(file, place, Severity::of(severity), code, message))
    };
    let lines = output.lines().filter(|line| !line.starts_with('{'));
    objects(output).map(of_object).chain(lines.filter_map(of_line)).collect()
}

/// Parses the output of `go vet -json`: multi-line objects on standard error, or lines if the code does not compile.
pub(super) fn parse_go(output: &str, errors: &str) -> Vec<CheckerFinding> {
    let mut found = Vec::new();
    for printed in [output, errors] {
        let lines = || printed.lines().filter(|line| !line.starts_with('#'));
        found.extend(lines().filter_map(|line| {
            let line = line.strip_prefix("vet: ").unwrap_or(line);
            let (place, message) = line.split_once(": ")?;
            let (file, place) = placed(place)?;
            file.ends_with(".go").then(|| CheckerFinding::new(file, place, Severity::Error, None, message))
        }));
        let text: String = lines().map(|line| format!("{line}\n")).collect();
        for packages in Deserializer::from_str(&text).into_iter::<Value>().map_while(Result::ok) {
            let analyzers = packages.as_object().into_iter().flat_map(|packages| packages.values());
            for (analyzer, list) in analyzers.filter_map(Value::as_object).flatten() {
                found.extend(list.as_array().into_iter().flatten().filter_map(|one| {
                    let (file, place) = placed(text_of(one, "posn"))?;
                    Some(CheckerFinding::new(
                        file,
                        place,
                        Severity::Warning,
                        Some(analyzer),
                        text_of(one, "message"),
                    ))
                }));
            }
        }
    }
    found
}

fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Parses `file:line` or `file:line:column`.
fn placed(place: &str) -> Option<(&str, (u64, u64))> {
    let (before, last) = place.rsplit_once(':')?;
    let last: u64 = last.parse().ok()?;
    match before.rsplit_once(':').map(|(file, line)| (file, line.parse::<u64>())) {
        Some((file, Ok(line))) => Some((file, (line, last))),
        _ => Some((before, (last, 0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(found: &[CheckerFinding]) -> Vec<String> {
        let one = |one: &CheckerFinding| {
            let code = one.code.as_deref().unwrap_or("-");
            format!(
                "{}:{}:{}: {}[{code}] {}",
                one.file,
                one.line,
                one.column,
                one.severity.as_str(),
                one.message
            )
        };
        found.iter().map(one).collect()
    }

    #[test]
    fn every_checker_is_read_in_one_form() {
        let none: &[&str] = &[];
        let check = |found: Vec<CheckerFinding>, wanted: &[&str]| assert_eq!(told(&found), wanted);
        check(
            parse_cargo(
                "{\"reason\":\"compiler-artifact\"}\nnoise\n{\"reason\":\"compiler-message\",\"message\":{\"message\":\"mismatched\\n types\",\"level\":\"error\",\
                 \"code\":{\"code\":\"E0308\"},\"spans\":[{\"file_name\":\"x\",\"is_primary\":false},{\"file_name\":\"src/main.rs\",\"line_start\":1,\"column_start\":37,\"is_primary\":true}]}}\n\
                 {\"reason\":\"compiler-message\",\"message\":{\"message\":\"aborting\",\"level\":\"error\",\"code\":null,\"spans\":[]}}",
                "",
            ),
            &["src/main.rs:1:37: error[E0308] mismatched types"],
        );
        check(
            parse_eslint(
                r#"[{"filePath":"/w/a.js","messages":[{"ruleId":"no-undef","severity":2,"message":"m","line":1,"column":14},{"ruleId":null,"fatal":true,"severity":2,"message":"Parsing error"}]}]"#,
                "",
            ),
            &["/w/a.js:1:14: error[no-undef] m", "/w/a.js:0:0: error[-] Parsing error"],
        );
        check(parse_eslint("Oops! Something went wrong", ""), none);
        check(
            parse_tsc(
                "a (x).ts(1,7): error TS2322: Type 'a: b' is bad.\n  more\nerror TS18003: No inputs.\nFound 1 error: x",
                "",
            ),
            &[
                "a (x).ts:1:7: error[TS2322] Type 'a: b' is bad.",
                "tsconfig.json:1:1: error[TS18003] No inputs.",
            ],
        );
        check(
            parse_ruff(
                r#"[{"code":"F401","filename":"/w/a.py","location":{"row":1,"column":8},"message":"unused","severity":"error"},{"code":null,"filename":"b","location":{"row":2,"column":1},"message":"SyntaxError"},{"code":"E1","filename":"b","location":{"row":3,"column":1},"message":"old"}]"#,
                "",
            ),
            &["/w/a.py:1:8: error[F401] unused", "b:2:1: error[-] SyntaxError", "b:3:1: warning[E1] old"],
        );
        check(
            parse_mypy(
                "{\"file\": \"a.py\", \"line\": 2, \"column\": 9, \"message\": \"m\", \"code\": \"assignment\", \"severity\": \"error\"}\n\
                 a.py:2:10: error: Incompatible: x  [assignment]\na.py:3: note: see\nFound 1 error in 1 file",
                "",
            ),
            &[
                "a.py:2:10: error[assignment] m",
                "a.py:2:10: error[assignment] Incompatible: x",
                "a.py:3:0: note[-] see",
            ],
        );
        let vet = "# x\n{\n\t\"x\": {\n\t\t\"printf\": [\n\t\t\t{\"posn\": \"/w/main.go:6:2\", \"message\": \"bad\"}\n\t\t]\n\t}\n}\n# y\n{\"y\": {\"shift\": [{\"posn\": \"/w/y.go:1:2\", \"message\": \"z\"}]}}\n";
        check(parse_go("", vet), &["/w/main.go:6:2: warning[printf] bad", "/w/y.go:1:2: warning[shift] z"]);
        check(
            parse_go("", "# x\nvet: ./main.go:5:2: undeclared name: foo\n./b.go:1:1: expected 'package'"),
            &["./main.go:5:2: error[-] undeclared name: foo", "./b.go:1:1: error[-] expected 'package'"],
        );
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        for read in [parse_cargo, parse_eslint, parse_tsc, parse_ruff, parse_mypy, parse_go] {
            for text in [
                "",
                "{",
                "[",
                "{}",
                "[{}]",
                "null",
                "\u{fffd}",
                "a:b: c: d",
                "(1,2): error TS1: x",
                "x(,): error TS1: y",
            ] {
                let found = read(text, text);
                assert!(found.len() <= 2, "{text}: {found:?}");
            }
        }
    }
}
