//! The scopes of standing approvals that a person can choose from, narrowest first, each in plain words.
//!
//! The choice is computed from the question view alone. A scope is offered only if the standing approval would spare the same question next
//! time. The test is the one that the policy uses ([`crate::standing_approval::effects_to_cover`]). No scope is wider than its words. A program is
//! offered with other arguments only if these could not do more harm. A call that changes *something beneath* a directory is offered only
//! as exactly the same call.

mod command;
mod same;
mod shown_changes;

use serde::Serialize;

use crate::call::Millis;
use crate::effect::{Effect, Plan};
use crate::escape::{EscapeLevel, make_visible};
use crate::id::StandingApprovalId;
use crate::pattern::{Pattern, escape_glob};
use crate::question::QuestionKind;
use crate::question_view::QuestionView;
use crate::review::ReviewOutcome;
use crate::standing_approval::{
    NotCoverableError, StandingApproval, StandingApprovalMatcher, effects_to_cover,
};

/// The width of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ScopeWidth {
    /// Exactly these effects.
    Exact,
    /// The same programs with the same first arguments.
    Program,
    /// The directories of the paths.
    Directory,
    /// Everything beneath the working directory of the call.
    Workspace,
    /// The hosts, at more than one port.
    Host,
    /// The tool, with any arguments.
    Tool,
}

/// A scope that a person may choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApprovalScope {
    /// The width.
    pub width: ScopeWidth,
    /// Everything that it allows, in words for people, with every character visible.
    pub description: String,
    /// The scope of the standing approval.
    pub patterns: Vec<Pattern>,
}

/// Returns the scopes that a person can choose from, narrowest first and never empty, or why no standing approval would help.
pub fn approval_scopes(sheet: &QuestionView) -> Result<Vec<ApprovalScope>, NotCoverableError> {
    let asked = question_effects(sheet)?;
    if let Some(why) = asked.iter().find_map(|effect| not_expressible(effect)) {
        return Err(NotCoverableError::NotExpressible(why));
    }
    if asked.iter().any(|effect| sheet.plan.is_partial(effect)) {
        let mut offer = same::same_plan_scope(&sheet.plan, &asked)?;
        shown_changes::add_shown_changes(&mut offer, sheet);
        return Ok(vec![offer]);
    }
    let all = ScopeSubject { effects: &asked, workspace: &sheet.cwd };
    let mut offers: Vec<ApprovalScope> = Vec::new();
    for breadth in WIDTHS {
        let Some(mut offer) = all.scope_with_width(breadth) else { continue };
        shown_changes::add_shown_changes(&mut offer, sheet);
        let known = offers.iter().any(|known| known.patterns == offer.patterns);
        if !known && first_uncovered(&offer.patterns, &asked, &sheet.plan).is_none() {
            offers.push(offer);
        }
    }
    match offers.first() {
        // If there is no exact scope, no wider one is offered.
        Some(offer) if offer.width == ScopeWidth::Exact || all.is_tool_use() => Ok(offers),
        _ => Err(NotCoverableError::NotExpressible("no pattern matches all effects".to_owned())),
    }
}

/// The limits of a standing approval. The default is one hour, in the session of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalLimits {
    /// The lifetime. `None` means until it is revoked.
    pub lifetime_ms: Option<Millis>,
    /// The maximum number of uses, if there is one.
    pub max_uses: Option<u32>,
    /// Whether it applies in every session, not only in that of the question.
    pub every_session: bool,
}

impl ApprovalLimits {
    /// The default lifetime.
    pub const LIFETIME_MS: Millis = 3_600_000;
}

impl Default for ApprovalLimits {
    fn default() -> Self {
        Self { lifetime_ms: Some(Self::LIFETIME_MS), max_uses: None, every_session: false }
    }
}

/// Creates the standing approval that a person gives with the answer to a question.
///
/// It covers effects, whichever tool has them, unless the scope or the question is about the tool itself.
pub fn approval_for_question(
    id: StandingApprovalId,
    question: &QuestionView,
    scope: Vec<Pattern>,
    limits: ApprovalLimits,
    now: Millis,
) -> StandingApproval {
    let reasons = &question.decision.reasons;
    StandingApproval {
        id,
        tool: StandingApproval::tool_for_scope(&scope, &question.resolved_tool.tool, reasons),
        scope,
        session: (!limits.every_session).then(|| question.session.clone()),
        expires_at: limits.lifetime_ms.map(|lifetime| now.saturating_add(lifetime)),
        max_uses: limits.max_uses,
    }
}

/// Checks whether a standing approval with this scope would spare the same question next time.
pub fn covers_question(sheet: &QuestionView, scope: &[Pattern]) -> Result<(), NotCoverableError> {
    let asked = question_effects(sheet)?;
    match first_uncovered(scope, &asked, &sheet.plan) {
        None => Ok(()),
        Some(effect) => {
            Err(NotCoverableError::NotCovered(make_visible(&effect.to_string(), EscapeLevel::Name)))
        }
    }
}

