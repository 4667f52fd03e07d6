//! Limits for the size of JSON values. The size is checked first, without recursion and without copying.

use serde_json::Value;

/// Limits for a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonLimits {
    /// Bytes of text, approximately as serialized.
    pub max_bytes: usize,
    /// Levels of arrays and objects.
    pub max_depth: usize,
    /// Values, without the keys of objects.
    pub max_nodes: usize,
}

impl JsonLimits {
    /// For the arguments of a call. They have room for a file of 10 MiB (E3).
    pub const ARGUMENTS: Self =
        Self { max_bytes: argument_bytes(10 << 20), max_depth: 64, max_nodes: 50_000 };

    /// For the schema of a tool.
    pub const SCHEMA: Self = Self { max_bytes: 512 << 10, max_depth: 64, max_nodes: 20_000 };

    /// For the arguments of a call, with room for files of this size.
    pub const fn for_files(file_bytes: u64) -> Self {
        Self { max_bytes: argument_bytes(file_bytes), ..Self::ARGUMENTS }
    }

    /// Measures a value, and stops at the first limit that it exceeds.
    pub fn measure(&self, value: &Value) -> Result<JsonSize, JsonTooLargeError> {
        let mut size = JsonSize::default();
        let mut open = vec![(value, 0_usize)];
        while let Some((value, above)) = open.pop() {
            size.nodes += 1;
            let (own_bytes, children) = match value {
                Value::Null | Value::Bool(_) => (5, 0),
                Value::Number(_) => (8, 0),
                Value::String(text) => (text.len() + 2, 0),
                Value::Array(items) => (2 + items.len(), items.len()),
                Value::Object(fields) => {
                    (2 + fields.keys().map(|key| key.len() + 4).sum::<usize>(), fields.len())
                }
            };
            size.bytes = size.bytes.saturating_add(own_bytes);
            let depth = above + usize::from(value.is_array() || value.is_object());
            size.depth = size.depth.max(depth);
            self.check(&size, open.len() + children)?;
            match value {
                Value::Array(items) => open.extend(items.iter().map(|item| (item, depth))),
                Value::Object(fields) => open.extend(fields.values().map(|item| (item, depth))),
                _ => {}
            }
        }
        Ok(size)
    }

    fn check(&self, size: &JsonSize, waiting: usize) -> Result<(), JsonTooLargeError> {
        if size.bytes > self.max_bytes {
            return Err(JsonTooLargeError::Bytes { max: self.max_bytes });
        }
        if size.depth > self.max_depth {
            return Err(JsonTooLargeError::Depth { max: self.max_depth });
        }
        if size.nodes.saturating_add(waiting) > self.max_nodes {
            return Err(JsonTooLargeError::Nodes { max: self.max_nodes });
        }
        Ok(())
    }
}

/// Returns the size of arguments that contain the old and the new text of a file of this size, and everything else.
#[expect(clippy::cast_possible_truncation, reason = "a larger size than the address space is no limit")]
const fn argument_bytes(file_bytes: u64) -> usize {
    (file_bytes as usize).saturating_mul(2).saturating_add(1 << 20)
}

impl Default for JsonLimits {
    fn default() -> Self {
        Self::ARGUMENTS
    }
}

/// The size of a JSON value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonSize {
    /// Bytes of text, approximately as serialized.
    pub bytes: usize,
    /// Levels of arrays and objects.
    pub depth: usize,
    /// Values, without the keys of objects.
    pub nodes: usize,
}

/// The limit that a JSON value exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonTooLargeError {
    /// Too much text.
    #[error("larger than {max} bytes")]
    Bytes {
        /// The limit.
        max: usize,
    },
    /// Too deep.
    #[error("nested deeper than {max} levels")]
    Depth {
        /// The limit.
        max: usize,
    },
    /// Too many values.
    #[error("made of more than {max} values")]
    Nodes {
        /// The limit.
        max: usize,
    },
}
