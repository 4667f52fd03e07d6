//! The effects of the agents' built-in tools, read from their input, so that one policy covers the tools of all agents.
//!
//! If several dialects have a tool name, it means the same in each. An unlisted tool has unknown effects. An unlisted argument reaches the
//! tool without a check. Both are reported, so that a person is asked; neither is ever ignored.

use serde_json::Value;

use crate::agent_kind::AgentKind;

/// The kind of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// Runs shell commands.
    Shell,
    /// Reads, and changes nothing.
    ReadsFiles,
    /// Changes files.
    ChangesFiles,
    /// Fetches from the web.
    FetchesUrl,
    /// Stays within the agent: lists, plans, and sub-agents whose calls go through the hook themselves.
    AgentInternal,
    /// Has effects that only the tool knows.
    Other,
    /// Not known to this crate.
    Unknown,
}

/// One effect of a tool on one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolEffect {
    /// Reads a path.
    Read(String),
    /// Creates or replaces a file.
    Write(String),
    /// Reads a file and writes it.
    Edit(String),
    /// Removes a path.
    Delete(String),
    /// Applies a patch.
    Patch(String),
    /// Fetches an address.
    Fetch(String),
    /// Runs a command.
    Run(String),
    /// An effect that could not be determined.
    Unknown(String),
}

/// All effects of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolEffects {
    /// The kind of the tool.
    pub kind: ToolKind,
    /// The operation name in the audit log.
    pub operation: &'static str,
    /// The effects.
    pub effects: Vec<ToolEffect>,
}

/// The action on the target.
#[derive(Clone, Copy)]
enum ToolAction {
    Read,
    /// Reads a path, or fetches an address.
    ReadOrFetch,
    Write,
    Edit,
    Delete,
    Patch,
    Fetch,
    Run,
}

/// The target of a call that does not name one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DefaultTarget {
    /// The working directory.
    Here,
    /// The effect is unknown.
    Unknown,
}

struct KnownTool {
    names: &'static [&'static str],
    does: ToolAction,
    targets: &'static [&'static str],
    unnamed: DefaultTarget,
    others: &'static [&'static str],
}

