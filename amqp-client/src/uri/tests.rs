use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::auth::Sasl;
use crate::config::{ServerName, Verify};

fn parse(text: &str) -> Uri {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> UriError {
    match text.parse::<Uri>() {
        Ok(uri) => panic!("{text} was taken for {uri}"),
        Err(error) => error,
    }
}

/// User name, password, host, port, virtual host.
type Parts<'a> = (
    Option<&'a str>,
    Option<&'a str>,
    Option<&'a str>,
    Option<u16>,
    Option<&'a str>,
);

fn parts(uri: &Uri) -> Parts<'_> {
    let password = uri
        .password()
        .map(|password| std::str::from_utf8(password.reveal()).expect("a URI's password is UTF-8"));
    (
        uri.username(),
        password,
        uri.host(),
        uri.port(),
        uri.vhost(),
    )
}

#[test]
fn absent_and_empty_are_kept_apart_in_every_part() {
    for (text, expected) in [
        ("amqp://", (None, None, None, None, None)),
        ("amqp:///", (None, None, None, None, Some(""))),
        ("amqp:///vhost", (None, None, None, None, Some("vhost"))),
        ("amqp://@", (Some(""), None, None, None, None)),
        ("amqp://:@", (Some(""), Some(""), None, None, None)),
        ("amqp://:@/", (Some(""), Some(""), None, None, Some(""))),
        ("amqp://user@", (Some("user"), None, None, None, None)),
        ("amqp://user:@", (Some("user"), Some(""), None, None, None)),
        ("amqp://:pass@", (Some(""), Some("pass"), None, None, None)),
        (
            "amqp://user:pass@",
            (Some("user"), Some("pass"), None, None, None),
        ),
        (
            "amqp://user@:5673/",
            (Some("user"), None, None, Some(5673), Some("")),
        ),
        ("amqp://host", (None, None, Some("host"), None, None)),
        ("amqp://host/", (None, None, Some("host"), None, Some(""))),
        (
            "amqp://host/%2f",
            (None, None, Some("host"), None, Some("/")),
        ),
        ("amqp://host:/", (None, None, Some("host"), None, Some(""))),
        ("amqp://:10000", (None, None, None, Some(10000), None)),
        ("amqp://host?", (None, None, Some("host"), None, None)),
    ] {
        assert_eq!(parts(&parse(text)), expected, "{text}");
    }
}

#[test]
fn every_part_is_percent_decoded_once() {
    let uri = parse("amqp://us%65r%3A:p%40%2F%25%3f@ho%73t:10000/v%2Fh%6Fst");
    assert_eq!(
        parts(&uri),
        (
            Some("user:"),
            Some("p@/%?"),
            Some("host"),
            Some(10000),
            Some("v/host")
        )
    );
    assert_eq!(parse("amqp://host/%2525").vhost(), Some("%25"));
    assert_eq!(parse("amqp://host/%C3%A5").vhost(), Some("\u{e5}"));
    assert_eq!(parse("amqp://host/\u{e5}").vhost(), Some("\u{e5}"));
    assert_eq!(parse("amqp://host/a%00b").vhost(), Some("a\0b"));
}

#[test]
fn plus_is_a_plus() {
    let uri = parse("amqps://a+b:c+d@host/e+f?cacertfile=/g++/ca.pem");
    assert_eq!(
        parts(&uri),
        (Some("a+b"), Some("c+d"), Some("host"), None, Some("e+f"))
    );
    assert_eq!(uri.parameters().cacertfile.as_deref(), Some("/g++/ca.pem"));
}

#[test]
fn a_virtual_host_may_look_like_a_relative_path() {
    for (text, vhost) in [
        ("amqp://host/.", "."),
        ("amqp://host/..", ".."),
        ("amqp://host/%2e%2E", ".."),
        ("amqp://host/.%2f..", "./.."),
        ("amqp://host/a:b@c", "a:b@c"),
        ("amqp://host/a\\b", "a\\b"),
    ] {
        assert_eq!(parse(text).vhost(), Some(vhost), "{text}");
    }
}