/// Returns the pattern of exactly this run. `None` if an argument is known only when the call runs.
pub fn exact_run_pattern(program: &str, argv: &[String]) -> Option<Pattern> {
    let is_known = argv.iter().all(|word| !word.contains(UNKNOWN_MARK));
    is_known.then(|| command::exact_pattern(program, argv).0)
}

/// Returns the pattern of this run with any arguments after the first ones, if these cannot do more harm.
pub fn prefix_run_pattern(program: &str, argv: &[String]) -> Option<Pattern> {
    command::prefix_pattern(program, argv).map(|(pattern, _)| pattern)
}

const WIDTHS: [ScopeWidth; 6] = [
    ScopeWidth::Exact,
    ScopeWidth::Program,
    ScopeWidth::Directory,
    ScopeWidth::Workspace,
    ScopeWidth::Host,
    ScopeWidth::Tool,
];

/// The character that replaces a text that is known only when the call runs.
const UNKNOWN_MARK: char = '…';

/// Returns the effects that a standing approval must cover to spare the question of this view, or why none could.
fn question_effects(sheet: &QuestionView) -> Result<Vec<&Effect>, NotCoverableError> {
    match sheet.question.kind {
        QuestionKind::Approval => {}
        QuestionKind::Checkpoint => return Err(NotCoverableError::Checkpoint),
        QuestionKind::Release => return Err(NotCoverableError::OutputRelease),
    }
    if let Some(held) = sheet.notes.iter().find(|note| note.outcome == ReviewOutcome::Held) {
        return Err(NotCoverableError::HeldByReviewer(make_visible(&held.reviewer, EscapeLevel::Name)));
    }
    effects_to_cover(&sheet.plan.effects, &sheet.decision.reasons)
}

/// Returns the reason why no pattern can match exactly this effect, if there is one.
fn not_expressible(effect: &Effect) -> Option<String> {
    let uncertain = |text: &str| text.contains(UNKNOWN_MARK);
    let (what, is_uncertain) = match effect {
        Effect::Run { argv, .. } => ("an argument of the command", argv.iter().any(|word| uncertain(word))),
        Effect::Read { path } | Effect::Write { path } | Effect::Delete { path } => {
            ("a path", uncertain(path))
        }
        Effect::Reach { host, port } | Effect::Send { host, port } => {
            ("a host or port", uncertain(host) || *port == 0)
        }
        Effect::Invoke { tool } => ("a tool", uncertain(tool)),
        Effect::Unconfined { .. } => return Some("the call leaves the sandbox".to_owned()),
        Effect::Unknown { .. } => return Some("a part of the call was not understood".to_owned()),
    };
    is_uncertain.then(|| format!("{what} is known only when the call runs"))
}

/// Returns the first effect that a standing approval with this scope does not cover.
fn first_uncovered<'a>(scope: &[Pattern], asked: &[&'a Effect], plan: &Plan) -> Option<&'a Effect> {
    let leave = StandingApproval {
        id: StandingApprovalId::new(uuid::Uuid::nil()),
        tool: String::new(),
        scope: scope.to_vec(),
        session: None,
        expires_at: None,
        max_uses: None,
    };
    // An invalid scope covers nothing.
    let Ok(leave) = StandingApprovalMatcher::new(leave) else { return asked.first().copied() };
    leave.first_uncovered(asked, plan)
}

/// The effects that are asked about, and the workspace.
struct ScopeSubject<'a> {
    effects: &'a [&'a Effect],
    workspace: &'a str,
}

