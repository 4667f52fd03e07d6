//! Validates arguments against a tool's JSON Schema.
//!
//! Everything is limited before it is processed: the size of arguments, the size of schemas, their expansion, the work of a
//! pattern. It must never fetch anything: a schema that refers to another document is refused.

mod complexity;
mod limits;

use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use byleave_core::refusal::{Code, Refusal};
use jsonschema::error::{ValidationError, ValidationErrorKind};
use jsonschema::{Draft, PatternOptions, ValidationOptions};
use serde_json::Value;

use complexity::SchemaComplexity;
pub(crate) use complexity::has_argument;
pub use limits::{JsonLimits, JsonSize, JsonTooLargeError};

/// How many errors the model is shown at once.
const ERRORS_SHOWN: usize = 5;
/// How much of a wrong value the model is shown.
const VALUE_CHARS_MAX: usize = 80;
/// The maximum length of one error message.
const ERROR_CHARS_MAX: usize = 300;
/// The maximum memory of one compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// The maximum backtracking steps of one match, for patterns that need a backtracking engine.
const BACKTRACKS_MAX: usize = 10_000;
/// The maximum depth of validation with a recursive schema, in subschemas. It limits the stack.
const DESCENT_MAX: usize = 1_000;
/// The maximum number of steps to find all errors with a recursive schema.
const ERROR_STEPS_MAX: u64 = 200_000;

/// The reason why a schema is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It is too large.
    #[error("the schema is {0}")]
    TooLarge(JsonTooLargeError),
    /// It does not describe a JSON object.
    #[error("the schema must be a JSON object with `type` `object`, because arguments are always an object")]
    NotAnObjectSchema,
    /// It refers to another document.
    #[error("the schema refers to `{reference}` outside itself; move it into `$defs`")]
    RemoteReference {
        /// The reference.
        reference: String,
    },
    /// It contains another schema with its own identity.
    #[error("the schema contains another schema with `$id` `{id}`; refer to it by `#/…` instead")]
    EmbeddedSchema {
        /// The identity.
        id: String,
    },
    /// It refers to itself for the same value.
    #[error("the schema refers to itself for the same value, which never ends")]
    Circular,
    /// It is too large after expanding references.
    #[error("the schema is too large after its references are expanded")]
    TooComplex,
    /// It is not a valid JSON Schema.
    #[error("not a valid JSON Schema: {reason}")]
    Invalid {
        /// The error.
        reason: String,
    },
}

/// A compiled schema that validates arguments. It is compiled once per tool.
#[derive(Clone, Debug)]
pub struct Validator {
    /// `None` if the schema could not be compiled. Then no arguments are valid.
    compiled: Option<jsonschema::Validator>,
    required: Vec<String>,
    complexity: SchemaComplexity,
}

impl Validator {
    /// Compiles a schema: draft 2020-12, unless `$schema` says otherwise.
    pub fn new(schema: &Value) -> Result<Self, SchemaError> {
        Self::compiled(schema, SchemaOrigin::Foreign)
    }

    /// Compiles a schema that is part of this program. Nothing is valid if it cannot be compiled.
    ///
    /// It is not validated itself: compiling the schema of schemas would take as long as judging a command.
    pub(crate) fn of_generated(schema: &Value) -> Self {
        let refuses_all =
            Self { compiled: None, required: Vec::new(), complexity: SchemaComplexity::default() };
        Self::compiled(schema, SchemaOrigin::Generated).unwrap_or(refuses_all)
    }

