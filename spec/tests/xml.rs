//! The data agrees with the machine-readable specifications of Debian's package amqp-specs.
//!
//! Both are turned into lines, one a fact, and compared as sets: nothing may be missing and nothing may be there without
//! need. What RabbitMQ does and that package does not know is marked in rabbitmq.toml (`in-amqp-specs = false`).

use std::collections::BTreeSet;
use std::fs;

use amqp_spec::model::{Assertion, ConstantKind, Field, Handler, Level, Specification, Type};
use amqp_spec::{BASE, RABBITMQ, apply, check, parse_base, parse_layer};
use roxmltree::{Document, Node};

const OFFICIAL: &str = "/usr/share/amqp/specs/0-9-1/amqp0-9-1.stripped.xml";
const EXTENDED: &str = "/usr/share/amqp/specs/0-9-1-rabbit/amqp0-9-1.stripped.extended.xml";

type Facts = BTreeSet<String>;

#[test]
fn the_base_is_the_specification() {
    let base = parse_base(BASE).expect("the base is well-formed");
    compare(&facts(&base), &xml_facts(OFFICIAL));
}

#[test]
fn the_marked_part_of_the_layer_makes_it_the_extended_specification() {
    let mut spec = parse_base(BASE).expect("the base is well-formed");
    let layer = parse_layer(RABBITMQ).expect("the layer is well-formed");
    for deviation in layer
        .deviations
        .iter()
        .filter(|deviation| deviation.in_amqp_specs)
    {
        apply(&mut spec, &layer.name, deviation).expect("it can be applied without the others");
    }
    check(&spec).expect("it makes sense without the others");
    compare(&facts(&spec), &xml_facts(EXTENDED));
}

/// A deviation said to be unknown to amqp-specs must not bring back what the package has anyway.
#[test]
fn the_rest_of_the_layer_is_not_in_the_extended_specification() {
    let mut spec = parse_base(BASE).expect("the base is well-formed");
    let layer = parse_layer(RABBITMQ).expect("the layer is well-formed");
    let xml = xml_facts(EXTENDED);
    let (known, unknown): (Vec<_>, Vec<_>) = layer
        .deviations
        .iter()
        .partition(|deviation| deviation.in_amqp_specs);
    for deviation in known {
        apply(&mut spec, &layer.name, deviation).expect("it can be applied without the others");
    }
    for deviation in unknown {
        let before = facts(&spec);
        apply(&mut spec, &layer.name, deviation).expect("it can be applied in order");
        let added: Facts = facts(&spec).difference(&before).cloned().collect();
        assert!(!added.is_empty(), "adds nothing: {}", deviation.reason);
        let agreed: Vec<_> = added.intersection(&xml).collect();
        assert!(agreed.is_empty(), "amqp-specs has it after all: {agreed:?}");
    }
}

fn compare(ours: &Facts, theirs: &Facts) {
    let missing: Vec<_> = theirs.difference(ours).map(String::as_str).collect();
    let extra: Vec<_> = ours.difference(theirs).map(String::as_str).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "the XML alone says:\n  {}\nthe TOML alone says:\n  {}",
        missing.join("\n  "),
        extra.join("\n  "),
    );
    assert!(
        theirs.len() > 500,
        "only {} facts: the XML was not understood",
        theirs.len()
    );
}

