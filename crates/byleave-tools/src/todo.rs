//! The tools `todo_write` and `todo_read`: an agent's own to-do list, one for each session.
//!
//! The lists are in a directory of Byleave that no command can see. They contain only what the agent wrote, and readers must treat them as
//! untrusted. A list is replaced atomically, so a reader sees either the old one or the new one.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byleave_files::own;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::manifest::PermissionClass;
use byleave_gate::core::outcome::Output;
use byleave_gate::tool::{RunContext, Tool, ToolContext};
use byleave_gate::typed_tool::TypedTool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::blocking::run_blocking;
use crate::gate_lines::strip_gate_prefix;

const ITEMS_MAX: usize = 200;
const CONTENT_CHARS_MAX: usize = 1_000;
const ID_CHARS_MAX: usize = 64;
/// The maximum size of a file. It is more than any valid list needs, so a larger file is not one.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The arguments of `todo_write`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TodoWrite {
    /// The whole list, in order; replaces the previous list
    #[schemars(length(max = 200))]
    todos: Vec<Todo>,
}

/// The arguments of `todo_read`: none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TodoRead {}

/// An item of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Todo {
    /// The id of the item in the list; by default a number
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    id: Option<String>,
    /// The task
    #[schemars(length(min = 1, max = 1_000))]
    content: String,
    /// The status
    status: TodoStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

impl TodoStatus {
    const fn mark(self) -> char {
        match self {
            Self::Pending => ' ',
            Self::InProgress => '~',
            Self::Completed => 'x',
        }
    }
}

/// The reason why there is no list.
#[derive(Debug, thiserror::Error)]
enum TodoError {
    #[error("the list has {0} items, and the maximum is {ITEMS_MAX}: remove completed items")]
    TooMany(usize),
    #[error("item {0} is empty; give it a `content`, or remove it")]
    Empty(usize),
    #[error(
        "item {0} is longer than {CONTENT_CHARS_MAX} characters; shorten it, and write the rest into a file"
    )]
    TooLong(usize),
    #[error(
        "the id of item {0} is empty or longer than {ID_CHARS_MAX} characters; give a short one, or none"
    )]
    BadId(usize),
    #[error("two items have the id `{}`; give each its own, or none", .0.escape_debug())]
    Twice(String),
    #[error("cannot read the list of this session: {0}; write it again with todo_write")]
    Unread(String),
    #[error("cannot write the list: {0}; the previous list is unchanged; inform the person who runs this")]
    Unwritten(io::Error),
}

/// Creates the tool that writes the list of a session. Lists are in this directory, which is created when needed.
pub fn todo_write(kept_in: PathBuf) -> impl Tool {
    let lists = Arc::new(TodoStore { at: kept_in });
    let write = move |args: TodoWrite, run: RunContext| {
        let lists = Arc::clone(&lists);
        run_blocking(move || {
            let todos = checked(args.todos).map_err(words)?;
            lists.write(&run.context, &todos).map_err(words)?;
            Ok(shown(&todos))
        })
    };
    let description = "Writes your to-do list for this session: always the whole list. Changes nothing else.";
    TypedTool::new("todo_write", description, write)
        // It stays within the agent.
        .permission_class(PermissionClass::Readonly)
        .search_hint("write plan todo task list")
        .audit_operation("write")
        .idempotent()
        .not_sensitive()
}

/// Creates the tool that reads the list of a session.
pub fn todo_read(kept_in: PathBuf) -> impl Tool {
    let lists = Arc::new(TodoStore { at: kept_in });
    let read = move |_: TodoRead, run: RunContext| {
        let lists = Arc::clone(&lists);
        run_blocking(move || Ok(shown(&lists.read(&run.context).map_err(words)?)))
    };
    TypedTool::new("todo_read", "Reads your to-do list for this session.", read)
        .permission_class(PermissionClass::Readonly)
        .search_hint("read plan todo task list")
        .audit_operation("read")
        .read_only()
        .concurrency_safe()
        .idempotent()
        .not_sensitive()
}

#[expect(clippy::needless_pass_by_value, reason = "reads best as the last step of a chain")]
fn words(fault: TodoError) -> String {
    fault.to_string()
}

/// Checks a list, and gives every item a unique id.
fn checked(mut todos: Vec<Todo>) -> Result<Vec<Todo>, TodoError> {
    if todos.len() > ITEMS_MAX {
        return Err(TodoError::TooMany(todos.len()));
    }
    let mut ids = BTreeSet::new();
    for (number, todo) in (1..).zip(&todos) {
        match todo.content.chars().take(CONTENT_CHARS_MAX.saturating_add(1)).count() {
            _ if todo.content.trim().is_empty() => return Err(TodoError::Empty(number)),
            count if count > CONTENT_CHARS_MAX => return Err(TodoError::TooLong(number)),
            _ => {}
        }
        let Some(id) = &todo.id else { continue };
        if id.trim().is_empty() || id.chars().count() > ID_CHARS_MAX {
            return Err(TodoError::BadId(number));
        }
        if !ids.insert(id.clone()) {
            return Err(TodoError::Twice(id.clone()));
        }
    }
    let mut next = 1_usize;
    for todo in todos.iter_mut().filter(|todo| todo.id.is_none()) {
        while !ids.insert(next.to_string()) {
            next = next.saturating_add(1);
        }
        todo.id = Some(next.to_string());
    }
    Ok(todos)
}

fn shown(todos: &[Todo]) -> Output {
    let count = |status| todos.iter().filter(|todo| todo.status == status).count();
    let mut text = match todos.len() {
        0 => "the list is empty; todo_write creates one".to_owned(),
        all => format!(
            "{} of {all} completed, {} in progress",
            count(TodoStatus::Completed),
            count(TodoStatus::InProgress)
        ),
    };
    for todo in todos {
        let id = todo.id.as_deref().unwrap_or_default().escape_debug().to_string();
        let content = todo.content.replace('\n', "\n      ");
        text.push_str(&format!("\n[{}] {id}: {content}", todo.status.mark()));
    }
    Output::text(strip_gate_prefix(&text)).with_data(json!({ "todos": todos }))
}

/// The lists of all sessions.
#[derive(Debug)]
struct TodoStore {
    at: PathBuf,
}

impl TodoStore {
    /// Returns the file for a session. The name of a session is untrusted, so it is not used as a path.
    fn file(&self, site: &ToolContext) -> PathBuf {
        let whose = [site.tenant.as_str().as_bytes(), site.session.as_str().as_bytes()];
        self.at.join(format!("{}.json", Digest::compute_parts("byleave.todos", &whose)))
    }

    fn read(&self, site: &ToolContext) -> Result<Vec<Todo>, TodoError> {
        let unread = |error: &dyn std::fmt::Display| TodoError::Unread(error.to_string());
        let file = match own::open(self.file(site)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unread(&error)),
        };
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| unread(&error))?;
        serde_json::from_str(&text).map_err(|error| unread(&error))
    }

    fn write(&self, site: &ToolContext, todos: &[Todo]) -> Result<(), TodoError> {
        let text = serde_json::to_vec(todos).map_err(|error| TodoError::Unwritten(error.into()))?;
        self.replace(&self.file(site), &text).map_err(TodoError::Unwritten)
    }

    /// Replaces a file atomically.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.at)?;
        let beside = self.at.join(format!("{}.new", uuid::Uuid::new_v4()));
        let written = (|| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&beside, path)?;
            own::sync_directory(&self.at)
        })();
        if written.is_err() {
            // The file may not exist.
            fs::remove_file(&beside).ok();
        }
        written
    }
}
