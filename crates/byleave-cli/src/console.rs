//! The only module that writes to standard output and standard error.
//!
//! Standard output is for results, standard error for messages. Outside text must go through [`one_line`], [`prose`] or
//! [`many_lines`] first, so that it can neither control a terminal nor imitate our lines. A reader that went away
//! (`byleave log | head`) is not an error.

use std::env;
use std::io::{self, IsTerminal as _, Write};

pub(crate) use byleave_gate::core::escape::escape_json;
use byleave_gate::core::escape::{EscapeLevel, Escaper};
use byleave_sandbox::closed_stdio::output_was_closed;
use serde_json::Value;

use crate::args::ColorArg;

/// The meaning of a word on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Bad,
    Careful,
    Strong,
}

/// Standard output and standard error.
pub(crate) struct Console {
    json: bool,
    out: io::BufWriter<io::Stdout>,
    out_styled: bool,
    err_styled: bool,
    columns: Option<usize>,
    /// The reader of the results is gone.
    gone: bool,
    /// Something was written to standard output.
    printed: bool,
    /// A write failed although there is a reader.
    lost: bool,
    /// The output, if it is kept to be shown elsewhere.
    kept: Option<String>,
}

/// The kind of a file change, as a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeColor {
    Made,
    Changed,
    Gone,
    Moved,
    Plain,
}

impl Console {
    pub(crate) fn new(color: ColorArg, json: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|_| terminal);
        Self {
            json,
            out: io::BufWriter::new(io::stdout()),
            out_styled: is_styled(color, terminal),
            err_styled: is_styled(color, io::stderr().is_terminal()),
            columns: size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns >= 20),
            printed: false,
            lost: false,
            gone: false,
            kept: None,
        }
    }

    /// Creates a console that keeps its output, to be shown on another screen.
    #[cfg(feature = "agent")]
    pub(crate) fn buffered() -> Self {
        Self {
            out_styled: false,
            err_styled: false,
            kept: Some(String::new()),
            ..Self::new(ColorArg::Never, false)
        }
    }

    /// Returns the kept output.
    #[cfg(feature = "agent")]
    pub(crate) fn into_text(self) -> String {
        self.kept.unwrap_or_default()
    }

    /// Checks whether the reader of the results is gone. Endless commands should check it.
    pub(crate) const fn gone(&self) -> bool {
        self.gone
    }

    /// Checks whether the results are styled.
    pub(crate) const fn styled(&self) -> bool {
        self.out_styled
    }

    /// Sets when to use colour, once the settings are known.
    pub(crate) fn color(&mut self, color: ColorArg) {
        self.out_styled = is_styled(color, io::stdout().is_terminal());
        self.err_styled = is_styled(color, io::stderr().is_terminal());
    }

    /// Checks whether results are wanted as JSON.
    pub(crate) const fn json(&self) -> bool {
        self.json
    }

    /// Checks whether anything was written to standard output.
    pub(crate) const fn has_printed(&self) -> bool {
        self.printed
    }

    /// Checks whether results could not be written.
    pub(crate) const fn has_write_error(&self) -> bool {
        self.lost
    }

    /// Returns the width of the terminal that shows the results.
    pub(crate) const fn columns(&self) -> Option<usize> {
        self.columns
    }

    /// Prints a line of the results. Outside text in it must already be escaped.
    pub(crate) fn line(&mut self, line: &str) {
        self.raw_text(&format!("{line}\n"));
    }

    /// Prints a highlighted line of the results.
    pub(crate) fn title(&mut self, line: &str) {
        let line = styled(Tone::Strong, line, self.out_styled);
        self.line(&line);
    }

    /// Returns a text for the results in the style of a tone.
    pub(crate) fn painted(&self, tone: Tone, text: &str) -> String {
        styled(tone, text, self.out_styled)
    }

    /// Prints a line of the results with a coloured sign, or in colour.
    pub(crate) fn coloured(&mut self, colour: ChangeColor, sign: &str, line: &str) {
        let code = match colour {
            ChangeColor::Made => "32",
            ChangeColor::Changed => "33",
            ChangeColor::Gone => "31",
            ChangeColor::Moved => "36",
            ChangeColor::Plain => "",
        };
        if !self.out_styled || code.is_empty() {
            return self.line(&format!("{sign}{line}"));
        }
        match sign {
            "" => self.line(&format!("\x1b[{code}m{line}\x1b[0m")),
            sign => self.line(&format!("\x1b[{code}m{sign}\x1b[0m{line}")),
        }
    }

    /// Prints an outside text of several lines as a result, escaped.
    pub(crate) fn text(&mut self, text: &str) {
        for line in many_lines(text) {
            self.line(&line);
        }
    }

    /// Prints a diff as a result, escaped, with additions and removals coloured.
    pub(crate) fn diff(&mut self, diff: &str) {
        for line in many_lines(diff) {
            let colour = match line.chars().next() {
                Some('+') => ChangeColor::Made,
                Some('-') => ChangeColor::Gone,
                Some('@') => ChangeColor::Moved,
                _ => ChangeColor::Plain,
            };
            self.coloured(colour, "", &line);
        }
    }

    /// Prints a result as JSON.
    pub(crate) fn value(&mut self, value: &Value) {
        self.line(&escape_json(&format!("{value:#}")));
    }

    /// Prints a text of the program as a result, unescaped.
    pub(crate) fn raw_text(&mut self, text: &str) {
        self.printed = true;
        if let Some(kept) = &mut self.kept {
            return kept.push_str(text);
        }
        let written = if output_was_closed() {
            Err(io::Error::from(rustix::io::Errno::BADF))
        } else {
            self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush())
        };
        let Err(error) = written else { return };
        self.gone |= error.kind() == io::ErrorKind::BrokenPipe;
        // A reader that is gone misses nothing. Any other failure is reported, once.
        if error.kind() != io::ErrorKind::BrokenPipe && !self.lost {
            self.lost = true;
            self.message(&format!("error: cannot write the results: {error}"));
        }
    }

    /// Prints a message. Outside text in it must already be escaped.
    pub(crate) fn message(&mut self, line: &str) {
        if let Some(kept) = &mut self.kept {
            return kept.push_str(&format!("{line}\n"));
        }
        // A failure of standard error cannot be reported anywhere.
        writeln!(io::stderr(), "{line}").unwrap_or_default();
    }

    /// Prints an outside text of several lines as a message.
    pub(crate) fn message_lines(&mut self, text: &str) {
        for line in many_lines(text) {
            self.message(&line);
        }
    }

    /// Prints a message after a styled word.
    pub(crate) fn message_with_tone(&mut self, tone: Tone, word: &str, line: &str) {
        let word = styled(tone, word, self.err_styled);
        self.message(&format!("{word} {line}"));
    }

    /// Prints what to do next.
    pub(crate) fn hint(&mut self, line: &str) {
        self.message_with_tone(Tone::Strong, "hint:", &prose(line));
    }
}

