//! Arbitrary values of everything the codec knows, with bytes and lengths that peers do not choose but could.

use amqp_codec::basic::Properties;
use amqp_codec::{
    ContentHeader, Frame, Limits, LongStr, Method, RawTable, ReplyCode, ShortStr, Table, basic,
    channel, confirm, connection, exchange, queue, tx,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::Union;

pub(crate) fn short() -> impl Strategy<Value = ShortStr<'static>> {
    prop_oneof![
        Just(Vec::new()),
        "[a-z.#*-]{1,20}".prop_map(String::into_bytes),
        vec(any::<u8>(), 0..=255),
    ]
    .prop_map(|bytes| bytes.try_into().unwrap())
}

fn long() -> impl Strategy<Value = LongStr<'static>> {
    vec(any::<u8>(), 0..600).prop_map(LongStr::from)
}

fn reply_code() -> impl Strategy<Value = ReplyCode> {
    any::<u16>().prop_map(ReplyCode)
}

/// What the octet of `used` flags has besides them.
fn bits_above(used: u32) -> impl Strategy<Value = u8> {
    any::<u8>().prop_map(move |bits| bits.checked_shl(used).unwrap_or(0))
}

/// A tag and a value, written without the codec's help: every tag, odd booleans, `L`, NaNs, any bytes in strings.
fn encoded_value() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        tagged(b"t", vec(any::<u8>(), 1)),
        tagged(b"bB", vec(any::<u8>(), 1)),
        tagged(b"su", vec(any::<u8>(), 2)),
        tagged(b"Iif", vec(any::<u8>(), 4)),
        tagged(b"D", vec(any::<u8>(), 5)),
        tagged(b"lLdT", vec(any::<u8>(), 8)),
        tagged(b"V", Just(Vec::new())),
        tagged(b"Sx", vec(any::<u8>(), 0..40).prop_map(with_length)),
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            tagged(
                b"A",
                vec(inner.clone(), 0..6).prop_map(|values| with_length(values.concat()))
            ),
            tagged(b"F", encoded_entries(inner, 6).prop_map(with_length)),
        ]
    })
}

fn tagged(
    tags: &'static [u8],
    value: impl Strategy<Value = Vec<u8>>,
) -> impl Strategy<Value = Vec<u8>> {
    (prop::sample::select(tags), value).prop_map(|(tag, value)| [vec![tag], value].concat())
}

fn with_length(content: Vec<u8>) -> Vec<u8> {
    [(content.len() as u32).to_be_bytes().to_vec(), content].concat()
}

fn encoded_entries(
    value: impl Strategy<Value = Vec<u8>>,
    most: usize,
) -> impl Strategy<Value = Vec<u8>> {
    let key = prop_oneof![
        prop::sample::select(vec!["", "a", "b", "x-death", "CC"])
            .prop_map(|key| key.as_bytes().to_vec()),
        vec(any::<u8>(), 0..20),
    ];
    let entry = (key, value).prop_map(|(key, value)| [vec![key.len() as u8], key, value].concat());
    vec(entry, 0..=most).prop_map(|entries| entries.concat())
}

/// The content of a valid table.
pub(crate) fn table_content() -> impl Strategy<Value = Vec<u8>> {
    encoded_entries(encoded_value(), 8)
}

pub(crate) fn table() -> impl Strategy<Value = Table<'static>> {
    table_content().prop_map(|content| {
        Table::decode(&content, &Limits::default())
            .unwrap()
            .into_owned()
    })
}

/// Valid tables and, as often, bytes that are none.
fn raw_table() -> impl Strategy<Value = RawTable<'static>> {
    prop_oneof![table_content(), vec(any::<u8>(), 0..100)]
        .prop_map(|content| RawTable::from_bytes(&content).into_owned())
}

/// A strategy for each method listed. Struct literals without a rest and a match over all methods see to it that
/// neither a field nor a method can be left out.
macro_rules! methods {
    ($($variant:ident($class:ident::$name:ident { $($field:ident: $strategy:expr),* $(,)? }),)*) => {
        /// One strategy a method, in the order of the list.
        pub(crate) fn each_method() -> Vec<BoxedStrategy<Method<'static>>> {
            vec![$(
                (Just(()), $($strategy,)*)
                    .prop_map(|((), $($field,)*)| {
                        Method::$variant($class::$name { $($field),* })
                    })
                    .boxed(),
            )*]
        }

        #[allow(dead_code)]
        fn all_methods_are_listed(method: &Method<'_>) {
            match method {
                $(Method::$variant(_) => {})*
            }
        }
    };
}

