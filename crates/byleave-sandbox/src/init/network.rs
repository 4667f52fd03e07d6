//! The network of the place: a loopback, addresses that stand for names, and sockets that are handed out.

use super::sys::{O_CLOEXEC, ask};
use crate::kernel::{EINVAL, Errno, answer, close, fd_arg, fd_of, number, numbers, syscall};
use crate::wire::Socket;

pub(super) fn loopback_up() -> Result<(), Errno> {
    const AF_INET: usize = 2;
    const SOCK_DGRAM: usize = 2;
    const SIOCSIFFLAGS: usize = 0x8914;
    const IFF_UP_RUNNING: u8 = 0x41;
    // `struct ifreq`: sixteen bytes of name, then the flags, in 40 bytes.
    let mut request = [0u8; 40];
    for (at, byte) in [(0, b'l'), (1, b'o'), (16, IFF_UP_RUNNING)] {
        *request.get_mut(at).ok_or(EINVAL)? = byte;
    }
    let socket = numbers(number::SOCKET, [AF_INET, SOCK_DGRAM | O_CLOEXEC, 0, 0, 0, 0])?;
    let raised = ask!(number::IOCTL, [socket, SIOCSIFFLAGS, request.as_ptr() as usize, 0, 0, 0]);
    close(fd_of(socket)?)?;
    raised.map(drop)
}

/// Leads 198.18.0.0/15 to the loopback, as if every address of it were ours.
pub(super) fn route_names() -> Result<(), Errno> {
    const AF_NETLINK: usize = 16;
    const SOCK_RAW: usize = 3;
    const LENGTH: usize = 44;
    let socket = numbers(number::SOCKET, [AF_NETLINK, SOCK_RAW | O_CLOEXEC, 0, 0, 0, 0])?;
    // `struct nlmsghdr`: the length, RTM_NEWROUTE, the flags for making it anew and answering; `struct rtmsg`: IPv4, 15 bits, the
    // table, the origin, the scope and the kind of what is local; then the net and, as the interface to use, the first one.
    let request: [u32; 11] = [
        44,
        24 | 0x605 << 16,
        1,
        0,
        u32::from_ne_bytes([2, 15, 0, 0]),
        u32::from_ne_bytes([255, 4, 254, 2]),
        0,
        8 | 1 << 16,
        u32::from_ne_bytes([198, 18, 0, 0]),
        8 | 4 << 16,
        1,
    ];
    let sent = ask!(number::WRITE, [socket, request.as_ptr() as usize, LENGTH, 0, 0, 0]);
    // The answer: a header of 16 bytes, and what came of it.
    let mut answer = [0u32; 32];
    let heard = ask!(number::READ, [socket, answer.as_mut_ptr() as usize, size_of_val(&answer), 0, 0, 0]);
    close(fd_of(socket)?)?;
    let [_, _, _, _, came, ..] = answer;
    match (sent?, heard?, came.cast_signed()) {
        (LENGTH, 20.., 0) => Ok(()),
        (LENGTH, 20.., refused) => Err(Errno(refused.saturating_neg())),
        _ => Err(EINVAL),
    }
}

/// A socket of this network that is bound, and listens where that is what it is for.
pub(super) fn listening(socket: Socket, port: u16) -> Result<i32, Errno> {
    const AF_INET: u16 = 2;
    const SOCK_STREAM: usize = 1;
    const SOCK_DGRAM: usize = 2;
    const BACKLOG: usize = 1024;
    let (kind, address) = match socket {
        Socket::Proxy => (SOCK_STREAM, [127, 0, 0, 1]),
        Socket::Lookups => (SOCK_DGRAM, [127, 0, 0, 1]),
        Socket::Transparent => (SOCK_STREAM, [0; 4]),
    };
    let made = fd_of(numbers(number::SOCKET, [usize::from(AF_INET), kind | O_CLOEXEC, 0, 0, 0, 0])?)?;
    // `struct sockaddr_in`: the family, the port and the address, in 16 bytes.
    let ([family, family_high], [high, low], [a, b, c, d]) =
        (AF_INET.to_ne_bytes(), port.to_be_bytes(), address);
    let bound: [u8; 16] = [family, family_high, high, low, a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0];
    ask!(number::BIND, [fd_arg(made), bound.as_ptr() as usize, size_of_val(&bound), 0, 0, 0])?;
    if kind == SOCK_STREAM {
        numbers(number::LISTEN, [fd_arg(made), BACKLOG, 0, 0, 0, 0])?;
    }
    Ok(made)
}

/// Waits for the launcher's word that it is ready. That it has gone instead is a fault.
pub(super) fn wait_for_word(socket: i32) -> Result<(), Errno> {
    const EPIPE: Errno = Errno(32);
    let mut word = [0u8; 8];
    match ask!(number::READ, [fd_arg(socket), word.as_mut_ptr() as usize, word.len(), 0, 0, 0])? {
        0 => Err(EPIPE),
        _ => Ok(()),
    }
}
