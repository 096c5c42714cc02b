//! CPU time of this process and of the servers it is told to watch.

use std::fs;

use rustix::time::{clock_gettime, ClockId};

use crate::failure::{Failure, Result};

/// Seconds of user and system time of this process.
pub fn own_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Seconds of user and system time of each process since its start, in the kernel's ticks (10 ms).
pub fn seconds_of(pids: &[u32]) -> Result<Vec<f64>> {
    pids.iter()
        .map(|pid| {
            let path = format!("/proc/{pid}/stat");
            let text = fs::read_to_string(&path).map_err(|e| Failure::new(format!("{path}: {e}")))?;
            ticks(&text)
                .map(|ticks| ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
                .ok_or_else(|| Failure::new(format!("{path} has another format: {text}")))
        })
        .collect()
}

/// User and system ticks in a line of /proc/PID/stat; the name in brackets may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_stand_behind_any_name() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 120 30 0 0";
        assert_eq!(ticks(stat), Some(150));
        assert_eq!(ticks("7 (a) S 1"), None);
    }

    #[test]
    fn this_process_uses_some() {
        assert!(own_seconds() > 0.0);
        assert!(seconds_of(&[std::process::id()]).unwrap()[0] >= 0.0);
        assert!(seconds_of(&[0]).is_err());
    }
}
