//! The loop: one thread waits for all connections, reads, checks, refills and writes.

use std::io::{self, Read};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::answer::{frame_size, Answer};
use crate::arguments::Arguments;
use crate::connection::Connection;
use crate::cpu;
use crate::fail;
use crate::failure::{Failure, Result};
use crate::frame::{digits, Keys, Stamp, BORN};
use crate::histogram::Histogram;
use crate::loads::{Load, Writer};

const EVENTS: usize = 256;
/// The event of the standard input; connections have small numbers.
const STDIN: u64 = u64::MAX;

/// What a run has measured.
pub struct Outcome {
    pub seconds: f64,
    pub times: Histogram,
    pub own_cpu: f64,
    pub server_cpu: Vec<f64>,
}

pub struct Engine<'a> {
    load: &'a mut dyn Load,
    connections: Vec<Connection>,
    keys: Keys,
    born: [u8; BORN.len()],
    start: Instant,
    until: Option<Duration>,
    /// Nanoseconds from one request to the next, when they have a rate.
    interval: Option<f64>,
    begun: u64,
    /// No further request is written.
    ended: bool,
    times: Histogram,
    /// Answers that are still to be decoded whole.
    whole: u64,
    unanswered: usize,
}

/// Drives a load to its end.
pub fn run(arguments: &Arguments, load: &mut dyn Load) -> Result<Outcome> {
    load.prepare()?;
    let started_millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let mut engine = Engine {
        connections: connect(arguments, load)?,
        load,
        keys: Keys::new(std::process::id(), started_millis),
        born: [b'0'; BORN.len()],
        start: Instant::now(),
        until: arguments.duration,
        interval: arguments.rate.map(|rate| 1e9 / rate),
        begun: 0,
        ended: false,
        times: Histogram::new(),
        whole: if arguments.verify { u64::MAX } else { arguments.inflight as u64 },
        unanswered: 0,
    };
    let poll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let interest = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
    for (index, connection) in engine.connections.iter().enumerate() {
        poll.add(&connection.stream, EpollEvent::new(interest, index as u64))?;
    }
    if arguments.until_closed {
        poll.add(io::stdin(), EpollEvent::new(EpollFlags::EPOLLIN, STDIN))?;
    }
    let (own, servers) = (cpu::own_seconds()?, cpu::seconds_of(&arguments.pids)?);
    engine.drive(&poll, arguments.timeout)?;
    engine.load.finish()?;
    let seconds = engine.start.elapsed().as_secs_f64();
    let after = cpu::seconds_of(&arguments.pids)?;
    Ok(Outcome {
        seconds,
        times: engine.times,
        own_cpu: cpu::own_seconds()? - own,
        server_cpu: after.iter().zip(servers).map(|(after, before)| after - before).collect(),
    })
}

/// All connections, spread over the brokers, and the requests in flight spread over them.
fn connect(arguments: &Arguments, load: &dyn Load) -> Result<Vec<Connection>> {
    (0..arguments.connections)
        .map(|index| {
            let target = index % arguments.targets.len();
            let more = usize::from(index < arguments.inflight % arguments.connections);
            let window = load.window(index, arguments.inflight / arguments.connections + more);
            let unanswered = window * load.unanswered_each() + load.standing(index);
            Connection::open(&arguments.targets[target].address, target, window, unanswered)
        })
        .collect()
}

