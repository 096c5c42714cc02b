//! `rocketmq-delay`: forwards TCP connections and delays all data by the same time in each direction.
//!
//! It only delays: the order of bytes and the rate stay. Two threads for each direction: one reads and notes when data
//! is due, the other writes it then. `rocketmq-delay LISTEN TARGET ONE_WAY_MICROSECONDS` prints `READY ADDRESS`.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

const HELP: &str = "usage: rocketmq-delay LISTEN TARGET ONE_WAY_MICROSECONDS";
/// Bytes of one read.
const CHUNK: usize = 256 * 1024;
/// Chunks that may wait in one direction of a connection; then its sender is no longer read.
const WAITING: usize = 1024;

struct Chunk {
    due: Instant,
    data: Vec<u8>,
}

fn main() -> ExitCode {
    match serve(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("rocketmq-delay: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &[String]) -> Result<(), String> {
    let [listen, target, one_way] = arguments else { return Err(HELP.to_owned()) };
    let micros: u64 = one_way.parse().map_err(|_| format!("{one_way:?} is no number of microseconds; {HELP}"))?;
    let listener = TcpListener::bind(listen).map_err(|e| format!("{listen}: {e}"))?;
    println!("READY {}", listener.local_addr().map_err(|e| e.to_string())?);
    for client in listener.incoming() {
        let joined = client.and_then(|client| join(client, target, Duration::from_micros(micros)));
        if let Err(failure) = joined {
            eprintln!("rocketmq-delay: a connection to {target} cannot be forwarded: {failure}");
        }
    }
    Ok(())
}

fn join(client: TcpStream, target: &str, delay: Duration) -> io::Result<()> {
    let server = TcpStream::connect(target)?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    forward(client.try_clone()?, server.try_clone()?, delay);
    forward(server, client, delay);
    Ok(())
}

/// Forward one direction of a connection until one of its ends closes, and then close the other after the delay.
fn forward(from: TcpStream, to: TcpStream, delay: Duration) {
    let (sender, receiver) = sync_channel(WAITING);
    thread::spawn(move || read(from, &sender, delay));
    thread::spawn(move || write(to, &receiver));
}

fn read(mut from: TcpStream, sender: &SyncSender<Chunk>, delay: Duration) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let size = from.read(&mut buffer).unwrap_or(0);
        let chunk = Chunk { due: Instant::now() + delay, data: buffer[..size].to_vec() };
        if sender.send(chunk).is_err() || size == 0 {
            return;
        }
    }
}

fn write(mut to: TcpStream, receiver: &Receiver<Chunk>) {
    for chunk in receiver {
        thread::sleep(chunk.due.saturating_duration_since(Instant::now()));
        if chunk.data.is_empty() || to.write_all(&chunk.data).is_err() {
            break;
        }
    }
    let _closed_already = to.shutdown(Shutdown::Both);
}
