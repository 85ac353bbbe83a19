//! The operator of the broker under test: does to it what no client can.

use std::fmt;
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tokio::process::Command;

/// Asked by name for what is to be done, and on which virtual host: `raise-alarm`, `clear-alarm`, `close-connections`.
#[derive(Clone)]
pub struct Control(Rc<Ask>);

type Ask = dyn Fn(String, String) -> LocalBoxFuture<'static, Result<(), String>>;

/// How long the operator may take.
const PATIENCE: Duration = Duration::from_secs(30);

impl Control {
    /// Whoever does it in this process.
    pub fn new<F>(ask: impl Fn(String, String) -> F + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + 'static,
    {
        Self(Rc::new(move |what, vhost| Box::pin(ask(what, vhost))))
    }

    /// A program that is run with the name of what is to be done and the virtual host as its arguments, and succeeds if
    /// it has been done.
    pub fn program(path: String) -> Self {
        Self::new(move |what, vhost| {
            let mut command = Command::new(&path);
            command
                .arg(what)
                .arg(vhost)
                .stdin(Stdio::null())
                .kill_on_drop(true);
            async move {
                let output = command.output().await.map_err(|error| error.to_string())?;
                match output.status.success() {
                    true => Ok(()),
                    false => Err(format!(
                        "{}: {}",
                        output.status,
                        String::from_utf8_lossy(&output.stderr).trim()
                    )),
                }
            }
        })
    }

    pub(crate) async fn ask(&self, what: &str, vhost: &str) -> Result<(), String> {
        tokio::time::timeout(PATIENCE, (self.0)(what.to_owned(), vhost.to_owned()))
            .await
            .unwrap_or_else(|_| Err(format!("not done within {PATIENCE:?}")))
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Control")
    }
}
