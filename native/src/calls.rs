//! Plain sends that came by gRPC: `SendMessageRequest`s of one message (Protocol Buffers), as a run of sends.
//!
//! What differs in every message (id, keys, time of birth, body) is taken from the request here; all else, the `kind`,
//! is only compared: Python decides once what each kind of messages becomes.

use std::collections::HashMap;
use std::ops::Range;

use crate::protobuf::{Field, Fields, put_bytes, put_varint};
use crate::sends::{Kind, Run, Send};

/// Field tags of `SendMessageRequest`, `Message`, `SystemProperties` and `Timestamp`.
const MESSAGES: u64 = 1 << 3 | 2;
const TOPIC: u64 = 1 << 3 | 2;
const USER_PROPERTY: u64 = 2 << 3 | 2;
const SYSTEM_PROPERTIES: u64 = 3 << 3 | 2;
const BODY: u64 = 4 << 3 | 2;
const KEYS: u64 = 2 << 3 | 2;
const MESSAGE_ID: u64 = 3 << 3 | 2;
const BODY_DIGEST: u64 = 4 << 3 | 2;
const BORN: u64 = 7 << 3 | 2;
const SECONDS: u64 = 1 << 3;
const NANOS: u64 = 2 << 3;

/// Larger times are left to Python.
const MOST_SECONDS: u64 = 1 << 40;
const NANOS_OF_MS: u64 = 1_000_000;

/// What differs in every message; the ranges are places in the request.
#[derive(Debug, Default)]
pub struct Single {
    pub id: Range<usize>,
    pub keys: Vec<Range<usize>>,
    pub born_ms: i64,
    pub body: Range<usize>,
}

/// Reads a request; what all messages of its kind have in common is appended to `kind`.
///
/// None for requests that are not plain: of more than `most` bytes beside the body, without an id or time of birth, with
/// a field that occurs twice, and so on.
pub fn read(request: &[u8], most: usize, kind: &mut Vec<u8>) -> Option<Single> {
    let mut fields = Fields::of(request, 0..request.len());
    let Field {
        tag: MESSAGES,
        place: message,
        ..
    } = fields.take()?
    else {
        return None;
    };
    if message.end != request.len() {
        return None;
    }
    let mut single = Single::default();
    let mut system = None;
    let mut fields = Fields::of(request, message);
    let (mut has_topic, mut has_body) = (false, false);
    while !fields.is_done() {
        let field = fields.take()?;
        match field.tag {
            TOPIC if !has_topic => {
                has_topic = true;
                kind.extend_from_slice(&request[field.all]);
            }
            USER_PROPERTY => kind.extend_from_slice(&request[field.all]),
            SYSTEM_PROPERTIES if system.is_none() => system = Some(field.place),
            BODY if !has_body => {
                has_body = true;
                single.body = field.place;
            }
            _ => return None,
        }
    }
    if single.body.is_empty() || request.len() - single.body.len() > most {
        return None;
    }
    kind.push(0); // no tag: what follows is of the system properties
    single.system(request, system?, kind)?;
    Some(single)
}

impl Single {
    fn system(&mut self, request: &[u8], place: Range<usize>, kind: &mut Vec<u8>) -> Option<()> {
        let (mut has_id, mut has_digest, mut born) = (false, false, None);
        let mut fields = Fields::of(request, place);
        while !fields.is_done() {
            let field = fields.take()?;
            match field.tag {
                KEYS => {
                    let key = &request[field.place.clone()];
                    // Of keys that begin with a visible character none is blank.
                    if !key.first()?.is_ascii_graphic()
                        || std::str::from_utf8(key).ok()?.contains(char::is_control)
                    {
                        return None;
                    }
                    self.keys.push(field.place);
                }
                MESSAGE_ID if !has_id => {
                    has_id = true;
                    self.id = field.place;
                }
                BODY_DIGEST if !has_digest => has_digest = is_digest(request, field.place)?,
                BORN if born.is_none() => born = Some(milliseconds(request, field.place)?),
                MESSAGE_ID | BODY_DIGEST | BORN => return None,
                _ => kind.extend_from_slice(&request[field.all]),
            }
        }
        self.born_ms = born?;
        let id = &request[self.id.clone()];
        (!id.is_empty() && id.iter().all(u8::is_ascii_graphic)).then_some(())
    }
}

