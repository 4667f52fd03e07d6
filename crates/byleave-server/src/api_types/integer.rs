//! Integers in any JSON notation. JSON has only one number type, and `3.0` is 3.

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};
use serde_json::Number;

pub(super) fn deserialize_u32<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    read(&Number::deserialize(from)?).ok_or_else(|| D::Error::custom("a whole number is wanted"))
}

pub(super) fn deserialize_optional_u32<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let Some(found) = Option::<Number>::deserialize(from)? else { return Ok(None) };
    read(&found).map(Some).ok_or_else(|| D::Error::custom("a whole number is wanted"))
}

fn read(found: &Number) -> Option<u32> {
    match found.as_u64() {
        Some(whole) => u32::try_from(whole).ok(),
        None => found.as_f64().filter(|float| float.fract() == 0.0)?.to_string().parse().ok(),
    }
}
