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
mod checked;
mod compile;
mod example;
mod file;
mod index;
mod judge;
mod level;
mod places;
mod request;
mod rule;
#[cfg(test)]
mod tests;
mod when;

pub use builtin::{BUILTIN, builtin};
pub use checked::{ReadFile, read};
pub use compile::Policy;
pub use example::{Examples, NotRead, Unchecked};
pub use file::{FileFault, Flaw, RuleFile, judged_by_effects};
pub use judge::{Considered, is_stricter};
pub use places::Places;
pub use request::Request;
pub use rule::{Example, Layer, PolicyFault, Rule, RuleFault};
pub use when::When;
