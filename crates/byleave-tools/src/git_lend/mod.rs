//! Lends a call a Git transport. The gate connects to the host outside, with the person's keys, and a program inside gets only the
//! connection.
//!
//! ```text
//! inside │ git push ─▶ 127.0.0.1:9419 ─▶ GitLender ─▶ ssh, or HTTPS with the credential helper ─▶ host     │ outside
//!                                        policy, URLs that the call names, refs that were approved
//! ```
//!
//! Settings in the environment of the command lead each URL that the call names to the port inside. So Git inside speaks to the gate,
//! which chooses the repository by its own table. The gate reads the refs of a push before it passes anything on. In a rehearsal it
//! reads the refs of the server, notes what the client would send, and sends nothing. A run after an approval is lent exactly that.

mod https;
mod outside;
mod pack_end;
mod packets;
mod protocol;
mod remotes;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::git_transport::{GitRefUpdate, GitScheme, GitService, GitTransport, GitUrl};
use byleave_gate::core::outcome::ExecutionStatus;
use byleave_gate::core::rehearsal::Rehearsal;
use byleave_gate::tool::RunContext;
use byleave_sandbox::confinement::{Confinement, Network};
use byleave_sandbox::from_plan::{CallHostPolicy, GitLending};
use byleave_sandbox::net::egress::{BoxFuture, InsideService};
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc;

use self::https::{HttpsRemote, RequestBody};
use self::outside::{PersonsGit, SshTransport, drop_messages, ssh_message};
use self::pack_end::PackEnd;
use self::packets::{PacketReader, ServerRefs};
use self::protocol::{Packet, PushCommands, ServiceRequest, data_line};
use self::remotes::NamedUrls;
use crate::execution_env::{ExecutionEnv, NetworkAccess};
use crate::run_command::host_policy;

/// The port of the loopback inside.
const PORT: u16 = 9419;
/// The maximum number of connections that a call is lent for fetching: a fetch needs one or two, and each submodule as many.
const FETCHES_MAX: usize = 16;
/// The maximum length of a request for commits.
const REQUEST_BYTES_MAX: usize = 8 << 20;
/// Sub-commands of Git that use a transport.
const COMMANDS: [&str; 7] = ["push", "fetch", "pull", "clone", "ls-remote", "submodule", "remote"];
/// Options before a sub-command of Git that have a value.
const VALUE_OPTIONS: [&str; 4] = ["-C", "-c", "--git-dir", "--work-tree"];
/// What a client in a rehearsal is told.
const WAITS: &str = "nothing was sent: it waits for an approval";

/// The transports of one run.
pub(crate) struct GitLender {
    remotes: Vec<Remote>,
    redirect: Option<String>,
    policy: CallHostPolicy,
    own: PersonsGit,
    stage: Stage,
    uses_git: bool,
    state: Mutex<LendState>,
}

/// A URL that the call names, and that a rule lends.
struct Remote {
    text: String,
    url: GitUrl,
    /// The path under which Git inside asks for it.
    path: String,
}

enum Stage {
    /// Nothing is sent.
    Rehearsal,
    /// These were approved.
    Granted(Vec<GitTransport>),
}

#[derive(Default)]
struct LendState {
    /// The transports that were wanted or used.
    seen: Vec<GitTransport>,
    pushes: usize,
    fetches: usize,
}

