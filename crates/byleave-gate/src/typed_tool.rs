//! Tools made from a struct and a function. The author never writes a schema or parses JSON by hand (T2).
//!
//! The declarations are checked when the tool is registered in a [`crate::catalog::Catalog`], not here.

use std::borrow::Cow;
use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use byleave_core::effect::Plan;
use byleave_core::manifest::{ApprovalRequirement, ArgumentRole, Manifest, PermissionClass};
use byleave_core::outcome::Output;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::boxed::BoxFuture;
use crate::tool::{RunContext, Tool, ToolContext, ToolError};

type ToolFunction<T> = Box<dyn Fn(T, RunContext) -> BoxFuture<'static, Output> + Send + Sync>;
type Predicate<T> = Box<dyn Fn(T) -> BoxFuture<'static, Result<bool, ToolError>> + Send + Sync>;
type Planner<T> = Box<dyn Fn(T, &ToolContext) -> Result<Plan, ToolError> + Send + Sync>;
type Describer = Box<dyn Fn(&ToolContext) -> String + Send + Sync>;

/// A tool made from a struct for its arguments and a function.
///
/// ```
/// use std::io::Write;
///
/// use byleave_gate::core::manifest::{ArgumentRole, PermissionClass};
/// use byleave_gate::tool::RunContext;
/// use byleave_gate::typed_tool::TypedTool;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct AppendLine {
///     /// The file.
///     path: String,
///     /// The line, without its end.
///     line: String,
/// }
///
/// let tool = TypedTool::new("append_line", "Appends a line to a file", |args: AppendLine, _run: RunContext| async move {
///     let mut file = std::fs::OpenOptions::new().append(true).open(args.path)?;
///     writeln!(file, "{}", args.line)?;
///     Ok::<_, std::io::Error>("appended")
/// })
/// .permission_class(PermissionClass::File)
/// .role("/path", ArgumentRole::EditPath)
/// .search_hint("append text line to file end");
/// ```
pub struct TypedTool<T> {
    manifest: Manifest,
    handler: ToolFunction<T>,
    predicate: Option<Predicate<T>>,
    planner: Option<Planner<T>>,
    describer: Option<Describer>,
    nonblocking: bool,
}

