//! Parses one DNS question and encodes one answer. It performs no I/O.

use std::net::Ipv4Addr;

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DnsAnswer {
    /// The name has this address.
    Address(Ipv4Addr),
    /// The name is not granted.
    Refused,
    /// No address is left.
    Failed,
}

const HEADER: usize = 12;
const TYPE_A: u16 = 1;
const CLASS_IN: u16 = 1;
/// Short, so that clients do not cache an address for long. The table keeps it for the session anyway.
const TTL_SECONDS: u32 = 30;

const FORMAT_ERROR: u8 = 1;
const SERVER_FAILURE: u8 = 2;
const NOT_IMPLEMENTED: u8 = 4;
const REFUSED: u8 = 5;

/// Answers a query after checking its name. `None` if it gets no answer.
pub(crate) fn answer_query(query: &[u8], judge: impl FnOnce(&str) -> DnsAnswer) -> Option<Vec<u8>> {
    let [id_high, id_low, flags, _, questions_high, questions_low, ..] = *query else { return None };
    if query.len() < HEADER || flags & 0x80 != 0 {
        return None;
    }
    let respond = |code: u8, question: &[u8], found: Option<Ipv4Addr>| {
        let count = |some: bool| [0, u8::from(some)];
        let mut out = vec![id_high, id_low, 0x80 | flags & 0x79, 0x80 | code];
        out.extend(count(!question.is_empty()));
        out.extend(count(found.is_some()));
        out.extend([0; 4]);
        out.extend_from_slice(question);
        if let Some(address) = found {
            // The name again, as a pointer to the question.
            out.extend([0xc0, 12]);
            out.extend(TYPE_A.to_be_bytes());
            out.extend(CLASS_IN.to_be_bytes());
            out.extend(TTL_SECONDS.to_be_bytes());
            out.extend([0, 4]);
            out.extend(address.octets());
        }
        Some(out)
    };
    if flags & 0x78 != 0 {
        return respond(NOT_IMPLEMENTED, &[], None);
    }
    let question = [questions_high, questions_low] == [0, 1];
    let Some((name, kind, class, end)) = question.then(|| read_question(query)).flatten() else {
        return respond(FORMAT_ERROR, &[], None);
    };
    let question = query.get(HEADER..end).unwrap_or_default();
    if class != CLASS_IN {
        return respond(REFUSED, question, None);
    }
    match judge(&name) {
        // Inside there is no IPv6, and no other record type is served.
        DnsAnswer::Address(address) => respond(0, question, (kind == TYPE_A).then_some(address)),
        DnsAnswer::Refused => respond(REFUSED, question, None),
        DnsAnswer::Failed => respond(SERVER_FAILURE, question, None),
    }
}

/// Parses the name, type and class of the only question, and returns where it ends.
fn read_question(query: &[u8]) -> Option<(String, u16, u16, usize)> {
    let mut labels = Vec::new();
    let mut at = HEADER;
    loop {
        let length = usize::from(*query.get(at)?);
        at = at.checked_add(1)?;
        if length == 0 {
            break;
        }
        // A compression pointer in a question is not legitimate.
        if length > 63 {
            return None;
        }
        let label = query.get(at..at.checked_add(length)?)?;
        // A dot within a label would look like two labels when the name is text.
        if label.iter().any(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'_')) {
            return None;
        }
        labels.push(String::from_utf8(label.to_vec()).ok()?);
        at = at.checked_add(length)?;
        if at > HEADER.checked_add(255)? {
            return None;
        }
    }
    let two = |at: usize| Some(u16::from_be_bytes(query.get(at..at.checked_add(2)?)?.try_into().ok()?));
    let (kind, class) = (two(at)?, two(at.checked_add(2)?)?);
    (!labels.is_empty()).then(|| (labels.join("."), kind, class, at.saturating_add(4)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(labels: &[&[u8]], kind: u16) -> Vec<u8> {
        let mut out = vec![7, 8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in labels {
            out.push(u8::try_from(label.len()).unwrap());
            out.extend_from_slice(label);
        }
        out.push(0);
        out.extend(kind.to_be_bytes());
        out.extend([0, 1]);
        out
    }

    fn coded(answer: Option<Vec<u8>>) -> (u8, u8) {
        let answer = answer.unwrap();
        (answer[3] & 15, answer[7])
    }

    #[test]
    fn a_granted_name_has_one_address_and_no_other_record() {
        let found = DnsAnswer::Address(Ipv4Addr::new(198, 18, 0, 16));
        let ask = |kind| {
            answer_query(&query(&[b"A", b"example"], kind), |name| {
                assert_eq!(name, "A.example");
                found
            })
        };
        assert!(ask(1).unwrap().ends_with(&[0, 0, 0, 30, 0, 4, 198, 18, 0, 16]));
        assert_eq!(
            (coded(ask(1)), coded(ask(28)), coded(ask(65)), coded(ask(16))),
            ((0, 1), (0, 0), (0, 0), (0, 0))
        );
        assert_eq!(coded(answer_query(&query(&[b"a"], 1), |_| DnsAnswer::Refused)), (REFUSED, 0));
        assert_eq!(coded(answer_query(&query(&[b"a"], 1), |_| DnsAnswer::Failed)), (SERVER_FAILURE, 0));
    }

    #[test]
    fn what_is_no_plain_question_is_not_judged() {
        let unjudged = |query: &[u8]| answer_query(query, |_| panic!("judged"));
        let long = [b'a'; 63];
        for labels in [&[&b"a.b"[..]][..], &[b"a\0"], &[&long, &long, &long, &long, b"a"], &[]] {
            assert_eq!(coded(unjudged(&query(labels, 1))), (FORMAT_ERROR, 0), "{labels:?}");
        }
        let mut pointing = query(&[b"a"], 1);
        pointing[12] = 0xc0;
        assert_eq!(coded(unjudged(&pointing)).0, FORMAT_ERROR);
        let mut two = query(&[b"a"], 1);
        two[5] = 2;
        assert_eq!(coded(unjudged(&two)).0, FORMAT_ERROR);
        let mut update = query(&[b"a"], 1);
        update[2] = 0x28;
        assert_eq!(coded(unjudged(&update)).0, NOT_IMPLEMENTED);
        let mut reply = query(&[b"a"], 1);
        reply[2] = 0x80;
        assert_eq!(unjudged(&reply), None);
        for short in 0..query(&[b"a"], 1).len() {
            let cut = query(&[b"a"], 1)[..short].to_vec();
            if let Some(answer) = unjudged(&cut) {
                assert_eq!(answer[3] & 15, FORMAT_ERROR, "{short}");
            }
        }
    }
}
