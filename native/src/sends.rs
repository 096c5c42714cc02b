//! Splits bytes read from a socket into frames, and combines consecutive plain sends into runs.

use std::ops::Range;

use memchr::memmem::Finder;

use crate::frames::{Cut, Frame};
use crate::header::{Fields, Header, Overtaken};
use crate::properties::ENTRY_END;
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
    /// The encoded properties without unique key and keys.
    pub others: Vec<u8>,
    /// Access key of the signature; empty if the send is not signed.
    pub access_key: Vec<u8>,
}

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
/// Requests that may be `overtaken` do not end a run; they come after it.
pub fn cut(data: &[u8], max_frame: usize, overtaken: &[Overtaken]) -> Cut<Item> {
    let mut found = Cut::default();
    let mut scanner = Scanner::default();
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

struct Scanner {
    run: Run,
    /// The mark of each kind of the run.
    marks: Vec<u64>,
    /// Frames that come after the run.
    overtaken: Vec<Item>,
    others: Vec<u8>,
    uniq_key: Finder<'static>,
    keys: Finder<'static>,
}

impl Default for Scanner {
    fn default() -> Self {
        let (uniq_key, keys) = (Finder::new(b"UNIQ_KEY\x01"), Finder::new(b"KEYS\x01"));
        Scanner {
            run: Run::default(),
            marks: Vec::new(),
            overtaken: Vec::new(),
            others: Vec::new(),
            uniq_key,
            keys,
        }
    }
}

impl Scanner {
    fn end_run(&mut self, items: &mut Vec<Item>) {
        if !self.run.sends.is_empty() {
            items.push(Item::Run(std::mem::take(&mut self.run)));
            self.marks.clear();
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
        let uniq_key = value_of(&self.uniq_key, properties)?;
        if !properties[uniq_key.clone()]
            .iter()
            .all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'))
        {
            return None; // it is copied into the response without escapes
        }
        self.others.clear();
        self.others
            .extend_from_slice(&properties[..uniq_key.start - self.uniq_key.needle().len()]);
        let after = self.others.len();
        self.others
            .extend_from_slice(&properties[uniq_key.end + 1..]);
        let keys = match self.keys.find(&self.others) {
            None => None,
            Some(_) => {
                let place = value_of(&self.keys, &self.others)?;
                let moved = if place.start > after {
                    uniq_key.end + 1 - after
                } else {
                    0
                };
                self.others
                    .drain(place.start - self.keys.needle().len()..=place.end);
                Some(begin + place.start + moved..begin + place.end + moved)
            }
        };
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
        Some(())
    }
}

/// Returns the range of a property's value; None if the property is missing, empty or not terminated.
///
/// `mark` finds the property's name and separator.
fn value_of(mark: &Finder, properties: &[u8]) -> Option<Range<usize>> {
    let at = mark.find(properties)?;
    let begin = at + mark.needle().len();
    let end = begin + memchr::memchr(ENTRY_END, &properties[begin..])?;
    (end > begin && (at == 0 || properties[at - 1] == ENTRY_END)).then_some(begin..end)
}
