//! What is measured, each side in a process of its own: our server, and an empty handler that commits the same bytes.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::routing::post;
use byleave_gate::audit_log::sqlite::{SqliteLedger, SqliteOptions};
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::call::Mode;
use byleave_gate::core::id::TenantId;
use byleave_gate::core::manifest::{ArgumentRole, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::core::policy::{PathVariables, Policy};
use byleave_gate::gate::Gate;
use byleave_gate::settings::GateSettings;
use byleave_gate::tool::RunContext;
use byleave_gate::typed_tool::TypedTool;
use byleave_server::principal::{AccessScope, PrincipalKind};
use byleave_server::tokens::{NewToken, TokenStore};
use byleave_server::{Server, ServerLimits, Tenant, listen};
use rusqlite::Connection;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

const SIDE: &str = "BYLEAVE_LOAD_SIDE";
const FOLDER: &str = "BYLEAVE_LOAD_FOLDER";
const STORED: &str = "BYLEAVE_LOAD_STORED";
/// More than a run makes.
const PLENTY: u32 = 1_000_000_000;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Ours,
    Bare,
}

/// A server that was started, and is ended with this.
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) address: String,
    pub(crate) token: String,
}

/// Starts a side in a process of its own.
pub(crate) fn start(side: ServerKind, folder: &Path, stored: usize) -> ServerProcess {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = if side == ServerKind::Ours { "ours" } else { "bare" };
    command.env(SIDE, name).env(FOLDER, folder).env(STORED, stored.to_string());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let (address, token) = said.split_once(' ').unwrap();
    ServerProcess { address: address.to_owned(), token: token.to_owned(), child }
}

impl ServerProcess {
    /// How much memory it has, in kB.
    pub(crate) fn resident_kb(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        resident.trim_end_matches("kB").trim().parse().unwrap()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// How many bytes our book stored for the newest call, in its one commit.
pub(crate) fn stored(folder: &Path) -> usize {
    let book = Connection::open(folder.join("state/audit.sqlite")).unwrap();
    let sql = "SELECT length(body) + length(contents) + coalesce(length(key), 0) + 16 + 32 FROM batch
               WHERE call = (SELECT call FROM batch ORDER BY pos DESC LIMIT 1)";
    let mut statement = book.prepare(sql).unwrap();
    let sizes: Vec<i64> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(sizes.len(), 1, "commits of a read");
    usize::try_from(sizes[0]).unwrap()
}

impl ServerKind {
    /// The side that this process was started to be.
    pub(crate) fn told() -> Option<Self> {
        match std::env::var(SIDE).ok()?.as_str() {
            "ours" => Some(Self::Ours),
            "bare" => Some(Self::Bare),
            other => panic!("no side `{other}`"),
        }
    }

    pub(crate) fn serve(self) {
        let folder = PathBuf::from(std::env::var(FOLDER).unwrap()).canonicalize().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            match self {
                Self::Ours => {
                    let (server, token) = ours(&folder);
                    println!("{address} {token}");
                    let end = CancellationToken::new();
                    listen::serve(server, listener, None, end, Duration::ZERO).await.unwrap();
                }
                Self::Bare => {
                    println!("{address} none");
                    let stored = std::env::var(STORED).unwrap().parse().unwrap();
                    axum::serve(listener, bare(&folder, stored)).await.unwrap();
                }
            }
        });
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct PathArguments {
    path: String,
}

/// The server as `byleave serve` has it, with a read that does nothing, so that only the server is seen.
fn ours(folder: &Path) -> (Server, String) {
    let book = Arc::new(SqliteLedger::open(&folder.join("state"), &SqliteOptions::default()).unwrap());
    let workspace = folder.to_str().unwrap();
    let says = |args: PathArguments, _run: RunContext| async move { Output::text(args.path) };
    let look = TypedTool::new("look", "reads a file", says)
        .permission_class(PermissionClass::Readonly)
        .role("/path", ArgumentRole::ReadPath)
        .not_sensitive()
        .idempotent()
        .concurrency_safe()
        .nonblocking();
    let gate = Gate::builder()
        .ledger(book.clone())
        .tool(look)
        .tool(TypedTool::new("note", "takes a note", says).permission_class(PermissionClass::Generic))
        .policy(
            Policy::builtin(&PathVariables { workspace: Some(workspace), ..PathVariables::default() })
                .unwrap(),
        )
        .settings(GateSettings { inbox: true, ..GateSettings::default() })
        .build()
        .unwrap();
    let tenant = TenantId::new("local").unwrap();
    let tokens = TokenStore::new(folder.join("tokens.json"));
    let wanted = NewToken {
        tenant: "local".parse().unwrap(),
        name: "bot".parse().unwrap(),
        kind: PrincipalKind::Agent,
        scopes: [AccessScope::Submit].into(),
        lifetime_ms: 3_600_000,
    };
    let (_, secret) = tokens.add(wanted, SystemClock.now()).unwrap();
    let token = String::from_utf8(secret.expose().to_vec()).unwrap();
    let limits = ServerLimits {
        max_connections: 12_000,
        requests_per_second: PLENTY,
        burst: PLENTY,
        max_streams: 12_000,
        max_streams_per_principal: 12_000,
        ..ServerLimits::default()
    };
    let shelf = (book.clone() as Arc<_>, book as Arc<_>);
    let tenancy = Tenant::new(tenant.clone(), gate, shelf, workspace.to_owned(), Mode::ConfirmSensitive);
    (Server::builder(tenant, tokens).limits(limits).tenant(tenancy).build(), token)
}

/// A handler that takes the same body, has the same bytes committed with whatever else is queued, and says as much.
fn bare(folder: &Path, stored: usize) -> Router {
    let connection = Connection::open(folder.join("bare.sqlite")).unwrap();
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    let table = "PRAGMA synchronous = FULL; CREATE TABLE t(pos INTEGER PRIMARY KEY, body BLOB NOT NULL)";
    connection.execute_batch(table).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel::<oneshot::Sender<()>>();
    std::thread::spawn(move || {
        let body = vec![7_u8; stored];
        while let Ok(first) = receiver.recv() {
            let batch: Vec<_> = std::iter::once(first).chain(receiver.try_iter().take(255)).collect();
            connection.execute_batch("BEGIN IMMEDIATE").unwrap();
            for _ in &batch {
                connection
                    .prepare_cached("INSERT INTO t(body) VALUES(?1)")
                    .unwrap()
                    .execute([&body])
                    .unwrap();
            }
            connection.execute_batch("COMMIT").unwrap();
            batch.into_iter().for_each(|reply| reply.send(()).unwrap());
        }
    });
    const SAID: &str = r#"{"call":"00000000-0000-0000-0000-000000000000","state":"settled","result":{"outcome":"completed","output":"src/lib.rs"}}"#;
    let handler = move |_body: Bytes| {
        let sender = sender.clone();
        async move {
            let (reply, done) = oneshot::channel();
            sender.send(reply).unwrap();
            done.await.unwrap();
            ([(header::CONTENT_TYPE, "application/json")], SAID)
        }
    };
    Router::new().route("/v1/calls", post(handler))
}
