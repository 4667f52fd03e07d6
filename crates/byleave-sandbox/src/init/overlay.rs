//! A copy of a directory: the directory itself under a layer that takes what is written.
//!
//! Layers come as descriptors, taken in hand before anything covers them, and without a link on the way that somebody could turn
//! elsewhere. The kernel wants them by path, and is told their numbers, from the directory where descriptors are: none is too long
//! for it, none needs escaping, and nobody inside reads in the list of mounts where they are. All lower layers go in one option,
//! which every kernel has.

use core::ffi::CStr;

use super::fmt::ShortText;
use super::syscalls;
use crate::plan_format::MountAccess;
use crate::syscall::{EINVAL, Errno};

/// What the kernel takes of one option, with the zero at its end: three digits and a colon for each of as many layers as there are.
const TEXT_MAX: usize = 256;

/// A file system of these layers, mounted nowhere yet: the one that is written, where that is prepared, and the others, the topmost
/// first.
pub(super) fn mount(layers: &[i32]) -> Result<i32, Errno> {
    let [upper, work, lowers @ ..] = layers else { return Err(EINVAL) };
    let (mut text, mut length) = ([0u8; TEXT_MAX], 0usize);
    for (at, lower) in lowers.iter().enumerate() {
        let separator: &[u8] = if at > 0 { b":" } else { b"" };
        for byte in separator.iter().chain(name(*lower).bytes()) {
            // The last byte stays the zero that ends the text.
            *text.get_mut(length).filter(|_| length + 1 < TEXT_MAX).ok_or(EINVAL)? = *byte;
            length += 1;
        }
    }
    let lowers = CStr::from_bytes_until_nul(&text).map_err(|_| EINVAL)?;
    let (upper, work) = (name(*upper), name(*work));
    // Not written through to the disk: nobody needs it after a crash. What a layer means must not depend on how this kernel was
    // configured.
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
