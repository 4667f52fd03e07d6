//! A gate with only `web_fetch`, the built-in rules, and an approver that stores questions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use byleave_gate::approver::{Reply, callback};
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_gate::core::outcome::Output;
use byleave_gate::core::policy::{
    Layer, PathVariables, Policy, RuleFile, SkipExamples, builtin_rules, load_rules,
};
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::gate::Gate;
use byleave_gate::result::{CallOutcome, CallResult};
use byleave_sandbox::net::address::AddressPolicy;
use byleave_tools::{Fetcher, web_fetch};
use serde_json::{Value, json};

use super::site::FakeResolver;

/// The result of a fetch, and the questions.
pub(crate) struct FetchOutcome {
    pub(crate) result: CallResult,
    pub(crate) asked: Vec<QuestionView>,
}

impl FetchOutcome {
    /// Everything that the model receives.
    pub(crate) fn told(&self) -> String {
        match &self.result.outcome {
            CallOutcome::Completed(output) | CallOutcome::Failed(output) => {
                format!("{}\n{}", output.text, output.error.as_deref().unwrap_or_default())
            }
            other => other.refusal().map(ToString::to_string).unwrap_or_default(),
        }
    }

    #[track_caller]
    pub(crate) fn output(&self) -> &Output {
        match &self.result.outcome {
            CallOutcome::Completed(output) | CallOutcome::Failed(output) => output,
            other => panic!("it did not run: {other:?}"),
        }
    }

    /// The content alone.
    #[track_caller]
    pub(crate) fn content(&self) -> &str {
        let (_, content) =
            self.output().text.split_once("not instructions\n").unwrap_or_else(|| panic!("{}", self.told()));
        content
    }
}

/// A fetcher with these names, for which foreign hosts are on loopback. Its time limit is for hangs, not for a slow machine.
pub(crate) fn on_loopback(names: &Arc<FakeResolver>) -> Fetcher {
    Fetcher::new()
        .with_resolver(Arc::clone(names) as _)
        .with_address_policy(AddressPolicy::with_loopback())
        .with_timeout(Duration::from_secs(120))
}

/// The built-in rules, and these user rules.
pub(crate) fn rules(text: &str) -> Policy {
    let places = PathVariables { workspace: Some("/ws"), home: Some("/home/u"), ..PathVariables::default() };
    let mut all = builtin_rules(&places).unwrap();
    all.extend(
        load_rules(&RuleFile { name: "policy.toml", layer: Layer::User, text }, &places, &SkipExamples)
            .unwrap()
            .rules,
    );
    Policy::new(all).unwrap()
}

/// A rule that allows these hosts, on every port.
pub(crate) fn allowing(hosts: &[&str]) -> Policy {
    let hosts: Vec<String> = hosts.iter().map(|host| format!("{host}:*")).collect();
    rules(&format!("[[rule]]\nid = \"web\"\nverdict = \"allow\"\nreach = {hosts:?}"))
}

pub(crate) struct WebFixture {
    gate: Gate,
    asked: Arc<Mutex<Vec<QuestionView>>>,
}

impl WebFixture {
    pub(crate) fn new(policy: Policy, fetcher: Fetcher, says: Reply) -> Self {
        let asked = Arc::<Mutex<Vec<QuestionView>>>::default();
        let shown = Arc::clone(&asked);
        let person = callback("ada", move |sheet| {
            shown.lock().unwrap().push(sheet.clone());
            says.clone()
        });
        let gate = Gate::builder()
            .policy(policy)
            .tool(web_fetch(fetcher))
            .approver(Arc::new(person))
            .build()
            .unwrap();
        Self { gate, asked }
    }

    pub(crate) async fn fetch(&self, url: &str) -> FetchOutcome {
        self.call(json!({ "url": url }), Mode::ConfirmSensitive).await
    }

    pub(crate) async fn call(&self, arguments: Value, mode: Mode) -> FetchOutcome {
        self.asked.lock().unwrap().clear();
        let call = Call {
            id: CallId::new(uuid::Uuid::new_v4()),
            tenant: TenantId::new("local").unwrap(),
            session: SessionId::new("s").unwrap(),
            agent: AgentId::new("agent").unwrap(),
            tool: "web_fetch".into(),
            arguments,
            reason: None,
            cwd: "/".into(),
            mode,
            dry_run: false,
        };
        let result = self.gate.settle(call).await;
        FetchOutcome { result, asked: self.asked.lock().unwrap().clone() }
    }
}
