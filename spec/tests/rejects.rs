//! The loader takes the data as it is and refuses what is wrong with it.

use amqp_spec::{BASE, LoadError, RABBITMQ, load};

#[test]
fn the_data_loads() {
    let (spec, layer) = load(BASE, RABBITMQ).expect("the data is good");
    assert_eq!(spec.classes.len(), 7);
    assert!(spec.method("connection.update-secret").is_some());
    assert_eq!(layer.capabilities.len(), 9);
}

/// Puts `to` in place of the first `from` of a text.
fn edit(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "the data has no {from:?}");
    text.replacen(from, to, 1)
}

/// What the loader says to the specification with `from` replaced by `to`.
#[track_caller]
fn base(from: &str, to: &str) -> LoadError {
    load(&edit(BASE, from, to), RABBITMQ).expect_err("it is wrong")
}

/// What the loader says to the layer with `from` replaced by `to`.
#[track_caller]
fn layer(from: &str, to: &str) -> LoadError {
    load(BASE, &edit(RABBITMQ, from, to)).expect_err("it is wrong")
}

/// What the loader says to the specification and more methods for its last class, tx.
#[track_caller]
fn with_methods(more: &str) -> LoadError {
    load(&format!("{BASE}\n{more}"), RABBITMQ).expect_err("it is wrong")
}

#[test]
fn whatever_is_not_described() {
    assert!(empty_each("doc", BASE, |emptied| load(emptied, RABBITMQ).err()) > 200);
    for key in ["doc", "reason", "text", "announced"] {
        let cases = empty_each(key, RABBITMQ, |emptied| load(BASE, emptied).err());
        assert!(cases > 8, "{key} is there {cases} times");
    }
}

/// Empties each string of that key in turn, expects the loader to object, and returns how many there were.
fn empty_each(key: &str, text: &str, load: impl Fn(&str) -> Option<LoadError>) -> usize {
    let key = format!("{key} = \"");
    let mut cases = 0;
    for (at, _) in text.match_indices(&key) {
        let (before, after) = text.split_at(at + key.len());
        let end = after.find('"').expect("the string ends");
        let error = load(&format!("{before}{}", &after[end..]));
        let line = before.lines().count();
        assert!(
            matches!(error, Some(LoadError::Undescribed(_))),
            "{key} in line {line}: {error:?}"
        );
        cases += 1;
    }
    cases
}

macro_rules! refuses {
    ($($name:ident: $error:expr => $pattern:pat $(if $guard:expr)?,)*) => {$(
        #[test]
        fn $name() {
            let error = $error;
            assert!(matches!(&error, $pattern $(if $guard)?), "{error}");
        }
    )*};
}

