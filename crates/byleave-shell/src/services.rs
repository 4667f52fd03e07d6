//! Recognizes commands that stay until they are stopped, such as servers and watchers, by their words (`manuals/services.toml`).
//!
//! This decides how a command is run, and never what it may do. A server that it misses is run as any other command. Running long is no
//! sign of a service: a build is a build, however long it takes.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::syntax::Parser;
use crate::syntax::tree::{
    AndOrList, CommandList, CommandNode, CommandNodeKind, Pipeline, RawWord, WordPart,
};

/// The maximum length of a text that is looked at.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// The maximum nesting of groups that is looked at.
const DEPTH_MAX: usize = 8;
/// The programs whose port may be an operand, and the port without one.
const OPERAND_PORTS: [(&str, u16); 2] = [("http.server", 8000), ("runserver", 8000)];
/// What stands beside a build and ends at once.
const PLAIN: [&str; 13] =
    ["cd", "echo", "mkdir", "export", "set", "true", "tee", "tail", "head", "grep", "cat", "printf", "date"];

/// A command that is meant to stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The words of the program that stays.
    pub words: Vec<String>,
    /// The port on which it says that it will listen.
    pub port: Option<u16>,
    /// Whether the text leaves it behind (`npm run dev &`). Somebody must then wait for it.
    pub is_left_behind: bool,
}

/// Returns the service that a command text ends with, if it does. A service that the text starts and then uses is not one: that text ends
/// by itself.
pub fn find_service(text: &str) -> Option<Service> {
    let items = parse(text)?;
    let (node, is_left_behind) = last_command(&items)?;
    let words = service_words(node, 0)?;
    let port = named_port(&words);
    Some(Service { words, port, is_left_behind })
}

/// Checks whether everything that a text runs is known to build something and then end.
pub fn is_build(text: &str) -> bool {
    parse(text).is_some_and(|items| is_build_list(&items, 0))
}

fn is_build_list(items: &[AndOrList], depth: usize) -> bool {
    let pipelines = items
        .iter()
        .flat_map(|item| std::iter::once(&item.first).chain(item.rest.iter().map(|(_, next)| next)));
    let nodes: Vec<&CommandNode> = pipelines.flat_map(|pipeline| &pipeline.commands).collect();
    let is_build = |node: &&CommandNode| match &node.kind {
        CommandNodeKind::Group(list) | CommandNodeKind::Subshell(list) => {
            depth < DEPTH_MAX && is_build_list(&list.items, depth + 1)
        }
        _ => simple_words(node).is_some_and(|words| {
            let words = without_front(&words);
            let is_plain = words.first().is_none_or(|word| PLAIN.contains(&word.as_str()));
            (is_plain || is_any(&words, &TABLE.build)) && !is_any(&words, &TABLE.service)
        }),
    };
    !nodes.is_empty() && nodes.iter().all(is_build)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTable {
    front: Vec<String>,
    service: Vec<RawGroup>,
    build: Vec<RawGroup>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGroup {
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for readers of the table, and for the test that there is one")
    )]
    why: String,
    patterns: Vec<String>,
}

/// A pattern: the alternatives of each word.
type CommandPattern = Vec<Vec<String>>;

#[derive(Default)]
struct ServiceTable {
    front: Vec<CommandPattern>,
    service: Vec<CommandPattern>,
    build: Vec<CommandPattern>,
}

static TABLE: LazyLock<ServiceTable> = LazyLock::new(|| {
    let Ok(raw) = toml::from_str::<RawTable>(include_str!("../manuals/services.toml")) else {
        return ServiceTable::default();
    };
    let pattern = |text: &String| -> CommandPattern {
        text.split_whitespace().map(|word| word.split('|').map(str::to_owned).collect()).collect()
    };
    let groups = |groups: &[RawGroup]| groups.iter().flat_map(|group| &group.patterns).map(pattern).collect();
    ServiceTable {
        front: raw.front.iter().map(pattern).collect(),
        service: groups(&raw.service),
        build: groups(&raw.build),
    }
});

