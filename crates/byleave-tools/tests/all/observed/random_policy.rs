//! Random policies, and a second reading of their rules that shares no code with the program.

use std::path::Path;

use byleave_gate::core::decision::Verdict;

use super::Random;

/// A random policy file.
pub(super) struct RandomPolicy {
    pub(super) text: String,
    pub(super) is_undoable: bool,
    rules: Vec<RandomRule>,
}

struct RandomRule {
    verdict: Verdict,
    writes: bool,
    deletes: bool,
    place: Place,
}

/// What a rule is about, in the forms that are simple enough to be matched twice.
enum Place {
    /// A path.
    Exact(&'static str),
    /// A directory with everything in it.
    Beneath(&'static str),
    /// Every name with this end.
    Ending(&'static str),
}

const EXACT: [&str; 6] =
    ["/ws/a.txt", "/ws/src/b.rs", "/ws/docs/c.md", "/ws/new.txt", "/ws/link", "/ws/deep/x/y.txt"];
const BENEATH: [&str; 7] = ["/ws/src", "/ws/docs", "/ws/deep", "/ws/deep/x", "/ws/many", "/ws/.git", "/ws"];
const ENDING: [&str; 4] = [".txt", ".md", ".rs", ".json"];

impl RandomPolicy {
    pub(super) fn make(random: &mut Random) -> Self {
        let is_undoable = !random.once_in(4);
        // `ci` allows the workspace by a rule, so the random rules are matched beside it.
        let mut text = match (is_undoable, random.once_in(2)) {
            (true, true) => "profile = \"everyday\"\n".to_owned(),
            (true, false) => "[defaults]\nundoable = \"allow\"\n".to_owned(),
            (false, true) => "profile = \"careful\"\n".to_owned(),
            (false, false) => String::new(),
        };
        let mut rules = Vec::new();
        if random.once_in(2) || !is_undoable {
            text.push_str("[[rule]]\nid = \"programs\"\nverdict = \"allow\"\nrun = [\"bash\", \"sh\", \"rm\", \"mv\", \"cp\", \"ln\", \"chmod\", \"mkdir\", \"mkfifo\", \"touch\", \"python3\", \"sed\", \"tar\", \"git\", \"find\", \"dd\", \"install\", \"truncate\", \"base64\", \"cat\", \"perl\", \"rsync\", \"eval\"]\n");
        }
        // Rules that only restrict would leave nothing to commit.
        let everything = !is_undoable && !random.once_in(4);
        if everything {
            text.push_str("[[rule]]\nid = \"workspace\"\nverdict = \"allow\"\nwrite = \"{workspace}/\"\ndelete = \"{workspace}/\"\n");
            let place = Place::Beneath("/ws");
            rules.push(RandomRule { verdict: Verdict::Allow, writes: true, deletes: true, place });
        }
        for number in 0..random.below(4) {
            let verdict = [Verdict::Allow, Verdict::Allow, Verdict::Ask, Verdict::Deny][random.below(4)];
            let (writes, deletes) = [(true, true), (true, false), (false, true)][random.below(3)];
            let place = match random.below(3) {
                0 => Place::Exact(random.pick(&EXACT)),
                1 => Place::Beneath(random.pick(&BENEATH)),
                _ => Place::Ending(random.pick(&ENDING)),
            };
            let glob = match place {
                Place::Exact(path) => path.to_owned(),
                Place::Beneath(path) => format!("{path}/"),
                Place::Ending(end) => format!("**/*{end}"),
            };
            let word = match verdict {
                Verdict::Allow => "allow",
                Verdict::Ask => "ask",
                Verdict::Deny => "deny",
            };
            text.push_str(&format!("[[rule]]\nid = \"random-{number}\"\nverdict = \"{word}\"\n"));
            for (key, is) in [("write", writes), ("delete", deletes)] {
                if is {
                    text.push_str(&format!("{key} = \"{glob}\"\n"));
                }
            }
            rules.push(RandomRule { verdict, writes, deletes, place });
        }
        Self { text, is_undoable, rules }
    }

    /// Returns the strictest verdict of the random rules on a change. Of two rules, the stricter one decides.
    pub(super) fn verdict(&self, path: &Path, is_deletion: bool) -> Option<Verdict> {
        let is_about = |rule: &&RandomRule| {
            let matches = match &rule.place {
                Place::Exact(exact) => path == Path::new(exact),
                Place::Beneath(directory) => path.starts_with(directory),
                Place::Ending(end) => {
                    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(end))
                }
            };
            matches && (if is_deletion { rule.deletes } else { rule.writes })
        };
        self.rules.iter().filter(is_about).map(|rule| rule.verdict).max()
    }
}
