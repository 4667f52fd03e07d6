//! The system call filter. It is compiled once from a table of refusals and installed as bytes by the first process inside.
//!
//! A call of a foreign architecture kills the process, because its numbers mean other calls. The filter must never inspect memory
//! that an argument points to, because the command could change it after the check.

mod rules;

use std::collections::BTreeMap;

use rules::{GROUPS, NEEDED_BEFORE_START, NEWEST_SYSCALL, SyscallGroup, WITH_TCP, WITHOUT_NAMESPACES};

/// An architecture that filters are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// 64-bit Intel and AMD.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Arch {
    /// The architecture that this program was compiled for.
    #[cfg(target_arch = "x86_64")]
    pub const CURRENT: Self = Self::X86_64;
    /// The architecture that this program was compiled for.
    #[cfg(target_arch = "aarch64")]
    pub const CURRENT: Self = Self::Aarch64;

    const fn audit(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::Aarch64 => 0xc000_00b7,
        }
    }
}

/// A compiled filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyscallFilter {
    instructions: Vec<Instruction>,
}

impl SyscallFilter {
    /// Returns the filter in the format of the kernel.
    pub fn to_bytes(&self) -> Vec<u8> {
        let instruction = |instruction: &Instruction| {
            let [code, code_high] = instruction.code.to_le_bytes();
            let [a, b, c, d] = instruction.k.to_le_bytes();
            [code, code_high, instruction.then, instruction.otherwise, a, b, c, d]
        };
        self.instructions.iter().flat_map(instruction).collect()
    }
}

/// The error for a jump in a filter that is too long. The table of refusals must then be split into smaller parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot compile the system call filter: a jump over {0} instructions is too long")]
pub struct JumpTooLongError(usize);

/// Compiles the filter.
pub fn compile(arch: Arch) -> Result<SyscallFilter, JumpTooLongError> {
    compile_groups(arch, GROUPS.iter())
}

/// Compiles the filter for a command without its own namespaces. Calls that namespaces would isolate are not available. The filter
/// must be installed with a listener, for the calls that a supervisor performs.
pub fn compile_without_namespaces(arch: Arch) -> Result<SyscallFilter, JumpTooLongError> {
    compile_groups(arch, GROUPS.iter().chain(WITHOUT_NAMESPACES))
}

/// Does the same for a command with TCP sockets, which Landlock confines to ports.
pub fn compile_with_tcp(arch: Arch) -> Result<SyscallFilter, JumpTooLongError> {
    compile_groups(arch, GROUPS.iter().chain(WITHOUT_NAMESPACES).chain(WITH_TCP))
}

/// Returns the name of a call that a supervisor performs.
pub(crate) fn supervised_call(arch: Arch, number: u32) -> Option<&'static str> {
    let supervised =
        WITHOUT_NAMESPACES.iter().filter(|group| matches!(group.action, SyscallAction::Supervise));
    let call = supervised.flat_map(|group| group.calls).find(|call| call.number(arch) == Some(number))?;
    Some(call.name)
}

/// Compiles the filter in two parts, of which the stricter one applies to every call. The first is for the first process of a
/// session, and its commands inherit it. The small second part is for each command, and refuses calls that its first process
/// needs until then. Installing a filter takes longer than most other steps of starting a command.
pub fn compile_for_session(arch: Arch) -> Result<[SyscallFilter; 2], JumpTooLongError> {
    let all = answers(arch, GROUPS.iter()).into_iter();
    let (rest, shared): (Vec<_>, Vec<_>) = all.partition(|(number, _)| is_needed(*number));
    Ok([compile_answers(arch, &shared)?, compile_answers(arch, &rest)?])
}

/// Returns whether the first process of a command needs a call in order to start. The numbers are the same on every architecture.
fn is_needed(call: u32) -> bool {
    NEEDED_BEFORE_START.iter().any(|needed| needed.x86_64 == Some(call))
}

/// Compiles groups. If a call is in several of them, the last one applies.
fn compile_groups<'a>(
    arch: Arch,
    groups: impl Iterator<Item = &'a SyscallGroup>,
) -> Result<SyscallFilter, JumpTooLongError> {
    compile_answers(arch, &answers(arch, groups))
}

fn answers<'a>(arch: Arch, groups: impl Iterator<Item = &'a SyscallGroup>) -> Vec<(u32, SyscallAction)> {
    let mut answers: BTreeMap<u32, SyscallAction> = BTreeMap::new();
    for group in groups {
        answers.extend(group.calls.iter().filter_map(|call| Some((call.number(arch)?, group.action))));
    }
    answers.into_iter().collect()
}

