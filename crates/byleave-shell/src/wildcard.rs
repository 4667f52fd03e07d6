//! Wildcards of programs that match names by themselves: `find -name`, pathspecs of Git, `rg -g`. A doubt matches.

/// The treatment of letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LetterCase {
    Exact,
    Ignored,
}

/// Checks whether a text holds a wildcard, or a backslash, which these programs remove.
pub(crate) fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '[', '\\'])
}

/// Checks whether a pattern matches the whole text. `*` and `?` match slashes, too.
pub(crate) fn matches(pattern: &str, text: &str, case: LetterCase) -> bool {
    let fold = |text: &str| match case {
        LetterCase::Exact => text.to_owned(),
        LetterCase::Ignored => text.to_lowercase(),
    };
    let tokens = tokens(&fold(pattern));
    // The places in the pattern that the text so far leads to.
    let mut places = with_stars(&tokens, vec![0]);
    for c in fold(text).chars() {
        let mut next = Vec::new();
        for place in places {
            match tokens.get(place) {
                Some(Token::Star) => next.push(place),
                Some(token) if token.fits(c) => next.push(place.saturating_add(1)),
                _ => {}
            }
        }
        next.sort_unstable();
        next.dedup();
        places = with_stars(&tokens, next);
    }
    places.contains(&tokens.len())
}

#[derive(Debug)]
enum Token {
    Star,
    Any,
    One(char),
    Class { members: Vec<char>, is_negated: bool },
}

impl Token {
    fn fits(&self, c: char) -> bool {
        match self {
            Self::Star => false,
            Self::Any => true,
            Self::One(own) => *own == c,
            Self::Class { members, is_negated } => {
                let range = |ends: &[char]| match ends {
                    [from, '-', to] => (*from..=*to).contains(&c),
                    _ => false,
                };
                // A named class like `[:alpha:]` may hold any character.
                let fits = members.contains(&':') || members.contains(&c) || members.windows(3).any(range);
                fits != *is_negated || members.contains(&':')
            }
        }
    }
}

fn tokens(pattern: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '*' => tokens.push(Token::Star),
            '?' => tokens.push(Token::Any),
            '\\' => tokens.extend(rest.next().map(Token::One)),
            '[' => {
                let is_negated = rest.next_if(|c| matches!(c, '!' | '^')).is_some();
                let mut members: Vec<char> = rest.next().into_iter().collect();
                members.extend(rest.by_ref().take_while(|c| *c != ']'));
                tokens.push(Token::Class { members, is_negated });
            }
            c => tokens.push(Token::One(c)),
        }
    }
    tokens
}

/// Adds the places behind stars, which may match nothing.
fn with_stars(tokens: &[Token], mut places: Vec<usize>) -> Vec<usize> {
    let mut at = 0;
    while let Some(place) = places.get(at).copied() {
        at = at.saturating_add(1);
        let behind = place.saturating_add(1);
        if matches!(tokens.get(place), Some(Token::Star)) && !places.contains(&behind) {
            places.push(behind);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_what_programs_match() {
        for (pattern, text, fits) in [
            ("*env", ".env", true),
            ("*env", "a/.env", true),
            (".e[n]v", ".env", true),
            (".e[a-o]v", ".env", true),
            (".e[!a]v", ".env", true),
            (".e[!n]v", ".env", false),
            (".en\\v", ".env", true),
            (".en?", ".env", true),
            ("*.rs", "src/a.rs", true),
            ("*.rs", "a.rsx", false),
            (".ENV", ".env", false),
        ] {
            assert_eq!(matches(pattern, text, LetterCase::Exact), fits, "{pattern} {text}");
        }
        assert!(matches(".ENV", ".env", LetterCase::Ignored));
    }
}
