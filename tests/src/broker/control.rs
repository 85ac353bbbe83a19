use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::{Broker, node};

/// A command that the node, or the program that carries it there, refused.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The program ended with an error.
    #[error("{command} failed ({status}): {output}")]
    Failed {
        /// What was run.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it printed.
        output: String,
    },
    /// The expression raised an exception in the node, or is no Erlang.
    #[error("the node could not evaluate {expression}: {reason}")]
    Exception {
        /// What was to be evaluated.
        expression: String,
        /// The exception, or what is wrong with it as Erlang.
        reason: String,
    },
    /// No answer in time: the node hangs or is frozen.
    #[error("{command} did not end within {} s", .within.as_secs())]
    Timeout {
        /// What was run.
        command: String,
        /// How long it had.
        within: Duration,
    },
    /// The program could not be run.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl ControlError {
    fn exception(expression: &str, reason: &str) -> Self {
        Self::Exception {
            expression: expression.to_owned(),
            reason: reason.to_owned(),
        }
    }
}

impl Broker {
    /// Runs `rabbitmqctl` and returns what it prints: `ctl(&["list_queues", "name"])`. Takes about a second;
    /// [`eval`](Self::eval) takes milliseconds.
    ///
    /// # Panics
    /// It fails or takes longer than a minute.
    pub async fn ctl(&self, arguments: &[&str]) -> String {
        match self.try_ctl(arguments).await {
            Ok(output) => output,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`ctl`](Self::ctl).
    ///
    /// # Errors
    /// It fails or takes longer than a minute.
    pub async fn try_ctl(&self, arguments: &[&str]) -> Result<String, ControlError> {
        let mut erlang = node::distribution(&self.0.ports);
        // It only calls the node; it needs no port of its own. Its name must differ from that of others at the same time.
        let name = format!("ctl-{}@127.0.0.1", rand::random::<u32>());
        erlang.extend(
            [
                "-dist_listen",
                "false",
                "-hidden",
                "-name",
                &name,
                "+S",
                "1:1",
            ]
            .map(str::to_owned),
        );
        let mut command = self.command(self.0.install.rabbitmqctl());
        command
            .env("RABBITMQ_CTL_ERL_ARGS", erlang.join(" "))
            .args(arguments);
        run(command, "", format!("rabbitmqctl {}", arguments.join(" "))).await
    }

    /// Evaluates an Erlang expression in the node and returns its value as Erlang writes it:
    /// `eval("rabbit_vhost:list_names()")` is `[<<"/">>]`. ASCII only.
    ///
    /// # Panics
    /// It raises an exception, is no Erlang, or takes longer than a minute.
    pub async fn eval(&self, expression: &str) -> String {
        match self.try_eval(expression).await {
            Ok(value) => value,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`eval`](Self::eval).
    ///
    /// # Errors
    /// It raises an exception, is no Erlang, or takes longer than a minute.
    pub async fn try_eval(&self, expression: &str) -> Result<String, ControlError> {
        let mut command = self.command(self.0.install.erl_call());
        let address = format!("127.0.0.1:{}", self.0.ports.distribution);
        // Its own random name (-r) is one of a thousand that changes by the second: calls of the same second would be
        // refused.
        let name = format!("eval-{}", rand::random::<u32>());
        command.args(["-address", &address, "-h", &name, "-fetch_stdout", "-e"]);
        let source = format!(
            "{{Tag, Value}} = try {{ok, begin {expression} end}} catch Class:Reason -> {{error, {{Class, Reason}}}} end, \
             io:format(\"~ts ~0tp\", [Tag, Value]).\n"
        );
        let output = run(command, &source, format!("erl_call ({expression})")).await?;
        // What was printed, then what the printing returned.
        match output
            .strip_suffix("{ok, ok}")
            .and_then(|printed| printed.split_once(' '))
        {
            Some(("ok", value)) => Ok(value.to_owned()),
            Some((_, reason)) => Err(ControlError::exception(expression, reason)),
            None => Err(ControlError::exception(expression, &output)),
        }
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(node::environment(self.directory()))
            .current_dir(self.directory());
        command
    }
}

async fn run(mut command: Command, input: &str, name: String) -> Result<String, ControlError> {
    const WITHIN: Duration = Duration::from_secs(60);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let work = async {
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).await?;
        }
        child.wait_with_output().await
    };
    let Ok(output) = tokio::time::timeout(WITHIN, work).await else {
        return Err(ControlError::Timeout {
            command: name,
            within: WITHIN,
        });
    };
    let output = output?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(ControlError::Failed {
            command: name,
            status: output.status,
            output: format!("{text}{}", String::from_utf8_lossy(&output.stderr)),
        }),
    }
}