    fn compiled(schema: &Value, origin: SchemaOrigin) -> Result<Self, SchemaError> {
        JsonLimits::SCHEMA.measure(schema).map_err(SchemaError::TooLarge)?;
        if !describes_objects(schema) {
            return Err(SchemaError::NotAnObjectSchema);
        }
        let survey = complexity::measure_complexity(schema)?;
        let compiled = catch_unwind(AssertUnwindSafe(|| compile(schema, origin)))
            .map_err(|_| SchemaError::Invalid { reason: "the schema cannot be compiled".into() })??;
        let required = schema.get("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        Ok(Self { compiled: Some(compiled), required, complexity: survey })
    }

    /// Validates the arguments of a call. The refusal describes the errors with their positions, so that the model can correct them.
    pub fn check(&self, arguments: &Value, limits: &JsonLimits) -> Result<(), Refusal> {
        let too_large = |why: JsonTooLargeError| {
            Refusal::new(Code::ArgumentsTooLarge, format!("the arguments are {why}"))
        };
        let size = self.bounded_limits(limits).measure(arguments).map_err(too_large)?;
        if !arguments.is_object() {
            let why = format!("the arguments must be a JSON object, not {}", type_name(arguments));
            return Err(Refusal::new(Code::ArgumentsInvalid, why));
        }
        let unchecked = || Refusal::new(Code::ArgumentsInvalid, "the arguments could not be checked");
        let Some(compiled) = &self.compiled else { return Err(unchecked()) };
        let checked = catch_unwind(AssertUnwindSafe(|| {
            if compiled.is_valid(arguments) {
                None
            } else {
                Some(self.describe_errors(compiled, arguments, &size))
            }
        }));
        match checked {
            Ok(None) => Ok(()),
            Ok(Some(why)) => Err(Refusal::new(Code::ArgumentsInvalid, why)),
            // A panic during validation is an objection.
            Err(_) => Err(unchecked()),
        }
    }

    /// Removes optional arguments that are null if the schema does not accept null. Everything else is unchanged.
    ///
    /// Some models write null for an omitted argument. It is for callers that opt in; validate the result.
    pub fn without_nulls(&self, mut arguments: Value, limits: &JsonLimits) -> Value {
        let has_nulls = arguments.as_object().is_some_and(|fields| fields.values().any(Value::is_null));
        let Some(compiled) = &self.compiled else { return arguments };
        let Ok(size) = self.bounded_limits(limits).measure(&arguments) else { return arguments };
        if !has_nulls || self.is_too_recursive(&size) {
            return arguments;
        }
        let found = catch_unwind(AssertUnwindSafe(|| {
            let wrong = compiled.iter_errors(&arguments).filter(|error| error.instance().is_null());
            wrong.map(|error| error.instance_path().as_str().to_owned()).collect::<Vec<_>>()
        }));
        let unwanted = found.unwrap_or_default();
        if let Some(fields) = arguments.as_object_mut() {
            fields.retain(|key, value| {
                let path = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
                !value.is_null() || self.required.contains(key) || !unwanted.contains(&path)
            });
        }
        arguments
    }

    /// Returns the limits, with the depth reduced to what this schema can be followed down to.
    fn bounded_limits(&self, limits: &JsonLimits) -> JsonLimits {
        let depth_max = match self.complexity.loops {
            0 => limits.max_depth,
            _ => limits.max_depth.min(DESCENT_MAX / self.complexity.step),
        };
        JsonLimits { max_depth: depth_max, ..*limits }
    }

    /// Checks whether collecting every error could take too long, because each recursion may be followed once per level.
    fn is_too_recursive(&self, size: &JsonSize) -> bool {
        let levels = u32::try_from(size.depth).unwrap_or(u32::MAX);
        self.complexity.loops > 1 && self.complexity.loops.saturating_pow(levels) > ERROR_STEPS_MAX
    }

    fn describe_errors(
        &self,
        compiled: &jsonschema::Validator,
        arguments: &Value,
        size: &JsonSize,
    ) -> String {
        if self.is_too_recursive(size) {
            return "the arguments do not match the schema; they are nested too deeply to say where".into();
        }
        let mut errors = compiled.iter_errors(arguments);
        let shown: Vec<String> =
            errors.by_ref().take(ERRORS_SHOWN).map(|error| describe_error(&error)).collect();
        let more = match errors.count() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        format!("the arguments do not match the schema: {}{more}", shown.join("; "))
    }
}

/// Who wrote a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SchemaOrigin {
    /// Anybody. It may not be a valid schema.
    Foreign,
    /// This program.
    Generated,
}

