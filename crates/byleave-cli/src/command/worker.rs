//! `byleave worker`: drives the calls of a server elsewhere, with the tools and files that are here.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use byleave_worker::socket::{Socket, trusting};
use byleave_worker::{Options as Place, Reach, RemoteLedger, Skills};
use tokio::sync::watch;

use crate::args::{Ask, WorkArgs};
use crate::ask::waive;
use crate::complaint::Complaint;
use crate::house::{House, equipped, mend_copies};
use crate::options::{Options, text_of};
use crate::private::read_private;
use crate::rules::Rules;
use crate::screen::{Screen, one_line, prose};
use crate::signals;
use crate::status::Status;
use crate::tools;

/// Where workers come in at a server.
const DOOR: &str = "v1/workers/wire";
/// How long a server that does not answer is waited for with what must be written: what was run is not to be lost.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

pub(crate) async fn run(typed: WorkArgs, options: &Options, screen: &mut Screen) -> Result<Status> {
    let token = read_private(&typed.token).map_err(|why| {
        Complaint::new(format!("cannot use the token in `{}`: {why}", typed.token.display()))
            .hint("it holds the token and nothing else, and only its owner may read it: `chmod 600`")
    })?;
    let unusable = |why: String| {
        Complaint::new(why).hint("`--server` is where the server listens: https, or http on this machine")
    };
    let trusted = trusting(typed.tls_ca.as_deref()).map_err(|fault| unusable(fault.to_string()))?;
    let address = format!("{}/{DOOR}", typed.server.trim_end_matches('/'));
    let dial = Socket::new(&address, token, trusted).map_err(|fault| unusable(fault.to_string()))?;

    let known = tools::catalog(options, &options.cwd, None)?;
    let skills = Skills {
        tools: known.list().iter().map(|entry| entry.name().to_owned()).collect(),
        capacity: typed.capacity,
        dir: options.cwd.clone(),
        labels: typed.labels.into_iter().collect(),
    };
    let place = Place { dir: options.state.join("worker"), patience: PATIENCE };
    let (ledger, offers) = RemoteLedger::open_to_work(&place, skills, dial)?;
    mend_copies(options, screen)?;
    let state = options.ours().canonicalize();
    let state = state.with_context(|| format!("cannot find `{}` again", options.ours().display()))?;
    let rules = Rules { options, workspace: &options.cwd, state: &text_of(&state)? }.load()?;
    let builder = equipped(options, &options.cwd, Ask::Inbox, options.chosen.gate(), Arc::new(ledger))?
        .policy(rules.policy);
    let gate = House::built(builder)?;
    if !options.waived.is_empty() {
        screen.say(&prose(&format!("saying at {} what is waived here", one_line(&typed.server))));
        waive(&gate, options).await?;
    }
    screen.say(&prose(&format!("working in {} for {}", options.cwd, one_line(&typed.server))));
    let reach = offers.reach();
    tokio::select! {
        () = offers.work(gate, signals::ended()?) => Ok(Status::Completed),
        never = tell(reach, screen) => never,
    }
}

/// Says how it stands with the server, whenever that changes.
async fn tell(mut reach: watch::Receiver<Reach>, screen: &mut Screen) -> Result<Status> {
    loop {
        let now = reach.borrow_and_update().clone();
        match now {
            Reach::Unknown => {}
            Reach::Here => screen.say("the server is there"),
            Reach::Away(why) => {
                screen.say(&prose(&format!("the server cannot be used: {}; trying again", one_line(&why))));
            }
        }
        if reach.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}
