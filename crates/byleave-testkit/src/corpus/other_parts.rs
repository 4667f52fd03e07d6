//! Cases that evaluation of a call cannot cover, and the part of the system that does.

use super::Case;

const APPROVALS: &str = "the approval screen";
const FETCHER: &str = "the fetch tool, which judges every address that a name leads to and every hop";
const GATEWAY: &str = "servers and the gateway, as the table under MCP below shows case by case";
const LOOP: &str = "the agent loop, which reads instructions and skills";
const NOTHING: &str =
    "nothing: Byleave has no such feature (links that open it, marketplaces, editors, remembered trust)";
const SANDBOX: &str = "the sandbox";
const SERVER: &str = "the server, which makes sockets and temporary files";
const SHELL_TOOL: &str = "the shell tool, which starts a fixed shell with an environment of its own";
const TRANSPORT: &str = "whoever takes calls from a wire, where they are bytes";
const UNDO: &str = "rehearsal and undo, which copy, restore and remove files";

const OBSERVATION: &str = "the observation of the run: what the commit, the stash, the archive or the script leaves is judged when it appears, before it is committed";

/// The part of the system that covers a case, if evaluation of a call cannot.
pub fn answered_by(case: &Case) -> Option<&'static str> {
    let by_id = match case.id.as_str() {
        // The address of a name, and the target of a redirect, are known only when it is fetched.
        "trusted-name-resolves-unspecified"
        | "dns-rebinding"
        | "redirect-to-metadata"
        | "redirect-from-citation"
        | "meta-refresh-redirect"
        | "second-hop-websocket-url" => FETCHER,
        "import-processor-symlink"
        | "import-processor-traversal"
        | "skill-install-traversal"
        | "skill-install-symlink" => LOOP,
        "restore-through-links"
        | "worktree-symlink-committed"
        | "worktree-removal-follows-junction"
        | "tools-root-rebind"
        | "patch-symlink-component-swap" => UNDO,
        "predictable-temp-symlink" | "shared-tmp-socket-preplant" => SERVER,
        "shell-variable-selects-executor" => SHELL_TOOL,
        // The name is not in the words. The file is not there for the command.
        "silent-sandbox-disable" | "find-negated-name-exec-cat" => SANDBOX,
        "git-restore-directory-of-another-branch"
        | "git-checkout-directory-holds-protected"
        | "git-stash-apply-holds-protected"
        | "tar-extract-holds-git-hook"
        // The archive says what it holds, and under which names.
        | "tar-member-directory-holds-vscode"
        | "unzip-junk-paths-makes-mcp"
        | "python-tarfile-extract"
        | "approval-same-unpacking-other-archive"
        // The content of the script says what it does. A standing approval is of the words.
        | "approval-exact-script-rewritten" => OBSERVATION,
        // The link comes out of the commit or the archive. The file that it leads to is read-only for the command.
        "symlink-from-git-then-written" | "symlink-from-tar-then-written" => SANDBOX,
        "invalid-utf8-lossy-decode" => TRANSPORT,
        "trust-of-home-directory"
        | "deeplink-argument-injection"
        | "which-fallback-injection"
        | "open-in-editor-filename"
        | "marketplace-host-confusion"
        | "ci-container-launcher-injection" => NOTHING,
        _ => "",
    };
    if !by_id.is_empty() {
        return Some(by_id);
    }
    match (case.tool.as_str(), case.must.as_str()) {
        ("approval_ui", _) => Some(APPROVALS),
        ("mcp", _) => Some(GATEWAY),
        ("config", _) => None,
        (_, "contained") => Some(SANDBOX),
        (_, "shown-in-full") => Some(APPROVALS),
        _ => None,
    }
}