methods! {
    ConnectionStart(connection::Start {
        version_major: any::<u8>(), version_minor: any::<u8>(), server_properties: table(),
        mechanisms: long(), locales: long(),
    }),
    ConnectionStartOk(connection::StartOk {
        client_properties: table(), mechanism: short(), response: long(), locale: short(),
    }),
    ConnectionSecure(connection::Secure { challenge: long() }),
    ConnectionSecureOk(connection::SecureOk { response: long() }),
    ConnectionTune(connection::Tune {
        channel_max: any::<u16>(), frame_max: any::<u32>(), heartbeat: any::<u16>(),
    }),
    ConnectionTuneOk(connection::TuneOk {
        channel_max: any::<u16>(), frame_max: any::<u32>(), heartbeat: any::<u16>(),
    }),
    ConnectionOpen(connection::Open {
        virtual_host: short(), reserved_1: short(), reserved_2: any::<bool>(),
        undefined_bits: bits_above(1),
    }),
    ConnectionOpenOk(connection::OpenOk { reserved_1: short() }),
    ConnectionClose(connection::Close {
        reply_code: reply_code(), reply_text: short(), class_id: any::<u16>(),
        method_id: any::<u16>(),
    }),
    ConnectionCloseOk(connection::CloseOk {}),
    ConnectionBlocked(connection::Blocked { reason: short() }),
    ConnectionUnblocked(connection::Unblocked {}),
    ConnectionUpdateSecret(connection::UpdateSecret { new_secret: long(), reason: short() }),
    ConnectionUpdateSecretOk(connection::UpdateSecretOk {}),
    ChannelOpen(channel::Open { reserved_1: short() }),
    ChannelOpenOk(channel::OpenOk { reserved_1: long() }),
    ChannelFlow(channel::Flow { active: any::<bool>(), undefined_bits: bits_above(1) }),
    ChannelFlowOk(channel::FlowOk { active: any::<bool>(), undefined_bits: bits_above(1) }),
    ChannelClose(channel::Close {
        reply_code: reply_code(), reply_text: short(), class_id: any::<u16>(),
        method_id: any::<u16>(),
    }),
    ChannelCloseOk(channel::CloseOk {}),
    ExchangeDeclare(exchange::Declare {
        reserved_1: any::<u16>(), exchange: short(), kind: short(), passive: any::<bool>(),
        durable: any::<bool>(), auto_delete: any::<bool>(), internal: any::<bool>(),
        no_wait: any::<bool>(), arguments: table(), undefined_bits: bits_above(5),
    }),
    ExchangeDeclareOk(exchange::DeclareOk {}),
    ExchangeDelete(exchange::Delete {
        reserved_1: any::<u16>(), exchange: short(), if_unused: any::<bool>(),
        no_wait: any::<bool>(), undefined_bits: bits_above(2),
    }),
    ExchangeDeleteOk(exchange::DeleteOk {}),
    ExchangeBind(exchange::Bind {
        reserved_1: any::<u16>(), destination: short(), source: short(), routing_key: short(),
        no_wait: any::<bool>(), arguments: table(), undefined_bits: bits_above(1),
    }),
    ExchangeBindOk(exchange::BindOk {}),
    ExchangeUnbind(exchange::Unbind {
        reserved_1: any::<u16>(), destination: short(), source: short(), routing_key: short(),
        no_wait: any::<bool>(), arguments: table(), undefined_bits: bits_above(1),
    }),
    ExchangeUnbindOk(exchange::UnbindOk {}),
    QueueDeclare(queue::Declare {
        reserved_1: any::<u16>(), queue: short(), passive: any::<bool>(), durable: any::<bool>(),
        exclusive: any::<bool>(), auto_delete: any::<bool>(), no_wait: any::<bool>(),
        arguments: table(), undefined_bits: bits_above(5),
    }),
    QueueDeclareOk(queue::DeclareOk {
        queue: short(), message_count: any::<u32>(), consumer_count: any::<u32>(),
    }),
    QueueBind(queue::Bind {
        reserved_1: any::<u16>(), queue: short(), exchange: short(), routing_key: short(),
        no_wait: any::<bool>(), arguments: table(), undefined_bits: bits_above(1),
    }),
    QueueBindOk(queue::BindOk {}),
    QueueUnbind(queue::Unbind {
        reserved_1: any::<u16>(), queue: short(), exchange: short(), routing_key: short(),
        arguments: table(),
    }),
    QueueUnbindOk(queue::UnbindOk {}),
    QueuePurge(queue::Purge {
        reserved_1: any::<u16>(), queue: short(), no_wait: any::<bool>(),
        undefined_bits: bits_above(1),
    }),
    QueuePurgeOk(queue::PurgeOk { message_count: any::<u32>() }),
    QueueDelete(queue::Delete {
        reserved_1: any::<u16>(), queue: short(), if_unused: any::<bool>(),
        if_empty: any::<bool>(), no_wait: any::<bool>(), undefined_bits: bits_above(3),
    }),
    QueueDeleteOk(queue::DeleteOk { message_count: any::<u32>() }),
    BasicQos(basic::Qos {
        prefetch_size: any::<u32>(), prefetch_count: any::<u16>(), global: any::<bool>(),
        undefined_bits: bits_above(1),
    }),
    BasicQosOk(basic::QosOk {}),
    BasicConsume(basic::Consume {
        reserved_1: any::<u16>(), queue: short(), consumer_tag: short(), no_local: any::<bool>(),
        no_ack: any::<bool>(), exclusive: any::<bool>(), no_wait: any::<bool>(),
        arguments: table(), undefined_bits: bits_above(4),
    }),
    BasicConsumeOk(basic::ConsumeOk { consumer_tag: short() }),
    BasicCancel(basic::Cancel {
        consumer_tag: short(), no_wait: any::<bool>(), undefined_bits: bits_above(1),
    }),
    BasicCancelOk(basic::CancelOk { consumer_tag: short() }),
    BasicPublish(basic::Publish {
        reserved_1: any::<u16>(), exchange: short(), routing_key: short(),
        mandatory: any::<bool>(), immediate: any::<bool>(), undefined_bits: bits_above(2),
    }),
    BasicReturn(basic::Return {
        reply_code: reply_code(), reply_text: short(), exchange: short(), routing_key: short(),
    }),
    BasicDeliver(basic::Deliver {
        consumer_tag: short(), delivery_tag: any::<u64>(), redelivered: any::<bool>(),
        exchange: short(), routing_key: short(), undefined_bits: bits_above(1),
    }),
    BasicGet(basic::Get {
        reserved_1: any::<u16>(), queue: short(), no_ack: any::<bool>(),
        undefined_bits: bits_above(1),
    }),
    BasicGetOk(basic::GetOk {
        delivery_tag: any::<u64>(), redelivered: any::<bool>(), exchange: short(),
        routing_key: short(), message_count: any::<u32>(), undefined_bits: bits_above(1),
    }),
    BasicGetEmpty(basic::GetEmpty { reserved_1: short() }),
    BasicAck(basic::Ack {
        delivery_tag: any::<u64>(), multiple: any::<bool>(), undefined_bits: bits_above(1),
    }),
    BasicReject(basic::Reject {
        delivery_tag: any::<u64>(), requeue: any::<bool>(), undefined_bits: bits_above(1),
    }),
    BasicRecoverAsync(basic::RecoverAsync {
        requeue: any::<bool>(), undefined_bits: bits_above(1),
    }),
    BasicRecover(basic::Recover { requeue: any::<bool>(), undefined_bits: bits_above(1) }),
    BasicRecoverOk(basic::RecoverOk {}),
    BasicNack(basic::Nack {
        delivery_tag: any::<u64>(), multiple: any::<bool>(), requeue: any::<bool>(),
        undefined_bits: bits_above(2),
    }),
    TxSelect(tx::Select {}),
    TxSelectOk(tx::SelectOk {}),
    TxCommit(tx::Commit {}),
    TxCommitOk(tx::CommitOk {}),
    TxRollback(tx::Rollback {}),
    TxRollbackOk(tx::RollbackOk {}),
    ConfirmSelect(confirm::Select { no_wait: any::<bool>(), undefined_bits: bits_above(1) }),
    ConfirmSelectOk(confirm::SelectOk {}),
}