#[rustfmt::skip]
const ROWS: &[KnownTool] = &[
    KnownTool { names: &["Bash", "bash", "shell", "run_shell_command", "developer__shell", "Shell", "run_in_terminal"],
        does: ToolAction::Run, targets: &["command"], unnamed: DefaultTarget::Unknown,
        others: &["description", "timeout", "run_in_background", "is_background", "isBackground", "explanation", "goal", "mode",
            "initial_wait", "working_directory", "directory", "dir_path", "workdir", "block_until_ms", "sessionId", "timeout_secs",
            "dangerouslyDisableSandbox", "shellId", "detach", "delay_ms", "wait_for_previous"] },
    KnownTool { names: &["Read", "read_file", "view", "developer__read_file", "ReadFile", "view_image"],
        does: ToolAction::Read, targets: &["file_path", "path", "absolute_path", "filePath", "target_file"], unnamed: DefaultTarget::Unknown,
        others: &["offset", "limit", "pages", "start_line", "end_line", "startLine", "endLine", "view_range", "forceReadLargeFiles",
            "wait_for_previous"] },
    KnownTool { names: &["read_image"], does: ToolAction::ReadOrFetch, targets: &["source"], unnamed: DefaultTarget::Unknown,
        others: &["crop"] },
    KnownTool { names: &["read_many_files"], does: ToolAction::Read, targets: &["paths", "include"], unnamed: DefaultTarget::Unknown,
        others: &["exclude", "recursive", "useDefaultExcludes", "file_filtering_options"] },
    KnownTool { names: &["Glob", "glob", "LS", "list_directory", "list_dir", "Grep", "grep", "search_file_content", "grep_search", "rg", "file_search", "tree",
        "analyze"],
        does: ToolAction::Read, targets: &["path", "dir_path", "directory", "paths"], unnamed: DefaultTarget::Here,
        others: &["pattern", "glob", "query", "include", "ignore", "output_mode", "type", "head_limit", "multiline", "-A", "-B", "-C", "-i", "-n",
            "case_sensitive", "respect_git_ignore", "file_filtering_options", "offset", "context", "limit", "include_pattern", "n", "depth",
            "exclude_pattern", "names_only", "max_matches_per_file", "total_max_matches", "respect_gemini_ignore", "wait_for_previous",
            "focus", "follow_depth", "force", "max_depth", "after", "before", "fixed_strings", "no_ignore"] },
    KnownTool { names: &["Write", "write", "write_file", "create", "create_file"],
        does: ToolAction::Write, targets: &["file_path", "path", "filePath", "target_file"], unnamed: DefaultTarget::Unknown,
        others: &["content", "file_text", "contents", "modified_by_user", "ai_proposed_content", "wait_for_previous"] },
    KnownTool { names: &["Edit", "MultiEdit", "NotebookEdit", "replace", "edit", "StrReplace", "replace_string_in_file", "insert_edit_into_file"],
        does: ToolAction::Edit, targets: &["file_path", "path", "notebook_path", "filePath", "target_file", "target_notebook"], unnamed: DefaultTarget::Unknown,
        others: &["old_string", "new_string", "oldString", "newString", "old_str", "new_str", "replace_all", "edits", "cell_id", "cell_type",
            "edit_mode", "new_source", "expected_replacements", "instruction", "allow_multiple", "explanation", "code", "modified_by_user",
            "ai_proposed_content", "before", "after", "wait_for_previous"] },
    KnownTool { names: &["Delete", "delete_file"], does: ToolAction::Delete, targets: &["path", "file_path", "target_file"], unnamed: DefaultTarget::Unknown,
        others: &["explanation"] },
    KnownTool { names: &["apply_patch", "ApplyPatch"], does: ToolAction::Patch, targets: &["input", "patch", "command"], unnamed: DefaultTarget::Unknown,
        others: &["explanation", "workdir"] },
    KnownTool { names: &["WebFetch", "fetch", "fetch_webpage"], does: ToolAction::Fetch, targets: &["url", "urls"], unnamed: DefaultTarget::Unknown,
        others: &["prompt", "query", "max_length", "raw", "start_index"] },
];

/// Tools that stay within the agent.
const OWN: &[&str] = &[
    "TodoWrite",
    "TodoRead",
    "Task",
    "Agent",
    "TaskCreate",
    "TaskUpdate",
    "TaskList",
    "TaskGet",
    "TaskOutput",
    "TaskStop",
    "BashOutput",
    "KillShell",
    "KillBash",
    "ExitPlanMode",
    "EnterPlanMode",
    "AskUserQuestion",
    "Skill",
    "ToolSearch",
    "update_plan",
    "write_todos",
    "spawn_agent",
    "todo__todo_write",
    "report_intent",
    "update_todo",
    "read_bash",
    "stop_bash",
    "ask_user",
    "manage_todo_list",
    "WaitForMcpServers",
    "CronDelete",
    "CronList",
    "ReportFindings",
    "SendMessage",
    "create_goal",
    "get_goal",
    "update_goal",
    "request_user_input",
    "tool_search",
    "enter_plan_mode",
    "exit_plan_mode",
    "update_topic",
    "invoke_agent",
    "activate_skill",
    "list_background_processes",
    "read_background_output",
    "list_bash",
    "skill",
    "sql",
    "task",
    "read_agent",
    "list_agents",
    "write_agent",
    "fetch_copilot_cli_documentation",
    "load_skill",
];

