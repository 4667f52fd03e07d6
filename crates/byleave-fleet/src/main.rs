//! The service that the engine calls: `byleave-fleet 127.0.0.1:18483`. Started and registered by `scripts/fleet up`.

use std::process::ExitCode;

use byleave_fleet::service;
use tokio::net::TcpListener;

fn main() -> ExitCode {
    let Some(address) = std::env::args().nth(1).filter(|address| !address.starts_with('-')) else {
        say("usage: byleave-fleet ADDRESS (for example 127.0.0.1:18483)");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            say(&format!("cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let served = runtime.block_on(async {
        let listener = TcpListener::bind(&address).await?;
        service::serve(listener).await
    });
    let Err(error) = served;
    say(&format!("cannot serve on `{address}`: {error}"));
    ExitCode::FAILURE
}

#[expect(clippy::print_stderr, reason = "what a program has to say before it ends")]
fn say(what: &str) {
    eprintln!("byleave-fleet: {what}");
}
