//! `byleave` without a command: the open questions, the agents that are set up, the policy, and the last change with its undo.

use std::collections::HashMap;
use std::time::SystemTime;

use anyhow::Result;
use byleave_copy::StoreUsage;
use byleave_gate::audit_log::sqlite::has_audit_log;
use byleave_gate::audit_log::{AuditLog as _, CallFilter, PageRequest, QuestionFilter, QuestionItem};
use byleave_gate::core::admin_action::AdminActionKind;
use byleave_gate::core::id::QuestionId;
use byleave_gate::ledger::Ledger as _;
use byleave_gate::policy_files::PolicyFile;
use byleave_terminal::text::fit;
use byleave_tools::{JobNote, running_jobs};
use serde_json::{Value, json};

use super::gc::{usage_json, usage_text};
use super::policy::profile::active_profiles;
use crate::active_policy::ActivePolicy;
use crate::app_context::AppContext;
use crate::call_display::format_count;
use crate::console::{Console, Tone, one_line};
use crate::exit_status::ExitStatus;
use crate::hook::{self, SessionFindings};
use crate::init_journal::{self, InitJournal};
use crate::json_output;
use crate::resolved_options::{ResolvedOptions, real_path};
use crate::short_ids::short;
use crate::terminal_approver::{question_text, short_texts};
use crate::time::{format_duration, now};
use crate::tool_catalog::{jobs_dir, workplace};
use crate::undo_target::{self, LastChange};

/// The maximum number of questions that are counted.
const QUESTIONS_MAX: usize = 1_000;
/// The number of questions that are shown.
const QUESTIONS_SHOWN: usize = 3;

/// The width of the labels.
const LABEL_COLUMNS: usize = 13;

/// The status of this installation, seen from the current directory.
struct Status {
    /// Newest first.
    questions: Vec<QuestionItem>,
    /// The questions that are shown, as the inbox words them.
    texts: HashMap<QuestionId, String>,
    /// Says which calls wait behind the questions.
    waiting_behind: Option<String>,
    /// The reason of the halt.
    halt: Option<String>,
    agents: Vec<InitJournal>,
    /// The policy in force, or why it does not load.
    policy: Result<PolicyStatus, String>,
    mode: &'static str,
    last_change: Option<LastChange>,
    /// The space that before-images take.
    store: Option<StoreUsage>,
    sessions: SessionFindings,
    jobs: Vec<RunningJob>,
}

/// A background job that runs now.
struct RunningJob {
    note: JobNote,
    /// What it runs, as the audit log tells it.
    summary: String,
}

impl RunningJob {
    fn text(&self) -> String {
        let ports = self.note.ports.iter().map(|port| match port.is_published {
            true => format!("http://localhost:{}", port.port),
            false => format!("port {} (closed outside)", port.port),
        });
        let ports = ports.collect::<Vec<_>>().join(", ");
        let ports = if ports.is_empty() { "no port".to_owned() } else { ports };
        format!("{}  {}: {ports}; `kill {}` ends it", short(&self.note.call), self.summary, self.note.pid)
    }

    fn to_json(&self) -> Value {
        let ports = self.note.ports.iter();
        let ports: Vec<Value> =
            ports.map(|port| json!({ "port": port.port, "published": port.is_published })).collect();
        json!({
            "call": self.note.call, "session": self.note.session, "pid": self.note.pid,
            "summary": self.summary, "ports": ports,
        })
    }
}

/// The policy in force.
struct PolicyStatus {
    /// The active profiles.
    profiles: Vec<&'static str>,
    /// The existing files.
    files: Vec<PolicyFile>,
}

impl PolicyStatus {
    /// Loads the policy of the current directory.
    fn read(options: &ResolvedOptions) -> Result<Self, String> {
        let state = real_path(&options.state).map_err(|error| format!("{error:#}"))?.unwrap_or_default();
        let policy = ActivePolicy { options, workspace: &options.cwd, state: &state };
        let loaded = policy.load().map_err(|error| error.to_string())?;
        let profiles = match active_profiles(&loaded.policy) {
            // Without a profile, the rules are those of `careful`.
            none if none.is_empty() => vec!["careful"],
            active => active,
        };
        Ok(Self { profiles, files: loaded.files })
    }
}

pub(crate) async fn run(options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let status = Status::read(options).await?;
    if screen.json() {
        screen.value(&status.to_json());
    } else {
        status.print(screen);
    }
    Ok(ExitStatus::Completed)
}

impl Status {
    /// Reads the status. It creates nothing: before the first call there is no audit log.
    async fn read(options: &ResolvedOptions) -> Result<Self> {
        let mut status = Self {
            questions: Vec::new(),
            texts: HashMap::new(),
            waiting_behind: None,
            halt: None,
            agents: init_journal::all(options)?,
            policy: PolicyStatus::read(options),
            mode: options.settings.mode().as_str(),
            last_change: None,
            store: store_usage(options)?,
            sessions: SessionFindings::default(),
            jobs: Vec::new(),
        };
        if has_audit_log(&options.state) {
            let context = AppContext::open_to_read(options, None)?;
            hook::end_abandoned(&context, options).await?;
            let all = PageRequest::with_limit(QUESTIONS_MAX);
            status.questions = context.audit_log.questions(QuestionFilter::default(), all).await?;
            let shown: Vec<QuestionId> =
                status.questions.iter().take(QUESTIONS_SHOWN).map(|item| item.question).collect();
            status.texts = short_texts(&context, options, &shown).await;
            status.waiting_behind = hook::waiting_behind(&context, options).await?;
            status.halt =
                context.audit_log.active_halt(&options.tenant).await?.map(|action| match action.kind {
                    AdminActionKind::Halt { reason } => reason,
                    _ => String::new(),
                });
            status.sessions = SessionFindings::read(options)?;
            for note in running_jobs(&jobs_dir(&options.state)) {
                let of_session = CallFilter { session: Some(note.session.clone()), ..CallFilter::default() };
                let calls =
                    context.audit_log.calls(of_session, PageRequest::with_limit(QUESTIONS_MAX)).await?;
                let call = calls.into_iter().find(|item| item.call == note.call);
                let summary = call.map_or_else(|| "bash".to_owned(), |item| item.call_summary.summary);
                status.jobs.push(RunningJob { note, summary });
            }
            status.last_change = undo_target::last_change(&context, options).await?;
        }
        Ok(status)
    }

