//! The plan as bytes, in the words of `wire`.

use std::ffi::{CStr, CString};

use super::Plan;
use crate::wire::{Access, Depth, Missing, Op, Socket};

impl Plan {
    /// The plan as the first process inside reads it.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Writer { bytes: Vec::with_capacity(8192) };
        bytes.number(self.part as u64);
        bytes.number(self.parked.into());
        bytes.bytes(&self.shared_filter);
        bytes.number(self.identity.uid.into());
        bytes.number(self.identity.gid.into());
        bytes.count(self.mounts.len());
        self.mounts.iter().for_each(|op| bytes.op(op));
        bytes.text(&self.cwd);
        for strings in [&self.programs, &self.argv, &self.environment] {
            bytes.count(strings.len());
            strings.iter().for_each(|string| bytes.text(string));
        }
        let terminal =
            self.terminal.map(|one| u64::from(one.rows.max(1)) << 16 | u64::from(one.columns.max(1)));
        bytes.number(terminal.unwrap_or(0));
        bytes.count(self.limits.len());
        for (resource, soft, hard) in &self.limits {
            [u64::from(*resource), *soft, *hard].into_iter().for_each(|number| bytes.number(number));
        }
        let landlock = self.landlock.as_ref();
        let numbers = landlock.map_or([0; 4], |landlock| [landlock.size, landlock.files, 0, landlock.scoped]);
        numbers.into_iter().for_each(|number| bytes.number(number));
        let rules = landlock.map_or(&[][..], |landlock| &landlock.rules);
        bytes.count(rules.len());
        for rule in rules {
            bytes.text(&rule.path);
            bytes.number(rule.access);
        }
        bytes.bytes(&self.filter);
        bytes.bytes
    }
}

struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn number(&mut self, number: u64) {
        self.bytes.extend(number.to_le_bytes());
    }

    fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.bytes.extend(bytes);
    }

    fn text(&mut self, text: &CStr) {
        self.bytes(text.to_bytes_with_nul());
    }

    fn op(&mut self, op: &Op<CString>) {
        match op {
            Op::Seclude => self.number(0),
            Op::Hold { slot, path, depth, access } => {
                self.slot(1, *slot);
                self.text(path);
                self.number(match depth {
                    Depth::One => 0,
                    Depth::All => 1,
                });
                self.access(*access);
            }
            Op::Seal => self.number(2),
            Op::Scratch { slot, bytes, inodes, mode, access } => {
                self.slot(3, *slot);
                [*bytes, *inodes, u64::from(*mode)].into_iter().for_each(|number| self.number(number));
                self.access(*access);
            }
            Op::Terminals { slot } => self.slot(4, *slot),
            Op::Processes { slot } => self.slot(5, *slot),
            Op::Attach { slot, path, missing } => {
                self.slot(6, *slot);
                self.text(path);
                self.number(match missing {
                    Missing::Fault => 0,
                    Missing::MakeDirectory => 1,
                    Missing::MakeFile => 2,
                });
            }
            Op::Link { path, to } => self.two(8, path, to),
            Op::Write { path, text } => self.two(9, path, text),
            Op::Loopback => self.number(10),
            Op::Hostname { name } => {
                self.number(11);
                self.text(name);
            }
            Op::File { path, text } => self.two(12, path, text),
            Op::Route => self.number(13),
            Op::Offer { socket, port } => {
                self.number(14);
                self.number(match socket {
                    Socket::Proxy => 0,
                    Socket::Lookups => 1,
                    Socket::Transparent => 2,
                });
                self.number(u64::from(*port));
            }
            Op::Await => self.number(15),
            Op::Layer { slot, path } => {
                self.slot(16, *slot);
                self.text(path);
            }
            Op::Overlay { slot, root, first, lowers } => {
                self.slot(17, *slot);
                self.text(root);
                [*first, *lowers].into_iter().for_each(|number| self.number(u64::from(number)));
            }
            Op::IfThere { path } => {
                self.number(18);
                self.text(path);
            }
        }
    }

    fn slot(&mut self, tag: u64, slot: u32) {
        self.number(tag);
        self.number(u64::from(slot));
    }

    fn two(&mut self, tag: u64, one: &CStr, other: &CStr) {
        self.number(tag);
        self.text(one);
        self.text(other);
    }

    fn access(&mut self, access: Access) {
        self.number(match access {
            Access::Read => 0,
            Access::Write => 1,
            Access::Device => 2,
            Access::Mask => 3,
        });
    }
}
