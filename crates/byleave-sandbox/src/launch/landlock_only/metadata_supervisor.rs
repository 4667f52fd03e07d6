//! Performs changes of modes, owners, times and extended attributes for a command that only Landlock confines.
//!
//! Landlock confines what is written, but not these. So the system call filter hands them over: the kernel stops the calling thread and
//! asks the supervisor, which opens the file, looks where it really is, and makes the change itself through that descriptor. The
//! arguments are read once and the call is never continued, so nothing can change them between the check and the change.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, chmod, chownat, fstat,
    openat, readlinkat, removexattr, setxattr, utimensat,
};
use rustix::io::{Errno, pread};
use rustix::ioctl::{Updater, ioctl};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::launch::{LaunchError, internal_error};
use crate::seccomp::{self, Arch};

/// `AT_FDCWD`, as a command passes it.
const CURRENT_DIRECTORY: i32 = -100;
const PATH_MAX: usize = 4096;
/// The longest name of an attribute with its zero byte, and the longest value.
const XATTR_NAME_MAX: usize = 256;
const XATTR_VALUE_MAX: usize = 65_536;
const PAGE: usize = 4096;
/// `S_ISUID`, `S_ISGID`.
const SET_ID_MODES: u32 = 0o6000;
/// The attributes that an owner may change. The kernel lets only privileged processes change the others, and the supervisor may be one.
const XATTR_NAMESPACES: [&[u8]; 2] = [b"user.", b"system.posix_acl_"];

/// Answers the calls of one command in a thread of its own. Dropping it ends the thread; calls that come later fail.
#[derive(Debug)]
pub(crate) struct MetadataSupervisor {
    /// Closed to end the thread. Nobody waits for it: it may be opening a file of a server that does not answer.
    _stop: OwnedFd,
}

impl MetadataSupervisor {
    /// Answers the calls of a command of `user` that arrive through `listener`. Files beneath `writable` can be changed, and no others.
    pub(super) fn start(listener: OwnedFd, writable: &[PathBuf], user: u32) -> Result<Self, LaunchError> {
        let failed = || internal_error("starting the supervisor of file attributes");
        // The kernel names files by their real paths.
        let roots = writable.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed()(errno.into()))?;
        let server = Server { listener, roots, user, is_root: rustix::process::geteuid().is_root() };
        let thread = std::thread::Builder::new().name("byleave-metadata".into());
        thread.spawn(move || server.serve(&stopped)).map_err(failed())?;
        Ok(Self { _stop: stop })
    }
}

/// `struct seccomp_notif` of the kernel: who calls, and `struct seccomp_data`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Notification {
    id: u64,
    thread: u32,
    flags: u32,
    number: i32,
    arch: u32,
    instruction: u64,
    args: [u64; 6],
}

/// `struct seccomp_notif_resp` of the kernel.
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

const RECEIVE: u32 = 0xc050_2100;
const SEND: u32 = 0xc018_2101;
const ID_VALID: u32 = 0x4008_2102;

struct Server {
    listener: OwnedFd,
    roots: Vec<PathBuf>,
    /// The user of the command.
    user: u32,
    /// Whether this process is root, whose rights the command does not have.
    is_root: bool,
}

/// What a call changes.
enum Change {
    Mode(u32),
    Owner { user: u32, group: u32 },
    Times(Timestamps),
    SetAttribute { name: Vec<u8>, value: Vec<u8>, flags: u32 },
    RemoveAttribute { name: Vec<u8> },
}

/// The file that a call names.
enum Target {
    Descriptor(i32),
    Path { directory: i32, address: u64, flags: u32 },
}

