//! Acknowledgements by gRPC: `AckMessageRequest`s (Protocol Buffers), as far as they are plain.
//!
//! The handles of a request are sorted by the pops that they are of; Python decides about each pop once.

use std::ops::Range;

use crate::protobuf::{Fields, put_bytes};

/// Field tags of `AckMessageRequest`, `Resource` and `AckMessageEntry`.
const GROUP: u64 = 1 << 3 | 2;
const TOPIC: u64 = 2 << 3 | 2;
const ENTRY: u64 = 3 << 3 | 2;
const NAMESPACE: u64 = 1 << 3 | 2;
const NAME: u64 = 2 << 3 | 2;
const MESSAGE_ID: u64 = 1 << 3 | 2;
const HANDLE: u64 = 2 << 3 | 2;

const WORDS: usize = 9;
/// Numbers of handles have at most so many digits.
const MOST_DIGITS: usize = 18;
/// Which messages can be acknowledged together.
#[derive(Clone, Copy)]
pub struct Usual {
    /// Their distance from the first message of their pop is less than this.
    pub most_distance: i64,
    /// The revive queue in handles of orderly pops, whose acknowledgements can fail one by one.
    pub orderly: i64,
}

/// An entry of a request: places of its message id and handle, the number of its pop, and its queue offset.
#[derive(Debug)]
pub struct Entry {
    pub id: Range<usize>,
    pub handle: Range<usize>,
    pub pop: usize,
    pub offset: i64,
}

/// A pop of a queue, as handles name it.
#[derive(Debug, PartialEq, Eq)]
pub struct Pop<'a> {
    pub start: i64,
    pub pop_time: i64,
    pub invisible_ms: i64,
    pub revive_queue: i64,
    pub retry: &'a str,
    pub broker: &'a str,
    pub queue_id: i64,
}

/// A plain request.
#[derive(Debug)]
pub struct Ack<'a> {
    pub group: &'a str,
    pub topic: &'a str,
    pub pops: Vec<Pop<'a>>,
    pub entries: Vec<Entry>,
}

/// Reads a request; None if it is not plain: without an entry, with a field that occurs twice, with a handle that is not
/// of a usual pop, and so on.
pub fn read(request: &[u8], usual: Usual) -> Option<Ack<'_>> {
    let (mut group, mut topic) = (None, None);
    let (mut pops, mut entries): (Vec<Pop>, Vec<Entry>) = (Vec::new(), Vec::new());
    let mut fields = Fields::of(request, 0..request.len());
    while !fields.is_done() {
        let field = fields.take()?;
        match field.tag {
            GROUP if group.is_none() => group = Some(name(request, field.place)?),
            TOPIC if topic.is_none() => topic = Some(name(request, field.place)?),
            ENTRY => {
                let (id, handle) = entry(request, field.place)?;
                let (pop, offset) = parsed(text(request, handle.clone())?, usual)?;
                // The handles of a pop follow each other.
                let known = pops.iter().rposition(|known| *known == pop);
                entries.push(Entry {
                    id,
                    handle,
                    pop: known.unwrap_or(pops.len()),
                    offset,
                });
                if known.is_none() {
                    pops.push(pop);
                }
            }
            _ => return None,
        }
        if pops.len() > MOST_POPS {
            return None;
        }
    }
    (!entries.is_empty()).then_some(Ack {
        group: group?,
        topic: topic?,
        pops,
        entries,
    })
}

/// A plain request has entries of at most so many pops: each is looked for among the others.
const MOST_POPS: usize = 64;

fn text(request: &[u8], place: Range<usize>) -> Option<&str> {
    std::str::from_utf8(&request[place]).ok()
}

/// The name of a resource.
fn name(request: &[u8], place: Range<usize>) -> Option<&str> {
    let mut fields = Fields::of(request, place);
    let mut name = None;
    while !fields.is_done() {
        let field = fields.take()?;
        match field.tag {
            NAMESPACE => _ = text(request, field.place)?,
            NAME if name.is_none() => name = Some(text(request, field.place)?),
            _ => return None,
        }
    }
    name
}

fn entry(request: &[u8], place: Range<usize>) -> Option<(Range<usize>, Range<usize>)> {
    let mut fields = Fields::of(request, place.clone());
    let (mut id, mut handle) = (None, None);
    while !fields.is_done() {
        let field = fields.take()?;
        match field.tag {
            MESSAGE_ID if id.is_none() => {
                text(request, field.place.clone())?;
                id = Some(field.place);
            }
            HANDLE if handle.is_none() => handle = Some(field.place),
            _ => return None,
        }
    }
    Some((id.unwrap_or(place.end..place.end), handle?))
}

