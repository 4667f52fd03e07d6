//! `byleave explain`: how a call is read, what it would do, which rules are about it, and what they come to. Runs nothing,
//! writes nothing.

mod batch;
mod judged;
mod otherwise;
mod page;
mod tree;
mod words;

use std::sync::Arc;

use anyhow::Result;
use byleave::core::id::{AgentId, SessionId};
use byleave::core::manifest::Manifest;
use byleave::core::policy::{Policy, Request};
use byleave::plan;
use byleave::policy_files::USER;
use byleave::tool::{Site, Tool};
use byleave::trial::Setting;
use serde_json::{Value, json};

use self::judged::Explained;
use crate::args;
use crate::command::call;
use crate::complaint::Complaint;
use crate::options::{Options, real_path};
use crate::rules::Rules;
use crate::screen::Screen;
use crate::status::Status;
use crate::time::now;
use crate::tools;

pub(crate) async fn run(typed: &args::Explain, options: &Options, screen: &mut Screen) -> Result<Status> {
    if typed.batch {
        if options.policy.is_some() {
            let both = Complaint::new("a batch is judged under the built-in rules and those of each case");
            return Err(both.hint("leave `--policy` out; `--only` leaves the built-in rules out").into());
        }
        let setting = Setting { cwd: options.cwd.clone(), home: options.home.clone(), built_in: !typed.only };
        batch::run(&mut std::io::stdin().lock(), &setting, screen)?;
        return Ok(Status::Completed);
    }
    let Subject { tool, manifest, arguments } = subject(typed, options)?;
    let (session, agent) = (SessionId::new("cli")?, AgentId::new("cli")?);
    let site = Site { tenant: options.tenant.clone(), session, agent, cwd: options.cwd.clone().into() };
    let planned = match tool.as_ref().and_then(|tool| tool.plan(&arguments, &site)) {
        Some(planned) => planned.await,
        None => plan::by_class(&manifest, &arguments, &site),
    };
    let plan = planned.map_err(|fault| {
        Complaint::new(format!("what it would do cannot be worked out: {fault}; a call like this is refused"))
            .hint("`byleave tools show TOOL` shows which arguments it takes")
    })?;
    let policy = policy(typed, options)?;
    let request = Request {
        mode: options.chosen.clone().in_mode(typed.mode).mode(),
        now: now(),
        ..Request::plain(&manifest, &plan, &site.session, &site.agent)
    };
    let explained = Explained {
        plan: &plan,
        trees: &plan::trees(&manifest, &arguments, &site),
        policy: &policy,
        ruling: policy.rule(&request),
        considered: policy.explain(&request),
        own_file: options.config.as_ref().map(|config| format!("{config}/{USER}")),
    };
    if screen.json() {
        screen.value(&explained.json());
    } else {
        explained.show(screen);
    }
    Ok(Status::Completed)
}

/// The rules to judge under: those in force, or one file alone.
fn policy(typed: &args::Explain, options: &Options) -> Result<Policy> {
    let state = real_path(&options.state)?.ok_or_else(Complaint::homeless)?;
    let rules = Rules { options, workspace: &options.cwd, state: &state };
    if !typed.only {
        return Ok(rules.load()?.policy);
    }
    let missing = Complaint::new("`--only` needs a file to judge under");
    let file = options.policy.as_deref().ok_or_else(|| missing.hint("name it with `--policy FILE`"))?;
    Ok(rules.only(file)?)
}

/// What is asked about.
struct Subject {
    /// The tool, where it is one that there is.
    tool: Option<Arc<dyn Tool>>,
    manifest: Manifest,
    arguments: Value,
}

/// The tool and the arguments that are asked about; a command is that of any tool of the class `bash`.
fn subject(typed: &args::Explain, options: &Options) -> Result<Subject> {
    match (&typed.command, &typed.tool) {
        (Some(command), _) => Ok(Subject {
            tool: None,
            manifest: Manifest::of_commands("bash"),
            arguments: json!({ "command": command }),
        }),
        (None, Some(tool)) => {
            let catalog = tools::catalog(options, &options.cwd, None)?;
            let entry = catalog.get(tool).map_err(Complaint::from)?;
            let arguments = call::json("--args", &typed.args)?;
            let (tool, manifest) = (Some(Arc::clone(entry.tool())), entry.manifest().clone());
            Ok(Subject { tool, manifest, arguments })
        }
        (None, None) => {
            let missing = Complaint::new("there is nothing to explain");
            Err(missing
                .hint("write `byleave explain --command 'git status'` or `byleave explain TOOL --args JSON`")
                .into())
        }
    }
}