impl Server {
    fn serve(&self, stopped: &OwnedFd) {
        loop {
            let mut events =
                [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
            match poll(&mut events, None) {
                Err(Errno::INTR) => continue,
                Err(_) => return,
                Ok(_) => {}
            }
            let [asked, ended] = events.each_ref().map(PollFd::revents);
            if !ended.is_empty() || asked.intersects(PollFlags::HUP | PollFlags::ERR) {
                return;
            }
            if let Some(call) = self.receive() {
                let error = self.perform(&call).err().map_or(0, |errno| -errno.raw_os_error());
                self.respond(Response { id: call.id, value: 0, error, flags: 0 });
            }
        }
    }

    /// Receives a call. `None` if its thread has ended meanwhile.
    fn receive(&self) -> Option<Notification> {
        let mut call = Notification::default();
        self.exchange::<RECEIVE, _>(&mut call).ok().map(|()| call)
    }

    fn respond(&self, mut response: Response) {
        // A thread that has ended needs no answer.
        self.exchange::<SEND, _>(&mut response).unwrap_or_default();
    }

    /// Checks that the calling thread still waits, so that what was read by its id is its own.
    fn check_waiting(&self, call: &Notification) -> Result<(), Errno> {
        let mut id = call.id;
        self.exchange::<ID_VALID, _>(&mut id)
    }

    /// Performs an operation on the listener with a value of the type that it takes, as the callers above do.
    fn exchange<const OPERATION: u32, T>(&self, value: &mut T) -> Result<(), Errno> {
        const {
            assert!((OPERATION >> 16 & 0x3fff) as usize == size_of::<T>(), "the size is a part of the number")
        };
        // SAFETY: the operations of a listener read and write one value of this size.
        let operation = unsafe { Updater::<OPERATION, T>::new(value) };
        // SAFETY: the same, and the value lives during the call.
        unsafe { ioctl(&self.listener, operation) }
    }

    fn perform(&self, call: &Notification) -> Result<(), Errno> {
        let caller = Caller { thread: call.thread };
        let (target, change) = caller.read_call(call)?;
        let file = caller.open(&target)?;
        self.check_waiting(call)?;
        let found = readlinkat(CWD, descriptor_path(&file), Vec::new())?;
        let path = Path::new(OsStr::from_bytes(found.to_bytes()));
        if !self.roots.iter().any(|root| path.starts_with(root)) {
            return Err(Errno::PERM);
        }
        self.apply(&file, change)
    }

    fn apply(&self, file: &OwnedFd, change: Change) -> Result<(), Errno> {
        // What is opened as a reference is changed by the path of its descriptor.
        let path = descriptor_path(file);
        let found = fstat(file)?;
        if self.is_root && self.user != 0 && found.st_uid != self.user {
            return Err(Errno::PERM);
        }
        match change {
            Change::Mode(mode) if mode & SET_ID_MODES != 0 => Err(Errno::PERM),
            Change::Mode(_) if FileType::from_raw_mode(found.st_mode) == FileType::Symlink => {
                Err(Errno::OPNOTSUPP)
            }
            Change::Mode(mode) => chmod(path, Mode::from_raw_mode(mode & 0o7777)),
            // The command has no capabilities.
            Change::Owner { user, group } if self.is_root => {
                let stays = |wanted: u32, is: u32| wanted == u32::MAX || wanted == is;
                let is_same = stays(user, found.st_uid) && stays(group, found.st_gid);
                if is_same { Ok(()) } else { Err(Errno::PERM) }
            }
            Change::Owner { user, group } => {
                let user = (user != u32::MAX).then(|| Uid::from_raw(user));
                let group = (group != u32::MAX).then(|| Gid::from_raw(group));
                chownat(file, "", user, group, AtFlags::EMPTY_PATH)
            }
            Change::Times(times) => utimensat(file, "", &times, AtFlags::EMPTY_PATH),
            Change::SetAttribute { name, value, flags } => {
                check_attribute(&name)?;
                setxattr(path, &*name, &value, XattrFlags::from_bits_retain(flags))
            }
            Change::RemoveAttribute { name } => {
                check_attribute(&name)?;
                removexattr(path, &*name)
            }
        }
    }
}

fn check_attribute(name: &[u8]) -> Result<(), Errno> {
    let is_own = XATTR_NAMESPACES.iter().any(|namespace| name.starts_with(namespace));
    if is_own { Ok(()) } else { Err(Errno::PERM) }
}

/// The path of a descriptor of this process.
fn descriptor_path(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// The thread that made a call.
struct Caller {
    thread: u32,
}

impl Caller {
    fn read_call(&self, call: &Notification) -> Result<(Target, Change), Errno> {
        let number = u32::try_from(call.number).map_err(|_| Errno::NOSYS)?;
        let name = seccomp::supervised_call(Arch::CURRENT, number).ok_or(Errno::NOSYS)?;
        let [a, b, c, d, e, _] = call.args;
        // The kernel takes the low half of every argument that is no address.
        let [low_a, low_b, low_c, low_d, low_e] = [a, b, c, d, e].map(low_half);
        let nofollow = AtFlags::SYMLINK_NOFOLLOW.bits();
        let fd = Target::Descriptor(low_a.cast_signed());
        let path = |flags| Target::Path { directory: CURRENT_DIRECTORY, address: a, flags };
        let at = |flags| Target::Path { directory: low_a.cast_signed(), address: b, flags };
        Ok(match name {
            "chmod" => (path(0), Change::Mode(low_b)),
            "fchmod" => (fd, Change::Mode(low_b)),
            "fchmodat" => (at(0), Change::Mode(low_c)),
            "fchmodat2" => (at(low_d), Change::Mode(low_c)),
            "chown" => (path(0), Change::Owner { user: low_b, group: low_c }),
            "lchown" => (path(nofollow), Change::Owner { user: low_b, group: low_c }),
            "fchown" => (fd, Change::Owner { user: low_b, group: low_c }),
            "fchownat" => (at(low_e), Change::Owner { user: low_c, group: low_d }),
            "utime" => (path(0), Change::Times(self.read_times(b, TimeFormat::Seconds)?)),
            "utimes" => (path(0), Change::Times(self.read_times(b, TimeFormat::Micros)?)),
            "futimesat" if b == 0 => (fd, Change::Times(self.read_times(c, TimeFormat::Micros)?)),
            "futimesat" => (at(0), Change::Times(self.read_times(c, TimeFormat::Micros)?)),
            "utimensat" if b == 0 => (fd, Change::Times(self.read_times(c, TimeFormat::Nanos)?)),
            "utimensat" => (at(low_d), Change::Times(self.read_times(c, TimeFormat::Nanos)?)),
            "setxattr" => (path(0), self.read_attribute(b, c, d, low_e)?),
            "lsetxattr" => (path(nofollow), self.read_attribute(b, c, d, low_e)?),
            "fsetxattr" => (fd, self.read_attribute(b, c, d, low_e)?),
            "removexattr" => (path(0), Change::RemoveAttribute { name: self.read_text(b, XATTR_NAME_MAX)? }),
            "lremovexattr" => {
                (path(nofollow), Change::RemoveAttribute { name: self.read_text(b, XATTR_NAME_MAX)? })
            }
            "fremovexattr" => (fd, Change::RemoveAttribute { name: self.read_text(b, XATTR_NAME_MAX)? }),
            _ => return Err(Errno::NOSYS),
        })
    }

    fn read_times(&self, address: u64, format: TimeFormat) -> Result<Timestamps, Errno> {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        if address == 0 {
            return Ok(Timestamps { last_access: now, last_modification: now });
        }
        let words = match format {
            TimeFormat::Seconds => 2,
            TimeFormat::Micros | TimeFormat::Nanos => 4,
        };
        let bytes = self.read_bytes(address, words * 8)?;
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| i64::from_ne_bytes(*word));
        let mut next = || words.next().ok_or(Errno::FAULT);
        let mut time = || -> Result<Timespec, Errno> {
            Ok(match format {
                TimeFormat::Seconds => Timespec { tv_sec: next()?, tv_nsec: 0 },
                TimeFormat::Nanos => Timespec { tv_sec: next()?, tv_nsec: next()? },
                TimeFormat::Micros => {
                    let (seconds, micros) = (next()?, next()?);
                    if !(0..1_000_000).contains(&micros) {
                        return Err(Errno::INVAL);
                    }
                    Timespec { tv_sec: seconds, tv_nsec: micros * 1000 }
                }
            })
        };
        Ok(Timestamps { last_access: time()?, last_modification: time()? })
    }

    fn read_attribute(&self, name: u64, value: u64, size: u64, flags: u32) -> Result<Change, Errno> {
        let name = self.read_text(name, XATTR_NAME_MAX)?;
        let size = usize::try_from(size).ok().filter(|size| *size <= XATTR_VALUE_MAX).ok_or(Errno::TOOBIG)?;
        Ok(Change::SetAttribute { name, value: self.read_bytes(value, size)?, flags })
    }

    /// Opens the file that a call names as a reference: nothing is read or written, and a device is not touched.
    fn open(&self, target: &Target) -> Result<OwnedFd, Errno> {
        let (directory, path, flags) = match target {
            Target::Descriptor(descriptor) => return self.open_descriptor(*descriptor),
            Target::Path { directory, address, flags } => {
                (*directory, self.read_text(*address, PATH_MAX)?, *flags)
            }
        };
        if path.is_empty() {
            if flags & AtFlags::EMPTY_PATH.bits() == 0 {
                return Err(Errno::NOENT);
            }
            return self.open_directory(directory);
        }
        if let Some(descriptor) = own_descriptor(&path) {
            return self.open_descriptor(descriptor);
        }
        let mut how = OFlags::PATH | OFlags::CLOEXEC;
        if flags & AtFlags::SYMLINK_NOFOLLOW.bits() != 0 {
            how |= OFlags::NOFOLLOW;
        }
        // A link to files of this process, by `/proc/self`, ends outside of the writable paths.
        if path.starts_with(b"/") {
            return openat(CWD, path, how, Mode::empty());
        }
        openat(self.open_directory(directory)?, path, how, Mode::empty())
    }

    fn open_directory(&self, directory: i32) -> Result<OwnedFd, Errno> {
        if directory != CURRENT_DIRECTORY {
            return self.open_descriptor(directory);
        }
        self.open_entry("cwd", OFlags::PATH)
    }

    fn open_descriptor(&self, descriptor: i32) -> Result<OwnedFd, Errno> {
        let opened = self.open_entry(&format!("fd/{descriptor}"), OFlags::PATH);
        opened.map_err(|errno| if errno == Errno::NOENT { Errno::BADF } else { errno })
    }

    /// Opens an entry of the thread's directory in `/proc`.
    fn open_entry(&self, name: &str, how: OFlags) -> Result<OwnedFd, Errno> {
        openat(CWD, format!("/proc/{}/{name}", self.thread), how | OFlags::CLOEXEC, Mode::empty())
    }

    /// Reads a text that ends with a zero byte, of less than `limit` bytes.
    fn read_text(&self, address: u64, limit: usize) -> Result<Vec<u8>, Errno> {
        let memory = self.open_memory()?;
        let mut text = Vec::new();
        while text.len() < limit {
            let from = address.checked_add(text.len() as u64).ok_or(Errno::FAULT)?;
            // Never beyond a page, because the next one may not exist.
            let room = PAGE - usize::try_from(from % PAGE as u64).map_err(|_| Errno::FAULT)?;
            let mut bytes = vec![0; room.min(limit - text.len())];
            let count = read_at(&memory, &mut bytes, from)?;
            let read = bytes.get(..count).unwrap_or_default();
            if let Some(end) = read.iter().position(|byte| *byte == 0) {
                text.extend_from_slice(read.get(..end).unwrap_or_default());
                return Ok(text);
            }
            text.extend_from_slice(read);
        }
        Err(Errno::NAMETOOLONG)
    }

    fn read_bytes(&self, address: u64, count: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; count];
        let memory = self.open_memory()?;
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            done += read_at(&memory, rest, address.checked_add(done as u64).ok_or(Errno::FAULT)?)?;
        }
        Ok(bytes)
    }

    fn open_memory(&self) -> Result<OwnedFd, Errno> {
        // A process that made its memory unreadable cannot tell us what it wants.
        self.open_entry("mem", OFlags::RDONLY).map_err(|_| Errno::PERM)
    }
}

/// The form in which a call passes two times.
#[derive(Clone, Copy)]
enum TimeFormat {
    Seconds,
    Micros,
    Nanos,
}

/// `UTIME_NOW`.
const UTIME_NOW: i64 = 0x3fff_ffff;

fn low_half(argument: u64) -> u32 {
    let [a, b, c, d, ..] = argument.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

fn read_at(memory: &OwnedFd, bytes: &mut [u8], address: u64) -> Result<usize, Errno> {
    match pread(memory, bytes, address) {
        Ok(0) | Err(Errno::IO) => Err(Errno::FAULT),
        read => read,
    }
}

/// Returns the descriptor that a path names as one of the process itself. C libraries change files through such paths.
fn own_descriptor(path: &[u8]) -> Option<i32> {
    let prefixes = [&b"/proc/self/fd/"[..], b"/proc/thread-self/fd/", b"/dev/fd/"];
    let number = prefixes.iter().find_map(|prefix| path.strip_prefix(*prefix))?;
    str::from_utf8(number).ok()?.parse().ok().filter(|number: &i32| *number >= 0)
}