/// Known tools whose effects only the tool knows: they search the web, speak to MCP servers, change the directory of the session, run
/// what is not in the call, or act later.
const OTHER: &[&str] = &[
    "WebSearch",
    "web_search",
    "google_web_search",
    "CronCreate",
    "ScheduleWakeup",
    "EnterWorktree",
    "ExitWorktree",
    "ListMcpResourcesTool",
    "ReadMcpResourceTool",
    "ReadMcpResourceDirTool",
    "Workflow",
    "write_stdin",
    "list_mcp_resources",
    "list_mcp_resource_templates",
    "read_mcp_resource",
    "session_store_sql",
    "delegate",
    "load",
    "extensionmanager__list_resources",
    "extensionmanager__manage_extensions",
    "extensionmanager__read_resource",
    "extensionmanager__search_available_extensions",
    "apps__create_app",
    "apps__delete_app",
    "apps__iterate_app",
    "apps__list_apps",
];

/// The arguments of `web_fetch`, which has the addresses in a text in one agent, and as an argument in others.
const WEB_FETCH: &[&str] =
    &["url", "prompt", "format", "max_length", "raw", "start_index", "wait_for_previous"];

/// Checks whether a tool belongs to Byleave's own gateway, which evaluates the call itself.
///
/// Only two facts are used. One is the agent's own prefix of server names, if it is distinct from the tool name. The other is the server
/// that the agent names separately. The server chooses the rest of the name. Cursor and VS Code provide neither, so no tool of theirs is
/// recognized.
pub fn is_gateway_tool(dialect: AgentKind, tool: &str, server: Option<&str>) -> bool {
    match dialect {
        AgentKind::ClaudeCode | AgentKind::Codex => tool.starts_with("mcp__byleave__"),
        // Its tool names are `mcp_SERVER_TOOL`. In earlier versions they were the tool name alone.
        AgentKind::Gemini => server == Some("byleave"),
        AgentKind::Cursor => false,
        AgentKind::Goose => tool.starts_with("byleave__"),
        // Its tool names are `SERVER-TOOL`. With another hyphen, the server may be another one. VS Code names no server.
        AgentKind::Copilot => {
            tool.strip_prefix("byleave-").is_some_and(|tool| !tool.is_empty() && !tool.contains('-'))
        }
    }
}

/// Returns the effects of a tool with this input.
pub fn tool_effects(tool: &str, input: &Value) -> ToolEffects {
    if tool == "developer__text_editor" || tool == "text_editor" || tool == "str_replace_editor" {
        return editor(input);
    }
    if tool == "web_fetch" {
        return web_fetch(input);
    }
    if let Some(row) = row_of(tool) {
        return row.claims(tool, input);
    }
    let kind = if OWN.contains(&tool) {
        ToolKind::AgentInternal
    } else if OTHER.contains(&tool) || tool.starts_with("mcp__") || tool.starts_with("MCP:") {
        ToolKind::Other
    } else {
        ToolKind::Unknown
    };
    ToolEffects { kind, operation: "invoke", effects: Vec::new() }
}

/// Returns why a tool must not be used, because the calls that it leads to go past every hook.
pub fn ungoverned_reason(tool: &str) -> Option<&'static str> {
    let why = "Goose starts no hooks for the calls of its sub-agents, so they would run without any check; do the work in this session";
    (tool == "delegate").then_some(why)
}

/// Returns the command, if the tool is a shell that runs one.
pub fn shell_command<'a>(tool: &str, input: &'a Value) -> Option<&'a str> {
    let row = row_of(tool)?;
    matches!(row.does, ToolAction::Run).then(|| input.get("command")?.as_str()).flatten()
}

/// The arguments by which agents run a command in the background.
const BACKGROUND: [&str; 4] = ["run_in_background", "is_background", "isBackground", "detach"];

/// Checks whether the agent runs the command of this input in the background.
pub fn is_background(input: &Value) -> bool {
    BACKGROUND.iter().any(|key| input.get(*key).and_then(Value::as_bool) == Some(true))
}

/// The arguments that set a tool's working directory.
const DIRECTORIES: [&str; 4] = ["working_directory", "directory", "dir_path", "workdir"];

/// Returns the working directory that the input sets. For a tool that reads, these arguments name what it reads, so the result is `None`.
pub fn working_directory<'a>(tool: &str, input: &'a Value) -> Option<&'a str> {
    if tool_effects(tool, input).kind == ToolKind::ReadsFiles {
        return None;
    }
    let named = DIRECTORIES.iter().find_map(|key| input.get(*key)).and_then(Value::as_str);
    named.filter(|named| !named.is_empty() && *named != ".")
}