fn facts(spec: &Specification) -> Facts {
    let mut facts = Facts::new();
    let mut say = |fact: String| assert!(facts.insert(fact.clone()), "twice: {fact}");
    let protocol = &spec.protocol;
    say(format!(
        "version {}-{}-{}",
        protocol.major, protocol.minor, protocol.revision
    ));
    say(format!("port {}", protocol.port));
    for constant in &spec.constants {
        say(format!("constant {} = {}", constant.name, constant.value));
        match constant.kind {
            ConstantKind::Soft => say(format!("constant {}: soft-error", constant.name)),
            ConstantKind::Hard => say(format!("constant {}: hard-error", constant.name)),
            ConstantKind::Frame | ConstantKind::Success => {}
        }
    }
    for domain in &spec.domains {
        say(format!(
            "domain {}: {}",
            domain.name,
            type_name(domain.kind)
        ));
        for assertion in &domain.assert {
            say(format!(
                "domain {}: {}",
                domain.name,
                assertion_name(assertion)
            ));
        }
    }
    for class in &spec.classes {
        let at = &class.name;
        say(format!("class {at} = {}", class.id));
        let handler = match class.handler {
            Handler::Connection => "connection",
            Handler::Channel => "channel",
        };
        say(format!("class {at}: handler {handler}"));
        say(format!("class {at}: server {}", level_name(class.server)));
        say(format!("class {at}: client {}", level_name(class.client)));
        field_facts(at, &class.properties, &mut say);
        for method in &class.methods {
            let at = format!("{at}.{}", method.name);
            say(format!("method {at} = {}", method.id));
            if let Some(level) = method.to_server {
                say(format!("method {at}: server {}", level_name(level)));
            }
            if let Some(level) = method.to_client {
                say(format!("method {at}: client {}", level_name(level)));
            }
            for (is_set, flag) in [
                (method.synchronous, "synchronous"),
                (method.content, "content"),
                (method.deprecated, "deprecated"),
            ] {
                if is_set {
                    say(format!("method {at}: {flag}"));
                }
            }
            for reply in &method.replies {
                say(format!("method {at}: answered by {reply}"));
            }
            field_facts(&at, &method.fields, &mut say);
        }
    }
    facts
}

fn field_facts(at: &str, fields: &[Field], say: &mut impl FnMut(String)) {
    for (place, field) in fields.iter().enumerate() {
        say(format!("field {place} of {at} = {}", field.name));
        let at = format!("{at}.{}", field.name);
        say(format!("field {at}: {}", field.domain));
        if field.reserved {
            say(format!("field {at}: reserved"));
        }
        for assertion in &field.assert {
            say(format!("field {at}: {}", assertion_name(assertion)));
        }
    }
}

fn type_name(kind: Type) -> &'static str {
    match kind {
        Type::Bit => "bit",
        Type::Octet => "octet",
        Type::Short => "short",
        Type::Long => "long",
        Type::Longlong => "longlong",
        Type::Shortstr => "shortstr",
        Type::Longstr => "longstr",
        Type::Timestamp => "timestamp",
        Type::Table => "table",
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Must => "MUST",
        Level::Should => "SHOULD",
        Level::May => "MAY",
    }
}

fn assertion_name(assertion: &Assertion) -> String {
    match assertion {
        Assertion::NotNull => "notnull".to_owned(),
        Assertion::MaxLength(octets) => format!("length {octets}"),
        Assertion::Pattern(pattern) => format!("regexp {pattern}"),
        Assertion::AtMost(other) => format!("le {other}"),
    }
}

fn xml_facts(path: &str) -> Facts {
    let text = fs::read_to_string(path).unwrap_or_else(|error| {
        panic!("{path}: {error}\ninstall the specification with: apt-get install amqp-specs")
    });
    let document = Document::parse(&text).expect("amqp-specs holds XML");
    let mut facts = Facts::new();
    let mut say = |fact: String| assert!(facts.insert(fact.clone()), "twice: {fact}");
    let root = document.root_element();
    let [major, minor, revision, port] =
        attributes(root, ["major", "minor", "revision", "port"]).map(required);
    say(format!("version {major}-{minor}-{revision}"));
    say(format!("port {port}"));
    for node in elements(root) {
        match node.tag_name().name() {
            "constant" => {
                let [name, value, class] = attributes(node, ["name", "value", "class"]);
                let name = required(name);
                say(format!("constant {name} = {}", required(value)));
                if let Some(class) = class {
                    say(format!("constant {name}: {class}"));
                }
            }
            "domain" => {
                let [name, kind] = attributes(node, ["name", "type"]).map(required);
                say(format!("domain {name}: {kind}"));
                for assertion in elements(node) {
                    say(format!("domain {name}: {}", xml_assertion(assertion)));
                }
            }
            "class" => class_facts(node, &mut say),
            other => panic!("unknown element {other}"),
        }
    }
    facts
}

