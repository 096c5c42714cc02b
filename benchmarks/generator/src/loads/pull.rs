//! Pulls of a backlog, queue after queue.

use super::{Load, Sent, Writer};
use crate::answer::Answer;
use crate::arguments::Arguments;
use crate::fail;
use crate::failure::Result;
use crate::frame::{Command, Template};
use crate::record;

const PULL_MESSAGE: u32 = 11;
const SUBSCRIPTION_IN_REQUEST: &str = "4";

pub struct Pulls {
    /// For each target the requests of a pass, in the order they are sent.
    pass: Vec<Vec<Template>>,
    next: Vec<usize>,
    left: u64,
    topic: String,
    queues: usize,
    each: usize,
    from: u64,
}

impl Pulls {
    pub fn new(arguments: &Arguments) -> Result<Self> {
        let targets = arguments.targets.len() as u64;
        let (queues, each) = (arguments.queues, arguments.each);
        let rounds = match arguments.until.map(|until| until.saturating_sub(arguments.from)) {
            Some(backlog) => backlog / each as u64,
            None => arguments.count.div_ceil(targets).div_ceil(queues as u64),
        };
        if rounds == 0 {
            fail!("between --from and --until there is not one pull of {each} messages");
        }
        let pull = |name: &str, index: u64| {
            let offset = arguments.from + index / queues as u64 * each as u64;
            encode(arguments, name, (index % queues as u64).to_string(), offset.to_string())
        };
        Ok(Pulls {
            pass: arguments
                .targets
                .iter()
                .map(|target| (0..rounds * queues as u64).map(|index| pull(&target.name, index)).collect())
                .collect(),
            next: vec![0; arguments.targets.len()],
            left: arguments.count,
            topic: arguments.topic.clone(),
            queues,
            each,
            from: arguments.from,
        })
    }
}

fn encode(arguments: &Arguments, broker: &str, queue: String, offset: String) -> Template {
    let each = arguments.each.to_string();
    let fields = [
        ("consumerGroup", arguments.group.as_str()),
        ("topic", &arguments.topic),
        ("queueId", &queue),
        ("queueOffset", &offset),
        ("maxMsgNums", &each),
        ("sysFlag", SUBSCRIPTION_IN_REQUEST),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "15000"),
        ("subscription", "*"),
        ("subVersion", "0"),
        ("expressionType", "TAG"),
        ("bname", broker),
    ];
    Template::new(&Command { code: PULL_MESSAGE, fields: &fields, body: &[], one_way: false }, arguments.headers)
}

impl Load for Pulls {
    fn request(&mut self, target: usize, writer: &mut Writer) -> Option<Sent> {
        self.left = self.left.checked_sub(1)?;
        let index = self.next[target];
        self.next[target] = (index + 1) % self.pass[target].len();
        writer.write(&self.pass[target][index]);
        Some(Sent {
            place: index % self.queues,
            note: self.from + (index / self.queues * self.each) as u64,
            timed: true,
        })
    }

    fn answered(
        &mut self,
        _: usize,
        sent: &Sent,
        answer: &Answer,
        whole: bool,
        _: &mut Writer,
    ) -> Result<Option<Sent>> {
        if answer.code != 0 {
            return Err(answer.refused(&format!("a pull of queue {} from {} on", sent.place, sent.note)));
        }
        let wanted =
            record::Wanted { topic: &self.topic, queue: sent.place as u32, first_offset: sent.note, count: self.each };
        record::check(answer.body, &wanted, whole)?;
        if whole {
            let next = answer.whole()?.number("nextBeginOffset")?;
            if next != sent.note + self.each as u64 {
                fail!("{} messages from {} on are said to be followed by {next}", self.each, sent.note);
            }
        }
        Ok(None)
    }

    fn messages_each(&self) -> u64 {
        self.each as u64
    }
}