fn parse(text: &str) -> Option<Vec<AndOrList>> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let chars: Vec<char> = text.chars().collect();
    let mut parser = Parser::new(&chars, 0);
    let mut items = Vec::new();
    while let Some(line) = parser.parse_line().ok()? {
        items.extend(line.items);
    }
    Some(items)
}

/// Returns the command in which a text stays, and whether it is left behind.
fn last_command(items: &[AndOrList]) -> Option<(&CommandNode, bool)> {
    let (last, before) = items.split_last()?;
    // `server & wait` is `server`.
    let waits = single(last)
        .and_then(simple_words)
        .is_some_and(|words| words.first().is_some_and(|word| word == "wait"));
    let (item, is_waited_for) = match before.last() {
        Some(started) if waits && started.background => (started, true),
        _ => (last, false),
    };
    let pipeline: &Pipeline = item.rest.last().map_or(&item.first, |(_, last)| last);
    // `tail -f log | grep x` stays as long as its first command.
    Some((pipeline.commands.first()?, item.background && !is_waited_for))
}

fn single(item: &AndOrList) -> Option<&CommandNode> {
    match item.first.commands.as_slice() {
        [node] if item.rest.is_empty() => Some(node),
        _ => None,
    }
}

/// Returns the words of the service that a command is, or ends with.
fn service_words(node: &CommandNode, depth: usize) -> Option<Vec<String>> {
    if depth > DEPTH_MAX {
        return None;
    }
    let inner = |list: &CommandList| {
        let (node, is_left_behind) = last_command(&list.items)?;
        service_words(node, depth + 1).filter(|_| !is_left_behind)
    };
    match &node.kind {
        CommandNodeKind::Group(list) | CommandNodeKind::Subshell(list) => inner(list),
        CommandNodeKind::Simple { .. } => {
            let words = without_front(&simple_words(node)?);
            is_any(&words, &TABLE.service).then_some(words)
        }
        _ => None,
    }
}

/// Returns the words of a simple command, as far as they are literal. Any other word is `…`.
fn simple_words(node: &CommandNode) -> Option<Vec<String>> {
    let CommandNodeKind::Simple { words, .. } = &node.kind else { return None };
    Some(words.iter().map(|word| literal(word).unwrap_or_else(|| "…".to_owned())).collect())
}

fn literal(word: &RawWord) -> Option<String> {
    fn add(parts: &[WordPart], text: &mut String) -> bool {
        parts.iter().all(|part| match part {
            WordPart::Bare(one) | WordPart::Quoted(one) => {
                text.push_str(one);
                true
            }
            WordPart::Double(parts) => add(parts, text),
            _ => false,
        })
    }
    let mut text = String::new();
    add(&word.parts, &mut text).then_some(text)
}

/// Returns the words after everything that only runs what follows.
fn without_front(words: &[String]) -> Vec<String> {
    let mut rest = words;
    loop {
        while rest.first().is_some_and(|word| is_assignment(word)) {
            rest = rest.get(1..).unwrap_or_default();
        }
        let after =
            TABLE.front.iter().filter_map(|front| after_front(rest, front)).min_by_key(|after| after.len());
        match after {
            Some(after) if !after.is_empty() => rest = after,
            _ => return rest.to_vec(),
        }
    }
}

fn after_front<'a>(words: &'a [String], front: &CommandPattern) -> Option<&'a [String]> {
    let (program, rest) = words.split_first()?;
    let (first, others) = front.split_first()?;
    if !is_one_of(base_name(program), first) {
        return None;
    }
    let mut rest = rest;
    for other in others {
        let (word, after) = rest.split_first()?;
        if !is_one_of(word, other) {
            return None;
        }
        rest = after;
    }
    // Its own options; a value is only taken in the same word.
    while rest.first().is_some_and(|word| word.starts_with('-') && word != "-m") {
        rest = rest.get(1..).unwrap_or_default();
    }
    Some(rest)
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

