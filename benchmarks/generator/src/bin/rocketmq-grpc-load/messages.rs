//! The messages of `apache.rocketmq.v2` that are needed, as Protocol Buffers.

use crate::fail;
use crate::failure::Result;

const OK: u64 = 20_000;
const NOTHING_NEW: u64 = 40_401;
const SIMPLE_CONSUMER: u64 = 3;
const TAG: u64 = 1;
/// Messages of one receive.
pub const EACH: u64 = 32;
const INVISIBLE_SECONDS: u64 = 60;
const POLL_SECONDS: u64 = 5;

/// Requests that send one message; only its id changes.
pub struct Send {
    message: Vec<u8>,
    id_at: usize,
    number: u64,
}

impl Send {
    pub fn new(topic: &str, size: usize) -> Self {
        let id = format!("{:016X}{:016X}", u64::from(std::process::id()) << 32 | 0x10AD, 0);
        let born = bytes(7, &varint(1, 1_767_225_600));
        let system = [bytes(3, id.as_bytes()), varint(5, 1), varint(6, 1), born].concat();
        let body: Vec<u8> = (0..size).map(|at| b' ' + (at * 7 % 91) as u8).collect();
        let message = [resource(1, topic), bytes(3, &system), bytes(4, &body)].concat();
        let message = bytes(1, &message);
        let id_at = message.windows(id.len()).position(|part| part == id.as_bytes()).expect("the id is in the message");
        Send { message, id_at, number: 0 }
    }

    pub fn next(&mut self) -> &[u8] {
        self.number += 1;
        let at = self.id_at + 16;
        self.message[at..at + 16].copy_from_slice(format!("{:016X}", self.number).as_bytes());
        &self.message
    }
}

pub fn settings(group: &str, topic: &str) -> Vec<u8> {
    let expression = [varint(1, TAG), bytes(2, b"*")].concat();
    let entry = [resource(1, topic), bytes(2, &expression)].concat();
    let subscription = [resource(1, group), bytes(2, &entry)].concat();
    let settings = [varint(1, SIMPLE_CONSUMER), bytes(6, &subscription)].concat();
    bytes(2, &settings)
}

pub fn receive(group: &str, topic: &str) -> Vec<u8> {
    let broker = bytes(1, b"broker-a");
    // The id of the queue is -1: all queues of the broker.
    let queue = [resource(1, topic), varint(2, u64::MAX), bytes(4, &broker)].concat();
    let expression = [varint(1, TAG), bytes(2, b"*")].concat();
    [
        resource(1, group),
        bytes(2, &queue),
        bytes(3, &expression),
        varint(4, EACH),
        bytes(5, &varint(1, INVISIBLE_SECONDS)),
        bytes(7, &varint(1, POLL_SECONDS)),
    ]
    .concat()
}

/// A request that acknowledges messages, given by id and handle.
pub fn ack(group: &str, topic: &str, handles: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut out = [resource(1, group), resource(2, topic)].concat();
    for (id, handle) in handles {
        out.extend(bytes(3, &[bytes(1, id), bytes(2, handle)].concat()));
    }
    out
}

/// Checks that an answer is a success.
pub fn check(messages: &[Vec<u8>], what: &str) -> Result<()> {
    match messages {
        [message] => match status(message)? {
            (OK, _) => Ok(()),
            (code, text) => fail!("{what} was answered with {code}: {text}"),
        },
        _ => fail!("{what} was answered with {} messages", messages.len()),
    }
}

/// Checks that the answer to settings has settings: without them nothing is received.
pub fn check_settings(messages: &[Vec<u8>]) -> Result<()> {
    check(messages, "the settings of the client")?;
    match messages.first().and_then(|message| part(message, 2)) {
        Some(_) => Ok(()),
        None => fail!("the settings of the client were answered without settings"),
    }
}

