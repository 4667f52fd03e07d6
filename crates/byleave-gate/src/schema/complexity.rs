//! Measures a schema before it is compiled, so that no schema can make validation hang or overflow the stack.
//!
//! Schemas come from third parties (MCP servers) as well as from authors. It follows what a validator would follow:
//! subschemas, and references within the document. It must never follow a reference out of the document.

use std::collections::HashMap;

use serde_json::Value;

use super::SchemaError;

/// The maximum depth of a schema with references followed, up to recursion.
const HEIGHT_MAX: usize = 96;
/// The maximum size of a schema with all references expanded, up to recursion.
const WEIGHT_MAX: u64 = 100_000;
/// The maximum size of everything applied to the same value.
const WEIGHT_IN_PLACE_MAX: u64 = 5_000;

/// Keywords whose subschemas are applied to the value itself.
const SAME_VALUE_KEYWORDS: &[(&str, SubschemaShape)] = &[
    ("allOf", SubschemaShape::List),
    ("anyOf", SubschemaShape::List),
    ("oneOf", SubschemaShape::List),
    ("not", SubschemaShape::One),
    ("if", SubschemaShape::One),
    ("then", SubschemaShape::One),
    ("else", SubschemaShape::One),
    ("dependentSchemas", SubschemaShape::Map),
    ("dependencies", SubschemaShape::Map),
];
/// Keywords whose subschemas are applied to parts of the value.
const CHILD_KEYWORDS: &[(&str, SubschemaShape)] = &[
    ("properties", SubschemaShape::Map),
    ("patternProperties", SubschemaShape::Map),
    ("additionalProperties", SubschemaShape::One),
    ("unevaluatedProperties", SubschemaShape::One),
    ("propertyNames", SubschemaShape::One),
    ("items", SubschemaShape::OneOrList),
    ("prefixItems", SubschemaShape::List),
    ("additionalItems", SubschemaShape::One),
    ("unevaluatedItems", SubschemaShape::One),
    ("contains", SubschemaShape::One),
    ("contentSchema", SubschemaShape::One),
];
/// Keywords that contain subschemas for references, without applying them.
const DEFINITION_KEYWORDS: &[(&str, SubschemaShape)] =
    &[("$defs", SubschemaShape::Map), ("definitions", SubschemaShape::Map)];
/// Keywords that refer to a subschema, which is then applied to the value itself.
const REFERENCES: &[&str] = &["$ref", "$dynamicRef", "$recursiveRef"];

#[derive(Clone, Copy)]
enum SubschemaShape {
    One,
    List,
    Map,
    OneOrList,
}

/// The complexity of a schema.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SchemaComplexity {
    /// In how many places the expanded schema refers to itself.
    pub(super) loops: u64,
    /// The longest path within one level of the value.
    pub(super) step: usize,
}

/// Measures the complexity of a schema. Its size must have been checked before.
pub(super) fn measure_complexity(root: &Value) -> Result<SchemaComplexity, SchemaError> {
    let mut document = SchemaDocument { root, anchors: HashMap::new() };
    for schema in all_schemas(root) {
        document.index_schema(schema)?;
    }
    let mut whole = SchemaExpansion { document: &document, into_children: true, seen: HashMap::new() };
    let mut in_place = SchemaExpansion { document: &document, into_children: false, seen: HashMap::new() };
    let mut step = 1;
    for schema in all_schemas(root) {
        step = step.max(in_place.visit(schema, 0)?.height);
    }
    Ok(SchemaComplexity { loops: whole.visit(root, 0)?.loops, step })
}

/// Checks whether the schema has the argument that a pointer names. References and alternatives are followed.
pub(crate) fn has_argument(root: &Value, pointer: &str) -> bool {
    let Some(path) = pointer.strip_prefix('/') else { return false };
    let document = SchemaDocument { root, anchors: HashMap::new() };
    let mut found = vec![root];
    for segment in path.split('/') {
        let segment = segment.replace("~1", "/").replace("~0", "~");
        let alternatives: Vec<&Value> =
            found.into_iter().flat_map(|schema| document.alternatives(schema)).collect();
        found = alternatives.into_iter().flat_map(|schema| child(schema, &segment)).collect();
        // Limits nested alternatives. This many are enough.
        found.truncate(256);
    }
    !found.is_empty()
}

fn child<'a>(schema: &'a Value, segment: &str) -> Vec<&'a Value> {
    let named = schema.get("properties").and_then(|fields| fields.get(segment));
    let index = segment.parse::<usize>().ok();
    let item = index.and_then(|index| {
        let placed = schema.get("prefixItems").and_then(|items| items.get(index));
        placed.or_else(|| schema.get("items").filter(|items| items.is_object()))
    });
    named.into_iter().chain(item).collect()
}

/// Returns every subschema in the document, used or not.
fn all_schemas(root: &Value) -> Vec<&Value> {
    let mut all = Vec::new();
    let mut open = vec![root];
    while let Some(schema) = open.pop() {
        all.push(schema);
        for table in [SAME_VALUE_KEYWORDS, CHILD_KEYWORDS, DEFINITION_KEYWORDS] {
            open.extend(subschemas(schema, table));
        }
    }
    all
}

