//! Scans awk programs for reads, writes and commands beyond their operands.
//!
//! A slash may divide or begin a pattern, and the implementations of awk do not agree about all of them. The scanner decides only where
//! everything before it leaves one reading. Otherwise the whole text is scanned as it is written, with what strings and patterns hold.

use std::iter::Peekable;
use std::str::Chars;

use super::ScriptEffect;

/// The words that reach beyond the input text, with the reason.
const REACHING_WORDS: [(&str, &str); 10] = [
    ("system", "runs a command"),
    ("getline", "reads a file or the output of a command"),
    ("close", "uses files or commands that the program opened"),
    ("fflush", "uses files or commands that the program opened"),
    ("ENVIRON", "can reach beyond the input text"),
    ("PROCINFO", "can reach beyond the input text"),
    ("ARGV", "can reach beyond the input text"),
    ("ARGC", "can reach beyond the input text"),
    ("FUNCTAB", "can reach beyond the input text"),
    ("SYMTAB", "can reach beyond the input text"),
];

/// The words after which a slash can begin a pattern. After any other word it divides.
const KEYWORDS: [&str; 25] = [
    "BEGIN",
    "END",
    "BEGINFILE",
    "ENDFILE",
    "break",
    "case",
    "continue",
    "default",
    "delete",
    "do",
    "else",
    "exit",
    "for",
    "func",
    "function",
    "getline",
    "if",
    "in",
    "length",
    "next",
    "nextfile",
    "print",
    "printf",
    "return",
    "while",
];

/// Returns the effects of an awk program besides printing. Constructs that are known to have others are reported as unknown.
pub(crate) fn awk(text: &str) -> Vec<ScriptEffect> {
    let mut deeds = Vec::new();
    let mut unknown = |why: &str| deeds.push(ScriptEffect::Unknown(format!("awk program: {why}")));
    let Some(bare) = without_strings(text) else {
        unknown("a string or a pattern is not closed");
        return deeds;
    };
    // Without one certain reading, everything that is written may be code.
    let (bare, is_certain) = match bare {
        Reading::Certain(bare) => (bare, true),
        Reading::Ambiguous => (text.to_owned(), false),
    };
    for word in words(&bare) {
        for (name, why) in REACHING_WORDS {
            // A number may end anywhere within such a word: `0xfsystem` is `0xf` and `system`.
            let begins_with_number = word.starts_with(|c: char| c.is_ascii_digit());
            if word == name || begins_with_number && word.contains(name) {
                unknown(&format!("`{name}` {why}"));
            }
        }
    }
    if bare.contains('@') {
        unknown("`@` loads other programs or calls by name");
    }
    if bare.replace("||", "").contains('|') {
        unknown("`|` runs a command");
    }
    if prints_elsewhere(&bare, is_certain) {
        unknown("`>` after `print` writes a file");
    }
    deeds
}

/// Checks whether `>` occurs in a statement that prints. There it names a file, otherwise it compares. In a text that has no certain
/// reading, nothing ends a statement.
fn prints_elsewhere(bare: &str, is_certain: bool) -> bool {
    let mut prints = false;
    let mut word = String::new();
    let mut last = ' ';
    for c in bare.chars() {
        if c.is_ascii_alphanumeric() || c == '_' {
            word.push(c);
            last = c;
            continue;
        }
        let name = word.trim_start_matches(|c: char| c.is_ascii_digit());
        prints |= matches!(name, "print" | "printf") || begins_with_digit(&word) && word.contains("print");
        word.clear();
        if c == '>' && prints {
            return true;
        }
        // A statement goes on after these, over any number of blank lines.
        let goes_on = matches!(last, ',' | '&' | '|' | '?' | ':');
        if is_certain && (matches!(c, ';' | '}') || c == '\n' && !goes_on) {
            prints = false;
        }
        if !c.is_whitespace() {
            last = c;
        }
    }
    false
}

/// Returns the words of the program.
fn words(bare: &str) -> impl Iterator<Item = &str> {
    bare.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The program without strings, patterns and comments.
#[derive(Debug)]
enum Reading {
    /// Every implementation reads it like this.
    Certain(String),
    /// Something in it can be read in two ways.
    Ambiguous,
}

/// The token before a slash, as far as it decides about the slash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// A new rule or statement, or an operator that needs an operand: a pattern begins.
    Operator,
    /// A value: the slash divides.
    Value,
    /// Either.
    Unclear,
}

