//! Hosts: parses every spelling of a host or address, and host patterns with ports.
//!
//! An address has a dozen spellings, and programs do not agree on all of them. A host is therefore parsed twice. An allow needs what the
//! host surely is. A deny needs everything that it could be. This module resolves no names: only a lookup shows that a public name leads to
//! a private address.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr as _;

/// An address as a number. IPv4 addresses are in `::ffff:0:0/96`.
pub(crate) type AddressNumber = u128;

/// A parsed host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParsedHost {
    /// The name: lower case, in punycode, without a dot at the end. An address has its usual spelling.
    pub(crate) name: String,
    /// The address, if its spelling is unambiguous.
    pub(crate) address: Option<AddressNumber>,
    /// Every address that the host could be, or that is embedded in it.
    pub(crate) possible_addresses: Vec<AddressNumber>,
}

/// A pattern over hosts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HostPattern {
    /// Every host.
    Any,
    /// Exactly this name.
    Name(String),
    /// Everything beneath this domain, without the domain itself.
    Subdomains(String),
    /// The addresses that begin with these bits.
    Net {
        /// The first address.
        base: AddressNumber,
        /// The length of the prefix in bits.
        prefix_len: u32,
    },
}

/// The ports of a host that a pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PortPattern {
    /// No port was given. An allow is for the web ports, and a deny for all ports.
    Unspecified,
    /// All ports, given explicitly.
    All,
    /// Exactly this port.
    One(u16),
}

impl PortPattern {
    /// Checks whether the port is surely among them. Port 0 means that the port is not known.
    pub(crate) const fn matches(self, port: u16) -> bool {
        match self {
            Self::Unspecified => matches!(port, 80 | 443),
            Self::All => true,
            Self::One(own) => own == port,
        }
    }

    /// Checks whether the port could be among them.
    pub(crate) const fn could_match(self, port: u16) -> bool {
        match self {
            Self::Unspecified | Self::All => true,
            Self::One(own) => own == port || port == 0,
        }
    }
}

/// The name of this machine's own loopback in effects and rules.
pub const LOCALHOST: &str = "localhost";

/// The loopback addresses, of IPv4 and IPv6.
const LOCAL_ADDRESSES: [AddressNumber; 2] = [0xffff_7f00_0001, 1];

/// The ports of this machine that nothing can open to a command, with the reason. A program that listens there obeys whoever connects.
const CONTROL_PORTS: [(std::ops::RangeInclusive<u16>, &str); 16] = [
    (53..=53, "the sandbox answers lookups of names there"),
    (1234..=1234, "a debugger listens there"),
    (2345..=2345, "a debugger listens there"),
    (2375..=2377, "a container engine listens there, which can run anything as root"),
    (2828..=2828, "a browser is controlled there"),
    (3128..=3128, "the proxy of the sandbox listens there"),
    (4243..=4243, "a container engine listens there, which can run anything as root"),
    (4444..=4444, "a browser is controlled there"),
    (5005..=5005, "a debugger listens there"),
    (5037..=5037, "Android devices are controlled there"),
    (5678..=5678, "a debugger listens there"),
    (6000..=6003, "a display listens there, which passes on the keyboard"),
    (6443..=6443, "a cluster is controlled there"),
    (9222..=9230, "a browser or a debugger is controlled there"),
    (9515..=9515, "a browser is controlled there"),
    (10250..=10250, "a cluster is controlled there"),
];

/// Checks whether a host is the loopback of this machine: `localhost`, `127.0.0.1` or `::1`.
pub fn is_localhost(host: &str) -> bool {
    ParsedHost::parse(host).is_some_and(|host| host.is_localhost())
}

/// Returns the reason why no rule and no person can open this port of this machine to a command.
pub fn never_opened(port: u16) -> Option<&'static str> {
    CONTROL_PORTS.iter().find(|(ports, _)| ports.contains(&port)).map(|(_, why)| *why)
}

/// Returns a host as effects name it: lower case, in punycode, without brackets, zone, or a dot at the end. An address has its usual
/// spelling. `None` for a text that cannot be a host.
pub fn normalize(host: &str) -> Option<String> {
    ParsedHost::parse(host).map(|host| host.name)
}

