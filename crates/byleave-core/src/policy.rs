//! Policy: rules as data, and the function that evaluates them (P1).
//!
//! Every effect is evaluated by itself. A matching deny of any layer wins. Otherwise every matching ask applies. Otherwise a matching allow
//! of the built-in, organisation, user or session layer applies. Otherwise the default ask applies, which is not a rule.
//!
//! Then the reasons about the whole call are added. Then the mode applies, which is one table over causes. Standing approvals come last.
//! The strictest reason is the verdict.
//!
//! Evaluation never fails, performs no I/O and never trusts the tool's own labels. Nothing here weakens a deny. Adding a deny, an ask or a
//! project rule never allows more.

mod builtin;
mod compile;
mod condition;
mod delegation;
mod evaluate;
mod example;
mod index;
mod load;
mod parser;
mod path_variables;
mod profiles;
mod request;
mod rule;
#[cfg(test)]
mod tests;

pub use builtin::{BUILTIN_TOML, builtin_rules};
pub use compile::Policy;
pub use condition::RuleCondition;
pub use evaluate::{MatchedRule, is_stricter};
pub use example::{ExampleChecker, SkipExamples, UncheckedExample};
pub use load::{LoadedRules, load_rules};
pub use parser::{Diagnostic, PolicyFileError, RuleFile, class_judged_by_effects};
pub use path_variables::PathVariables;
pub use profiles::Profile;
pub use request::{EffectStage, PolicyRequest};
pub use rule::{Example, Layer, PolicyError, Rule, RuleError, UNDOABLE};