/// The name under which [`compile_generated`] refers to a schema.
const GENERATED_URI: &str = "byleave:/generated";

/// Compiles a schema without validating it. It is a resource that a schema of the oldest draft refers to, so only the smallest of the schemas
/// of schemas is compiled for it.
fn compile_generated(schema: &Value) -> Result<jsonschema::Validator, SchemaError> {
    let invalid = |reason: String| SchemaError::Invalid { reason };
    let registry = jsonschema::Registry::new()
        .draft(Draft::Draft202012)
        .add(GENERATED_URI, schema)
        .and_then(|registry| registry.prepare())
        .map_err(|error| invalid(error.to_string()))?;
    let reference = serde_json::json!({ "$ref": GENERATED_URI });
    let options = jsonschema::options().offline().with_draft(Draft::Draft4).with_registry(&registry);
    options.build(&reference).map_err(|error| invalid(describe_error(&error)))
}

fn compile(schema: &Value, origin: SchemaOrigin) -> Result<jsonschema::Validator, SchemaError> {
    if origin == SchemaOrigin::Generated {
        return compile_generated(schema);
    }
    let linear = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
    let options = |options: ValidationOptions<'static>| options.offline();
    let first = options(jsonschema::options()).with_pattern_options(linear).build(schema);
    // Look-around, which schema generators often use, needs the backtracking engine. Its steps are limited.
    let built = first.or_else(|_| {
        let bounded = PatternOptions::fancy_regex()
            .backtrack_limit(BACKTRACKS_MAX)
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX);
        options(jsonschema::options()).with_pattern_options(bounded).build(schema)
    });
    built.map_err(|error| SchemaError::Invalid { reason: describe_error(&error) })
}

fn describes_objects(schema: &Value) -> bool {
    match schema.get("type") {
        _ if !schema.is_object() => false,
        None => true,
        Some(Value::String(only)) => only == "object",
        Some(Value::Array(several)) => several.iter().any(|one| one == "object"),
        Some(_) => false,
    }
}

/// Describes an error and its position, in at most a few hundred characters.
fn describe_error(error: &ValidationError<'_>) -> String {
    let mut out = ClippedText::new(ERROR_CHARS_MAX);
    // The writer returns an error once it is full. The text until then is the result.
    if write_error(&mut out, error).is_err() {
        out.text.push('…');
    }
    out.text
}

fn write_error(out: &mut ClippedText, error: &ValidationError<'_>) -> fmt::Result {
    let path = error.instance_path().as_str();
    if !path.is_empty() {
        write!(out, "`{path}`: ")?;
    }
    write!(out, "{}", error.masked_with(short_value(error.instance())))?;
    let branches = match error.kind() {
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => context,
        _ => return Ok(()),
    };
    // The intended alternative is most likely the one that matches deepest.
    let nearest = branches.iter().filter_map(|errors| errors.first()).max_by_key(|error| {
        let is_type = matches!(error.kind(), ValidationErrorKind::Type { .. });
        (error.instance_path().as_str().matches('/').count(), !is_type)
    });
    match nearest {
        Some(inner) => {
            let path = inner.instance_path().as_str();
            write!(out, " (nearest: `{path}` {})", inner.masked_with(short_value(inner.instance())))
        }
        None => Ok(()),
    }
}

fn short_value(value: &Value) -> String {
    let mut out = ClippedText::new(VALUE_CHARS_MAX);
    if write!(out, "{value}").is_err() {
        out.text.push('…');
    }
    out.text
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A text buffer that stops when full, so that a large value is never formatted completely.
struct ClippedText {
    text: String,
    remaining: usize,
}

impl ClippedText {
    fn new(chars_max: usize) -> Self {
        Self { text: String::new(), remaining: chars_max }
    }
}

impl fmt::Write for ClippedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for c in part.chars() {
            self.remaining = self.remaining.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(c);
        }
        Ok(())
    }
}
