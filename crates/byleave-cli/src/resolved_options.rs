//! Resolves options from arguments, settings and the environment: the state directory, the person, the working directory.
//!
//! Only this module reads settings and paths from the environment. Other modules read it only for the abilities of a terminal,
//! and to start a program or pass the environment on.

use std::collections::BTreeSet;
use std::env;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use anyhow::Result;
use byleave_gate::core::id::TenantId;
use byleave_gate::core::policy::PathVariables;
use byleave_gate::core::question::{ApproverIdentity, Assurance};
use byleave_sandbox::guarantee::Guarantee;
use byleave_tools::HeldJobs;

use crate::agent_configs;
use crate::args::{AskArg, ColorArg, GlobalArgs};
use crate::config::{self, Config, ConfigFile, SettingSource, SettingValue};
use crate::console::is_styled;
use crate::error::CliError;

/// The options that hold for every command.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedOptions {
    /// The state directory, with the audit log.
    pub(crate) state: PathBuf,
    /// The parent state directory, if this one is a tenant's. No call may read that either.
    pub(crate) parent_state: Option<PathBuf>,
    /// The current directory, absolute and resolved.
    pub(crate) cwd: String,
    /// The rule file of this session, if one was named.
    pub(crate) policy: Option<PathBuf>,
    /// The home directory, if it is known.
    pub(crate) home: Option<String>,
    /// The directory of the person's own settings, if it is known.
    pub(crate) config: Option<String>,
    /// The tenant. One person has one tenant.
    pub(crate) tenant: TenantId,
    /// The person.
    pub(crate) person: ApproverIdentity,
    /// The settings, each with its origin.
    pub(crate) settings: Config,
    /// The editor and its arguments.
    pub(crate) editor: Vec<String>,
    /// `delete_file` is among the tools.
    pub(crate) allow_delete: bool,
    /// `echo` and `append_line` are among the tools, for people who try things out.
    pub(crate) demo_tools: bool,
    /// The background jobs that calls of this process hold. `None` in a process that serves many calls.
    pub(crate) held_jobs: Option<HeldJobs>,
    /// Colours are used on the person's screen.
    pub(crate) use_color: bool,
    /// Guarantees that commands run without, as the operator set.
    pub(crate) waived: BTreeSet<Guarantee>,
    /// Guarantees that must be fully enforced, although commands usually run without them.
    pub(crate) required: BTreeSet<Guarantee>,
}

impl ResolvedOptions {
    /// Resolves the options. Fails if a settings file does not load.
    pub(crate) fn new(global: &GlobalArgs) -> Result<Self> {
        Self::with(global, OptionSources::here()?, |found| Config::load(found.config_files(), variable))
    }

    /// Resolves the options for diagnosis. Settings that do not load are left out.
    pub(crate) fn ignoring_broken_config(global: &GlobalArgs) -> Result<Self> {
        Self::with(global, OptionSources::here()?, |found| {
            let without_files = |_| Config::load(Vec::new(), variable);
            Config::load(found.config_files(), variable)
                .or_else(without_files)
                .or_else(|_| Config::defaults())
        })
    }

    fn with(
        global: &GlobalArgs,
        found: OptionSources,
        load: impl Fn(&OptionSources) -> Result<Config>,
    ) -> Result<Self> {
        let word = |color: ColorArg| SettingValue::Text(color.as_str().to_owned());
        let dir = |dir: &PathBuf| SettingValue::Text(dir.to_string_lossy().into_owned());
        let chosen = load(&found)?.with_flag("color", "--color", global.color.map(word)).with_flag(
            "state",
            "--state",
            global.state.as_ref().map(dir),
        );
        let cwd = Path::new(&found.cwd);
        Ok(Self {
            // As typed, byte for byte, if it was typed.
            state: cwd.join(match &global.state {
                Some(dir) => dir.clone(),
                None => state(&chosen)?,
            }),
            parent_state: None,
            policy: global.policy.as_deref().map(|file| cwd.join(file)),
            tenant: TenantId::new("local")?,
            person: person(),
            allow_delete: chosen.allow_delete(),
            demo_tools: true,
            held_jobs: Some(HeldJobs::new()),
            waived: chosen.waived(),
            required: BTreeSet::new(),
            editor: editor(&chosen),
            use_color: is_styled(chosen.color(), io::stderr().is_terminal()),
            settings: chosen,
            home: found.home,
            config: found.config,
            cwd: found.cwd,
        })
    }

