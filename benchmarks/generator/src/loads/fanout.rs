//! Fan-out: messages sent at a rate, each of which every group gets by a pull that waits for it.

use std::collections::VecDeque;

use super::send::Sends;
use super::{Load, Sent, Writer};
use crate::answer::Answer;
use crate::arguments::{Arguments, Target};
use crate::fail;
use crate::failure::Result;
use crate::frame::{Command, Headers, Template};
use crate::histogram::Histogram;
use crate::record;

const PULL_MESSAGE: u32 = 11;
const PULL_NOT_FOUND: i64 = 19;
const WAITS_AND_HAS_SUBSCRIPTION: &str = "6";

/// The first connection sends. Each of the others belongs to a group and has one pull of every queue under way.
pub struct FanOut {
    sends: Sends,
    inflight: usize,
    target: Target,
    topic: String,
    group: String,
    headers: Headers,
    each: String,
    queues: usize,
    from: u64,
    /// Offset after the last message that will be sent, for each queue.
    ends: Vec<u64>,
    /// When each message was due, for each queue.
    sent_at: Vec<Vec<u64>>,
    /// Pulls that the connections begin with.
    first: Vec<VecDeque<usize>>,
    times: Histogram,
}

impl FanOut {
    pub fn new(arguments: &Arguments) -> Self {
        let (queues, count) = (arguments.queues, arguments.count);
        let ends = (0..queues as u64).map(|queue| arguments.from + (count + queues as u64 - 1 - queue) / queues as u64);
        let first = (0..=arguments.groups).map(|number| match number {
            0 => VecDeque::new(),
            _ => ((number - 1) * queues..number * queues).collect(),
        });
        FanOut {
            sends: Sends::new(arguments),
            inflight: arguments.inflight,
            target: arguments.targets[0].clone(),
            topic: arguments.topic.clone(),
            group: arguments.group.clone(),
            headers: arguments.headers,
            each: arguments.each.to_string(),
            queues,
            from: arguments.from,
            ends: ends.collect(),
            sent_at: vec![vec![]; queues],
            first: first.collect(),
            times: Histogram::new(),
        }
    }

    /// Writes the pull of a place, a group and a queue, from an offset on; None when that is behind the last message.
    fn pull(&self, place: usize, offset: u64, writer: &mut Writer) -> Option<Sent> {
        let queue = place % self.queues;
        if offset >= self.ends[queue] {
            return None;
        }
        let (group, queue) = (format!("{}-{}", self.group, place / self.queues), queue.to_string());
        let fields = [
            ("consumerGroup", group.as_str()),
            ("topic", &self.topic),
            ("queueId", &queue),
            ("queueOffset", &offset.to_string()),
            ("maxMsgNums", &self.each),
            ("sysFlag", WAITS_AND_HAS_SUBSCRIPTION),
            ("commitOffset", "0"),
            ("suspendTimeoutMillis", "15000"),
            ("subscription", "*"),
            ("subVersion", "0"),
            ("expressionType", "TAG"),
            ("bname", &self.target.name),
        ];
        let command = Command { code: PULL_MESSAGE, fields: &fields, body: &[], one_way: false };
        writer.write(&Template::new(&command, self.headers));
        Some(Sent { place, note: offset, timed: false })
    }

    /// Adds the times of the messages of a queue from an offset on, which came just now.
    fn delivered(&mut self, queue: usize, first: u64, count: usize, now: u64) -> Result<()> {
        let begin = (first - self.from) as usize;
        let Some(sent_at) = self.sent_at[queue].get(begin..begin + count) else {
            fail!("{count} messages of queue {queue} from {first} on were delivered before they were sent");
        };
        for at in sent_at {
            self.times.add(now.saturating_sub(*at));
        }
        Ok(())
    }
}

impl Load for FanOut {
    fn request(&mut self, target: usize, writer: &mut Writer) -> Option<Sent> {
        let sent = self.sends.request(target, writer)?;
        self.sent_at[sent.place].push(writer.at);
        Some(sent)
    }

