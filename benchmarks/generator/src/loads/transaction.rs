//! Transactions: a half message, and after its answer a commit that nobody answers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::send::{check_stored, send, Message};
use super::{Load, Sent, Writer};
use crate::answer::{frame_size, Answer};
use crate::arguments::Arguments;
use crate::fail;
use crate::failure::{Failure, Result};
use crate::frame::{body, properties, Command, Headers, Keys, Stamp, Template, BORN, FIRST_OPAQUE, KEY};

const END_TRANSACTION: u32 = 37;
const GET_MAX_OFFSET: u32 = 30;
const COMMIT: &str = "8";
/// Between two looks at the ends of the queues; nobody tells when a message is delivered.
const LOOK: Duration = Duration::from_millis(1);

pub struct Transactions {
    templates: Vec<Template>,
    next: u64,
    left: u64,
    sent: Vec<u64>,
    broker: String,
    group: String,
    topic: String,
    headers: Headers,
    address: String,
    timeout: Duration,
    wanted: u64,
}

impl Transactions {
    pub fn new(arguments: &Arguments) -> Self {
        let own = arguments.properties.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let fixed = [
            ("TRAN_MSG", "true"),
            ("UNIQ_KEY", KEY),
            ("WAIT", "true"),
            ("PGROUP", arguments.group.as_str()),
            ("TAGS", "TagA"),
        ];
        let properties = properties(fixed.into_iter().chain(own));
        let (target, payload) = (&arguments.targets[0], body(arguments.size));
        let half = |place| {
            send(arguments, &target.name, place, &Message { properties: &properties, half: true }, None, &payload)
        };
        let places: Vec<_> = (0..arguments.queues).map(|queue| (arguments.topic.clone(), queue)).collect();
        Transactions {
            templates: places.iter().map(half).collect(),
            next: 0,
            left: arguments.count,
            sent: vec![0; arguments.queues],
            broker: target.name.clone(),
            group: arguments.group.clone(),
            topic: arguments.topic.clone(),
            headers: arguments.headers,
            address: target.address.clone(),
            timeout: arguments.timeout,
            wanted: 0,
        }
    }

    /// The commit of the half message that an answer is about.
    fn commit(&self, answer: &Answer) -> Result<Template> {
        let told = answer.whole()?;
        let (id, key) = (told.text("msgId")?, told.text("transactionId")?);
        let position = id.get(id.len().saturating_sub(16)..).and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let Some(position) = position else { fail!("{id:?} is no id of a message") };
        let position = position.to_string();
        let fields = [
            ("topic", self.topic.as_str()),
            ("producerGroup", &self.group),
            ("bname", &self.broker),
            ("tranStateTableOffset", told.text("queueOffset")?),
            ("commitLogOffset", &position),
            ("commitOrRollback", COMMIT),
            ("fromTransactionCheck", "false"),
            ("msgId", key),
            ("transactionId", key),
        ];
        Ok(Template::new(&Command { code: END_TRANSACTION, fields: &fields, body: &[], one_way: true }, self.headers))
    }

    /// How many messages the queues of the topic have had.
    fn delivered(&self, link: &mut TcpStream) -> Result<u64> {
        let mut total = 0;
        for queue in 0..self.templates.len() {
            let queue = queue.to_string();
            let fields = [("topic", self.topic.as_str()), ("queueId", &queue), ("bname", &self.broker)];
            let command = Command { code: GET_MAX_OFFSET, fields: &fields, body: &[], one_way: false };
            total += ask(link, &Template::new(&command, self.headers))?;
        }
        Ok(total)
    }

    fn connect(&self) -> Result<TcpStream> {
        let link = TcpStream::connect(&self.address)
            .map_err(|e| Failure::new(format!("cannot connect to {}: {e}", self.address)))?;
        link.set_nodelay(true)?;
        link.set_read_timeout(Some(self.timeout))?;
        Ok(link)
    }
}

/// The field `offset` of the answer to one request.
fn ask(link: &mut TcpStream, request: &Template) -> Result<u64> {
    let mut bytes = Vec::new();
    let stamp = Stamp { opaque: FIRST_OPAQUE, born: &[b'0'; BORN.len()] };
    request.write(&mut bytes, &stamp, &mut Keys::new(0, 0));
    link.write_all(&bytes)?;
    let mut answer = vec![0; 8];
    link.read_exact(&mut answer)?;
    let size = frame_size(&answer)?.unwrap_or(8);
    answer.resize(size, 0);
    link.read_exact(&mut answer[8..])?;
    let answer = Answer::parse(&answer)?;
    if answer.code != 0 {
        return Err(answer.refused("a question for the end of a queue"));
    }
    answer.whole()?.number("offset")
}

impl Load for Transactions {
    fn request(&mut self, _: usize, writer: &mut Writer) -> Option<Sent> {
        self.left = self.left.checked_sub(1)?;
        let place = (self.next % self.templates.len() as u64) as usize;
        self.next += 1;
        self.sent[place] += 1;
        writer.write(&self.templates[place]);
        Some(Sent { place, note: 0, timed: true })
    }

    fn answered(
        &mut self,
        _: usize,
        sent: &Sent,
        answer: &Answer,
        whole: bool,
        writer: &mut Writer,
    ) -> Result<Option<Sent>> {
        check_stored(answer, sent.place, 1, whole)?;
        let commit = self.commit(answer)?;
        writer.write(&commit);
        Ok(None)
    }

    fn prepare(&mut self) -> Result<()> {
        self.wanted = self.delivered(&mut self.connect()?)?;
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.wanted += self.next;
        let mut link = self.connect()?;
        let start = Instant::now();
        loop {
            let found = self.delivered(&mut link)?;
            if found == self.wanted {
                return Ok(());
            }
            if found > self.wanted || start.elapsed() > self.timeout {
                fail!("the queues have {found} messages, with all that was committed they should have {}", self.wanted);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn messages_each(&self) -> u64 {
        1
    }

    fn sent(&self) -> Vec<Vec<u64>> {
        vec![self.sent.clone()]
    }
}
