//! `rocketmq-grpc-load`: drives a server that speaks RocketMQ's gRPC and prints what it measured as one line of JSON.
//!
//! One connection, one thread that writes what may be under way and then waits for answers. Every answer is checked: it
//! must be a success; what is received must be there and is acknowledged in one call.

#[path = "../../cpu.rs"]
mod cpu;
#[path = "../../failure.rs"]
mod failure;
#[path = "../../histogram.rs"]
mod histogram;
mod http2;
mod messages;

use std::collections::HashMap;
use std::process::ExitCode;
use std::time::Instant;

use lexopt::{Arg, ValueExt};
use serde_json::json;

use crate::failure::{told, Result};
use crate::histogram::Histogram;
use crate::http2::{Answer, Connection};

const HELP: &str = "\
usage: rocketmq-grpc-load send|receive --address HOST:PORT --count N [options]

  send      single messages
  receive   messages in calls of 32, each answer acknowledged with one call, until there were N messages

options:
  --inflight N    calls under way [1]
  --topic NAME    [bench]
  --group NAME    [benchmark]
  --size BYTES    of a body [1024]
  --pid PID       a server whose CPU time is told; more than one possible";

struct Arguments {
    receives: bool,
    address: String,
    count: u64,
    inflight: usize,
    topic: String,
    group: String,
    size: usize,
    pids: Vec<i32>,
}

/// A call under way, and when it was written.
enum Call {
    Send(u64),
    Receive(u64),
    /// An acknowledgement of so many messages, with the time of the call that received them.
    Ack(u64, u64),
}

fn main() -> ExitCode {
    told("rocketmq-grpc-load", measure())
}

fn parse() -> Result<Option<Arguments>> {
    let mut parser = lexopt::Parser::from_env();
    let mut given = Arguments {
        receives: false,
        address: String::new(),
        count: 0,
        inflight: 1,
        topic: "bench".into(),
        group: "benchmark".into(),
        size: 1024,
        pids: vec![],
    };
    let mut kind = None;
    while let Some(word) = parser.next()? {
        match word {
            Arg::Value(word) if kind.is_none() => kind = Some(word.string()?),
            Arg::Long("help") | Arg::Short('h') => return Ok(None),
            Arg::Long("address") => given.address = parser.value()?.string()?,
            Arg::Long("count") => given.count = parser.value()?.parse()?,
            Arg::Long("inflight") => given.inflight = parser.value()?.parse()?,
            Arg::Long("topic") => given.topic = parser.value()?.string()?,
            Arg::Long("group") => given.group = parser.value()?.string()?,
            Arg::Long("size") => given.size = parser.value()?.parse()?,
            Arg::Long("pid") => given.pids.push(parser.value()?.parse()?),
            other => return Err(other.unexpected().into()),
        }
    }
    given.receives = match kind.as_deref() {
        Some("send") => false,
        Some("receive") => true,
        _ => fail!("what to do is missing: send or receive"),
    };
    if given.address.is_empty() || given.count == 0 || given.inflight == 0 {
        fail!("--address, --count and --inflight are needed, and at least 1");
    }
    Ok(Some(given))
}

fn measure() -> Result<String> {
    let Some(arguments) = parse()? else { return Ok(HELP.to_owned()) };
    let mut connection = Connection::open(&arguments.address)?;
    if arguments.receives {
        let settings = messages::settings(&arguments.group, &arguments.topic);
        let stream = connection.begin("Telemetry", &settings, false);
        let answer = loop {
            let answer = connection.answer(false)?;
            if answer.stream == stream {
                break answer;
            }
        };
        messages::check_settings(&answer.messages)?;
    }
    let (own, servers) = (cpu::own_seconds()?, cpu::seconds_of(&arguments.pids)?);
    let start = Instant::now();
    let mut run =
        Run { calls: HashMap::new(), begun: 0, awaited: 0, done: 0, empty: 0, times: Histogram::new(), start };
    run.drive(&arguments, &mut connection)?;
    let seconds = start.elapsed().as_secs_f64();
    let after = cpu::seconds_of(&arguments.pids)?;
    let cpu: Vec<f64> = after.iter().zip(servers).map(|(after, before)| after - before).collect();
    Ok(report(&run, seconds, cpu::own_seconds()? - own, &cpu).to_string())
}

