use std::fs::{self, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::install::Install;
use super::ports::Ports;

/// The node's output, in its directory.
pub(super) const LOG: &str = "node.log";

/// The node's name. The same for all: they do not know of each other, and what they write does not depend on it.
pub(super) const NAME: &str = "rabbit@127.0.0.1";

/// Runs the node for a process that may end at any time and in any way.
///
/// Its standard input is the other end of a pipe that only the test's process holds: each line names a signal for the
/// node, and its end means that the test is gone, or wants the node gone; the node is killed and the directory removed,
/// because nobody else is left to do it. Its first line of output is the node's process id, its exit status is the
/// node's.
const SUPERVISOR: &str = r#"
directory=$1 log=$2; shift 2
exec 3<&0 2>>"$log"
"$@" </dev/null 3<&- >&2 &
node=$!
echo "$node"
exec >&-
(
    while read -r signal <&3; do kill -s "$signal" "$node"; done
    : > "$directory/abandoned"
    kill -s KILL "$node"
) 2>/dev/null &
watcher=$!
wait "$node"
status=$?
kill "$watcher" 2>/dev/null
if [ -e "$directory/abandoned" ]; then rm -rf "$directory"; fi
exit "$status"
"#;

/// What can be done to the node's process.
#[derive(Debug, Clone, Copy)]
pub(super) enum Signal {
    Terminate,
    Kill,
    Stop,
    Continue,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Terminate => "TERM",
            Self::Kill => "KILL",
            Self::Stop => "STOP",
            Self::Continue => "CONT",
        }
    }
}

/// The process of a node, with its supervisor. Dropped, it is killed.
pub(super) struct Node {
    supervisor: Child,
    signals: Option<ChildStdin>,
    pid: u32,
}

impl Node {
    pub(super) fn spawn(
        install: &Install,
        ports: &Ports,
        directory: &Path,
        plugins: bool,
    ) -> io::Result<Self> {
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(directory.join(LOG))?;
        let mut supervisor = Command::new("/bin/sh")
            .args(["-c", SUPERVISOR, "broker-supervisor"])
            .args([directory, &directory.join(LOG)])
            .arg(install.erl())
            .args(arguments(ports))
            .env_clear()
            .envs(environment(directory))
            .env("RABBITMQ_PLUGINS_DIR", install.plugins(plugins))
            .env("RABBITMQ_DIST_PORT", ports.distribution.to_string())
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A group of its own: what a terminal sends to the tests does not reach it, their end does.
            .process_group(0)
            .spawn()?;
        let signals = supervisor.stdin.take();
        let output = supervisor.stdout.take().expect("the output is a pipe");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let pid = line
            .trim()
            .parse()
            .map_err(|_| io::Error::other("the supervisor did not start the node"))?;
        Ok(Self {
            supervisor,
            signals,
            pid,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// How the process ended, if it did.
    pub(super) fn exited(&mut self) -> Option<ExitStatus> {
        self.supervisor
            .try_wait()
            .expect("a child can be waited for")
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        let signals = self
            .signals
            .as_mut()
            .expect("the pipe is open as long as the node is kept");
        // It fails when the node has ended already, and then there is nothing to do.
        let _ = writeln!(signals, "{}", signal.name());
    }

    /// Stops or continues all of the process's threads; blocks, for a moment, until they have.
    pub(super) fn freeze(&mut self, freeze: bool) {
        self.signal(if freeze {
            Signal::Stop
        } else {
            Signal::Continue
        });
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.threads().all(|state| (state == b'T') == freeze) {
            assert!(
                Instant::now() < deadline,
                "the node does not take the signal"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The state of each thread, `T` being stopped.
    fn threads(&self) -> impl Iterator<Item = u8> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid));
        tasks.into_iter().flatten().flatten().filter_map(|task| {
            // The name before the state, in parentheses, may hold anything.
            let stat = fs::read(task.path().join("stat")).ok()?;
            let name_end = stat.iter().rposition(|&byte| byte == b')')?;
            stat.get(name_end + 2).copied()
        })
    }

    /// Ends the process; kills it when it has not ended within `patience`. Blocks until it is gone.
    pub(super) fn end(mut self, signal: Signal, patience: Duration) {
        // A frozen process would not notice.
        self.signal(Signal::Continue);
        self.signal(signal);
        if self.wait(patience).is_none() {
            self.signal(Signal::Kill);
            self.wait(Duration::from_secs(10))
                .expect("a killed process ends");
        }
    }

    fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            let status = self.exited();
            if status.is_some() || Instant::now() >= deadline {
                return status;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.exited().is_none() {
            self.signal(Signal::Kill);
            if self.wait(Duration::from_secs(10)).is_none() {
                // As good as it gets: the pipe closes, and the supervisor goes on trying.
                self.signals = None;
            }
        }
    }
}

/// What a node's process and the programs that talk to it have in common.
pub(super) fn environment(directory: &Path) -> Vec<(&'static str, String)> {
    let inside = |name: &str| directory.join(name).display().to_string();
    vec![
        ("PATH", "/usr/bin:/bin:/usr/sbin:/sbin".into()),
        ("HOME", directory.display().to_string()),
        ("LANG", "C.UTF-8".into()),
        ("RABBITMQ_NODENAME", NAME.into()),
        ("RABBITMQ_USE_LONGNAME", "true".into()),
        ("RABBITMQ_CONF_ENV_FILE", "/dev/null".into()),
        ("RABBITMQ_CONFIG_FILE", inside("rabbitmq.conf")),
        ("RABBITMQ_ADVANCED_CONFIG_FILE", inside("advanced.config")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", inside("enabled_plugins")),
        ("RABBITMQ_MNESIA_BASE", inside("data")),
        ("RABBITMQ_LOG_BASE", inside("log")),
        ("RABBITMQ_FEATURE_FLAGS_FILE", inside("feature_flags")),
        ("SYS_PREFIX", String::new()),
    ]
}

/// How `rabbitmq-server` starts Erlang, without what takes it seconds: the distribution is up from the beginning under a
/// fixed port, so that no epmd is needed (nor started), and the modules are not looked for in every plugin.
fn arguments(ports: &Ports) -> Vec<String> {
    let mut arguments = distribution(ports);
    arguments.extend(
        [
            "-noinput",
            "-s",
            "rabbit",
            "boot",
            "-boot",
            "start_sasl",
            "-name",
            NAME,
            "+W",
            "w",
            "+B",
            "i",
            // Two schedulers that sleep when idle: many nodes and many tests share a machine.
            "+S",
            "2:2",
            "+sbwt",
            "none",
            "+sbwtdcpu",
            "none",
            "+sbwtdio",
            "none",
            "-kernel",
            "inet_dist_use_interface",
            "{127,0,0,1}",
            "-kernel",
            "prevent_overlapping_partitions",
            "false",
            "-syslog",
            "logger",
            "[]",
            "-syslog",
            "syslog_error_logger",
            "false",
        ]
        .map(str::to_owned),
    );
    arguments
}

/// How Erlang finds the node without an epmd.
pub(super) fn distribution(ports: &Ports) -> Vec<String> {
    vec![
        "-start_epmd".into(),
        "false".into(),
        "-erl_epmd_port".into(),
        ports.distribution.to_string(),
    ]
}
