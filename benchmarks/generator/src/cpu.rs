//! CPU time of this process and of the servers it is told to watch: the kernel's clocks of processes, in nanoseconds.
//!
//! The ticks in /proc/PID/stat are 10 ms, a tenth of what a short run takes.

use nix::time::ClockId;
use nix::unistd::Pid;

use crate::fail;
use crate::failure::{Failure, Result};

/// Linux numbers processes below it.
const LARGEST: i32 = 1 << 22;

/// Seconds of user and system time of this process.
pub fn own_seconds() -> Result<f64> {
    seconds(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Seconds of user and system time of each process since its start.
pub fn seconds_of(pids: &[i32]) -> Result<Vec<f64>> {
    pids.iter()
        .map(|pid| {
            // A larger number would be that of another process: the clock's id has no room for it.
            if !(1..LARGEST).contains(pid) {
                fail!("{pid} is no process");
            }
            let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(*pid));
            clock.map_err(Failure::from).and_then(seconds).map_err(|e| Failure::new(format!("process {pid}: {e}")))
        })
        .collect()
}

fn seconds(clock: ClockId) -> Result<f64> {
    let time = clock.now()?;
    Ok(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_process_is_that_of_its_pid() {
        let before = own_seconds().unwrap();
        let told = seconds_of(&[std::process::id() as i32]).unwrap()[0];
        let after = own_seconds().unwrap();
        assert!(before > 0.0 && before <= told && told <= after);
    }

    #[test]
    fn a_process_that_is_none_is_named() {
        for pid in [i32::MAX, 0, -1, LARGEST - 1] {
            let failure = seconds_of(&[pid]).unwrap_err().to_string();
            assert!(failure.contains(&pid.to_string()), "{failure}");
        }
    }
}
