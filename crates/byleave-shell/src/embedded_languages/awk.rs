//! Scans awk programs for reads, writes and commands beyond their operands.

use super::ScriptEffect;

/// Returns the effects of an awk program besides printing. Constructs that are known to have others are reported as unknown.
pub(crate) fn awk(text: &str) -> Vec<ScriptEffect> {
    let mut deeds = Vec::new();
    let mut unknown = |why: &str| deeds.push(ScriptEffect::Unknown(format!("awk program: {why}")));
    let Some((bare, doubtful)) = without_strings(text) else {
        unknown("a string or a pattern is not closed");
        return deeds;
    };
    // If a slash could begin a pattern or divide, the text that it may hide is scanned as well.
    let bare = if doubtful { format!("{bare}\n{text}") } else { bare };
    for word in words(&bare) {
        match word {
            "system" => unknown("`system` runs a command"),
            "getline" => unknown("`getline` reads a file or the output of a command"),
            "close" | "fflush" => {
                unknown(&format!("`{word}` uses files or commands that the program opened"))
            }
            "ENVIRON" | "PROCINFO" | "ARGV" | "ARGC" | "FUNCTAB" | "SYMTAB" => {
                unknown(&format!("`{word}` can reach beyond the input text"));
            }
            _ => {}
        }
    }
    if bare.contains('@') {
        unknown("`@` loads other programs or calls by name");
    }
    if bare.replace("||", "").contains('|') {
        unknown("`|` runs a command");
    }
    if prints_elsewhere(&bare) {
        unknown("`>` after `print` writes a file");
    }
    deeds
}

/// Checks whether `>` occurs in a statement that prints. There it names a file, otherwise it compares.
fn prints_elsewhere(bare: &str) -> bool {
    let mut joined = String::new();
    for line in bare.split('\n') {
        joined.push_str(line);
        // A statement continues after these.
        let goes_on = [",", "&&", "||", "?", ":"].iter().any(|end| line.trim_end().ends_with(end));
        joined.push(if goes_on { ' ' } else { ';' });
    }
    joined.split([';', '}', '{']).any(|statement| {
        let prints = words(statement).any(|word| matches!(word, "print" | "printf"));
        let Some(at) = statement.find("print") else { return false };
        prints && statement.get(at..).is_some_and(|rest| rest.contains('>'))
    })
}

/// Returns the words of the program. No word begins with a digit: `1system` is a number and a word.
fn words(bare: &str) -> impl Iterator<Item = &str> {
    bare.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .map(|word| word.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Returns the program without strings, patterns and comments, and whether a slash in it is ambiguous.
fn without_strings(text: &str) -> Option<(String, bool)> {
    let mut bare = String::new();
    let mut doubtful = false;
    let mut chars = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                skip(&mut chars, '"')?;
                bare.push_str(" 0 ");
                before = '0';
            }
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            '/' if is_doubtful(&bare) => {
                doubtful = true;
                bare.push('/');
                before = '/';
            }
            '/' if !(before.is_alphanumeric() || matches!(before, ')' | ']' | '_' | '$')) => {
                doubtful |= skip(&mut chars, '/')?;
                bare.push_str(" 0 ");
                before = '0';
            }
            '\\' if chars.peek() == Some(&'\n') => {
                chars.next();
            }
            other => {
                bare.push(other);
                if other == '\n' {
                    before = ' ';
                } else if !other.is_whitespace() {
                    before = other;
                }
            }
        }
    }
    Some((bare, doubtful))
}

/// Checks whether a slash after this text could both divide and begin a pattern: after a keyword, `)`, `+` or `-`.
fn is_doubtful(bare: &str) -> bool {
    let bare = bare.trim_end();
    let word = bare.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
    let words = ["return", "print", "printf", "in", "case", "do", "else", "exit", "delete", "getline"];
    bare.ends_with([')', '+', '-']) || words.contains(&word)
}

/// Skips to the end. Returns whether there were brackets, within which a slash does not end a pattern.
fn skip(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, end: char) -> Option<bool> {
    let mut brackets = false;
    loop {
        match chars.next()? {
            '\\' => {
                chars.next();
            }
            '\n' => return None,
            c if c == end => return Some(brackets),
            '[' => brackets = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_certainly_just_prints_is_let_through() {
        for text in [
            "{print $1}",
            "NR>1 {s+=$3} END {print s}",
            "$3 > 5",
            "/a|b/ {n++} END {print n/2, \"x > y | z\"}",
            "$1 == \"system\" || $2 {print}",
            "{ if ($1 > 2) print $2 }",
            "{print ($1+$2)/2}",
            "END {printf \"%d\", s / NR}",
            "/[0-9]+/ {print $2}",
        ] {
            assert_eq!(awk(text), [], "{text}");
        }
        for text in [
            "BEGIN{system(\"touch m\")}",
            "BEGIN{while((getline l < \"/ws/.env\")>0) print l}",
            "BEGIN{print \"touch m\" | \"sh\"}",
            "BEGIN{\"touch m\" | getline}",
            "BEGIN{print \"{}\" > \"/ws/.mcp.json\"}",
            "{print $1 >> \"f\"}",
            "{printf \"%s\", $0 > $2}",
            "@load \"filefuncs\"",
            "BEGIN{f=\"system\"; @f(\"x\")}",
            "BEGIN{x=1/2; print \"a\" |& \"sh\"}",
            "{print \"a",
            "{x = $1++ / system(\"touch m\") / 2}",
            "{print /\"/ ; system(\"touch m\") #\"/}",
            "{if (1) /\"/ ; system(\"touch m\") #\"/}",
            "BEGIN{x=\"a\"system(\"touch m\")}",
            "BEGIN{1system(\"touch m\")}",
            "BEGIN{1getline x<\"/etc/x\";print x}",
            "BEGIN{print\"evil\">\"/etc/x\"}",
            "BEGIN{x=/[/]\"/;system(\"touch m\")}#\"",
            "NR==1\n/\"/ {system(\"touch m\")} #\"",
            "BEGIN{print \"x\",\n\"y\" > \"/etc/x\"}",
            "BEGIN{print 1 &&\n2 > \"/etc/x\"}",
        ] {
            assert_ne!(awk(text), [], "{text}");
        }
    }
}