    /// Returns the options for calls in another directory, with the settings of that directory.
    pub(crate) fn in_directory(&self, cwd: String) -> Result<Self> {
        let moved = Self { cwd, ..self.clone() };
        let chosen = moved.reload()?;
        Ok(Self { allow_delete: chosen.allow_delete(), waived: chosen.waived(), settings: chosen, ..moved })
    }

    /// Returns the options for a gate whose tools are offered to a model.
    pub(crate) fn for_models(&self) -> Self {
        Self { demo_tools: false, held_jobs: None, ..self.clone() }
    }

    /// Returns the options for commands of many people on one machine. All processes of a command must be limited together,
    /// unless that was waived.
    #[cfg(feature = "serve")]
    pub(crate) fn for_many(&self) -> Self {
        let limits = Guarantee::ALL.into_iter().filter(|guarantee| guarantee.is_best_effort());
        let required = limits.filter(|guarantee| !self.waived.contains(guarantee)).collect();
        Self { required, held_jobs: None, ..self.clone() }
    }

    /// Returns the options for another tenant, whose audit log has its own directory. Its name must be valid for one.
    #[cfg(feature = "serve")]
    pub(crate) fn for_tenant(&self, tenant: TenantId) -> Self {
        let state = self.state.join("tenants").join(tenant.as_str());
        Self { state, parent_state: Some(self.state.clone()), tenant, ..self.clone() }
    }

    /// Returns the directory that contains all data of Byleave.
    pub(crate) fn root_state_dir(&self) -> &Path {
        self.parent_state.as_deref().unwrap_or(&self.state)
    }

    /// Returns the directory for data that can be fetched again.
    pub(crate) fn cache(&self) -> PathBuf {
        let said = set("XDG_CACHE_HOME").filter(|dir| dir.is_absolute());
        let usual = || self.home.as_ref().map(|home| Path::new(home).join(".cache"));
        said.or_else(usual).unwrap_or_else(|| self.state.join("cache"))
    }

    /// Returns the files that may contain settings here.
    pub(crate) fn config_files(&self) -> Vec<ConfigFile> {
        let (home, config, cwd) = (self.home.clone(), self.config.clone(), self.cwd.clone());
        OptionSources { home, config, cwd }.config_files()
    }

    /// Returns the directories of agents' settings: the person's own, or those of the current project.
    pub(crate) fn agent_places(&self, project: Option<PathBuf>) -> Result<agent_configs::SettingsDirs> {
        let homeless = || CliError::new("your home directory is not known").hint("set HOME");
        Ok(agent_configs::SettingsDirs {
            home: PathBuf::from(self.home.clone().ok_or_else(homeless)?),
            project,
            claude: set("CLAUDE_CONFIG_DIR"),
            codex: set("CODEX_HOME"),
            copilot: set("COPILOT_HOME"),
            xdg_config: set("XDG_CONFIG_HOME"),
            system: PathBuf::from("/etc"),
        })
    }

    /// Loads the settings again, or returns why they do not load.
    pub(crate) fn reload(&self) -> Result<Config> {
        Config::load(self.config_files(), variable)
    }

    /// Returns where questions go: as typed or set, else to the terminal if there is one, else to the given default.
    pub(crate) fn resolve_ask(&self, typed: Option<AskArg>, nobody_here: AskArg) -> AskArg {
        let word = |ask: AskArg| SettingValue::Text(ask.as_str().to_owned());
        let chosen = self.settings.clone().with_flag("ask", "--ask", typed.map(word));
        chosen.ask().unwrap_or_else(|| if at_terminal() { AskArg::Terminal } else { nobody_here })
    }
}

