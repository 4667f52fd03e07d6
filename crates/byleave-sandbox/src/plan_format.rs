//! The words in which a plan crosses to the first process inside: one mount operation after the other, and how to read them.
//!
//! Shared by the launcher, which writes, and by that process, which has no heap and reads in place. Never depends on `std`.

use core::ffi::CStr;

/// What may be done through a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountAccess {
    /// Read and run.
    Read,
    /// Read, run and write.
    Write,
    /// Read and write a device.
    Device,
    /// Nothing that matters: for what covers something else.
    Mask,
}

/// How far down a tree is cloned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloneDepth {
    /// This one mount.
    One,
    /// With every mount beneath it.
    All,
}

/// What to do when the place for a mount does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissing {
    /// Stop.
    Fault,
    /// Make a directory, and those above it. Only ever used beneath a mount of our own.
    MakeDirectory,
    /// Make an empty file, and the directories above it. Only ever used beneath a mount of our own.
    MakeFile,
}

/// What kind of socket is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// Connections to 127.0.0.1: the proxy.
    Proxy,
    /// Messages to 127.0.0.1: lookups of names.
    Lookups,
    /// Connections to every address that leads here.
    Transparent,
}

/// One step of the mount program. `P` is a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountOp<P> {
    /// Nothing that is mounted from here on is seen outside, and the other way round.
    Seclude,
    /// Takes a clone of a tree in hand.
    Hold {
        /// The hand.
        slot: u32,
        /// The tree; symbolic links on the way are refused.
        path: P,
        /// How far down.
        depth: CloneDepth,
        /// What may be done through the clone.
        access: MountAccess,
    },
    /// Takes a directory in hand as it is, to be a layer.
    Layer {
        /// The hand.
        slot: u32,
        /// The directory; symbolic links on the way are refused.
        path: P,
    },
    /// Takes layers that are in hand as one new file system, and lets go of them.
    Overlay {
        /// The hand.
        slot: u32,
        /// What it takes the place of; to be told.
        root: P,
        /// The hand with the layer that is written; in the next one is where that is prepared, then come the others, the topmost
        /// first.
        first: u32,
        /// How many others.
        lowers: u32,
    },
    /// Leaves out the two steps that follow where there is nothing at a path.
    IfThere {
        /// The path.
        path: P,
    },
    /// Everything that is mounted now can be read and not written.
    Seal,
    /// Takes a new, empty file system in memory in hand.
    Scratch {
        /// The hand.
        slot: u32,
        /// How much fits in.
        bytes: u64,
        /// How many files fit in.
        inodes: u64,
        /// The mode of its top directory.
        mode: u32,
        /// What may be done through it.
        access: MountAccess,
    },
    /// Takes new pseudo-terminals in hand.
    Terminals {
        /// The hand.
        slot: u32,
    },
    /// Takes the processes of this namespace, as files, in hand.
    Processes {
        /// The hand.
        slot: u32,
    },
    /// Puts what is in hand in its place; symbolic links on the way are refused.
    Attach {
        /// The hand.
        slot: u32,
        /// The place.
        path: P,
        /// What if there is no such place.
        missing: OnMissing,
    },
    /// Makes a symbolic link.
    Link {
        /// Where.
        path: P,
        /// Where it leads.
        to: P,
    },
    /// Writes to a file of the kernel.
    Write {
        /// Which.
        path: P,
        /// What.
        text: P,
    },
    /// Writes a file that is not there yet. Only ever used beneath a mount of our own.
    File {
        /// Where.
        path: P,
        /// What.
        text: P,
    },
    /// Starts the loopback interface.
    Loopback,
    /// Every address of the net that stands for names leads to the loopback.
    Route,
    /// Makes a socket of this network, and hands it out over the leash.
    Offer {
        /// What kind.
        socket: SocketKind,
        /// Its port.
        port: u16,
    },
    /// Waits until the launcher says that what was handed out is served.
    Await,
    /// Names the host.
    Hostname {
        /// The name.
        name: P,
    },
}

/// How much of a plan is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum PlanPart {
    /// All of it.
    Whole,
    /// The place alone: commands are asked for later, over the leash.
    Session,
    /// A command in a place that stands.
    Command,
    /// A command in a place that another program made, which may have left no powers to give up.
    Inner,
    /// A command in no place of its own: the lock on files and the filter are all there is.
    Alone,
}

/// How many descriptors come with the request for a command: what it has as standard streams, its plan, its leash.
pub const REQUESTED: usize = 5;

/// How many hands there are.
pub const SLOTS: usize = 320;

/// How many hands are for layers: what an overlay is written to, where that is prepared, and the rest.
pub const LAYERS: usize = 62;

/// One message about what happened, from inside: a kind and four numbers.
pub const REPORT_BYTES: usize = 24;

/// The first process could not do a step: which, which part of it, and the kernel's answer.
pub const REPORT_FAULT: u32 = 1;
/// The command could not be started: the kernel's answer.
pub const REPORT_NOT_STARTED: u32 = 2;
/// The command is over: how many processes it left running, how often no way led out of its network and one more, or zero; its
/// status, and the processor time of everything that was waited for.
pub const REPORT_ENDED: u32 = 3;

