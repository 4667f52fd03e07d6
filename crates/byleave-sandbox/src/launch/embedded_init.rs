//! The embedded program of the first process inside, as a sealed file in memory.

use std::ffi::CStr;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

use super::{LaunchError, internal_error};

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/byleave-init"));

/// Returns the program of the first process inside, which is written once.
pub(super) fn init_program() -> Result<BorrowedFd<'static>, LaunchError> {
    static WRITTEN: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(written) = WRITTEN.get() {
        return Ok(written.as_fd());
    }
    // If another thread was faster, its file is used.
    let written = sealed_memfd(c"byleave-init", PROGRAM)?;
    Ok(WRITTEN.get_or_init(|| written).as_fd())
}

/// Creates a file in memory with this content, which cannot be changed.
pub(super) fn sealed_memfd(name: &CStr, content: &[u8]) -> Result<OwnedFd, LaunchError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = match memfd_create(name, flags | MemfdFlags::EXEC) {
        // Kernels before 6.3, where every file in memory can be run.
        Err(Errno::INVAL) => memfd_create(name, flags),
        made => made,
    };
    let mut file = std::fs::File::from(file.map_err(internal_error("creating a file in memory"))?);
    file.write_all(content).map_err(internal_error("writing a file in memory"))?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&file, seals).map_err(internal_error("sealing a file in memory"))?;
    Ok(file.into())
}