#[test]
fn only_the_first_colon_and_the_last_at_sign_divide() {
    let uri = parse("amqp://user:a:b@c@host/");
    assert_eq!(
        parts(&uri),
        (Some("user"), Some("a:b@c"), Some("host"), None, Some(""))
    );
    let uri = parse("amqp://a@:x@host");
    assert_eq!(
        parts(&uri),
        (Some("a@"), Some("x"), Some("host"), None, None)
    );
}

#[test]
fn schemes_have_their_ports_and_any_case() {
    for (text, scheme, port) in [
        ("amqp://h", Scheme::Amqp, 5672),
        ("AMQP://h", Scheme::Amqp, 5672),
        ("amqps://h", Scheme::Amqps, 5671),
        ("AmqpS://h", Scheme::Amqps, 5671),
    ] {
        let uri = parse(text);
        assert_eq!(
            (uri.scheme(), uri.scheme().default_port()),
            (scheme, port),
            "{text}"
        );
    }
    for text in [
        "",
        "amqp",
        "amqp:",
        "amqp:host",
        "amqp:/host",
        "//host",
        "http://host",
        "amqpx://host",
        "://h",
    ] {
        assert_eq!(error(text), UriError::Scheme, "{text}");
    }
}

#[test]
fn hosts_are_names_and_addresses() {
    for (text, host) in [
        ("amqp://127.0.0.1", "127.0.0.1"),
        ("amqp://[::1]", "::1"),
        ("amqp://[2001:DB8:0:0::7]:5673/x", "2001:db8::7"),
        ("amqp://[::ffff:10.0.0.1]", "::ffff:a00:1"),
        ("amqp://rabbit_mq", "rabbit_mq"),
        ("amqp://Rabbit-1.example.COM.", "Rabbit-1.example.COM."),
        ("amqp://b%C3%BCcher.example", "xn--bcher-kva.example"),
        ("amqp://b\u{fc}cher.example", "xn--bcher-kva.example"),
        // Not an address in any notation but a browser's.
        ("amqp://0x7f.1", "0x7f.1"),
        ("amqp://2130706433", "2130706433"),
    ] {
        assert_eq!(parse(text).host(), Some(host), "{text}");
    }
}

#[test]
fn hosts_that_are_neither_are_refused() {
    for text in [
        "amqp://::1",
        "amqp://fe80::1:5672/",
        "amqp://[::1",
        "amqp://::1]",
        "amqp://[]",
        "amqp://[host]",
        "amqp://[127.0.0.1]",
        "amqp://[1::2::3]",
        "amqp://[%3A%3A1]",
        "amqp://[::1]x",
        "amqp://x[::1]",
        "amqp://%3A%3A1",
        "amqp://%5B::1%5D",
        "amqp://a%2Fb",
        "amqp://a%40b",
        "amqp://a%20b",
        "amqp://a%00b",
        "amqp://a%0Ab",
        "amqp://a%25b",
        "amqp://a|b",
        "amqp://a<b>",
        "amqp://a\\b",
        "amqp://a^b",
        "amqp://a\"b",
    ] {
        let error = error(text);
        assert!(
            matches!(error, UriError::Host | UriError::Port),
            "{text}: {error:?}"
        );
    }
}

#[test]
fn ports_are_from_1_to_65535() {
    assert_eq!(parse("amqp://h:65535").port(), Some(65535));
    assert_eq!(parse("amqp://h:05672").port(), Some(5672));
    for text in [
        "amqp://h:0",
        "amqp://h:65536",
        "amqp://h:x",
        "amqp://h:-1",
        "amqp://h:+1",
        "amqp://h:5672x",
    ] {
        assert_eq!(error(text), UriError::Port, "{text}");
    }
}

#[test]
fn a_path_of_several_segments_is_refused() {
    for text in [
        "amqp://host/a/b",
        "amqp://host//",
        "amqp://host/a/",
        "amqp:////a",
        "amqp://host/./a",
    ] {
        assert_eq!(error(text), UriError::PathSegments, "{text}");
    }
}

