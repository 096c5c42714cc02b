//! Splits bytes read from a socket into frames, and combines consecutive plain sends into runs.

use std::ops::Range;

use memchr::memchr;

use crate::frames::{Cut, Frame};
use crate::header::{Fields, Header, Overtaken};
use crate::properties::{ENTRY_END, NAME_END};
use crate::signing::SigningKey;

/// Maximum number of sends in one run; further sends begin another run.
const MOST_SENDS: usize = 1024;
/// Maximum number of kinds of sends in one run.
const MOST_KINDS: usize = 64;

/// The fields of a send by which it is checked and routed to a queue; sends with equal fields are of one kind.
#[derive(Clone, PartialEq, Eq)]
pub struct Kind {
    pub topic: Vec<u8>,
    pub queue_id: i32,
    pub sys_flag: i32,
    /// The encoded properties without unique key and keys, and without those that tell nothing (see `Telling`).
    pub others: Vec<u8>,
    /// Access key of the signature; empty if the send is not signed.
    pub access_key: Vec<u8>,
}

/// The names of properties by which sends are told apart: by their value (true), or by their presence alone.
#[derive(Default)]
pub struct Telling {
    /// Names by their length; there are few of each.
    names: Vec<Vec<(Vec<u8>, bool)>>,
}

impl Telling {
    pub fn of(names: impl IntoIterator<Item = (Vec<u8>, bool)>) -> Self {
        let mut found = Telling::default();
        for (name, by_value) in names {
            if found.names.len() <= name.len() {
                found.names.resize_with(name.len() + 1, Vec::new);
            }
            found.names[name.len()].push((name, by_value));
        }
        found
    }

    fn get(&self, name: &[u8]) -> Option<bool> {
        let same_length = self.names.get(name.len())?;
        let found = same_length.iter().find(|(known, _)| known == name)?;
        Some(found.1)
    }
}

/// What stands in a kind for the value of a property that is told by its presence, and the end of the entry.
const PRESENT: &[u8] = b"-\x02";

/// Value of `Send::kind` for a send whose signature is not valid.
const NOBODYS: usize = usize::MAX;

#[derive(Clone)]
pub struct Send {
    pub kind: usize,
    pub opaque: i32,
    pub is_oneway: bool,
    pub born_timestamp: i64,
    pub flag: i32,
    pub reconsume_times: i32,
    /// Ranges of the frame, and of its body, in the bytes that were read.
    pub frame: Range<usize>,
    pub body: Range<usize>,
    /// Ranges in `Run::text`.
    pub properties: Range<usize>,
    pub uniq_key: Range<usize>,
    pub keys: Option<Range<usize>>,
    /// Ranges in `Run::text` of the signed content except the body, and of the signature; None if it is not signed.
    pub signed: Option<(Range<usize>, Range<usize>)>,
}

#[derive(Clone, Default)]
pub struct Run {
    pub kinds: Vec<Kind>,
    pub sends: Vec<Send>,
    /// For each send, its properties and, if it is signed, the signed content and the signature.
    pub text: Vec<u8>,
}

impl Run {
    pub fn text_of(&self, place: &Range<usize>) -> &[u8] {
        self.text.get(place.clone()).unwrap_or_default()
    }

    /// Returns a copy in which sends without a valid signature have the kind `NOBODYS`.
    ///
    /// `keys` has the secret key of each kind; None refuses all sends of the kind. `data` are the bytes that were read.
    pub fn verified(&self, data: &[u8], keys: &[Option<&[u8]>]) -> Self {
        let keys: Vec<Option<SigningKey>> =
            keys.iter().map(|key| key.map(SigningKey::new)).collect();
        let mut run = self.clone();
        for send in &mut run.sends {
            let key = keys.get(send.kind).and_then(Option::as_ref);
            let is_admitted =
                key.zip(send.signed.as_ref())
                    .is_some_and(|(key, (content, signature))| {
                        let body = data.get(send.body.clone()).unwrap_or_default();
                        key.has_signed(self.text_of(content), body, self.text_of(signature))
                    });
            if !is_admitted {
                send.kind = NOBODYS;
            }
        }
        run
    }

    /// Returns the index of a kind, which is added if it is new; None if there are too many kinds.
    ///
    /// `marks` has the mark of each kind, so that most others are passed by one comparison.
    fn kind(
        &mut self,
        marks: &mut Vec<u64>,
        header: &Header,
        others: &[u8],
        access_key: &[u8],
    ) -> Option<usize> {
        let mark = mark_of(header);
        let known = (0..marks.len()).find(|number| {
            marks[*number] == mark && {
                let kind = &self.kinds[*number];
                kind.queue_id == header.queue_id
                    && kind.sys_flag == header.sys_flag
                    && kind.topic == header.topic
                    && kind.others == others
                    && kind.access_key == access_key
            }
        });
        known.or_else(|| {
            (self.kinds.len() < MOST_KINDS).then(|| {
                marks.push(mark);
                self.kinds.push(Kind {
                    topic: header.topic.to_vec(),
                    queue_id: header.queue_id,
                    sys_flag: header.sys_flag,
                    others: others.to_vec(),
                    access_key: access_key.to_vec(),
                });
                self.kinds.len() - 1
            })
        })
    }
}

