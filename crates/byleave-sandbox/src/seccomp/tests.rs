//! Tests the filter by its decisions: the instructions are interpreted as the kernel would.

use super::*;

const ALLOWED: FilterDecision = FilterDecision::Allow;

#[derive(Debug, PartialEq, Eq)]
enum FilterDecision {
    Allow,
    Errno(u32),
    Kill,
    Supervise,
}

fn decide(filter: &SyscallFilter, arch: u32, number: u32, args: [u64; 6]) -> FilterDecision {
    let mut data = Vec::new();
    data.extend(number.to_le_bytes());
    data.extend(arch.to_le_bytes());
    data.extend(0u64.to_le_bytes());
    args.iter().for_each(|arg| data.extend(arg.to_le_bytes()));
    let (mut at, mut accumulator) = (0usize, 0u32);
    loop {
        let Instruction { code, then, otherwise, k } = filter.instructions[at];
        let branch = |taken: bool| usize::from(if taken { then } else { otherwise });
        at += 1;
        match code {
            LOAD => {
                let offset = k as usize;
                accumulator = u32::from_le_bytes(data[offset..offset + 4].try_into().unwrap());
            }
            JA => at += k as usize,
            JEQ => at += branch(accumulator == k),
            JGT => at += branch(accumulator > k),
            JGE => at += branch(accumulator >= k),
            JSET => at += branch(accumulator & k != 0),
            RET if k == ALLOW => return FilterDecision::Allow,
            RET if k == KILL_PROCESS => return FilterDecision::Kill,
            RET if k == USER_NOTIFICATION => return FilterDecision::Supervise,
            RET => return FilterDecision::Errno(k & 0xffff),
            code => panic!("an instruction that is never written: {code:#x}"),
        }
    }
}

fn number(arch: Arch, name: &str) -> Option<u32> {
    let calls = GROUPS.iter().flat_map(|group| group.calls);
    calls.filter(|call| call.name == name).find_map(|call| call.number(arch))
}

// req: E2
#[test]
fn every_call_is_answered_as_the_table_says_and_all_others_are_allowed() {
    for arch in [Arch::X86_64, Arch::Aarch64] {
        let filter = compile(arch).unwrap();
        for nr in 0..=NEWEST_SYSCALL {
            let group =
                GROUPS.iter().find(|group| group.calls.iter().any(|call| call.number(arch) == Some(nr)));
            let got = decide(&filter, arch.audit(), nr, [0; 6]);
            match group.map(|group| group.action) {
                Some(SyscallAction::Refuse(errno)) => {
                    assert_eq!(got, FilterDecision::Errno(errno.into()), "{arch:?} {nr}")
                }
                Some(SyscallAction::Families { .. } | SyscallAction::AllowValues { .. }) => {}
                _ => assert_eq!(got, ALLOWED, "{arch:?} {nr}"),
            }
        }
    }
}

// req: E2
#[test]
fn arguments_decide_where_they_matter() {
    let (eperm, family) = (FilterDecision::Errno(1), FilterDecision::Errno(97));
    let cases: &[(&str, [u64; 4], &FilterDecision)] = &[
        ("clone", [0x11, 0, 0, 0], &ALLOWED),
        ("clone", [0x1000_0011, 0, 0, 0], &eperm),
        ("clone", [0x0002_0000, 0, 0, 0], &eperm),
        ("clone", [0x4000_0000, 0, 0, 0], &eperm),
        ("ioctl", [0, 0x5412, 0, 0], &eperm),
        ("ioctl", [0, 0x541c, 0, 0], &eperm),
        ("ioctl", [0, 0x5423, 0, 0], &eperm),
        // The kernel uses 32 bits of it, so further bits do not hide a value.
        ("ioctl", [0, 0xdead_0000_5412, 0, 0], &eperm),
        ("ioctl", [0, 0x5401, 0, 0], &ALLOWED),
        ("socket", [1, 1, 0, 0], &ALLOWED),
        ("socket", [2, 1, 6, 0], &ALLOWED),
        ("socket", [10, 2, 17, 0], &ALLOWED),
        ("socket", [16, 3, 0, 0], &ALLOWED),
        ("socket", [16, 3, 15, 0], &family),
        ("socket", [40, 1, 0, 0], &family),
        ("socket", [17, 3, 0, 0], &family),
        ("socket", [38, 5, 0, 0], &family),
        ("socketpair", [1, 1, 0, 0], &ALLOWED),
        ("socketpair", [40, 1, 0, 0], &family),
        ("personality", [0xffff_ffff, 0, 0, 0], &ALLOWED),
        ("personality", [0x40_0000, 0, 0, 0], &eperm),
        ("fchmod", [0, 0o755, 0, 0], &ALLOWED),
        ("fchmod", [0, 0o4755, 0, 0], &eperm),
        ("fchmodat", [0, 0, 0o2755, 0], &eperm),
        ("mkdirat", [0, 0, 0o2755, 0], &eperm),
        ("openat", [0, 0, 0o101, 0o4755], &eperm),
        ("openat", [0, 0, 0o101, 0o755], &ALLOWED),
        // Unless a file is created, the mode argument has no meaning.
        ("openat", [0, 0, 0, 0o4755], &ALLOWED),
        ("openat", [0, 0, 0o20_200_002, 0o4755], &eperm),
    ];
    for arch in [Arch::X86_64, Arch::Aarch64] {
        let filter = compile(arch).unwrap();
        for (name, [a, b, c, d], want) in cases {
            let nr = number(arch, name).unwrap();
            assert_eq!(
                &&decide(&filter, arch.audit(), nr, [*a, *b, *c, *d, 0, 0]),
                want,
                "{arch:?} {name} {a} {b} {c} {d}"
            );
        }
    }
}

