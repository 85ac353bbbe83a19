use super::*;

#[test]
fn defaults() {
    let options = ConnectOptions::new();
    assert_eq!(
        options.addresses_or_default(),
        [("localhost".to_owned(), 5672)]
    );
    assert_eq!(options.virtual_host, "/");
    assert_eq!(options.credentials, Credentials::default());
    assert_eq!(options.wanted(), Wanted::default());
    assert_eq!(options.deadlines.connect, Duration::from_secs(30));
    assert_eq!(options.deadlines.handshake, Duration::from_secs(10));
    assert_eq!(options.validate(), Ok(()));
}

#[test]
fn limits_too_small_for_anything_are_refused() {
    let refused = |limits: Limits| {
        let options = ConnectOptions::new().limits(limits);
        options.validate().map_err(|error| error.to_string())
    };
    let smallest = Limits {
        handshake_bytes: 4096,
        frame_bytes: 4096,
        method_frame_bytes: 4096,
        table_depth: 2,
        table_entries: 0,
        message_bytes: 0,
        assembly_bytes: 0,
        channels: 1,
        undelivered_bytes: 0,
        returned_messages: 0,
        returned_bytes: 0,
        events: 1,
        outgoing_bytes: 0,
        owed_bytes: 0,
        held_answer_bytes: 0,
    };
    assert_eq!(refused(smallest), Ok(()));
    for (limits, says) in [
        (
            Limits {
                handshake_bytes: 4095,
                ..smallest
            },
            "handshake_bytes is below its minimum of 4096",
        ),
        (
            Limits {
                frame_bytes: 4095,
                ..smallest
            },
            "minimum is 4096 bytes",
        ),
        (
            Limits {
                method_frame_bytes: 4095,
                ..smallest
            },
            "method_frame_bytes is below its minimum of 4096",
        ),
        (
            Limits {
                table_depth: 1,
                ..smallest
            },
            "table_depth is below its minimum of 2",
        ),
        (
            Limits {
                events: 0,
                ..smallest
            },
            "0 events",
        ),
        (
            Limits {
                events: 65_537,
                ..smallest
            },
            "65537 events",
        ),
    ] {
        let error = refused(limits).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn the_usual_port_depends_on_tls() {
    let options = ConnectOptions::new().tls(Tls::default());
    assert_eq!(
        options.addresses_or_default(),
        [("localhost".to_owned(), 5671)]
    );
}

#[cfg(not(feature = "rustls"))]
#[test]
fn without_the_feature_tls_is_refused_by_its_name() {
    let error = ConnectOptions::new()
        .tls(Tls::new())
        .validate()
        .unwrap_err();
    assert_eq!(error, ConfigError::Tls(TlsConfigError::FeatureMissing));
    assert!(error.to_string().contains("`rustls`"), "{error}");
}

#[test]
fn addresses_are_kept_in_order() {
    let options = ConnectOptions::new().address("a", 1).address("::1", 2);
    assert_eq!(
        options.addresses_or_default(),
        [("a".to_owned(), 1), ("::1".to_owned(), 2)]
    );
}

#[test]
fn client_properties_announce_what_the_client_understands() {
    let properties = ConnectOptions::new()
        .connection_name("orders")
        .start_ok_properties();
    assert_eq!(properties.get_str("connection_name"), Some("orders"));
    assert_eq!(properties.get_str("product"), Some("amqp-client"));
    assert_eq!(properties.get_str("platform"), Some("Rust"));
    let capabilities = properties.get_table("capabilities").expect("a table");
    for name in [
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "authentication_failure_close",
    ] {
        assert_eq!(capabilities.get_bool(name), Some(true), "{name}");
    }
    assert_eq!(capabilities.len(), 6);
}

#[test]
fn client_properties_of_the_users_own_add_and_replace() {
    let options = ConnectOptions::new()
        .connection_name("first")
        .client_properties(table! { "product" => "shop", "information" => "see the wiki" })
        .connection_name("second");
    let properties = options.start_ok_properties();
    assert_eq!(properties.get_str("product"), Some("shop"));
    assert_eq!(properties.get_str("information"), Some("see the wiki"));
    assert_eq!(properties.get_str("connection_name"), Some("second"));
    let names = properties
        .iter()
        .filter(|(name, _)| name == "product")
        .count();
    assert_eq!(names, 1);
}

#[test]
fn what_cannot_work_is_named() {
    let error = |options: ConnectOptions| options.validate().expect_err("an error");
    assert_eq!(
        error(ConnectOptions::new().virtual_host("v".repeat(256))),
        ConfigError::VirtualHostTooLong { len: 256 }
    );
    assert_eq!(
        error(ConnectOptions::new().locale("l".repeat(300))),
        ConfigError::LocaleTooLong { len: 300 }
    );
    assert_eq!(
        error(ConnectOptions::new().frame_max(4095)),
        ConfigError::FrameMaxTooSmall { frame_max: 4095 }
    );
    let odd = table! { "ratio" => table! { "nested" => f64::NAN } };
    assert_eq!(
        error(ConnectOptions::new().client_properties(odd)),
        ConfigError::NonFiniteProperty
    );
    assert_eq!(
        error(ConnectOptions::new().mechanisms([])),
        ConfigError::NoMechanism
    );
    assert_eq!(
        ConnectOptions::new()
            .virtual_host("v".repeat(255))
            .frame_max(4096)
            .validate(),
        Ok(())
    );
}

#[test]
fn debug_output_hides_the_password() {
    let shown = format!("{:?}", ConnectOptions::new().credentials("bob", "hunter2"));
    assert!(
        shown.contains("bob") && !shown.contains("hunter2"),
        "{shown}"
    );
}

#[cfg(feature = "tokio")]
mod uris {
    use super::*;
    use crate::uri::UriError;

    fn options(uri: &str) -> ConnectOptions {
        ConnectOptions::try_from(uri).unwrap_or_else(|error| panic!("{uri}: {error}"))
    }

    fn mechanisms(options: &ConnectOptions) -> Vec<&str> {
        options
            .mechanisms
            .iter()
            .map(|mechanism| mechanism.name())
            .collect()
    }

    #[test]
    fn an_empty_uri_changes_nothing() {
        let (from_uri, default) = (options("amqp://"), ConnectOptions::new());
        assert_eq!(format!("{from_uri:?}"), format!("{default:?}"));
    }

    #[test]
    fn all_that_a_uri_says_arrives() {
        let options = options(
            "amqps://bob:pw@h/v?heartbeat=0&connection_timeout=1500&channel_max=7&frame_max=8192\
             &auth_mechanism=external&auth_mechanism=plain&cacertfile=ca&certfile=c&keyfile=k\
             &verify=verify_none&server_name_indication=n",
        );
        assert_eq!(options.addresses_or_default(), [("h".to_owned(), 5671)]);
        assert_eq!(options.virtual_host, "v");
        assert_eq!(options.credentials.username, "bob");
        assert_eq!(options.credentials.password.reveal(), b"pw");
        assert_eq!(mechanisms(&options), ["EXTERNAL", "PLAIN"]);
        assert_eq!(options.deadlines.connect, Duration::from_millis(1500));
        assert_eq!(
            options.wanted(),
            Wanted {
                channel_max: 7,
                frame_max: 8192,
                heartbeat: Heartbeat::Off
            }
        );
        let tls = options.tls.expect("amqps asks for TLS");
        assert_eq!(format!("{:?}", tls.roots), r#"["ca"]"#);
        assert_eq!(format!("{:?}", tls.certificate), r#"Some("c")"#);
        assert_eq!(format!("{:?}", tls.key), r#"Some("k")"#);
        assert_eq!(tls.verify, Verify::None);
        assert_eq!(tls.server_name, Some(ServerName::Name("n".to_owned())));
    }

    #[test]
    fn absent_parts_keep_their_defaults_and_empty_ones_do_not() {
        assert_eq!(options("amqp://host").virtual_host, "/");
        assert_eq!(options("amqp://host/").virtual_host, "");
        assert_eq!(
            options("amqp://bob@host").credentials.password.reveal(),
            b"guest"
        );
        assert_eq!(
            options("amqp://bob:@host").credentials.password.reveal(),
            b""
        );
        assert_eq!(options("amqp://:x@host").credentials.username, "");
        assert_eq!(
            options("amqp://:1234").addresses_or_default(),
            [("localhost".to_owned(), 1234)]
        );
        assert_eq!(
            options("amqps://").addresses_or_default(),
            [("localhost".to_owned(), 5671)]
        );
        assert_eq!(
            options("amqp://[::1]").addresses_or_default(),
            [("::1".to_owned(), 5672)]
        );
        assert_eq!(mechanisms(&options("amqp://h")), ["PLAIN", "AMQPLAIN"]);
        let tls = options("amqps://h").tls.expect("amqps asks for TLS");
        assert!(tls.roots.is_empty() && tls.certificate.is_none() && tls.key.is_none());
        assert_eq!((tls.verify, tls.server_name), (Verify::Peer, None));
    }

    #[test]
    fn several_uris_are_addresses_in_order() {
        let uris = ["amqp://u:p@b/v?heartbeat=3", "amqp://u:p@a:1/v?heartbeat=3"];
        let options = ConnectOptions::try_from(uris).expect("they agree");
        let addresses = [("b".to_owned(), 5672), ("a".to_owned(), 1)];
        assert_eq!(options.addresses_or_default(), addresses);
        assert_eq!(options.virtual_host, "v");
        assert_eq!(options.credentials.username, "u");

        let owned = ["amqps://".to_owned(), "amqps://[::1]".to_owned()];
        let options = ConnectOptions::try_from(&owned[..]).expect("they agree");
        let addresses = [("localhost".to_owned(), 5671), ("::1".to_owned(), 5671)];
        assert_eq!(options.addresses_or_default(), addresses);
    }

    #[test]
    fn several_uris_must_agree_on_all_but_the_address() {
        let first = "amqp://u:p@a/v?heartbeat=3";
        for other in [
            "amqps://u:p@b/v?heartbeat=3",
            "amqp://x:p@b/v?heartbeat=3",
            "amqp://u:x@b/v?heartbeat=3",
            "amqp://u@b/v?heartbeat=3",
            "amqp://u:p@b/x?heartbeat=3",
            "amqp://u:p@b?heartbeat=3",
            "amqp://u:p@b/v?heartbeat=4",
            "amqp://u:p@b/v",
        ] {
            let error = ConnectOptions::try_from([first, first, other]).expect_err(other);
            assert_eq!(error, UriError::Differs { number: 3 }, "{other}");
        }
        let error = ConnectOptions::try_from([first, "http://a"]).expect_err("no URI");
        assert_eq!(error, UriError::Scheme);
        let none: [&str; 0] = [];
        let error = ConnectOptions::from_uris(none).expect_err("there is none");
        assert_eq!(error, UriError::None);
    }
}
