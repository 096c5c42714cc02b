//! Popped messages for clients of gRPC: stored records as `ReceiveMessageResponse`s (Protocol Buffers).
//!
//! Python says what becomes of each property by its name, and decides about all records that are not plain.

use std::collections::HashMap;

use md5::{Digest, Md5};

use crate::properties::Entries;
use crate::protobuf::{put_bytes, put_varint};
use crate::record::Record;

/// Field numbers of `ReceiveMessageResponse`, `Message` and `SystemProperties`.
const MESSAGE: u64 = 2;
const TOPIC: u64 = 1;
const USER_PROPERTY: u64 = 2;
const SYSTEM_PROPERTIES: u64 = 3;
const BODY: u64 = 4;
const TAG: usize = 1;
const KEYS: usize = 2;
const MESSAGE_ID: usize = 3;
const BODY_DIGEST: u64 = 4;
const BODY_ENCODING: u64 = 5;
const MESSAGE_TYPE: u64 = 6;
const BORN_TIMESTAMP: u64 = 7;
const BORN_HOST: usize = 8;
const STORE_TIMESTAMP: u64 = 9;
const STORE_HOST: u64 = 10;
const RECEIPT_HANDLE: u64 = 12;
const QUEUE_ID: u64 = 13;
const QUEUE_OFFSET: u64 = 14;
const INVISIBLE_DURATION: u64 = 15;
const DELIVERY_ATTEMPT: u64 = 16;
const MESSAGE_GROUP: usize = 17;
const TRACE_CONTEXT: usize = 18;
const LITE_TOPIC: usize = 21;
const FIELDS: usize = 22;

/// Numbers of enumerations.
const MD5: u64 = 2;
const IDENTITY: u64 = 1;
const NORMAL: u64 = 1;
const FIFO: u64 = 2;

/// A plain record has at most so many properties: each name is compared with the others.
const MOST_PROPERTIES: usize = 64;

/// What becomes of properties, by name: the field of `SystemProperties` that has the value, 0 if none has it; a record
/// is not plain if it has a property of a negative number. Properties with other names are the user's.
pub struct Names(HashMap<Vec<u8>, i32>);

impl Names {
    /// None if there is no such field for a text.
    pub fn of(names: impl IntoIterator<Item = (Vec<u8>, i32)>) -> Option<Self> {
        let texts = [
            TAG,
            KEYS,
            MESSAGE_ID,
            BORN_HOST,
            MESSAGE_GROUP,
            TRACE_CONTEXT,
            LITE_TOPIC,
        ];
        let names: HashMap<_, _> = names.into_iter().collect();
        names
            .values()
            .all(|field| *field <= 0 || texts.contains(&(*field as usize)))
            .then_some(Names(names))
    }
}

/// What the messages of a pop have in common.
pub struct Pop<'a> {
    /// The topic of plain records.
    pub topic: &'a [u8],
    /// The first offset of the pop in each queue of a plain record.
    pub starts: Vec<(u32, i64)>,
    /// The words of receipt handles between this offset and the queue, with blanks around them.
    pub middle: &'a [u8],
    pub invisible_ms: u64,
    /// The tags of plain records; None if any are possible.
    pub tags: Option<Vec<&'a [u8]>>,
    /// Records that were delivered more often before are not plain; 0 for no limit.
    pub most_attempts: u32,
}

/// Where a message was popped, which its receipt says.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    pub handle: String,
    pub start: i64,
    pub queue_id: u32,
    pub queue_offset: i64,
    pub physical_offset: u64,
}

/// Returns the response with the message of the record at the beginning of `body`, its place, and the size of the
/// record; None if it is not plain.
pub fn response(body: &[u8], names: &Names, pop: &Pop) -> Option<(Vec<u8>, Place, usize)> {
    let record = Record::read(body)?;
    let is_usual = record.topic == pop.topic
        && i32::try_from(record.queue_id).is_ok()
        && record.queue_offset >= 0
        && record.born_host.len() == 8
        && record.store_host.len() == 8
        && i32::try_from(record.reconsume_times).is_ok_and(|times| times < i32::MAX)
        && [record.physical_offset, record.born_time, record.store_time]
            .iter()
            .all(|number| i64::try_from(*number).is_ok())
        && (pop.most_attempts == 0 || record.reconsume_times < pop.most_attempts);
    if !is_usual {
        return None;
    }
    let (_, start) = pop
        .starts
        .iter()
        .find(|(queue_id, _)| *queue_id == record.queue_id)?;
    let (texts, user) = properties(record.properties, names)?;
    let is_wanted = match (&pop.tags, texts[TAG]) {
        (None, _) => true,
        (Some(tags), Some(tag)) => tags.contains(&tag),
        (Some(_), None) => false,
    };
    if !is_wanted {
        return None;
    }
    let place = Place {
        handle: format!(
            "{start}{}{} {} {}",
            std::str::from_utf8(pop.middle).ok()?,
            record.queue_id,
            record.queue_offset,
            record.physical_offset
        ),
        start: *start,
        queue_id: record.queue_id,
        queue_offset: record.queue_offset,
        physical_offset: record.physical_offset,
    };
    let system = system_properties(&record, &texts, place.handle.as_bytes(), pop)?;
    let mut inner = Vec::new();
    let mut message = Vec::with_capacity(record.size + system.len() + 64);
    put_bytes(&mut inner, 2, record.topic);
    put_bytes(&mut message, TOPIC, &inner);
    for (name, value) in user {
        inner.clear();
        put_bytes(&mut inner, 1, name);
        put_bytes(&mut inner, 2, value);
        put_bytes(&mut message, USER_PROPERTY, &inner);
    }
    put_bytes(&mut message, SYSTEM_PROPERTIES, &system);
    if !record.body.is_empty() {
        put_bytes(&mut message, BODY, record.body);
    }
    let mut response = Vec::with_capacity(message.len() + 8);
    put_bytes(&mut response, MESSAGE, &message);
    Some((response, place, record.size))
}