/// A client inside.
struct Client {
    reader: PacketReader<tokio::net::tcp::OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl GitLender {
    /// Creates the lender of a run. `None` if no rule lends a transport to a host that the call names.
    pub(crate) fn for_run(
        workplace: &ExecutionEnv,
        run: &RunContext,
        cwd: &Path,
        access: NetworkAccess,
    ) -> Option<Arc<Self>> {
        if !run.policy.as_ref()?.rules().any(|rule| rule.lends_git) {
            return None;
        }
        let policy = host_policy(workplace, run)?;
        let named = NamedUrls::find(&run.plan, cwd);
        let is_lent = |url: &GitUrl| {
            let both = [GitService::UploadPack, GitService::ReceivePack];
            let lending = |service| policy.git_lending(&url.host, url.port(), service);
            both.into_iter().any(|service| !matches!(lending(service), GitLending::Refused(_)))
        };
        let lent = named.urls.into_iter().filter(|(_, url)| is_lent(url)).enumerate();
        let remotes: Vec<Remote> = lent
            .map(|(at, (text, url))| {
                let path = format!("/{at}/{}/{}", url.host, url.path.trim_start_matches('/'));
                Remote { text, url, path }
            })
            .collect();
        if remotes.is_empty() {
            return None;
        }
        let stage = match access {
            NetworkAccess::Blocked => Stage::Rehearsal,
            NetworkAccess::Granted => Stage::Granted(run.approved_git.clone()),
        };
        let own = PersonsGit::new(&workplace.environment, &workplace.workspace);
        let (redirect, uses_git) = (named.redirect, uses_transport(&run.plan));
        Some(Arc::new(Self { remotes, redirect, policy, own, stage, uses_git, state: Mutex::default() }))
    }

    /// Returns the hosts of the URLs. A yes about one is for what is lent, and not for a connection of the command's own.
    pub(crate) fn hosts(&self) -> BTreeSet<(String, u16)> {
        self.remotes.iter().map(|remote| (remote.url.host.clone(), remote.url.port())).collect()
    }

    /// Returns whether the command uses a transport that is lent only after a rehearsal.
    pub(crate) fn needs_rehearsal(&self) -> bool {
        let asks = |remote: &Remote| {
            let lending = |service| self.policy.git_lending(&remote.url.host, remote.url.port(), service);
            lending(GitService::UploadPack) == GitLending::IfApproved
        };
        self.uses_git && self.remotes.iter().any(asks)
    }

    /// Leads the URLs to this lender, if the command has a network, or needs one for what was approved.
    pub(crate) fn prepare(&self, confinement: &mut Confinement) {
        let is_approved = matches!(&self.stage, Stage::Granted(approved) if !approved.is_empty());
        if confinement.network == Network::Off && is_approved {
            confinement.network = Network::Proxied;
        }
        if confinement.network != Network::Proxied {
            return;
        }
        confinement.ports.granted.insert(PORT);
        let environment = &mut confinement.environment;
        let count = environment.get("GIT_CONFIG_COUNT").and_then(|count| count.parse::<usize>().ok());
        let mut count = count.unwrap_or_default();
        let mut set = |key: String, value: String| {
            environment.insert(format!("GIT_CONFIG_KEY_{count}"), key);
            environment.insert(format!("GIT_CONFIG_VALUE_{count}"), value);
            count = count.saturating_add(1);
        };
        set("protocol.version".into(), "2".into());
        set("protocol.git.allow".into(), "always".into());
        for remote in &self.remotes {
            set(format!("url.git://127.0.0.1:{PORT}{}.insteadOf", remote.path), remote.text.clone());
        }
        environment.insert("GIT_CONFIG_COUNT".into(), count.to_string());
        // A proxy in the settings of the repository does not count.
        environment.insert("GIT_PROXY_COMMAND".into(), String::new());
    }

    /// Adds what was wanted or used to the result of a run.
    pub(crate) fn report(&self, seen: &mut Rehearsal) {
        let mut transports = self.state.lock().seen.clone();
        // Git went where the settings of the repository sent it, and found no network there.
        let went_elsewhere = self.uses_git && seen.status == ExecutionStatus::Failed;
        if let Some(redirect) = self.redirect.as_ref().filter(|_| went_elsewhere) {
            transports = self.remotes.iter().map(|remote| remote.problem(redirect)).collect();
        }
        if let Stage::Granted(_) = self.stage {
            let used = transports.into_iter().filter(|lent| lent.problem.is_none()).map(|lent| lent.host);
            seen.reached_hosts.extend(used);
            seen.reached_hosts.sort();
            seen.reached_hosts.dedup();
            return;
        }
        seen.git_transports = transports;
    }

    /// Answers a client. An error is for the client to print.
    async fn lend(&self, client: &mut Client) -> Result<(), String> {
        let Some(Packet::Data(line)) = client.reader.packet().await? else {
            return Err("the request is not one of Git".to_owned());
        };
        let request = ServiceRequest::parse(&line).map_err(|error| error.to_string())?;
        let remote = self.remotes.iter().find(|remote| remote.path == request.path);
        let remote = remote.ok_or("no rule lends this repository to the call")?;
        let approved = self.admit(remote, request.service)?;
        let ended = match request.service {
            GitService::UploadPack => self.lend_fetch(remote, &request, client).await,
            GitService::ReceivePack => self.lend_push(remote, approved.as_deref(), client).await,
        };
        ended.inspect_err(|why| {
            if why != WAITS {
                self.note(GitTransport { problem: Some(why.clone()), ..remote.transport(request.service) });
            }
        })
    }

    /// Checks whether a service is lent, and counts it. Returns the refs that were approved, if the rules do not allow it by themselves.
    fn admit(&self, remote: &Remote, service: GitService) -> Result<Option<Vec<GitRefUpdate>>, String> {
        if let Some(redirect) = &self.redirect {
            return Err(format!("nothing is lent, because {redirect}"));
        }
        let (host, port) = (&remote.url.host, remote.url.port());
        let approved = match (&self.stage, self.policy.git_lending(host, port, service)) {
            (_, GitLending::Refused(why)) => return Err(why),
            (Stage::Rehearsal, _) | (_, GitLending::Allowed) => None,
            (Stage::Granted(approved), GitLending::IfApproved) => {
                let url = remote.url.to_string();
                let is_same = |lent: &&GitTransport| {
                    lent.url == url && lent.service == service && lent.problem.is_none()
                };
                let lent = approved.iter().find(is_same);
                Some(lent.ok_or_else(|| format!("nobody approved this use of `{url}`"))?.updates.clone())
            }
        };
        let mut state = self.state.lock();
        match service {
            GitService::ReceivePack if state.pushes > 0 => {
                return Err("a call is lent one push, and it was used".to_owned());
            }
            GitService::UploadPack if state.fetches >= FETCHES_MAX => {
                return Err("the call has fetched too often".to_owned());
            }
            GitService::ReceivePack => state.pushes = state.pushes.saturating_add(1),
            GitService::UploadPack => state.fetches = state.fetches.saturating_add(1),
        }
        Ok(approved)
    }

    fn note(&self, lent: GitTransport) {
        let mut state = self.state.lock();
        if !state.seen.contains(&lent) {
            state.seen.push(lent);
        }
    }

    fn is_rehearsal(&self) -> bool {
        matches!(self.stage, Stage::Rehearsal)
    }

    async fn lend_fetch(
        &self,
        remote: &Remote,
        request: &ServiceRequest,
        client: &mut Client,
    ) -> Result<(), String> {
        let service = GitService::UploadPack;
        match remote.url.scheme {
            GitScheme::Ssh => {
                let ssh = self.own.ssh(&remote.url, service, request.version_2).await?;
                let SshTransport { input, output, mut child } = ssh;
                let mut server = PacketReader::new(output);
                let first = match server.packet().await? {
                    Some(Packet::Data(line)) if line.starts_with(b"ERR ") => {
                        return Err(format!(
                            "the server says: {}",
                            String::from_utf8_lossy(&line).trim_end()
                        ));
                    }
                    Some(first) => first,
                    None => return Err(ssh_message(child).await),
                };
                self.note(remote.transport(service));
                if self.is_rehearsal() {
                    return Err(WAITS.to_owned());
                }
                drop_messages(&mut child);
                client.writer.write_all(&first.to_bytes()).await.ok();
                // The connection may end at either side. Git inside reports what it missed.
                client.relay(input, server).await.ok();
                drop(child);
                Ok(())
            }
            GitScheme::Https => {
                if !request.version_2 {
                    return Err("Git inside must speak version 2 of its protocol".to_owned());
                }
                let mut server = HttpsRemote::new(&self.own, &remote.url).await?;
                let refs = server.refs(&self.own, service, true).await?;
                let refs = packets::without_service_line(&refs)?;
                if !packets::speaks_version_2(refs) {
                    return Err("the server does not speak version 2 of the protocol".to_owned());
                }
                self.note(remote.transport(service));
                if self.is_rehearsal() {
                    return Err(WAITS.to_owned());
                }
                client.writer.write_all(refs).await.ok();
                self.fetch_by_https(&server, client).await
            }
        }
    }

    /// Passes on requests of version 2 one by one, until the client ends.
    async fn fetch_by_https(&self, server: &HttpsRemote, client: &mut Client) -> Result<(), String> {
        loop {
            let mut request = Vec::new();
            loop {
                // A client that is gone needs no more.
                let Ok(Some(packet)) = client.reader.packet().await else { return Ok(()) };
                request.extend(packet.to_bytes());
                if packet == Packet::Flush {
                    break;
                }
                if request.len() > REQUEST_BYTES_MAX {
                    return Err("the request is too long".to_owned());
                }
            }
            // A flush alone is the end.
            if request.len() == 4 {
                return Ok(());
            }
            let body = RequestBody::Whole(Some(request.into()));
            let response = server.post(GitService::UploadPack, true, body).await?;
            client.relay_response(response.into_body()).await?;
        }
    }

    async fn lend_push(
        &self,
        remote: &Remote,
        approved: Option<&[GitRefUpdate]>,
        client: &mut Client,
    ) -> Result<(), String> {
        let service = GitService::ReceivePack;
        match remote.url.scheme {
            GitScheme::Ssh => {
                let SshTransport { mut input, output, mut child } =
                    self.own.ssh(&remote.url, service, false).await?;
                let mut server = PacketReader::new(output);
                let refs = match server.refs().await? {
                    ServerRefs::Complete(refs) => refs,
                    ServerRefs::Nothing => return Err(ssh_message(child).await),
                };
                drop_messages(&mut child);
                client.writer.write_all(&refs.to_bytes()).await.ok();
                let Some((commands, bytes)) = self.checked_push(remote, approved, &refs, client).await else {
                    // The server waits for commands, and a flush says that there are none.
                    input.write_all(&Packet::Flush.to_bytes()).await.ok();
                    return Ok(());
                };
                // A push that breaks off changes nothing on the server, and Git inside says so.
                if input.write_all(&bytes).await.is_ok() {
                    client.relay_push(&commands, input, server).await.ok();
                }
                drop(child);
                Ok(())
            }
            GitScheme::Https => {
                let mut server = HttpsRemote::new(&self.own, &remote.url).await?;
                let body = server.refs(&self.own, service, false).await?;
                let refs = packets::parse_refs(packets::without_service_line(&body)?)?;
                client.writer.write_all(&refs.to_bytes()).await.ok();
                let Some((commands, bytes)) = self.checked_push(remote, approved, &refs, client).await else {
                    return Ok(());
                };
                client.push_by_https(&commands, bytes, &server).await
            }
        }
    }

    /// Reads the commands of a push, and returns them if they may be passed on. Otherwise the client is told why not.
    async fn checked_push(
        &self,
        remote: &Remote,
        approved: Option<&[GitRefUpdate]>,
        refs: &protocol::RefAdvertisement,
        client: &mut Client,
    ) -> Option<(PushCommands, Vec<u8>)> {
        let mut commands = PushCommands::default();
        let mut bytes = Vec::new();
        let why = loop {
            // A client with nothing to send ends here.
            let Ok(Some(packet)) = client.reader.packet().await else { return None };
            bytes.extend(packet.to_bytes());
            match packet {
                Packet::Data(line) => {
                    if let Err(error) = commands.add_line(&line) {
                        break Some(error.to_string());
                    }
                }
                Packet::Flush => break commands.finish().err().map(|error| error.to_string()),
                Packet::Delimiter | Packet::ResponseEnd => break Some("the push cannot be read".to_owned()),
            }
        };
        if why.is_none() && commands.updates.is_empty() {
            return None;
        }
        let why = why.or_else(|| refs.check_old_ids(&commands.updates).err().map(|error| error.to_string()));
        let why = why.or_else(|| {
            let differs = approved.is_some_and(|approved| approved != commands.updates.as_slice());
            differs.then(|| "these are not the refs that were approved".to_owned())
        });
        let updates = commands.updates.clone();
        let transport =
            GitTransport { updates, problem: why.clone(), ..remote.transport(GitService::ReceivePack) };
        self.note(transport);
        let why = why.or_else(|| self.is_rehearsal().then(|| WAITS.to_owned()));
        match why {
            None => Some((commands, bytes)),
            Some(why) => {
                client.refuse_push(&commands, &why).await;
                None
            }
        }
    }
}

impl Remote {
    fn transport(&self, service: GitService) -> GitTransport {
        GitTransport::new(&self.url, service)
    }

