//! Redis with a window in Lua: what people have now. Loaded by its own benchmark, whose report is read.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::rls::Measured;
use crate::server::{Server, free_address};

/// A fixed window: count, start the window with the first, say whether it fits. One key, limit, window in ms.
const SCRIPT: &str = "local n = redis.call('INCR', KEYS[1]) \
    if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end \
    return n <= tonumber(ARGV[1]) and 1 or 0";

/// As many connections as the gRPC servers have requests in flight.
const CLIENTS: &str = "64";

/// A server without persistence, with the script loaded.
pub struct Redis {
    /// The process.
    pub server: Server,
    /// The script's name.
    pub sha: String,
}

impl Redis {
    /// Starts it.
    ///
    /// # Errors
    /// If it or its client is missing, or says something else than expected.
    pub fn start() -> Result<Self, Failure> {
        let address = free_address()?;
        let port = address.port().to_string();
        let arguments = [
            "--port",
            &port,
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ];
        let server = Server::start("redis 7", address, "redis-server", &arguments)?;
        let sha = output("redis-cli", &["-p", &port, "SCRIPT", "LOAD", SCRIPT])?
            .trim()
            .to_owned();
        if sha.len() != 40 {
            return Err(Failure::Said {
                program: "redis-cli",
                said: sha,
            });
        }
        Ok(Self { server, sha })
    }

    /// What runs redis-benchmark on it.
    pub fn benchmark(&self) -> Benchmark {
        Benchmark {
            sha: self.sha.clone(),
        }
    }

    /// Makes keys 0 to `keys` exist, as the script would make them.
    ///
    /// # Errors
    /// If the client cannot be run.
    pub fn fill(&self, keys: u64) -> Result<Duration, Failure> {
        const FILL: &str = "for i = 0, tonumber(ARGV[1]) - 1 do \
            local k = string.format('k%08d', i) \
            if redis.call('INCR', k) == 1 then redis.call('PEXPIRE', k, 3600000) end end";
        let port = self.server.address.port().to_string();
        let start = Instant::now();
        output(
            "redis-cli",
            &["-p", &port, "EVAL", FILL, "0", &keys.to_string()],
        )?;
        Ok(start.elapsed())
    }
}

/// redis-benchmark calling the script.
pub struct Benchmark {
    sha: String,
}

impl Benchmark {
    /// Runs it on `server` for about `time` over `keys` keys.
    ///
    /// # Errors
    /// If it cannot be run or read.
    pub fn run(&self, server: &Server, time: Duration, keys: u64) -> Result<Measured, Failure> {
        // It wants a number of requests; a short run tells how many fit.
        let trial = self.run_counted(server, 20_000, keys)?;
        self.run_counted(server, (trial.per_second * time.as_secs_f64()) as u64, keys)
    }

    fn run_counted(&self, server: &Server, requests: u64, keys: u64) -> Result<Measured, Failure> {
        let port = server.address.port().to_string();
        let (requests_text, keys) = (requests.to_string(), keys.to_string());
        let options = [
            "-p",
            &port,
            "-c",
            CLIENTS,
            "-n",
            &requests_text,
            "-r",
            &keys,
        ];
        let call = [
            "EVALSHA",
            &self.sha,
            "1",
            "k__rand_int__",
            "1000000000",
            "3600000",
        ];
        let before = server.cpu();
        let report = output("redis-benchmark", &[&options[..], &call[..]].concat())?;
        let spent = server.cpu().saturating_sub(before);
        let mut measured = read_report(&report).ok_or(Failure::Said {
            program: "redis-benchmark",
            said: report,
        })?;
        measured.cpu_us = spent.as_secs_f64() * 1e6 / requests as f64;
        Ok(measured)
    }
}

fn output(program: &'static str, arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| Failure::Run { program, error })?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(said)
    } else {
        Err(Failure::Said { program, said })
    }
}

/// Reads `98.438% <= 0.847 milliseconds (..)` lines and the throughput.
fn read_report(report: &str) -> Option<Measured> {
    let lines = || report.split(['\r', '\n']).map(str::trim);
    let mut points: Vec<(f64, f64)> = lines()
        .filter_map(|line| {
            let (percent, rest) = line.split_once("% <= ")?;
            let (ms, _) = rest.split_once(" milliseconds")?;
            Some((percent.parse().ok()?, ms.parse().ok()?))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    // The first point at or above: at most one of its steps too high.
    let at = |percent: f64| {
        points
            .iter()
            .find(|point| point.0 >= percent)
            .map(|point| point.1)
    };
    let per_second = lines()
        .find_map(|line| line.strip_prefix("throughput summary: "))
        .and_then(|rest| rest.split(' ').next()?.parse().ok())?;
    Some(Measured {
        per_second,
        p50_ms: at(50.0)?,
        p99_ms: at(99.0)?,
        p999_ms: at(99.9)?,
        cpu_us: 0.0,
        admitted_per_second: per_second,
        failed: 0.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let report = "\r        \r  60000 requests completed in 0.62 seconds\n\
            50.000% <= 0.343 milliseconds (cumulative count 33163)\n\
            98.438% <= 0.847 milliseconds (cumulative count 59089)\n\
            99.219% <= 1.031 milliseconds (cumulative count 59536)\n\
            99.902% <= 2.679 milliseconds (cumulative count 59942)\n\
            100.000% <= 5.591 milliseconds (cumulative count 60000)\n\
            Summary:\n  throughput summary: 96930.53 requests per second\n";
        let measured = read_report(report).unwrap();
        assert_eq!(measured.per_second, 96930.53);
        assert_eq!((measured.p50_ms, measured.p99_ms), (0.343, 1.031));
        assert_eq!(measured.p999_ms, 2.679);
        assert!(read_report("could not connect").is_none());
    }
}