pub(crate) fn method() -> impl Strategy<Value = Method<'static>> {
    Union::new(each_method())
}

pub(crate) fn properties() -> impl Strategy<Value = Properties<'static>> {
    let first = (
        option::of(short()),
        option::of(short()),
        option::of(raw_table()),
        option::of(any::<u8>()),
        option::of(any::<u8>()),
        option::of(short()),
        option::of(short()),
    );
    let second = (
        option::of(short()),
        option::of(short()),
        option::of(any::<u64>()),
        option::of(short()),
        option::of(short()),
        option::of(short()),
        option::of(short()),
    );
    let some = (first, second).prop_map(|(first, second)| {
        let (
            content_type,
            content_encoding,
            headers,
            delivery_mode,
            priority,
            correlation_id,
            reply_to,
        ) = first;
        let (expiration, message_id, timestamp, kind, user_id, app_id, cluster_id) = second;
        Properties {
            content_type,
            content_encoding,
            headers,
            delivery_mode,
            priority,
            correlation_id,
            reply_to,
            expiration,
            message_id,
            timestamp,
            kind,
            user_id,
            app_id,
            cluster_id,
        }
    });
    prop_oneof![1 => Just(Properties::EMPTY), 4 => some]
}

pub(crate) fn header() -> impl Strategy<Value = ContentHeader<'static>> {
    (any::<u16>(), any::<u64>(), properties()).prop_map(|(class_id, body_size, properties)| {
        ContentHeader {
            class_id,
            body_size,
            properties,
        }
    })
}

/// A frame, encoded by the codec: body frames borrow, so that a strategy cannot hold them.
pub(crate) fn encoded_frame() -> impl Strategy<Value = Vec<u8>> {
    let channel = any::<u16>();
    prop_oneof![
        4 => (channel, method())
            .prop_map(|(channel, method)| encoded(&Frame::Method { channel, method })),
        2 => (channel, header())
            .prop_map(|(channel, header)| encoded(&Frame::Header { channel, header })),
        2 => (channel, vec(any::<u8>(), 0..300))
            .prop_map(|(channel, payload)| encoded(&Frame::Body { channel, payload: &payload })),
        1 => Just(encoded(&Frame::Heartbeat)),
    ]
}

pub(crate) fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes).unwrap();
    bytes
}