#[test]
fn what_is_not_utf8_or_not_percent_encoding_is_named_by_its_part() {
    for (text, part) in [
        ("amqp://%FF@host", Part::Username),
        ("amqp://u:%C3@host", Part::Password),
        ("amqp://%FF", Part::Host),
        ("amqp://host/%ED%A0%80", Part::VirtualHost),
        ("amqps://host/?cacertfile=%80", Part::Query),
        ("amqp://host/?%80=1", Part::Query),
    ] {
        assert_eq!(error(text), UriError::Utf8 { part }, "{text}");
    }
    for (text, part) in [
        ("amqp://%@host", Part::Username),
        ("amqp://u:%4@host", Part::Password),
        ("amqp://h%zz", Part::Host),
        ("amqp://host/%f", Part::VirtualHost),
        ("amqp://host/%+1", Part::VirtualHost),
        ("amqp://host/%\u{e5}", Part::VirtualHost),
        ("amqps://host/?cacertfile=%", Part::Query),
    ] {
        assert_eq!(error(text), UriError::PercentEncoding { part }, "{text}");
    }
}

#[test]
fn a_virtual_host_fits_into_a_short_string() {
    let uri = |len| format!("amqp://host/{}", "%41".repeat(len));
    assert_eq!(parse(&uri(255)).vhost().map(str::len), Some(255));
    assert_eq!(error(&uri(256)), UriError::VirtualHostTooLong { len: 256 });
}

#[test]
fn white_space_control_characters_and_fragments_are_refused() {
    for (text, offset) in [
        (" amqp://host", 0),
        ("amqp://host ", 11),
        ("amqp://ho\tst", 9),
        ("amqp://u:p\n@host", 10),
        ("amqp://host/\u{7f}", 12),
        ("amqp://host/\0", 12),
    ] {
        assert_eq!(error(text), UriError::Character { offset }, "{text:?}");
    }
    for text in [
        "amqp://host#",
        "amqp://host/v#x",
        "amqp://host/?heartbeat=1#x",
    ] {
        assert_eq!(error(text), UriError::Fragment, "{text}");
    }
}

#[test]
fn all_parameters() {
    let uri = parse(
        "amqps://host/?heartbeat=5&connection_timeout=10000&channel_max=100&frame_max=8192\
         &auth_mechanism=external&auth_mechanism=PLAIN&cacertfile=/ca%26.pem&certfile=/c.pem\
         &keyfile=k.pem&verify=verify_peer&server_name_indication=other",
    );
    assert_eq!(
        uri.parameters(),
        &Parameters {
            heartbeat: Some(5),
            connection_timeout: Some(Duration::from_secs(10)),
            channel_max: Some(100),
            frame_max: Some(8192),
            auth_mechanisms: vec![Sasl::External, Sasl::Plain],
            cacertfile: Some("/ca&.pem".to_owned()),
            certfile: Some("/c.pem".to_owned()),
            keyfile: Some("k.pem".to_owned()),
            verify: Some(Verify::Peer),
            server_name_indication: Some(ServerName::Name("other".to_owned())),
        }
    );
    let uri = parse("amqps://host?verify=verify_none&server_name_indication=disable");
    assert_eq!(uri.parameters().verify, Some(Verify::None));
    assert_eq!(
        uri.parameters().server_name_indication,
        Some(ServerName::Disabled)
    );
    assert_eq!(
        parse("amqp://host?&&heartb%65at=%30&")
            .parameters()
            .heartbeat,
        Some(0)
    );
    assert_eq!(parse("amqp://host/").parameters(), &Parameters::default());
}

#[test]
fn parameters_out_of_range_are_named() {
    let faulty = [
        (
            "heartbeat",
            &["", "65536", "-1", "+1", "1.5", "5s", "0x5"][..],
        ),
        (
            "connection_timeout",
            &["", "0", "4294967296", "-1", "infinity"],
        ),
        ("channel_max", &["", "65536", "all"]),
        ("frame_max", &["", "1", "4095", "4294967296"]),
        (
            "auth_mechanism",
            &["", "plain2", "plain,external", "scram-sha-256"],
        ),
        ("cacertfile", &[""]),
        ("certfile", &[""]),
        ("keyfile", &[""]),
        ("verify", &["", "peer", "true", "VERIFY_NONE"]),
        ("server_name_indication", &[""]),
    ];
    for (name, values) in faulty {
        for value in values {
            let error = error(&format!("amqps://host/?{name}={value}"));
            assert!(
                matches!(error, UriError::ParameterValue { name: named, .. } if named == name),
                "{name}={value}: {error:?}"
            );
            assert!(error.to_string().contains(name), "{error}");
        }
    }
    for value in ["0", "4096", "4294967295"] {
        parse(&format!("amqp://host/?frame_max={value}"));
    }
}