/// Returns a number that is equal for equal kinds: the end of the topic and the queue id.
fn mark_of(header: &Header) -> u64 {
    let end = header.topic.len().saturating_sub(8);
    let topic = header.topic[end..]
        .iter()
        .fold(0, |mark, byte| mark << 8 | u64::from(*byte));
    topic ^ (header.queue_id as u64).rotate_left(40)
}

pub enum Item {
    Frame(Frame),
    Run(Run),
}

/// Splits bytes read from a socket into frames, with consecutive plain sends combined into runs.
///
/// Requests that may be `overtaken` do not end a run; they come after it. Without `telling` all properties tell.
pub fn cut(
    data: &[u8],
    max_frame: usize,
    overtaken: &[Overtaken],
    telling: Option<&Telling>,
) -> Cut<Item> {
    let mut found = Cut::default();
    let mut scanner = Scanner {
        telling,
        ..Scanner::default()
    };
    let mut fields = Fields::default();
    loop {
        let begin = found.position;
        let Some(frame) = found.next(data, max_frame) else {
            break;
        };
        let header = &data[frame.header.clone()];
        match Header::read(frame.serialize_type, header, &mut fields) {
            Some(plain)
                if scanner.add(&plain, &fields, begin..found.position, frame.body.clone()) => {}
            _ => {
                let waits = !scanner.run.sends.is_empty()
                    && overtaken
                        .iter()
                        .any(|one| one.has(frame.serialize_type, header, &mut fields));
                if waits {
                    scanner.overtaken.push(Item::Frame(frame));
                } else {
                    scanner.end_run(&mut found.items);
                    found.items.push(Item::Frame(frame));
                }
            }
        }
        if scanner.run.sends.len() >= MOST_SENDS || scanner.run.kinds.len() >= MOST_KINDS {
            scanner.end_run(&mut found.items);
        }
    }
    scanner.end_run(&mut found.items);
    found
}

#[derive(Default)]
struct Scanner<'t> {
    telling: Option<&'t Telling>,
    run: Run,
    /// The mark of each kind of the run.
    marks: Vec<u64>,
    /// Frames that come after the run.
    overtaken: Vec<Item>,
    /// What tells the last send.
    others: Vec<u8>,
    /// Ranges in the run's text of the properties of the last send before and after its unique key, if it had no keys.
    around: Option<(Range<usize>, Range<usize>)>,
}

impl Scanner<'_> {
    fn end_run(&mut self, items: &mut Vec<Item>) {
        if !self.run.sends.is_empty() {
            items.push(Item::Run(std::mem::take(&mut self.run)));
            self.marks.clear();
            self.around = None;
        }
        items.append(&mut self.overtaken);
    }

    /// Adds a send to the run; returns false if its properties are not plain.
    fn add(
        &mut self,
        header: &Header,
        fields: &Fields,
        frame: Range<usize>,
        body: Range<usize>,
    ) -> bool {
        let before = self.run.text.len();
        let added = self.try_add(header, fields, frame, body);
        if added.is_none() {
            self.run.text.truncate(before);
        }
        added.is_some()
    }

    fn try_add(
        &mut self,
        header: &Header,
        fields: &Fields,
        frame: Range<usize>,
        body: Range<usize>,
    ) -> Option<()> {
        let begin = self.run.text.len();
        header.properties.unescape(&mut self.run.text)?;
        let properties = &self.run.text[begin..];
        let around = self.around.take();
        let (uniq_key, keys) = match around.and_then(|around| self.key_as_before(begin, &around)) {
            Some(place) => (place, None),
            None => {
                let (uniq_key, keys) = told(properties, self.telling, &mut self.others);
                (uniq_key?, keys)
            }
        };
        if !properties[uniq_key.clone()]
            .iter()
            .all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'))
        {
            return None; // it is copied into the response without escapes
        }
        let keys = keys.map(|place| begin + place.start..begin + place.end);
        let end = self.run.text.len();
        let found = fields.signed_content(&mut self.run.text);
        let (access_key, signed) = match &found {
            None => {
                self.run.text.truncate(end);
                (&b""[..], None)
            }
            Some(found) => {
                let content = end..self.run.text.len();
                self.run.text.extend_from_slice(found.signature);
                (
                    found.access_key,
                    Some((content.clone(), content.end..self.run.text.len())),
                )
            }
        };
        let around = keys
            .is_none()
            .then(|| (begin..begin + uniq_key.start, begin + uniq_key.end..end));
        let others = std::mem::take(&mut self.others);
        let kind = self.run.kind(&mut self.marks, header, &others, access_key);
        self.others = others;
        self.run.sends.push(Send {
            kind: kind?,
            opaque: header.opaque,
            is_oneway: header.is_oneway,
            born_timestamp: header.born_timestamp,
            flag: header.flag,
            reconsume_times: header.reconsume_times,
            frame,
            body,
            properties: begin..end,
            uniq_key: begin + uniq_key.start..begin + uniq_key.end,
            keys,
            signed,
        });
        self.around = around;
        Some(())
    }

    /// Returns the range of the unique key in the properties from `begin` on, if these are otherwise equal to the last
    /// ones, as most are: what tells the two sends is equal, too.
    fn key_as_before(
        &self,
        begin: usize,
        (before, after): &(Range<usize>, Range<usize>),
    ) -> Option<Range<usize>> {
        let properties = &self.run.text[begin..];
        let rest = properties.strip_prefix(&self.run.text[before.clone()])?;
        let size = memchr(ENTRY_END, rest)?;
        (size > 0 && rest[size..] == self.run.text[after.clone()])
            .then_some(before.len()..before.len() + size)
    }
}