/// The pop and queue offset of a handle that can be acknowledged together with others.
fn parsed(handle: &str, usual: Usual) -> Option<(Pop<'_>, i64)> {
    let mut words = [""; WORDS];
    let mut left = handle.split(' ');
    for word in &mut words {
        *word = left.next()?;
    }
    if left.next().is_some() || !matches!(words[4], "0" | "1" | "2") {
        return None;
    }
    let pop = Pop {
        start: number(words[0])?,
        pop_time: number(words[1])?,
        invisible_ms: number(words[2])?,
        revive_queue: number(words[3])?,
        retry: words[4],
        broker: words[5],
        queue_id: number(words[6])?,
    };
    let offset = number(words[7])?;
    number(words[8])?;
    let is_usual = pop.revive_queue != usual.orderly
        && i32::try_from(pop.revive_queue).is_ok()
        && i32::try_from(pop.queue_id).is_ok()
        && (0..usual.most_distance).contains(&(offset - pop.start));
    is_usual.then_some((pop, offset))
}

fn number(word: &str) -> Option<i64> {
    let is_number =
        (1..=MOST_DIGITS).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| word.parse().ok())?
}

/// Returns the `AckMessageResponse` to a request, given the encoded status of the whole and that of each entry.
pub fn answer<'a>(
    request: &[u8],
    entries: &[Entry],
    status: &[u8],
    statuses: impl Iterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut to = Vec::with_capacity(request.len() + status.len() * (entries.len() + 1) + 64);
    put_bytes(&mut to, 1, status);
    let mut inner = Vec::with_capacity(256);
    for (entry, status) in entries.iter().zip(statuses) {
        inner.clear();
        for (number, place) in [(1, &entry.id), (2, &entry.handle)] {
            if !place.is_empty() {
                put_bytes(&mut inner, number, &request[place.clone()]);
            }
        }
        put_bytes(&mut inner, 3, status);
        put_bytes(&mut to, 2, &inner);
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Usual = Usual {
        most_distance: 1024,
        orderly: 999,
    };

    fn request(handles: &[&str]) -> Vec<u8> {
        let mut to = b"\x0a\x03\x12\x01g\x12\x03\x12\x01t".to_vec();
        for handle in handles {
            let mut inner = Vec::new();
            put_bytes(&mut inner, 1, b"id");
            put_bytes(&mut inner, 2, handle.as_bytes());
            put_bytes(&mut to, 3, &inner);
        }
        to
    }

    #[test]
    fn entries_are_sorted_by_pops() {
        let request = request(&[
            "4 7 60000 0 0 broker 1 5 9",
            "4 7 60000 0 0 broker 2 5 9",
            "4 7 60000 0 0 broker 1 6 8",
        ]);
        let ack = read(&request, USUAL).unwrap();
        assert_eq!((ack.group, ack.topic, ack.pops.len()), ("g", "t", 2));
        let found: Vec<_> = ack
            .entries
            .iter()
            .map(|entry| (entry.pop, entry.offset))
            .collect();
        assert_eq!(found, [(0, 5), (1, 5), (0, 6)]);
        assert_eq!(
            ack.pops[1],
            Pop {
                start: 4,
                pop_time: 7,
                invisible_ms: 60_000,
                revive_queue: 0,
                retry: "0",
                broker: "broker",
                queue_id: 2
            }
        );
        let statuses = [&b"x"[..], b"", b"y"];
        let answer = answer(&request, &ack.entries[..1], b"s", statuses.into_iter());
        let mut expected = b"\x0a\x01s\x12\x23\x0a\x02id\x12\x1a".to_vec();
        expected.extend_from_slice(b"4 7 60000 0 0 broker 1 5 9\x1a\x01x");
        assert_eq!(answer, expected);
    }

    #[test]
    fn unusual_handles_are_not_plain() {
        for handle in [
            "",
            "4 7 60000 0 0 broker 1 5",
            "4 7 60000 0 0 broker 1 5 9 ",
            "4 7 60000 0 3 broker 1 5 9",
            "4 7 60000 999 0 broker 1 5 9",
            "4 7 60000 0 0 broker 1 3 9",
            "4 7 60000 0 0 broker 1 1028 9",
            "4 7 60000 0 0 broker 2147483648 5 9",
            "+4 7 60000 0 0 broker 1 5 9",
            "4 7 60000 0 0 broker 1 5 -1",
            "4 7777777777777777777 60000 0 0 broker 1 5 9",
        ] {
            assert!(read(&request(&[handle]), USUAL).is_none(), "{handle}");
        }
        assert!(read(&request(&["4 7 60000 0 0 broker 1 1027 9"]), USUAL).is_some());
        assert!(read(&request(&[]), USUAL).is_none());
    }

    #[test]
    fn no_prefix_and_no_changed_byte_makes_it_panic() {
        let request = request(&["4 7 60000 0 0 broker 1 5 9", "4 7 60000 0 0 broker 2 5 9"]);
        for end in 0..request.len() {
            read(&request[..end], USUAL);
        }
        for at in 0..request.len() {
            for byte in 0..=255 {
                let mut changed = request.clone();
                changed[at] = byte;
                read(&changed, USUAL);
            }
        }
    }
}
