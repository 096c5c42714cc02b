//! One connection: what was read and not yet understood, what could not be written yet, which requests are under way.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::fail;
use crate::failure::{Failure, Result};
use crate::frame::FIRST_OPAQUE;
use crate::loads::Sent;

const BUFFER: usize = 256 << 10;
/// Numbers of requests stay below 2^31.
const NUMBERS: u32 = 1 << 30;

/// A request under way, with the time it was written.
pub struct Pending {
    opaque: u32,
    pub written_at: u64,
    pub sent: Sent,
}

pub struct Connection {
    pub stream: TcpStream,
    pub target: usize,
    pub address: String,
    /// Timed requests that may be under way at once.
    pub window: usize,
    pub timed: usize,
    input: Vec<u8>,
    filled: usize,
    output: Vec<u8>,
    written: usize,
    slots: Vec<Option<Pending>>,
    free: Vec<usize>,
    turn: u32,
}

impl Connection {
    pub fn open(address: &str, target: usize, window: usize, unanswered: usize) -> Result<Self> {
        let stream =
            TcpStream::connect(address).map_err(|e| Failure::new(format!("cannot connect to {address}: {e}")))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream,
            target,
            address: address.to_owned(),
            window,
            timed: 0,
            input: vec![0; BUFFER],
            filled: 0,
            output: Vec::with_capacity(BUFFER),
            written: 0,
            slots: (0..unanswered).map(|_| None).collect(),
            free: (0..unanswered).rev().collect(),
            turn: 0,
        })
    }

    /// Reads once; false when nothing more is there.
    pub fn read(&mut self) -> Result<bool> {
        if self.input.len() - self.filled < BUFFER / 4 {
            self.input.resize(self.input.len() * 2, 0);
        }
        match self.stream.read(&mut self.input[self.filled..]) {
            Ok(0) => fail!("{} closed a connection under load", self.address),
            Ok(count) => {
                self.filled += count;
                // A short read has emptied the socket; whatever comes later is told by epoll.
                Ok(self.filled == self.input.len())
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
            Err(e) => fail!("{}: {e}", self.address),
        }
    }

    /// What was read, to be given back with `consumed`.
    pub fn take_input(&mut self) -> (Vec<u8>, usize) {
        (std::mem::take(&mut self.input), self.filled)
    }

    /// Keeps what follows the first `used` bytes for the next read.
    pub fn give_back(&mut self, mut input: Vec<u8>, used: usize) {
        input.copy_within(used..self.filled, 0);
        self.filled -= used;
        self.input = input;
    }

    /// A number for the next request, or None when as many as allowed are unanswered.
    pub fn number(&mut self) -> Option<u32> {
        let slot = *self.free.last()?;
        let count = self.slots.len() as u32;
        let opaque = FIRST_OPAQUE + (self.turn % (NUMBERS / count)) * count + slot as u32;
        self.turn = self.turn.wrapping_add(1);
        Some(opaque)
    }

    /// Remembers the request that was written with the last number.
    pub fn begin(&mut self, opaque: u32, sent: Sent, written_at: u64) {
        let slot = self.free.pop().expect("number() found a free slot");
        self.timed += usize::from(sent.timed);
        self.slots[slot] = Some(Pending { opaque, written_at, sent });
    }

    /// The request that an answer is about.
    pub fn end(&mut self, opaque: u32) -> Result<Pending> {
        let slot = opaque.wrapping_sub(FIRST_OPAQUE) as usize % self.slots.len();
        match self.slots[slot].take() {
            Some(pending) if pending.opaque == opaque => {
                self.free.push(slot);
                self.timed -= usize::from(pending.sent.timed);
                Ok(pending)
            }
            _ => fail!("{} answered request {opaque}, which it was not asked, or twice", self.address),
        }
    }

    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Writes as much as the socket takes.
    pub fn write(&mut self) -> Result<()> {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(count) => self.written += count,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => fail!("{}: {e}", self.address),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }
}