/// Returns the input with another command.
pub fn with_command(input: &Value, command: &str) -> Value {
    let mut input = input.clone();
    if let Value::Object(fields) = &mut input {
        fields.insert("command".into(), command.into());
        // The replacement command runs in the current directory.
        for place in DIRECTORIES {
            fields.remove(place);
        }
        // The model must not choose less than the sandbox of the agent, if that has one.
        fields.remove("dangerouslyDisableSandbox");
    }
    input
}

/// Looks up a known tool by name.
fn row_of(tool: &str) -> Option<&'static KnownTool> {
    ROWS.iter().find(|row| row.names.contains(&tool))
}

impl KnownTool {
    fn claims(&self, tool: &str, input: &Value) -> ToolEffects {
        let mut claims = Vec::new();
        let Value::Object(fields) = input else {
            return ToolEffects { kind: ToolKind::Unknown, operation: "invoke", effects: claims };
        };
        for target in self.targets {
            match fields.get(*target) {
                None | Some(Value::Null) => {}
                Some(Value::String(text)) => claims.push(self.does.to(text)),
                Some(Value::Array(all)) => claims.extend(all.iter().map(|one| match one.as_str() {
                    Some(text) => self.does.to(text),
                    None => ToolEffect::Unknown(format!("`{tool}` has a `{target}` that is not text")),
                })),
                Some(_) => {
                    claims.push(ToolEffect::Unknown(format!("`{tool}` has a `{target}` that is not text")))
                }
            }
        }
        // A glob pattern may itself name a directory, relative to the directory that is searched.
        let pattern = fields.get("pattern").and_then(Value::as_str);
        let is_glob = tool.eq_ignore_ascii_case("glob");
        if let Some(place) = pattern.filter(|_| is_glob).and_then(place_of) {
            let absolute = place.starts_with(['/', '~']);
            let from: Vec<ToolEffect> = claims
                .iter()
                .filter(|_| !absolute)
                .filter_map(|claim| match claim {
                    ToolEffect::Read(from) => Some(ToolEffect::Read(format!("{from}/{place}"))),
                    _ => None,
                })
                .collect();
            claims.extend(if from.is_empty() { vec![ToolEffect::Read(place)] } else { from });
        }
        if claims.is_empty() {
            claims.push(match self.unnamed {
                DefaultTarget::Here => ToolEffect::Read(".".into()),
                DefaultTarget::Unknown => ToolEffect::Unknown(format!("`{tool}` does not name its target")),
            });
        }
        let known = |name: &str| self.targets.contains(&name) || self.others.contains(&name);
        for name in fields.keys().filter(|name| !known(name)) {
            claims.push(unknown_argument(tool, name));
        }
        ToolEffects { kind: self.does.kind(), operation: self.does.operation(), effects: claims }
    }
}

/// Returns the directory that a glob searches: the part before the first wildcard. A glob with `..` after that part may search anywhere.
fn place_of(pattern: &str) -> Option<String> {
    let is_fixed = |step: &&str| !step.contains(['*', '?', '[', '{', '(', '\\']);
    let fixed: Vec<&str> = pattern.split('/').take_while(is_fixed).collect();
    let mut rest = pattern.split('/').skip(fixed.len());
    let goes_up = |step: &str| step.split(['{', ',', '}', '(', '|', ')']).any(|part| part == "..");
    let place = fixed.join("/");
    match place.is_empty() {
        _ if rest.any(goes_up) => Some("/".into()),
        true => pattern.starts_with('/').then(|| "/".into()),
        false => Some(place),
    }
}