struct Run {
    calls: HashMap<u32, Call>,
    begun: u64,
    /// Messages that calls under way may bring.
    awaited: u64,
    done: u64,
    empty: u64,
    times: Histogram,
    start: Instant,
}

impl Run {
    fn drive(&mut self, arguments: &Arguments, connection: &mut Connection) -> Result<()> {
        let mut send = messages::Send::new(&arguments.topic, arguments.size);
        let receive = messages::receive(&arguments.group, &arguments.topic);
        loop {
            while self.calls.len() < arguments.inflight && self.begun + self.awaited < arguments.count {
                let now = self.nanos();
                let (name, message): (&str, &[u8]) =
                    if arguments.receives { ("ReceiveMessage", &receive) } else { ("SendMessage", send.next()) };
                if !connection.has_room(message.len()) {
                    break;
                }
                let stream = connection.begin(name, message, true);
                if arguments.receives {
                    self.awaited += messages::EACH;
                } else {
                    self.begun += 1;
                }
                self.calls.insert(stream, if arguments.receives { Call::Receive(now) } else { Call::Send(now) });
            }
            if self.calls.is_empty() {
                return Ok(());
            }
            let answer = connection.answer(true)?;
            self.take(arguments, connection, answer)?;
        }
    }

    fn take(&mut self, arguments: &Arguments, connection: &mut Connection, answer: Answer) -> Result<()> {
        let now = self.nanos();
        let Some(call) = self.calls.remove(&answer.stream) else { return Ok(()) };
        match call {
            Call::Send(at) => {
                messages::check(&answer.messages, "a send")?;
                self.times.add(now - at);
                self.done += 1;
            }
            Call::Receive(at) => {
                let handles = messages::received(&answer.messages)?;
                self.awaited -= messages::EACH;
                if handles.is_empty() {
                    self.empty += 1;
                    if self.empty > 3 + arguments.count / 32 {
                        fail!("{} of {} messages came, and then none", self.done, arguments.count);
                    }
                    return Ok(());
                }
                self.begun += handles.len() as u64;
                let ack = messages::ack(&arguments.group, &arguments.topic, &handles);
                let stream = connection.begin("AckMessage", &ack, true);
                self.calls.insert(stream, Call::Ack(handles.len() as u64, at));
            }
            Call::Ack(count, at) => {
                messages::check(&answer.messages, "an acknowledgement")?;
                self.times.add(now - at);
                self.done += count;
            }
        }
        Ok(())
    }

    fn nanos(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

fn report(run: &Run, seconds: f64, own: f64, servers: &[f64]) -> serde_json::Value {
    let round = |value: f64, parts: f64| (value * parts).round() / parts;
    let micros = |part| round(run.times.quantile(part) as f64 / 1e3, 10.0);
    let (server, done) = (servers.iter().sum::<f64>(), run.done as f64);
    json!({
        "requests": run.times.total(),
        "messages": run.done,
        "seconds": round(seconds, 1e6),
        "rate": round(done / seconds, 10.0),
        "p50_us": micros(0.5),
        "p99_us": micros(0.99),
        "p999_us": micros(0.999),
        "max_us": round(run.times.largest() as f64 / 1e3, 10.0),
        "own_cores": round(own / seconds, 1e4),
        "own_cpu_us_per_message": round(own * 1e6 / done, 1e4),
        "server_cpu_seconds": servers.iter().map(|seconds| round(*seconds, 1e6)).collect::<Vec<_>>(),
        "server_cores": round(server / seconds, 1e4),
        "server_cpu_us_per_message": round(server * 1e6 / done, 1e4),
        "sent": Vec::<Vec<u64>>::new(),
    })
}