fn subschemas<'a>(schema: &'a Value, table: &[(&str, SubschemaShape)]) -> Vec<&'a Value> {
    let mut out = Vec::new();
    for (keyword, holds) in table {
        let Some(value) = schema.get(keyword) else { continue };
        match (holds, value) {
            (SubschemaShape::List | SubschemaShape::OneOrList, Value::Array(items)) => out.extend(items),
            (SubschemaShape::Map, Value::Object(fields)) => out.extend(fields.values()),
            (SubschemaShape::One | SubschemaShape::OneOrList, Value::Object(_) | Value::Bool(_)) => {
                out.push(value)
            }
            // Anything else is not a schema, which the compiler reports.
            _ => {}
        }
    }
    out
}

struct SchemaDocument<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, &'a Value>,
}

impl<'a> SchemaDocument<'a> {
    fn index_schema(&mut self, schema: &'a Value) -> Result<(), SchemaError> {
        let is_root = std::ptr::eq(schema, self.root);
        let id = schema.get("$id").and_then(Value::as_str).filter(|id| !id.starts_with('#'));
        if let (false, Some(id)) = (is_root, id) {
            return Err(SchemaError::EmbeddedSchema { id: id.into() });
        }
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = schema.get(keyword).and_then(Value::as_str) {
                self.anchors.insert(name, schema);
            }
        }
        for keyword in REFERENCES {
            if let Some(reference) = schema.get(keyword).and_then(Value::as_str) {
                self.fragment(reference)
                    .ok_or_else(|| SchemaError::RemoteReference { reference: reference.into() })?;
            }
        }
        Ok(())
    }

    /// Returns the part after `#`, if the reference stays within the document.
    fn fragment<'r>(&self, reference: &'r str) -> Option<&'r str> {
        let (base, fragment) = reference.split_once('#')?;
        let own = self.root.get("$id").and_then(Value::as_str).map(|id| id.trim_end_matches('#'));
        (base.is_empty() || own == Some(base)).then_some(fragment)
    }

    fn resolve(&self, reference: &str) -> Option<&'a Value> {
        let fragment = percent_decode(self.fragment(reference)?);
        if fragment.is_empty() || fragment.starts_with('/') {
            self.root.pointer(&fragment)
        } else {
            self.anchors.get(fragment.as_str()).copied()
        }
    }

    /// Returns the subschemas that are applied to the same value as this schema.
    fn same_value_schemas(&self, schema: &'a Value) -> Vec<&'a Value> {
        let mut out = subschemas(schema, SAME_VALUE_KEYWORDS);
        let references = REFERENCES.iter().filter_map(|keyword| schema.get(keyword)?.as_str());
        // The compiler reports dangling references.
        out.extend(references.filter_map(|reference| self.resolve(reference)));
        out
    }

    /// Returns the schema and everything applied to the same value, each once.
    fn alternatives(&self, schema: &'a Value) -> Vec<&'a Value> {
        let mut out: Vec<&'a Value> = Vec::new();
        let mut open = vec![schema];
        while let Some(schema) = open.pop() {
            if out.len() < 256 && !out.iter().any(|known| std::ptr::eq(*known, schema)) {
                out.push(schema);
                open.extend(self.same_value_schemas(schema));
            }
        }
        out
    }
}

/// The size of an expanded schema.
#[derive(Clone, Copy, Default)]
struct SchemaSize {
    weight: u64,
    height: usize,
    loops: u64,
}

struct SchemaExpansion<'d, 'a> {
    document: &'d SchemaDocument<'a>,
    into_children: bool,
    /// Sizes by address. `None` means that the visit is in progress.
    seen: HashMap<*const Value, Option<SchemaSize>>,
}

impl<'a> SchemaExpansion<'_, 'a> {
    fn visit(&mut self, schema: &'a Value, level: usize) -> Result<SchemaSize, SchemaError> {
        let address = std::ptr::from_ref(schema);
        let known = match self.seen.get(&address) {
            // Recursion without descending into the value would never end.
            Some(None) if !self.into_children => return Err(SchemaError::Circular),
            Some(None) => Some(SchemaSize { weight: 1, height: 1, loops: 1 }),
            Some(Some(measure)) => Some(*measure),
            None => None,
        };
        if level + known.map_or(1, |measure| measure.height) > HEIGHT_MAX {
            return Err(SchemaError::TooComplex);
        }
        if let Some(measure) = known {
            return Ok(measure);
        }
        self.seen.insert(address, None);
        let mut measure = SchemaSize { weight: 1, ..SchemaSize::default() };
        let mut parts = self.document.same_value_schemas(schema);
        if self.into_children {
            parts.extend(subschemas(schema, CHILD_KEYWORDS));
        }
        for part in parts {
            let inner = self.visit(part, level + 1)?;
            measure.weight = measure.weight.saturating_add(inner.weight);
            measure.height = measure.height.max(inner.height);
            measure.loops = measure.loops.saturating_add(inner.loops);
        }
        measure.height += 1;
        let weight_max = if self.into_children { WEIGHT_MAX } else { WEIGHT_IN_PLACE_MAX };
        if measure.weight > weight_max {
            return Err(SchemaError::TooComplex);
        }
        self.seen.insert(address, Some(measure));
        Ok(measure)
    }
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let digit = |at: usize| tail.get(at).and_then(|b| char::from(*b).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'%'));
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
