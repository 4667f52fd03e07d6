//! Git's ignore patterns, within limits. Compiling them takes up to a thousand times their length, and each brace within a brace a
//! little of the stack, so that a file that anybody can write must not decide how much is compiled.

use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The largest file of patterns that is read.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Longer patterns are not compiled.
const PATTERN_BYTES_MAX: usize = 1_024;
/// What a pattern costs beside its length.
const PATTERN_COST: usize = 8;

/// How much may still be compiled.
#[derive(Clone, Debug)]
pub struct PatternBudget(usize);

impl Default for PatternBudget {
    /// About five thousand ordinary patterns.
    fn default() -> Self {
        Self(64 << 10)
    }
}

/// Compiles the patterns of a file, which count from a directory. A line that is none counts for nothing. None where there are more than
/// may be compiled, or a longer one: without some of its lines a file could say the opposite.
#[expect(clippy::disallowed_methods, reason = "this is where the limits are")]
pub fn compile(directory: &Path, text: &str, budget: &mut PatternBudget) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(directory);
    let mut left = budget.0;
    let patterns =
        text.trim_start_matches('\u{feff}').lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    for pattern in patterns {
        left =
            left.checked_sub(pattern.len() + PATTERN_COST).filter(|_| pattern.len() <= PATTERN_BYTES_MAX)?;
        // Whether it was understood or not, the others still count.
        if builder.add_line(None, pattern).is_err() {
            continue;
        }
    }
    let compiled = builder.build().ok()?;
    budget.0 = left;
    Some(compiled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_compiled(text: &str, budget: &mut PatternBudget) -> bool {
        compile(Path::new("/w"), text, budget).is_some()
    }

    // req: E9
    #[test]
    fn no_file_decides_how_much_is_compiled() {
        let ordinary: String = (0..1_000).map(|number| format!("/build-{number}/*.log\n")).collect();
        let mut budget = PatternBudget::default();
        assert!(is_compiled(&ordinary, &mut budget) && is_compiled(&ordinary, &mut budget));
        // All files of a listing together.
        assert!(!is_compiled(&ordinary, &mut budget) && is_compiled("a", &mut budget));
        let many: String = (0..200_000).map(|number| format!("a{number}*b?\n")).collect();
        let long = "?".repeat(50_000);
        // On its own this ends the process.
        let nested = "{".repeat(100_000) + &"}".repeat(100_000);
        for hostile in [many, long, nested, "a\n".repeat(500_000)] {
            assert!(!is_compiled(&hostile, &mut PatternBudget::default()));
        }
        let comments = format!("{}\na\n", format!("# {}\n", "-".repeat(2_000)).repeat(100));
        assert!(is_compiled(&comments, &mut PatternBudget::default()));
    }
}
