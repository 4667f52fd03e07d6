//! Rules, and the policy that they make.

pub use byleave_core::decision::{DecisionReason, PolicyDecision, Verdict};
pub use byleave_core::pattern::Pattern;
pub use byleave_core::policy::{
    ExampleChecker, Layer, LoadedRules, PathVariables, Policy, PolicyError, PolicyFileError, PolicyRequest,
    Rule, RuleFile, SkipExamples, builtin_rules, load_rules,
};
pub use byleave_gate::policy_files::PolicyLoadError;
pub use byleave_gate::rule_examples::WorkspaceExampleChecker;
