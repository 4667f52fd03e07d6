//! Words after expansion, as far as the text determines them.

use std::fmt;

/// A word after all expansions of the shell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    /// Exactly this text, and exactly one word.
    Literal(String),
    /// A word that is known only at run time: none, one or many words.
    Unknown(UnknownWord),
}

/// The reason why a word is unknown, and the known facts about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnknownWord {
    /// The reason, as text for a person: "`$x` is set elsewhere".
    pub reason: String,
    /// The certain pieces of its text, in order. Between two pieces and at both ends there may be anything.
    pub pieces: Vec<String>,
    /// Whether it is certainly exactly one word, for example because it is quoted. Otherwise it may contain options.
    pub single_word: bool,
}

/// The reason of a word that is a pipe to a command: `<(sort a)`.
pub(crate) const PIPE_REASON: &str = "the value is a pipe to a command";

impl Word {
    /// Checks for a pipe to a command. The command is analyzed by itself, and reading the pipe has no other effect.
    pub(crate) fn is_pipe(&self) -> bool {
        matches!(self, Self::Unknown(word) if word.single_word && word.pieces.is_empty() && word.reason == PIPE_REASON)
    }

    /// Creates a word with exactly this text.
    pub fn literal(text: impl Into<String>) -> Self {
        Self::Literal(text.into())
    }

    /// Creates a word of which nothing is known.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown(UnknownWord { reason: why.into(), pieces: Vec::new(), single_word: false })
    }

    /// Returns the text, if it is known.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Unknown(_) => None,
        }
    }

    /// Checks whether the word could expand to this text.
    pub fn could_equal(&self, text: &str) -> bool {
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
            reason: "x".into(),
            pieces: vec!["/etc/".into(), "wd".into()],
            single_word: false,
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
            assert_eq!(word.could_equal(text), could, "{word} {text}");
        }
    }
}