/// Returns the effects of Goose's editor, which depend on its command.
fn editor(input: &Value) -> ToolEffects {
    let text = |key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
    let unknown = || ToolEffect::Unknown("the editor does not name its command and its path".into());
    let (operation, claim) = match (text("command").as_deref(), text("path")) {
        (Some("view"), Some(path)) => ("read", ToolEffect::Read(path)),
        (Some("write" | "create"), Some(path)) => ("write", ToolEffect::Write(path)),
        (Some("str_replace" | "insert" | "undo_edit"), Some(path)) => ("edit", ToolEffect::Edit(path)),
        _ => ("edit", unknown()),
    };
    let kind = if operation == "read" { ToolKind::ReadsFiles } else { ToolKind::ChangesFiles };
    ToolEffects { kind, operation, effects: vec![claim] }
}

/// Returns the effects of a tool that fetches the addresses in its prompt: every word that could be one.
fn web_fetch(input: &Value) -> ToolEffects {
    let text = |key: &str| input.get(key).and_then(Value::as_str).unwrap_or_default();
    let words = text("prompt").split_whitespace().filter(|word| word.contains("://"));
    let named = Some(text("url")).filter(|url| !url.is_empty());
    let mut effects: Vec<ToolEffect> =
        named.into_iter().chain(words).map(|url| ToolEffect::Fetch(url.to_owned())).collect();
    if effects.is_empty() {
        effects.push(ToolEffect::Unknown("`web_fetch` does not name its target".into()));
    }
    for name in input.as_object().into_iter().flatten().map(|(name, _)| name) {
        if !WEB_FETCH.contains(&name.as_str()) {
            effects.push(unknown_argument("web_fetch", name));
        }
    }
    ToolEffects { kind: ToolKind::FetchesUrl, operation: "fetch", effects }
}

fn unknown_argument(tool: &str, name: &str) -> ToolEffect {
    ToolEffect::Unknown(format!(
        "the meaning of the argument `{}` of `{tool}` is unknown",
        name.escape_debug()
    ))
}

impl ToolAction {
    fn to(self, target: &str) -> ToolEffect {
        let target = target.to_owned();
        match self {
            Self::ReadOrFetch if target.contains("://") => ToolEffect::Fetch(target),
            Self::Read | Self::ReadOrFetch => ToolEffect::Read(target),
            Self::Write => ToolEffect::Write(target),
            Self::Edit => ToolEffect::Edit(target),
            Self::Delete => ToolEffect::Delete(target),
            Self::Patch => ToolEffect::Patch(target),
            Self::Fetch => ToolEffect::Fetch(target),
            Self::Run => ToolEffect::Run(target),
        }
    }

    const fn kind(self) -> ToolKind {
        match self {
            Self::Read | Self::ReadOrFetch => ToolKind::ReadsFiles,
            Self::Write | Self::Edit | Self::Delete | Self::Patch => ToolKind::ChangesFiles,
            Self::Fetch => ToolKind::FetchesUrl,
            Self::Run => ToolKind::Shell,
        }
    }

