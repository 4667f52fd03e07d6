//! The command line that replaces a shell call: the absolute path of the program, the id of the call, and a ticket if the agent asks its
//! person about the call.

/// A prepared call that a line starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreparedCall<'a> {
    /// The id of the call.
    pub call: &'a str,
    /// The ticket of a call that the agent asks its person about.
    pub ticket: Option<&'a str>,
}

/// Returns the shell command that starts a prepared call.
pub fn exec_command_line(program: &str, state: &str, prepared: PreparedCall<'_>) -> String {
    let line = format!("{} --state {} exec {}", shell_word(program), shell_word(state), prepared.call);
    match prepared.ticket {
        Some(ticket) => format!("{line} --ticket {ticket}"),
        None => line,
    }
}

/// Returns the prepared call of such a line, if the line matches ours exactly.
pub fn parse_exec_call<'a>(line: &'a str, program: &str, state: &str) -> Option<PreparedCall<'a>> {
    let (rest, ticket) = match line.rsplit_once(" --ticket ") {
        Some((rest, ticket)) => (rest, Some(ticket)),
        None => (line, None),
    };
    let call = rest.rsplit(' ').next()?;
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let is_id = call.len() == 36 && is_hex(call);
    let is_ticket = ticket.is_none_or(|ticket| !ticket.is_empty() && is_hex(ticket));
    let prepared = PreparedCall { call, ticket };
    (is_id && is_ticket && line == exec_command_line(program, state, prepared)).then_some(prepared)
}

/// Quotes a word so that a shell reads it literally.
pub fn shell_word(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &str = "0190b0a0-0000-7000-8000-000000000001";

    #[test]
    fn a_line_is_read_back_and_no_other_is() {
        for (program, state) in [("/usr/bin/byleave", "/s"), ("/opt/it's $HOME/b", "/a b/`x`")] {
            for ticket in [None, Some("0123abcd")] {
                let prepared = PreparedCall { call: CALL, ticket };
                let line = exec_command_line(program, state, prepared);
                assert_eq!(parse_exec_call(&line, program, state), Some(prepared));
                for other in [
                    format!("{line};id"),
                    format!("id;{line}"),
                    format!("{line} "),
                    format!("{line} --ticket "),
                    format!("{line} --ticket $(id)"),
                    line.replace(CALL, "x"),
                ] {
                    assert_eq!(parse_exec_call(&other, program, state), None, "{other}");
                }
                assert_eq!(parse_exec_call(&line, "/else", state), None);
            }
        }
        assert_eq!(shell_word("a 'b'"), r"'a '\''b'\'''");
    }
}
