"""The agents: how each is started, its settings for the scripted model, and what it cannot do.

`@URL@` in a value is the address of the scripted model, `PROMPT` the prompt.
"""

import dataclasses

CLAUDE_SETTINGS = """{
  "hasCompletedOnboarding": true,
  "customApiKeyResponses": { "approved": ["sk-ant-scripted"], "rejected": [] }
}
"""
# Otherwise Enter refuses this mode.
CLAUDE_BYPASS = '{"skipDangerousModePermissionPrompt": true}'
CODEX_SETTINGS = """model = "gpt-5.5"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "@URL@/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
"""
GEMINI_SETTINGS = """{
  // a comment
  "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false } },
  "general": { "enableAutoUpdate": false }
}
"""
GOOSE_SETTINGS = """GOOSE_PROVIDER: openai
GOOSE_MODEL: gpt-4o
GOOSE_MODE: auto
extensions:
  developer:
    enabled: true
    type: platform
    name: developer
    bundled: true
"""
OPENCODE_SETTINGS = """{
  "model": "scripted/scripted",
  "autoupdate": false,
  "provider": { "scripted": {
    "npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": { "baseURL": "@URL@/v1", "apiKey": "k" }, "models": { "scripted": {} }
  } }
}
"""


@dataclasses.dataclass(frozen=True)
class Agent:
    # As `byleave init` calls it. The list of tools has this name, too.
    name: str
    title: str
    package: str
    # The program, below node_modules.
    program: str
    # The arguments of one session without a person at the terminal.
    headless: list
    # The same session with the agent's own approvals off.
    unguarded: list
    environment: dict
    # Files in the home directory.
    settings: dict
    # What comes before the tool's name for a tool of our gateway.
    gateway: str = ""
    is_set_up_by_init: bool = True
    # The check, and why this agent makes it impossible.
    impossible: dict = dataclasses.field(default_factory=dict)
    # The tool that starts a sub-agent, its other arguments, and the argument with the prompt.
    subagent: tuple | None = None
    # Every mode: whether it is at a terminal, its arguments, and its variables. Without PROMPT, the prompt is typed.
    modes: dict = dataclasses.field(default_factory=dict)
    # The arguments of an interactive session in which Byleave asks in the agent's window.
    window_arguments: tuple = ()
    # Its settings, if it also makes other files in their directory at every start.
    own_files: tuple = ()
    # A file in the project that switches its hooks off, and its content.
    switched_off: tuple | None = None
    # More arguments for a session that uses the gateway.
    gateway_arguments: tuple = ()