    fn problem(&self, why: &str) -> GitTransport {
        GitTransport { problem: Some(why.to_owned()), ..self.transport(GitService::UploadPack) }
    }
}

impl InsideService for GitLender {
    fn port(&self) -> u16 {
        PORT
    }

    fn serve(&self, stream: TcpStream) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            let (reader, writer) = stream.into_split();
            let mut client = Client { reader: PacketReader::new(reader), writer };
            if let Err(why) = self.lend(&mut client).await {
                client.writer.write_all(&data_line(format!("ERR byleave: {why}\n").as_bytes())).await?;
            }
            client.writer.shutdown().await
        })
    }
}

impl Client {
    /// Passes on bytes in both directions, until the server ends.
    async fn relay(
        &mut self,
        mut input: impl tokio::io::AsyncWrite + Unpin,
        mut server: PacketReader<impl tokio::io::AsyncRead + Unpin>,
    ) -> io::Result<()> {
        let Self { reader, writer } = self;
        let up = async {
            while let Some(bytes) = reader.chunk().await? {
                input.write_all(&bytes).await?;
            }
            input.shutdown().await?;
            drop(input);
            std::future::pending::<io::Result<()>>().await
        };
        let down = async {
            while let Some(bytes) = server.chunk().await? {
                writer.write_all(&bytes).await?;
            }
            Ok(())
        };
        tokio::select! { ended = up => ended, ended = down => ended }
    }

