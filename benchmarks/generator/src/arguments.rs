//! The command line.

use std::ffi::OsString;
use std::time::Duration;

use lexopt::{Arg, ValueExt};

use crate::fail;
use crate::failure::Result;
use crate::frame::Headers;

pub const HELP: &str = "\
usage: rocketmq-load KIND --address [NAME@]HOST:PORT --count N [options]

Drives brokers that speak RocketMQ's remoting, checks every answer, prints one line of JSON.

kinds:
  send          single messages (SEND_MESSAGE_V2)
  batch         batches of --each messages (SEND_BATCH_MESSAGE)
  pull          pulls of --each messages from --from on, queue after queue
  pop           pops of --each messages, each acknowledged with one batch ack; one pop per queue is under way
  fan-out       single messages, which --groups groups wait for, each with a pull of every queue on a connection
                of its own; ends when each group has all of them
  transaction   half messages, each answer followed by a commit; ends when all messages are delivered

options:
  --address [NAME@]HOST:PORT   a broker and its name [broker-a]; more of them share the work
  --count N                    requests; for pops the pops, for transactions the transactions
  --seconds S                  no further request after this time
  --until-closed               no further request once the standard input has ended
  --rate N                     so many requests a second; the time of each counts from when it was due
  --inflight N                 requests in flight at most, over all connections [1]
  --connections N              over all brokers [one per broker]
  --topic NAME                 [bench]
  --topics N                   NAME-0 to NAME-(N-1) in turn instead, one queue each
  --queues N                   [8]
  --groups N                   that messages are delivered to, named NAME-0 to NAME-(N-1) after --group
  --run N                      so many messages to a queue, and then to the next [1]
  --size BYTES                 of a body [1024]
  --each N                     messages of a batch, pull or pop [32]
  --from OFFSET                first offset pulled, in every queue [0]
  --until OFFSET               pulls that have come so far begin again [as far as they come]
  --group NAME                 [benchmark]
  --property NAME=VALUE        another property of every message
  --headers json|rocketmq      of the requests [json]
  --pid PID                    a server whose CPU time is told; more than one possible
  --verify                     decode every answer whole, not only the first ones
  --timeout S                  without any answer, the run fails [60]";

const KINDS: &str = "send, batch, pull, pop, fan-out or transaction";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Send,
    Batch,
    Pull,
    Pop,
    FanOut,
    Transaction,
}

#[derive(Clone, Debug)]
pub struct Target {
    pub name: String,
    pub address: String,
}

#[derive(Debug)]
pub struct Arguments {
    pub kind: Kind,
    pub targets: Vec<Target>,
    pub count: u64,
    pub duration: Option<Duration>,
    pub until_closed: bool,
    pub rate: Option<f64>,
    pub inflight: usize,
    pub connections: usize,
    pub topic: String,
    pub topics: Option<usize>,
    pub queues: usize,
    pub groups: usize,
    pub run: u64,
    pub size: usize,
    pub each: usize,
    pub from: u64,
    pub until: Option<u64>,
    pub group: String,
    pub properties: Vec<(String, String)>,
    pub headers: Headers,
    pub pids: Vec<i32>,
    pub verify: bool,
    pub timeout: Duration,
}

