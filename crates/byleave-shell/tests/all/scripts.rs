//! Random scripts: only stub programs and harmless builtins, no redirection out of the directory, and loops that end.

/// A small random generator. The same seed gives the same script.
pub(crate) struct SeededRng(u64);

impl SeededRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const PROGRAMS: [&str; 6] = ["p0", "p1", "p2", "q", "run", "tool"];
const NAMES: [&str; 5] = ["v", "w", "x", "FOO", "n"];
const PLAIN: [&str; 22] = [
    "a", "bc", "-x", "--opt=1", "a.txt", "d1", "d1/x.c", "./a.txt", "k=v", "x#y", "%", "@", "é", "\u{a0}",
    "=", ":", "1", "10", "-", "+x", "a,b", "\r",
];

pub(crate) struct ScriptGenerator {
    dice: SeededRng,
    ups: usize,
}

/// Generates the script for a seed.
pub(crate) fn script(seed: u64) -> String {
    let mut writer = ScriptGenerator { dice: SeededRng::new(seed), ups: 0 };
    let text = writer.lines(0);
    if writer.dice.one_in(5) { writer.mutated(&text) } else { text }
}

impl ScriptGenerator {
    fn lines(&mut self, depth: usize) -> String {
        let count = 1 + self.dice.below(if depth == 0 { 5 } else { 2 });
        let mut text = String::new();
        for at in 0..count {
            if at > 0 {
                text.push_str(self.dice.pick(&[
                    "\n", "\n", "; ", "; ", " && ", " || ", " & ", " | ", "\n\n", " ;\n", " &&\n", " |& ",
                ]));
            }
            let one = self.statement(depth);
            // A here-document needs the end of its line.
            if one.contains("<<E") || one.contains("<<-E") || one.contains("<<'E") {
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push_str("p0\n");
                }
                text.push_str(&one);
                text.push('\n');
                if at + 1 < count {
                    text.push_str("p1");
                }
            } else {
                text.push_str(&one);
            }
        }
        text
    }

    fn statement(&mut self, depth: usize) -> String {
        let deep = depth >= 3;
        match self.dice.below(if deep { 18 } else { 44 }) {
            0..=9 => self.simple(depth),
            10 => self.assignment(depth),
            11 => format!("{}; {}", self.assignment(depth), self.simple(depth)),
            12 => self.cd(),
            13 => format!("{} && {}", self.cd(), self.simple(depth)),
            14 => {
                let name = self.dice.pick(&NAMES);
                let value = self.word(depth);
                format!(
                    "{} {name}={value}",
                    self.dice.pick(&["export", "declare", "readonly", "typeset", "declare -x"])
                )
            }
            15 => format!("unset {}", self.dice.pick(&NAMES)),
            16 => format!("{} # a comment {}", self.simple(depth), self.dice.pick(&["\\", "'", "$(p0)", ""])),
            17 => format!("set -- {} {}", self.word(depth), self.word(depth)),
            18 | 19 => {
                format!("if {}; then {}; else {}; fi", self.simple(3), self.closed(depth), self.closed(depth))
            }
            20 => format!("if {}; then {}; fi", self.simple(3), self.closed(depth)),
            21 | 22 => {
                let name = self.dice.pick(&NAMES);
                format!(
                    "for {name} in {} {}; do {}; done",
                    self.word(depth),
                    self.word(depth),
                    self.closed(depth)
                )
            }
            23 => format!("while p1; do {}; done", self.closed(depth)),
            24 => format!("until p0; do {}; done", self.closed(depth)),
            25 => {
                let (word, one) = (self.word(depth), self.closed(depth));
                let end = self.dice.pick(&[";;", ";&", ";;&"]);
                format!("case {word} in a) {one} {end} (b|*) {};; esac", self.closed(depth))
            }
            26 | 27 => format!("( {} )", self.closed(depth)),
            28 => format!("{{ {}; }}", self.closed(depth)),
            29 => {
                let name = self.dice.pick(&["f", "g", "p2", "cd"]);
                let form =
                    self.dice.pick(&["NAME() { BODY; }", "function NAME { BODY; }", "NAME () ( BODY )"]);
                let text = form.replace("NAME", name).replace("BODY", &self.closed(depth + 1));
                format!("{text}; {name} {}", self.word(depth))
            }
            30 => {
                let inner = self.simple(3).replace('\'', "");
                format!("eval '{inner}'")
            }
            31 => format!("eval {}", self.simple(3)),
            32 => {
                let word = self.word(depth);
                let test = self.dice.pick(&[
                    "[[ -n W ]]",
                    "[[ W == a* ]]",
                    "[[ W =~ (a|b) ]]",
                    "[ W = a ]",
                    "test -f W",
                    "[[ 1 -eq 1 && W ]]",
                ]);
                format!("{} && {}", test.replace('W', &word), self.simple(depth))
            }
            33 => format!("! {}", self.simple(depth)),
            34 => {
                let tag = self.dice.pick(&["E", "'E'", "-E"]);
                let tab = if tag == "-E" { "\t" } else { "" };
                let body = self.word(depth).replace('\n', " ");
                format!("{} <<{tag}\n{tab}{body} it's $v\n{tab}E\n", self.simple(3))
            }
            35 => format!("p0 <<< {}", self.word(depth)),
            36 => format!("read {} <<< {}; {}", self.dice.pick(&NAMES), self.word(depth), self.simple(depth)),
            37 => format!("(( n = {} + 1 )); p0 $n \"$n\"", self.dice.below(5)),
            38 => format!("for (( n = 0; n < 2; n++ )); do {}; done", self.closed(3)),
            39 => format!("trap '{}' EXIT", self.simple(3).replace('\'', "")),
            40 => {
                let file = self.file();
                format!("{{ {}; }} > {file}", self.closed(depth))
            }
            41 => format!("local v={}", self.word(depth)),
            42 => format!(
                "printf -v {} %s {}; {}",
                self.dice.pick(&NAMES),
                self.word(depth),
                self.simple(depth)
            ),
            _ => format!(
                "pushd {} > f0; {}; popd > f0; p0",
                self.dice.pick(&["d1", "d2", "nosuch"]),
                self.simple(depth)
            ),
        }
    }

    /// Statements that can be followed by `;`.
    fn closed(&mut self, depth: usize) -> String {
        loop {
            let text = self.statement(depth + 1);
            if !text.contains('#') && !text.ends_with(['\n', '&']) {
                return text;
            }
        }
    }

    fn simple(&mut self, depth: usize) -> String {
        let mut words = Vec::new();
        if self.dice.one_in(8) {
            words.push(self.assignment(depth));
        }
        if self.dice.one_in(12) {
            words.push(self.dice.pick(&["< a.txt", "2> f1", "> f2", "2>f0"]).to_owned());
        }
        words.push(if self.dice.one_in(7) {
            self.word(depth)
        } else if self.dice.one_in(12) {
            self.dice
                .pick(&[
                    "echo",
                    "command p0",
                    "builtin echo",
                    "f",
                    "g",
                    "true",
                    "false",
                    ":",
                    "shift",
                    "exit",
                    "return",
                ])
                .to_owned()
        } else {
            let program = self.dice.pick(&PROGRAMS);
            match self.dice.below(12) {
                0 => format!("'{program}'"),
                1 => format!("\\{program}"),
                2 => format!("\"{program}\""),
                3 => format!("{{{program},z}}"),
                _ => program.to_owned(),
            }
        });
        for _ in 0..self.dice.below(4) {
            words.push(self.word(depth));
        }
        if self.dice.one_in(10) {
            let file = self.file();
            words.push(format!(
                "{} {file}",
                self.dice.pick(&[">", ">>", "2>", "&>", ">|", "1<>", "{fd}>", "&>>", ">&"])
            ));
        }
        if self.dice.one_in(20) {
            words.push("2>&1".to_owned());
        }
        words.join(self.dice.pick(&[" ", " ", " ", "  ", "\t", " \\\n"]))
    }

    fn file(&mut self) -> String {
        self.dice.pick(&["f0", "f1", "'f2'", "f\"3\"", "nosuch/f0"]).to_owned()
    }

    fn assignment(&mut self, depth: usize) -> String {
        let name = self.dice.pick(&NAMES);
        match self.dice.below(12) {
            0 => format!("{name}+={}", self.word(depth)),
            1 => format!("{name}=({} {})", self.word(depth), self.word(depth)),
            2 => format!("{name}="),
            3 => format!(
                "{name}='{}'",
                self.dice.pick(&["a b", "p0 a", "*", "x  y ", " z", "$(p0)", "a\tb", "{a,b}", "~", "1"])
            ),
            4 if self.dice.one_in(3) => "IFS=,".to_owned(),
            _ => format!("{name}={}", self.word(depth)),
        }
    }

    fn cd(&mut self) -> String {
        let to =
            self.dice.pick(&["d1", "d2", "nosuch", "..", "-", "", "~", "./d1", "link", "link/..", "\"$v\""]);
        if to.contains("..") {
            self.ups += 1;
            if self.ups > 3 {
                return "cd d1".to_owned();
            }
        }
        format!("{} {to}", self.dice.pick(&["cd", "cd", "cd", "builtin cd", "command cd", "cd --"]))
    }

    fn word(&mut self, depth: usize) -> String {
        let count = 1 + self.dice.below(3) * self.dice.below(2);
        (0..count).map(|_| self.piece(depth)).collect()
    }

    fn piece(&mut self, depth: usize) -> String {
        let name = self.dice.pick(&NAMES);
        let deep = depth >= 3;
        match self.dice.below(if deep { 28 } else { 40 }) {
            0..=9 => self.dice.pick(&PLAIN).to_owned(),
            10 => format!(
                "'{}'",
                self.dice
                    .pick(&["", "a b", "*", "$(p0)", "a\"b", "#", ";", "\\", "a\nb", "`p0`", "{a,b}", "~"])
            ),
            11 => format!(
                "\"{}\"",
                self.dice.pick(&[
                    "", "a b", "*", "it's", "a\\\"b", "#", "; p0", "\\$v", "\\a", "a\nb", "\\\\", "a\\\nb",
                    "$", "{a,b}"
                ])
            ),
            12 => format!("\"${name} b\""),
            13 => format!("${name}"),
            14 => format!("${{{name}}}"),
            15 => format!("\"${{{name}}}\""),
            16 => format!(
                "\\{}",
                self.dice.pick(&["a", "$", " ", "*", "'", "\"", "\\", "\n", "~", "{", ";", "#"])
            ),
            17 => format!(
                "$'{}'",
                self.dice.pick(&["a\\tb", "\\x41", "\\101", "it\\'s", "a\\0b", "\\u0041", "\\q", "\\\\"])
            ),
            18 => self
                .dice
                .pick(&[
                    "{a,b}",
                    "{1..3}",
                    "{a..c}",
                    "{a,{b,c}}d",
                    "{}",
                    "{a}",
                    "a{,b}",
                    "{3..1}",
                    "{01..3}",
                    "{a,b",
                    "{a..z..9}",
                    "{a,b}{c,d}",
                ])
                .to_owned(),
            19 => self
                .dice
                .pick(&[
                    "*",
                    "*.txt",
                    "?.txt",
                    "[ab].txt",
                    "d?",
                    "d*/*",
                    ".*",
                    "nosuch*",
                    "[!a]*",
                    "*/",
                    "./*",
                    "[",
                    "d1/*.c",
                    "[a-c].txt",
                    "\\*",
                    "'*'*",
                ])
                .to_owned(),
            20 => self
                .dice
                .pick(&["~", "~/x", "a=~", "a=b:~", "~+", "~nosuchuser", "x~", ":~", "~/*"])
                .to_owned(),
            21 => self
                .dice
                .pick(&["$@", "\"$@\"", "$*", "\"$*\"", "$#", "$?", "$1", "\"$2\"", "${1}", "$-", "$"])
                .to_owned(),
            22 => format!(
                "${{{name}{}}}",
                self.dice.pick(&[
                    ":-a", ":-a b", "-z", ":+y", "+y z", "#a", "%b", "/a/b", ":1", ":0:1", "^", ":-'a b'",
                    ":-$w", "//x", "@Q"
                ])
            ),
            23 => format!(
                "\"${{{name}{}}}\"",
                self.dice.pick(&[
                    ":-a",
                    ":-a  b",
                    "-z",
                    ":+y",
                    ":-\"q r\"",
                    ":-$w",
                    ":=s",
                    "#\\*",
                    ":-a\\}b"
                ])
            ),
            24 => self
                .dice
                .pick(&["$((1+2))", "$((1/0))", "${%}", "$(( 3 * (2) ))", "\"$((n))\"", "$[1]"])
                .to_owned(),
            25 => format!("${{#{name}}}"),
            26 => self.dice.pick(&["!", "{", "}", "[[", "]]", "then", "in", "time", "do", "#"]).to_owned(),
            27 => format!("${name}{{a,b}}"),
            28 | 29 => format!("$({})", self.inner(depth)),
            30 => format!("\"$({})\"", self.inner(depth)),
            31 => format!("`{}`", self.inner(3).replace(['`', '\\'], "")),
            32 => format!("\"`{}`\"", self.inner(3).replace(['`', '\\', '"'], "")),
            33 => format!("<({})", self.inner(depth)),
            34 => format!("${{{name}:-$({})}}", self.inner(depth)),
            35 => format!("\"a${{{name}:-\"$({})\"}}b\"", self.inner(3)),
            36 => format!("$(case a in a) {};; esac)", self.simple(3)),
            37 => format!("$( {} # )\n)", self.simple(3)),
            38 => format!("$((echo {}); p0)", self.dice.pick(&PLAIN)),
            _ => format!("$(cat() {{ read -r n; echo $n; }}; cat <<E\n{}\nE\n)", self.dice.pick(&PLAIN)),
        }
    }

    fn inner(&mut self, depth: usize) -> String {
        match self.dice.below(4) {
            0 => format!("echo {}", self.word(3)),
            1 => format!("printf '%s ' {}", self.word(3)),
            _ => loop {
                let text = self.statement(depth + 2);
                if !text.contains("<<") && !text.contains('#') {
                    return text;
                }
            },
        }
    }

    /// Inserts or removes a few characters. A mutation that could lead out of the directory is discarded.
    fn mutated(&mut self, text: &str) -> String {
        const SOUP: [char; 24] = [
            '\'', '"', '\\', '`', '$', '(', ')', '{', '}', '|', '&', ';', '#', '\n', ' ', '=', '*', '?', '~',
            '!', '[', ']', 'a', ',',
        ];
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..1 + self.dice.below(3) {
            let at = self.dice.below(chars.len().max(1));
            match self.dice.below(3) {
                0 if at < chars.len() => drop(chars.remove(at)),
                1 if at < chars.len() => chars[at] = SOUP[self.dice.below(SOUP.len())],
                _ => chars.insert(at.min(chars.len()), SOUP[self.dice.below(SOUP.len())]),
            }
        }
        let safe = chars
            .windows(2)
            .all(|pair| pair[1] != '/' || pair[0].is_ascii_alphanumeric() || matches!(pair[0], '.' | '~'))
            && chars.first() != Some(&'/')
            && !chars.windows(3).any(|w| w == ['.', '.', '/']);
        if safe { chars.into_iter().collect() } else { text.to_owned() }
    }
}
