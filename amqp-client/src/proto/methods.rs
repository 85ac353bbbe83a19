//! Groups of methods, as patterns: a match over methods names them all, so that the compiler shows where a
//! new one has to be dealt with.

/// Replies that change nothing on our side.
macro_rules! plain_replies {
    () => {
        Method::ChannelFlowOk(_)
            | Method::ExchangeDeclareOk(_)
            | Method::ExchangeDeleteOk(_)
            | Method::ExchangeBindOk(_)
            | Method::ExchangeUnbindOk(_)
            | Method::QueueDeclareOk(_)
            | Method::QueueBindOk(_)
            | Method::QueueUnbindOk(_)
            | Method::QueuePurgeOk(_)
            | Method::QueueDeleteOk(_)
            | Method::BasicQosOk(_)
    };
}

/// What only clients send, on channels other than 0.
macro_rules! sent_by_clients {
    () => {
        Method::ChannelOpen(_)
            | Method::ExchangeDeclare(_)
            | Method::ExchangeDelete(_)
            | Method::ExchangeBind(_)
            | Method::ExchangeUnbind(_)
            | Method::QueueDeclare(_)
            | Method::QueueBind(_)
            | Method::QueueUnbind(_)
            | Method::QueuePurge(_)
            | Method::QueueDelete(_)
            | Method::BasicQos(_)
            | Method::BasicConsume(_)
            | Method::BasicPublish(_)
            | Method::BasicGet(_)
            | Method::BasicReject(_)
            | Method::BasicRecoverAsync(_)
            | Method::BasicRecover(_)
            | Method::ConfirmSelect(_)
            | Method::TxSelect(_)
            | Method::TxCommit(_)
            | Method::TxRollback(_)
    };
}

/// What servers send on channels other than 0.
macro_rules! sent_by_servers {
    () => {
        plain_replies!()
            | Method::ChannelOpenOk(_)
            | Method::ChannelClose(_)
            | Method::ChannelCloseOk(_)
            | Method::ChannelFlow(_)
            | Method::BasicDeliver(_)
            | Method::BasicReturn(_)
            | Method::BasicAck(_)
            | Method::BasicNack(_)
            | Method::BasicGetOk(_)
            | Method::BasicGetEmpty(_)
            | Method::BasicConsumeOk(_)
            | Method::BasicCancel(_)
            | Method::BasicCancelOk(_)
            | Method::BasicRecoverOk(_)
            | Method::ConfirmSelectOk(_)
            | Method::TxSelectOk(_)
            | Method::TxCommitOk(_)
            | Method::TxRollbackOk(_)
    };
}

/// What belongs on channel 0.
macro_rules! of_connection {
    () => {
        Method::ConnectionStart(_)
            | Method::ConnectionStartOk(_)
            | Method::ConnectionSecure(_)
            | Method::ConnectionSecureOk(_)
            | Method::ConnectionTune(_)
            | Method::ConnectionTuneOk(_)
            | Method::ConnectionOpen(_)
            | Method::ConnectionOpenOk(_)
            | Method::ConnectionClose(_)
            | Method::ConnectionCloseOk(_)
            | Method::ConnectionBlocked(_)
            | Method::ConnectionUnblocked(_)
            | Method::ConnectionUpdateSecret(_)
            | Method::ConnectionUpdateSecretOk(_)
    };
}

pub(super) use {of_connection, plain_replies, sent_by_clients, sent_by_servers};