    /// Passes on the pack of a push and nothing after it, and the report of the server.
    async fn relay_push(
        &mut self,
        commands: &PushCommands,
        mut input: impl tokio::io::AsyncWrite + Unpin,
        mut server: PacketReader<impl tokio::io::AsyncRead + Unpin>,
    ) -> io::Result<()> {
        let Self { reader, writer } = self;
        let up = async {
            let mut pack = Pack::of(commands);
            while let Some(bytes) = pack.next(reader).await? {
                input.write_all(&bytes).await?;
            }
            input.flush().await?;
            std::future::pending::<io::Result<()>>().await
        };
        let down = async {
            while let Some(bytes) = server.chunk().await? {
                writer.write_all(&bytes).await?;
            }
            Ok(())
        };
        tokio::select! { ended = up => ended, ended = down => ended }
    }

    async fn push_by_https(
        &mut self,
        commands: &PushCommands,
        bytes: Vec<u8>,
        server: &HttpsRemote,
    ) -> Result<(), String> {
        let (parts, body) = mpsc::channel(4);
        let reader = &mut self.reader;
        // The sender ends with this future, and the body with the sender.
        let up = async move {
            let mut pack = Pack::of(commands);
            let mut next = Ok(Some(bytes));
            loop {
                let part = match next {
                    Ok(None) => return,
                    Ok(Some(bytes)) => Ok(Bytes::from(bytes)),
                    Err(error) => Err(error),
                };
                let is_last = part.is_err();
                // The receiver is gone if the server answered early.
                if parts.send(part).await.is_err() || is_last {
                    return;
                }
                next = pack.next(reader).await;
            }
        };
        let sent = server.post(GitService::ReceivePack, false, RequestBody::Parts(body));
        let (response, ()) = tokio::join!(sent, up);
        self.relay_response(response?.into_body()).await
    }

