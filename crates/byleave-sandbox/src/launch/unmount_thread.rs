//! Releases the mounts of ended commands in the background.
//!
//! The kernel removes mounts one by one, and waits each time until every processor has seen it.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};

use crate::clone3;

/// How many mounts may wait before a caller has to wait.
const WAITING: usize = 16;

/// Takes the mounts of an ended command.
pub(super) fn close_mounts(mounts: OwnedFd) {
    static UNDERTAKER: OnceLock<Option<SyncSender<OwnedFd>>> = OnceLock::new();
    let undertaker = UNDERTAKER.get_or_init(|| {
        let (sender, receiver) = sync_channel::<OwnedFd>(WAITING);
        let thread = std::thread::Builder::new().name("byleave-undertaker".into());
        let work = move || {
            clone3::lower_thread_priority();
            receiver.into_iter().for_each(drop);
        };
        thread.spawn(work).ok().map(|_| sender)
    });
    if let Some(undertaker) = undertaker {
        // Without a thread they are released right here.
        undertaker.send(mounts).unwrap_or_default();
    }
}