fn compile_answers(arch: Arch, refusals: &[(u32, SyscallAction)]) -> Result<SyscallFilter, JumpTooLongError> {
    let mut program = vec![
        load(OFFSET_ARCH),
        jump(JEQ, 1, 0, arch.audit())?,
        ret(KILL_PROCESS),
        load(OFFSET_NUMBER),
        // This includes every x32 call, whose number has a high bit set.
        jump(JGT, 0, 1, NEWEST_SYSCALL)?,
        ret(refusal(ENOSYS)),
    ];
    if let Some((lowest, _)) = refusals.first().filter(|_| refusals.len() <= BUCKET) {
        // There are few calls, and most numbers are below them. One comparison avoids the others.
        program.extend([jump(JGE, 1, 0, *lowest)?, ret(ALLOW)]);
    }
    program.extend(tree(refusals)?);
    Ok(SyscallFilter { instructions: program })
}

/// A system call by its numbers.
#[derive(Clone, Copy, Debug)]
struct Syscall {
    name: &'static str,
    x86_64: Option<u32>,
    aarch64: Option<u32>,
}

impl Syscall {
    const fn number(&self, arch: Arch) -> Option<u32> {
        match arch {
            Arch::X86_64 => self.x86_64,
            Arch::Aarch64 => self.aarch64,
        }
    }
}

/// The action for a call.
#[derive(Clone, Copy, Debug)]
enum SyscallAction {
    Refuse(u16),
    RefuseBits {
        argument: u32,
        bits: u32,
        errno: u16,
    },
    RefuseBitsWith {
        argument: u32,
        bits: u32,
        with: u32,
        with_bits: u32,
        errno: u16,
    },
    RefuseValues {
        argument: u32,
        values: &'static [u32],
        errno: u16,
    },
    AllowValues {
        argument: u32,
        values: &'static [u32],
        errno: u16,
    },
    /// Allows local and internet sockets, and of netlink only the routing family.
    Families {
        errno: u16,
    },
    /// Allows TCP sockets, which Landlock confines.
    TcpSockets {
        errno: u16,
    },
    /// Allows pairs of local sockets that stay connected to each other.
    BoundPairs {
        errno: u16,
    },
    /// Asks the supervisor, which performs the call itself or refuses it.
    Supervise,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u16,
    then: u8,
    otherwise: u8,
    k: u32,
}

const LOAD: u16 = 0x20;
const JA: u16 = 0x05;
const JEQ: u16 = 0x15;
const JGT: u16 = 0x25;
const JGE: u16 = 0x35;
const JSET: u16 = 0x45;
const RET: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const USER_NOTIFICATION: u32 = 0x7fc0_0000;
const ENOSYS: u16 = 38;
const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCH: u32 = 4;
/// The number of calls that are compared in sequence before a split is worthwhile.
const BUCKET: usize = 8;

const fn refusal(errno: u16) -> u32 {
    0x0005_0000 | errno as u32
}

const fn load(offset: u32) -> Instruction {
    Instruction { code: LOAD, then: 0, otherwise: 0, k: offset }
}

const fn ret(value: u32) -> Instruction {
    Instruction { code: RET, then: 0, otherwise: 0, k: value }
}

fn jump(code: u16, then: usize, otherwise: usize, k: u32) -> Result<Instruction, JumpTooLongError> {
    let short = |distance: usize| u8::try_from(distance).map_err(|_| JumpTooLongError(distance));
    Ok(Instruction { code, then: short(then)?, otherwise: short(otherwise)?, k })
}

/// Loads the low half of an argument. The kernel uses at most 32 bits of every argument that is checked.
const fn argument(index: u32) -> Instruction {
    load(16 + 8 * index)
}

/// Splits the calls until few enough are left. The cost of installing a filter depends on the path length for each number.
fn tree(refusals: &[(u32, SyscallAction)]) -> Result<Vec<Instruction>, JumpTooLongError> {
    let (low, high) = refusals.split_at(refusals.len() / 2);
    let Some((first_high, _)) = high.first().filter(|_| refusals.len() > BUCKET) else {
        return bucket(refusals);
    };
    let (low, high) = (tree(low)?, tree(high)?);
    let mut program = match jump(JGE, low.len(), 0, *first_high) {
        Ok(over) => vec![over],
        Err(JumpTooLongError(distance)) => {
            let k = u32::try_from(distance).map_err(|_| JumpTooLongError(distance))?;
            let far = Instruction { code: JA, then: 0, otherwise: 0, k };
            vec![jump(JGE, 0, 1, *first_high)?, far]
        }
    };
    program.extend(low);
    program.extend(high);
    Ok(program)
}

