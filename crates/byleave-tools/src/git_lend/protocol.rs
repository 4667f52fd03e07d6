//! Reads the protocol of Git: packet lines, the request of a client, the refs of a server, and the commands of a push. It is pure.
//!
//! A push is passed on only if every line of it was understood. So this is stricter than Git: it offers a client only the capabilities
//! that leave a push as a list of commands and a pack.

use std::collections::{BTreeMap, BTreeSet};

use byleave_gate::core::git_transport::{GitRefUpdate, GitService};

/// The maximum length of a packet line, with its length field.
const LINE_BYTES_MAX: usize = 65_520;
/// The maximum length of the name of a ref.
const NAME_BYTES_MAX: usize = 1024;
/// The maximum number of refs that a push moves.
const UPDATES_MAX: usize = 256;

/// The capabilities of a server that a client may use in a push.
const CAPABILITIES: [&str; 6] =
    ["report-status", "delete-refs", "side-band-64k", "quiet", "atomic", "ofs-delta"];
/// The capabilities with a value.
const VALUES: [&str; 2] = ["object-format", "agent"];

/// The error of a line that is not as expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct ProtocolError(pub(super) &'static str);

/// A packet line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    /// A line.
    Data(Vec<u8>),
    /// The end of a message.
    Flush,
    /// The mark between two sections.
    Delimiter,
    /// The end of a response of a stateless connection.
    ResponseEnd,
}

impl Packet {
    /// Returns the bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Data(data) => data_line(data),
            Self::Flush => b"0000".to_vec(),
            Self::Delimiter => b"0001".to_vec(),
            Self::ResponseEnd => b"0002".to_vec(),
        }
    }
}

/// Returns a packet line with this content, which must be short enough.
pub(super) fn data_line(data: &[u8]) -> Vec<u8> {
    let mut line = format!("{:04x}", data.len().saturating_add(4)).into_bytes();
    line.extend_from_slice(data);
    line
}

/// Parses the first packet of a text. Returns it with its length, or nothing if more bytes are needed.
pub(super) fn parse_packet(bytes: &[u8]) -> Result<Option<(Packet, usize)>, ProtocolError> {
    let Some((digits, rest)) = bytes.split_at_checked(4) else { return Ok(None) };
    let broken = ProtocolError("a packet line has no length");
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(broken);
    }
    let length = str::from_utf8(digits).ok().and_then(|digits| usize::from_str_radix(digits, 16).ok());
    let packet = match length.ok_or(broken)? {
        0 => Packet::Flush,
        1 => Packet::Delimiter,
        2 => Packet::ResponseEnd,
        3 => return Err(ProtocolError("a packet line has the length 3")),
        length if length > LINE_BYTES_MAX => return Err(ProtocolError("a packet line is too long")),
        length => {
            let Some(data) = rest.get(..length.saturating_sub(4)) else { return Ok(None) };
            return Ok(Some((Packet::Data(data.to_vec()), length)));
        }
    };
    Ok(Some((packet, 4)))
}

/// The first line of a client: the service, the path, and whether it offers version 2 of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceRequest {
    pub(super) service: GitService,
    pub(super) path: String,
    pub(super) version_2: bool,
}

impl ServiceRequest {
    /// Parses a line such as `git-upload-pack /path\0host=x\0\0version=2\0`.
    pub(super) fn parse(line: &[u8]) -> Result<Self, ProtocolError> {
        let broken = || ProtocolError("the request is not one of Git");
        let text = str::from_utf8(line).map_err(|_| broken())?;
        let (command, parameters) = text.split_once('\0').unwrap_or((text, ""));
        let (program, path) = command.trim_end_matches('\n').split_once(' ').ok_or_else(broken)?;
        let service = GitService::from_program(program).ok_or_else(broken)?;
        let version_2 = parameters.split('\0').any(|parameter| parameter == "version=2");
        Ok(Self { service, path: path.to_owned(), version_2 })
    }
}

/// The refs of a server, as a push sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RefAdvertisement {
    /// The commit of each ref.
    pub(super) refs: BTreeMap<String, String>,
    /// The capabilities that a client may use.
    capabilities: Vec<String>,
    /// The lines without their capabilities.
    lines: Vec<Vec<u8>>,
}

