//! The addresses that a name may resolve to.
//!
//! Granting a name does not grant an address. The owner of the name decides where it leads, and could point it to this machine or
//! its network, where callers are trusted. So an address passes only if it is global unicast, or lies in a network that the
//! operator named. The first check applies through every layer of IPv4 inside IPv6; an operator's IPv4
//! network does not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network: all addresses with the same prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNetwork {
    base: IpAddr,
    bits: u32,
}

/// The error for a network that cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IpNetworkError {
    /// It cannot be parsed.
    #[error("cannot read network `{0}`: write an address, `/` and the prefix length, such as `10.0.0.0/8`")]
    Invalid(String),
    /// It is not inside a private range.
    #[error("cannot open network `{0}`: only networks inside {PRIVATE_TOLD} can be opened")]
    NotPrivate(String),
}

const PRIVATE_TOLD: &str = "10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10 and fc00::/7";

/// Ranges of private networks. A network that an operator opens lies inside one of these. Loopback is never among them, nor
/// link-local, where the metadata service of a cloud is.
const PRIVATE: [IpNetwork; 5] = [
    v4([10, 0, 0, 0], 8),
    v4([172, 16, 0, 0], 12),
    v4([192, 168, 0, 0], 16),
    v4([100, 64, 0, 0], 10),
    v6(0xfc00, 0, 7),
];

/// IPv4 ranges that are not global unicast, from IANA's special-purpose registry.
const SPECIAL_V4: [IpNetwork; 14] = [
    v4([0, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([127, 0, 0, 0], 8),
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 0, 0, 0], 24),
    v4([192, 0, 2, 0], 24),
    v4([192, 88, 99, 0], 24),
    v4([192, 168, 0, 0], 16),
    v4([198, 18, 0, 0], 15),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
    // Multicast, reserved, broadcast.
    v4([224, 0, 0, 0], 3),
];

/// IPv6 ranges within `2000::/3` that are not global unicast. Nothing outside that range is global unicast.
const SPECIAL_V6: [IpNetwork; 4] = [
    // Teredo, benchmarking, ORCHID and the other protocol assignments.
    v6(0x2001, 0, 23),
    v6(0x2001, 0x0db8, 32),
    // 6to4, which embeds IPv4 addresses and is not needed.
    v6(0x2002, 0, 16),
    // Documentation, 3fff::/20.
    v6(0x3fff, 0, 20),
];

const GLOBAL_V6: IpNetwork = v6(0x2000, 0, 3);

const fn v4(octets: [u8; 4], bits: u32) -> IpNetwork {
    let [a, b, c, d] = octets;
    IpNetwork { base: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits }
}

const fn v6(first: u16, second: u16, bits: u32) -> IpNetwork {
    IpNetwork { base: IpAddr::V6(Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, 0)), bits }
}

impl IpNetwork {
    /// Parses a network: an address, `/`, and the length of the prefix in bits.
    pub fn parse(text: &str) -> Result<Self, IpNetworkError> {
        let unread = || IpNetworkError::Invalid(text.to_owned());
        let (base, bits) = text.split_once('/').ok_or_else(unread)?;
        let (base, bits): (IpAddr, u32) =
            (base.parse().map_err(|_| unread())?, bits.parse().map_err(|_| unread())?);
        let net = Self { base, bits };
        let (number, whole) = number(base);
        if bits > whole || first_bits(number, whole, bits) != number {
            return Err(unread());
        }
        Ok(net)
    }

    /// Returns whether the address lies in the network. IPv4 inside IPv6 does not lie in an IPv4 network.
    pub fn holds(&self, address: IpAddr) -> bool {
        let ((base, whole), (number, other)) = (number(self.base), number(address));
        whole == other && first_bits(number, whole, self.bits) == first_bits(base, whole, self.bits)
    }

    fn inside(&self, outer: &Self) -> bool {
        outer.bits <= self.bits && outer.holds(self.base)
    }