refuses! {
    text_that_is_no_toml: base("[protocol]", "[protocol") => LoadError::Toml { file: "amqp-0-9-1.toml", .. },
    a_key_that_nobody_reads: base("major = 0", "major = 0\nlarge = 0") => LoadError::Toml { .. },
    a_type_that_does_not_exist: base(r#"type = "short""#, r#"type = "shrt""#) => LoadError::Toml { .. },
    a_number_beyond_its_range: base("value = 541", "value = 65541") => LoadError::Toml { .. },

    a_constant_twice: base(r#"name = "not-found""#, r#"name = "not-allowed""#)
        => LoadError::Duplicate { what: "constant", name } if name == "not-allowed",
    a_value_twice: base("value = 404", "value = 405")
        => LoadError::DuplicateNumber { what: "constant", name, value: 405 } if name == "resource-locked",
    a_domain_twice: base(r#"name = "no-ack""#, r#"name = "no-wait""#)
        => LoadError::Duplicate { what: "domain", .. },
    a_class_twice: base(r#"name = "tx""#, r#"name = "basic""#)
        => LoadError::Duplicate { what: "class", .. },
    a_class_number_twice: base("id = 90\nhandler", "id = 60\nhandler")
        => LoadError::DuplicateNumber { what: "class", name, value: 60 } if name == "tx",
    a_method_twice: with_methods(
        "[[class.method]]\nname = 'select'\nid = 99\nto-server = 'must'\ndoc = 'x'"
    ) => LoadError::Duplicate { what: "method", name } if name == "tx.select",
    a_method_number_twice: with_methods(
        "[[class.method]]\nname = 'other'\nid = 30\nto-server = 'must'\ndoc = 'x'"
    ) => LoadError::DuplicateNumber { what: "method", name, value: 30 } if name == "tx.other",
    a_field_twice: base(r#"{ name = "prefetch-size""#, r#"{ name = "prefetch-count""#)
        => LoadError::Duplicate { what: "field", name } if name == "basic.qos.prefetch-count",
    a_reply_twice: base(r#"["get-ok", "get-empty"]"#, r#"["get-ok", "get-ok"]"#)
        => LoadError::Duplicate { what: "reply", .. },

    a_name_in_capitals: base(r#"name = "frame-end""#, r#"name = "FRAME-END""#)
        => LoadError::BadName(name) if name == "FRAME-END",
    a_name_that_begins_with_a_digit: base(r#"name = "frame-end""#, r#"name = "3-frame""#)
        => LoadError::BadName(_),
    an_empty_name: base(r#"name = "frame-end""#, r#"name = """#) => LoadError::BadName(_),
    an_unknown_domain: base(r#"domain = "peer-properties""#, r#"domain = "properties""#)
        => LoadError::UnknownDomain { field, domain }
            if field == "connection.start.server-properties" && domain == "properties",
    a_comparison_with_nothing: base("tune.channel-max", "tune.channels")
        => LoadError::UnknownComparison { other, .. } if other == "tune.channels",

    a_reply_that_does_not_exist: base(r#"replies = ["secure-ok"]"#, r#"replies = ["secured"]"#)
        => LoadError::UnknownReply { method, reply } if method == "connection.secure" && reply == "secured",
    a_reply_in_the_same_direction: base(r#"replies = ["secure-ok"]"#, r#"replies = ["open-ok"]"#)
        => LoadError::ReplyDirection { method, .. } if method == "connection.secure",
    a_reply_nobody_waits_for: with_methods(
        "[[class.method]]\nname = 'other'\nid = 40\nto-server = 'must'\nreplies = ['select-ok']\ndoc = 'x'"
    ) => LoadError::ReplyToAsynchronous(method) if method == "tx.other",
    a_method_nobody_sends: with_methods("[[class.method]]\nname = 'other'\nid = 40\ndoc = 'x'")
        => LoadError::NoDirection(method) if method == "tx.other",
    content_in_a_class_without_properties: with_methods(
        "[[class.method]]\nname = 'other'\nid = 40\nto-server = 'must'\ncontent = true\ndoc = 'x'"
    ) => LoadError::ContentWithoutProperties(method) if method == "tx.other",
    bits_in_two_places: base(
        r#"{ name = "prefetch-size", domain = "long""#, r#"{ name = "prefetch-size", domain = "bit""#,
    ) => LoadError::ScatteredBits(method) if method == "basic.qos",
    more_bits_than_an_octet_has: base(
        r#"{ name = "mandatory", domain = "bit", "#,
        &("0123456".chars().map(|n| format!("{{ name = 'bit-{n}', domain = 'bit', doc = 'x' }},")).collect::<String>()
            + r#"{ name = "mandatory", domain = "bit", "#),
    ) => LoadError::ScatteredBits(method) if method == "basic.publish",
    a_bit_among_the_properties: base(
        r#"{ name = "priority", domain = "octet""#, r#"{ name = "priority", domain = "bit""#,
    ) => LoadError::Properties(class) if class == "basic",
    more_properties_than_flags: base(
        r#"{ name = "priority", domain = "octet""#,
        r#"{ name = "a", domain = "octet", doc = "x" }, { name = "b", domain = "octet", doc = "x" },
           { name = "priority", domain = "octet""#,
    ) => LoadError::Properties(class) if class == "basic",
    a_method_without_documentation: with_methods(
        "[[class.method]]\nname = 'other'\nid = 40\nto-server = 'must'\ndoc = ' '"
    ) => LoadError::Undescribed(path) if path == "tx.other",

    a_layer_that_is_no_toml: layer("name =", "name") => LoadError::Toml { file: "rabbitmq.toml", .. },
    an_unknown_change: layer("replace-field", "remove-field") => LoadError::Toml { .. },
    a_property_twice: base(r#"{ name = "app-id""#, r#"{ name = "user-id""#)
        => LoadError::Duplicate { what: "field", name } if name == "basic.user-id",
    a_property_of_an_unknown_domain: base(
        r#"{ name = "app-id", domain = "shortstr""#, r#"{ name = "app-id", domain = "string""#,
    ) => LoadError::UnknownDomain { field, .. } if field == "basic.app-id",
    behaviour_twice: layer(r#"at = "basic.user-id""#, r#"at = "basic.expiration""#)
        => LoadError::Duplicate { what: "behaviour", .. },
    a_peer_property_twice: layer(r#"key = "platform""#, r#"key = "version""#)
        => LoadError::Duplicate { what: "peer property", .. },
    a_tag_of_nobody: layer(
        "specification = \"16-bit signed integer\"\nreason", "reason",
    ) => LoadError::FieldTag { tag: 'U', .. },
    a_deviation_without_its_reason: layer(
        r#"reason = "Exchanges can be bound to exchanges (capability exchange_exchange_bindings).""#,
        r#"reason = """#,
    ) => LoadError::Undescribed(_),
    a_change_to_a_method_that_does_not_exist: layer(r#"method = "basic.ack""#, r#"method = "basic.akc""#)
        => LoadError::UnknownTarget { path, .. } if path == "basic.akc",
    a_change_to_a_field_that_does_not_exist: layer(r#"field = "reserved-3""#, r#"field = "reserved-4""#)
        => LoadError::UnknownTarget { path, .. } if path == "exchange.declare.reserved-4",
    a_change_to_a_property_that_does_not_exist: layer(r#"property = "reserved""#, r#"property = "cluster""#)
        => LoadError::UnknownTarget { path, .. } if path == "basic.cluster",
    methods_for_a_class_that_does_not_exist: layer(r#"class = "exchange""#, r#"class = "exchanges""#)
        => LoadError::UnknownTarget { path, .. } if path == "exchanges",
    a_deviation_that_changes_nothing: layer(
        "method = \"basic.ack\"\nto-client = \"must\"", "method = \"basic.ack\"\nto-server = \"must\"",
    ) => LoadError::NoDeviation { reason, .. } if reason.contains("acknowledges publishes"),
    a_method_the_specification_has: layer("name = \"nack\"\nid = 120", "name = \"reject\"\nid = 120")
        => LoadError::Duplicate { what: "method", name } if name == "basic.reject",
    a_number_the_specification_has: layer("name = \"nack\"\nid = 120", "name = \"nack\"\nid = 90")
        => LoadError::DuplicateNumber { what: "method", name, value: 90 } if name == "basic.nack",
    behaviour_of_nothing: layer(r#"at = "basic.expiration""#, r#"at = "basic.expires""#)
        => LoadError::UnknownTarget { path, .. } if path == "basic.expires",
    an_argument_of_nothing: layer(r#"on = ["exchange.declare.arguments"]"#, r#"on = ["exchange.arguments"]"#)
        => LoadError::UnknownTarget { path, .. } if path == "exchange.arguments",
    an_argument_twice: layer(r#"key = "x-expires""#, r#"key = "x-message-ttl""#)
        => LoadError::Duplicate { what: "argument", .. },
    an_argument_of_nobody: layer(r#"on = ["queue.declare.arguments"]"#, "on = []")
        => LoadError::Undescribed(_),
    a_capability_twice: layer(r#"key = "basic.nack""#, r#"key = "publisher_confirms""#)
        => LoadError::Duplicate { what: "capability", .. },
    a_tag_twice: layer(r#"tag = "b""#, r#"tag = "t""#) => LoadError::Duplicate { what: "field tag", .. },
    a_tag_that_differs_without_reason: layer(
        r#"rabbitmq = "8-bit signed integer""#, r#"rabbitmq = "8-bit unsigned integer""#,
    ) => LoadError::FieldTag { tag: 'b', .. },
    a_tag_of_two_letters: layer(r#"tag = "b""#, r#"tag = "bb""#) => LoadError::Toml { .. },
}
