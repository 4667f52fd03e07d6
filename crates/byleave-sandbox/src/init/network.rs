//! Sets up the network of the sandbox: a loopback, addresses that stand for names, and sockets that are passed out.

use super::syscalls::{self, O_CLOEXEC, checked_syscall};
use crate::plan_format::SocketKind;
use crate::syscall::{
    EINVAL, ENOENT, Errno, close, fd_arg, fd_from_result, number, syscall, syscall_result,
    syscall_with_numbers,
};

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
    let socket = syscall_with_numbers(number::SOCKET, [AF_INET, SOCK_DGRAM | O_CLOEXEC, 0, 0, 0, 0])?;
    let raised = checked_syscall!(number::IOCTL, [socket, SIOCSIFFLAGS, request.as_ptr() as usize, 0, 0, 0]);
    close(fd_from_result(socket)?)?;
    raised.map(drop)
}

/// Routes 198.18.0.0/15 to the loopback, so that every address of it is local.
pub(super) fn route_names() -> Result<(), Errno> {
    const AF_NETLINK: usize = 16;
    const SOCK_RAW: usize = 3;
    const LENGTH: usize = 44;
    let socket = syscall_with_numbers(number::SOCKET, [AF_NETLINK, SOCK_RAW | O_CLOEXEC, 0, 0, 0, 0])?;
    // `struct nlmsghdr`: the length, RTM_NEWROUTE, the flags to create it and to acknowledge. `struct rtmsg`: IPv4, 15 bits, the
    // table, the origin, the scope and the type of a local route. Then the network and, as the interface to use, the first one.
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
    let sent = checked_syscall!(number::WRITE, [socket, request.as_ptr() as usize, LENGTH, 0, 0, 0]);
    // The answer: a header of 16 bytes, and the result.
    let mut answer = [0u32; 32];
    let heard =
        checked_syscall!(number::READ, [socket, answer.as_mut_ptr() as usize, size_of_val(&answer), 0, 0, 0]);
    close(fd_from_result(socket)?)?;
    let [_, _, _, _, came, ..] = answer;
    match (sent?, heard?, came.cast_signed()) {
        (LENGTH, 20.., 0) => Ok(()),
        (LENGTH, 20.., refused) => Err(Errno(refused.saturating_neg())),
        _ => Err(EINVAL),
    }
}

/// Creates a socket of this network: a bound one, which listens if its kind requires it, or one that connects later.
pub(super) fn open_socket(socket: SocketKind, port: u16) -> Result<i32, Errno> {
    const AF_INET: u16 = 2;
    const AF_INET6: u16 = 10;
    const SOCK_STREAM: usize = 1;
    const SOCK_DGRAM: usize = 2;
    const BACKLOG: usize = 1024;
    let (family, kind, address) = match socket {
        SocketKind::Proxy => (AF_INET, SOCK_STREAM, [127, 0, 0, 1]),
        SocketKind::Lookups => (AF_INET, SOCK_DGRAM, [127, 0, 0, 1]),
        SocketKind::Transparent => (AF_INET, SOCK_STREAM, [0; 4]),
        SocketKind::Connector4 => (AF_INET, SOCK_STREAM, [0; 4]),
        SocketKind::Loopback6 | SocketKind::Connector6 => (AF_INET6, SOCK_STREAM, [0; 4]),
    };
    let made = fd_from_result(syscall_with_numbers(
        number::SOCKET,
        [usize::from(family), kind | O_CLOEXEC, 0, 0, 0, 0],
    )?)?;
    let ([family, family_high], [high, low], [a, b, c, d]) =
        (family.to_ne_bytes(), port.to_be_bytes(), address);
    // `struct sockaddr_in`: the family, the port and the address, in 16 bytes. `struct sockaddr_in6`: the family, the port, the flow,
    // the address and the scope, in 28 bytes.
    let mut bound = [0u8; 28];
    let length = if socket == SocketKind::Loopback6 { 28 } else { 16 };
    let parts: [(usize, u8); 8] =
        [(0, family), (1, family_high), (2, high), (3, low), (4, a), (5, b), (6, c), (7, d)];
    for (at, byte) in parts {
        *bound.get_mut(at).ok_or(EINVAL)? = byte;
    }
    match socket {
        SocketKind::Connector4 | SocketKind::Connector6 => return Ok(made),
        // The last byte of `::1`.
        SocketKind::Loopback6 => *bound.get_mut(23).ok_or(EINVAL)? = 1,
        SocketKind::Proxy | SocketKind::Lookups | SocketKind::Transparent => {}
    }
    let ready = checked_syscall!(number::BIND, [fd_arg(made), bound.as_ptr() as usize, length, 0, 0, 0])
        .and_then(|_| match kind {
            SOCK_STREAM => syscall_with_numbers(number::LISTEN, [fd_arg(made), BACKLOG, 0, 0, 0, 0]),
            _ => Ok(0),
        });
    match ready {
        Ok(_) => Ok(made),
        Err(errno) => close(made).and(Err(errno)),
    }
}

