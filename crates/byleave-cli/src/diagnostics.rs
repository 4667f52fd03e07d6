//! Shows errors in a policy file or a settings file at their place.

use std::fmt;

use byleave_gate::core::policy::{Diagnostic, PolicyFileError};
use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode, SourceSpan};

use crate::config::ConfigError;
use crate::console::{Console, Tone, one_line, prose};

/// Shows every error of a policy file at its place.
pub(crate) fn print_policy_errors(screen: &mut Console, fault: &PolicyFileError) {
    shown(screen, "policy", &fault.file, &fault.text, &fault.diagnostics);
    screen.hint("nothing runs until the file is valid: byleave does not skip rules that it cannot read");
}

/// Shows every error of a settings file at its place.
pub(crate) fn print_config_errors(screen: &mut Console, fault: &ConfigError) {
    shown(screen, "settings", &fault.file, &fault.text, &fault.diagnostics);
}

fn shown(screen: &mut Console, kind: &str, file: &str, text: &str, flaws: &[Diagnostic]) {
    let file = one_line(file);
    screen.message_with_tone(Tone::Bad, "error:", &format!("cannot use {kind} file `{file}`"));
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::none()).with_width(110);
    for flaw in flaws {
        let source = NamedSource::new(&file, text.to_owned());
        let mut shown = String::new();
        match handler.render_report(&mut shown, &DiagnosticDisplay { flaw, source }) {
            // The quoted lines are outside text and may contain anything.
            Ok(()) => {
                let lines: Vec<&str> = shown.trim_matches('\n').lines().map(str::trim_end).collect();
                screen.message_lines(&lines.join("\n"));
            }
            Err(fmt::Error) => {
                let Diagnostic { line, column, message: what, help: todo, .. } = flaw;
                screen.message(&prose(&format!("{file}:{line}:{column}: {what}; {todo}")));
            }
        }
    }
}

/// An error in the form that the display needs.
#[derive(Debug)]
struct DiagnosticDisplay<'a> {
    flaw: &'a Diagnostic,
    source: NamedSource<String>,
}

impl fmt::Display for DiagnosticDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.flaw.message)
    }
}

impl std::error::Error for DiagnosticDisplay<'_> {}

impl miette::Diagnostic for DiagnosticDisplay<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.flaw.help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = SourceSpan::from(self.flaw.span.clone());
        Some(Box::new(std::iter::once(LabeledSpan::new_primary_with_span(None, span))))
    }
}
