//! An additional reader for programs that search directories: the files that their options name, and the links that they follow.

use super::super::command_analyzer::CommandAnalyzer;
use crate::commands::WorkingDir;
use crate::manual::{ParsedOptions, WordRole};
use crate::word::Word;

/// The maximum number of files that are compared with the options.
const FILES_MAX: usize = 2_000;

/// Adds the reads of the files that `--include` and `--glob` name, and of the links that are followed out of the searched directory.
pub(super) fn search(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let globs: Vec<&str> = parsed
        .values(&["--include", "--glob", "--iglob"])
        .into_iter()
        .filter(|glob| !glob.starts_with('!'))
        .collect();
    let follows = parsed.has(&["--dereference-recursive", "--follow"]);
    if globs.is_empty() && !follows {
        return;
    }
    let WorkingDir::At(place) = teller.working_dir.clone() else { return };
    let starts: Vec<&str> = parsed.operands.iter().filter_map(|operand| operand.word.as_text()).collect();
    // The first operand may be the pattern. Searching for a directory of that name does no harm.
    let starts = if starts.len() < 2 { vec!["."] } else { starts };
    let mut left: Vec<String> = starts.iter().filter_map(|start| teller.env.resolve(&place, start)).collect();
    let mut count = 0_usize;
    while let Some(directory) = left.pop() {
        if !teller.env.is_directory(&directory) {
            continue;
        }
        for name in teller.env.list_directory(&directory).unwrap_or_default() {
            count = count.saturating_add(1);
            let path = format!("{}/{name}", directory.trim_end_matches('/'));
            let is_named = globs.iter().any(|glob| {
                let last = glob.trim_end_matches('/').rsplit('/').next().unwrap_or(glob);
                could_match(last, &name)
            });
            if is_named {
                teller.add_path(WordRole::Read, &path);
            }
            match teller.env.resolve(&directory, &name) {
                Some(target) if target == path => left.push(path),
                Some(target) if follows => {
                    teller.apply_role_partial(WordRole::Read, &Word::literal(target));
                }
                _ => {}
            }
        }
        if count > FILES_MAX {
            teller.add_unknown("too many files are searched to compare all of them with the options");
            return;
        }
    }
}

/// Checks whether a glob could match a name. An alternative in braces or brackets could match anything.
fn could_match(glob: &str, name: &str) -> bool {
    let (glob, name) = (glob.to_lowercase(), name.to_lowercase());
    let Some((before, rest)) = glob.split_once(['*', '?', '[', '{', '\\']) else { return glob == name };
    let behind = rest.rsplit(['*', '?', ']', '}']).next().unwrap_or_default();
    // A glob that says nothing at its start names nothing in particular.
    (!before.is_empty() || !behind.is_empty())
        && name.len() >= before.len().saturating_add(behind.len())
        && name.starts_with(before)
        && name.ends_with(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_names_what_it_could_match() {
        for (glob, name, could) in [
            (".env", ".env", true),
            (".en?", ".env", true),
            (".en[v]", ".env", true),
            ("*.rs", "main.rs", true),
            ("*.rs", ".env", false),
            ("*", ".env", false),
            ("{a,.env}", ".env", false),
        ] {
            assert_eq!(could_match(glob, name), could, "{glob} {name}");
        }
    }
}
