//! Lets go of the mounts of commands that are over, where nobody waits for it.
//!
//! The kernel undoes mounts one by one, and waits for every processor to have seen it.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};

use crate::clone3;

/// How many may be waiting for it, before who brings more has to wait.
const WAITING: usize = 16;

/// Takes the mounts of a command that is over.
pub(super) fn take(mounts: OwnedFd) {
    static UNDERTAKER: OnceLock<Option<SyncSender<OwnedFd>>> = OnceLock::new();
    let undertaker = UNDERTAKER.get_or_init(|| {
        let (sender, receiver) = sync_channel::<OwnedFd>(WAITING);
        let thread = std::thread::Builder::new().name("byleave-undertaker".into());
        let work = move || {
            clone3::be_patient();
            receiver.into_iter().for_each(drop);
        };
        thread.spawn(work).ok().map(|_| sender)
    });
    if let Some(undertaker) = undertaker {
        // Without one they are let go of here and now.
        undertaker.send(mounts).unwrap_or_default();
    }
}