impl Engine<'_> {
    fn drive(&mut self, poll: &Epoll, timeout: Duration) -> Result<()> {
        self.start = Instant::now();
        self.note_time();
        self.begin_all();
        self.fill_all()?;
        let mut events = [EpollEvent::empty(); EVENTS];
        let mut last_answer = Instant::now();
        while self.unanswered > 0 || (self.interval.is_some() && !self.ended) {
            let ready = match poll.wait(&mut events, self.wait(timeout)?) {
                Err(Errno::EINTR) => 0,
                ready => ready?,
            };
            self.note_time();
            if self.unanswered == 0 {
                last_answer = Instant::now();
            }
            for event in &events[..ready] {
                if event.data() == STDIN {
                    self.read_stdin(poll)?;
                } else if self.serve(event.data() as usize)? {
                    last_answer = Instant::now();
                }
            }
            if self.interval.is_some() {
                self.fill_all()?;
            }
            if self.unanswered > 0 && last_answer.elapsed() >= timeout {
                fail!("{} requests have had no answer for {} s", self.unanswered, timeout.as_secs_f64());
            }
        }
        Ok(())
    }

    /// Writes the requests that connections begin with.
    fn begin_all(&mut self) {
        for index in 0..self.connections.len() {
            loop {
                let at = self.nanos();
                let connection = &mut self.connections[index];
                let Some(opaque) = connection.number() else { break };
                let stamp = Stamp { opaque, born: &self.born };
                let mut writer = Writer { out: connection.output(), stamp, keys: &mut self.keys, at };
                let Some(sent) = self.load.begin(index, &mut writer) else { break };
                connection.begin(opaque, sent, at);
                self.unanswered += 1;
            }
        }
    }

    fn fill_all(&mut self) -> Result<()> {
        for index in 0..self.connections.len() {
            self.fill(index);
            self.connections[index].write()?;
        }
        Ok(())
    }

    /// How long to wait for events: until the next request is due, unless requests have no rate.
    fn wait(&self, timeout: Duration) -> Result<EpollTimeout> {
        let has_room = self.connections.iter().any(|connection| connection.timed < connection.window);
        let due = match self.due() {
            Some(due) if has_room && !self.ended => Duration::from_nanos(due.saturating_sub(self.nanos())),
            _ => timeout,
        };
        // Milliseconds, rounded up: a wait that is too short would be repeated.
        let millis = due.min(timeout).as_nanos().div_ceil(1_000_000);
        EpollTimeout::try_from(Duration::from_millis(millis as u64)).map_err(|_| Failure::new("--timeout is too long"))
    }

    /// When the next request is due, in nanoseconds from the start; None if requests have no rate.
    fn due(&self) -> Option<u64> {
        self.interval.map(|interval| (self.begun as f64 * interval) as u64)
    }

    /// Ends the load when the standard input has ended.
    fn read_stdin(&mut self, poll: &Epoll) -> Result<()> {
        if io::stdin().read(&mut [0; 256])? == 0 {
            poll.delete(io::stdin())?;
            self.ended = true;
        }
        Ok(())
    }

    /// Does what an event allows; true when there were answers.
    fn serve(&mut self, index: usize) -> Result<bool> {
        let mut answered = false;
        loop {
            let more = self.connections[index].read()?;
            answered |= self.answers(index)?;
            self.fill(index);
            self.connections[index].write()?;
            if !more {
                return Ok(answered);
            }
        }
    }

    /// Takes all whole answers of what was read.
    fn answers(&mut self, index: usize) -> Result<bool> {
        let now = self.nanos();
        let (input, filled) = self.connections[index].take_input();
        let mut used = 0;
        while let Some(size) = frame_size(&input[used..filled])? {
            let Some(frame) = input[used..filled].get(..size) else { break };
            self.answer(index, frame, now)?;
            used += size;
        }
        self.connections[index].give_back(input, used);
        Ok(used > 0)
    }

    fn answer(&mut self, index: usize, frame: &[u8], now: u64) -> Result<()> {
        let connection = &mut self.connections[index];
        let answer = Answer::parse(frame)?;
        let pending = connection.end(answer.opaque)?;
        self.unanswered -= 1;
        let whole = self.whole > 0;
        if whole {
            self.whole -= 1;
            answer.whole()?;
        }
        let opaque = connection.number().expect("the answered request's place is free");
        let (target, stamp) = (connection.target, Stamp { opaque, born: &self.born });
        let mut writer = Writer { out: connection.output(), stamp, keys: &mut self.keys, at: now };
        let follows = self
            .load
            .answered(target, &pending.sent, &answer, whole, &mut writer)
            .map_err(|e| Failure::new(format!("{}: {e}", self.connections[index].address)))?;
        if pending.sent.timed {
            self.times.add(now.saturating_sub(pending.written_at));
        }
        if let Some(sent) = follows {
            self.connections[index].begin(opaque, sent, now);
            self.unanswered += 1;
        }
        Ok(())
    }

    /// Writes as many requests as may be under way.
    fn fill(&mut self, index: usize) {
        let now = self.nanos();
        self.ended |= self.until.is_some_and(|until| now >= until.as_nanos() as u64);
        while !self.ended && self.connections[index].timed < self.connections[index].window {
            let written_at = self.due().unwrap_or(now);
            if written_at > now {
                return;
            }
            let connection = &mut self.connections[index];
            let Some(opaque) = connection.number() else { return };
            let (target, stamp) = (connection.target, Stamp { opaque, born: &self.born });
            let mut writer = Writer { out: connection.output(), stamp, keys: &mut self.keys, at: written_at };
            let Some(sent) = self.load.request(target, &mut writer) else {
                // None may also mean "not before an answer has come", so a rate needs a load that never waits for one.
                self.ended |= self.interval.is_some();
                return;
            };
            connection.begin(opaque, sent, written_at);
            self.begun += 1;
            self.unanswered += 1;
        }
    }

    fn nanos(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Renders the time of day that messages are born at.
    fn note_time(&mut self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        digits(&mut self.born, now.as_millis() as u64);
    }
}
