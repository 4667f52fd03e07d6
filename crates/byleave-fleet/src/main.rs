//! The service that the engine calls: `byleave-fleet 127.0.0.1:18483 ENGINE.pub`. Started and registered by `scripts/fleet up`.
//!
//! Where `BYLEAVE_FLEET_BOOK` has the address of a Postgres, the books of ledgers are kept there. Not a word of the command: an
//! address may have a password in it, and everyone on a machine can read the words of a command.

use std::process::ExitCode;
use std::sync::Arc;

use byleave_fleet::{Books, Identity, service};
use tokio::net::TcpListener;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with('-'));
    let (Some(address), Some(key), None) = (words.next(), words.next(), words.next()) else {
        say(
            "usage: byleave-fleet ADDRESS KEY (for example 127.0.0.1:18483 engine.pub: the public key of the engine, as PEM)",
        );
        return ExitCode::from(2);
    };
    let read = std::fs::read_to_string(&key).map_err(|error| error.to_string());
    let identity = match read.and_then(|pem| Identity::read(&pem).map_err(|why| why.to_string())) {
        Ok(identity) => identity,
        Err(why) => {
            say(&format!("cannot use `{key}`: {why}"));
            return ExitCode::FAILURE;
        }
    };
    let books = match std::env::var("BYLEAVE_FLEET_BOOK").ok().filter(|url| !url.is_empty()) {
        Some(url) => match Books::parse(&url) {
            Ok(books) => Some(Arc::new(books)),
            Err(why) => {
                say(&format!("cannot use BYLEAVE_FLEET_BOOK: {why}"));
                return ExitCode::FAILURE;
            }
        },
        None => None,
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
        service::serve(listener, &identity, books).await
    });
    let Err(error) = served;
    say(&format!("cannot serve on `{address}`: {error}"));
    ExitCode::FAILURE
}

#[expect(clippy::print_stderr, reason = "what a program has to say before it ends")]
fn say(what: &str) {
    eprintln!("byleave-fleet: {what}");
}
