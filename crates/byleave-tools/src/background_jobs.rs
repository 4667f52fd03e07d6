//! Background jobs: commands that continue to run after the call that started them.
//!
//! This process holds a job. The job belongs to the session that started it; other sessions cannot see it. It is confined like any command
//! and works on the real files. It must never outlive its session, its time limit, or the last handle on the job table.

pub(crate) mod ports;
mod tools;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byleave_gate::core::id::{SessionId, TenantId};
use byleave_gate::tool::{RunContext, ToolContext};
use byleave_sandbox::confinement::{Confinement, Network};
use byleave_sandbox::launch::{CommandStatus, LaunchError, RunningCommand, Stopper};
use byleave_sandbox::limits::LimitKind;
use byleave_sandbox::report;
use byleave_sandbox::tripwire::PlantedFile;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use self::ports::{JobPortListener, JobPorts};
pub use tools::{bash_kill, bash_output};

use crate::execution_env::{ExecutionEnv, NetworkAccess};
use crate::head_tail_buffer::HeadTailBuffer;
use crate::held_jobs::HeldJobs;
use crate::rehearsal_result;
use crate::run_command::{self, CommandNetwork, OutputStreams};

/// The key of a session. A session name is unique only within its tenant.
type SessionKey = (TenantId, SessionId);

/// The number of ended jobs that a session can still query.
const ENDED_MAX: usize = 16;

/// The maximum number of reported planted files at a time.
const SAID_MAX: usize = 20;

/// The resource limits of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobLimits {
    /// The number of jobs of a session that run at the same time.
    pub max_concurrent: usize,
    /// The maximum running time of a job.
    pub max_duration: Duration,
    /// The number of output bytes that are kept until the next query: the beginning and the end.
    pub max_output_bytes: usize,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self { max_concurrent: 8, max_duration: Duration::from_secs(8 * 3_600), max_output_bytes: 1 << 20 }
    }
}

/// A handle on the jobs of a process. When the last handle is dropped, all jobs end.
#[derive(Clone, Debug)]
pub struct Jobs(JobHolder);

/// Who holds the jobs.
#[derive(Clone, Debug)]
enum JobHolder {
    /// The process, also after the call that started a job.
    Process(Arc<JobTable>),
    /// The call that starts a job, until it ends.
    Call(HeldJobs),
    /// Nobody in this process. Another process with the same tools can.
    Elsewhere,
    /// Nobody.
    Nobody,
}

#[derive(Debug)]
struct JobTable {
    limits: JobLimits,
    jobs: Mutex<BTreeMap<SessionKey, Vec<Arc<Job>>>>,
    /// A lock that is held while a job starts, so that the count is correct.
    starting: Mutex<()>,
    started: AtomicU64,
}

/// A running or ended background command.
#[derive(Debug)]
struct Job {
    id: String,
    began: Instant,
    /// The confinement, and its start time by the clock of the file system.
    confined: (Confinement, (i64, i64)),
    stopper: Stopper,
    killed: AtomicBool,
    state: Mutex<JobState>,
    changed: watch::Sender<()>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct JobState {
    /// The output since the last query.
    unread: HeadTailBuffer,
    /// Other messages since the last query.
    said: Vec<String>,
    bytes: u64,
    end: Option<JobEnd>,
}

/// The end of a job.
#[derive(Clone, Debug)]
struct JobEnd {
    status: Option<CommandStatus>,
    how: String,
    /// Further messages about the end.
    lines: Vec<String>,
    after: Duration,
}

impl Jobs {
    /// Creates a job table.
    pub fn new(limits: JobLimits) -> Self {
        let (jobs, starting, started) = Default::default();
        Self(JobHolder::Process(Arc::new(JobTable { limits, jobs, starting, started })))
    }

    /// Creates a handle for a process that ends with its call. A job lasts as long as the call that starts it.
    pub const fn held(held: HeldJobs) -> Self {
        Self(JobHolder::Call(held))
    }

    /// Creates a handle without jobs, for a process whose calls may continue in one that has them. The tool is the same in both.
    pub const fn elsewhere() -> Self {
        Self(JobHolder::Elsewhere)
    }

    /// Creates a handle without jobs.
    pub const fn disabled() -> Self {
        Self(JobHolder::Nobody)
    }

    /// Ends all jobs of a session and all their processes. Blocks until they are gone.
    pub fn end_session(&self, tenant: &TenantId, session: &SessionId) {
        let JobHolder::Process(table) = &self.0 else { return };
        // Wait for a job that is being started, and end it with the others.
        let turn = locked(&table.starting);
        let whose = (tenant.clone(), session.clone());
        let jobs = locked(&table.jobs).remove(&whose).unwrap_or_default();
        end(&jobs);
        drop(turn);
    }

    /// Returns an error if this process cannot have jobs.
    pub(crate) fn check_available(&self) -> Result<(), String> {
        if self.held_by_call().is_some() { Ok(()) } else { self.table().map(drop) }
    }

