use amqp_codec::{Method, MethodFields, basic, channel, confirm, connection, exchange, queue, tx};

/// A method's struct, got out of the enum that holds any method.
pub trait Typed: MethodFields + Sized + 'static {
    /// The method if it is this one.
    fn from_method(method: Method<'static>) -> Option<Self>;
}

macro_rules! typed {
    ($($variant:ident: $class:ident::$name:ident $(<$lifetime:lifetime>)?,)*) => {$(
        impl Typed for $class::$name $(<$lifetime>)? {
            fn from_method(method: Method<'static>) -> Option<Self> {
                match method {
                    Method::$variant(method) => Some(method),
                    _ => None,
                }
            }
        }
    )*};
}

typed! {
    ConnectionStart: connection::Start<'static>,
    ConnectionStartOk: connection::StartOk<'static>,
    ConnectionSecure: connection::Secure<'static>,
    ConnectionSecureOk: connection::SecureOk<'static>,
    ConnectionTune: connection::Tune,
    ConnectionTuneOk: connection::TuneOk,
    ConnectionOpen: connection::Open<'static>,
    ConnectionOpenOk: connection::OpenOk<'static>,
    ConnectionClose: connection::Close<'static>,
    ConnectionCloseOk: connection::CloseOk,
    ConnectionBlocked: connection::Blocked<'static>,
    ConnectionUnblocked: connection::Unblocked,
    ConnectionUpdateSecret: connection::UpdateSecret<'static>,
    ConnectionUpdateSecretOk: connection::UpdateSecretOk,
    ChannelOpen: channel::Open<'static>,
    ChannelOpenOk: channel::OpenOk<'static>,
    ChannelFlow: channel::Flow,
    ChannelFlowOk: channel::FlowOk,
    ChannelClose: channel::Close<'static>,
    ChannelCloseOk: channel::CloseOk,
    ExchangeDeclare: exchange::Declare<'static>,
    ExchangeDeclareOk: exchange::DeclareOk,
    ExchangeDelete: exchange::Delete<'static>,
    ExchangeDeleteOk: exchange::DeleteOk,
    ExchangeBind: exchange::Bind<'static>,
    ExchangeBindOk: exchange::BindOk,
    ExchangeUnbind: exchange::Unbind<'static>,
    ExchangeUnbindOk: exchange::UnbindOk,
    QueueDeclare: queue::Declare<'static>,
    QueueDeclareOk: queue::DeclareOk<'static>,
    QueueBind: queue::Bind<'static>,
    QueueBindOk: queue::BindOk,
    QueueUnbind: queue::Unbind<'static>,
    QueueUnbindOk: queue::UnbindOk,
    QueuePurge: queue::Purge<'static>,
    QueuePurgeOk: queue::PurgeOk,
    QueueDelete: queue::Delete<'static>,
    QueueDeleteOk: queue::DeleteOk,
    BasicQos: basic::Qos,
    BasicQosOk: basic::QosOk,
    BasicConsume: basic::Consume<'static>,
    BasicConsumeOk: basic::ConsumeOk<'static>,
    BasicCancel: basic::Cancel<'static>,
    BasicCancelOk: basic::CancelOk<'static>,
    BasicPublish: basic::Publish<'static>,
    BasicReturn: basic::Return<'static>,
    BasicDeliver: basic::Deliver<'static>,
    BasicGet: basic::Get<'static>,
    BasicGetOk: basic::GetOk<'static>,
    BasicGetEmpty: basic::GetEmpty<'static>,
    BasicAck: basic::Ack,
    BasicReject: basic::Reject,
    BasicRecoverAsync: basic::RecoverAsync,
    BasicRecover: basic::Recover,
    BasicRecoverOk: basic::RecoverOk,
    BasicNack: basic::Nack,
    TxSelect: tx::Select,
    TxSelectOk: tx::SelectOk,
    TxCommit: tx::Commit,
    TxCommitOk: tx::CommitOk,
    TxRollback: tx::Rollback,
    TxRollbackOk: tx::RollbackOk,
    ConfirmSelect: confirm::Select,
    ConfirmSelectOk: confirm::SelectOk,
}
