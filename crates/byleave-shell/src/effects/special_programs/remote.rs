//! Readers for programs that communicate with other machines.

use super::super::command_analyzer::{CommandAnalyzer, unknown_reason};
use crate::manual::Manual;
use crate::word::Word;

/// Reads `ssh [OPTION…] HOST [COMMAND…]`. The command runs on another machine.
pub(super) fn ssh(teller: &mut CommandAnalyzer<'_>, manual: &'static Manual, words: &[Word]) {
    let parsed = manual.parse_args(words, false);
    teller.apply_options(&parsed.options, &parsed.unknown);
    let Some((host, command)) = parsed.operands.split_first() else { return };
    let port = parsed.word_values(&["-p"]).next().flatten();
    let port = port.and_then(|port| port.as_text()?.parse().ok()).unwrap_or(22);
    let name = host.word.as_text().map(|text| text.strip_prefix("ssh://").unwrap_or(text));
    match name.and_then(|name| crate::host::parse_host(name, port)) {
        Some(target) => teller.add_target(target),
        None => teller.add_unknown(format!("the host is {}", unknown_reason(&host.word))),
    }
    teller.add_unknown(if command.is_empty() {
        "a shell on another machine".to_owned()
    } else {
        "the effects on another machine are not known".to_owned()
    });
    let words: Vec<&Word> = command.iter().map(|operand| &operand.word).collect();
    if !words.is_empty() {
        let text: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        // It runs elsewhere, but a deny of the program applies there too.
        teller.add_nested_text(text.join(" "));
    }
}

/// Reads `dig [@SERVER] NAME…`. The server learns the name, and so does the server that is responsible for it.
pub(super) fn dns(teller: &mut CommandAnalyzer<'_>, manual: &'static Manual, words: &[Word]) {
    let parsed = manual.parse_args(words, false);
    teller.apply_options(&parsed.options, &parsed.unknown);
    for operand in &parsed.operands {
        let Some(text) = operand.word.as_text() else {
            teller.add_unknown(unknown_reason(&operand.word));
            continue;
        };
        let host = text.strip_prefix('@').unwrap_or(text);
        if host.contains('.') || host.contains(':') || text.starts_with('@') {
            match crate::host::parse_host(host, 53) {
                Some(target) => teller.add_target(target),
                None => teller.add_unknown(format!("`{host}` is not a host")),
            }
        }
    }
}