/// Emits comparisons in sequence, then each plain action once, then the actions that check arguments.
fn bucket(refusals: &[(u32, SyscallAction)]) -> Result<Vec<Instruction>, JumpTooLongError> {
    let mut tail = vec![ret(ALLOW)];
    let mut comparisons = Vec::new();
    for (at, (number, answer)) in refusals.iter().enumerate() {
        // A plain action is shared by all calls that have it.
        let plain = match answer {
            SyscallAction::Refuse(errno) => Some(refusal(*errno)),
            SyscallAction::Supervise => Some(USER_NOTIFICATION),
            _ => None,
        };
        let place = plain.and_then(|plain| tail.iter().position(|given| *given == ret(plain)));
        let place = place.unwrap_or_else(|| {
            let end = tail.len();
            tail.extend(answer.instructions());
            end
        });
        comparisons.push(jump(JEQ, refusals.len() - at - 1 + place, 0, *number)?);
    }
    comparisons.extend(tail);
    Ok(comparisons)
}

impl SyscallAction {
    fn instructions(self) -> Vec<Instruction> {
        // Every jump is within these few instructions.
        let near = |code, then, otherwise, k| Instruction { code, then, otherwise, k };
        match self {
            Self::Refuse(errno) => vec![ret(refusal(errno))],
            Self::Supervise => vec![ret(USER_NOTIFICATION)],
            Self::RefuseBits { argument: index, bits, errno } => {
                vec![argument(index), near(JSET, 0, 1, bits), ret(refusal(errno)), ret(ALLOW)]
            }
            Self::RefuseBitsWith { argument: index, bits, with, with_bits, errno } => vec![
                argument(with),
                near(JSET, 0, 3, with_bits),
                argument(index),
                near(JSET, 0, 1, bits),
                ret(refusal(errno)),
                ret(ALLOW),
            ],
            Self::RefuseValues { argument: index, values, errno } => {
                one_of(index, values, refusal(errno), ALLOW)
            }
            Self::AllowValues { argument: index, values, errno } => {
                one_of(index, values, ALLOW, refusal(errno))
            }
            Self::TcpSockets { errno } => {
                const AF_INET: u32 = 2;
                const AF_INET6: u32 = 10;
                // Everything but the flags for closing on exec and for not blocking, as far as one bit can tell: a stream is 1.
                const OTHER_TYPES: u32 = 0b1110;
                const IPPROTO_TCP: u32 = 6;
                vec![
                    argument(0),
                    near(JEQ, 1, 0, AF_INET),
                    near(JEQ, 0, 6, AF_INET6),
                    argument(1),
                    near(JSET, 4, 0, OTHER_TYPES),
                    argument(2),
                    near(JEQ, 1, 0, 0),
                    near(JEQ, 0, 1, IPPROTO_TCP),
                    ret(ALLOW),
                    ret(refusal(errno)),
                ]
            }
            Self::BoundPairs { errno } => {
                const AF_UNIX: u32 = 1;
                // Datagram sockets are 2 and raw ones 3, which are treated alike here. Stream sockets are 1, and sequenced
                // packets 5.
                const DATAGRAM_BIT: u32 = 2;
                vec![
                    argument(0),
                    near(JEQ, 0, 2, AF_UNIX),
                    argument(1),
                    near(JSET, 0, 1, DATAGRAM_BIT),
                    ret(refusal(errno)),
                    ret(ALLOW),
                ]
            }
            Self::Families { errno } => {
                const AF_UNIX: u32 = 1;
                const AF_INET: u32 = 2;
                const AF_INET6: u32 = 10;
                const AF_NETLINK: u32 = 16;
                const NETLINK_ROUTE: u32 = 0;
                vec![
                    argument(0),
                    near(JEQ, 5, 0, AF_UNIX),
                    near(JEQ, 4, 0, AF_INET),
                    near(JEQ, 3, 0, AF_INET6),
                    near(JEQ, 0, 3, AF_NETLINK),
                    argument(2),
                    near(JEQ, 0, 1, NETLINK_ROUTE),
                    ret(ALLOW),
                    ret(refusal(errno)),
                ]
            }
        }
    }
}

fn one_of(index: u32, values: &[u32], then: u32, otherwise: u32) -> Vec<Instruction> {
    let mut program = vec![argument(index)];
    // The values are compared from the last on, so that each knows how many follow.
    for (left, value) in values.iter().enumerate().rev() {
        let over = u8::try_from(left + 1).unwrap_or(u8::MAX);
        program.push(Instruction { code: JEQ, then: over, otherwise: 0, k: *value });
    }
    program.extend([ret(otherwise), ret(then)]);
    program
}

#[cfg(test)]
mod tests;