/// Waits until the launcher is ready. It is an error if the launcher has gone instead.
pub(super) fn wait_for_ready(socket: i32) -> Result<(), Errno> {
    const EPIPE: Errno = Errno(32);
    let mut word = [0u8; 8];
    match checked_syscall!(number::READ, [fd_arg(socket), word.as_mut_ptr() as usize, word.len(), 0, 0, 0])? {
        0 => Err(EPIPE),
        _ => Ok(()),
    }
}

/// Returns how many packets in this network had no route, plus one; zero if unknown.
pub(super) fn count_unrouted() -> u32 {
    let mut room = [0u8; 16 << 10];
    let Some(four) = syscalls::read_file(c"/proc/self/net/snmp", &mut room).ok().and_then(counted_in_table)
    else {
        return 0;
    };
    let six = match syscalls::read_file(c"/proc/self/net/snmp6", &mut room) {
        Ok(told) => counted_in_list(told),
        // A kernel without IPv6 has no such file, and sends nothing by it.
        Err(ENOENT) => Some(0),
        Err(_) => None,
    };
    six.map_or(0, |six| four.saturating_add(six).saturating_add(1))
}

/// Parses a line of names and a line of numbers that begin with the same word.
fn counted_in_table(told: &[u8]) -> Option<u32> {
    let mut lines = told.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"Ip: "));
    let (names, numbers) = (words(lines.next()?), words(lines.next()?));
    names.zip(numbers).find(|(name, _)| *name == b"OutNoRoutes").and_then(|(_, number)| small(number))
}

/// Parses lines with a name and a number each.
fn counted_in_list(told: &[u8]) -> Option<u32> {
    let mut lines = told.split(|byte| *byte == b'\n');
    let line = lines.find(|line| line.starts_with(b"Ip6OutNoRoutes"))?;
    words(line).nth(1).and_then(small)
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
}

fn small(digits: &[u8]) -> Option<u32> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u32::from(*byte - b'0'));
    digits.iter().try_fold(0u32, |number, byte| Some(number.saturating_mul(10).saturating_add(digit(byte)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_found_no_way_is_read_from_what_the_kernel_counts() {
        let table = b"Ip: Forwarding OutDiscards OutNoRoutes ReasmTimeout\nIp: 2 7 12 0\nIcmp: OutNoRoutes\n";
        assert_eq!(counted_in_table(table), Some(12));
        assert_eq!(counted_in_table(b"Ip: Forwarding\nIp: 2\n"), None);
        assert_eq!(counted_in_list(b"Ip6InReceives  \t1\nIp6OutNoRoutes      \t3\n"), Some(3));
        assert_eq!((small(b"4294967296"), small(b"-1")), (Some(u32::MAX), None));
    }
}
