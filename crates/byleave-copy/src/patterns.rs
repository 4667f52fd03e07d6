//! Git's ignore patterns, within limits. Compiling them takes up to a thousand times their length, and each nested brace takes
//! some of the stack. So a file that anybody can write must not decide how much is compiled.

use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The largest pattern file that is read.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Longer patterns are not compiled.
const PATTERN_BYTES_MAX: usize = 1_024;
/// The cost of a pattern in addition to its length.
const PATTERN_COST: usize = 8;

/// The amount that may still be compiled.
#[derive(Clone, Debug)]
pub struct PatternBudget(usize);

impl Default for PatternBudget {
    /// About five thousand ordinary patterns.
    fn default() -> Self {
        Self(64 << 10)
    }
}

/// Compiles the patterns of a file, relative to a directory. Invalid lines are ignored. Returns `None` if the patterns exceed the
/// budget or one is too long, because a file without some of its lines could mean the opposite.
#[expect(clippy::disallowed_methods, reason = "this is where the limits are")]
pub fn compile(directory: &Path, text: &str, budget: &mut PatternBudget) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(directory);
    let mut left = budget.0;
    let patterns =
        text.trim_start_matches('\u{feff}').lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    for pattern in patterns {
        left =
            left.checked_sub(pattern.len() + PATTERN_COST).filter(|_| pattern.len() <= PATTERN_BYTES_MAX)?;
        // An invalid pattern does not affect the others.
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
        // All files of a listing share one budget.
        assert!(!is_compiled(&ordinary, &mut budget) && is_compiled("a", &mut budget));
        let many: String = (0..200_000).map(|number| format!("a{number}*b?\n")).collect();
        let long = "?".repeat(50_000);
        // Without limits this pattern ends the process.
        let nested = "{".repeat(100_000) + &"}".repeat(100_000);
        for hostile in [many, long, nested, "a\n".repeat(500_000)] {
            assert!(!is_compiled(&hostile, &mut PatternBudget::default()));
        }
        let comments = format!("{}\na\n", format!("# {}\n", "-".repeat(2_000)).repeat(100));
        assert!(is_compiled(&comments, &mut PatternBudget::default()));
    }
}
