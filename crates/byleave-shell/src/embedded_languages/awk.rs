//! awk: whether a program can write, read or run anything beyond its operands.

use super::ScriptEffect;

/// What an awk program does besides printing. A list of what is certain to do nothing else; the rest is unknown.
pub(crate) fn awk(text: &str) -> Vec<ScriptEffect> {
    let mut deeds = Vec::new();
    let mut unknown = |why: &str| deeds.push(ScriptEffect::Unknown(format!("awk program: {why}")));
    let Some((bare, doubtful)) = without_strings(text) else {
        unknown("a string or a pattern has no end");
        return deeds;
    };
    // Where a slash could begin a pattern or divide, what it hides is looked at as well.
    let bare = if doubtful { format!("{bare}\n{text}") } else { bare };
    for word in words(&bare) {
        match word {
            "system" => unknown("`system` runs a command"),
            "getline" => unknown("`getline` reads a file or what a command prints"),
            "close" | "fflush" => unknown(&format!("`{word}` speaks of files or commands that it opened")),
            "ENVIRON" | "PROCINFO" | "ARGV" | "ARGC" | "FUNCTAB" | "SYMTAB" => {
                unknown(&format!("`{word}` reaches beyond the text that it reads"));
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
        unknown("`>` behind `print` writes a file");
    }
    deeds
}

/// Whether `>` stands in a statement that prints: there it names a file, else it compares.
fn prints_elsewhere(bare: &str) -> bool {
    let mut joined = String::new();
    for line in bare.split('\n') {
        joined.push_str(line);
        // A statement goes on behind these.
        let goes_on = [",", "&&", "||", "?", ":"].iter().any(|end| line.trim_end().ends_with(end));
        joined.push(if goes_on { ' ' } else { ';' });
    }
    joined.split([';', '}', '{']).any(|statement| {
        let prints = words(statement).any(|word| matches!(word, "print" | "printf"));
        let Some(at) = statement.find("print") else { return false };
        prints && statement.get(at..).is_some_and(|rest| rest.contains('>'))
    })
}

/// The words of the language in it. None begins with a digit: `1system` is a number and a word.
fn words(bare: &str) -> impl Iterator<Item = &str> {
    bare.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .map(|word| word.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// The program with strings, patterns and comments taken out, and whether a slash in it could be read in two ways.
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

/// Whether a slash behind this could both divide and begin a pattern: after a word of the language, `)`, `++` or `--`.
fn is_doubtful(bare: &str) -> bool {
    let bare = bare.trim_end();
    let word = bare.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
    let words = ["return", "print", "printf", "in", "case", "do", "else", "exit", "delete", "getline"];
    bare.ends_with([')', '+', '-']) || words.contains(&word)
}

/// Up to the end; whether there were brackets, within which a slash ends nothing.
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
