//! The compiled hot path of RocketMQ for Python and Spark.
//!
//! It knows bytes, not rules: what may be stored, and where, is decided in Python. Whatever is not plain is left to
//! Python, which also makes the errors. All input is hostile: every place is held against the end of its input.

pub mod append;
pub mod batch;
pub mod columns;
pub mod hash;
pub mod header;
pub mod index;
pub mod json;
pub mod messages;
pub mod outgoing;
pub mod properties;
pub mod record;
pub mod sends;
pub mod signing;

#[cfg(feature = "python")]
mod python;