fn class_facts(class: Node<'_, '_>, say: &mut impl FnMut(String)) {
    let [at, index, handler] = attributes(class, ["name", "index", "handler"]).map(required);
    say(format!("class {at} = {index}"));
    say(format!("class {at}: handler {handler}"));
    let mut place = 0;
    for node in elements(class) {
        match node.tag_name().name() {
            "chassis" => say(format!("class {at}: {}", chassis(node))),
            "field" => xml_field(at, &mut place, node, say),
            "method" => method_facts(at, node, say),
            other => panic!("unknown element {other}"),
        }
    }
}

fn method_facts(class: &str, method: Node<'_, '_>, say: &mut impl FnMut(String)) {
    let [name, index, synchronous, content, deprecated] = attributes(
        method,
        ["name", "index", "synchronous", "content", "deprecated"],
    );
    let at = format!("{class}.{}", required(name));
    say(format!("method {at} = {}", required(index)));
    for (flag, name) in [
        (synchronous, "synchronous"),
        (content, "content"),
        (deprecated, "deprecated"),
    ] {
        if is_set(flag) {
            say(format!("method {at}: {name}"));
        }
    }
    let mut place = 0;
    for node in elements(method) {
        match node.tag_name().name() {
            "chassis" => say(format!("method {at}: {}", chassis(node))),
            "response" => {
                let [reply] = attributes(node, ["name"]).map(required);
                say(format!("method {at}: answered by {reply}"));
            }
            "field" => xml_field(&at, &mut place, node, say),
            other => panic!("unknown element {other}"),
        }
    }
}

fn xml_field(at: &str, place: &mut usize, field: Node<'_, '_>, say: &mut impl FnMut(String)) {
    let [name, domain, kind, reserved] = attributes(field, ["name", "domain", "type", "reserved"]);
    let name = required(name);
    say(format!("field {place} of {at} = {name}"));
    *place += 1;
    // Every type is also a domain of the same name.
    say(format!("field {at}.{name}: {}", required(domain.or(kind))));
    if is_set(reserved) {
        say(format!("field {at}.{name}: reserved"));
    }
    for assertion in elements(field) {
        say(format!("field {at}.{name}: {}", xml_assertion(assertion)));
    }
}

fn xml_assertion(node: Node<'_, '_>) -> String {
    assert_eq!(node.tag_name().name(), "assert");
    let [check, value, method, field] = attributes(node, ["check", "value", "method", "field"]);
    match (required(check), value, method, field) {
        ("notnull", None, None, None) => "notnull".to_owned(),
        (check @ ("length" | "regexp"), Some(value), None, None) => format!("{check} {value}"),
        ("le", None, Some(method), Some(field)) => format!("le {method}.{field}"),
        other => panic!("unknown assertion {other:?}"),
    }
}

fn chassis(node: Node<'_, '_>) -> String {
    let [name, implement] = attributes(node, ["name", "implement"]).map(required);
    format!("{name} {implement}")
}

fn elements<'a, 'i>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(Node::is_element)
}

/// The attributes of these names; there must be no others.
fn attributes<'a, const N: usize>(node: Node<'a, '_>, names: [&str; N]) -> [Option<&'a str>; N] {
    for attribute in node.attributes() {
        assert!(
            names.contains(&attribute.name()),
            "unknown attribute {attribute:?}"
        );
    }
    names.map(|name| node.attribute(name))
}

fn required(attribute: Option<&str>) -> &str {
    attribute.expect("the attribute is always there")
}

fn is_set(flag: Option<&str>) -> bool {
    match flag {
        None => false,
        Some("1") => true,
        Some(other) => panic!("a flag of {other}"),
    }
}
