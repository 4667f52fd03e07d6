//! Reads a policy file completely: its rules, and whether their examples hold.

use super::example::{ExampleChecker, ExampleResult, RuleUnderTest, UncheckedExample};
use super::parser::{PolicyFileError, RuleFile, parse};
use super::path_variables::PathVariables;
use super::rule::Rule;

/// The rules of a file without errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedRules {
    /// The rules.
    pub rules: Vec<Rule>,
    /// The examples that could not be checked.
    pub unchecked_examples: Vec<UncheckedExample>,
    /// The number of examples that were checked and hold.
    pub checked_count: usize,
}

/// Reads a policy file and checks its examples.
pub fn load_rules(
    file: &RuleFile<'_>,
    places: &PathVariables<'_>,
    examples: &dyn ExampleChecker,
) -> Result<LoadedRules, PolicyFileError> {
    let mut parsed = parse(file, places);
    let (mut unchecked, mut checked, mut failed) = (Vec::new(), 0_usize, Vec::new());
    for rule in &parsed.rules {
        if rule.matching_examples.is_empty() && rule.non_matching_examples.is_empty() {
            continue;
        }
        let subject = RuleUnderTest::new(rule, places);
        let yes = rule.matching_examples.iter().map(|example| (example, true));
        for (example, wanted) in yes.chain(rule.non_matching_examples.iter().map(|example| (example, false)))
        {
            match subject.check(example, wanted, examples) {
                ExampleResult::Passed => checked = checked.saturating_add(1),
                ExampleResult::Skipped => {
                    unchecked.push(UncheckedExample { rule: rule.id.clone(), example: example.clone() });
                }
                ExampleResult::Failed(why) => {
                    let key = if wanted { "matches" } else { "not_matches" };
                    let what = format!("example `{}` of `{key}` fails: {why}", example.text);
                    failed.push((example.span.clone(), what));
                }
            }
        }
    }
    for (at, what) in failed {
        parsed.add_diagnostic(file, at, what, "change the rule or the example");
    }
    Ok(LoadedRules { rules: parsed.finish(file)?, unchecked_examples: unchecked, checked_count: checked })
}