impl Arguments {
    /// Parses and checks the words after the program's name; None when help is asked for.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Option<Self>> {
        let mut parser = lexopt::Parser::from_args(words);
        let mut kind = None;
        let mut given = Self::defaults();
        while let Some(word) = parser.next()? {
            match word {
                Arg::Value(word) if kind.is_none() => kind = Some(parse_kind(&word.string()?)?),
                Arg::Long("help") | Arg::Short('h') => return Ok(None),
                Arg::Long(name) => {
                    let name = name.to_owned();
                    given.set(&name, &mut parser)?;
                }
                other => return Err(other.unexpected().into()),
            }
        }
        let Some(kind) = kind else { fail!("what to do is missing: {KINDS}") };
        given.kind = kind;
        given.checked().map(Some)
    }

    fn defaults() -> Self {
        Arguments {
            kind: Kind::Send,
            targets: vec![],
            count: 0,
            duration: None,
            until_closed: false,
            rate: None,
            inflight: 1,
            connections: 0,
            topic: "bench".into(),
            topics: None,
            queues: 8,
            groups: 0,
            run: 1,
            size: 1024,
            each: 32,
            from: 0,
            until: None,
            group: "benchmark".into(),
            properties: vec![],
            headers: Headers::Json,
            pids: vec![],
            verify: false,
            timeout: Duration::from_secs(60),
        }
    }

    fn set(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<()> {
        match name {
            "verify" => {
                self.verify = true;
                return Ok(());
            }
            "until-closed" => {
                self.until_closed = true;
                return Ok(());
            }
            _ => {}
        }
        let value = parser.value()?;
        match name {
            "address" => self.targets.push(parse_target(&value.string()?)),
            "count" => self.count = value.parse()?,
            "seconds" => self.duration = Some(seconds(value.parse()?)?),
            "rate" => self.rate = Some(value.parse()?),
            "inflight" => self.inflight = value.parse()?,
            "connections" => self.connections = value.parse()?,
            "topic" => self.topic = value.string()?,
            "topics" => self.topics = Some(value.parse()?),
            "queues" => self.queues = value.parse()?,
            "groups" => self.groups = value.parse()?,
            "run" => self.run = value.parse()?,
            "size" => self.size = value.parse()?,
            "each" => self.each = value.parse()?,
            "from" => self.from = value.parse()?,
            "until" => self.until = Some(value.parse()?),
            "group" => self.group = value.string()?,
            "property" => self.properties.push(parse_property(&value.string()?)?),
            "headers" => self.headers = parse_headers(&value.string()?)?,
            "pid" => self.pids.push(value.parse()?),
            "timeout" => self.timeout = seconds(value.parse()?)?,
            _ => fail!("--{name} is no option; --help lists them"),
        }
        Ok(())
    }

    fn checked(mut self) -> Result<Self> {
        if self.targets.is_empty() {
            fail!("--address is missing");
        }
        self.connections = self.connections.max(self.targets.len());
        let numbers = [self.count as usize, self.inflight, self.queues, self.run as usize, self.size, self.each];
        if numbers.contains(&0) || self.topics == Some(0) {
            fail!("--count, --inflight, --topics, --queues, --run, --size and --each are at least 1");
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e6)) {
            fail!("--rate is more than 0 and at most 1,000,000 a second");
        }
        if self.rate.is_some() && !matches!(self.kind, Kind::Send | Kind::Batch | Kind::FanOut) {
            fail!("--rate is for send, batch and fan-out");
        }
        if self.inflight < self.connections {
            fail!("{} requests in flight cannot use {} connections", self.inflight, self.connections);
        }
        if self.each > 4096 || self.inflight > 65_536 || self.size > 4 << 20 {
            fail!("--each is at most 4096, --inflight 65536, --size 4 MiB");
        }
        if self.kind == Kind::Pop && self.headers == Headers::Rocketmq {
            fail!("pops have codes that do not fit into ROCKETMQ headers");
        }
        if matches!(self.kind, Kind::Pop | Kind::Transaction) && self.targets.len() > 1 {
            fail!("pops and transactions are driven at one broker");
        }
        if self.kind == Kind::FanOut {
            return self.checked_fan_out();
        }
        if self.groups != 0 {
            fail!("--groups is for fan-out");
        }
        Ok(self)
    }

    fn checked_fan_out(mut self) -> Result<Self> {
        if self.rate.is_none() || self.duration.is_some() || self.until_closed {
            fail!("a fan-out has a --rate and ends with its --count");
        }
        if self.targets.len() > 1 || self.topics.is_some() || self.run != 1 {
            fail!("a fan-out has one broker and one topic, and its queues in turn");
        }
        if self.groups == 0 || self.groups > 1_000 || self.connections != 1 {
            fail!("a fan-out has 1 to 1,000 --groups, each with a connection");
        }
        self.connections = self.groups + 1;
        Ok(self)
    }

    /// The topics and queues that requests take in turn.
    pub fn places(&self) -> Vec<(String, usize)> {
        match self.topics {
            Some(count) => (0..count).map(|number| (format!("{}-{number}", self.topic), 0)).collect(),
            None => (0..self.queues).map(|queue| (self.topic.clone(), queue)).collect(),
        }
    }
}

