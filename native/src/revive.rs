//! Entries of the revive log of POP: the records of check-points and acks, as Java's broker stores them.

use crate::append::{Batch, Hosts, Queue, decimal};
use crate::batch::Message;
use crate::outgoing::write_json;

/// The messages that one pop returned from one queue.
pub struct Pop<'a> {
    pub topic: &'a str,
    pub group: &'a str,
    pub queue_id: i64,
    pub start_offset: i64,
    pub pop_time: i64,
    pub broker: &'a str,
}

/// An entry, in the form of a message to store: its body, and behind it its properties.
pub struct Entry {
    data: Vec<u8>,
    body: usize,
    uniq_key: std::ops::Range<usize>,
}

/// Where a record is stored: store timestamp, commit log offset, bytes free there, and limits.
pub struct Place {
    pub now: i64,
    pub physical: i64,
    pub room: usize,
    pub max_body: usize,
    pub max_properties: usize,
}

impl Entry {
    /// A new check-point: the messages are invisible for some milliseconds, `diffs` are the distances of their offsets.
    ///
    /// `born` is the time of the entry.
    pub fn check_point(pop: &Pop, invisible_ms: i64, diffs: &[i64], born: i64) -> Self {
        let mut to = Vec::with_capacity(512 + 4 * diffs.len());
        to.extend_from_slice(b"{\"bm\":0,\"bn\":");
        names(&mut to, pop);
        list(&mut to, b",\"d\":", diffs);
        number(&mut to, b",\"it\":", invisible_ms);
        number(&mut to, b",\"n\":", diffs.len() as i64);
        place(&mut to, pop, b",\"ro\":0");
        Entry::of(to, pop, (pop.start_offset, b"@ck"), b"ck", born)
    }

    /// The ack of messages with these queue offsets; None without any.
    pub fn ack(pop: &Pop, offsets: &[i64], born: i64) -> Option<Self> {
        let first = *offsets.first()?;
        let is_one = offsets.len() == 1;
        let offset = if is_one { first } else { -1 };
        let mut to = Vec::with_capacity(512 + 12 * offsets.len());
        number(&mut to, b"{\"ao\":", offset);
        if !is_one {
            list(&mut to, b",\"aol\":", offsets);
        }
        to.extend_from_slice(b",\"bn\":");
        names(&mut to, pop);
        place(&mut to, pop, b"");
        let tag: &[u8] = if is_one { b"ack" } else { b"bAck" };
        Some(Entry::of(to, pop, (offset, b"@ack"), tag, born))
    }

    /// Adds properties to a body; `key` are the parts of the unique key that are not of the pop.
    fn of(mut to: Vec<u8>, pop: &Pop, key: (i64, &[u8]), tag: &[u8], born: i64) -> Self {
        let body = to.len();
        to.extend_from_slice(b"UNIQ_KEY\x01");
        let begin = to.len();
        to.extend_from_slice(pop.topic.as_bytes());
        number(&mut to, b"@", pop.queue_id);
        number(&mut to, b"@", key.0);
        to.push(b'@');
        to.extend_from_slice(pop.group.as_bytes());
        number(&mut to, b"@", pop.pop_time);
        to.push(b'@');
        to.extend_from_slice(pop.broker.as_bytes());
        to.extend_from_slice(key.1);
        let uniq_key = begin..to.len();
        to.extend_from_slice(b"\x02TAGS\x01");
        to.extend_from_slice(tag);
        number(&mut to, b"\x02TIMER_DELIVER_MS\x01", born);
        to.push(2);
        Entry {
            data: to,
            body,
            uniq_key,
        }
    }

    pub fn uniq_key(&self) -> &[u8] {
        &self.data[self.uniq_key.clone()]
    }

    /// The message of the entry and its number of bytes as a record; None if it breaks a limit or does not fit.
    pub fn stored<'a>(
        &'a self,
        queue: Queue<'a>,
        host: &'a [u8],
        born: i64,
        place: &Place,
    ) -> Option<(Batch<'a>, usize)> {
        let batch = Batch {
            messages: vec![Message {
                flag: 0,
                body: 0..self.body,
                properties: self.body..self.data.len(),
            }],
            data: &self.data,
            queue,
            hosts: Hosts {
                born: host,
                store: host,
            },
            sys_flag: 0,
            born_timestamp: born,
            reconsume_times: 0,
            now: place.now,
            physical: place.physical,
        };
        let total = batch.total(place.max_body, place.max_properties)?;
        (batch.hosts.are_legal() && total <= place.room).then_some((batch, total))
    }
}

