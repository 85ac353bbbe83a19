use super::*;

/// What RabbitMQ 3.10, 4.0 and 4.3 propose by default.
const RABBITMQ: Tune = Tune {
    channel_max: 2047,
    frame_max: 131_072,
    heartbeat: 60,
};

fn agreed(server: Tune, ours: Wanted) -> Negotiated {
    negotiate(server, ours).expect("both sides are within the protocol")
}

#[test]
fn without_wishes_the_servers_values_hold() {
    assert_eq!(
        agreed(RABBITMQ, Wanted::default()),
        Negotiated {
            channel_max: 2047,
            frame_max: 131_072,
            heartbeat: 60
        }
    );
}

#[test]
fn channel_max_is_the_smaller_limit_and_zero_is_no_limit() {
    for (server, ours, expected) in [
        (2047, 0, 2047),
        (2047, 100, 100),
        (2047, 5000, 2047),
        (0, 100, 100),
        (0, 0, 65_535),
        (1, 0, 1),
        (65_535, 65_535, 65_535),
    ] {
        let server = Tune {
            channel_max: server,
            ..RABBITMQ
        };
        let ours = Wanted {
            channel_max: ours,
            ..Default::default()
        };
        assert_eq!(
            agreed(server, ours).channel_max,
            expected,
            "{server:?} {ours:?}"
        );
    }
}

#[test]
fn frame_max_is_the_smaller_limit_and_zero_is_no_limit() {
    for (server, ours, expected) in [
        (131_072, 0, 131_072),
        (131_072, 8192, 8192),
        (131_072, 4_000_000, 131_072),
        (0, 8192, 8192),
        // A limit of the user's own is kept, above the cap too.
        (0, 4_000_000, 4_000_000),
        (4096, 0, 4096),
        // Nobody wants to hold a frame of 4 GiB.
        (0, 0, 1_048_576),
        (u32::MAX, 0, 1_048_576),
        (u32::MAX, u32::MAX, u32::MAX),
    ] {
        let server = Tune {
            frame_max: server,
            ..RABBITMQ
        };
        let ours = Wanted {
            frame_max: ours,
            ..Default::default()
        };
        assert_eq!(
            agreed(server, ours).frame_max,
            expected,
            "{server:?} {ours:?}"
        );
    }
}

#[test]
fn a_frame_max_below_the_protocols_minimum_is_refused_on_either_side() {
    for frame_max in [1, 8, 4095] {
        assert_eq!(
            negotiate(
                Tune {
                    frame_max,
                    ..RABBITMQ
                },
                Wanted::default()
            ),
            Err(NegotiateError::ServerFrameMax { frame_max })
        );
        assert_eq!(
            negotiate(
                RABBITMQ,
                Wanted {
                    frame_max,
                    ..Default::default()
                }
            ),
            Err(NegotiateError::WantedFrameMax { frame_max })
        );
    }
}

#[test]
fn heartbeat_takes_the_other_sides_value_for_none_and_else_the_smaller() {
    let seconds = Heartbeat::from;
    for (server, ours, expected) in [
        (60, Heartbeat::ServerChoice, 60),
        (0, Heartbeat::ServerChoice, 0),
        (60, Heartbeat::Off, 0),
        (0, Heartbeat::Off, 0),
        (60, seconds(10), 10),
        (60, seconds(600), 60),
        (0, seconds(10), 10),
        (1, seconds(u16::MAX), 1),
    ] {
        let server = Tune {
            heartbeat: server,
            ..RABBITMQ
        };
        let ours = Wanted {
            heartbeat: ours,
            ..Default::default()
        };
        assert_eq!(
            agreed(server, ours).heartbeat,
            expected,
            "{server:?} {ours:?}"
        );
    }
}

#[test]
fn zero_seconds_is_off() {
    assert_eq!(Heartbeat::from(0), Heartbeat::Off);
}

#[test]
fn a_heartbeat_in_words() {
    let shown = [Heartbeat::ServerChoice, Heartbeat::Off, Heartbeat::from(7)];
    let shown = shown.map(|heartbeat| heartbeat.to_string());
    assert_eq!(shown, ["as the server proposes", "off", "7 s"]);
}

#[test]
fn the_intervals_are_half_and_double() {
    let negotiated = |heartbeat| Negotiated {
        channel_max: 1,
        frame_max: 4096,
        heartbeat,
    };
    assert_eq!(
        negotiated(1).send_heartbeat_after(),
        Some(Duration::from_millis(500))
    );
    assert_eq!(
        negotiated(1).peer_gone_after(),
        Some(Duration::from_secs(2))
    );
    assert_eq!(
        negotiated(65_535).peer_gone_after(),
        Some(Duration::from_secs(131_070))
    );
    assert_eq!(negotiated(0).send_heartbeat_after(), None);
    assert_eq!(negotiated(0).peer_gone_after(), None);
}
