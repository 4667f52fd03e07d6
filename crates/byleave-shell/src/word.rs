//! Words: what the shell would make of one, as far as that can be told from the text.

use std::fmt;

/// A word after everything that the shell does to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    /// Exactly this text, and exactly one word.
    Literal(String),
    /// Something that only running it would tell: no word, one or many.
    Unknown(UnknownWord),
}

/// Why a word is not known, and what is known of it nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnknownWord {
    /// Why, in words for a person: "`$x` is set elsewhere".
    pub why: String,
    /// What is certain of its text, in order; between two pieces and at both ends there may be anything.
    pub pieces: Vec<String>,
    /// Certain to be exactly one word, as where it was quoted. Otherwise it may bring options of its own.
    pub one: bool,
}

impl Word {
    /// A word that is exactly this.
    pub fn literal(text: impl Into<String>) -> Self {
        Self::Literal(text.into())
    }

    /// A word of which nothing is known.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown(UnknownWord { why: why.into(), pieces: Vec::new(), one: false })
    }

    /// The text, if it is known.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Unknown(_) => None,
        }
    }

    /// Whether the shell could make this text of it.
    pub fn could_be(&self, text: &str) -> bool {
        let riddle = match self {
            Self::Literal(own) => return own == text,
            Self::Unknown(riddle) => riddle,
        };
        let mut rest = text;
        for piece in &riddle.pieces {
            match rest.find(piece.as_str()).and_then(|at| rest.get(at.saturating_add(piece.len())..)) {
                Some(after) => rest = after,
                None => return false,
            }
        }
        true
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(text) => f.write_str(text),
            Self::Unknown(riddle) if riddle.pieces.is_empty() => f.write_str("…"),
            Self::Unknown(riddle) => write!(f, "…{}…", riddle.pieces.join("…")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_could_be_what_its_pieces_allow() {
        let riddle = Word::Unknown(UnknownWord {
            why: "x".into(),
            pieces: vec!["/etc/".into(), "wd".into()],
            one: false,
        });
        for (word, text, could) in [
            (&Word::literal("a"), "a", true),
            (&Word::literal("a"), "ab", false),
            (&Word::unknown("x"), "anything", true),
            (&riddle, "/etc/passwd", true),
            (&riddle, "/root/etc/pwd2", true),
            (&riddle, "/etc/shadow", false),
            (&riddle, "wd/etc/", false),
        ] {
            assert_eq!(word.could_be(text), could, "{word} {text}");
        }
    }
}
