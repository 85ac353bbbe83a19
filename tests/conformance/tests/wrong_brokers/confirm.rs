use amqp_codec::{MethodId, basic, confirm, tx};

use crate::broker::{
    Fault, Out, Passing, Unit, WrongBroker, answers, client, drops, duplicates, fault,
    method_frame, misreads, replaces, rewrites, wrong,
};

pub(crate) fn brokers() -> Vec<WrongBroker> {
    [select(), numbering(), settling()]
        .into_iter()
        .flatten()
        .collect()
}

fn select() -> Vec<WrongBroker> {
    vec![
        wrong(
            "confirm.select/never-answers",
            drops(MethodId::CONFIRM_SELECT_OK),
        )
        .caught_by(["confirm.select/answered", "confirm.select/twice-is-fine"]),
        wrong(
            "confirm.select/answers-no-wait",
            misreads(|it: &mut confirm::Select| it.no_wait = false),
        )
        .caught_by(["confirm.select/no-wait-unanswered"]),
        wrong(
            "confirm.select/answers-and-does-nothing",
            answers(|_: confirm::Select| confirm::SelectOk {}),
        )
        .caught_by([
            "confirm.select/refused-after-tx-select",
            "tx.select/refused-after-confirm-select",
            "confirm/unroutable-acked",
            "confirm/persistent-to-durable",
            "confirm/acked-when-every-queue-has-it",
            "confirm/queue-deleted-meanwhile",
        ]),
        wrong(
            "tx.select/lets-modes-mix",
            answers(|_: tx::Select| tx::SelectOk {}),
        )
        .caught_by([
            "tx.select/refused-after-confirm-select",
            "confirm.select/refused-after-tx-select",
        ]),
    ]
}

/// What is done to the acks; the hook may remember things.
fn acks<H>(make: impl Fn() -> H + Send + Sync + 'static) -> Fault
where
    H: FnMut(&Unit, Option<&mut basic::Ack>) + Send + 'static,
{
    fault(move || {
        let mut act = make();
        move |passing, out: &mut Out| match passing {
            Passing::Server(mut unit) => {
                let mut ack = unit.typed::<basic::Ack>();
                act(&unit, ack.as_mut());
                if let Some(ack) = ack {
                    unit.frames[0] = method_frame(unit.channel, &ack);
                }
                out.tell_client(&unit);
            }
            passing => out.pass(passing),
        }
    })
}

fn numbering() -> Vec<WrongBroker> {
    vec![
        wrong(
            "confirm/numbers-from-the-open",
            rewrites(|it: &mut basic::Ack| it.delivery_tag += 3),
        )
        .caught_by(["confirm/counts-from-the-select"]),
        wrong(
            "confirm/numbers-everything-1",
            rewrites(|it: &mut basic::Ack| it.delivery_tag = 1),
        )
        .caught_by(["confirm.select/twice-is-fine", "confirm/thousand-in-flight"]),
        wrong("confirm/numbers-for-the-whole-connection", {
            acks(|| {
                |unit, ack| {
                    if let Some(ack) = ack.filter(|_| unit.channel == 2) {
                        ack.delivery_tag += 2;
                    }
                }
            })
        })
        .caught_by(["confirm/numbers-belong-to-the-channel"]),
        wrong("confirm/numbers-go-on-after-the-close", {
            acks(|| {
                let (mut highest, mut before) = (0, 0);
                move |unit, ack| {
                    if unit.id() == Some(MethodId::CHANNEL_CLOSE_OK) {
                        before = highest;
                    }
                    if let Some(ack) = ack {
                        ack.delivery_tag += before;
                        highest = ack.delivery_tag;
                    }
                }
            })
        })
        .caught_by(["confirm/numbers-begin-anew-with-the-channel"]),
    ]
}

fn settling() -> Vec<WrongBroker> {
    vec![
        wrong("confirm/confirms-twice", duplicates(MethodId::BASIC_ACK)).caught_by([
            "confirm/thousand-in-flight",
            "confirm/acked-when-every-queue-has-it",
        ]),
        wrong("confirm/never-nacks", {
            fault(|| {
                |passing, out: &mut Out| match passing {
                    Passing::Server(unit) => match unit.typed::<basic::Nack>() {
                        Some(nack) => {
                            let ack = basic::Ack {
                                delivery_tag: nack.delivery_tag,
                                multiple: nack.multiple,
                                ..Default::default()
                            };
                            out.tell_client(&Unit::method(unit.channel, &ack));
                        }
                        None => out.tell_client(&unit),
                    },
                    passing => out.pass(passing),
                }
            })
        })
        .caught_by(["confirm/nack-concerns-its-own-message"]),
        wrong("confirm/nacks-what-goes-nowhere", {
            replaces(MethodId::CHANNEL_CLOSE, || basic::Nack {
                delivery_tag: 1,
                ..Default::default()
            })
        })
        .caught_by(["confirm/404-ends-the-channel"]),
        wrong("confirm/confirms-unasked", {
            client(|channel, it: basic::Publish<'static>, out| {
                out.tell_server(&method_frame(channel, &it));
                let ack = basic::Ack {
                    delivery_tag: 1,
                    ..Default::default()
                };
                out.tell_client(&Unit::method(channel, &ack));
            })
        })
        .caught_by(["confirm/none-without-select"]),
    ]
}
