//! A JSON parser that rejects an object with the same key twice. Ordinary parsers keep the last value.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Parses one JSON value.
pub(crate) fn parse(text: &[u8]) -> Value {
    serde_json::from_slice::<StrictValue>(text).unwrap_or_else(|error| panic!("{error}")).0
}

struct StrictValue(Value);

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = StrictValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<StrictValue, E> {
        Ok(StrictValue(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<StrictValue, E> {
        Ok(StrictValue(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<StrictValue, E> {
        Ok(StrictValue(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<StrictValue, E> {
        Ok(StrictValue(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<StrictValue, E> {
        Ok(StrictValue(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<StrictValue, E> {
        Ok(StrictValue(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<StrictValue, A::Error> {
        let mut values = Vec::new();
        while let Some(StrictValue(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(StrictValue(Value::Array(values)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<StrictValue, A::Error> {
        let mut fields = Map::new();
        while let Some((key, StrictValue(value))) = object.next_entry::<String, StrictValue>()? {
            if fields.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{key}` occurs twice")));
            }
            fields.insert(key, value);
        }
        Ok(StrictValue(Value::Object(fields)))
    }
}

#[test]
#[should_panic(expected = "the key `a` occurs twice")]
fn the_same_key_twice_is_an_error() {
    parse(br#"[{"b": {"a": 1, "a": null}}]"#);
}
