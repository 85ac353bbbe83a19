use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use rand::distr::{Alphanumeric, SampleString as _};

use super::ports::Ports;
use super::{Broker, Inner, StartError, Tls, Version, blocking};

/// A node to be.
#[derive(Debug, Clone)]
pub struct Builder {
    pub(super) version: Version,
    pub(super) plugins: Vec<String>,
    pub(super) tls: Option<Tls>,
    config: String,
}

impl Builder {
    pub(super) fn new(version: Version) -> Self {
        Self {
            version,
            plugins: Vec::new(),
            tls: None,
            config: String::new(),
        }
    }

    /// Adds to the node's `rabbitmq.conf`: one or several lines such as `channel_max = 10`.
    #[must_use]
    pub fn config(mut self, lines: &str) -> Self {
        self.config.push_str(lines);
        self.config.push('\n');
        self
    }

    /// Enables a plugin, `rabbitmq_auth_mechanism_ssl` for example. A node with plugins starts more slowly.
    #[must_use]
    pub fn plugin(mut self, name: &str) -> Self {
        self.plugins.push(name.to_owned());
        self
    }

    /// Has the node speak TLS on a second port; the files must outlive the node's starts.
    #[must_use]
    pub fn tls(mut self, tls: &Tls) -> Self {
        self.tls = Some(tls.clone());
        self
    }

    /// Starts the node.
    ///
    /// # Panics
    /// It does not start within a minute, or is not installed; the message says why.
    pub async fn start(self) -> Broker {
        match self.try_start().await {
            Ok(broker) => broker,
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts the node.
    ///
    /// # Errors
    /// It does not start within a minute, or is not installed.
    pub async fn try_start(self) -> Result<Broker, StartError> {
        blocking(move || self.start_blocking()).await
    }

    pub(super) fn start_blocking(&self) -> Result<Broker, StartError> {
        Inner::start(self).map(|inner| Broker(Arc::new(inner)))
    }

    /// Writes what a node reads at its start.
    pub(super) fn write_files(&self, ports: &Ports, directory: &Path) -> io::Result<()> {
        // The directory is the node's HOME; Erlang insists on the cookie being private.
        let cookie = Alphanumeric.sample_string(&mut rand::rng(), 32);
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(directory.join(".erlang.cookie"))
            .and_then(|mut file| io::Write::write_all(&mut file, cookie.as_bytes()))?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
        fs::write(
            directory.join("enabled_plugins"),
            format!("[{}].", self.plugins.join(",")),
        )?;
        fs::write(directory.join("rabbitmq.conf"), self.rabbitmq_conf(ports))
    }

    fn rabbitmq_conf(&self, ports: &Ports) -> String {
        let mut conf = format!(
            "listeners.tcp.1 = 127.0.0.1:{}\n\
             log.console = true\nlog.console.level = info\nlog.file = false\n",
            ports.amqp
        );
        if let (Some(tls), Some(port)) = (&self.tls, ports.tls) {
            let verify = if tls.client_certificates {
                "verify_peer"
            } else {
                "verify_none"
            };
            write!(
                conf,
                "listeners.ssl.1 = 127.0.0.1:{port}\n\
                 ssl_options.cacertfile = {}\nssl_options.certfile = {}\nssl_options.keyfile = {}\n\
                 ssl_options.verify = {verify}\nssl_options.fail_if_no_peer_cert = {}\n",
                tls.ca.display(),
                tls.certificate.display(),
                tls.key.display(),
                tls.client_certificates,
            )
            .expect("a string takes all that is written to it");
        }
        conf.push_str(&self.config);
        conf
    }
}
