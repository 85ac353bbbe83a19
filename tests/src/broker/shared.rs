use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Broker, StartError, Version, blocking};

/// A virtual host that a test has for itself on a shared node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vhost {
    /// Its name, which needs no percent-encoding.
    pub name: String,
    /// The user guest on it, `amqp://guest:guest@127.0.0.1:port/name`.
    pub uri: String,
}

pub(super) async fn shared(version: Version) -> &'static Broker {
    // Never dropped: the supervisor ends the node when the process has ended. A failed start is kept too, so that one
    // timeout is all that a broken installation costs.
    static NODES: [OnceLock<Result<Broker, StartError>>; 3] = [const { OnceLock::new() }; 3];
    let slot = &NODES[match version {
        Version::V3_10 => 0,
        Version::V4_0 => 1,
        Version::V4_3 => 2,
    }];
    let node = match slot.get() {
        Some(node) => node,
        None => {
            blocking(move || slot.get_or_init(|| Broker::builder(version).start_blocking())).await
        }
    };
    match node {
        Ok(broker) => broker,
        Err(error) => panic!("{error}"),
    }
}

impl Broker {
    /// Adds a virtual host on which guest may do everything. Its name is new, and begins with `purpose`.
    ///
    /// # Panics
    /// The node refuses, or `purpose` is more than letters, digits and hyphens.
    pub async fn vhost(&self, purpose: &str) -> Vhost {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        assert!(
            purpose
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
            "{purpose} would need encoding"
        );
        let name = format!("{purpose}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.eval(&format!(
            "ok = rabbit_vhost:add(<<\"{name}\">>, <<\"harness\">>), \
             ok = rabbit_auth_backend_internal:set_permissions(<<\"guest\">>, <<\"{name}\">>, <<\".*\">>, <<\".*\">>, \
             <<\".*\">>, <<\"harness\">>)"
        ))
        .await;
        Vhost {
            uri: self.uri_of(&name),
            name,
        }
    }

    /// Writes what was declared so far to the disk. Without it a node that is [killed](Broker::kill) within seconds after
    /// a declare has forgotten about it, messages and all.
    ///
    /// # Panics
    /// The node does not answer.
    pub async fn sync(&self) {
        // A node that keeps its metadata in Khepri has written them before it answered.
        self.eval("case whereis(mnesia_sup) of undefined -> ok; _ -> mnesia:sync_log() end")
            .await;
    }

    /// Raises the memory alarm: the node blocks connections that publish. When this returns all of them have been told.
    ///
    /// # Panics
    /// The node does not answer.
    pub async fn raise_alarm(&self) {
        // The second call is answered by the process that carries out the first.
        self.eval(
            "rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}), rabbit_alarm:get_alarms()",
        )
        .await;
    }

    /// Clears the memory alarm.
    ///
    /// # Panics
    /// The node does not answer.
    pub async fn clear_alarm(&self) {
        self.eval(
            "rabbit_alarm:clear_alarm({resource_limit, memory, node()}), rabbit_alarm:get_alarms()",
        )
        .await;
    }

    /// Closes every connection on a vhost as an operator does: connection.close with 320 and this text (ASCII without
    /// quotes and backslashes).
    ///
    /// # Panics
    /// The node does not answer.
    pub async fn close_connections(&self, vhost: &str, reason: &str) {
        self.eval(&format!(
            "[rabbit_networking:close_connection(Pid, \"{reason}\") || \
             [{{pid, Pid}}, {{vhost, <<\"{vhost}\">>}}] <- rabbit_networking:connection_info_all([pid, vhost])]"
        ))
        .await;
    }
}