AGENTS = [
    Agent(
        name="claude-code",
        title="Claude Code",
        package="@anthropic-ai/claude-code",
        program=".bin/claude",
        headless=["-p", "PROMPT"],
        unguarded=["--dangerously-skip-permissions", "-p", "PROMPT"],
        environment={
            "ANTHROPIC_BASE_URL": "@URL@",
            "ANTHROPIC_API_KEY": "sk-ant-scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
        # Otherwise the first interactive session asks about themes and the key.
        settings={".claude.json": CLAUDE_SETTINGS},
        gateway="mcp__byleave__",
        modes={
            "headless": (False, ["-p", "PROMPT"], {}),
            "headless, acceptEdits": (False, ["--permission-mode", "acceptEdits", "-p", "PROMPT"], {}),
            "headless, plan": (False, ["--permission-mode", "plan", "-p", "PROMPT"], {}),
            "headless, dontAsk": (False, ["--permission-mode", "dontAsk", "-p", "PROMPT"], {}),
            "headless, bypass": (False, ["--dangerously-skip-permissions", "-p", "PROMPT"], {}),
            "interactive": (True, ["PROMPT"], {}),
            "interactive, acceptEdits": (True, ["--permission-mode", "acceptEdits", "PROMPT"], {}),
            "interactive, plan": (True, ["--permission-mode", "plan", "PROMPT"], {}),
            "interactive, auto": (True, ["--permission-mode", "auto", "PROMPT"], {}),
            "interactive, dontAsk": (True, ["--permission-mode", "dontAsk", "PROMPT"], {}),
            "interactive, bypass": (True, ["--settings", CLAUDE_BYPASS, "--dangerously-skip-permissions", "PROMPT"], {}),
        },
        window_arguments=("PROMPT",),
        switched_off=(".claude/settings.local.json", '{"disableAllHooks": true}'),
        subagent=("Agent", {"description": "d", "subagent_type": "general-purpose"}, "prompt"),
    ),
    Agent(
        name="codex",
        title="Codex",
        package="@openai/codex",
        program=".bin/codex",
        # With its own sandbox and its own trust in hooks, which `byleave init` sets up.
        headless=["exec", "--skip-git-repo-check", "--sandbox", "workspace-write", "PROMPT"],
        unguarded=["exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "--dangerously-bypass-hook-trust", "PROMPT"],
        environment={"SCRIPTED_KEY": "k"},
        settings={".codex/config.toml": CODEX_SETTINGS},
        gateway="mcp__byleave__",
        modes={
            "headless": (False, ["exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "PROMPT"], {}),
            "headless, its own sandbox": (False, ["exec", "--sandbox", "workspace-write", "PROMPT"], {}),
            "headless, read-only": (False, ["exec", "--sandbox", "read-only", "PROMPT"], {}),
            "headless, bypass": (False, ["exec", "--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust", "PROMPT"], {}),
            "headless, code mode": (False, ["exec", "-m", "gpt-6-sol", "--sandbox", "danger-full-access", "--dangerously-bypass-hook-trust", "PROMPT"], {}),
            "interactive": (True, ["--sandbox", "danger-full-access", "--dangerously-bypass-hook-trust", "PROMPT"], {}),
        },
        own_files=(".codex/config.toml", ".codex/hooks.json", ".codex/rules"),
        # It hides the tools of servers from the models that it knows.
        gateway_arguments=("-m", "gpt-5"),
    ),
    Agent(
        name="gemini",
        title="Gemini CLI",
        package="@google/gemini-cli",
        program=".bin/gemini",
        headless=["-m", "gemini-2.5-pro", "--yolo", "-p", "PROMPT"],
        unguarded=["-m", "gemini-2.5-pro", "--yolo", "-p", "PROMPT"],
        environment={"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": "@URL@", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        settings={".gemini/settings.json": GEMINI_SETTINGS},
        gateway="mcp_byleave_",
        modes={
            "headless, auto_edit": (False, ["-m", "gemini-2.5-pro", "--approval-mode", "auto_edit", "-p", "PROMPT"], {}),
            "headless, yolo": (False, ["-m", "gemini-2.5-pro", "--approval-mode", "yolo", "-p", "PROMPT"], {}),
            "interactive": (True, ["-m", "gemini-2.5-pro", "-i", "PROMPT"], {}),
            "interactive, yolo": (True, ["-m", "gemini-2.5-pro", "--yolo", "-i", "PROMPT"], {}),
        },
        switched_off=(".gemini/settings.json", '{"hooksConfig": {"enabled": false}}'),
        subagent=("invoke_agent", {"agent_name": "generalist"}, "prompt"),
    ),
    Agent(
        name="copilot",
        title="Copilot CLI",
        package="@github/copilot",
        program=".bin/copilot",
        headless=["--allow-all-tools", "-p", "PROMPT"],
        unguarded=["--allow-all-tools", "-p", "PROMPT"],
        environment={
            "COPILOT_PROVIDER_BASE_URL": "@URL@/v1",
            "COPILOT_PROVIDER_TYPE": "openai",
            "COPILOT_PROVIDER_API_KEY": "k",
            "COPILOT_MODEL": "gpt-5",
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
        },
        settings={},
        gateway="byleave-",
        modes={
            "headless": (False, ["-p", "PROMPT"], {}),
            "headless, all tools": (False, ["--allow-all-tools", "-p", "PROMPT"], {}),
            "interactive": (True, ["-i", "PROMPT"], {}),
        },
        subagent=("task", {"agent_type": "general-purpose", "description": "d", "name": "n", "mode": "sync"}, "prompt"),
    ),
    Agent(
        name="goose",
        title="Goose",
        package="@aaif/goose-binary-linux-x64",
        program="@aaif/goose-binary-linux-x64/bin/goose",
        headless=["run", "--text", "PROMPT"],
        unguarded=["run", "--text", "PROMPT"],
        environment={"OPENAI_API_KEY": "k", "OPENAI_HOST": "@URL@", "GOOSE_DISABLE_KEYRING": "1"},
        settings={".config/goose/config.yaml": GOOSE_SETTINGS},
        gateway="byleave__",
        modes={
            "headless, auto": (False, ["run", "--text", "PROMPT"], {"GOOSE_MODE": "auto"}),
            "interactive, smart_approve": (True, ["session"], {"GOOSE_MODE": "smart_approve"}),
            "interactive, approve": (True, ["session"], {"GOOSE_MODE": "approve"}),
            "interactive, auto": (True, ["session"], {"GOOSE_MODE": "auto"}),
        },
        subagent=("delegate", {}, "instructions"),
        impossible={"a command runs in our sandbox": "its hooks cannot change a command"},
    ),
    Agent(
        name="opencode",
        title="opencode",
        package="opencode-linux-x64",
        program="opencode-linux-x64/bin/opencode",
        headless=["run", "PROMPT"],
        unguarded=["run", "PROMPT"],
        environment={"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        settings={".config/opencode/opencode.json": OPENCODE_SETTINGS},
        is_set_up_by_init=False,
    ),
    Agent(
        name="qwen",
        title="Qwen Code",
        package="@qwen-code/qwen-code",
        program=".bin/qwen",
        headless=["--yolo", "-p", "PROMPT"],
        unguarded=["--yolo", "-p", "PROMPT"],
        environment={"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "@URL@/v1", "OPENAI_MODEL": "gpt-5", "QWEN_TELEMETRY_ENABLED": "false"},
        settings={".qwen/settings.json": '{ "security": { "auth": { "selectedType": "openai" } }, "general": { "enableAutoUpdate": false } }\n'},
        is_set_up_by_init=False,
    ),
]