// req: E2
#[test]
fn a_foreign_architecture_is_killed_and_what_is_newer_does_not_exist() {
    let filter = compile(Arch::X86_64).unwrap();
    let i386 = 0x4000_0003;
    assert_eq!(decide(&filter, i386, 20, [0; 6]), FilterDecision::Kill);
    let getpid_of_x32 = 0x4000_0000 | 39;
    assert_eq!(decide(&filter, Arch::X86_64.audit(), getpid_of_x32, [0; 6]), FilterDecision::Errno(38));
    assert_eq!(decide(&filter, Arch::X86_64.audit(), NEWEST_SYSCALL + 1, [0; 6]), FilterDecision::Errno(38));
}

// req: E2
#[test]
fn no_call_is_named_twice_and_the_filter_stays_small() {
    for arch in [Arch::X86_64, Arch::Aarch64] {
        let mut numbers: Vec<u32> =
            GROUPS.iter().flat_map(|group| group.calls).filter_map(|call| call.number(arch)).collect();
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count, "{arch:?}");
        let length = compile(arch).unwrap().instructions.len();
        assert!(length <= 260, "{arch:?}: {length} instructions take longer to install");
    }
}

// req: E2
#[test]
fn without_namespaces_there_are_no_sockets_and_nothing_is_shared() {
    const AF_UNIX: u64 = 1;
    for (arch, calls) in [(Arch::X86_64, [41, 29, 64, 68, 240]), (Arch::Aarch64, [198, 194, 190, 186, 180])] {
        let (usual, alone) = (compile(arch).unwrap(), compile_without_namespaces(arch).unwrap());
        for number in calls {
            let asked =
                |filter: &SyscallFilter| decide(filter, arch.audit(), number, [AF_UNIX, 0, 0, 0, 0, 0]);
            assert_eq!(asked(&usual), ALLOWED, "{number}");
            assert_ne!(asked(&alone), ALLOWED, "{number}");
        }
    }
    let filter = compile_without_namespaces(Arch::X86_64).unwrap();
    let pair = |family, kind| decide(&filter, Arch::X86_64.audit(), 53, [family, kind, 0, 0, 0, 0]);
    for kind in [1, 5, 1 | 0o2_000_000, 5 | 0o4000] {
        assert_eq!(pair(AF_UNIX, kind), ALLOWED, "a pair of sockets leads to nobody");
        assert_ne!(pair(30, kind), ALLOWED, "of another family");
    }
    for kind in [2, 3, 2 | 0o2_000_000] {
        assert_ne!(pair(AF_UNIX, kind), ALLOWED, "but one for datagrams does");
    }
}

// req: E2
#[test]
fn in_two_parts_it_refuses_what_it_refuses_in_one() {
    let arguments = [0, 1, 2, 16, 0o4755, 0x5412, 0o101, 0x1000_0011, 0xffff_ffff];
    for arch in [Arch::X86_64, Arch::Aarch64] {
        let (whole, parts) = (compile(arch).unwrap(), compile_for_session(arch).unwrap());
        let numbers = (0..NEWEST_SYSCALL + 2).chain([0x4000_0000 | 39]);
        for (number, of) in numbers.flat_map(|number| [(number, arch.audit()), (number, 0x4000_0003)]) {
            for (one, other) in arguments.iter().flat_map(|one| arguments.map(|other| (*one, other))) {
                let args = [one, other, other, one, 0, 0];
                let [shared, rest] = parts.each_ref().map(|part| decide(part, of, number, args));
                let both = if shared == ALLOWED { rest } else { shared };
                assert_eq!(both, decide(&whole, of, number, args), "{arch:?} {number} {args:?}");
            }
        }
        assert!(parts[1].instructions.len() <= 20, "{arch:?}: small enough to be worth it");
    }
}

// req: E2
#[test]
fn without_namespaces_a_supervisor_answers_what_landlock_does_not_confine() {
    for arch in [Arch::X86_64, Arch::Aarch64] {
        for filter in [compile_without_namespaces(arch), compile_with_tcp(arch)] {
            let filter = filter.unwrap();
            let mut names = Vec::new();
            for number in 0..=NEWEST_SYSCALL {
                let asks = decide(&filter, arch.audit(), number, [0, 0o4755, 0o4755, 0, 0, 0])
                    == FilterDecision::Supervise;
                assert_eq!(asks, supervised_call(arch, number).is_some(), "{arch:?} {number}");
                names.extend(supervised_call(arch, number));
            }
            for change in ["chmod", "chown", "utimens", "setxattr", "removexattr"] {
                assert!(names.iter().any(|name| name.contains(change)), "{arch:?} {change}: {names:?}");
            }
        }
        // With namespaces nobody waits for an answer.
        let usual = compile(arch).unwrap();
        let asks = |number| decide(&usual, arch.audit(), number, [0; 6]) == FilterDecision::Supervise;
        assert!(!(0..=NEWEST_SYSCALL).any(asks));
    }
    // Other processes are not scheduled by a command.
    let filter = compile_without_namespaces(Arch::X86_64).unwrap();
    for (number, own, other) in
        [(203, [0, 0], [7, 0]), (144, [0, 0], [7, 0]), (141, [0, 0], [0, 7]), (251, [1, 0], [1, 7])]
    {
        let decide =
            |[one, two]: [u64; 2]| decide(&filter, Arch::X86_64.audit(), number, [one, two, 0, 0, 0, 0]);
        assert_eq!((decide(own), decide(other)), (ALLOWED, FilterDecision::Errno(1)), "{number}");
    }
}
