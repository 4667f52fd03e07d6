//! Policy: rules as data, and the one function that judges (P1).
//!
//! Every effect is judged by itself: a matching deny of any layer wins; else every matching ask; else a matching allow
//! of the built-in, organisation, user or session layer; else the default ask, which is no rule. Then come the reasons
//! that are about the call as a whole, then the mode, which is one table over causes, and last the leaves. The strictest
//! reason is the verdict.
//!
//! Judging never fails, never looks at the world and never believes the tool's own labels. Nothing here turns a deny
//! into less, and adding a deny, an ask or a rule of a project never allows more.

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
mod request;
mod rule;
#[cfg(test)]
mod tests;

pub use builtin::{BUILTIN, builtin};
pub use compile::Policy;
pub use condition::RuleCondition;
pub use evaluate::{MatchedRule, is_stricter};
pub use example::{ExampleChecker, SkipExamples, UncheckedExample};
pub use load::{LoadedRules, read};
pub use parser::{Diagnostic, PolicyFileError, RuleFile, judged_by_effects};
pub use path_variables::PathVariables;
pub use request::PolicyRequest;
pub use rule::{Example, Layer, PolicyError, Rule, RuleError};