/// Whether a digest, which nobody looks at, can be decoded; None if not.
fn is_digest(request: &[u8], place: Range<usize>) -> Option<bool> {
    let mut fields = Fields::of(request, place);
    while !fields.is_done() {
        let field = fields.take()?;
        if field.tag & 7 == 2 {
            std::str::from_utf8(&request[field.place]).ok()?;
        }
    }
    Some(true)
}

fn milliseconds(request: &[u8], place: Range<usize>) -> Option<i64> {
    let mut fields = Fields::of(request, place);
    let (mut seconds, mut nanos) = (None, None);
    while !fields.is_done() {
        let field = fields.take()?;
        match field.tag {
            SECONDS if seconds.is_none() && field.number < MOST_SECONDS => {
                seconds = Some(field.number)
            }
            NANOS if nanos.is_none() && field.number < 1000 * NANOS_OF_MS => {
                nanos = Some(field.number)
            }
            _ => return None,
        }
    }
    i64::try_from(seconds.unwrap_or(0) * 1000 + nanos.unwrap_or(0) / NANOS_OF_MS).ok()
}

/// What the messages of a kind become.
pub struct Target {
    pub topic: Vec<u8>,
    pub sys_flag: i32,
    /// Encoded properties before keys and unique key, between these and the time of birth, and after it.
    pub parts: [Vec<u8>; 3],
    /// The queue; if there are `queues`, messages go to all of them in turn.
    pub queue_id: i32,
    pub queues: i32,
}

/// Returns the run of single messages, each with its request and the number of its target, and the bodies of them.
///
/// `turn` decides the first queue. The opaque of a send is its number in the run.
pub fn run(singles: &[(&Single, &[u8], usize)], targets: &[Target], turn: i64) -> (Run, Vec<u8>) {
    let mut run = Run::default();
    let mut data = Vec::with_capacity(singles.iter().map(|(single, ..)| single.body.len()).sum());
    let mut kinds: HashMap<(usize, i32), usize> = HashMap::new();
    for (number, (single, request, place)) in singles.iter().enumerate() {
        let target = &targets[*place];
        let turned = turn
            .wrapping_add(number as i64)
            .rem_euclid(i64::from(target.queues.max(1)));
        let queue_id = if target.queues > 0 {
            turned as i32
        } else {
            target.queue_id
        };
        let kind = *kinds.entry((*place, queue_id)).or_insert_with(|| {
            run.kinds.push(Kind {
                topic: target.topic.clone(),
                queue_id,
                sys_flag: target.sys_flag,
                others: target.parts.concat(),
                access_key: Vec::new(),
            });
            run.kinds.len() - 1
        });
        let text = &mut run.text;
        let begin = text.len();
        text.extend_from_slice(&target.parts[0]);
        let mut keys = None;
        if !single.keys.is_empty() {
            text.extend_from_slice(b"KEYS\x01");
            let start = text.len();
            for (number, key) in single.keys.iter().enumerate() {
                if number > 0 {
                    text.push(b' ');
                }
                text.extend_from_slice(&request[key.clone()]);
            }
            keys = Some(start..text.len());
            text.push(2);
        }
        text.extend_from_slice(b"UNIQ_KEY\x01");
        let uniq_key = text.len()..text.len() + single.id.len();
        text.extend_from_slice(&request[single.id.clone()]);
        text.push(2);
        text.extend_from_slice(&target.parts[1]);
        text.extend_from_slice(format!("BORN_TIMESTAMP\x01{}\x02", single.born_ms).as_bytes());
        text.extend_from_slice(&target.parts[2]);
        let properties = begin..text.len();
        let body = data.len()..data.len() + single.body.len();
        data.extend_from_slice(&request[single.body.clone()]);
        run.sends.push(Send {
            kind,
            opaque: number as i32,
            is_oneway: false,
            born_timestamp: single.born_ms,
            flag: 0,
            reconsume_times: 0,
            frame: 0..0,
            body,
            properties,
            uniq_key,
            keys,
            signed: None,
        });
    }
    (run, data)
}

