use std::fmt;
use std::path::{Path, PathBuf};

/// A series of RabbitMQ releases that the project is tested with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// 3.10, from Debian 12.
    V3_10,
    /// 4.0, from Debian 13.
    V4_0,
    /// 4.3, from Debian's next release; installed on request alone.
    V4_3,
}

impl Version {
    /// The versions that live tests run against: 3.10 and 4.0, and 4.3 where the variable `AMQP_WITH_4_3` is set.
    pub fn all() -> &'static [Self] {
        match std::env::var_os("AMQP_WITH_4_3") {
            None => &[Self::V3_10, Self::V4_0],
            Some(_) => &[Self::V3_10, Self::V4_0, Self::V4_3],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::V3_10 => "3.10",
            Self::V4_0 => "4.0",
            Self::V4_3 => "4.3",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A RabbitMQ that `scripts/setup` has not prepared.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no RabbitMQ {version} in {}: run `{command}` in the repository's root", directory.display()
)]
pub struct NotInstalled {
    version: Version,
    directory: PathBuf,
    command: &'static str,
}

/// An extracted RabbitMQ with its Erlang, as `scripts/extract-broker` leaves it.
#[derive(Debug, Clone)]
pub(super) struct Install {
    tree: PathBuf,
}

impl Install {
    pub(super) fn find(version: Version) -> Result<Self, NotInstalled> {
        // As in scripts/setup: a relative directory counts from the repository's root.
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("the crate is in the repository");
        let brokers =
            std::env::var_os("AMQP_BROKERS_DIR").unwrap_or_else(|| "target/brokers".into());
        let tree = root.join(brokers).join(version.name());
        if tree.join("complete").exists() {
            return Ok(Self { tree });
        }
        Err(NotInstalled {
            version,
            directory: tree,
            command: match version {
                Version::V3_10 | Version::V4_0 => "scripts/setup",
                Version::V4_3 => "scripts/setup --with-4.3",
            },
        })
    }

    pub(super) fn erl(&self) -> PathBuf {
        self.tree.join("bin/erl")
    }

    pub(super) fn rabbitmqctl(&self) -> PathBuf {
        self.tree.join("bin/rabbitmqctl")
    }

    pub(super) fn erl_call(&self) -> PathBuf {
        self.tree.join("usr/lib/erlang/bin/erl_call")
    }

    /// Where a node looks for plugins: among all there are, or, which makes its start twice as fast, nowhere but in
    /// what the broker itself is made of.
    pub(super) fn plugins(&self, all: bool) -> PathBuf {
        self.tree.join(if all { "plugins" } else { "core" })
    }
}
