//! `byleave explain`: what a call would do, which rules are about it, and what they come to. Runs nothing, writes nothing.

use anyhow::Result;
use byleave::core::effect::Plan;
use byleave::core::id::{AgentId, SessionId};
use byleave::core::manifest::{Class, Manifest};
use byleave::core::policy::{Considered, Policy, Request};
use byleave::core::ruling::{Reason, Ruling, Verdict};
use byleave::plan;
use byleave::tool::Site;
use serde_json::{Value, json};

use crate::args;
use crate::command::call;
use crate::complaint::Complaint;
use crate::options::{Options, settled};
use crate::rules::Rules;
use crate::screen::{Screen, Tone, one_line};
use crate::show::table;
use crate::status::Status;
use crate::time::now;
use crate::tools;

pub(crate) fn run(typed: &args::Explain, options: &Options, screen: &mut Screen) -> Result<Status> {
    let (manifest, arguments) = subject(typed)?;
    let (session, agent) = (SessionId::new("cli")?, AgentId::new("cli")?);
    let site = Site { session, agent, cwd: options.cwd.clone().into() };
    let plan = plan::by_class(&manifest, &arguments, &site).map_err(|fault| {
        Complaint::new(format!("what it would do cannot be worked out: {fault}; a call like this is refused"))
    })?;
    let state =
        settled(&options.state)?.ok_or_else(|| Complaint::new("nobody says where the book is kept"))?;
    let policy = Rules { options, workspace: &options.cwd, state: &state }.load()?.policy;
    let request = Request {
        manifest: &manifest,
        plan: &plan,
        mode: typed.mode.into(),
        tool_asks: false,
        session: &site.session,
        agent: &site.agent,
        leaves: &[],
        now: now(),
    };
    let explained =
        Explained { ruling: policy.rule(&request), considered: policy.explain(&request), plan: &plan };
    if screen.json() {
        screen.value(&explained.json());
    } else {
        explained.show(screen, &policy);
    }
    Ok(Status::Completed)
}

/// The tool and the arguments that are asked about; a command is that of any tool of the class `bash`.
fn subject(typed: &args::Explain) -> Result<(Manifest, Value)> {
    match (&typed.command, &typed.tool) {
        (Some(command), _) => {
            let mut manifest = Manifest::new("bash", "Runs a shell command.", json!({"type": "object"}));
            manifest.permission_class = Class::Bash;
            manifest.sensitive = Some(false);
            Ok((manifest, json!({ "command": command })))
        }
        (None, Some(tool)) => {
            let catalog = tools::catalog()?;
            let entry = catalog.get(tool)?;
            Ok((entry.manifest().clone(), call::json("--args", &typed.args)?))
        }
        (None, None) => {
            let missing = Complaint::new("there is nothing to explain");
            Err(missing
                .hint("write `byleave explain --command 'git status'` or `byleave explain TOOL --args JSON`")
                .into())
        }
    }
}

struct Explained<'a> {
    plan: &'a Plan,
    ruling: Ruling,
    considered: Vec<Considered<'a>>,
}

impl Explained<'_> {
    /// What the rules make of one effect: the strictest of the reasons that are about it.
    fn reason(&self, effect: u32) -> Option<&Reason> {
        self.ruling.reasons.iter().find(|reason| reason.effects.contains(&effect))
    }

    fn show(&self, screen: &mut Screen, policy: &Policy) {
        let rows = (0..).zip(&self.plan.effects).map(|(place, effect)| {
            let reason = self.reason(place);
            let verdict = reason.map_or("", |reason| word(reason.verdict));
            let rule = reason.and_then(|reason| reason.rule.as_deref()).unwrap_or("no rule");
            vec![one_line(&effect.to_string()), verdict.to_owned(), one_line(rule)]
        });
        table(screen, &["EFFECT", "VERDICT", "BY"], &rows.collect::<Vec<_>>());
        screen.line("");
        for reason in &self.ruling.reasons {
            let origin = reason.origin.as_deref().map(|origin| format!(" ({origin})")).unwrap_or_default();
            let rule =
                reason.rule.as_deref().map(|rule| format!("rule `{rule}`{origin}: ")).unwrap_or_default();
            screen.line(&one_line(&format!("{}: {rule}{}", word(reason.verdict), reason.why)));
        }
        let passed_over = self.considered.iter().filter(|considered| !considered.decided).count();
        screen.line("");
        let rules = policy.rules().len();
        let tone = match self.ruling.verdict {
            Verdict::Allow => Tone::Strong,
            Verdict::Ask => Tone::Careful,
            Verdict::Deny => Tone::Bad,
        };
        screen.toned(
            tone,
            &format!("{}:", word(self.ruling.verdict)),
            &format!(
                "{rules} rules in force, {} about this call, {passed_over} of them outdone",
                self.considered.len()
            ),
        );
    }

    fn json(&self) -> Value {
        let effects: Vec<Value> = (0..)
            .zip(&self.plan.effects)
            .map(|(place, effect)| {
                let rules: Vec<Value> = self
                    .considered
                    .iter()
                    .filter(|considered| considered.effect == place)
                    .map(|considered| {
                        json!({
                            "rule": considered.rule.id,
                            "layer": considered.rule.layer,
                            "verdict": considered.rule.verdict,
                            "origin": considered.rule.origin,
                            "decided": considered.decided,
                        })
                    })
                    .collect();
                json!({ "effect": effect, "verdict": self.reason(place).map(|reason| reason.verdict), "rules": rules })
            })
            .collect();
        json!({ "verdict": self.ruling.verdict, "effects": effects, "reasons": self.ruling.reasons })
    }
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
    }
}