/// Returns the ranges of the first unique key and of the first keys, and writes what tells a send to `others`.
///
/// Entries that are not plain, such as those without a value, are written as they are: Python looks at them.
fn told(
    properties: &[u8],
    telling: Option<&Telling>,
    others: &mut Vec<u8>,
) -> (Option<Range<usize>>, Option<Range<usize>>) {
    let (mut uniq_key, mut keys) = (None, None);
    others.clear();
    let mut next = 0;
    while next < properties.len() {
        let begin = next;
        let end = memchr(ENTRY_END, &properties[begin..]).map(|at| begin + at);
        next = end.map_or(properties.len(), |end| end + 1);
        let entry = &properties[begin..next];
        let Some(at) = end.and_then(|end| value_in(&properties[begin..end])) else {
            others.extend_from_slice(entry);
            continue;
        };
        let (name, value) = (&entry[..at - 1], begin + at..next - 1);
        if name == b"UNIQ_KEY" && uniq_key.is_none() {
            uniq_key = Some(value);
        } else if name == b"KEYS" && keys.is_none() {
            keys = Some(value);
        } else {
            match telling.map_or(Some(true), |telling| telling.get(name)) {
                Some(true) => others.extend_from_slice(entry),
                Some(false) => {
                    others.extend_from_slice(&entry[..at]);
                    others.extend_from_slice(PRESENT);
                }
                None => {}
            }
        }
    }
    (uniq_key, keys)
}

/// Returns where the value of an entry begins; None unless there are one name and one value.
fn value_in(entry: &[u8]) -> Option<usize> {
    let at = memchr(NAME_END, entry)?;
    let value = &entry[at + 1..];
    (at > 0 && !value.is_empty() && memchr(NAME_END, value).is_none()).then_some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others(properties: &[u8], telling: Option<&Telling>) -> Vec<u8> {
        let mut found = Vec::new();
        told(properties, telling, &mut found);
        found
    }

    #[test]
    fn properties_that_tell_nothing_are_left_out() {
        let telling = Telling::of([(b"TAGS".to_vec(), true), (b"SHARD".to_vec(), false)]);
        let all = b"mine\x01x\x02TAGS\x01A\x02KEYS\x01k l\x02SHARD\x01s\x02UNIQ_KEY\x01u\x02";
        let mut found = Vec::new();
        let (uniq_key, keys) = told(all, Some(&telling), &mut found);
        assert_eq!(found, b"TAGS\x01A\x02SHARD\x01-\x02");
        assert_eq!(&all[uniq_key.unwrap()], b"u");
        assert_eq!(&all[keys.unwrap()], b"k l");
        assert_eq!(
            others(all, None),
            b"mine\x01x\x02TAGS\x01A\x02SHARD\x01s\x02"
        );
    }

    #[test]
    fn what_is_not_plain_is_kept() {
        let telling = Telling::of([(b"UNIQ_KEY".to_vec(), true)]);
        for odd in [
            &b"a\x01\x02"[..],
            b"a\x02",
            b"\x01v\x02",
            b"\x02",
            b"a\x01b\x01c\x02",
            b"a\x01b",
            b"UNIQ_KEY\x01second\x02",
        ] {
            let all = [b"UNIQ_KEY\x01u\x02mine\x01x\x02", odd].concat();
            assert_eq!(others(&all, Some(&telling)), odd);
        }
        assert_eq!(
            told(b"UNIQ_KEY\x01\x02", None, &mut Vec::new()),
            (None, None)
        );
    }
}
