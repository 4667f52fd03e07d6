//! What the sandbox holds, with a real kernel. Needs user namespaces for the unprivileged; run by root, it becomes another user.

mod escapes;
mod launch;
mod user;