fn number(to: &mut Vec<u8>, before: &[u8], number: i64) {
    to.extend_from_slice(before);
    decimal(to, number);
}

fn list(to: &mut Vec<u8>, before: &[u8], numbers: &[i64]) {
    to.extend_from_slice(before);
    to.push(b'[');
    for (place, one) in numbers.iter().enumerate() {
        number(to, if place == 0 { b"" } else { b"," }, *one);
    }
    to.push(b']');
}

fn names(to: &mut Vec<u8>, pop: &Pop) {
    write_json(to, pop.broker.as_bytes());
    to.extend_from_slice(b",\"c\":");
    write_json(to, pop.group.as_bytes());
}

fn place(to: &mut Vec<u8>, pop: &Pop, more: &[u8]) {
    number(to, b",\"pt\":", pop.pop_time);
    number(to, b",\"q\":", pop.queue_id);
    to.extend_from_slice(more);
    number(to, b",\"so\":", pop.start_offset);
    to.extend_from_slice(b",\"t\":");
    write_json(to, pop.topic.as_bytes());
    to.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    const POP: Pop = Pop {
        topic: "t",
        group: "g\"",
        queue_id: 3,
        start_offset: 7,
        pop_time: 1000,
        broker: "b",
    };

    fn text(entry: &Entry) -> String {
        String::from_utf8(entry.data.clone()).unwrap()
    }

    #[test]
    fn a_check_point_is_javas() {
        let entry = Entry::check_point(&POP, 60_000, &[0, 2], 1001);
        let body = r#"{"bm":0,"bn":"b","c":"g\"","d":[0,2],"it":60000,"n":2,"pt":1000,"q":3,"ro":0,"so":7,"t":"t"}"#;
        let key = "t@3@7@g\"@1000@b@ck";
        let properties = format!("UNIQ_KEY\x01{key}\x02TAGS\x01ck\x02TIMER_DELIVER_MS\x011001\x02");
        assert_eq!(text(&entry), format!("{body}{properties}"));
        assert_eq!(entry.uniq_key(), key.as_bytes());
        assert_eq!(entry.body, body.len());
    }

    #[test]
    fn acks_are_javas() {
        let one = Entry::ack(&POP, &[9], 5).unwrap();
        let body = r#"{"ao":9,"bn":"b","c":"g\"","pt":1000,"q":3,"so":7,"t":"t"}"#;
        assert!(text(&one).starts_with(body));
        assert_eq!(one.uniq_key(), b"t@3@9@g\"@1000@b@ack");
        let many = text(&Entry::ack(&POP, &[7, 9], 5).unwrap());
        assert!(many.starts_with("{\"ao\":-1,\"aol\":[7,9],\"bn\""));
        assert!(many.contains("t@3@-1@g\"@1000@b@ack\x02TAGS\x01bAck\x02"));
        assert!(Entry::ack(&POP, &[], 5).is_none());
    }

    #[test]
    fn a_record_needs_room() {
        let entry = Entry::ack(&POP, &[9], 4).unwrap();
        let queue = || Queue {
            queue_id: 0,
            magic: -1,
            topic_part: b"\x01r",
            next_offset: 0,
        };
        let mut place = Place {
            now: 5,
            physical: 0,
            room: 4096,
            max_body: 4096,
            max_properties: 4096,
        };
        let (batch, size) = entry.stored(queue(), &[0; 8], 4, &place).unwrap();
        batch.write(&mut vec![0; size]);
        place.room = size - 1;
        assert!(entry.stored(queue(), &[0; 8], 4, &place).is_none());
        place.room = size;
        assert!(entry.stored(queue(), &[0; 7], 4, &place).is_none());
        place.max_body = entry.body - 1;
        assert!(entry.stored(queue(), &[0; 8], 4, &place).is_none());
        (place.max_body, place.max_properties) = (4096, 40);
        assert!(entry.stored(queue(), &[0; 8], 4, &place).is_none());
    }
}