impl ScopeSubject<'_> {
    /// Returns the scope of this width, if there is one.
    fn scope_with_width(&self, breadth: ScopeWidth) -> Option<ApprovalScope> {
        let uses_tool = self.effects.iter().any(|effect| matches!(effect, Effect::Invoke { .. }));
        if breadth == ScopeWidth::Tool && !uses_tool {
            return None;
        }
        let (description, patterns) = self.describe_patterns(breadth);
        // The use of a tool carries no arguments, so no scope of it is exact.
        let breadth = if self.is_tool_use() { ScopeWidth::Tool } else { breadth };
        Some(ApprovalScope { width: breadth, description, patterns })
    }

    /// Returns the patterns of this width for the effects, and the same in words.
    fn describe_patterns(&self, breadth: ScopeWidth) -> (String, Vec<Pattern>) {
        let mut patterns: Vec<Pattern> = Vec::new();
        let mut said: Vec<(&str, Vec<String>)> = Vec::new();
        for effect in self.effects {
            let (pattern, words) = self.pattern_for_effect(effect, breadth);
            if patterns.contains(&pattern) {
                continue;
            }
            match said.iter_mut().find(|(verb, _)| *verb == verb_for(&pattern)) {
                Some((_, targets)) => targets.push(words),
                None => said.push((verb_for(&pattern), vec![words])),
            }
            patterns.push(pattern);
        }
        let said: Vec<String> =
            said.into_iter().map(|(verb, targets)| format!("{verb} {}", targets.join(", "))).collect();
        (said.join("; "), patterns)
    }

    fn is_tool_use(&self) -> bool {
        self.effects.iter().all(|effect| matches!(effect, Effect::Invoke { .. }))
    }

    /// Returns the pattern for one effect, and its target in words.
    fn pattern_for_effect(&self, effect: &Effect, breadth: ScopeWidth) -> (Pattern, String) {
        match effect {
            Effect::Run { program, argv } => {
                let wide =
                    if breadth == ScopeWidth::Exact { None } else { command::prefix_pattern(program, argv) };
                wide.unwrap_or_else(|| command::exact_pattern(program, argv))
            }
            Effect::Read { path } => self.pattern_for_path(path, breadth, Pattern::Read),
            Effect::Write { path } => self.pattern_for_path(path, breadth, Pattern::Write),
            Effect::Delete { path } => self.pattern_for_path(path, breadth, Pattern::Delete),
            Effect::Reach { host, port } => pattern_for_host(host, *port, breadth, Pattern::Reach),
            Effect::Send { host, port } => pattern_for_host(host, *port, breadth, Pattern::Send),
            Effect::Invoke { tool } => {
                (Pattern::Invoke(escape_glob(tool)), format!("{}, with any arguments", escape_name(tool)))
            }
            // Neither fits a pattern, and neither reaches this point.
            Effect::Unconfined { .. } | Effect::Unknown { .. } => (Pattern::Run(Vec::new()), String::new()),
        }
    }

    fn pattern_for_path(
        &self,
        path: &str,
        breadth: ScopeWidth,
        kind: fn(String) -> Pattern,
    ) -> (Pattern, String) {
        let place = match breadth {
            ScopeWidth::Directory => {
                self.parent_directory(path).map(|dir| (dir, "/*", "anything directly in"))
            }
            ScopeWidth::Workspace | ScopeWidth::Tool => {
                self.is_within(path).then_some((self.workspace, "/**", "anything beneath"))
            }
            ScopeWidth::Exact | ScopeWidth::Program | ScopeWidth::Host => None,
        };
        match place {
            Some((dir, glob, words)) => {
                (kind(format!("{}{glob}", escape_glob(dir))), format!("{words} {}", escape_name(dir)))
            }
            None => (kind(escape_glob(path)), escape_name(path)),
        }
    }

    /// Returns the directory of a path, if it may replace the path. It is never the root, a child of the root, or a directory that contains
    /// the workspace.
    fn parent_directory<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (dir, _) = path.rsplit_once('/')?;
        let holds = |dir: &str| self.workspace == dir || self.workspace.starts_with(&format!("{dir}/"));
        let is_deep = dir.matches('/').count() > 1;
        let narrow = self.is_within(path) || is_deep && !holds(dir);
        (!dir.is_empty() && narrow).then_some(dir)
    }

    /// Checks whether the path is beneath the working directory of the call, and that directory is not the root.
    fn is_within(&self, path: &str) -> bool {
        let workspace = self.workspace;
        let is_place = workspace.len() > 1 && crate::effect::is_resolved(workspace);
        is_place && path.strip_prefix(workspace).is_some_and(|rest| rest.starts_with('/'))
    }
}

fn verb_for(pattern: &Pattern) -> &'static str {
    match pattern {
        Pattern::Invoke(_) => "use the tool",
        Pattern::Send(_) => "reach and send to",
        // A rule about a port of this machine opens it in both directions.
        Pattern::Reach(_) if pattern.is_localhost() => "reach and send to",
        pattern => pattern.kind(),
    }
}

fn pattern_for_host(
    host: &str,
    port: u16,
    breadth: ScopeWidth,
    kind: fn(String) -> Pattern,
) -> (Pattern, String) {
    let name = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let shown = escape_name(host);
    match (breadth, port) {
        (ScopeWidth::Host | ScopeWidth::Tool, 80 | 443) => {
            // A bare address with colons needs no brackets.
            (kind(host.to_owned()), format!("{shown} on ports 80 and 443"))
        }
        (ScopeWidth::Host | ScopeWidth::Tool, _) => {
            (kind(format!("{name}:*")), format!("{shown} on any port"))
        }
        _ => (kind(format!("{name}:{port}")), format!("{shown} on port {port}")),
    }
}

fn escape_name(text: &str) -> String {
    format!("`{}`", make_visible(text, EscapeLevel::Name))
}
