//! Colour: what each kind of line looks like. Nothing is told by colour alone.

use byleave_core::render::LineRole;
use ratatui::style::{Color, Modifier, Style};

/// Whether colours are used, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    /// Colours of the terminal's own sixteen, which fit its background.
    Colours,
    /// Bold and reversed only.
    Plain,
}

impl Palette {
    /// A style with this colour, where colours are used.
    pub fn of(self, colour: Color) -> Style {
        match self {
            Self::Colours => Style::new().fg(colour),
            Self::Plain => Style::new(),
        }
    }

    /// Something to be careful about.
    pub fn careful(self) -> Style {
        self.of(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// Something that cannot be taken back.
    pub fn grave(self) -> Style {
        self.of(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Something that went well.
    pub fn good(self) -> Style {
        self.of(Color::Green)
    }

    /// Something that is not worth much attention.
    pub fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// A bar across the screen.
    pub fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// A key that can be pressed.
    pub fn key(self) -> Style {
        self.of(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// A line of a question.
    pub fn line(self, role: LineRole) -> Style {
        match role {
            LineRole::Title => Style::new().add_modifier(Modifier::BOLD),
            LineRole::Heading => self.of(Color::LightBlue).add_modifier(Modifier::BOLD),
            LineRole::Warning => self.careful(),
            LineRole::Model => self.of(Color::Magenta),
            LineRole::Challenge => self.of(Color::Yellow),
            LineRole::Detail | LineRole::Expiry => self.faint(),
            LineRole::Effect | LineRole::Content | LineRole::Change | LineRole::Reason | LineRole::Review => {
                Style::new()
            }
        }
    }
}