/// The ids and handles of received messages; none if there was nothing new.
pub fn received(messages: &[Vec<u8>]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found = vec![];
    for message in messages {
        for (number, value) in Fields(message) {
            match (number, value) {
                (1, Value::Bytes(_)) => match status(message)? {
                    (OK | NOTHING_NEW, _) => {}
                    (code, text) => fail!("a receive was answered with {code}: {text}"),
                },
                (2, Value::Bytes(message)) => found.push(handle(message)?),
                _ => {}
            }
        }
    }
    Ok(found)
}

fn handle(message: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    let Some(system) = part(message, 3) else { fail!("a message has no system properties") };
    match (part(system, 3), part(system, 12)) {
        (Some(id), Some(handle)) => Ok((id.to_vec(), handle.to_vec())),
        _ => fail!("a message has no id or no handle"),
    }
}

/// Code and text of the status that an answer begins with.
fn status(message: &[u8]) -> Result<(u64, String)> {
    let Some(status) = part(message, 1) else { fail!("an answer has no status") };
    let code = Fields(status).find_map(|field| match field {
        (1, Value::Number(code)) => Some(code),
        _ => None,
    });
    let text = part(status, 2).map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default();
    Ok((code.unwrap_or(0), text))
}

fn part(message: &[u8], wanted: u64) -> Option<&[u8]> {
    Fields(message).find_map(|field| match field {
        (number, Value::Bytes(bytes)) if number == wanted => Some(bytes),
        _ => None,
    })
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message; ends at what cannot be read.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.number()?;
        let value = match key & 7 {
            0 => Value::Number(self.number()?),
            2 => {
                let size = self.number()? as usize;
                let (bytes, rest) = (self.0.get(..size)?, self.0.get(size..)?);
                self.0 = rest;
                Value::Bytes(bytes)
            }
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

impl Fields<'_> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for (at, byte) in self.0.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7F) << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Some(value);
            }
        }
        None
    }
}

fn resource(number: u64, name: &str) -> Vec<u8> {
    bytes(number, &bytes(2, name.as_bytes()))
}

fn bytes(number: u64, value: &[u8]) -> Vec<u8> {
    let mut out = raw(number << 3 | 2);
    out.extend(raw(value.len() as u64));
    out.extend(value);
    out
}

fn varint(number: u64, value: u64) -> Vec<u8> {
    [raw(number << 3), raw(value)].concat()
}

fn raw(mut value: u64) -> Vec<u8> {
    let mut out = vec![];
    while value >= 0x80 {
        out.push(value as u8 & 0x7F | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_each_send_is_another() {
        let mut send = Send::new("t", 3);
        let (first, second) = (send.next().to_vec(), send.next().to_vec());
        assert_ne!(first, second);
        let message = part(&first, 1).unwrap();
        assert_eq!(part(part(message, 1).unwrap(), 2).unwrap(), b"t");
        assert_eq!(part(message, 4).unwrap().len(), 3);
        assert_eq!(part(part(message, 3).unwrap(), 3).unwrap().len(), 32);
    }

    #[test]
    fn a_status_decides() {
        let answer = bytes(1, &[varint(1, OK), bytes(2, b"fine")].concat());
        assert!(check(&[answer.clone()], "x").is_ok());
        assert!(check(&[bytes(1, &varint(1, 50_001))], "x").unwrap_err().to_string().contains("50001"));
        assert!(check(&[], "x").is_err());
        assert!(check(&[vec![]], "x").is_err());
        assert!(check_settings(&[]).is_err());
        assert!(check_settings(&[answer.clone()]).is_err());
        assert!(check_settings(&[[answer.clone(), bytes(2, b"")].concat()]).is_ok());
        assert!(received(&[answer]).unwrap().is_empty());
    }

    #[test]
    fn received_messages_give_their_handles() {
        let message = bytes(2, &bytes(3, &[bytes(3, b"id"), bytes(12, b"handle")].concat()));
        assert_eq!(received(&[message]).unwrap(), [(b"id".to_vec(), b"handle".to_vec())]);
        assert!(received(&[bytes(2, b"")]).is_err());
        assert!(received(&[bytes(1, &varint(1, 40_402))]).is_err());
    }
}
