//! The timeouts of known agents, so that the gateway can respond before they give up.

use std::time::Duration;

/// Known client names and their default timeouts in seconds. The first match is used.
///
/// Claude Code waits as long as it is configured to. Its default is longer than any person takes.
const KNOWN: &[(&str, u64)] =
    &[("claude-code", 600), ("claude", 60), ("codex", 300), ("gemini", 600), ("goose", 300)];

/// The timeout of other clients, which is the default of the protocol's SDKs.
const OTHERS_S: u64 = 60;

/// Returns how long a call of this client may be held before it needs a response.
pub(super) fn max_hold_time(client: &str) -> Duration {
    let client = client.to_ascii_lowercase();
    let waits = KNOWN.iter().find(|(name, _)| client.starts_with(name)).map_or(OTHERS_S, |(_, waits)| *waits);
    with_margin(Duration::from_secs(waits))
}

/// Returns a time somewhat before a deadline, so that the response arrives in time.
pub(super) fn with_margin(deadline: Duration) -> Duration {
    let margin = (deadline / 10).clamp(Duration::from_millis(100), Duration::from_secs(15));
    deadline.saturating_sub(margin)
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: R5
    #[test]
    fn a_client_is_answered_before_it_gives_up() {
        for (client, gives_up) in [
            ("codex-mcp-client", 300),
            ("claude-code", 600),
            ("gemini-cli-mcp-client", 600),
            ("goose", 300),
            ("cursor-vscode", 60),
            ("", 60),
        ] {
            let held = max_hold_time(client).as_secs();
            assert!(held < gives_up && held >= gives_up * 4 / 5, "{client} is held for {held} s");
        }
        assert!(with_margin(Duration::from_millis(50)).is_zero());
    }
}