    fn answered(
        &mut self,
        target: usize,
        sent: &Sent,
        answer: &Answer,
        whole: bool,
        writer: &mut Writer,
    ) -> Result<Option<Sent>> {
        if sent.timed {
            return self.sends.answered(target, sent, answer, whole, writer);
        }
        let (queue, first) = (sent.place % self.queues, sent.note);
        if answer.code == PULL_NOT_FOUND {
            return Ok(self.pull(sent.place, first, writer));
        }
        if answer.code != 0 {
            return Err(answer.refused(&format!("a pull of queue {queue} from {first} on")));
        }
        let count = record::count(answer.body, &self.topic, queue as u32, first, whole)?;
        self.delivered(queue, first, count, writer.at)?;
        Ok(self.pull(sent.place, first + count as u64, writer))
    }

    fn begin(&mut self, connection: usize, writer: &mut Writer) -> Option<Sent> {
        let place = self.first[connection].pop_front()?;
        self.pull(place, self.from, writer)
    }

    fn standing(&self, connection: usize) -> usize {
        self.first[connection].len()
    }

    fn window(&self, connection: usize, _: usize) -> usize {
        if connection == 0 {
            self.inflight
        } else {
            0
        }
    }

    fn messages_each(&self) -> u64 {
        1
    }

    fn sent(&self) -> Vec<Vec<u64>> {
        self.sends.sent()
    }

    fn deliveries(&self) -> Option<&Histogram> {
        Some(&self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Keys, Stamp, FIRST_OPAQUE};

    fn load(line: &str) -> FanOut {
        let words = line.split(' ').map(std::ffi::OsString::from);
        FanOut::new(&Arguments::parse(words).unwrap().unwrap())
    }

    fn written(act: impl FnOnce(&mut Writer)) -> String {
        let (mut out, mut keys) = (vec![], Keys::new(1, 2));
        let stamp = Stamp { opaque: FIRST_OPAQUE, born: b"1234567890123" };
        act(&mut Writer { out: &mut out, stamp, keys: &mut keys, at: 5_000 });
        String::from_utf8_lossy(&out).into_owned()
    }

    const LINE: &str = "fan-out --address h:1 --count 5 --rate 10 --groups 3 --queues 2 --from 7 --group g";

    #[test]
    fn the_first_connection_sends_and_each_other_one_pulls_all_queues_of_its_group() {
        let mut load = load(LINE);
        assert_eq!((load.window(0, 9), load.window(1, 9), load.standing(0), load.standing(3)), (1, 0, 0, 2));
        assert_eq!(load.ends, [10, 9]);
        let text = written(|writer| {
            assert!(load.begin(0, writer).is_none());
            let sent = load.begin(3, writer).unwrap();
            assert_eq!((sent.place, sent.note, sent.timed), (4, 7, false));
        });
        assert!(text.contains("\"consumerGroup\":\"g-2\"") && text.contains("\"queueOffset\":\"7\""), "{text}");
        assert!(text.contains("\"queueId\":\"0\"") && text.contains("\"sysFlag\":\"6\""), "{text}");
    }

    #[test]
    fn a_group_pulls_on_until_it_has_all_messages_of_a_queue() {
        let load = load(LINE);
        written(|writer| {
            assert!(load.pull(0, 9, writer).is_some());
            assert!(load.pull(1, 9, writer).is_none());
            assert!(load.pull(0, 10, writer).is_none());
        });
    }

    #[test]
    fn the_time_of_a_delivery_counts_from_when_its_message_was_due() {
        let mut load = load(LINE);
        written(|writer| {
            for _ in 0..3 {
                load.request(0, writer).unwrap();
            }
        });
        load.delivered(0, 7, 2, 9_000).unwrap();
        assert_eq!((load.times.total(), load.times.largest()), (2, 4_000));
        assert!(load.delivered(1, 8, 1, 9_000).is_err());
    }
}
