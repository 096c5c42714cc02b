//! Sends, of single messages and of batches.

use super::{Load, Sent, Writer};
use crate::answer::Answer;
use crate::arguments::{Arguments, Kind, Target};
use crate::fail;
use crate::failure::Result;
use crate::frame::{batch, body, properties, Command, Template, BORN, KEY};

const SEND_MESSAGE_V2: u32 = 310;
const SEND_BATCH_MESSAGE: u32 = 320;
const PREPARED: u32 = 4;

pub struct Sends {
    templates: Vec<Vec<Template>>,
    queues: Vec<usize>,
    run: u64,
    messages_each: u64,
    next: Vec<u64>,
    left: u64,
    sent: Vec<Vec<u64>>,
}

/// What a message has beside its body.
pub struct Message<'a> {
    pub properties: &'a str,
    /// The first phase of a transaction.
    pub half: bool,
}

impl Sends {
    pub fn new(arguments: &Arguments) -> Self {
        let own = arguments.properties.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let properties = properties([("UNIQ_KEY", KEY), ("WAIT", "true"), ("TAGS", "TagA")].into_iter().chain(own));
        let payload = body(arguments.size);
        let each = if arguments.kind == Kind::Batch { arguments.each } else { 1 };
        let batch = (arguments.kind == Kind::Batch).then(|| batch(each, &payload, &properties));
        let places = arguments.places();
        let template = |target: &Target, place: &(String, usize)| {
            let message = Message { properties: &properties, half: false };
            send(arguments, &target.name, place, &message, batch.as_deref(), &payload)
        };
        Sends {
            templates: arguments
                .targets
                .iter()
                .map(|target| places.iter().map(|place| template(target, place)).collect())
                .collect(),
            queues: places.iter().map(|place| place.1).collect(),
            run: arguments.run,
            messages_each: each as u64,
            next: vec![0; arguments.targets.len()],
            left: arguments.count,
            sent: vec![vec![0; places.len()]; arguments.targets.len()],
        }
    }
}

/// A send as a Java client writes it; `batch` is the body of a batch.
pub fn send(
    arguments: &Arguments,
    broker: &str,
    place: &(String, usize),
    message: &Message,
    batch: Option<&[u8]>,
    payload: &[u8],
) -> Template {
    let (queue, flags) = (place.1.to_string(), if message.half { PREPARED } else { 0 }.to_string());
    let fields = [
        ("a", arguments.group.as_str()),
        ("b", &place.0),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", &queue),
        ("f", &flags),
        ("g", BORN),
        ("h", "0"),
        ("i", message.properties),
        ("j", "0"),
        ("k", "false"),
        ("m", if batch.is_some() { "true" } else { "false" }),
        ("n", broker),
    ];
    let code = if batch.is_some() { SEND_BATCH_MESSAGE } else { SEND_MESSAGE_V2 };
    let command = Command { code, fields: &fields, body: batch.unwrap_or(payload), one_way: false };
    Template::new(&command, arguments.headers)
}

/// Checks the answer to a send; `whole` says whether the position it tells is looked at, too.
pub fn check_stored(answer: &Answer, queue: usize, messages: u64, whole: bool) -> Result<()> {
    if answer.code != 0 || !answer.body.is_empty() {
        return Err(answer.refused("a send"));
    }
    if whole {
        let header = answer.whole()?;
        let ids = header.text("msgId")?.split(',').count() as u64;
        header.number("queueOffset")?;
        if header.number("queueId")? != queue as u64 || ids != messages {
            fail!("a send of {messages} to queue {queue} answered {:?}", header.fields);
        }
    }
    Ok(())
}

impl Load for Sends {
    fn request(&mut self, target: usize, writer: &mut Writer) -> Option<Sent> {
        self.left = self.left.checked_sub(1)?;
        let templates = &self.templates[target];
        let place = (self.next[target] / self.run % templates.len() as u64) as usize;
        self.next[target] += 1;
        self.sent[target][place] += self.messages_each;
        writer.write(&templates[place]);
        Some(Sent { place, note: 0, timed: true })
    }

    fn answered(
        &mut self,
        _: usize,
        sent: &Sent,
        answer: &Answer,
        whole: bool,
        _: &mut Writer,
    ) -> Result<Option<Sent>> {
        check_stored(answer, self.queues[sent.place], self.messages_each, whole)?;
        Ok(None)
    }

    fn messages_each(&self) -> u64 {
        self.messages_each
    }

    fn sent(&self) -> Vec<Vec<u64>> {
        self.sent.clone()
    }
}
