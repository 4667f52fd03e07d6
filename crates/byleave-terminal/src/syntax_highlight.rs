//! Syntax colours for code in diffs. They carry no information, and code without a grammar is drawn plain.

use std::sync::OnceLock;

use ratatui::style::{Color, Modifier, Style};
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use crate::palette::Palette;

/// A longer line is drawn plain, because nobody reads minified files.
const LINE_BYTES_MAX: usize = 500;

/// Returns the built-in grammars, loaded at the first use.
fn grammars() -> &'static SyntaxSet {
    static GRAMMARS: OnceLock<SyntaxSet> = OnceLock::new();
    GRAMMARS.get_or_init(SyntaxSet::load_defaults_nonewlines)
}

/// Colours one text, line by line.
pub(crate) struct SyntaxHighlighter {
    state: ParseState,
    stack: ScopeStack,
}

/// The end of a span of a line, and its style.
pub(crate) type StyledSpan = (usize, Style);

impl SyntaxHighlighter {
    /// Creates a highlighter for a file of this name, or `None` if there is no grammar.
    pub(crate) fn for_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next()?;
        let extension = name.rsplit('.').next()?;
        let found = |syntax: &&SyntaxReference| syntax.name != "Plain Text";
        let grammars = grammars();
        // As the authors of the grammars do: the JavaScript grammar ignores types and JSX.
        let extension = match extension {
            "ts" | "tsx" | "jsx" | "mjs" | "cjs" => "js",
            "toml" | "cfg" => "ini",
            other => other,
        };
        let by_name = grammars.find_syntax_by_extension(name);
        let syntax = by_name.or_else(|| grammars.find_syntax_by_extension(extension)).filter(found)?;
        Some(Self { state: ParseState::new(syntax), stack: ScopeStack::new() })
    }

    /// Returns the spans of the next line.
    pub(crate) fn line(&mut self, line: &str, palette: Palette) -> Vec<StyledSpan> {
        if line.len() > LINE_BYTES_MAX {
            return Vec::new();
        }
        let Ok(changes) = self.state.parse_line(line, grammars()) else { return Vec::new() };
        let mut pieces = Vec::new();
        for (at, change) in changes {
            if at > 0 {
                pieces.push((at, self.style(palette)));
            }
            if self.stack.apply(&change).is_err() {
                return Vec::new();
            }
        }
        pieces.push((line.len(), self.style(palette)));
        pieces
    }

    fn style(&self, palette: Palette) -> Style {
        static KINDS: OnceLock<Vec<(Scope, HighlightKind)>> = OnceLock::new();
        let kinds = KINDS.get_or_init(|| {
            let known = [
                ("comment", HighlightKind::Comment),
                ("string", HighlightKind::Text),
                ("constant", HighlightKind::Constant),
                ("keyword", HighlightKind::Keyword),
                ("storage", HighlightKind::Keyword),
                ("entity.name.function", HighlightKind::Name),
                ("entity.name.tag", HighlightKind::Name),
                ("support.function", HighlightKind::Name),
            ];
            known.iter().filter_map(|(name, kind)| Some((Scope::new(name).ok()?, *kind))).collect()
        });
        let innermost = self.stack.as_slice().iter().rev();
        let kind = innermost
            .filter_map(|scope| kinds.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope)))
            .map(|(_, kind)| *kind)
            .next();
        match kind {
            None => Style::new(),
            Some(HighlightKind::Comment) => palette.style(Color::DarkGray).add_modifier(Modifier::ITALIC),
            Some(HighlightKind::Text) => palette.style(Color::Yellow),
            Some(HighlightKind::Constant) => palette.style(Color::Magenta),
            Some(HighlightKind::Keyword) => palette.style(Color::LightBlue),
            Some(HighlightKind::Name) => palette.style(Color::Cyan),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HighlightKind {
    Comment,
    Text,
    Constant,
    Keyword,
    Name,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_coloured_and_other_things_are_not() {
        let mut rust = SyntaxHighlighter::for_path("/w/src/main.rs").unwrap();
        let pieces = rust.line("let x = \"a\"; // b", Palette::Colours);
        let at = |place: usize| pieces.iter().find(|(end, _)| place < *end).unwrap().1.fg;
        assert_eq!(at(0), Some(Color::LightBlue));
        assert_eq!(at(9), Some(Color::Yellow));
        assert_eq!(at(16), Some(Color::DarkGray));
        assert!(SyntaxHighlighter::for_path("/w/notes").is_none());
        assert!(SyntaxHighlighter::for_path("/w/a.unheard-of").is_none());
        assert!(rust.line(&"x".repeat(5_000), Palette::Colours).is_empty());
    }
}
