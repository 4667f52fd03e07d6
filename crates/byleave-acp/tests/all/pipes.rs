//! A proxy with a pipe on each side.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use byleave_acp::{CallerIdentity, EditorApprover, GateProvider, Proxy, ProxyError};
use byleave_gate::core::call::Mode;
use byleave_gate::core::id::{AgentId, TenantId};
use byleave_gate::core::policy::{PathVariables, Policy};
use byleave_gate::gate::Gate;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(20);

/// One end of a pipe in each direction.
pub(crate) struct PipeEnd {
    pub(crate) reads: BufReader<DuplexStream>,
    pub(crate) writes: DuplexStream,
}

impl PipeEnd {
    pub(crate) async fn say(&mut self, line: &str) {
        self.writes.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Reads the next line without its line end. Returns `None` at the end of the stream.
    pub(crate) async fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.reads.read_line(&mut line)).await;
        assert!(read.is_ok(), "nothing came");
        read.unwrap().unwrap();
        (!line.is_empty()).then(|| line.trim_end_matches('\n').to_owned())
    }

    pub(crate) async fn hear_json(&mut self) -> Value {
        serde_json::from_str(&self.hear().await.unwrap()).unwrap()
    }
}

/// Gates in memory, under the built-in rules. They ask the editor if there is an approver.
pub(crate) struct MemoryGates {
    client: Option<Arc<EditorApprover>>,
    gates: Mutex<HashMap<String, Gate>>,
}

impl GateProvider for MemoryGates {
    fn gate(&self, cwd: &str) -> Result<Gate, String> {
        let mut gates = self.gates.lock().unwrap();
        let build = || {
            let places =
                PathVariables { workspace: Some(cwd), home: Some("/home/ann"), ..PathVariables::default() };
            let mut builder = Gate::builder().policy(Policy::builtin(&places).unwrap());
            if let Some(client) = &self.client {
                builder = builder.approver(Arc::clone(client) as Arc<_>);
            }
            builder.build().unwrap()
        };
        Ok(gates.entry(cwd.to_owned()).or_insert_with(build).clone())
    }
}

pub(crate) struct ProxyFixture {
    pub(crate) editor: PipeEnd,
    pub(crate) agent: PipeEnd,
    pub(crate) proxy: JoinHandle<Result<(), ProxyError>>,
}

/// Starts a proxy in this mode. With `asks`, it may ask the editor.
pub(crate) fn between(mode: Mode, asks: bool) -> ProxyFixture {
    let client = Arc::new(EditorApprover::default());
    let gates = Arc::new(MemoryGates { client: asks.then(|| Arc::clone(&client)), gates: Mutex::default() });
    let who = CallerIdentity {
        tenant: TenantId::new("local").unwrap(),
        agent: AgentId::new("fake").unwrap(),
        mode,
        dry_run: false,
        cwd: "/tmp".to_owned(),
    };
    let pipe = || tokio::io::duplex(1 << 16);
    let ((editor_out, from_editor), (to_editor, editor_in)) = (pipe(), pipe());
    let ((agent_out, from_agent), (to_agent, agent_in)) = (pipe(), pipe());
    let proxy =
        tokio::spawn(Proxy::run(who, gates, client, (from_editor, to_editor), (from_agent, to_agent)));
    ProxyFixture {
        editor: PipeEnd { reads: BufReader::new(editor_in), writes: editor_out },
        agent: PipeEnd { reads: BufReader::new(agent_in), writes: agent_out },
        proxy,
    }
}
