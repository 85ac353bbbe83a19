//! The operator of a private node, for checks that hurt.

use std::sync::Arc;

use amqp_conformance::control::Control;
use amqp_tests::Broker;

/// Does to this node what checks ask for.
pub(crate) fn operator(broker: Arc<Broker>) -> Control {
    Control::new(move |what, vhost| {
        let broker = Arc::clone(&broker);
        async move {
            match what.as_str() {
                "raise-alarm" => broker.raise_alarm().await,
                "clear-alarm" => broker.clear_alarm().await,
                "close-connections" => {
                    broker
                        .close_connections(&vhost, "closed by the operator")
                        .await
                }
                _ => return Err(format!("what is {what}?")),
            }
            Ok(())
        }
    })
}