/// Checks whether a stream gets colours. The person's choice precedes the conventions of the environment.
pub(crate) fn is_styled(color: ColorArg, terminal: bool) -> bool {
    let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_forced =
        || set("CLICOLOR_FORCE") && env::var_os("CLICOLOR_FORCE").is_some_and(|value| value != "0");
    let is_dumb = || env::var_os("TERM").is_some_and(|term| term == "dumb");
    match color {
        ColorArg::Always => true,
        ColorArg::Never => false,
        ColorArg::Auto if set("NO_COLOR") => false,
        ColorArg::Auto => is_forced() || terminal && !is_dumb(),
    }
}

fn styled(tone: Tone, word: &str, styled: bool) -> String {
    let code = match tone {
        Tone::Bad => "1;31",
        Tone::Careful => "1;33",
        Tone::Strong => "1",
    };
    if styled { format!("\x1b[{code}m{word}\x1b[0m") } else { word.to_owned() }
}

/// Escapes a sentence that contains outside words, on one line.
pub(crate) fn prose(text: &str) -> String {
    byleave_gate::core::escape::make_visible(text, EscapeLevel::Text)
}

/// Escapes an outside text on one line and marks look-alike characters: a name, a path, a word.
pub(crate) fn one_line(text: &str) -> String {
    byleave_gate::core::escape::make_visible(text, EscapeLevel::Name)
}

/// Escapes an outside text, line by line.
pub(crate) fn many_lines(text: &str) -> Vec<String> {
    let mut escaper = Escaper::default();
    let visible = |line: &str| {
        let mut out = String::new();
        escaper.write(line, EscapeLevel::Text, &mut out);
        out
    };
    text.lines().map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use byleave_gate::core::escape::is_printable;

    #[test]
    fn nothing_from_outside_acts_on_the_terminal() {
        for text in ["\u{1b}[2Jgone", "a\rb", "\u{9b}31m", "x\u{202e}y", "tab\there"] {
            for line in many_lines(text).iter().chain([&one_line(text), &prose(text)]) {
                assert!(line.chars().all(is_printable), "{line:?}");
            }
        }
        assert_eq!(many_lines("a\nb\n"), ["a", "b"]);
    }
}