/// The command is about to be started: its mounts come along, for the launcher to let go of when nobody waits.
pub const REPORT_MOUNTS: u32 = 7;

/// The place of a session stands, or a command in it has been started, in which case its descriptor comes along.
pub const REPORT_READY: u32 = 4;

/// A socket was made, whose descriptor comes along: which kind, and its port.
pub const REPORT_SOCKET: u32 = 5;

/// A terminal was made; the descriptor of its outer end comes along.
pub const REPORT_TERMINAL: u32 = 6;

/// The steps of the first process, as it reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum InitProcessStep {
    /// Reading the plan.
    Read,
    /// Mapping the user and the group.
    Identity,
    /// The mount program.
    Mount,
    /// Resource limits.
    Limits,
    /// Dropping capabilities.
    Capabilities,
    /// Giving up new privileges.
    NoNewPrivileges,
    /// Landlock.
    Landlock,
    /// The system call filter.
    Filter,
    /// Hiding its own memory.
    Dumpable,
    /// Making a terminal.
    Terminal,
    /// Starting the command.
    Start,
}

impl InitProcessStep {
    /// All of them, in the order of their numbers, which is the order in which they are done.
    pub const ALL: [Self; 11] = [
        Self::Read,
        Self::Identity,
        Self::Mount,
        Self::Limits,
        Self::Capabilities,
        Self::NoNewPrivileges,
        Self::Landlock,
        Self::Filter,
        Self::Dumpable,
        Self::Terminal,
        Self::Start,
    ];
}

/// Reads a plan in place. Every answer is `None` once the bytes make no sense.
#[derive(Clone)]
pub struct PlanReader<'a> {
    rest: &'a [u8],
}

impl<'a> PlanReader<'a> {
    /// A reader of these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next number.
    pub fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.rest.split_first_chunk::<8>()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*number))
    }

    /// The next number, of 32 bits.
    pub fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// The next bytes.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    /// The next string.
    pub fn text(&mut self) -> Option<&'a CStr> {
        CStr::from_bytes_with_nul(self.bytes()?).ok()
    }

    /// The next step of the mount program.
    pub fn op(&mut self) -> Option<MountOp<&'a CStr>> {
        Some(match self.number()? {
            0 => MountOp::Seclude,
            1 => MountOp::Hold {
                slot: self.small()?,
                path: self.text()?,
                depth: if self.number()? == 0 { CloneDepth::One } else { CloneDepth::All },
                access: self.access()?,
            },
            2 => MountOp::Seal,
            3 => MountOp::Scratch {
                slot: self.small()?,
                bytes: self.number()?,
                inodes: self.number()?,
                mode: self.small()?,
                access: self.access()?,
            },
            4 => MountOp::Terminals { slot: self.small()? },
            5 => MountOp::Processes { slot: self.small()? },
            6 => MountOp::Attach { slot: self.small()?, path: self.text()?, missing: self.missing()? },
            8 => MountOp::Link { path: self.text()?, to: self.text()? },
            9 => MountOp::Write { path: self.text()?, text: self.text()? },
            10 => MountOp::Loopback,
            11 => MountOp::Hostname { name: self.text()? },
            12 => MountOp::File { path: self.text()?, text: self.text()? },
            13 => MountOp::Route,
            14 => MountOp::Offer { socket: self.socket()?, port: u16::try_from(self.number()?).ok()? },
            15 => MountOp::Await,
            16 => MountOp::Layer { slot: self.small()?, path: self.text()? },
            17 => MountOp::Overlay {
                slot: self.small()?,
                root: self.text()?,
                first: self.small()?,
                lowers: self.small()?,
            },
            18 => MountOp::IfThere { path: self.text()? },
            _ => return None,
        })
    }

    /// How much is to be done.
    pub fn part(&mut self) -> Option<PlanPart> {
        Some(match self.number()? {
            0 => PlanPart::Whole,
            1 => PlanPart::Session,
            2 => PlanPart::Command,
            3 => PlanPart::Inner,
            4 => PlanPart::Alone,
            _ => return None,
        })
    }

    fn socket(&mut self) -> Option<SocketKind> {
        Some(match self.number()? {
            0 => SocketKind::Proxy,
            1 => SocketKind::Lookups,
            2 => SocketKind::Transparent,
            _ => return None,
        })
    }

    fn access(&mut self) -> Option<MountAccess> {
        Some(match self.number()? {
            0 => MountAccess::Read,
            1 => MountAccess::Write,
            2 => MountAccess::Device,
            3 => MountAccess::Mask,
            _ => return None,
        })
    }

    fn missing(&mut self) -> Option<OnMissing> {
        Some(match self.number()? {
            0 => OnMissing::Fault,
            1 => OnMissing::MakeDirectory,
            2 => OnMissing::MakeFile,
            _ => return None,
        })
    }
}