type Texts<'a> = [Option<&'a [u8]>; FIELDS];
type Pair<'a> = (&'a [u8], &'a [u8]);

/// The values for fields of `SystemProperties`, and the user's properties; None if they are not plain.
fn properties<'a>(properties: &'a [u8], names: &Names) -> Option<(Texts<'a>, Vec<Pair<'a>>)> {
    std::str::from_utf8(properties).ok()?;
    let mut texts: Texts = [None; FIELDS];
    let (mut user, mut seen) = (Vec::new(), Vec::with_capacity(16));
    for (name, value) in Entries::of(properties) {
        if seen.len() == MOST_PROPERTIES || seen.contains(&name) {
            return None;
        }
        seen.push(name);
        match names.0.get(name) {
            None => user.push((name, value)),
            Some(0) => {}
            Some(field) => *texts.get_mut(usize::try_from(*field).ok()?)? = Some(value),
        }
    }
    texts[MESSAGE_ID]?;
    Some((texts, user))
}

fn system_properties(record: &Record, texts: &Texts, handle: &[u8], pop: &Pop) -> Option<Vec<u8>> {
    let mut inner = Vec::new();
    let mut to = Vec::with_capacity(320);
    let put_text = |to: &mut Vec<u8>, field: usize| {
        if let Some(text) = texts[field] {
            put_bytes(to, field as u64, text);
        }
    };
    put_text(&mut to, TAG);
    if let Some(keys) = texts[KEYS] {
        let is_blank = |one: char| one.is_whitespace() || ('\x1c'..='\x1f').contains(&one);
        for key in std::str::from_utf8(keys).ok()?.split(is_blank) {
            if !key.is_empty() {
                put_bytes(&mut to, KEYS as u64, key.as_bytes());
            }
        }
    }
    put_text(&mut to, MESSAGE_ID);
    put_varint(&mut inner, 1, MD5);
    put_bytes(&mut inner, 2, &digest(record.body));
    put_bytes(&mut to, BODY_DIGEST, &inner);
    put_varint(&mut to, BODY_ENCODING, IDENTITY);
    let is_fifo = texts[MESSAGE_GROUP].is_some();
    put_varint(&mut to, MESSAGE_TYPE, if is_fifo { FIFO } else { NORMAL });
    put_time(&mut to, BORN_TIMESTAMP, record.born_time);
    if texts[BORN_HOST].is_some() {
        put_text(&mut to, BORN_HOST);
    } else {
        put_bytes(&mut to, BORN_HOST as u64, &host(record.born_host));
    }
    put_time(&mut to, STORE_TIMESTAMP, record.store_time);
    put_bytes(&mut to, STORE_HOST, &host(record.store_host));
    put_bytes(&mut to, RECEIPT_HANDLE, handle);
    if record.queue_id != 0 {
        put_varint(&mut to, QUEUE_ID, u64::from(record.queue_id));
    }
    put_varint(&mut to, QUEUE_OFFSET, record.queue_offset as u64);
    put_time(&mut to, INVISIBLE_DURATION, pop.invisible_ms);
    let attempt = u64::from(record.reconsume_times) + 1;
    put_varint(&mut to, DELIVERY_ATTEMPT, attempt);
    put_text(&mut to, MESSAGE_GROUP);
    put_text(&mut to, TRACE_CONTEXT);
    put_text(&mut to, LITE_TOPIC);
    Some(to)
}

/// Appends a `Timestamp` or `Duration`.
fn put_time(to: &mut Vec<u8>, field: u64, ms: u64) {
    let mut inner = Vec::with_capacity(12);
    for (number, value) in [(1, ms / 1000), (2, ms % 1000 * 1_000_000)] {
        if value != 0 {
            put_varint(&mut inner, number, value);
        }
    }
    put_bytes(to, field, &inner);
}