#[test]
fn repeated_and_unknown_parameters_are_named() {
    for (query, name) in [
        ("heartbeat=5&heartbeat=5", "heartbeat"),
        (
            "connection_timeout=5&channel_max=1&connection_timeout=6",
            "connection_timeout",
        ),
        ("channel_max=1&channel_max=1", "channel_max"),
        ("frame_max=0&frame_max=0", "frame_max"),
        (
            "auth_mechanism=plain&auth_mechanism=plain",
            "auth_mechanism",
        ),
        ("cacertfile=a&cacertfile=b", "cacertfile"),
        ("verify=verify_none&verify=verify_peer", "verify"),
        (
            "server_name_indication=a&server_name_indication=disable",
            "server_name_indication",
        ),
    ] {
        let error = error(&format!("amqps://host/?{query}"));
        assert_eq!(error, UriError::RepeatedParameter { name }, "{query}");
    }
    for name in [
        "hartbeat",
        "Heartbeat",
        "heartbeat[]",
        "password",
        "depth",
        "",
    ] {
        let error = error(&format!("amqps://host/?{name}=5"));
        assert_eq!(
            error,
            UriError::UnknownParameter {
                name: name.to_owned()
            }
        );
    }
}

#[test]
fn tls_parameters_without_tls_are_refused() {
    for (name, value) in [
        ("cacertfile", "a"),
        ("certfile", "a"),
        ("keyfile", "a"),
        ("verify", "verify_none"),
        ("server_name_indication", "a"),
    ] {
        let error = error(&format!("amqp://host/?{name}={value}"));
        assert_eq!(error, UriError::TlsParameter { name });
    }
}

#[test]
fn the_password_is_masked_unless_asked_for() {
    let uri =
        parse("amqps://user:hunter%322@[::1]:1234/%2f?verify=verify_none&auth_mechanism=plain");
    let masked = "amqps://user:***@[::1]:1234/%2F?verify=verify_none&auth_mechanism=plain";
    assert_eq!(uri.to_string(), masked);
    assert_eq!(format!("{uri:?}"), format!("Uri({masked})"));
    assert_eq!(uri.with_password(), masked.replace("***", "hunter22"));
}

/// Passwords with unescaped `/`, `?` and `#` are cut in two by every URI parser; the halves stay
/// out of the error.
#[test]
fn no_error_shows_a_part_of_a_password() {
    for text in [
        "amqp://user:12?hunter2@host",
        "amqp://user:12?x=1&hunter2@host",
        "amqp://user:12/x?hunter2=@host/",
        "amqp://user:12/hunter2@host",
        "amqp://user:12/hunter2@host?heartbeat=3",
        "amqp://user:hunter2/3@host",
        "amqp://user:hunter2#3@host",
        "amqp://user:hunter2?heartbeat=x@host",
        "amqp://user@corp:hunter2?3@host",
    ] {
        let error = error(text);
        assert_eq!(error, UriError::UnescapedUserInfo, "{text}");
    }
    for text in [
        "amqp://user:hunter2%@host",
        "amqp://user:hunter2%FF@host",
        "amqp://user:hunter2@ho|st",
        "amqp://user:hunter2@host:x",
        "amqp://user:hunter2@host/a/b",
        "amqp://user:hunter2@host?x=1",
        "amqp://user:hunter2@host?heartbeat=x",
        "amqp://user:hunter2",
        "amqp://user:hunter2 @host",
        "http://user:hunter2@host",
    ] {
        let error = error(text);
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("hunter"), "{shown}");
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-z.%/:@?#\\[\\]+& ]{0,12}",
        Just(".".to_owned()),
        Just("..".to_owned())
    ]
}

