//! The encoding of a plan for the first process inside: mount operations in order, and their decoding.
//!
//! It is shared by the launcher, which encodes, and by that process, which has no heap and decodes in place. It never depends on
//! `std`.

use core::ffi::CStr;

/// The access that a mount allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountAccess {
    /// Read and execute.
    Read,
    /// Read, execute and write.
    Write,
    /// Read and write a device.
    Device,
    /// None, for a mount that covers another path.
    Mask,
}

/// The depth to which a tree is cloned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloneDepth {
    /// This mount only.
    One,
    /// With every mount beneath it.
    All,
}

/// The action if the mount point does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissing {
    /// Fail.
    Fault,
    /// Create a directory and its parents. Used only beneath a mount of our own.
    MakeDirectory,
    /// Create an empty file and its parent directories. Used only beneath a mount of our own.
    MakeFile,
}

/// The kind of a socket that is passed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// Connections to 127.0.0.1, for the proxy.
    Proxy,
    /// Datagrams to 127.0.0.1, for lookups of names.
    Lookups,
    /// Connections to every address that leads here.
    Transparent,
    /// Connections to the loopback of IPv6. Without IPv6, no socket is passed out.
    Loopback6,
    /// A socket for one connection from outside to the loopback of IPv4. It can be used again.
    Connector4,
    /// The same for IPv6. Without IPv6, no socket is passed out.
    Connector6,
}

/// One step of the mount program. `P` is a path. A slot holds a mount until it is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountOp<P> {
    /// Makes mounts private: later mounts are not propagated to the outside, nor from there.
    MakePrivate,
    /// Clones a tree into a slot.
    CloneTree {
        /// The slot.
        slot: u32,
        /// The tree. Symbolic links on the way are refused.
        path: P,
        /// The depth.
        depth: CloneDepth,
        /// The access through the clone.
        access: MountAccess,
    },
    /// Opens a directory into a slot, as a layer.
    Layer {
        /// The slot.
        slot: u32,
        /// The directory. Symbolic links on the way are refused.
        path: P,
    },
    /// Combines layers from slots into a new file system, and releases them.
    Overlay {
        /// The slot.
        slot: u32,
        /// The path that it replaces, for error messages.
        root: P,
        /// The slot with the upper layer. The next slot has its working directory. The lower layers follow, topmost first.
        first: u32,
        /// The number of lower layers.
        lowers: u32,
    },
    /// Skips the two following steps if nothing exists at a path.
    SkipIfMissing {
        /// The path.
        path: P,
    },
    /// Makes all current mounts read-only.
    Seal,
    /// Creates an empty file system in memory in a slot.
    Scratch {
        /// The slot.
        slot: u32,
        /// Its size.
        bytes: u64,
        /// The maximum number of files.
        inodes: u64,
        /// The mode of its root directory.
        mode: u32,
        /// The access through it.
        access: MountAccess,
    },
    /// Creates a pseudo-terminal file system in a slot.
    Terminals {
        /// The slot.
        slot: u32,
    },
    /// Creates a `/proc` of this namespace in a slot.
    Processes {
        /// The slot.
        slot: u32,
    },
    /// Attaches the mount in a slot. Symbolic links on the way are refused.
    Attach {
        /// The slot.
        slot: u32,
        /// The mount point.
        path: P,
        /// The action if the mount point does not exist.
        missing: OnMissing,
    },
    /// Creates a symbolic link.
    Link {
        /// Its path.
        path: P,
        /// Its target.
        to: P,
    },
    /// Writes to a file of the kernel.
    Write {
        /// Its path.
        path: P,
        /// The content.
        text: P,
    },
    /// Writes a file that does not exist yet. Used only beneath a mount of our own.
    File {
        /// Its path.
        path: P,
        /// The content.
        text: P,
    },
    /// Starts the loopback interface.
    Loopback,
    /// Routes every address that represents a name to the loopback.
    Route,
    /// Creates a socket of this network, and passes it out over the control socket.
    OfferSocket {
        /// The kind.
        socket: SocketKind,
        /// Its port.
        port: u16,
    },
    /// Waits until the launcher reports that the sockets are served.
    WaitForReady,
    /// Sets the host name.
    Hostname {
        /// The name.
        name: P,
    },
}

/// The part of a plan that is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum PlanPart {
    /// All of it.
    Whole,
    /// The sandbox alone. Commands are requested later, over the control socket.
    Session,
    /// A command in an existing sandbox.
    Command,
    /// A command in a sandbox that another program built. That program may have left no capabilities to drop.
    Inner,
    /// A command without its own namespaces, with only Landlock and the filter.
    WithoutNamespaces,
}

/// The number of descriptors in a request for a command: its standard streams, its plan, its control socket.
pub const REQUEST_DESCRIPTORS: usize = 5;

/// The number of slots.
pub const SLOT_COUNT: usize = 320;

/// The number of slots for layers: the upper layer of an overlay, its working directory, and the others.
pub const LAYER_SLOTS: usize = 62;

/// The size of one report from inside: a kind and four numbers.
pub const REPORT_BYTES: usize = 24;

/// The first process failed at a step: the step, the part of it, and the error number.
pub const REPORT_FAULT: u32 = 1;
/// The command could not be started: the error number.
pub const REPORT_NOT_STARTED: u32 = 2;
/// The command has ended. It has the number of processes left running, the unroutable packets plus one (zero if unknown), the
/// status, and the processor time of all reaped processes.
pub const REPORT_ENDED: u32 = 3;

