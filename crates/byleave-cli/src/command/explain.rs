//! `byleave explain`: shows how a call is parsed, its effects, the rules that match and the decision. It runs and writes nothing.

mod advice;
mod batch;
mod evaluation;
mod quoting;
mod report;
mod tree;

use std::sync::Arc;

use anyhow::Result;
use byleave_gate::core::id::{AgentId, SessionId};
use byleave_gate::core::manifest::{Manifest, PermissionClass};
use byleave_gate::core::policy::{EffectStage, Policy, PolicyRequest};
use byleave_gate::plan;
use byleave_gate::policy_case::CaseDefaults;
use byleave_gate::policy_files::USER_FILE_NAME;
use byleave_gate::tool::{Tool, ToolContext};
use clap::Args as Group;
use serde_json::{Value, json};

use self::evaluation::CallExplanation;
use crate::active_policy::ActivePolicy;
use crate::args::ModeArg;
use crate::command::call;
use crate::console::Console;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::{ResolvedOptions, real_path};
use crate::time::now;
use crate::tool_catalog;

#[derive(Debug, Group)]
pub(crate) struct ExplainArgs {
    /// Tool
    #[arg(conflicts_with = "command")]
    pub(crate) tool: Option<String>,
    /// Arguments: JSON, `@FILE`, or `-` for stdin
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(crate) args: String,
    /// Shell command, explained as a call of a tool of class `bash`
    #[arg(long, value_name = "TEXT")]
    pub(crate) command: Option<String>,
    /// Use only the file of `--policy`; with `--batch`, only the rules of each case
    #[arg(long)]
    pub(crate) only: bool,
    /// Evaluate cases from stdin, one JSON object per line
    ///
    /// A case has `id`, `tool`, `input`, `rules`, `default`, `cwd`, `home` and `workspace`. It is evaluated with the built-in rules and
    /// its own. The output has one line per case, with `id`, `verdict` and `because`.
    #[arg(long, conflicts_with_all = ["tool", "command"])]
    pub(crate) batch: bool,
    /// How much is asked [default: setting `mode`, or confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
}

pub(crate) async fn run(
    typed: &ExplainArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    if typed.batch {
        if options.policy.is_some() {
            let both =
                CliError::new("a batch is evaluated with the built-in rules and the rules of each case");
            return Err(both.hint("omit `--policy`; `--only` excludes the built-in rules").into());
        }
        // The settings of this machine do not apply to cases, so that they mean the same everywhere.
        let mode = typed.mode.map(|_| options.settings.clone().with_mode(typed.mode).mode());
        let setting = CaseDefaults {
            cwd: options.cwd.clone(),
            home: options.home.clone(),
            built_in: !typed.only,
            mode: mode.unwrap_or_default(),
        };
        batch::run(&mut std::io::stdin().lock(), &setting, screen)?;
        return Ok(ExitStatus::Completed);
    }
    let ExplainSubject { tool, manifest, arguments } = subject(typed, options)?;
    let (session, agent) = (SessionId::new("cli")?, AgentId::new("cli")?);
    let site =
        ToolContext { tenant: options.tenant.clone(), session, agent, cwd: options.cwd.clone().into() };
    let planned = match tool.as_ref().and_then(|tool| tool.plan(&arguments, &site)) {
        Some(planned) => planned.await,
        None => plan::plan_by_class(&manifest, &arguments, &site),
    };
    let mut plan = planned.map_err(|fault| {
        CliError::new(format!("cannot predict the effects of the call: {fault}; such a call is refused"))
            .hint("`byleave tools show TOOL` shows which arguments it takes")
    })?;
    let policy = policy(typed, options)?;
    plan::name_stored_content(&mut plan, &policy);
    let on_copy = tool
        .as_ref()
        .and_then(|tool| tool.as_rehearsable())
        .is_some_and(|tool| tool.runs_on_copy(&arguments));
    let on_copy = on_copy || manifest.permission_class == PermissionClass::Bash;
    let request = PolicyRequest {
        stage: if on_copy { EffectStage::PredictedOnCopy } else { EffectStage::Predicted },
        mode: options.settings.clone().with_mode(typed.mode).mode(),
        now: now(),
        ..PolicyRequest::new(&manifest, &plan, &site.session, &site.agent)
    };
    let explained = CallExplanation {
        plan: &plan,
        trees: &plan::command_trees(&manifest, &arguments, &site),
        policy: &policy,
        decision: policy.evaluate(&request),
        considered: policy.explain(&request),
        own_file: options.config.as_ref().map(|config| format!("{config}/{USER_FILE_NAME}")),
    };
    if screen.json() {
        screen.value(&explained.json());
    } else {
        explained.show(screen);
    }
    Ok(ExitStatus::Completed)
}

/// Loads the policy: the one in force, or one file alone.
fn policy(typed: &ExplainArgs, options: &ResolvedOptions) -> Result<Policy> {
    let state = real_path(&options.state)?.ok_or_else(CliError::no_state_dir)?;
    let rules = ActivePolicy { options, workspace: &options.cwd, state: &state };
    if !typed.only {
        return Ok(rules.load()?.policy);
    }
    let missing = CliError::new("`--only` needs a policy file");
    let file = options.policy.as_deref().ok_or_else(|| missing.hint("name it with `--policy FILE`"))?;
    Ok(rules.load_only(file)?)
}

/// The call to explain.
struct ExplainSubject {
    /// The tool, if it exists.
    tool: Option<Arc<dyn Tool>>,
    manifest: Manifest,
    arguments: Value,
}

/// Returns the tool and the arguments to explain. A command is explained as that of any tool of the class `bash`.
fn subject(typed: &ExplainArgs, options: &ResolvedOptions) -> Result<ExplainSubject> {
    match (&typed.command, &typed.tool) {
        (Some(command), _) => Ok(ExplainSubject {
            tool: None,
            manifest: Manifest::for_commands("bash"),
            arguments: json!({ "command": command }),
        }),
        (None, Some(tool)) => {
            let catalog = tool_catalog::catalog(options, &options.cwd, None)?;
            let entry = catalog.get(tool).map_err(CliError::from)?;
            let arguments = call::json("--args", &typed.args)?;
            let (tool, manifest) = (Some(Arc::clone(entry.tool())), entry.manifest().clone());
            Ok(ExplainSubject { tool, manifest, arguments })
        }
        (None, None) => {
            let missing = CliError::new("there is nothing to explain");
            Err(missing
                .hint("write `byleave explain --command 'git status'` or `byleave explain TOOL --args JSON`")
                .into())
        }
    }
}
