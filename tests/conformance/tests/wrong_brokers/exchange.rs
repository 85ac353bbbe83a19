use amqp_codec::{MethodId, ReplyCode, Table, channel, exchange, short};

use crate::broker::{
    Unit, WrongBroker, answers, client, drops, method_frame, misreads, rewrites, wrong,
};

type Declare = exchange::Declare<'static>;
type Delete = exchange::Delete<'static>;
type Bind = exchange::Bind<'static>;
type Unbind = exchange::Unbind<'static>;

pub(crate) fn brokers() -> Vec<WrongBroker> {
    [declare(), delete(), bind()]
        .into_iter()
        .flatten()
        .collect()
}

fn declare() -> Vec<WrongBroker> {
    vec![
        wrong(
            "exchange.declare/never-answers",
            drops(MethodId::EXCHANGE_DECLARE_OK),
        )
        .caught_by([
            "exchange.declare/equivalent-again",
            "exchange.declare/type-direct",
            "exchange.declare/type-fanout",
            "exchange.declare/type-topic",
            "exchange.declare/type-headers",
        ]),
        wrong(
            "exchange.declare/ignores-passive",
            misreads(|it: &mut Declare| it.passive = false),
        )
        .caught_by([
            "exchange.declare/passive-finds",
            "exchange.declare/passive-missing",
            "exchange.declare/outlives-its-connection",
            "exchange.declare/name-of-127-octets",
        ]),
        wrong(
            "exchange.declare/makes-all-direct",
            misreads(|it: &mut Declare| it.kind = short!("direct")),
        )
        .caught_by(["exchange.declare/other-type-refused"]),
        wrong(
            "exchange.declare/ignores-durable",
            misreads(|it: &mut Declare| it.durable = false),
        )
        .caught_by(["exchange.declare/other-durability-refused"]),
        wrong(
            "exchange.declare/ignores-arguments",
            misreads(|it: &mut Declare| it.arguments = Table::EMPTY),
        )
        .caught_by([
            "exchange.declare/other-arguments-refused",
            "exchange.declare/alternate-exchange-takes-the-unroutable",
            "exchange.declare/alternate-exchange-of-wrong-type-refused",
        ]),
        wrong(
            "exchange.declare/ignores-auto-delete",
            misreads(|it: &mut Declare| it.auto_delete = false),
        )
        .caught_by([
            "exchange.declare/other-auto-delete-refused",
            "exchange.declare/auto-delete-goes-with-last-binding",
        ]),
        wrong(
            "exchange.declare/ignores-internal",
            misreads(|it: &mut Declare| it.internal = false),
        )
        .caught_by([
            "exchange.declare/other-internal-refused",
            "exchange.declare/internal-refuses-publishes",
        ]),
        wrong(
            "exchange.declare/answers-no-wait",
            misreads(|it: &mut Declare| it.no_wait = false),
        )
        .caught_by(["exchange.declare/no-wait-unanswered"]),
        wrong(
            "exchange.declare/lets-anybody-have-any-name",
            client(|channel, it: Declare, out| {
                match it.exchange.is_empty() || it.exchange.as_bytes().starts_with(b"amq.") {
                    true => out.tell_client(&Unit::method(channel, &exchange::DeclareOk {})),
                    false => out.tell_server(&method_frame(channel, &it)),
                }
            }),
        )
        .caught_by([
            "exchange.declare/reserved-name-refused",
            "exchange.declare/default-exchange-refused",
        ]),
        wrong(
            "exchange/has-none-of-its-own",
            client(|channel, it: Declare, out| {
                if it.passive && it.exchange.as_bytes().starts_with(b"amq.") {
                    let close = channel::Close {
                        reply_code: ReplyCode::NOT_FOUND,
                        ..Default::default()
                    };
                    out.tell_client(&Unit::method(channel, &close));
                } else {
                    out.tell_server(&method_frame(channel, &it));
                }
            }),
        )
        .caught_by([
            "exchange/amq-direct-is-there",
            "exchange/amq-fanout-is-there",
            "exchange/amq-topic-is-there",
            "exchange/amq-match-is-there",
        ]),
        wrong(
            "exchange.declare/calls-everything-a-failed-precondition",
            rewrites(|it: &mut channel::Close| it.reply_code = ReplyCode::PRECONDITION_FAILED),
        )
        .caught_by([
            "exchange.declare/passive-missing",
            "exchange.declare/internal-refuses-publishes",
        ]),
    ]
}

fn delete() -> Vec<WrongBroker> {
    vec![
        wrong(
            "exchange.delete/deletes-nothing",
            answers(|_: Delete| exchange::DeleteOk {}),
        )
        .caught_by([
            "exchange.delete/removes",
            "exchange.delete/if-unused-refused-when-bound",
            "exchange.delete/if-unused-removes-the-unbound",
            "exchange.delete/predeclared-refused",
            "routing/deleted-exchange-is-404",
        ]),
        wrong(
            "exchange.delete/ignores-if-unused",
            misreads(|it: &mut Delete| it.if_unused = false),
        )
        .caught_by(["exchange.delete/if-unused-refused-when-bound"]),
        wrong(
            "exchange.delete/answers-no-wait",
            misreads(|it: &mut Delete| it.no_wait = false),
        )
        .caught_by(["exchange.delete/no-wait-unanswered"]),
        wrong(
            "exchange.delete/never-answers",
            drops(MethodId::EXCHANGE_DELETE_OK),
        )
        .caught_by([
            "exchange.delete/removes",
            "queue.bind/bindings-go-with-the-exchange",
        ]),
    ]
}

fn bind() -> Vec<WrongBroker> {
    vec![
        wrong(
            "exchange.bind/binds-nothing",
            answers(|_: Bind| exchange::BindOk {}),
        )
        .caught_by([
            "exchange.bind/routes-on",
            "exchange.bind/twice-is-once",
            "exchange.bind/missing-source-refused",
            "exchange.bind/missing-destination-refused",
            "exchange.bind/default-exchange-refused",
        ]),
        wrong(
            "exchange.bind/binds-the-other-way-round",
            misreads(|it: &mut Bind| std::mem::swap(&mut it.source, &mut it.destination)),
        )
        .caught_by(["exchange.bind/routes-on"]),
        wrong(
            "exchange.bind/never-answers",
            drops(MethodId::EXCHANGE_BIND_OK),
        )
        .caught_by(["exchange.bind/cycle-ends"]),
        wrong(
            "exchange.bind/answers-no-wait",
            misreads(|it: &mut Bind| it.no_wait = false),
        )
        .caught_by(["exchange.bind/no-wait-unanswered"]),
        wrong(
            "exchange.unbind/removes-nothing",
            answers(|_: Unbind| exchange::UnbindOk {}),
        )
        .caught_by(["exchange.bind/twice-is-once"]),
        wrong(
            "exchange.unbind/never-answers",
            drops(MethodId::EXCHANGE_UNBIND_OK),
        )
        .caught_by(["exchange.unbind/missing-is-fine"]),
    ]
}
