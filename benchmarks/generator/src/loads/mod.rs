//! What is asked, and what has to be answered: one module for each kind of load.

mod fanout;
mod pop;
mod pull;
mod send;
mod transaction;

use crate::answer::Answer;
use crate::arguments::{Arguments, Kind};
use crate::failure::Result;
use crate::frame::{Keys, Stamp, Template};
use crate::histogram::Histogram;

/// A request under way.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Which of the topics and queues it is for.
    pub place: usize,
    /// A number the load remembers with it.
    pub note: u64,
    /// Whether its time counts; what follows upon an answer is not timed.
    pub timed: bool,
}

/// Where a load writes a request.
pub struct Writer<'a> {
    pub out: &'a mut Vec<u8>,
    pub stamp: Stamp<'a>,
    pub keys: &'a mut Keys,
    /// When the request counts as written, or when the answer came, in nanoseconds from the start.
    pub at: u64,
}

impl Writer<'_> {
    pub fn write(&mut self, template: &Template) {
        template.write(self.out, &self.stamp, self.keys);
    }
}

pub trait Load {
    /// Writes the next request for a target; None when there is none, or none until an answer comes.
    fn request(&mut self, target: usize, writer: &mut Writer) -> Option<Sent>;

    /// Checks an answer; may write what follows upon it, and tells of it if that will be answered, too.
    ///
    /// `whole`: everything in the answer is to be decoded.
    fn answered(
        &mut self,
        target: usize,
        sent: &Sent,
        answer: &Answer,
        whole: bool,
        writer: &mut Writer,
    ) -> Result<Option<Sent>>;

    /// So many requests may be unanswered for each that is counted as in flight.
    fn unanswered_each(&self) -> usize {
        1
    }

    /// Writes a request that a connection begins with, before any timed one; None when there is no further one.
    fn begin(&mut self, _connection: usize, _writer: &mut Writer) -> Option<Sent> {
        None
    }

    /// So many requests a connection begins with.
    fn standing(&self, _connection: usize) -> usize {
        0
    }

    /// Timed requests that may be under way on a connection; `usual` if all connections are alike.
    fn window(&self, _connection: usize, usual: usize) -> usize {
        usual
    }

    /// Runs before the clock starts.
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// Runs after the last answer, before the clock stops.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    /// Messages of each timed request.
    fn messages_each(&self) -> u64;

    /// Timed requests that succeeded and brought nothing.
    fn empty(&self) -> u64 {
        0
    }

    /// Times from a send to a delivery; None for loads that do not wait for messages.
    fn deliveries(&self) -> Option<&Histogram> {
        None
    }

    /// Messages sent, for each target and each of its places; empty for loads that send none.
    fn sent(&self) -> Vec<Vec<u64>> {
        vec![]
    }
}

/// The load that the arguments ask for.
pub fn load(arguments: &Arguments) -> Result<Box<dyn Load>> {
    Ok(match arguments.kind {
        Kind::Send | Kind::Batch => Box::new(send::Sends::new(arguments)),
        Kind::Pull => Box::new(pull::Pulls::new(arguments)?),
        Kind::FanOut => Box::new(fanout::FanOut::new(arguments)),
        Kind::Pop => Box::new(pop::Pops::new(arguments)),
        Kind::Transaction => Box::new(transaction::Transactions::new(arguments)),
    })
}
