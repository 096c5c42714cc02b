//! `rocketmq-load`: drives brokers that speak RocketMQ's remoting and prints what it measured as one line of JSON.
//!
//! It must never be what is measured: one thread, no allocation per send, requests encoded once and patched. Every
//! answer is checked: that it was asked for, that it came once, that it is a success, for pulls and pops that it has the
//! right messages; the first ones, or all with `--verify`, are decoded whole.

mod answer;
mod arguments;
mod connection;
mod cpu;
mod engine;
mod failure;
mod frame;
mod histogram;
mod loads;
mod record;

use std::process::ExitCode;

use serde_json::json;

use crate::arguments::{Arguments, HELP};
use crate::engine::Outcome;
use crate::failure::{told, Result};
use crate::loads::Load;

fn main() -> ExitCode {
    told("rocketmq-load", measure())
}

fn measure() -> Result<String> {
    let Some(arguments) = Arguments::parse(std::env::args_os().skip(1))? else { return Ok(HELP.to_owned()) };
    let mut load = loads::load(&arguments)?;
    let outcome = engine::run(&arguments, load.as_mut())?;
    Ok(report(load.as_ref(), &outcome).to_string())
}

fn report(load: &dyn Load, outcome: &Outcome) -> serde_json::Value {
    let requests = outcome.times.total() - load.empty();
    let messages = requests * load.messages_each();
    let server_cpu: f64 = outcome.server_cpu.iter().sum();
    let micros = |nanos: u64| round(nanos as f64 / 1e3, 10.0);
    let deliveries = load.deliveries();
    let delivery = |part| deliveries.map_or(0, |times| times.quantile(part));
    json!({
        "requests": requests,
        "messages": messages,
        "seconds": round(outcome.seconds, 1e6),
        "rate": round(messages as f64 / outcome.seconds, 10.0),
        "p50_us": micros(outcome.times.quantile(0.5)),
        "p99_us": micros(outcome.times.quantile(0.99)),
        "p999_us": micros(outcome.times.quantile(0.999)),
        "max_us": micros(outcome.times.largest()),
        "deliveries": deliveries.map_or(0, |times| times.total()),
        "delivery_p50_us": micros(delivery(0.5)),
        "delivery_p99_us": micros(delivery(0.99)),
        "delivery_max_us": micros(delivery(1.0)),
        "own_cores": round(outcome.own_cpu / outcome.seconds, 1e4),
        "own_cpu_us_per_message": round(outcome.own_cpu * 1e6 / messages as f64, 1e4),
        "server_cpu_seconds": outcome.server_cpu.iter().map(|seconds| round(*seconds, 1e6)).collect::<Vec<_>>(),
        "server_cores": round(server_cpu / outcome.seconds, 1e4),
        "server_cpu_us_per_message": round(server_cpu * 1e6 / messages as f64, 1e4),
        "sent": load.sent(),
    })
}

fn round(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}
