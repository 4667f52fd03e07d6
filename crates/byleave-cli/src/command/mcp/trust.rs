//! `byleave mcp trust` and `test`: looks at a server with the person, and says what it offers.

use anyhow::Result;
use byleave_mcp::exchange::Exchange;
use byleave_mcp::upstream::Stands;
use byleave_mcp::upstream::pins::Drift;
use serde_json::{Value, json};

use crate::args::Ask;
use crate::ask::waive;
use crate::complaint::Complaint;
use crate::house::House;
use crate::options::Options;
use crate::screen::{Screen, Tone, one_line, prose};
use crate::status::Status;
use crate::{person, servers};

/// Asks at the terminal how the server is started, and then what it offers. What is accepted is pinned.
pub(super) async fn run(name: &str, options: &Options, screen: &mut Screen) -> Result<Status> {
    let definition = servers::named(options, name)?;
    let server = definition.name.clone();
    let house = House::open_or_make(options)?;
    // Elsewhere there is nobody who could look at it; and what is left open would be answered without the server.
    let ask = options.asking(None, Ask::None);
    if ask != Ask::Terminal {
        let nobody = Complaint::new(format!("nobody is here to look at the server `{server}`"));
        return Err(nobody
            .hint("type it at a terminal; `byleave mcp serve` leaves the question in `byleave inbox`")
            .into());
    }
    let gate = person::gate(&house, options, &options.cwd, ask, options.chosen.gate())?;
    waive(&gate, options).await?;
    let upstream = servers::behind(&gate, &house, &Exchange::default(), vec![definition], options)?;
    if let Err(why) = upstream.accept(&gate, &servers::asking(options), &server).await {
        return Err(Complaint::new(format!("the server `{server}` is not accepted: {why}")).into());
    }
    Ok(told(name, &upstream.look(&server).await, screen))
}

/// Starts an accepted server and says what it offers.
pub(super) async fn test(name: &str, options: &Options, screen: &mut Screen) -> Result<Status> {
    let definition = servers::named(options, name)?;
    let server = definition.name.clone();
    let house = House::open_or_make(options)?;
    let gate = house.gate(options, &options.cwd, Ask::None, options.chosen.gate())?;
    waive(&gate, options).await?;
    let upstream = servers::behind(&gate, &house, &Exchange::default(), vec![definition], options)?;
    Ok(told(name, &upstream.look(&server).await, screen))
}

fn told(name: &str, stands: &Stands, screen: &mut Screen) -> Status {
    if screen.json() {
        screen.value(&value(name, stands));
    }
    let trust = format!("`byleave mcp trust {name}` looks at it with you");
    match stands {
        _ if screen.json() => {}
        Stands::Untried => screen.say("it was not tried"),
        Stands::NotAccepted => screen
            .say(&format!("it was not started: how it is started was not accepted, or has changed; {trust}")),
        Stands::Down(why) => screen.toned(Tone::Careful, "down:", &prose(why)),
        Stands::Up { offered, suspended, refused } => {
            offered.iter().for_each(|tool| screen.line(&one_line(tool)));
            for drift in suspended {
                screen.toned(Tone::Careful, "suspended:", &prose(&words(drift)));
            }
            for why in refused {
                screen.toned(Tone::Careful, "not taken:", &prose(why));
            }
            if !suspended.is_empty() {
                screen.say(&trust);
            }
        }
    }
    match stands {
        Stands::Up { suspended, .. } if suspended.is_empty() => Status::Completed,
        Stands::Up { .. } | Stands::NotAccepted => Status::Refused,
        Stands::Down(_) | Stands::Untried => Status::Failed,
    }
}

fn words(drift: &Drift) -> String {
    match drift {
        Drift::New { tool, .. } => format!("`{tool}` was never accepted"),
        Drift::Changed { tool, .. } => format!("`{tool}` is not what was accepted"),
        Drift::Instructions { .. } => "what it tells the model about itself was never accepted".into(),
    }
}

fn value(name: &str, stands: &Stands) -> Value {
    match stands {
        Stands::Untried => json!({ "server": name, "state": "untried" }),
        Stands::NotAccepted => json!({ "server": name, "state": "not-accepted" }),
        Stands::Down(why) => json!({ "server": name, "state": "down", "why": why }),
        Stands::Up { offered, suspended, refused } => {
            json!({ "server": name, "state": "up", "offered": offered, "suspended": suspended, "refused": refused })
        }
    }
}