impl<T: DeserializeOwned + JsonSchema + 'static> TypedTool<T> {
    /// Creates a tool that calls the function with its parsed arguments. Nothing is declared yet, so the defaults are cautious.
    pub fn new<F, P, O>(name: impl Into<String>, description: impl Into<String>, function: F) -> Self
    where
        F: Fn(T, RunContext) -> P + Send + Sync + 'static,
        P: Future<Output = O> + Send + 'static,
        O: IntoOutput,
    {
        Self {
            manifest: Manifest::new(name, description, schema_for::<T>()),
            handler: Box::new(move |arguments, run| {
                let pending = function(arguments, run);
                Box::pin(async move { pending.await.into_output() })
            }),
            predicate: None,
            planner: None,
            describer: None,
            nonblocking: false,
        }
    }

    /// Sets which checks the arguments get (T6).
    #[must_use]
    pub fn permission_class(mut self, class: PermissionClass) -> Self {
        self.manifest.permission_class = class;
        self
    }

    /// Declares that it reads the path at this JSON pointer, and does nothing else to files.
    #[must_use]
    pub fn reads_path(self, pointer: impl Into<String>) -> Self {
        self.permission_class(PermissionClass::File).role(pointer, ArgumentRole::ReadPath)
    }

    /// Declares that it writes the path at this JSON pointer.
    #[must_use]
    pub fn writes_path(self, pointer: impl Into<String>) -> Self {
        self.permission_class(PermissionClass::File).role(pointer, ArgumentRole::WritePath)
    }

    /// Declares that it reads the path at this JSON pointer and then writes it. An approval binds the content that was read.
    #[must_use]
    pub fn edits_path(self, pointer: impl Into<String>) -> Self {
        self.permission_class(PermissionClass::File).role(pointer, ArgumentRole::EditPath)
    }

    /// Declares that it deletes the path at this JSON pointer.
    #[must_use]
    pub fn deletes_path(self, pointer: impl Into<String>) -> Self {
        self.permission_class(PermissionClass::File).role(pointer, ArgumentRole::DeletePath)
    }

    /// Declares that it reaches the URL at this JSON pointer.
    #[must_use]
    pub fn url(self, pointer: impl Into<String>) -> Self {
        self.permission_class(PermissionClass::Webfetch).role(pointer, ArgumentRole::Url)
    }

    /// Declares that it runs the shell command at this JSON pointer.
    #[must_use]
    pub fn command(self, pointer: impl Into<String>) -> Self {
        self.permission_class(PermissionClass::Bash).role(pointer, ArgumentRole::Command)
    }

    /// Adds aliases.
    #[must_use]
    pub fn aliases<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.manifest.aliases.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets the three to ten words by which `tool_search` finds it.
    #[must_use]
    pub fn search_hint(mut self, words: impl Into<String>) -> Self {
        self.manifest.search_hint = Some(words.into());
        self
    }

    /// Asks for the structured data of the newest completed call of each of these tools in the session; see [`RunContext::data`].
    #[must_use]
    pub fn wants_data<N: Into<String>>(mut self, tools: impl IntoIterator<Item = N>) -> Self {
        self.manifest.wants_data.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Sets the meaning of the argument at this JSON pointer.
    #[must_use]
    pub fn role(mut self, pointer: impl Into<String>, role: ArgumentRole) -> Self {
        self.manifest.roles.insert(pointer.into(), role);
        self
    }

    /// Sets the word for its calls in the audit log (T7).
    #[must_use]
    pub fn audit_operation(mut self, word: impl Into<String>) -> Self {
        self.manifest.audit_operation = Some(word.into());
        self
    }

    /// Labels the tool as read-only, for people.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.manifest.read_only = true;
        self
    }

    /// Labels the tool as destructive, for people.
    #[must_use]
    pub fn destructive(mut self) -> Self {
        self.manifest.destructive = true;
        self
    }

    /// Declares the tool sensitive, so that its calls deserve a question. This is also the default.
    #[must_use]
    pub fn sensitive(mut self) -> Self {
        self.manifest.sensitive = Some(true);
        self
    }

    /// Declares the tool not sensitive.
    #[must_use]
    pub fn not_sensitive(mut self) -> Self {
        self.manifest.sensitive = Some(false);
        self
    }

    /// Declares the tool idempotent: running it twice has the same effect as running it once.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.manifest.idempotent = true;
        self
    }

    /// Declares that it never blocks its thread for long, so that it can be started in place; see [`Tool::is_nonblocking`].
    #[must_use]
    pub fn nonblocking(mut self) -> Self {
        self.nonblocking = true;
        self
    }

    /// Declares its effects reversible.
    #[must_use]
    pub fn reversible(mut self) -> Self {
        self.manifest.reversible = true;
        self
    }

    /// Declares that it may run concurrently with other calls of the same turn.
    #[must_use]
    pub fn concurrency_safe(mut self) -> Self {
        self.manifest.concurrency_safe = true;
        self
    }

    /// Requires that a checkpoint releases its calls in every mode (R8).
    #[must_use]
    pub fn requires_checkpoint(mut self) -> Self {
        self.manifest.requires_checkpoint = true;
        self
    }

    /// Requires that the agent first challenges its own call (R9).
    #[must_use]
    pub fn requires_reverse_thinking(mut self) -> Self {
        self.manifest.requires_reverse_thinking = true;
        self
    }

    /// Sets how long a call may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.manifest.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Sets whether calls need an approval (T8).
    #[must_use]
    pub fn needs_approval(mut self, needs: ApprovalRequirement) -> Self {
        self.manifest.needs_approval = needs;
        self
    }

    /// Requires an approval for calls that match the predicate (T8).
    #[must_use]
    pub fn needs_approval_when(self, predicate: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        self.with_predicate(Box::new(move |arguments| {
            let needed = predicate(&arguments);
            Box::pin(async move { Ok(needed) })
        }))
    }

    /// Requires an approval for calls that match the asynchronous predicate. A predicate that fails refuses the call (T8).
    #[must_use]
    pub fn needs_approval_when_async<F, P, E>(self, predicate: F) -> Self
    where
        F: Fn(T) -> P + Send + Sync + 'static,
        P: Future<Output = Result<bool, E>> + Send + 'static,
        E: Display,
    {
        self.with_predicate(Box::new(move |arguments| {
            let pending = predicate(arguments);
            Box::pin(async move { pending.await.map_err(|error| ToolError(error.to_string())) })
        }))
    }

    fn with_predicate(mut self, predicate: Predicate<T>) -> Self {
        self.manifest.needs_approval = ApprovalRequirement::Depends;
        self.predicate = Some(predicate);
        self
    }

    /// Sets a function that computes the effects, instead of the permission class. It must not change anything.
    #[must_use]
    pub fn with_planner<E: Display>(
        mut self,
        planner: impl Fn(&T, &ToolContext) -> Result<Plan, E> + Send + Sync + 'static,
    ) -> Self {
        self.planner = Some(Box::new(move |arguments, site| {
            planner(&arguments, site).map_err(|error| ToolError(error.to_string()))
        }));
        self
    }

    /// Sets a function for the model's description, which may depend on the agent and the directory (T1).
    #[must_use]
    pub fn with_describer(
        mut self,
        describer: impl Fn(&ToolContext) -> String + Send + Sync + 'static,
    ) -> Self {
        self.describer = Some(Box::new(describer));
        self
    }

    fn parse_arguments(&self, arguments: Value) -> Result<T, ToolError> {
        serde_json::from_value(arguments).map_err(|error| {
            ToolError(format!("cannot read the arguments of `{}`: {error}", self.manifest.name))
        })
    }
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Tool for TypedTool<T> {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn describe(&self, site: &ToolContext) -> Cow<'_, str> {
        match &self.describer {
            Some(describer) => Cow::Owned(describer(site)),
            None => Cow::Borrowed(&self.manifest.description),
        }
    }

    fn plan<'a>(
        &'a self,
        arguments: &'a Value,
        site: &'a ToolContext,
    ) -> Option<BoxFuture<'a, Result<Plan, ToolError>>> {
        let planner = self.planner.as_ref()?;
        Some(Box::pin(async move { planner(self.parse_arguments(arguments.clone())?, site) }))
    }

    fn needs_approval<'a>(&'a self, arguments: &'a Value) -> BoxFuture<'a, Result<bool, ToolError>> {
        Box::pin(async move {
            match &self.predicate {
                Some(predicate) => predicate(self.parse_arguments(arguments.clone())?).await,
                // It is declared to depend on the call but has no predicate: an approval is needed.
                None => Ok(true),
            }
        })
    }

    fn is_nonblocking(&self) -> bool {
        self.nonblocking
    }

    fn execute(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Output> {
        Box::pin(async move {
            match self.parse_arguments(arguments) {
                Ok(arguments) => (self.handler)(arguments, run).await,
                Err(fault) => Output::failure(fault.0),
            }
        })
    }
}

