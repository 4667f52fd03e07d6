//! Unguessable random values.

use std::io;

/// Returns random bytes.
pub(crate) fn bytes<const BYTES: usize>() -> io::Result<[u8; BYTES]> {
    let mut bytes = [0_u8; BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

/// Returns an unguessable host name that leads to this machine.
pub fn fresh_pages_host() -> io::Result<String> {
    Ok(format!("byleave-{}.localhost", hex::<12>()?))
}

/// Returns random bytes in hexadecimal.
pub(crate) fn hex<const BYTES: usize>() -> io::Result<String> {
    Ok(bytes::<BYTES>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}