fn parse_kind(word: &str) -> Result<Kind> {
    Ok(match word {
        "send" => Kind::Send,
        "batch" => Kind::Batch,
        "pull" => Kind::Pull,
        "pop" => Kind::Pop,
        "fan-out" => Kind::FanOut,
        "transaction" => Kind::Transaction,
        _ => fail!("{word:?} is not {KINDS}"),
    })
}

fn parse_headers(word: &str) -> Result<Headers> {
    Ok(match word {
        "json" => Headers::Json,
        "rocketmq" => Headers::Rocketmq,
        _ => fail!("headers are json or rocketmq, not {word:?}"),
    })
}

fn parse_target(word: &str) -> Target {
    let (name, address) = word.split_once('@').unwrap_or(("broker-a", word));
    Target { name: name.to_owned(), address: address.to_owned() }
}

fn parse_property(word: &str) -> Result<(String, String)> {
    match word.split_once('=') {
        Some((name, value)) if !word.contains(['\u{1}', '\u{2}', '@', '^']) => Ok((name.into(), value.into())),
        _ => fail!("{word:?} is no property NAME=VALUE, or has a sign that has a meaning of its own"),
    }
}

fn seconds(seconds: f64) -> Result<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => fail!("{seconds} is no number of seconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Arguments>> {
        Arguments::parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn options_and_their_defaults() {
        let given =
            parse("batch --address b@h:1 --address h:2 --count 5 --inflight 3 --property A=1").unwrap().unwrap();
        assert_eq!((given.kind, given.count, given.inflight, given.connections), (Kind::Batch, 5, 3, 2));
        let targets: Vec<_> = given.targets.iter().map(|t| (t.name.as_str(), t.address.as_str())).collect();
        assert_eq!(targets, [("b", "h:1"), ("broker-a", "h:2")]);
        assert_eq!(given.properties, [("A".to_owned(), "1".to_owned())]);
        assert_eq!(given.places().len(), 8);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "send --count 1",
            "send --address h:1",
            "fly --address h:1 --count 1",
            "send --address h:1 --count x",
            "send --address h:1 --count 1 --connections 2",
            "send --address h:1 --count 1 --speed 3",
            "pop --address h:1 --count 1 --headers rocketmq",
            "send --address h:1 --count 1 --property A@=1",
            "send --address h:1 --count 1 --seconds 0",
            "send --address h:1 --count 1 --each 0",
            "send --address h:1 --count 1 --rate 0",
            "send --address h:1 --count 1 --rate NaN",
            "pull --address h:1 --count 1 --rate 5",
            "send --address h:1 --count 1 --groups 5",
            "fan-out --address h:1 --count 1 --rate 5",
            "fan-out --address h:1 --count 1 --groups 5",
            "fan-out --address h:1 --count 1 --rate 5 --groups 5 --seconds 3",
            "fan-out --address h:1 --count 1 --rate 5 --groups 5 --run 2",
            "fan-out --address h:1 --address h:2 --count 1 --rate 5 --groups 5",
            "fan-out --address h:1 --count 1 --rate 5 --groups 5 --inflight 4 --connections 2",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert!(parse("--help").unwrap().is_none());
    }
}