    async fn relay_response(&mut self, mut body: hyper::body::Incoming) -> Result<(), String> {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| format!("the server broke off: {error}"))?;
            if let Ok(bytes) = frame.into_data() {
                // A client that is gone needs no more.
                if self.writer.write_all(&bytes).await.is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Reports to the client that its push is refused, and drops the pack that it sends.
    async fn refuse_push(&mut self, commands: &PushCommands, why: &str) {
        // A client that is gone needs no report.
        if self.writer.write_all(&commands.refusal(why)).await.is_err() {
            return;
        }
        let mut pack = Pack::of(commands);
        while let Ok(Some(_)) = pack.next(&mut self.reader).await {}
    }
}

/// The pack of a push.
struct Pack(Option<PackEnd>);

impl Pack {
    fn of(commands: &PushCommands) -> Self {
        let id = commands.updates.iter().find_map(|update| update.new.as_ref());
        Self(id.filter(|_| commands.has_pack()).map(|id| PackEnd::new(id.len() / 2)))
    }

    /// Returns the next bytes of the pack, and nothing after its end.
    async fn next(
        &mut self,
        reader: &mut PacketReader<tokio::net::tcp::OwnedReadHalf>,
    ) -> io::Result<Option<Vec<u8>>> {
        let Some(end) = self.0.as_mut().filter(|end| !end.is_complete()) else { return Ok(None) };
        let mut bytes = reader.chunk().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let taken = end.take(&bytes).map_err(io::Error::other)?;
        bytes.truncate(taken);
        Ok(Some(bytes))
    }
}

/// Returns whether a command of the plan uses a transport of Git.
fn uses_transport(plan: &Plan) -> bool {
    plan.effects.iter().any(|effect| match effect {
        Effect::Run { argv, .. } => {
            let is_git = argv.first().is_some_and(|name| name.rsplit('/').next() == Some("git"));
            is_git && sub_command(argv).is_some_and(|name| COMMANDS.contains(&name))
        }
        _ => false,
    })
}

/// Returns the sub-command of Git.
fn sub_command(argv: &[String]) -> Option<&str> {
    let mut words = argv.iter().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            option if VALUE_OPTIONS.contains(&option) => drop(words.next()),
            option if option.starts_with('-') => {}
            name => return Some(name),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_uses_a_transport_is_told_by_its_sub_command() {
        let uses = |words: &str| {
            let argv = words.split(' ').map(str::to_owned).collect();
            let effects = vec![Effect::Run { program: "/usr/bin/git".into(), argv }];
            uses_transport(&Plan { effects, ..Plan::default() })
        };
        for words in
            ["git push", "git -C push fetch", "/usr/bin/git -c a=b --no-pager pull", "git submodule update"]
        {
            assert!(uses(words), "{words}");
        }
        for words in ["git commit -m push", "git -C fetch log", "git", "sh push", "git checkout fetch"] {
            assert!(!uses(words), "{words}");
        }
    }
}
