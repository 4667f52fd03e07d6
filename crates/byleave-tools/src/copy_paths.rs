//! Leads a command to its copy where nothing can be mounted: the copy is at another path than the original.
//!
//! The command is given with the path of the copy in the place of the original's, and its output the other way round. A text is changed
//! only where it is a path that exists or that the plan names, because a path of one directory (`/app`) can also be another word.

use std::path::Path;

use byleave_gate::core::effect::{Effect, Plan};
use byleave_sandbox::confinement::{Confinement, CopySource};

/// The originals and their full copies, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopyPaths {
    pairs: Vec<(String, String)>,
}

impl CopyPaths {
    /// Returns the full copies of a confinement.
    pub(crate) fn of(confinement: &Confinement) -> Self {
        let pairs = confinement.files.copies.iter().filter_map(|copied| match &copied.source {
            CopySource::Tree { path } => Some((copied.root.to_str()?.to_owned(), path.to_str()?.to_owned())),
            CopySource::Overlay { .. } => None,
        });
        Self { pairs: pairs.collect() }
    }

    /// Returns a command that names the copies.
    pub(crate) fn in_command(&self, text: &str, plan: &Plan) -> String {
        let is_named = |path: &str| {
            Path::new(path).symlink_metadata().is_ok()
                || plan.effects.iter().any(|effect| match effect {
                    Effect::Read { path: named }
                    | Effect::Write { path: named }
                    | Effect::Delete { path: named } => named == path,
                    _ => false,
                })
        };
        let mut text = text.to_owned();
        // A path that the shell would split or expand cannot stand for one that it does not.
        for (original, copy) in self.pairs.iter().filter(|(_, copy)| copy.chars().all(is_plain)) {
            text = replace(&text, original, copy, &is_named);
        }
        text
    }

    /// Returns a listener that names the originals, before this one.
    pub(crate) fn in_output(
        self,
        sink: impl FnMut(&[u8]) + Send + Sync + 'static,
    ) -> impl FnMut(&[u8]) + Send + Sync + 'static {
        let pairs = self.pairs.into_iter().map(|(original, copy)| (copy.into_bytes(), original.into_bytes()));
        let mut rewriter = OutputRewriter { pairs: pairs.collect(), held: Vec::new(), sink: Box::new(sink) };
        move |bytes| rewriter.add(bytes)
    }

    /// Returns a whole output that names the originals.
    pub(crate) fn in_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        let pairs = self.pairs.iter();
        pairs.fold(bytes, |bytes, (original, copy)| {
            replace_bytes(&bytes, copy.as_bytes(), original.as_bytes())
        })
    }
}

const fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '/' | '.' | '_' | '-' | '+' | '@' | '%')
}

/// Checks whether a letter ends a path in a command, whatever it is quoted with.
fn ends_path(letter: char) -> bool {
    letter.is_whitespace() || "'\"`;|&<>()$*?[]{},:=#\\".contains(letter)
}

fn replace(text: &str, original: &str, copy: &str, is_named: &dyn Fn(&str) -> bool) -> String {
    let (mut result, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(original) {
        let begins = before.chars().last().or_else(|| result.chars().last()).is_none_or(ends_path);
        let name = after.find(ends_path).map_or(after, |end| after.split_at(end).0);
        let is_path = begins
            && (name.is_empty() || name.starts_with('/'))
            && is_named(format!("{original}{name}").trim_end_matches('/'));
        result.push_str(before);
        result.push_str(if is_path { copy } else { original });
        rest = after;
    }
    result.push_str(rest);
    result
}

fn replace_bytes(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let (mut result, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        let (before, after) = rest.split_at(at);
        result.extend_from_slice(before);
        result.extend_from_slice(to);
        rest = after.get(from.len()..).unwrap_or_default();
    }
    result.extend_from_slice(rest);
    result
}

/// Takes pieces of an output.
type OutputSink = Box<dyn FnMut(&[u8]) + Send + Sync>;

/// Replaces paths in output that arrives in pieces. What may be the beginning of a path waits for the rest.
struct OutputRewriter {
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    held: Vec<u8>,
    sink: OutputSink,
}

impl OutputRewriter {
    fn add(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let whole = self.pairs.iter().fold(held, |held, (from, to)| replace_bytes(&held, from, to));
        let is_begun = |length: &usize| {
            let end = whole.get(whole.len() - length..).unwrap_or_default();
            self.pairs.iter().any(|(from, _)| end.len() < from.len() && from.starts_with(end))
        };
        let longest = self.pairs.iter().map(|(from, _)| from.len()).max().unwrap_or(0);
        let waits = (1..=longest.min(whole.len())).rev().find(is_begun).unwrap_or(0);
        let (ready, waiting) = whole.split_at(whole.len() - waits);
        if !ready.is_empty() {
            (self.sink)(ready);
        }
        self.held = waiting.to_vec();
    }
}

impl Drop for OutputRewriter {
    fn drop(&mut self) {
        if !self.held.is_empty() {
            (self.sink)(&self.held);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    fn paths() -> CopyPaths {
        CopyPaths { pairs: vec![("/app".into(), "/s/copy/tree".into())] }
    }

    // req: E5
    #[test]
    fn a_command_names_the_copy_where_it_names_a_path_and_nowhere_else() {
        let write = |path: &str| Effect::Write { path: path.to_owned() };
        let plan = Plan { effects: vec![write("/app"), write("/app/new.txt")], ..Plan::default() };
        for (text, expected) in [
            ("cd /app && make", "cd /s/copy/tree && make"),
            ("cd '/app/' ; ls", "cd '/s/copy/tree/' ; ls"),
            ("echo x >/app/new.txt", "echo x >/s/copy/tree/new.txt"),
            ("make DIR=/app/new.txt", "make DIR=/s/copy/tree/new.txt"),
            ("grep -rn '\"/app/users\"' src", "grep -rn '\"/app/users\"' src"),
            ("curl http://localhost:3000/app", "curl http://localhost:3000/app"),
            ("ls /application ./app x/app", "ls /application ./app x/app"),
        ] {
            assert_eq!(paths().in_command(text, &plan), expected, "{text}");
        }
        // A copy whose path would be split stays unnamed.
        let spaced = CopyPaths { pairs: vec![("/app".into(), "/s p/tree".into())] };
        assert_eq!(spaced.in_command("cd /app", &plan), "cd /app");
    }

    // req: E5
    #[test]
    fn output_names_the_original_in_whatever_pieces_it_arrives() {
        let text = b"/s/copy/tree/a.rs: error in /s/copy/tre and /s/copy/tree\n/s/c";
        for size in 1..text.len() {
            let heard = Arc::<Mutex<Vec<u8>>>::default();
            let kept = Arc::clone(&heard);
            let mut sink = paths().in_output(move |bytes| kept.lock().extend_from_slice(bytes));
            text.chunks(size).for_each(&mut sink);
            drop(sink);
            let heard = String::from_utf8(heard.lock().clone()).unwrap();
            assert_eq!(heard, "/app/a.rs: error in /s/copy/tre and /app\n/s/c", "{size}");
        }
        assert_eq!(paths().in_bytes(b"x /s/copy/tree/y".to_vec()), b"x /app/y");
    }
}