impl RefAdvertisement {
    /// Adds a line. Returns the message of the server if the line is an error.
    pub(super) fn add_line(&mut self, line: &[u8]) -> Result<(), String> {
        let broken = || "the server sent refs that cannot be read".to_owned();
        let text = str::from_utf8(line).map_err(|_| broken())?;
        if let Some(message) = text.strip_prefix("ERR ") {
            return Err(format!("the server says: {}", message.trim_end()));
        }
        if text.starts_with("version ") {
            return Err("the server speaks another version of the protocol of a push".to_owned());
        }
        let (text, capabilities) = match text.split_once('\0') {
            Some((text, capabilities)) if self.lines.is_empty() => (text, Some(capabilities)),
            Some(_) => return Err(broken()),
            None => (text, None),
        };
        let text = text.strip_suffix('\n').unwrap_or(text);
        if let Some(capabilities) = capabilities {
            let known = capabilities.trim_end().split(' ').filter(|capability| is_capability(capability));
            self.capabilities = known.map(str::to_owned).collect();
        } else if self.lines.is_empty() {
            return Err(broken());
        }
        let (id, name) = text.split_once(' ').ok_or_else(broken)?;
        match (id, name) {
            ("shallow", id) if is_object_id(id) => {}
            // The commits of other repositories, which a server need not be sent again; and a server without refs.
            (id, ".have" | "capabilities^{}") if is_object_id(id) => {}
            (id, name) if is_object_id(id) && is_ref_name(name) => {
                self.refs.insert(name.to_owned(), id.to_owned());
            }
            _ => return Err(broken()),
        }
        self.lines.push(text.as_bytes().to_vec());
        Ok(())
    }

    /// Returns the bytes for the client, with only the capabilities that it may use.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (at, line) in self.lines.iter().enumerate() {
            let mut line = line.clone();
            if at == 0 {
                line.push(0);
                line.extend_from_slice(self.capabilities.join(" ").as_bytes());
            }
            line.push(b'\n');
            bytes.extend(data_line(&line));
        }
        bytes.extend(Packet::Flush.to_bytes());
        bytes
    }

    /// Returns an error if a push does not begin with the refs as they are on the server.
    pub(super) fn check_old_ids(&self, updates: &[GitRefUpdate]) -> Result<(), ProtocolError> {
        let is_current = |update: &GitRefUpdate| self.refs.get(&update.name) == update.old.as_ref();
        match updates.iter().all(is_current) {
            true => Ok(()),
            false => Err(ProtocolError("the push does not begin with the refs of the server")),
        }
    }
}

fn is_capability(word: &str) -> bool {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    match word.contains('=') {
        true => {
            VALUES.contains(&name) && value.len() <= 256 && value.bytes().all(|byte| byte.is_ascii_graphic())
        }
        false => CAPABILITIES.contains(&name),
    }
}

fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Checks the name of a ref. It may have any letters, but no control characters and nothing that another line begins with.
fn is_ref_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
        && (name == "HEAD" || name.starts_with("refs/"))
        && !name.chars().any(|letter| letter.is_control() || " ~^:?*[\\".contains(letter))
        && !name.contains("..")
}

/// The commands of a push: the refs that it moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PushCommands {
    /// The moved refs, in order of their names.
    pub(super) updates: Vec<GitRefUpdate>,
    /// Whether a report is wrapped in a side band.
    side_band: bool,
    /// Whether the client wants a report.
    report: bool,
    has_line: bool,
}