impl ParsedHost {
    /// Parses a host. `None` for a text that cannot be a host.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        // A zone names the interface, not the destination.
        let unzoned = bare.split('%').next().unwrap_or(bare);
        if unzoned.contains(':') {
            let address = Ipv6Addr::from_str(unzoned).ok()?;
            return Some(Self::v6(address));
        }
        let ascii = idna::domain_to_ascii(bare.trim_end_matches('.')).ok()?;
        let name = ascii.trim_end_matches('.').to_owned();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
        {
            return None;
        }
        if name.split('.').any(str::is_empty) {
            return None;
        }
        let possibly: Vec<AddressNumber> = possible_v4(&name).into_iter().map(to_mapped_v6).collect();
        let surely = Ipv4Addr::from_str(&name).ok().map(to_mapped_v6);
        // If all parsers agree, the usual spelling replaces the odd one.
        let name = match possibly.as_slice() {
            [only] => format_address(*only),
            _ => name,
        };
        let surely = surely.or(if possibly.len() == 1 { possibly.first().copied() } else { None });
        Some(Self { name, address: surely, possible_addresses: possibly })
    }

    /// Checks whether it is the loopback of this machine.
    pub(crate) fn is_localhost(&self) -> bool {
        self.name == LOCALHOST || self.address.is_some_and(|address| LOCAL_ADDRESSES.contains(&address))
    }

    /// Returns every address that it could be.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = AddressNumber> + '_ {
        let local = if self.name == LOCALHOST { &LOCAL_ADDRESSES[..] } else { &[] };
        self.possible_addresses.iter().chain(local).copied()
    }

    fn v6(address: Ipv6Addr) -> Self {
        let number = address.to_bits();
        let mut possibly = vec![number];
        possibly.extend(embedded_v4(address).into_iter().map(to_mapped_v6));
        Self { name: format_address(number), address: Some(number), possible_addresses: possibly }
    }
}

impl HostPattern {
    /// Parses a pattern and its ports: `host`, `host:443`, `host:*`. An IPv6 address with a port is in brackets.
    pub(crate) fn parse_with_ports(text: &str) -> Option<(Self, PortPattern)> {
        let split = match text.rfind(']') {
            Some(end) => {
                text.get(end.saturating_add(1)..)?.strip_prefix(':').map(|port| (text.get(..=end), port))
            }
            None => text
                .split_once(':')
                .filter(|(_, port)| !port.contains(':'))
                .map(|(host, port)| (Some(host), port)),
        };
        let Some((host, port)) = split else { return Some((Self::parse(text)?, PortPattern::Unspecified)) };
        let ports = match port {
            "*" => PortPattern::All,
            port if port.bytes().all(|byte| byte.is_ascii_digit()) => PortPattern::One(port.parse().ok()?),
            _ => return None,
        };
        Some((Self::parse(host?)?, ports))
    }

    /// Parses a pattern: `*`, a name, `*.` and a domain, an address, or an address, `/` and a number of bits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Any);
        }
        if let Some((base, bits)) = text.split_once('/') {
            return Self::parse_net(base, bits);
        }
        if let Some(domain) = text.strip_prefix("*.") {
            let host = ParsedHost::parse(domain)
                .filter(|host| host.possible_addresses.is_empty() && !domain.ends_with('.'))?;
            return Some(Self::Subdomains(host.name));
        }
        // `evil.example.` and `evil.example` are one host, but an author who writes the dot may think otherwise.
        let host = ParsedHost::parse(text).filter(|_| !text.ends_with('.'))?;
        match host.address {
            Some(base) => Some(Self::Net { base, prefix_len: 128 }),
            None if host.possible_addresses.is_empty() => Some(Self::Name(host.name)),
            None => None,
        }
    }

    fn parse_net(base: &str, bits: &str) -> Option<Self> {
        let bits: u32 = bits.parse().ok()?;
        let (base, bits) = match Ipv4Addr::from_str(base) {
            Ok(address) if bits <= 32 => (to_mapped_v6(address), bits.saturating_add(96)),
            Ok(_) => return None,
            Err(_) => (Ipv6Addr::from_str(base).ok().filter(|_| bits <= 128)?.to_bits(), bits),
        };
        (base == mask_prefix(base, bits)).then_some(Self::Net { base, prefix_len: bits })
    }

    /// Checks whether it names exactly the loopback of this machine.
    pub(crate) fn is_localhost(&self) -> bool {
        match self {
            Self::Name(name) => name == LOCALHOST,
            Self::Net { base, prefix_len } => *prefix_len == 128 && LOCAL_ADDRESSES.contains(base),
            Self::Any | Self::Subdomains(_) => false,
        }
    }

    /// Checks whether it grants the host. The loopback of this machine must be named: a wide pattern does not open it.
    pub(crate) fn grants(&self, host: &ParsedHost) -> bool {
        if host.is_localhost() { self.is_localhost() && self.could_match(host) } else { self.matches(host) }
    }

    /// Checks whether the host surely fits.
    pub(crate) fn matches(&self, host: &ParsedHost) -> bool {
        match self {
            Self::Net { base, prefix_len: bits } => {
                host.address.is_some_and(|address| mask_prefix(address, *bits) == *base)
            }
            named => named.matches_name(host),
        }
    }

    /// Checks whether the host could fit.
    pub(crate) fn could_match(&self, host: &ParsedHost) -> bool {
        match self {
            Self::Net { base, prefix_len: bits } => {
                host.addresses().any(|address| mask_prefix(address, *bits) == *base)
            }
            named => named.matches_name(host),
        }
    }

    fn matches_name(&self, host: &ParsedHost) -> bool {
        match self {
            Self::Any => true,
            Self::Name(name) => host.name == *name || name == LOCALHOST && host.is_localhost(),
            Self::Subdomains(domain) => {
                let above = host.name.strip_suffix(domain.as_str()).and_then(|rest| rest.strip_suffix('.'));
                above.is_some_and(|above| !above.is_empty()) && host.possible_addresses.is_empty()
            }
            Self::Net { .. } => false,
        }
    }
}