/// The command is about to start. The descriptor of its mounts is attached, so that the launcher can release them in the
/// background.
pub const REPORT_MOUNTS: u32 = 7;

/// The sandbox of a session is ready, or a command in it has been started. In the latter case its descriptor is attached.
pub const REPORT_READY: u32 = 4;

/// A socket was created: its kind and port. Its descriptor is attached.
pub const REPORT_SOCKET: u32 = 5;

/// The request of the launcher to stop every process of the command. It is one byte.
pub const REQUEST_PAUSE: u8 = 1;

/// The request of the launcher to let them go on.
pub const REQUEST_CONTINUE: u8 = 2;

/// A terminal was created. The descriptor of its outer end is attached.
pub const REPORT_TERMINAL: u32 = 6;

/// The filter was installed. The descriptor through which its calls are answered is attached.
pub const REPORT_LISTENER: u32 = 8;

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
    /// Setting `no_new_privs`.
    NoNewPrivileges,
    /// Landlock.
    Landlock,
    /// The system call filter.
    Filter,
    /// Hiding its own memory.
    Dumpable,
    /// Creating a terminal.
    Terminal,
    /// Starting the command.
    Start,
}

impl InitProcessStep {
    /// All steps, in the order of their numbers, which is the order of execution.
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

/// Decodes a plan in place. Every method returns `None` once the bytes are invalid.
#[derive(Clone)]
pub struct PlanReader<'a> {
    rest: &'a [u8],
}

impl<'a> PlanReader<'a> {
    /// Creates a reader of these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads the next number.
    pub fn read_number(&mut self) -> Option<u64> {
        let (number, rest) = self.rest.split_first_chunk::<8>()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*number))
    }

    /// Reads the next number as 32 bits.
    pub fn read_u32(&mut self) -> Option<u32> {
        u32::try_from(self.read_number()?).ok()
    }

    /// Reads the next bytes.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.read_number()?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    /// Reads the next string.
    pub fn text(&mut self) -> Option<&'a CStr> {
        CStr::from_bytes_with_nul(self.bytes()?).ok()
    }

    /// Reads the next step of the mount program.
    pub fn read_op(&mut self) -> Option<MountOp<&'a CStr>> {
        Some(match self.read_number()? {
            0 => MountOp::MakePrivate,
            1 => MountOp::CloneTree {
                slot: self.read_u32()?,
                path: self.text()?,
                depth: if self.read_number()? == 0 { CloneDepth::One } else { CloneDepth::All },
                access: self.access()?,
            },
            2 => MountOp::Seal,
            3 => MountOp::Scratch {
                slot: self.read_u32()?,
                bytes: self.read_number()?,
                inodes: self.read_number()?,
                mode: self.read_u32()?,
                access: self.access()?,
            },
            4 => MountOp::Terminals { slot: self.read_u32()? },
            5 => MountOp::Processes { slot: self.read_u32()? },
            6 => MountOp::Attach { slot: self.read_u32()?, path: self.text()?, missing: self.missing()? },
            8 => MountOp::Link { path: self.text()?, to: self.text()? },
            9 => MountOp::Write { path: self.text()?, text: self.text()? },
            10 => MountOp::Loopback,
            11 => MountOp::Hostname { name: self.text()? },
            12 => MountOp::File { path: self.text()?, text: self.text()? },
            13 => MountOp::Route,
            14 => MountOp::OfferSocket {
                socket: self.socket()?,
                port: u16::try_from(self.read_number()?).ok()?,
            },
            15 => MountOp::WaitForReady,
            16 => MountOp::Layer { slot: self.read_u32()?, path: self.text()? },
            17 => MountOp::Overlay {
                slot: self.read_u32()?,
                root: self.text()?,
                first: self.read_u32()?,
                lowers: self.read_u32()?,
            },
            18 => MountOp::SkipIfMissing { path: self.text()? },
            _ => return None,
        })
    }

    /// Reads the part that is carried out.
    pub fn read_part(&mut self) -> Option<PlanPart> {
        Some(match self.read_number()? {
            0 => PlanPart::Whole,
            1 => PlanPart::Session,
            2 => PlanPart::Command,
            3 => PlanPart::Inner,
            4 => PlanPart::WithoutNamespaces,
            _ => return None,
        })
    }

    fn socket(&mut self) -> Option<SocketKind> {
        Some(match self.read_number()? {
            0 => SocketKind::Proxy,
            1 => SocketKind::Lookups,
            2 => SocketKind::Transparent,
            3 => SocketKind::Loopback6,
            4 => SocketKind::Connector4,
            5 => SocketKind::Connector6,
            _ => return None,
        })
    }

    fn access(&mut self) -> Option<MountAccess> {
        Some(match self.read_number()? {
            0 => MountAccess::Read,
            1 => MountAccess::Write,
            2 => MountAccess::Device,
            3 => MountAccess::Mask,
            _ => return None,
        })
    }

    fn missing(&mut self) -> Option<OnMissing> {
        Some(match self.read_number()? {
            0 => OnMissing::Fault,
            1 => OnMissing::MakeDirectory,
            2 => OnMissing::MakeFile,
            _ => return None,
        })
    }
}