impl PushCommands {
    /// Adds a line.
    pub(super) fn add_line(&mut self, line: &[u8]) -> Result<(), ProtocolError> {
        let broken = || ProtocolError("a command of the push cannot be read");
        let text = str::from_utf8(line).map_err(|_| broken())?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        if let Some(id) = text.strip_prefix("shallow ") {
            return if is_object_id(id) && !self.has_line { Ok(()) } else { Err(broken()) };
        }
        let text = match text.split_once('\0') {
            Some((text, capabilities)) if !self.has_line => {
                for capability in capabilities.split(' ').filter(|capability| !capability.is_empty()) {
                    if !is_capability(capability) {
                        return Err(ProtocolError("the push uses a capability that is not lent"));
                    }
                    self.side_band |= capability == "side-band-64k";
                    self.report |= capability == "report-status";
                }
                text
            }
            Some(_) => return Err(broken()),
            None => text,
        };
        self.has_line = true;
        let mut words = text.splitn(3, ' ');
        let (Some(old), Some(new), Some(name)) = (words.next(), words.next(), words.next()) else {
            return Err(broken());
        };
        if !is_object_id(old) || !is_object_id(new) || old.len() != new.len() || !is_ref_name(name) {
            return Err(broken());
        }
        if self.updates.len() >= UPDATES_MAX {
            return Err(ProtocolError("the push moves too many refs"));
        }
        let id = |text: &str| text.bytes().any(|byte| byte != b'0').then(|| text.to_owned());
        self.updates.push(GitRefUpdate { name: name.to_owned(), old: id(old), new: id(new) });
        Ok(())
    }

    /// Ends the list.
    pub(super) fn finish(&mut self) -> Result<(), ProtocolError> {
        self.updates.sort();
        let names: BTreeSet<&String> = self.updates.iter().map(|update| &update.name).collect();
        match names.len() == self.updates.len() {
            true => Ok(()),
            false => Err(ProtocolError("the push moves a ref twice")),
        }
    }

    /// Returns whether a pack follows: a push that only deletes has none.
    pub(super) fn has_pack(&self) -> bool {
        self.updates.iter().any(|update| update.new.is_some())
    }