/// Returns the address with all bits after the prefix cleared.
pub(crate) fn mask_prefix(address: AddressNumber, bits: u32) -> AddressNumber {
    let mask = AddressNumber::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or(0);
    address & mask
}

fn to_mapped_v6(address: Ipv4Addr) -> AddressNumber {
    address.to_ipv6_mapped().to_bits()
}

fn format_address(number: AddressNumber) -> String {
    let address = Ipv6Addr::from_bits(number);
    address.to_ipv4_mapped().map_or_else(|| address.to_string(), |address| address.to_string())
}

/// Returns the IPv4 addresses that are embedded in an IPv6 address: compatible, NAT64, 6to4, Teredo, ISATAP.
fn embedded_v4(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let last = |bits: u128| Ipv4Addr::from_bits(u32::try_from(bits & 0xffff_ffff).unwrap_or_default());
    let number = address.to_bits();
    let [a, b, ..] = address.segments();
    let mut found = Vec::new();
    // `::1` and `::` are addresses of their own. The others in `::/96` are an old way to write IPv4.
    if number >> 32 == 0 && number > 1 || a == 0x64 && b == 0xff9b {
        found.push(last(number));
    }
    if a == 0x2002 {
        found.push(last(number >> 80));
    }
    if a == 0x2001 && b == 0 {
        found.push(last(!number));
        found.push(last(number >> 64));
    }
    if (number >> 32) & 0xfcff_ffff == 0x0000_5efe {
        found.push(last(number));
    }
    found
}

/// Returns every IPv4 address that some parser would read from this text: `127.1`, `2130706433`, `0x7f.1`. For `010.0.0.1` it returns two,
/// because some parsers read `010` as eight and some as ten.
fn possible_v4(text: &str) -> Vec<Ipv4Addr> {
    let parts: Vec<&str> = text.split('.').collect();
    let mut found: Vec<Ipv4Addr> =
        [true, false].into_iter().filter_map(|octal| parse_v4(&parts, octal)).collect();
    found.dedup();
    found
}

fn parse_v4(parts: &[&str], octal: bool) -> Option<Ipv4Addr> {
    let numbers: Vec<u64> = parts.iter().map(|part| parse_number(part, octal)).collect::<Option<_>>()?;
    let (last, above) = numbers.split_last()?;
    if above.len() > 3 || above.iter().any(|number| *number > 255) {
        return None;
    }
    let room = 32_u32.saturating_sub(u32::try_from(above.len()).ok()?.saturating_mul(8));
    if *last >= 1_u64.checked_shl(room)? {
        return None;
    }
    let mut address = *last;
    for (step, number) in (1_u32..).zip(above) {
        address |= number.checked_shl(32_u32.saturating_sub(step.saturating_mul(8)))?;
    }
    Some(Ipv4Addr::from_bits(u32::try_from(address).ok()?))
}

