//! The compiled hot path of RocketMQ for Python and Spark.
//!
//! It parses and encodes bytes; Python decides what may be stored, and where. Input in an unusual form ("not plain") is
//! refused, so that the Python code handles it and reports errors. All input may be hostile: every offset and length is
//! checked against the end of the input.

pub mod acks;
pub mod answers;
pub mod append;
pub mod batch;
pub mod calls;
pub mod columns;
pub mod files;
pub mod frames;
pub mod gather;
pub mod hash;
pub mod header;
pub mod hpack;
pub mod index;
pub mod json;
pub mod lent;
pub mod messages;
pub mod outgoing;
pub mod popped;
pub mod properties;
pub mod protobuf;
pub mod record;
pub mod revive;
pub mod sends;
pub mod signing;

#[cfg(feature = "python")]
mod python;
#[cfg(feature = "python")]
mod python_grpc;
#[cfg(feature = "python")]
mod python_lent;