    /// Checks whether jobs continue after the calls that start them.
    pub(crate) const fn outlive_calls(&self) -> bool {
        matches!(self.0, JobHolder::Process(_))
    }

    /// Checks whether the tool has arguments for jobs, also if no model is offered them.
    pub(crate) const fn are_known(&self) -> bool {
        !matches!(self.0, JobHolder::Nobody)
    }

    /// Returns the jobs that calls hold, if calls hold them here.
    pub(crate) const fn held_by_call(&self) -> Option<&HeldJobs> {
        match &self.0 {
            JobHolder::Call(held) => Some(held),
            JobHolder::Process(_) | JobHolder::Elsewhere | JobHolder::Nobody => None,
        }
    }

    /// Starts a command as a job and returns its id. Its time limit is that of the table, or the given one if it is shorter.
    pub(crate) fn start(
        &self,
        workplace: &ExecutionEnv,
        mut confinement: Confinement,
        text: &str,
        time: Option<Duration>,
        run: &RunContext,
    ) -> Result<String, String> {
        let table = self.table()?;
        let _turn = locked(&table.starting);
        let (session, limits) = (&whose(&run.context), &table.limits);
        let at_work = table.of(session).iter().filter(|job| job.is_running()).count();
        if at_work >= limits.max_concurrent {
            return Err(format!(
                "{at_work} jobs of this session are running, which is the maximum; end one with `bash_kill`, or wait for one with `bash_output`: {}",
                table.list(session)
            ));
        }
        let time = time.map_or(limits.max_duration, |time| time.min(limits.max_duration));
        (confinement.limits.wall_time, confinement.limits.cpu_time) =
            (time, confinement.limits.cpu_time.max(time));
        let access = prepare_network(&mut confinement);
        let since = rehearsal_result::coarse_clock_now();
        let output = (text, OutputStreams::Merged);
        // A job runs for hours, and nobody would see when it pushes.
        let network = CommandNetwork { access, git: None };
        let mut running = run_command::start_command(workplace, &confinement, output, network, run)?;
        let id = table.started.fetch_add(1, Ordering::Relaxed) + 1;
        let stopper = running.stopper().map_err(run_command::describe_error)?;
        let job = Arc::new(Job::new(
            format!("job-{id}"),
            stopper,
            limits.max_output_bytes,
            (confinement.clone(), since),
        ));
        let ports = running.publisher().zip(run_command::host_policy(workplace, run));
        let ports = ports.map(|(publisher, policy)| JobPorts {
            id: job.id.clone(),
            publisher,
            policy,
            can_ask: true,
        });
        running.forward_output(job.ear());
        running.on_planted(job.planted());
        let (attended, listened) = (Arc::clone(&job), Arc::clone(&job));
        let thread = std::thread::Builder::new().name("byleave-job".into());
        let watch = ports.map(|ports| {
            let closing = Arc::clone(&ports.publisher);
            let thread = std::thread::Builder::new().name("byleave-ports".into());
            thread.spawn(move || ports.watch(&*listened)).map(|_| closing)
        });
        let watch = watch.transpose();
        let watch = watch.map_err(|error| format!("the job was not started: {error}; try again later"))?;
        let thread = thread.spawn(move || {
            attended.wait(running, &confinement);
            if let Some(publisher) = watch {
                publisher.close();
            }
        });
        let thread = thread.map_err(|error| format!("the job was not started: {error}; try again later"))?;
        *locked(&job.thread) = Some(thread);
        let id = job.id.clone();
        table.add(session, job);
        Ok(id)
    }

    fn table(&self) -> Result<&JobTable, String> {
        match &self.0 {
            JobHolder::Process(table) => Ok(table),
            JobHolder::Call(_) | JobHolder::Elsewhere | JobHolder::Nobody => Err(
                "there are no background jobs here, because this process ends with the call; run the command without `background`, with a `timeout` that is long enough".into()
            ),
        }
    }

    fn find(&self, site: &ToolContext, id: &str) -> Result<Arc<Job>, String> {
        let session = &whose(site);
        let table = self.table()?;
        table.of(session).into_iter().find(|job| job.id == id).ok_or_else(|| {
            let id = id.escape_debug();
            format!("no such job: `{id}`; this session has {}", table.list(session))
        })
    }
}

/// Gives a job a network in which it can serve. One that may reach nothing has a network in which everything is refused.
pub(crate) fn prepare_network(confinement: &mut Confinement) -> NetworkAccess {
    let access = match confinement.network {
        Network::Off => NetworkAccess::Blocked,
        Network::Proxied | Network::Host => NetworkAccess::Granted,
    };
    if confinement.network == Network::Off {
        confinement.network = Network::Proxied;
    }
    confinement.ports.can_publish = confinement.network == Network::Proxied;
    access
}

fn whose(site: &ToolContext) -> SessionKey {
    (site.tenant.clone(), site.session.clone())
}

impl JobTable {
    fn of(&self, session: &SessionKey) -> Vec<Arc<Job>> {
        locked(&self.jobs).get(session).cloned().unwrap_or_default()
    }

