//! What ends a run: a wrong answer, a lost connection, a bad argument. Never a slow figure.

use std::fmt;
use std::process::ExitCode;

#[derive(Debug)]
pub struct Failure(String);

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(text: impl Into<String>) -> Self {
        Failure(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure(error.to_string())
    }
}

impl From<nix::errno::Errno> for Failure {
    fn from(error: nix::errno::Errno) -> Self {
        std::io::Error::from(error).into()
    }
}

impl From<lexopt::Error> for Failure {
    fn from(error: lexopt::Error) -> Self {
        Failure(error.to_string())
    }
}

/// Prints what a program has to say, or why it failed; its exit status tells which.
pub fn told(program: &str, outcome: Result<String>) -> ExitCode {
    match outcome {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{program}: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// `fail!("…")`: leaves the function with a failure of this text.
#[macro_export]
macro_rules! fail {
    ($($text:tt)*) => { return Err($crate::failure::Failure::new(format!($($text)*))) };
}
