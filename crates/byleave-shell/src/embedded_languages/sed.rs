//! Scans sed programs for the files that they name and the commands that they run in a shell.

use super::ScriptEffect;

/// Returns the effects of a sed program besides printing.
pub(crate) fn sed(text: &str) -> Vec<ScriptEffect> {
    let mut scan = SedScanner { rest: text, deeds: Vec::new() };
    while !scan.rest.is_empty() {
        if let Err(why) = scan.command() {
            scan.deeds.push(ScriptEffect::Unknown(format!("sed program: {why}")));
            break;
        }
    }
    scan.deeds
}

struct SedScanner<'t> {
    rest: &'t str,
    deeds: Vec<ScriptEffect>,
}

impl<'t> SedScanner<'t> {
    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next();
        self.rest = chars.as_str();
        c
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip(&mut self, what: fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(what);
    }

    /// Takes the rest of the line, because names of files and labels extend that far.
    fn line(&mut self) -> &'t str {
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        line.trim_start()
    }

    fn command(&mut self) -> Result<(), String> {
        self.skip(|c| c.is_whitespace() || c == ';');
        self.address()?;
        self.skip(char::is_whitespace);
        if self.peek() == Some(',') {
            self.next();
            self.skip(char::is_whitespace);
            self.address()?;
        }
        self.skip(|c| c.is_whitespace() || c == '!');
        match self.next() {
            None
            | Some(
                '}' | '{' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | '=' | 'F',
            ) => {}
            Some('#') => {
                self.line();
            }
            Some('l' | 'L' | 'q' | 'Q') => self.skip(|c| c == ' ' || c.is_ascii_digit()),
            Some('a' | 'i' | 'c') => self.text(),
            Some(':') => {
                self.skip(|c| c == ' ');
                self.skip(|c| !c.is_whitespace() && c != ';');
            }
            Some('b' | 't' | 'T') => {
                // Some versions end a label at a blank and some at the end of the line, so the text after it is scanned.
                let blanks = self.rest.len();
                self.skip(|c| c == ' ' || c == '\t');
                if self.rest.len() < blanks && self.peek().is_some_and(|c| !matches!(c, ';' | '}' | '\n')) {
                    let rest = self.rest;
                    self.skip(|c| !c.is_whitespace() && !matches!(c, ';' | '}'));
                    // Only a word of its own is certain to be a label.
                    if self.peek().is_some_and(|c| c == ' ' || c == '\t') {
                        self.rest = rest;
                        return Err("a space before a label, which may be a command".into());
                    }
                    return Ok(());
                }
                self.skip(|c| !c.is_whitespace() && !matches!(c, ';' | '}'));
            }
            Some('r' | 'R') => {
                let file = self.line().to_owned();
                self.deeds.push(ScriptEffect::Read(file));
            }
            Some('w' | 'W') => {
                let file = self.line().to_owned();
                self.deeds.push(ScriptEffect::Write(file));
            }
            Some('e') => {
                let command = self.line().to_owned();
                self.deeds.push(if command.is_empty() {
                    ScriptEffect::Unknown("sed program: `e` runs its input as a command".into())
                } else {
                    ScriptEffect::Shell(command)
                });
            }
            Some('y') => {
                let delimiter = self.next().ok_or("`y` is not closed")?;
                self.until(delimiter, false)?;
                self.until(delimiter, false)?;
            }
            Some('s') => self.substitution()?,
            Some('v') => {
                self.skip(|c| c == ' ' || c == '\t');
                self.skip(|c| !c.is_whitespace() && c != ';');
            }
            Some(other) => return Err(format!("`{other}` is not a known command")),
        }
        Ok(())
    }

    fn address(&mut self) -> Result<(), String> {
        match self.peek() {
            Some('0'..='9' | '$' | '+' | '~') => {
                self.skip(|c| c.is_ascii_digit() || matches!(c, '$' | '~' | '+'))
            }
            Some('/') => {
                self.next();
                self.until('/', true)?;
                self.skip(|c| matches!(c, 'I' | 'M'));
            }
            Some('\\') => {
                self.next();
                let delimiter = self.next().ok_or("an address is not closed")?;
                self.until(delimiter, true)?;
                self.skip(|c| matches!(c, 'I' | 'M'));
            }
            _ => {}
        }
        Ok(())
    }

    /// Skips to the delimiter. In a bracket expression only some versions take it literally, so the result is then an error.
    fn until(&mut self, delimiter: char, pattern: bool) -> Result<(), String> {
        let mut bracket = false;
        loop {
            match self.next().ok_or("a pattern is not closed")? {
                '\\' => {
                    self.next();
                }
                c if c == delimiter && bracket => return Err("a delimiter between brackets".into()),
                c if c == delimiter => return Ok(()),
                '[' if pattern && !bracket => {
                    bracket = true;
                    self.skip(|c| c == '^');
                    if self.peek() == Some(']') {
                        self.next();
                    }
                }
                ']' => bracket = false,
                _ => {}
            }
        }
    }

    fn substitution(&mut self) -> Result<(), String> {
        let delimiter =
            self.next().filter(|c| !c.is_whitespace() && *c != '\\').ok_or("`s` without a pattern")?;
        self.until(delimiter, true)?;
        self.until(delimiter, false)?;
        loop {
            match self.peek() {
                Some('g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9') => {
                    self.next();
                }
                Some('e') => {
                    self.next();
                    self.deeds.push(ScriptEffect::Unknown(
                        "sed program: `s///e` runs its result as a command".into(),
                    ));
                }
                Some('w') => {
                    self.next();
                    let file = self.line().to_owned();
                    self.deeds.push(ScriptEffect::Write(file));
                    return Ok(());
                }
                None | Some(';' | '\n' | '}' | ' ' | '#') => return Ok(()),
                Some(other) => return Err(format!("`{other}` is not a known flag of `s`")),
            }
        }
    }

    /// Skips text to print: to the end of the line, or further if lines end in a backslash.
    fn text(&mut self) {
        loop {
            let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            self.rest = rest;
            let backslashes = line.len() - line.trim_end_matches('\\').len();
            if backslashes % 2 == 0 || rest.is_empty() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_writes_and_runs_is_found() {
        let read = |file: &str| vec![ScriptEffect::Read(file.into())];
        let write = |file: &str| vec![ScriptEffect::Write(file.into())];
        for (text, deeds) in [
            ("1,80p", vec![]),
            ("s/foo/bar/g", vec![]),
            ("/a/,/b/{s/x/y/;d}", vec![]),
            ("$!N;s/\\n/ /", vec![]),
            ("y/abc/xyz/", vec![]),
            ("s|a|w /etc/x|g", vec![]),
            ("a\\\nw /etc/x", vec![]),
            (":a;N;$!ba;s/\\n/ /g", vec![]),
            (":a;w f", write("f")),
            ("w /outside/f", write("/outside/f")),
            ("1,1w/outside/f", write("/outside/f")),
            ("s/x/y/w /outside/f", write("/outside/f")),
            ("r/outside/secret.txt", read("/outside/secret.txt")),
            ("1!{/x/r f\n}", read("f")),
            ("e touch m", vec![ScriptEffect::Shell("touch m".into())]),
            ("v;e touch m", vec![ScriptEffect::Shell("touch m".into())]),
            ("v 4.2 e touch m", vec![ScriptEffect::Shell("touch m".into())]),
            (":x;tx e touch m", vec![ScriptEffect::Shell("touch m".into())]),
            ("1a foo\\\\\n1e touch m", vec![ScriptEffect::Shell("touch m".into())]),
            ("1a foo\\\n1e touch m", vec![]),
        ] {
            assert_eq!(sed(text), deeds, "{text}");
        }
        for text in [
            "s/x/x/;s/.*/&/e",
            "s/x/touch \\/tmp\\/m/ep",
            "1e",
            "k",
            "s/[/]/x/w f",
            "s/a/b/Z",
            "b r /etc/x",
            "t e touch m",
        ] {
            assert!(sed(text).iter().any(|deed| matches!(deed, ScriptEffect::Unknown(_))), "{text}");
        }
    }
}
