//! Parses the content of a block: one JSON object that is a valid call, or the position of an error.
//!
//! It is stricter than usual JSON parsers. Different readers treat a duplicate key, at any depth, differently. A number that is not stored
//! as written is another number. Neither makes a valid call.

use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::error::{ErrorLocation, escape_invisible};

/// The number of characters that are shown of a key.
const KEY_CHARS: usize = 40;
/// Integers of 64 bits are exact. From here on a larger integer is parsed as a float, and is no longer the written number.
const NUMBER_MAX: f64 = 9_223_372_036_854_775_808.0;

/// A call as a model wrote it. All of it is untrusted.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockCall {
    /// The name of the tool. It is not empty; the tool may not exist.
    pub name: String,
    /// The arguments.
    pub args: Map<String, Value>,
    /// The reason in the model's words.
    pub reason: Option<String>,
}

/// Parses the content of a block.
pub(super) fn parse(json: &str) -> Result<BlockCall, ErrorLocation> {
    object(json, "one JSON object with `name`, `args` and `reason`")
}

/// Parses arguments without a block, equally strictly.
#[cfg(feature = "agent")]
pub(crate) fn parse_args(json: &str) -> Result<Map<String, Value>, ErrorLocation> {
    object::<StrictArgs>(json, "a JSON object, the arguments").map(|StrictArgs(args)| args)
}

fn object<T: DeserializeOwned>(json: &str, expected: &str) -> Result<T, ErrorLocation> {
    let begins = json.len() - json.trim_start_matches([' ', '\t', '\n', '\r']).len();
    if json.as_bytes().get(begins) != Some(&b'{') {
        return Err(ErrorLocation::from_byte_offset(
            json,
            begins,
            format!("expected `{{`, the beginning of {expected}"),
        ));
    }
    serde_json::from_str::<T>(json).map_err(|error| {
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let what = in_our_words(message.strip_suffix(&place).unwrap_or(&message));
        ErrorLocation::from_byte_offset(json, byte_of(json, error.line(), error.column()), what)
    })
}

/// Returns the byte offset of a `serde_json` position, which counts columns in bytes and lines by line feeds.
fn byte_of(json: &str, line: usize, column: usize) -> usize {
    let begins = match line.checked_sub(2) {
        Some(feeds) => memchr::memchr_iter(b'\n', json.as_bytes()).nth(feeds).map_or(0, |feed| feed + 1),
        None => 0,
    };
    (begins + column).saturating_sub(1)
}

/// Returns an error message with both the error and what was expected, because `serde_json` gives only one of them.
fn in_our_words(message: &str) -> String {
    let what = match message {
        "EOF while parsing a list" => "the block ends within a list, expected `,` or `]`",
        "EOF while parsing an object" => "the block ends within an object, expected a key, `:`, `,` or `}`",
        "EOF while parsing a string" => "the block ends within a string, expected `\"`",
        "EOF while parsing a value" => "the block ends where a value was expected",
        "expected ident" => "expected `true`, `false` or `null`",
        "expected value" => "expected a value: `{`, `[`, `\"`, a number, `true`, `false` or `null`",
        "invalid escape" => {
            "expected an escape of JSON: `\\\"`, `\\\\`, `\\/`, `\\b`, `\\f`, `\\n`, `\\r`, `\\t` or `\\u` and four hex digits"
        }
        "invalid number" => "expected a number as JSON writes it: `-1`, `0.5`, `2e3`",
        "number out of range" => "a number out of range, expected a smaller one, or a string",
        "control character (\\u0000-\\u001F) found while parsing a string" => {
            "a control character in a string, expected its escape: `\\n` for the end of a line, `\\t` for a tab"
        }
        "key must be a string" => "expected a key in double quotes",
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            "half of a character, expected both `\\u` escapes of it"
        }
        "trailing comma" => "a comma before the end, expected another item or no comma",
        "trailing characters" => "expected nothing after the object: one block, one call",
        "recursion limit exceeded" => "nested too deeply, expected at most 127 levels",
        ours if ours.contains("expected") => ours,
        other => return format!("{other}, expected JSON"),
    };
    what.to_owned()
}

impl<'de> Deserialize<'de> for BlockCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As a map, because a derived struct would accept a list as well.
        deserializer.deserialize_map(BlockCallVisitor)
    }
}

struct BlockCallVisitor;

impl<'de> Visitor<'de> for BlockCallVisitor {
    type Value = BlockCall;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `name`, `args` and `reason`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<BlockCall, A::Error> {
        let (mut name, mut args, mut reason) = (None, None, None);
        while let Some(key) = fields.next_key::<String>()? {
            let is_new = match key.as_str() {
                "name" => name.is_none(),
                "args" => args.is_none(),
                "reason" => reason.is_none(),
                _ => {
                    let what = format!("unknown field `{}`, expected `name`, `args` or `reason`", cut(&key));
                    return Err(A::Error::custom(what));
                }
            };
            if !is_new {
                return Err(A::Error::custom(twice(&key)));
            }
            match (key.as_str(), fields.next_value::<StrictValue>()?.0) {
                ("name", Value::String(text)) if text.trim().is_empty() => {
                    return Err(A::Error::custom("`name` is empty, expected the name of a tool"));
                }
                ("name", Value::String(text)) => name = Some(text),
                ("args", Value::Object(map)) => args = Some(map),
                ("reason", Value::String(text)) => reason = Some(text),
                (_, value) => {
                    let expected = if key == "args" { "an object" } else { "a string" };
                    return Err(A::Error::custom(format!(
                        "`{key}` is {}, expected {expected}",
                        kind(&value)
                    )));
                }
            }
        }
        let missing =
            |field: &str, form: &str| A::Error::custom(format!("`{field}` is missing, expected {form}"));
        Ok(BlockCall {
            name: name.ok_or_else(|| missing("name", "the name of a tool"))?,
            args: args.ok_or_else(|| missing("args", "an object, `{}` if a tool takes no arguments"))?,
            reason,
        })
    }
}

/// Arguments that are stored exactly as written.
#[cfg(feature = "agent")]
struct StrictArgs(Map<String, Value>);

#[cfg(feature = "agent")]
impl<'de> Deserialize<'de> for StrictArgs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match StrictValue::deserialize(deserializer)?.0 {
            Value::Object(map) => Ok(Self(map)),
            other => Err(D::Error::custom(format!("{}, expected an object", kind(&other)))),
        }
    }
}

/// A value that is stored exactly as written and that every reader reads in the same way.
struct StrictValue(Value);

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictValueVisitor).map(Self)
    }
}

struct StrictValueVisitor;

impl<'de> Visitor<'de> for StrictValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        if value.abs() < NUMBER_MAX {
            return Ok(value.into());
        }
        Err(E::custom("a number too large to be stored exactly, expected a smaller one, or a string"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(StrictValue(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(twice(&key)));
            }
            let StrictValue(value) = fields.next_value()?;
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

fn twice(key: &str) -> String {
    format!("the key `{}` occurs twice, expected every key once", cut(key))
}

/// Returns the beginning of a key with all characters visible.
fn cut(key: &str) -> String {
    let mut begin = escape_invisible(key.chars().take(KEY_CHARS));
    if key.chars().nth(KEY_CHARS).is_some() {
        begin.push('…');
    }
    begin
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