fn any_host() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Za-z0-9._~!$&'()*+,;=-]{1,40}",
        any::<std::net::Ipv4Addr>().prop_map(|address| address.to_string()),
        any::<[u8; 16]>().prop_map(|bytes| {
            match url::Host::parse(&format!("[{}]", std::net::Ipv6Addr::from(bytes))) {
                // In the one notation `url` writes.
                Ok(url::Host::Ipv6(_)) => url::Host::<String>::Ipv6(bytes.into())
                    .to_string()
                    .trim_matches(['[', ']'])
                    .to_owned(),
                other => panic!("an IPv6 address is one: {other:?}"),
            }
        }),
    ]
}

prop_compose! {
    fn any_parameters()(
        heartbeat: Option<u16>,
        connection_timeout in proptest::option::of(1..=u32::MAX),
        channel_max: Option<u16>,
        frame_max in proptest::option::of(prop_oneof![Just(0), 4096..=u32::MAX]),
        auth_mechanisms in proptest::sample::subsequence(
            vec![Sasl::AmqPlain, Sasl::External, Sasl::Plain, Sasl::Anonymous], 0..=4
        ).prop_shuffle(),
        cacertfile in proptest::option::of(
            any_text().prop_filter("a path", |path| !path.is_empty())
        ),
        certfile in proptest::option::of("[a-z/+&=%]{1,20}"),
        keyfile in proptest::option::of("[a-z/+&=%]{1,20}"),
        verify in proptest::option::of(prop_oneof![Just(Verify::Peer), Just(Verify::None)]),
        server_name_indication in proptest::option::of(prop_oneof![
            Just(ServerName::Disabled),
            "[a-z.]{8,20}".prop_map(ServerName::Name),
        ]),
    ) -> Parameters {
        let connection_timeout = connection_timeout.map(|ms| Duration::from_millis(ms.into()));
        Parameters {
            heartbeat, connection_timeout, channel_max, frame_max, auth_mechanisms,
            cacertfile, certfile, keyfile, verify, server_name_indication,
        }
    }
}

prop_compose! {
    fn any_uri()(
        tls: bool,
        username in proptest::option::of(any_text()),
        password in proptest::option::of(any_text()),
        host in proptest::option::of(any_host()),
        port in proptest::option::of(1..=u16::MAX),
        vhost in proptest::option::of(any_text().prop_filter("a short string", |v| v.len() <= 255)),
        mut parameters in any_parameters(),
    ) -> Uri {
        // A password makes the user name present, if empty.
        let username = if password.is_some() { username.or(Some(String::new())) } else { username };
        if !tls {
            parameters = Parameters {
                cacertfile: None, certfile: None, keyfile: None, verify: None,
                server_name_indication: None,
                ..parameters
            };
        }
        Uri {
            scheme: if tls { Scheme::Amqps } else { Scheme::Amqp },
            username,
            password: password.map(Secret::from),
            host, port, vhost, parameters,
        }
    }
}

proptest! {
    #[test]
    fn any_uri_survives_its_text(uri in any_uri()) {
        let text = uri.with_password();
        prop_assert_eq!(text.parse::<Uri>(), Ok(uri), "{}", text);
    }

    #[test]
    fn the_masked_text_does_not_depend_on_the_password(uri in any_uri(), other in any_text()) {
        let password = uri.password.as_ref().map(|_| Secret::from(other));
        let changed = Uri { password, ..uri.clone() };
        prop_assert_eq!(uri.to_string(), changed.to_string());
        prop_assert_eq!(format!("{uri:?}"), format!("{changed:?}"));
    }

    #[test]
    fn any_string_is_a_uri_or_an_error(text: String) {
        let _ = text.parse::<Uri>();
    }

    #[test]
    fn anything_behind_the_scheme_is_a_uri_or_an_error(
        text in "amqps?://([a-z0-9%@:/?#\\[\\].&=]|heartbeat=|verify=|\\PC){0,24}"
    ) {
        if let Ok(uri) = text.parse::<Uri>() {
            let again = uri.with_password();
            prop_assert_eq!(again.parse::<Uri>(), Ok(uri), "{}", again);
        }
    }
}