    fn told(&self) -> String {
        format!("{}/{}", self.base, self.bits)
    }
}

fn number(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn first_bits(number: u128, whole: u32, bits: u32) -> u128 {
    number
        .checked_shr(whole.saturating_sub(bits))
        .unwrap_or(0)
        .checked_shl(whole.saturating_sub(bits))
        .unwrap_or(0)
}

/// The addresses that may be connected to: global unicast, and the networks that an operator opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    opened: Vec<IpNetwork>,
}

impl AddressPolicy {
    /// Allows global unicast only.
    pub fn global() -> Self {
        Self::default()
    }

    /// Adds networks of the operator.
    pub fn with_networks(
        mut self,
        nets: impl IntoIterator<Item = IpNetwork>,
    ) -> Result<Self, IpNetworkError> {
        for net in nets {
            if !PRIVATE.iter().any(|private| net.inside(private)) {
                return Err(IpNetworkError::NotPrivate(net.told()));
            }
            self.opened.push(net);
        }
        Ok(self)
    }

    /// Adds loopback for tests, which have no other network. This function does not exist in a release.
    #[cfg(debug_assertions)]
    pub fn with_loopback() -> Self {
        Self { opened: vec![v4([127, 0, 0, 0], 8)] }
    }

    /// Returns whether the address may be connected to.
    pub fn holds(&self, address: IpAddr) -> bool {
        self.opened(address) || global(address)
    }

    /// Returns whether an operator opened the network of this address.
    pub(crate) fn opened(&self, address: IpAddr) -> bool {
        self.opened.iter().any(|net| net.holds(address))
    }
}

/// Returns whether the address is in a private network, which a rule can open for a named host.
pub(crate) fn is_private(address: IpAddr) -> bool {
    PRIVATE.iter().any(|net| net.holds(address))
}

/// Returns whether the address is global unicast: one host, anywhere in the internet.
pub fn global(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => !SPECIAL_V4.iter().any(|net| net.holds(address)),
        // Mapped, compatible, NAT64 and similar addresses lie outside `2000::/3`. Teredo and 6to4 are special ranges within it.
        // Only ISATAP can appear in any prefix.
        IpAddr::V6(v6) => {
            let isatap = (v6.to_bits() >> 32) & 0xfcff_ffff == 0x0000_5efe;
            GLOBAL_V6.holds(address) && !isatap && !SPECIAL_V6.iter().any(|net| net.holds(address))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: E7
    #[test]
    fn only_what_is_one_host_in_the_internet_is_global() {
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "172.32.0.1",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
        ] {
            assert!(global(text.parse().unwrap()), "{text}");
        }
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:1.1.1.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::a00:1",
            "100::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:db8::1",
            "2001:10::1",
            "2002:7f00:1::",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2606:4700::5efe:7f00:1",
            "2606:4700::200:5efe:a00:1",
        ] {
            assert!(!global(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn an_operator_opens_nets_of_their_own_and_never_this_machine() {
        let opened = |text: &str| AddressPolicy::global().with_networks([IpNetwork::parse(text).unwrap()]);
        let own = opened("10.1.0.0/16").unwrap();
        assert!(own.holds("10.1.2.3".parse().unwrap()));
        assert!(!own.holds("10.2.2.3".parse().unwrap()));
        assert!(!own.holds("::ffff:10.1.2.3".parse().unwrap()));
        for text in [
            "127.0.0.0/8",
            "0.0.0.0/0",
            "8.0.0.0/5",
            "169.254.0.0/16",
            "::1/128",
            "::/0",
            "fe80::/10",
            "198.18.0.0/15",
        ] {
            assert!(opened(text).is_err(), "{text}");
        }
        for text in ["10.0.0.1/8", "10.0.0.0/33", "10.0.0.0", "x/8", "10.0.0.0/-1"] {
            assert!(IpNetwork::parse(text).is_err(), "{text}");
        }
    }
}