/// Returns the text of a packed IPv4 address and port.
fn host(packed: &[u8]) -> Vec<u8> {
    let port = packed[4..]
        .iter()
        .fold(0_u32, |port, byte| port << 8 | u32::from(*byte));
    format!(
        "{}.{}.{}.{}:{port}",
        packed[0], packed[1], packed[2], packed[3]
    )
    .into_bytes()
}

/// Returns the MD5 of a body in capital hexadecimal digits.
fn digest(body: &[u8]) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let found = Md5::digest(body);
    let mut to = [0; 32];
    for (pair, byte) in to.chunks_exact_mut(2).zip(found.iter()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(properties: &[u8]) -> Vec<u8> {
        let mut to = vec![0; 88];
        to[4..8].copy_from_slice(&0xDAA3_20A7_u32.to_be_bytes());
        to[15] = 1; // queue
        to[27] = 5; // offset
        to[35] = 9; // commit log offset
        to[46..48].copy_from_slice(&1500_u16.to_be_bytes()); // born
        to[48..56].copy_from_slice(&[1, 2, 3, 4, 0, 0, 1, 0]);
        to[87] = 1; // bytes of the body
        to.extend_from_slice(b"b\x01t");
        to.extend_from_slice(&(properties.len() as u16).to_be_bytes());
        to.extend_from_slice(properties);
        let size = to.len() as u32;
        to[..4].copy_from_slice(&size.to_be_bytes());
        to
    }

    fn names() -> Names {
        let names = [
            ("TAGS", 1),
            ("KEYS", 2),
            ("UNIQ_KEY", 3),
            ("PGROUP", 0),
            ("DELAY", -1),
        ];
        Names::of(names.map(|(name, field)| (name.into(), field))).unwrap()
    }

    fn pop() -> Pop<'static> {
        Pop {
            topic: b"t",
            starts: vec![(1, 4)],
            middle: b" 7 60000 0 0 broker ",
            invisible_ms: 60_000,
            tags: None,
            most_attempts: 0,
        }
    }

    const USUAL: &[u8] = b"TAGS\x01A\x02KEYS\x01k l\x02UNIQ_KEY\x01id\x02PGROUP\x01g\x02a\x01b\x02";

    #[test]
    fn a_record_becomes_a_message() {
        let record = record(USUAL);
        let (response, place, size) = response(&record, &names(), &pop()).unwrap();
        assert_eq!(size, record.len());
        assert_eq!(place.handle, "4 7 60000 0 0 broker 1 5 9");
        let expected = b"\x0a\x03\x12\x01t\x12\x06\x0a\x01a\x12\x01b\x1a";
        assert_eq!(response[3..3 + expected.len()], expected[..]);
        let system = b"\x0a\x01A\x12\x01k\x12\x01l\x1a\x02id\x22\x24\x08\x02\x12\x2092EB5FFEE6AE2FEC3AD71C777531578F\
\x28\x01\x30\x01\x3a\x08\x08\x01\x10\x80\xca\xb5\xee\x01\x42\x0b1.2.3.4:256\x4a\x00\x52\x090.0.0.0:0";
        let at = 3 + expected.len() + 2;
        assert_eq!(response[at..at + system.len()], system[..]);
        assert!(response.ends_with(b"\x22\x01b"));
    }

    #[test]
    fn what_needs_a_decision_is_not_plain() {
        for properties in [
            &b"TAGS\x01A"[..],
            b"UNIQ_KEY\x01i\x02DELAY\x011",
            b"UNIQ_KEY\x01i\x02a\x011\x02a\x012",
            b"UNIQ_KEY\x01i\x02a\x01\xff",
        ] {
            assert!(response(&record(properties), &names(), &pop()).is_none());
        }
        let usual = record(USUAL);
        let is_plain = |pop: Pop| response(&usual, &names(), &pop).is_some();
        assert!(is_plain(pop()));
        assert!(!is_plain(Pop {
            topic: b"u",
            ..pop()
        }));
        assert!(!is_plain(Pop {
            starts: vec![(2, 0)],
            ..pop()
        }));
        assert!(!is_plain(Pop {
            tags: Some(vec![b"B"]),
            ..pop()
        }));
        assert!(is_plain(Pop {
            tags: Some(vec![b"B", b"A"]),
            ..pop()
        }));
        let mut again = record(USUAL);
        again[75] = 2; // reconsume times
        for (most, found) in [(2, false), (3, true), (0, true)] {
            let pop = Pop {
                most_attempts: most,
                ..pop()
            };
            assert_eq!(response(&again, &names(), &pop).is_some(), found);
        }
        assert!(Names::of([(b"x".to_vec(), 4)]).is_none());
    }

    #[test]
    fn no_prefix_and_no_changed_byte_makes_it_panic() {
        let usual = record(USUAL);
        for end in 0..usual.len() {
            assert!(response(&usual[..end], &names(), &pop()).is_none());
        }
        for at in 0..usual.len() {
            for byte in 0..=255 {
                let mut changed = usual.clone();
                changed[at] = byte;
                response(&changed, &names(), &pop());
            }
        }
    }
}