    /// Returns the report that refuses every command.
    pub(super) fn refusal(&self, reason: &str) -> Vec<u8> {
        if !self.report {
            return Vec::new();
        }
        let mut report = data_line(b"unpack ok\n");
        for update in &self.updates {
            report.extend(data_line(format!("ng {} {reason}\n", update.name).as_bytes()));
        }
        report.extend(Packet::Flush.to_bytes());
        if !self.side_band {
            return report;
        }
        let mut wrapped = Vec::new();
        for part in report.chunks(60_000) {
            wrapped.extend(data_line(&[&[1], part].concat()));
        }
        wrapped.extend(Packet::Flush.to_bytes());
        wrapped
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: &str = "1111111111111111111111111111111111111111";
    const B: &str = "2222222222222222222222222222222222222222";
    const ZERO: &str = "0000000000000000000000000000000000000000";

    fn commands(lines: &[String]) -> Result<PushCommands, ProtocolError> {
        let mut commands = PushCommands::default();
        lines.iter().try_for_each(|line| commands.add_line(line.as_bytes()))?;
        commands.finish().map(|()| commands)
    }

    // req: E7
    #[test]
    fn a_request_names_a_service_and_a_path() {
        let request =
            ServiceRequest::parse(b"git-upload-pack /0/h/app.git\0host=127.0.0.1:9419\0\0version=2\0");
        let expected =
            ServiceRequest { service: GitService::UploadPack, path: "/0/h/app.git".into(), version_2: true };
        assert_eq!(request, Ok(expected));
        let push = ServiceRequest::parse(b"git-receive-pack /0\0host=x\0").unwrap();
        assert_eq!((push.service, push.version_2), (GitService::ReceivePack, false));
        for line in
            [&b"git-upload-archive /0\0"[..], b"git-receive-pack", b"", b"\xff", b"GET / HTTP/1.1\r\n"]
        {
            assert!(ServiceRequest::parse(line).is_err(), "{line:?}");
        }
    }

    // req: E7
    #[test]
    fn a_client_is_offered_only_what_can_be_read_back() {
        let mut refs = RefAdvertisement::default();
        let offered = "report-status report-status-v2 delete-refs push-options push-cert=n side-band-64k atomic \
                       object-format=sha1 agent=git/2.0";
        refs.add_line(format!("{A} refs/heads/main\0{offered}\n").as_bytes()).unwrap();
        refs.add_line(format!("{B} .have\n").as_bytes()).unwrap();
        refs.add_line(format!("{B} refs/tags/v1\n").as_bytes()).unwrap();
        let text = String::from_utf8(refs.to_bytes()).unwrap();
        assert!(
            text.contains(
                "report-status delete-refs side-band-64k atomic object-format=sha1 agent=git/2.0\n"
            )
        );
        assert!(!text.contains("push-"), "{text}");
        assert!(text.ends_with("0000"), "{text}");
        assert_eq!(refs.refs.len(), 2);
        let update = |old: &str| GitRefUpdate {
            name: "refs/heads/main".into(),
            old: (!old.is_empty()).then(|| old.into()),
            new: Some(B.into()),
        };
        assert!(refs.check_old_ids(&[update(A)]).is_ok());
        assert!(refs.check_old_ids(&[update(B)]).is_err() && refs.check_old_ids(&[update("")]).is_err());
        for line in ["ERR not yours", "version 1", "x", &format!("{A} refs/heads/a b"), &format!("{A} x")] {
            assert!(RefAdvertisement::default().add_line(line.as_bytes()).is_err(), "{line}");
        }
    }

    // req: E7
    #[test]
    fn the_commands_of_a_push_are_read_completely_or_not_at_all() {
        let main = format!("{A} {B} refs/heads/main\0 report-status side-band-64k agent=git/2.0");
        let delete = format!("{A} {ZERO} refs/heads/old");
        let read = commands(&[main.clone(), delete.clone()]).unwrap();
        assert!(read.has_pack() && read.side_band);
        assert_eq!(read.updates.len(), 2);
        assert_eq!(
            read.updates[1],
            GitRefUpdate { name: "refs/heads/old".into(), old: Some(A.into()), new: None }
        );
        assert!(!commands(std::slice::from_ref(&delete)).unwrap().has_pack());
        let report = String::from_utf8_lossy(&read.refusal("no")).into_owned();
        assert!(
            report.contains("ng refs/heads/main no\n") && report.contains("ng refs/heads/old no\n"),
            "{report}"
        );
        for lines in [
            vec![format!("{A} {B} refs/heads/main\0push-options")],
            vec!["push-cert\0report-status".to_owned()],
            vec![main.clone(), main.clone()],
            vec![main.clone(), format!("{A} {B} refs/heads/x\0atomic")],
            vec![main.clone(), format!("shallow {A}")],
            vec![format!("{A} {B} heads/main")],
            vec![format!("{A} {B} refs/heads/a\nb")],
            vec![format!("{A} 2222222222 refs/heads/main")],
            vec![format!("{A} {B}")],
            vec![String::new()],
        ] {
            assert!(commands(&lines).is_err(), "{lines:?}");
        }
    }

    #[test]
    fn a_packet_line_has_one_reading() {
        assert_eq!(parse_packet(b"0006a\n0000"), Ok(Some((Packet::Data(b"a\n".to_vec()), 6))));
        assert_eq!(parse_packet(b"0000x"), Ok(Some((Packet::Flush, 4))));
        assert_eq!(parse_packet(b"0001"), Ok(Some((Packet::Delimiter, 4))));
        assert_eq!(parse_packet(b"0006a"), Ok(None));
        assert_eq!(parse_packet(b"000"), Ok(None));
        for bytes in [&b"0003"[..], b"ffff", b"+006a\n", b" 006a\n", b"xxxx"] {
            assert!(parse_packet(bytes).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn packets_are_read_as_they_were_written(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8)) {
            let packets: Vec<Packet> = lines.into_iter().map(Packet::Data).chain([Packet::Flush]).collect();
            let bytes: Vec<u8> = packets.iter().flat_map(Packet::to_bytes).collect();
            let (mut rest, mut read) = (bytes.as_slice(), Vec::new());
            while let Some((packet, length)) = parse_packet(rest).unwrap() {
                read.push(packet);
                rest = &rest[length..];
            }
            prop_assert_eq!(read, packets);
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn nothing_that_a_peer_sends_breaks_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            parse_packet(&bytes).ok();
            ServiceRequest::parse(&bytes).ok();
            RefAdvertisement::default().add_line(&bytes).ok();
            let mut commands = PushCommands::default();
            if commands.add_line(&bytes).is_ok() && commands.finish().is_ok() {
                for update in &commands.updates {
                    prop_assert!(update.name.starts_with("refs/") || update.name == "HEAD");
                }
            }
        }
    }
}
