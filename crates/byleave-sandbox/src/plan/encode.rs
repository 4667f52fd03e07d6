//! Encodes a plan in the format of `plan_format`.

use std::ffi::{CStr, CString};

use super::LaunchPlan;
use crate::plan_format::{CloneDepth, MountAccess, MountOp, OnMissing, SocketKind};

impl LaunchPlan {
    /// Encodes the plan for the first process inside.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = PlanWriter { bytes: Vec::with_capacity(8192) };
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
        let numbers = landlock
            .map_or([0; 4], |landlock| [landlock.size, landlock.files, landlock.tcp, landlock.scoped]);
        numbers.into_iter().for_each(|number| bytes.number(number));
        let rules = landlock.map_or(&[][..], |landlock| &landlock.rules);
        bytes.count(rules.len());
        for rule in rules {
            bytes.text(&rule.path);
            bytes.number(rule.access);
        }
        let ports = landlock.map_or(&[][..], |landlock| &landlock.ports);
        bytes.count(ports.len());
        for (port, access) in ports {
            bytes.number(u64::from(*port));
            bytes.number(*access);
        }
        bytes.bytes(&self.filter);
        bytes.bytes
    }
}

struct PlanWriter {
    bytes: Vec<u8>,
}

impl PlanWriter {
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

    fn op(&mut self, op: &MountOp<CString>) {
        match op {
            MountOp::MakePrivate => self.number(0),
            MountOp::CloneTree { slot, path, depth, access } => {
                self.slot(1, *slot);
                self.text(path);
                self.number(match depth {
                    CloneDepth::One => 0,
                    CloneDepth::All => 1,
                });
                self.access(*access);
            }
            MountOp::Seal => self.number(2),
            MountOp::Scratch { slot, bytes, inodes, mode, access } => {
                self.slot(3, *slot);
                [*bytes, *inodes, u64::from(*mode)].into_iter().for_each(|number| self.number(number));
                self.access(*access);
            }
            MountOp::Terminals { slot } => self.slot(4, *slot),
            MountOp::Processes { slot } => self.slot(5, *slot),
            MountOp::Attach { slot, path, missing } => {
                self.slot(6, *slot);
                self.text(path);
                self.number(match missing {
                    OnMissing::Fault => 0,
                    OnMissing::MakeDirectory => 1,
                    OnMissing::MakeFile => 2,
                });
            }
            MountOp::Link { path, to } => self.two(8, path, to),
            MountOp::Write { path, text } => self.two(9, path, text),
            MountOp::Loopback => self.number(10),
            MountOp::Hostname { name } => {
                self.number(11);
                self.text(name);
            }
            MountOp::File { path, text } => self.two(12, path, text),
            MountOp::Route => self.number(13),
            MountOp::OfferSocket { socket, port } => {
                self.number(14);
                self.number(match socket {
                    SocketKind::Proxy => 0,
                    SocketKind::Lookups => 1,
                    SocketKind::Transparent => 2,
                    SocketKind::Loopback6 => 3,
                    SocketKind::Connector4 => 4,
                    SocketKind::Connector6 => 5,
                });
                self.number(u64::from(*port));
            }
            MountOp::WaitForReady => self.number(15),
            MountOp::Layer { slot, path } => {
                self.slot(16, *slot);
                self.text(path);
            }
            MountOp::Overlay { slot, root, first, lowers } => {
                self.slot(17, *slot);
                self.text(root);
                [*first, *lowers].into_iter().for_each(|number| self.number(u64::from(number)));
            }
            MountOp::SkipIfMissing { path } => {
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

    fn access(&mut self, access: MountAccess) {
        self.number(match access {
            MountAccess::Read => 0,
            MountAccess::Write => 1,
            MountAccess::Device => 2,
            MountAccess::Mask => 3,
        });
    }
}
