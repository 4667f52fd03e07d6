//! The command line that replaces a shell call: the absolute path of the program, and the id of the call.

/// Returns the shell command that starts a prepared call.
pub fn exec_command_line(program: &str, state: &str, call: &str) -> String {
    format!("{} --state {} exec {call}", shell_word(program), shell_word(state))
}

/// Returns the call id of such a line, if the line matches ours exactly.
pub fn parse_exec_call<'a>(line: &'a str, program: &str, state: &str) -> Option<&'a str> {
    let call = line.rsplit(' ').next()?;
    let is_id = call.len() == 36 && call.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    (is_id && line == exec_command_line(program, state, call)).then_some(call)
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
            let line = exec_command_line(program, state, CALL);
            assert_eq!(parse_exec_call(&line, program, state), Some(CALL));
            for other in
                [format!("{line};id"), format!("id;{line}"), format!("{line} "), line.replace(CALL, "x")]
            {
                assert_eq!(parse_exec_call(&other, program, state), None, "{other}");
            }
            assert_eq!(parse_exec_call(&line, "/else", state), None);
        }
        assert_eq!(shell_word("a 'b'"), r"'a '\''b'\'''");
    }
}
