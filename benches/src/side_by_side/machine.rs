//! Where, and what with.

use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::load::Failure;

/// A machine, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's model.
    pub processor: String,
    /// How many of them.
    pub cores: usize,
    /// The kernel's name and version.
    pub kernel: String,
}

impl Machine {
    pub(super) fn this() -> Result<Machine, Failure> {
        let processors = fs::read_to_string("/proc/cpuinfo")?;
        let model = processors
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
            .map_or("unknown", |(_, model)| model);
        let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        // What comes behind the version says who built it.
        let version = release.trim().split('-').next().unwrap_or_default();
        Ok(Machine {
            processor: model.into(),
            cores: std::thread::available_parallelism()?.get(),
            kernel: format!("Linux {version}"),
        })
    }
}

/// Of what is compared, from the lock file this program was built with.
pub(super) fn versions(rabbitmq_c: bool) -> Result<Vec<(String, String)>, Failure> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        version: String,
    }
    let lock: Lock = toml::from_str(include_str!("../../../Cargo.lock"))?;
    let mut versions: Vec<_> = lock
        .package
        .into_iter()
        .filter(|package| {
            ["amqp-client", "amqprs", "lapin", "amq-protocol", "tokio"].contains(&&*package.name)
        })
        .map(|package| (package.name, package.version))
        .collect();
    if rabbitmq_c {
        let query = ["-W", "-f", "${Version}", "librabbitmq-dev"];
        let output = Command::new("dpkg-query").args(query).output();
        let version = output.map_or_else(
            |_| "unknown".into(),
            |output| String::from_utf8_lossy(&output.stdout).into_owned(),
        );
        versions.push(("rabbitmq-c".into(), version));
    }
    let rustc = Command::new("rustc").arg("--version").output()?.stdout;
    let rustc = String::from_utf8_lossy(&rustc);
    let version = rustc.split(' ').nth(1).unwrap_or("unknown");
    versions.push(("rustc".into(), version.into()));
    Ok(versions)
}