    fn print(&self, screen: &mut Console) {
        if let Some(reason) = &self.halt {
            screen.message_with_tone(Tone::Bad, "halted:", &one_line(reason));
            screen.hint("no call starts until `byleave halt --lift`");
        }
        self.print_questions(screen);
        row(screen, "agents", &self.agents_text());
        row(screen, "policy", &self.policy_text());
        let last = match &self.last_change {
            Some(last) => format!("{}; `byleave undo` reverts it", one_line(&last.description)),
            None => "none in this directory".to_owned(),
        };
        row(screen, "last change", &last);
        if let Some(store) = self.store.as_ref().filter(|store| store.total_bytes() > 0) {
            row(screen, "undo store", &usage_text(store));
        }
        for (at, job) in self.jobs.iter().enumerate() {
            row(screen, if at == 0 { "jobs" } else { "" }, &one_line(&job.text()));
        }
        for line in self.sessions.lines() {
            row(screen, "sessions", &one_line(&line));
        }
        screen.hint("`byleave --help` lists the commands, `byleave doctor` checks the sandbox");
    }

    fn print_questions(&self, screen: &mut Console) {
        let count = self.questions.len();
        if count == 0 {
            return row(screen, "questions", "none open");
        }
        let number = match count {
            QUESTIONS_MAX => format!("{count} or more"),
            _ => count.to_string(),
        };
        row(screen, "questions", &format!("{number} open; `byleave inbox` shows and answers them"));
        let now = now();
        for item in self.questions.iter().take(QUESTIONS_SHOWN) {
            let ago = format_duration(now.saturating_sub(item.asked_at));
            let what = format!("{}  {ago} ago  {}", short(&item.question), question_text(&self.texts, item));
            let room = screen.columns().map(|columns| columns.saturating_sub(LABEL_COLUMNS).max(20));
            row(screen, "", &room.map_or_else(|| what.clone(), |room| fit(&what, room)));
        }
        if count > QUESTIONS_SHOWN {
            let more = (count - QUESTIONS_SHOWN) as u64;
            row(screen, "", &format!("and {}", format_count(more, "older question")));
        }
        if let Some(line) = &self.waiting_behind {
            row(screen, "", line);
        }
    }

    fn agents_text(&self) -> String {
        if self.agents.is_empty() {
            return "none set up; `byleave init` lists the agents".to_owned();
        }
        let text = |setup: &InitJournal| match &setup.project {
            Some(project) => format!("{} (in {})", setup.agent.name(), project.display()),
            None => setup.agent.name().to_owned(),
        };
        one_line(&self.agents.iter().map(text).collect::<Vec<_>>().join(", "))
    }

    fn policy_text(&self) -> String {
        let policy = match &self.policy {
            Ok(policy) => policy,
            Err(error) => return one_line(&format!("does not load, so calls are refused: {error}")),
        };
        let names = policy.files.iter().map(|file| file.path.display().to_string());
        let names: Vec<String> = std::iter::once("built-in rules".to_owned()).chain(names).collect();
        let profiles = policy.profiles.join(" and ");
        one_line(&format!("profile {profiles}; {}; mode {}", names.join(", "), self.mode))
    }

    fn to_json(&self) -> Value {
        let agent = |setup: &InitJournal| json!({ "agent": setup.agent.name(), "project": setup.project });
        let (profiles, files, error) = match &self.policy {
            Ok(policy) => {
                let files: Vec<Value> = policy.files.iter().map(|file| json!(file.path)).collect();
                (policy.profiles.clone(), files, None)
            }
            Err(error) => (Vec::new(), Vec::new(), Some(error)),
        };
        json!({
            "questions": self.questions.iter().map(json_output::question_item).collect::<Vec<_>>(),
            "halted": self.halt,
            "agents": self.agents.iter().map(agent).collect::<Vec<_>>(),
            "policy": { "profiles": profiles, "files": files, "mode": self.mode, "error": error },
            "store": self.store.as_ref().map(usage_json),
            "jobs": self.jobs.iter().map(RunningJob::to_json).collect::<Vec<_>>(),
            "sessions": {
                "asking": self.sessions.asking,
                "unreported": self.sessions.unreported,
            },
            "last_change": self.last_change.as_ref()
                .map(|last| json!({ "call": last.call, "description": last.description })),
        })
    }
}

/// Prints a label and a text beside it.
fn row(screen: &mut Console, label: &str, text: &str) {
    let label = screen.painted(Tone::Strong, &format!("{label:<LABEL_COLUMNS$}"));
    screen.line(&format!("{label}{text}"));
}

/// Returns the space that before-images take, if there is a store.
fn store_usage(options: &ResolvedOptions) -> Result<Option<StoreUsage>> {
    let workplace = workplace(options, &options.cwd);
    if !workplace.store_dir.is_dir() {
        return Ok(None);
    }
    Ok(Some(workplace.open_store()?.usage(SystemTime::now())?))
}
