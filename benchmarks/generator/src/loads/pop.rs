//! Pops of a backlog; each is acknowledged with one batch ack while the next pop of its queue is under way.

use std::collections::VecDeque;

use super::{Load, Sent, Writer};
use crate::answer::Answer;
use crate::arguments::Arguments;
use crate::fail;
use crate::failure::Result;
use crate::frame::{Command, Headers, Template};
use crate::record;

const POP_MESSAGE: u32 = 200_050;
const BATCH_ACK_MESSAGE: u32 = 200_151;
const POLLING_TIMEOUT: i64 = 210;
const INVISIBLE_MILLIS: &str = "60000";
/// So many pops of a run may bring nothing: a Java broker answers one before it lets go of the queue for the next.
const AGAIN: u32 = 1000;
const ACK: u64 = 1;

pub struct Pops {
    templates: Vec<Template>,
    /// Queues without a pop under way.
    idle: VecDeque<usize>,
    next_offset: Vec<u64>,
    left: u64,
    again: u32,
    topic: String,
    group: String,
    broker: String,
    each: usize,
    bits: String,
}

impl Pops {
    pub fn new(arguments: &Arguments) -> Self {
        let (broker, each) = (arguments.targets[0].name.clone(), arguments.each.to_string());
        let pop = |queue: usize| {
            let queue = queue.to_string();
            let fields = [
                ("consumerGroup", arguments.group.as_str()),
                ("topic", &arguments.topic),
                ("queueId", &queue),
                ("maxMsgNums", &each),
                ("invisibleTime", INVISIBLE_MILLIS),
                ("pollTime", "0"),
                ("bornTime", "0"),
                ("initMode", "0"),
                ("expType", "TAG"),
                ("exp", "*"),
                ("order", "false"),
                ("bname", &broker),
            ];
            Template::new(&Command { code: POP_MESSAGE, fields: &fields, body: &[], one_way: false }, Headers::Json)
        };
        Pops {
            templates: (0..arguments.queues).map(pop).collect(),
            idle: (0..arguments.queues).collect(),
            next_offset: vec![0; arguments.queues],
            left: arguments.count,
            again: AGAIN,
            topic: arguments.topic.clone(),
            group: arguments.group.clone(),
            each: arguments.each,
            bits: all_bits(arguments.each),
            broker,
        }
    }

    fn ack(&self, queue: usize, start: u64, answer: &Answer) -> Result<Template> {
        let told = answer.whole()?;
        if told.text("startOffsetInfo")? != format!("0 {queue} {start}") {
            fail!("a pop of queue {queue} was to bring messages from {start} on: {:?}", told.fields);
        }
        let body = serde_json::json!({"brokerName": self.broker, "acks": [{
            "c": self.group, "t": self.topic, "r": "0", "so": start, "q": queue, "b": self.bits,
            "rq": told.number("reviveQid")?, "pt": told.number("popTime")?, "it": told.number("invisibleTime")?,
        }]});
        let body = body.to_string();
        let command = Command { code: BATCH_ACK_MESSAGE, fields: &[], body: body.as_bytes(), one_way: false };
        Ok(Template::new(&command, Headers::Json))
    }
}

impl Load for Pops {
    fn request(&mut self, _: usize, writer: &mut Writer) -> Option<Sent> {
        if self.left == 0 {
            return None;
        }
        let queue = self.idle.pop_front()?;
        self.left -= 1;
        writer.write(&self.templates[queue]);
        Some(Sent { place: queue, note: 0, timed: true })
    }

    fn answered(
        &mut self,
        _: usize,
        sent: &Sent,
        answer: &Answer,
        whole: bool,
        writer: &mut Writer,
    ) -> Result<Option<Sent>> {
        if sent.note == ACK {
            return if answer.code == 0 { Ok(None) } else { Err(answer.refused("an ack")) };
        }
        let queue = sent.place;
        self.idle.push_back(queue);
        if answer.code == POLLING_TIMEOUT && self.again > 0 {
            self.again -= 1;
            self.left += 1;
            return Ok(None);
        }
        if answer.code != 0 {
            return Err(answer.refused(&format!("a pop of queue {queue}")));
        }
        let start = self.next_offset[queue];
        let ack = self.ack(queue, start, answer)?;
        let wanted = record::Wanted { topic: &self.topic, queue: queue as u32, first_offset: start, count: self.each };
        record::check(answer.body, &wanted, whole)?;
        self.next_offset[queue] += self.each as u64;
        writer.write(&ack);
        Ok(Some(Sent { place: queue, note: ACK, timed: false }))
    }

    fn unanswered_each(&self) -> usize {
        2
    }

    fn empty(&self) -> u64 {
        u64::from(AGAIN - self.again)
    }

    fn messages_each(&self) -> u64 {
        self.each as u64
    }
}

/// The numbers below `count` as a set: base64 of little-endian bits.
fn all_bits(count: usize) -> String {
    let bytes: Vec<u8> =
        (0..count.div_ceil(8)).map(|at| if count - 8 * at >= 8 { 0xFF } else { (1 << (count - 8 * at)) - 1 }).collect();
    base64(&bytes)
}

fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let value = three.iter().fold(0u32, |value, byte| value << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let sign = SIGNS[(value >> (18 - 6 * place) & 63) as usize] as char;
            text.push(if place <= three.len() { sign } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_base64_of_their_bits() {
        assert_eq!(all_bits(1), "AQ==");
        assert_eq!(all_bits(8), "/w==");
        assert_eq!(all_bits(12), "/w8=");
        assert_eq!(all_bits(32), "/////w==");
        assert_eq!(base64(&[9, 2]), "CQI=");
        assert_eq!(base64(b"abc"), "YWJj");
    }
}