/// Returns the program without strings, patterns and comments. `None` if one of them is not closed.
fn without_strings(text: &str) -> Option<Reading> {
    let mut bare = String::new();
    let mut before = Before::Operator;
    // For each open parenthesis, whether it belongs to a statement like `if`.
    let mut parentheses: Vec<bool> = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                skip_string(&mut chars)?;
                bare.push_str(" 0 ");
                before = Before::Unclear;
                continue;
            }
            '#' => {
                let mut last = c;
                while let Some(next) = chars.next_if(|c| *c != '\n') {
                    last = next;
                }
                if last == '\\' {
                    return Some(Reading::Ambiguous);
                }
                continue;
            }
            '/' => match before {
                Before::Unclear => return Some(Reading::Ambiguous),
                Before::Value => before = Before::Operator,
                Before::Operator => {
                    if !skip_pattern(&mut chars)? {
                        return Some(Reading::Ambiguous);
                    }
                    bare.push_str(" 0 ");
                    before = Before::Unclear;
                    continue;
                }
            },
            '(' => {
                let word = last_word(&bare);
                parentheses.push(matches!(word, "if" | "while" | "for" | "switch"));
                before = Before::Operator;
            }
            ')' => before = if parentheses.pop() == Some(false) { Before::Value } else { Before::Unclear },
            ']' => before = Before::Value,
            c if c.is_ascii_alphanumeric() || c == '_' => before = Before::Value,
            ' ' | '\t' => {}
            '\n' if before == Before::Value && !parentheses.is_empty() => return Some(Reading::Ambiguous),
            '\n' | '{' | '}' | ';' | ',' | '~' | '!' | '=' | '<' | '>' | '&' | '|' | '?' | ':' | '*'
            | '%' | '^' | '[' => {
                before = Before::Operator;
            }
            // `+`, `-`, `$`, `.`, a backslash, and what no awk knows.
            _ => before = Before::Unclear,
        }
        // A continued line can end in more than a backslash, and not every awk joins it.
        if c == '\\' {
            if chars.peek() != Some(&'\n') {
                return Some(Reading::Ambiguous);
            }
            chars.next();
            bare.push(' ');
            continue;
        }
        bare.push(c);
        if before == Before::Value
            && (KEYWORDS.contains(&last_word(&bare)) || begins_with_digit(last_word(&bare)))
        {
            before = Before::Unclear;
            // A whole number is a value.
            if last_word(&bare).bytes().all(|byte| byte.is_ascii_digit()) {
                before = Before::Value;
            }
        }
    }
    Some(Reading::Certain(bare))
}

fn begins_with_digit(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns the word at the end, with blanks after it left out.
fn last_word(bare: &str) -> &str {
    let bare = bare.trim_end_matches([' ', '\t']);
    bare.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// Skips to the end of a string. `None` if it has none.
fn skip_string(chars: &mut Peekable<Chars<'_>>) -> Option<()> {
    loop {
        match chars.next()? {
            '\\' => {
                chars.next()?;
            }
            '\n' => return None,
            '"' => return Some(()),
            _ => {}
        }
    }
}

/// Skips to the end of a pattern, and returns whether every awk finds that end. In brackets a slash may or may not end it.
fn skip_pattern(chars: &mut Peekable<Chars<'_>>) -> Option<bool> {
    let mut content = String::new();
    loop {
        match chars.next()? {
            '\\' => content.push_str(if chars.next()? == ']' { "\\]" } else { "a" }),
            '\n' => return None,
            '/' => break,
            other => content.push(other),
        }
    }
    // `/=` may be an operator.
    Some(!content.starts_with('=') && !ends_in_brackets(&content))
}

/// Checks whether a pattern may end within brackets that are still open.
fn ends_in_brackets(content: &str) -> bool {
    let mut plain = content.to_owned();
    for class in [
        "alpha", "digit", "alnum", "upper", "lower", "space", "blank", "punct", "print", "graph", "cntrl",
        "xdigit",
    ] {
        plain = plain.replace(&format!("[:{class}:]"), "a");
    }
    let Some(open) = plain.rfind('[') else { return false };
    let inside = plain.get(open.saturating_add(1)..).unwrap_or_default().trim_start_matches('^');
    // A bracket directly after the opening one is a member, and so is one after a backslash.
    !inside.get(1..).is_some_and(|rest| rest.contains(']')) || inside.contains("\\]")
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
            "/[[:space:]|]/ {print $2}",
            "{print $1/$2 \" | \" $3}",
            "{printf \"%.1f > %s\\n\", ($3+$4)/1024, $1}",
            "!/^#/ && $1 ~ /a;b/ {print; n++} END {print n}",
            "NR > 1 {print $1,\n  $2}\n$3 > 4",
            "{ if (($1+1)/2 > 3) print $1 }",
            "/\\[x|y/ {print}",
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
            "BEGIN{$/\"/;system(\"touch m\")#\"/\n}",
            "{ $/\"/; print > \"out\" #\"/\n}",
            "BEGIN{length/\"/;system(\"touch m\")#\"/\n}",
            "BEGIN{1./1.///;system(\"touch m\")//}",
            "BEGIN{x = 1 \\ \n/ system(\"touch m\") / 2}",
            "BEGIN{x = 1 \\\r\n/ system(\"touch m\") / 2}",
            "{print \"x\",\n\n\"y\" > \"out\"}",
            "{print 1 ||\n# note\n2 > \"out\"}",
            "{print /;/ > \"out\"; x=1/2}",
            "{print /x{/ >> \"out\"; n=1/2}",
            "BEGIN{x=0xfsystem(\"touch m\")}",
            "BEGIN{x=1e5system(\"touch m\")}",
            "/[]/]\"/{system(\"touch m\")}#\"",
            "BEGIN{x=\"a\"/\"/;system(\"touch m\")#\"/\n}",
            "{if (1) do print 1\nwhile (0) /\"/;system(\"touch m\")#\"/\n}",
        ] {
            assert_ne!(awk(text), [], "{text}");
        }
    }
}