    const fn operation(self) -> &'static str {
        match self {
            Self::Read | Self::ReadOrFetch => "read",
            Self::Write => "write",
            Self::Edit | Self::Patch => "edit",
            Self::Delete => "delete",
            Self::Fetch => "fetch",
            Self::Run => "execute",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_known_is_said() {
        let of = |tool: &str, input: Value| tool_effects(tool, &input).effects;
        assert_eq!(of("Write", json!({"file_path": "/a", "content": "x"})), [ToolEffect::Write("/a".into())]);
        assert_eq!(of("write", json!({"path": "a", "content": "x"})), [ToolEffect::Write("a".into())]);
        let edit = json!({"path": "a", "before": "x", "after": "y"});
        assert_eq!(of("edit", edit), [ToolEffect::Edit("a".into())]);
        assert_eq!(of("Glob", json!({"pattern": "**/*.rs"})), [ToolEffect::Read(".".into())]);
        assert_eq!(of("Glob", json!({"pattern": "/etc/*"})), [ToolEffect::Read("/etc".into())]);
        assert_eq!(of("Glob", json!({"pattern": "../../*"})), [ToolEffect::Read("../..".into())]);
        // req: P4
        for (pattern, place) in [
            ("door/**", "door"),
            ("door/f.txt", "door/f.txt"),
            ("/*", "/"),
            ("src/*/../../../x/*", "/"),
            ("{..,src}/x", "/"),
            ("@(..|src)/x", "/"),
            ("src/(group)/*", "src"),
        ] {
            assert_eq!(
                of("Glob", json!({ "pattern": pattern })),
                [ToolEffect::Read(place.into())],
                "{pattern}"
            );
        }
        let from = json!({"path": "src", "pattern": "../../x/*"});
        assert_eq!(
            of("Glob", from),
            [ToolEffect::Read("src".into()), ToolEffect::Read("src/../../x".into())]
        );
        assert!(matches!(of("Write", json!({"content": "x"}))[..], [ToolEffect::Unknown(_)]));
        assert!(matches!(of("Read", json!({"file_path": 3}))[..], [ToolEffect::Unknown(_)]));
        assert!(matches!(
            of("Bash", json!({"command": "ls", "sudo": true}))[..],
            [ToolEffect::Run(_), ToolEffect::Unknown(_)]
        ));
        assert!(matches!(
            of("text_editor", json!({"command": "burn", "path": "/a"}))[..],
            [ToolEffect::Unknown(_)]
        ));
        assert_eq!(tool_effects("Frobnicate", &json!({})).kind, ToolKind::Unknown);
        assert_eq!(
            of("web_fetch", json!({"prompt": "compare https://a.example/x and http://10.0.0.1/y"})),
            [ToolEffect::Fetch("https://a.example/x".into()), ToolEffect::Fetch("http://10.0.0.1/y".into())]
        );
        assert_eq!(
            of("web_fetch", json!({"url": "https://a.example", "prompt": "sum up"})),
            [ToolEffect::Fetch("https://a.example".into())]
        );
        assert!(matches!(of("web_fetch", json!({"prompt": "the news"}))[..], [ToolEffect::Unknown(_)]));
        assert_eq!(of("read_image", json!({"source": "a.png"})), [ToolEffect::Read("a.png".into())]);
        let fetched = of("read_image", json!({"source": "http://10.0.0.1/a.png"}));
        assert_eq!(fetched, [ToolEffect::Fetch("http://10.0.0.1/a.png".into())]);
        let bare =
            with_command(&json!({"command": "x", "dangerouslyDisableSandbox": true, "workdir": "/"}), "y");
        assert_eq!(bare, json!({"command": "y"}));
        assert_eq!(tool_effects("mcp__github__push", &json!({})).kind, ToolKind::Other);
    }

    #[test]
    fn only_the_agent_says_that_a_tool_is_ours() {
        let named = |dialect, tool| is_gateway_tool(dialect, tool, None);
        assert!(
            named(AgentKind::ClaudeCode, "mcp__byleave__bash") && named(AgentKind::Goose, "byleave__bash")
        );
        assert!(is_gateway_tool(AgentKind::Gemini, "mcp_byleave_bash", Some("byleave")));
        assert!(!is_gateway_tool(AgentKind::Gemini, "mcp_byleave_x_bash", Some("byleave_x")));
        assert!(
            named(AgentKind::Copilot, "byleave-read_file")
                && named(AgentKind::Copilot, "byleave-mcp_fs_read_file")
        );
        assert!(!named(AgentKind::Copilot, "byleave-x-bash") && !named(AgentKind::Copilot, "byleave-"));
        // Names that other servers may give to their tools.
        for dialect in AgentKind::ALL {
            for tool in [
                "mcp__byleaver__bash",
                "mcp__other__byleave",
                "byleave",
                "bash",
                "MCP:byleave",
                "MCP:byleave__x",
            ] {
                assert!(!named(dialect, tool), "{tool} of {}", dialect.name());
            }
        }
        for tool in ["byleave__x", "mcp__byleave__x", "mcp_byleave_x", "byleave/x", "MCP:mcp__byleave__x"] {
            assert!(!named(AgentKind::Cursor, tool) && !named(AgentKind::Gemini, tool), "{tool}");
        }
    }
}