fn parse_number(part: &str, octal: bool) -> Option<u64> {
    let lower = part.to_ascii_lowercase();
    if let Some(hex) = lower.strip_prefix("0x") {
        return if hex.is_empty() { Some(0) } else { parse_digits(hex, 16) };
    }
    match lower.strip_prefix('0') {
        Some(rest) if octal && !rest.is_empty() => parse_digits(rest, 8),
        _ => parse_digits(&lower, 10),
    }
}

/// Parses digits only. `from_str_radix` accepts a sign, which no address has.
fn parse_digits(digits: &str, radix: u32) -> Option<u64> {
    digits.chars().all(|c| c.is_digit(radix)).then(|| u64::from_str_radix(digits, radix).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: P5
    #[test]
    fn one_address_has_one_name_however_it_is_spelled() {
        for (text, name) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0x7f000001", "127.0.0.1"),
            ("0X7F.1", "127.0.0.1"),
            ("0", "0.0.0.0"),
            ("169。254。169。254", "169.254.169.254"),
            ("[::ffff:127.0.0.1]", "127.0.0.1"),
            ("::ffff:7f00:1", "127.0.0.1"),
            ("[::1]", "::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%25eth0]", "fe80::1"),
            ("EXAMPLE.org.", "example.org"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("10.0.0.1.example", "10.0.0.1.example"),
            ("a_b.example", "a_b.example"),
        ] {
            assert_eq!(normalize(text).as_deref(), Some(name), "{text}");
        }
        for text in ["", ".", "a..b", "a b", "a/b", "a@b", "[::1", "::g", "é\u{0}"] {
            assert_eq!(normalize(text), None, "{text}");
        }
    }

    #[test]
    fn a_net_sees_every_address_that_a_host_could_be_and_allows_only_what_it_is() {
        let check = |pattern: &str, host: &str, surely: bool, possibly: bool| {
            let (net, host) = (HostPattern::parse(pattern).unwrap(), ParsedHost::parse(host).unwrap());
            assert_eq!(
                (net.matches(&host), net.could_match(&host)),
                (surely, possibly),
                "{pattern} {host:?}"
            );
        };
        check("127.0.0.0/8", "127.9.9.9", true, true);
        check("127.0.0.0/8", "128.0.0.1", false, false);
        check("127.0.0.0/8", "0177.0.0.1", false, true);
        check("10.0.0.0/8", "010.0.0.1", false, true);
        check("8.0.0.0/8", "010.0.0.1", false, true);
        check("127.0.0.1", "::ffff:7f00:1", true, true);
        check("127.0.0.0/8", "::7f00:1", false, true);
        check("169.254.0.0/16", "64:ff9b::a9fe:a9fe", false, true);
        check("127.0.0.0/8", "2002:7f00:1::", false, true);
        check("127.0.0.0/8", "2001:0:0:0:0:0:80ff:fffe", false, true);
        check("10.0.0.0/8", "fd00::5efe:a00:1", false, true);
        check("fc00::/7", "fd00:ec2::254", true, true);
        check("::/0", "10.0.0.1", true, true);
        check("0.0.0.0/0", "::1", false, false);
    }

    #[test]
    fn ports_are_the_web_where_nothing_is_said_of_them_and_something_is_allowed() {
        for (text, port, fits, could) in [
            ("a.example", 443, true, true),
            ("a.example", 80, true, true),
            ("a.example", 22, false, true),
            ("a.example", 0, false, true),
            ("a.example:22", 22, true, true),
            ("a.example:22", 443, false, false),
            ("a.example:22", 0, false, true),
            ("*:*", 5432, true, true),
            ("10.0.0.0/8:5432", 5432, true, true),
            ("[::1]:8080", 8080, true, true),
            ("::1", 8080, false, true),
        ] {
            let (_, ports) = HostPattern::parse_with_ports(text).unwrap();
            assert_eq!((ports.matches(port), ports.could_match(port)), (fits, could), "{text} {port}");
        }
        for text in
            ["a.example:", "a.example:x", "a.example:70000", "[::1]8080", "[::1]:", ":443", "http://x"]
        {
            assert_eq!(HostPattern::parse_with_ports(text), None, "{text}");
        }
    }

    #[test]
    fn a_pattern_that_would_fit_nothing_is_none() {
        for text in [
            "10.0.0.1/8",
            "10.0.0.0/33",
            "::/129",
            "x/8",
            "010.0.0.1",
            "*.",
            "**",
            "a.",
            "*.a.",
            "",
            "*.10.1",
            "*.0.0.1",
        ] {
            assert_eq!(HostPattern::parse(text), None, "{text}");
        }
    }
}