/// The inputs of the settings.
struct OptionSources {
    cwd: String,
    home: Option<String>,
    config: Option<String>,
}

impl OptionSources {
    fn here() -> Result<Self> {
        let cwd = env::current_dir().map_err(|error| {
            CliError::new(format!("cannot determine the current directory: {error}"))
                .hint("change to a directory that exists")
        })?;
        Ok(Self {
            cwd: text_of(&cwd)?,
            home: set("HOME").map(|home| real_path(&home)).transpose()?.flatten(),
            config: config().map(|dir| real_path(&dir)).transpose()?.flatten(),
        })
    }

    fn config_files(&self) -> Vec<ConfigFile> {
        config::files(&PathVariables {
            workspace: Some(&self.cwd),
            home: self.home.as_deref(),
            state: None,
            config: self.config.as_deref(),
        })
    }
}

/// Returns an environment variable that is not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn state(chosen: &Config) -> Result<PathBuf> {
    let said = chosen.state().map(|dir| match dir.strip_prefix("~") {
        Ok(rest) => set("HOME").map_or_else(|| dir.clone(), |home| home.join(rest)),
        Err(_) => dir,
    });
    if let (Some(dir), Some(SettingSource::Organisation(path, line) | SettingSource::User(path, line))) =
        (&said, chosen.get("state").map(|held| &held.origin))
        && !dir.is_absolute()
    {
        let what = format!("{}:{line}: `state` must not be a relative path", path.display());
        return Err(CliError::new(what).hint("begin the path with `/` or `~/`").into());
    }
    Ok(said.or_else(default_state_dir).ok_or_else(CliError::no_state_dir)?)
}

/// Returns the state directory that is used if nobody names another.
pub(crate) fn default_state_dir() -> Option<PathBuf> {
    set("XDG_STATE_HOME")
        .map(|dir| dir.join("byleave"))
        .or_else(|| set("HOME").map(|home| home.join(".local/state/byleave")))
}

/// Returns the editor from the settings, else from the environment.
fn editor(chosen: &Config) -> Vec<String> {
    let words = |text: String| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let said =
        || variable("VISUAL").or_else(|| variable("EDITOR")).map_or_else(|| vec!["vi".to_owned()], words);
    Some(chosen.editor()).filter(|words| !words.is_empty()).unwrap_or_else(said)
}

fn set(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn config() -> Option<PathBuf> {
    let dir = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(dir.join("byleave"))
}

/// Returns the absolute path with links resolved as far as it exists, as effects name it. Returns `None` for a relative path.
pub(crate) fn real_path(path: &Path) -> Result<Option<String>> {
    if !path.is_absolute() {
        return Ok(None);
    }
    let there = path.ancestors().find_map(|above| above.canonicalize().ok().map(|real| (above, real)));
    let Some((above, real)) = there else { return Ok(None) };
    let whole = path.strip_prefix(above).map_or_else(|_| real.clone(), |rest| real.join(rest));
    let plain: PathBuf = whole.components().collect();
    Ok(Some(text_of(&plain)?))
}

/// Returns the person's name for the audit log, and the assurance: a terminal suggests a person.
fn person() -> ApproverIdentity {
    let name = ["USER", "LOGNAME"].into_iter().find_map(variable);
    let name = name.unwrap_or_else(|| format!("user {}", rustix::process::getuid().as_raw()));
    let grade = if at_terminal() { Assurance::Terminal } else { Assurance::Program };
    ApproverIdentity { name, assurance: grade }
}

fn at_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Returns a path as text, as the audit log stores it.
pub(crate) fn text_of(path: &Path) -> Result<String> {
    let said = || {
        CliError::new(format!("the path `{}` is not valid UTF-8", path.display()))
            .hint("the audit log stores text only: use a directory whose name is UTF-8")
    };
    Ok(path.to_str().ok_or_else(said)?.to_owned())
}