fn is_any(words: &[String], patterns: &[CommandPattern]) -> bool {
    // What only tells about itself ends at once.
    let tells = ["--help", "-h", "--version", "-V"];
    !words.iter().skip(1).any(|word| tells.contains(&word.as_str()))
        && patterns.iter().any(|pattern| matches(words, pattern))
}

fn matches(words: &[String], pattern: &CommandPattern) -> bool {
    let (Some((program, rest)), Some((name, others))) = (words.split_first(), pattern.split_first()) else {
        return false;
    };
    if !is_one_of(base_name(program), name) && !is_one_of(program, name) {
        return false;
    }
    let all: Vec<&str> = rest.iter().map(String::as_str).collect();
    let has = |alternatives: &[String]| {
        alternatives
            .iter()
            .any(|option| option.starts_with(['-', '+']) && all.iter().any(|word| is_option(word, option)))
    };
    let mut rest = all.iter().copied().peekable();
    for one in others {
        if one.iter().any(|word| word == "=") {
            // Nothing but options follows.
            let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
            return all.iter().all(|word| word.starts_with('-') || is_number(word));
        }
        if one.iter().any(|option| option == "-m") {
            // What follows the option is the next word of the pattern.
            while rest.next_if(|word| *word != "-m").is_some() {}
            if rest.next().is_none() {
                return false;
            }
            continue;
        }
        if has(one) {
            continue;
        }
        let mut after_option = false;
        loop {
            match rest.next() {
                Some(word) if is_one_of(word, one) => break,
                Some(word) if word.starts_with('-') => after_option = !word.contains('='),
                Some(_) if after_option => after_option = false,
                Some(_) | None => return false,
            }
        }
    }
    true
}