/// Returns the `SendMessageResponse` of a stored message, given its encoded status, field 1 of response and entry.
pub fn answer(status: &[u8], id: &[u8], offset: i64) -> Vec<u8> {
    let mut entry = Vec::with_capacity(status.len() + id.len() + 16);
    entry.extend_from_slice(status);
    put_bytes(&mut entry, 2, id);
    if offset != 0 {
        put_varint(&mut entry, 4, offset as u64);
    }
    let mut to = Vec::with_capacity(status.len() + entry.len() + 8);
    to.extend_from_slice(status);
    put_bytes(&mut to, 2, &entry);
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &[u8] = b"\x0a\x1c\x0a\x03\x12\x01t\x1a\x12\x0a\x01A\x12\x01k\x12\x02l \x1a\x02id\x3a\x02\x08\x05\x22\x01b";

    #[test]
    fn what_differs_is_taken_and_the_rest_compared() {
        let mut kind = Vec::new();
        let single = read(REQUEST, 100, &mut kind).unwrap();
        assert_eq!(kind, b"\x0a\x03\x12\x01t\x00\x0a\x01A");
        assert_eq!(
            (
                single.born_ms,
                &REQUEST[single.id.clone()],
                &REQUEST[single.body.clone()]
            ),
            (5000, &b"id"[..], &b"b"[..])
        );
        let target = Target {
            topic: b"t".into(),
            sys_flag: 0,
            parts: [b"TAGS\x01A\x02".into(), vec![], b"P\x01g\x02".into()],
            queue_id: -1,
            queues: 3,
        };
        let (run, data) = run(
            &[(&single, REQUEST, 0), (&single, REQUEST, 0)],
            &[target],
            2,
        );
        assert_eq!(data, b"bb");
        assert_eq!(
            run.kinds
                .iter()
                .map(|kind| kind.queue_id)
                .collect::<Vec<_>>(),
            [2, 0]
        );
        let send = &run.sends[1];
        assert_eq!(
            run.text_of(&send.properties),
            b"TAGS\x01A\x02KEYS\x01k l \x02UNIQ_KEY\x01id\x02BORN_TIMESTAMP\x015000\x02P\x01g\x02"
        );
        assert_eq!(
            (
                run.text_of(&send.uniq_key),
                run.text_of(send.keys.as_ref().unwrap())
            ),
            (&b"id"[..], &b"k l "[..])
        );
    }

    #[test]
    fn no_prefix_and_no_changed_byte_makes_it_panic() {
        for end in 0..REQUEST.len() {
            assert!(read(&REQUEST[..end], 100, &mut Vec::new()).is_none());
        }
        for at in 0..REQUEST.len() {
            for byte in 0..=255 {
                let mut changed = REQUEST.to_vec();
                changed[at] = byte;
                read(&changed, 100, &mut Vec::new());
            }
        }
        assert!(read(REQUEST, 10, &mut Vec::new()).is_none());
    }

    #[test]
    fn an_answer_has_status_id_and_offset() {
        assert_eq!(
            answer(b"\x0a\x00", b"id", 300),
            b"\x0a\x00\x12\x09\x0a\x00\x12\x02id\x20\xac\x02"
        );
        assert_eq!(
            answer(b"\x0a\x00", b"id", 0),
            b"\x0a\x00\x12\x06\x0a\x00\x12\x02id"
        );
    }
}
