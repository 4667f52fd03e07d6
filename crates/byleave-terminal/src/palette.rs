//! Colours: the style of each kind of line. No information is conveyed by colour alone.

use byleave_core::render::LineRole;
use ratatui::style::{Color, Modifier, Style};

/// The choice between colours and plain styles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    /// The terminal's own sixteen colours, which fit its background.
    Colours,
    /// Bold and reversed only.
    Plain,
}

impl Palette {
    /// Returns a style with this colour, if colours are used.
    pub fn style(self, colour: Color) -> Style {
        match self {
            Self::Colours => Style::new().fg(colour),
            Self::Plain => Style::new(),
        }
    }

    /// Returns the style of a warning.
    pub fn careful(self) -> Style {
        self.style(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// Returns the style of something irreversible.
    pub fn grave(self) -> Style {
        self.style(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Returns the style of a success.
    pub fn good(self) -> Style {
        self.style(Color::Green)
    }

    /// Returns the style of something unimportant.
    pub fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Returns the style of a bar across the screen.
    pub fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Returns the style of a key that can be pressed.
    pub fn key(self) -> Style {
        self.style(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// Returns the style of a line of a question.
    pub fn line(self, role: LineRole) -> Style {
        match role {
            LineRole::Title | LineRole::Headline => Style::new().add_modifier(Modifier::BOLD),
            LineRole::Heading => self.style(Color::LightBlue).add_modifier(Modifier::BOLD),
            LineRole::Warning => self.careful(),
            LineRole::Model => self.style(Color::Magenta),
            LineRole::Challenge => self.style(Color::Yellow),
            LineRole::Detail | LineRole::Expiry => self.faint(),
            LineRole::Effect | LineRole::Content | LineRole::Change | LineRole::Reason => Style::new(),
            LineRole::Outcome | LineRole::Review => Style::new(),
        }
    }
}
