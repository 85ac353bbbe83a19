//! Runs programs as children: the null broker, and the load under the tools that count.
//!
//! Where a tool is missing, the error is the command that installs it; nothing is left out silently.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::load::Failure;
use crate::workload::Report;

/// A null broker in a process of its own, so that what it costs is not the client's. Ends when dropped.
#[derive(Debug)]
pub struct BrokerProcess {
    child: Child,
    address: SocketAddr,
}

impl BrokerProcess {
    /// Starts `program`, the binary `null-broker`.
    ///
    /// # Errors
    /// When it does not start or does not print its port.
    pub fn start(program: &Path, ack_every: u64) -> Result<BrokerProcess, Failure> {
        Self::start_with(program, ack_every, &[])
    }

    /// The same, with further arguments.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(
        program: &Path,
        ack_every: u64,
        args: &[&str],
    ) -> Result<BrokerProcess, Failure> {
        let mut child = Command::new(program)
            .args(["--until-stdin-ends", "--ack-every", &ack_every.to_string()])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let port = line.trim().parse()?;
        Ok(BrokerProcess {
            child,
            address: (Ipv4Addr::LOCALHOST, port).into(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for BrokerProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A load that can be run with different counts of messages.
#[derive(Debug, Clone)]
pub struct Load {
    /// A load program.
    pub program: PathBuf,
    /// Its arguments, other than the count.
    pub args: Vec<String>,
}

impl Load {
    /// Runs it as it is.
    ///
    /// # Errors
    /// When it fails, or not all `count` messages were acked.
    pub fn run(&self, count: u64) -> Result<Report, Failure> {
        let mut command = Command::new(&self.program);
        command.args(self.args(count));
        Ok(run(&mut command, count)?.0)
    }

    /// System calls of all its threads, from start to end.
    ///
    /// # Errors
    /// When it fails, or `perf` and `strace` both do.
    pub fn system_calls(&self, count: u64, counter: CallCounter) -> Result<u64, Failure> {
        let file = scratch_file("calls");
        let mut command = match counter {
            CallCounter::Perf => {
                let mut command = Command::new("perf");
                command
                    .args(["stat", "-x,", "-e", PERF_EVENT, "-o"])
                    .arg(&file)
                    .arg("--");
                command
            }
            CallCounter::Strace => {
                let mut command = Command::new("strace");
                command.args(["-f", "-c", "-o"]).arg(&file);
                command
            }
        };
        command.arg(&self.program).args(self.args(count));
        run(&mut command, count)?;
        let text = fs::read_to_string(&file);
        fs::remove_file(&file)?;
        let text = text?;
        let calls = match counter {
            CallCounter::Perf => perf_count(&text),
            CallCounter::Strace => strace_total(&text),
        };
        calls.ok_or_else(|| format!("{counter:?} did not count: {text}").into())
    }

    /// Instructions of all its threads, from start to end, as callgrind counts them (in user mode).
    ///
    /// # Errors
    /// When it fails, or valgrind does.
    pub fn instructions(&self, count: u64) -> Result<u64, Failure> {
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(&self.program)
            .args(self.args(count));
        let (_, output) = run(&mut command, count).map_err(|error| missing(error, "valgrind"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        collected(&text).ok_or_else(|| format!("callgrind did not count: {text}").into())
    }

    fn args(&self, count: u64) -> impl Iterator<Item = String> {
        self.args
            .iter()
            .cloned()
            .chain(["--count".into(), count.to_string()])
    }
}

/// What a program does more of when it has more to do, for each further message: everything that happens once, however
/// often it is measured, is gone from it.
///
/// # Errors
/// Those of `measure`.
pub fn per_message(
    count: u64,
    measure: impl FnMut(u64) -> Result<u64, Failure>,
) -> Result<f64, Failure> {
    per_message_between(count, 2 * count, measure)
}

/// The same, of runs with `few` and with `many` messages: where what they cost differs from run to run, the fewer the
/// few are, the less of that is in it.
///
/// # Errors
/// Those of `measure`.
pub fn per_message_between(
    few: u64,
    many: u64,
    mut measure: impl FnMut(u64) -> Result<u64, Failure>,
) -> Result<f64, Failure> {
    let of_few = measure(few)?;
    let of_many = measure(many)?;
    // What differs from run to run can be more than what a message costs, if that is next to nothing.
    Ok(of_many.saturating_sub(of_few) as f64 / (many - few) as f64)
}

/// What counts system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallCounter {
    /// `perf stat`: does not slow the program down, but needs access to the kernel's tracepoints.
    Perf,
    /// `strace -c`: makes each call slow, so that more work gathers between two of them.
    Strace,
}

const PERF_EVENT: &str = "raw_syscalls:sys_enter";

impl CallCounter {
    /// `perf` where it may count, else `strace`.
    ///
    /// # Errors
    /// When neither is there.
    pub fn find() -> Result<CallCounter, Failure> {
        let works = |command: &mut Command| {
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        };
        if works(Command::new("perf").args(["stat", "-e", PERF_EVENT, "true"])) {
            Ok(CallCounter::Perf)
        } else if works(Command::new("strace").args(["-f", "-c", "true"])) {
            Ok(CallCounter::Strace)
        } else {
            Err("nothing counts system calls here; install strace: apt-get install strace".into())
        }
    }
}

/// Whether valgrind is there.
///
/// # Errors
/// When it is not: how to install it.
pub fn find_valgrind() -> Result<(), Failure> {
    match Command::new("valgrind").arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into()),
        Err(error) => Err(missing(error.into(), "valgrind")),
    }
}

fn missing(error: Failure, package: &str) -> Failure {
    match error.downcast_ref::<io::Error>() {
        Some(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("{package} is missing; install it: apt-get install {package}").into()
        }
        _ => error,
    }
}

fn run(command: &mut Command, count: u64) -> Result<(Report, Output), Failure> {
    let output = command.stdin(Stdio::null()).output()?;
    let report = String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(Report::parse);
    match report {
        Some(report) if output.status.success() && report.acked == count => Ok((report, output)),
        _ => Err(format!(
            "{command:?} ended with {} and reported {report:?}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )
        .into()),
    }
}

fn scratch_file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("amqp-benches-{}-{name}", std::process::id()))
}

/// The number in front of the event's name.
fn perf_count(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains(PERF_EVENT))?;
    line.split(',').next()?.parse().ok()
}

/// The fourth column of the last line.
fn strace_total(text: &str) -> Option<u64> {
    let line = text.lines().rfind(|line| line.ends_with("total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// The number in the line "Collected : N".
fn collected(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_reports_are_read() {
        let perf = "# started on Mon\n\n4171,,raw_syscalls:sys_enter,90361563,100.00,,\n";
        assert_eq!(perf_count(perf), Some(4171));
        assert_eq!(
            perf_count("<not supported>,,raw_syscalls:sys_enter,0,100.00,,\n"),
            None
        );
        let strace = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ------------------\n\
            58.59    0.003790           3      1015           sendto\n\
            ------ ----------- ----------- --------- --------- ------------------\n\
            100.00    0.000730          25       129         1 total\n";
        assert_eq!(strace_total(strace), Some(129));
        let callgrind = "==7== Events    : Ir\n==7== Collected : 110354400\n==7== \n";
        assert_eq!(collected(callgrind), Some(110_354_400));
    }

    #[test]
    fn what_happens_once_does_not_count() {
        let calls = per_message(1_000, |count| Ok(77 + count / 2));
        assert_eq!(calls.ok(), Some(0.5));
    }
}
