//! A copy of a directory: the directory itself under a layer that takes what is written.
//!
//! Layers come as descriptors, taken in hand before anything covers them, and without a link on the way that somebody could turn
//! elsewhere. The kernel wants them by path, and is told those of the descriptors: none is too long, none needs escaping, and
//! nobody inside reads in the list of mounts where they are.

use core::ffi::CStr;

use super::digits::Digits;
use super::sys;
use crate::kernel::{EINVAL, Errno};
use crate::wire::{Access, LAYERS};

const DESCRIPTORS: &CStr = c"/proc/self/fd";
/// What the kernel takes of one option, with the zero at its end.
const TEXT_MAX: usize = 256;

/// A file system of these layers, mounted nowhere yet: the one that is written, where that is prepared, and the others, the topmost
/// first.
pub(super) fn mount(layers: &[i32]) -> Result<i32, Errno> {
    let [_upper, _work, lowers @ ..] = layers else { return Err(EINVAL) };
    let mut paths = [const { Digits::new() }; LAYERS];
    if lowers.len() + 2 > LAYERS {
        return Err(EINVAL);
    }
    for (path, layer) in paths.iter_mut().zip(layers) {
        for byte in DESCRIPTORS.to_bytes() {
            path.byte(*byte);
        }
        path.byte(b'/').number(u64::from(layer.cast_unsigned()));
    }
    let [upper_path, work_path, lower_paths @ ..] = &paths;
    let all = |lower: &[(&CStr, &CStr)]| with(lower, upper_path.text(), work_path.text());
    match lowers {
        [] => Err(EINVAL),
        [_] => all(&[(c"lowerdir", lower_paths.first().ok_or(EINVAL)?.text())]),
        several => {
            let mut each = [(c"lowerdir+", c""); LAYERS];
            for (option, path) in each.iter_mut().zip(lower_paths).take(several.len()) {
                option.1 = path.text();
            }
            match all(each.get(..several.len()).ok_or(EINVAL)?) {
                // Before 6.8 there is no such option, and the kernel says no more than that.
                Err(EINVAL) => joined(several, all),
                made => made,
            }
        }
    }
}

/// With all lower layers in one option, as older kernels have it: by paths from where descriptors are, to be short enough.
fn joined(lowers: &[i32], all: impl Fn(&[(&CStr, &CStr)]) -> Result<i32, Errno>) -> Result<i32, Errno> {
    let (mut text, mut length) = ([0u8; TEXT_MAX], 0usize);
    let mut put = |byte: u8| {
        // The last byte stays the zero that ends the text.
        let place = text.get_mut(length).filter(|_| length + 1 < TEXT_MAX).ok_or(EINVAL)?;
        *place = byte;
        length += 1;
        Ok(())
    };
    for (at, layer) in lowers.iter().enumerate() {
        if at > 0 {
            put(b':')?;
        }
        let mut number = Digits::new();
        number.number(u64::from(layer.cast_unsigned()));
        number.bytes().iter().try_for_each(|byte| put(*byte))?;
    }
    let text = CStr::from_bytes_until_nul(&text).map_err(|_| EINVAL)?;
    sys::change_directory(DESCRIPTORS)?;
    let made = all(&[(c"lowerdir", text)]);
    sys::change_directory(c"/")?;
    made
}

fn with(lower: &[(&CStr, &CStr)], upper: &CStr, work: &CStr) -> Result<i32, Errno> {
    // Not written through to the disk: nobody needs it after a crash. What this kernel does by default is not asked for where it
    // would make what is written depend on the machine.
    let fixed = [
        (c"userxattr", None),
        (c"volatile", None),
        (c"index", Some(c"off")),
        (c"upperdir", Some(upper)),
        (c"workdir", Some(work)),
    ];
    let mut options = [(c"", None); LAYERS + 5];
    let lower = lower.iter().map(|(key, value)| (*key, Some(*value)));
    let mut count = 0;
    for (option, given) in options.iter_mut().zip(lower.chain(fixed)) {
        *option = given;
        count += 1;
    }
    sys::new_mount(c"overlay", options.get(..count).ok_or(EINVAL)?, Access::Write)
}
