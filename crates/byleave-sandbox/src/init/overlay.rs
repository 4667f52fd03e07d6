//! Mounts a copy of a directory: the directory itself beneath a layer that takes the writes.
//!
//! Layers are descriptors. They were opened before another mount covers them, and without a symbolic link on the way that could
//! be redirected. The kernel takes them by path, so this module passes their numbers relative to the directory of descriptors.
//! Such a path is never too long, needs no escaping, and does not reveal the location of the layers in the list of mounts. All
//! lower layers go in one option, which every kernel supports.

use core::ffi::CStr;

use super::fmt::ShortText;
use super::syscalls;
use crate::plan_format::MountAccess;
use crate::syscall::{EINVAL, Errno};

/// The maximum length of one option of the kernel, with the terminating zero. Three digits and a colon for each layer fit.
const TEXT_MAX: usize = 256;

/// Creates a file system of these layers, not mounted yet. The first is the upper layer, the second its working directory, and
/// the others are lower layers, topmost first.
pub(super) fn mount(layers: &[i32]) -> Result<i32, Errno> {
    let [upper, work, lowers @ ..] = layers else { return Err(EINVAL) };
    let (mut text, mut length) = ([0u8; TEXT_MAX], 0usize);
    for (at, lower) in lowers.iter().enumerate() {
        let separator: &[u8] = if at > 0 { b":" } else { b"" };
        for byte in separator.iter().chain(name(*lower).bytes()) {
            // The last byte stays the terminating zero.
            *text.get_mut(length).filter(|_| length + 1 < TEXT_MAX).ok_or(EINVAL)? = *byte;
            length += 1;
        }
    }
    let lowers = CStr::from_bytes_until_nul(&text).map_err(|_| EINVAL)?;
    let (upper, work) = (name(*upper), name(*work));
    // Not synced to disk, because the copy is not needed after a crash. The meaning of a layer must not depend on the
    // configuration of this kernel.
    let options = [
        (c"userxattr", None),
        (c"volatile", None),
        (c"index", Some(c"off")),
        (c"lowerdir", Some(lowers)),
        (c"upperdir", Some(upper.text())),
        (c"workdir", Some(work.text())),
    ];
    syscalls::change_directory(c"/proc/self/fd")?;
    let made = syscalls::new_mount(c"overlay", &options, MountAccess::Write);
    syscalls::change_directory(c"/")?;
    made
}

fn name(descriptor: i32) -> ShortText {
    let mut name = ShortText::new();
    name.number(u64::from(descriptor.cast_unsigned()));
    name
}