/// Checks whether a word is this option: the same, with a value after `=`, or a letter among others.
fn is_option(word: &str, option: &str) -> bool {
    if word == option
        || word.strip_prefix(option).is_some_and(|rest| option.starts_with("--") && rest.starts_with('='))
    {
        return !word.ends_with("=false");
    }
    let letter = option.strip_prefix('-').filter(|letter| letter.len() == 1);
    let cluster =
        word.strip_prefix('-').filter(|cluster| cluster.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    letter.zip(cluster).is_some_and(|(letter, cluster)| cluster.contains(letter))
}

fn is_one_of(word: &str, names: &[String]) -> bool {
    names.iter().any(|name| match name.strip_suffix('*') {
        Some(beginning) => word.starts_with(beginning),
        None => word == name,
    })
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns the port that the words name: `--port 3000`, `-p 3000`, `--bind :8000`, `http.server 8000`.
fn named_port(words: &[String]) -> Option<u16> {
    let options = ["--port", "-p", "-P", "--bind", "-b", "--listen", "-l", "-S", "--http"];
    let value = |text: &str| -> Option<u16> {
        let digits = text.rsplit(':').next()?;
        digits.parse().ok().filter(|port| *port >= 1024)
    };
    let followed = words.windows(2).find_map(|pair| match pair {
        [option, next] if options.contains(&option.as_str()) => value(next),
        _ => None,
    });
    let joined = || {
        words.iter().find_map(|word| {
            let (option, text) = word.split_once('=')?;
            options.contains(&option).then(|| value(text)).flatten()
        })
    };
    let operand = || {
        let (at, usual) = OPERAND_PORTS
            .iter()
            .find_map(|(name, usual)| words.iter().position(|word| word == name).map(|at| (at, *usual)))?;
        let after = words.iter().skip(at + 1).filter(|word| !word.starts_with('-'));
        Some(after.filter_map(|word| value(word)).next().unwrap_or(usual))
    };
    followed.or_else(joined).or_else(operand)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read_and_every_group_gives_its_reason() {
        let raw: RawTable = toml::from_str(include_str!("../manuals/services.toml")).unwrap();
        assert!(
            raw.service
                .iter()
                .chain(&raw.build)
                .all(|group| group.why.len() > 10 && !group.patterns.is_empty())
        );
        assert!(TABLE.service.len() > 100, "{}", TABLE.service.len());
    }

    // req: B1
    #[test]
    fn servers_and_watchers_are_recognized_by_their_words() {
        for text in [
            "npm run dev",
            "npm --prefix web run dev",
            "npm run dev -- --port 3000",
            "cd web && PORT=3000 npm start",
            "npx --yes vite",
            "npx vite --port 5173",
            "vite",
            "pnpm exec next dev -p 4000",
            "(cd web; yarn dev)",
            "python3 -m http.server",
            "python3 -u -m http.server 8123 --bind 127.0.0.1",
            "/usr/bin/python3.11 -m http.server",
            "uvicorn app:app --reload",
            "uv run uvicorn app:app",
            "FLASK_APP=a.py flask --debug run",
            "bin/rails s",
            "bundle exec rails server -p 3001",
            "cargo watch -x test",
            "tsc -p . --watch",
            "npx tsc -w",
            "jest --watch",
            "npx jest --watchAll",
            "tail -f log/dev.log",
            "tail -n 20 -F a b",
            "tail -50f a",
            "tail -f a | grep x",
            "npm run dev &",
            "nohup npm run dev > /tmp/dev.log 2>&1 &",
            "npm run dev & wait",
            "php -S localhost:8000 -t public",
            "node --watch server.js",
            "python manage.py runserver 0.0.0.0:8000",
            "docker ps; hugo server",
        ] {
            assert!(find_service(text).is_some(), "{text}");
            assert!(!is_build(text), "{text}");
        }
    }

    // req: B1
    #[test]
    fn what_ends_by_itself_is_no_service() {
        for text in [
            "npm run build",
            "npm test",
            "cargo test watch",
            "cargo build",
            "vite build",
            "vite --help",
            "next build",
            "tail -n 5 log",
            "tail -5 log",
            "grep -f patterns log",
            "timeout 5 npm run dev",
            "npm run dev & sleep 3; curl localhost:3000; kill %1",
            "npm run dev & sleep 3 && curl localhost:3000",
            "echo npm run dev",
            "git commit -m 'npm run dev'",
            "python3 app.py",
            "python3 -m pytest",
            "jest --watch=false",
            "vitest run",
            "node server.js",
            "",
            "if",
        ] {
            assert_eq!(find_service(text), None, "{text}");
        }
    }

    #[test]
    fn a_build_stays_a_build_however_long_it_takes() {
        for text in [
            "cargo build --release",
            "cd web && npm run build 2>&1 | tail -5",
            "make -j4",
            "npm test",
            "CI=1 npx jest",
            "pytest -q",
        ] {
            assert!(is_build(text), "{text}");
        }
        for text in ["node server.js", "./run.sh", "make && ./app", "python3 app.py", "", "$x"] {
            assert!(!is_build(text), "{text}");
        }
    }

    // req: B1, E7
    #[test]
    fn the_port_is_known_if_a_word_names_it() {
        for (text, port) in [
            ("python3 -m http.server", Some(8000)),
            ("python3 -m http.server 8123", Some(8123)),
            ("python3 -m http.server --directory public 8124", Some(8124)),
            ("npx vite --port 5173", Some(5173)),
            ("next dev -p 4000", Some(4000)),
            ("vite --port=5174", Some(5174)),
            ("php -S localhost:8001", Some(8001)),
            ("npm run dev -- --port 3000", Some(3000)),
            ("uvicorn a:app --port 80", None),
            ("npm run dev", None),
            ("tail -f log", None),
        ] {
            assert_eq!(find_service(text).unwrap_or_else(|| panic!("{text}")).port, port, "{text}");
        }
    }

    #[test]
    fn a_service_that_the_text_leaves_behind_is_known() {
        for (text, is_left_behind) in [
            ("npm run dev", false),
            ("npm run dev &", true),
            ("nohup npm run dev > log 2>&1 &", true),
            ("npm run dev & wait", false),
        ] {
            assert_eq!(
                find_service(text).map(|service| service.is_left_behind),
                Some(is_left_behind),
                "{text}"
            );
        }
    }
}