/// Structured data as a result. The model reads it as JSON, and later tools get it unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<D>(pub D);

/// The return types of a tool's function.
pub trait IntoOutput {
    /// Converts the value into an output.
    fn into_output(self) -> Output;
}

impl IntoOutput for Output {
    fn into_output(self) -> Output {
        self
    }
}

impl IntoOutput for () {
    fn into_output(self) -> Output {
        Output::default()
    }
}

impl IntoOutput for String {
    fn into_output(self) -> Output {
        Output::text(self)
    }
}

impl IntoOutput for &str {
    fn into_output(self) -> Output {
        Output::text(self)
    }
}

impl<D: Serialize> IntoOutput for Json<D> {
    fn into_output(self) -> Output {
        match serde_json::to_value(self.0) {
            Ok(data) => Output::text(format!("{data:#}")).with_data(data),
            Err(error) => Output::failure(format!("cannot encode the result as JSON: {error}")),
        }
    }
}

impl<O: IntoOutput, E: Display> IntoOutput for Result<O, E> {
    fn into_output(self) -> Output {
        match self {
            Ok(output) => output.into_output(),
            Err(error) => Output::failure(error.to_string()),
        }
    }
}

/// Returns the schema of a struct, as the model and the validator see it.
pub fn schema_for<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name of a Rust type is not useful to the model.
    schema.remove("title");
    // The schema of a struct without fields has no `properties`, which some providers require.
    if schema.get("type").is_some_and(|kind| kind == "object") && schema.get("properties").is_none() {
        schema.insert("properties".into(), Value::Object(serde_json::Map::new()));
    }
    schema.into()
}
