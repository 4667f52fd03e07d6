//! The built-in tools on a real gate, in a real sandbox, on real copies.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod asking;
mod attacks;
mod attacks_later;
mod attacks_listing;
mod attacks_network;
mod attacks_secrets;
mod bare;
mod bashing;
mod bashing_jobs;
mod boundary;
mod changing;
mod diagnostics;
mod fatigue;
mod files;
mod git_later;
mod git_lend;
mod git_settings;
mod hands;
mod hostile;
mod hostile_searching;
mod hostile_writers;
mod ignoring;
mod killed;
mod local_ports;
mod observed;
mod on_copy;
mod outer_repository;
mod pages;
mod processes;
mod red_tools;
mod rehearsing;
mod remembered_hosts;
mod searching;
mod second_names;
mod session_tmp;
mod todo;
mod undo_room;
mod web;
mod whole_tree;
mod without_namespaces;
mod world;