    fn add(&self, session: &SessionKey, job: Arc<Job>) {
        let mut jobs = locked(&self.jobs);
        let jobs = jobs.entry(session.clone()).or_default();
        let ended = jobs.iter().filter(|job| !job.is_running()).count();
        let mut over = ended.saturating_sub(ENDED_MAX);
        // The oldest jobs are removed first.
        jobs.retain(|job| {
            let goes = over > 0 && !job.is_running();
            over -= usize::from(goes);
            !goes
        });
        jobs.push(job);
    }

    /// Returns the jobs of a session on one line.
    fn list(&self, session: &SessionKey) -> String {
        let jobs = self.of(session);
        if jobs.is_empty() {
            return "none; `bash` starts one with `background: true`".into();
        }
        let word = |job: &Arc<Job>| if job.is_running() { "runs" } else { "has ended" };
        let told: Vec<String> = jobs.iter().map(|job| format!("`{}` ({})", job.id, word(job))).collect();
        told.join(", ")
    }
}

impl Drop for JobTable {
    fn drop(&mut self) {
        let jobs = std::mem::take(&mut *locked(&self.jobs));
        end(&jobs.into_values().flatten().collect::<Vec<_>>());
    }
}

/// Ends all these jobs at once, and waits until nothing of them is left.
fn end(jobs: &[Arc<Job>]) {
    jobs.iter().for_each(|job| job.kill());
    for job in jobs {
        let thread = locked(&job.thread).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(job = job.id, "cannot wait for the end of a job");
        }
    }
}

impl Job {
    fn new(
        id: String,
        stopper: Stopper,
        output_bytes_max: usize,
        confined: (Confinement, (i64, i64)),
    ) -> Self {
        let state =
            JobState { unread: HeadTailBuffer::new(output_bytes_max), said: Vec::new(), bytes: 0, end: None };
        Self {
            id,
            began: Instant::now(),
            confined,
            stopper,
            killed: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: watch::Sender::new(()),
            thread: Mutex::new(None),
        }
    }

    fn is_running(&self) -> bool {
        locked(&self.state).end.is_none()
    }

    /// Kills the job and all its processes. It is not an error if the job has already ended.
    fn kill(&self) {
        if self.is_running() {
            self.killed.store(true, Ordering::Relaxed);
        }
        if let Err(error) = self.stopper.stop() {
            tracing::error!(%error, job = self.id, "cannot stop a job");
        }
    }

    fn ear(self: &Arc<Self>) -> impl FnMut(&[u8]) + Send + Sync + 'static {
        let job = Arc::clone(self);
        move |bytes| {
            let mut state = locked(&job.state);
            state.bytes += bytes.len() as u64;
            state.unread.add(bytes);
            drop(state);
            job.changed.send_replace(());
        }
    }

    /// Returns a listener that reports planted files when they are made harmless.
    fn planted(self: &Arc<Self>) -> impl FnMut(&[PlantedFile]) + Send + Sync + 'static {
        let job = Arc::clone(self);
        move |planted| {
            let mut state = locked(&job.state);
            state.said.extend(planted.iter().map(report::describe_planted));
            // There may be one message for every file, so their number is limited.
            state.said.truncate(SAID_MAX);
            drop(state);
            job.changed.send_replace(());
        }
    }

    /// Adds a message for the next query.
    fn say(&self, line: String) {
        let mut state = locked(&self.state);
        if state.said.len() < SAID_MAX {
            state.said.push(line);
        }
        drop(state);
        self.changed.send_replace(());
    }

    /// Waits for the end of the job, and stores it.
    fn wait(&self, running: RunningCommand, confinement: &Confinement) {
        let end = match running.finish() {
            Ok(outcome) => {
                let how = match outcome.limit_exceeded {
                    Some(LimitKind::Wall) => "timed out".into(),
                    _ if self.killed.load(Ordering::Relaxed) => "killed".into(),
                    _ => outcome.status.to_string(),
                };
                let lines = report::describe_outcome(confinement, &outcome);
                JobEnd { status: Some(outcome.status), how, lines, after: self.began.elapsed() }
            }
            Err(error @ LaunchError::Tripwire(_)) => {
                let how = format!("ended by Byleave: {error}");
                JobEnd { status: None, how, lines: Vec::new(), after: self.began.elapsed() }
            }
            Err(error) => JobEnd {
                status: None,
                how: error.to_string(),
                lines: Vec::new(),
                after: self.began.elapsed(),
            },
        };
        locked(&self.state).end = Some(end);
        self.changed.send_replace(());
    }
}

impl JobPortListener for Job {
    fn is_running(&self) -> bool {
        Job::is_running(self)
    }

    fn say(&self, line: String) {
        Job::say(self, line);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
