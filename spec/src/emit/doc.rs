//! Documentation of what is generated.

use proc_macro2::TokenStream;
use quote::quote;

use crate::model::{Assertion, Class, Field, Layer, Method, Specification, Type};

use super::names;

const WIDTH: usize = 100;

/// Doc attributes for text of paragraphs and lists, broken into lines for something indented by so many columns.
pub(super) fn attributes(text: &str, indent: usize) -> TokenStream {
    let lines = wrap(text, indent);
    quote!(#(#[doc = #lines])*)
}

/// Breaks text into lines to stand behind `///`, each but the empty ones with a space in front.
pub(super) fn wrap(text: &str, indent: usize) -> Vec<String> {
    let room = WIDTH - indent - "/// ".len();
    let mut lines = Vec::new();
    for source in text.lines() {
        let hang = if source.starts_with("- ") { "  " } else { "" };
        let mut line = String::new();
        for word in source.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
                lines.push(format!(" {line}"));
                line = format!("{hang}{word}");
            } else {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(word);
            }
        }
        lines.push(if line.is_empty() {
            line
        } else {
            format!(" {line}")
        });
    }
    lines
}

/// What a method's struct says.
pub(super) fn method(class: &Class, layer: &Layer, method: &Method) -> String {
    let path = format!("{}.{}", class.name, method.name);
    let sender = match (method.to_server, method.to_client) {
        (Some(_), Some(_)) => "either side",
        (Some(_), None) => "clients",
        (None, _) => "servers",
    };
    let mut about = format!("`{path}`, sent by {sender}");
    let links = |names: Vec<&str>, last: &str| {
        let links: Vec<_> = names
            .iter()
            .map(|name| format!("[`{}`]", names::pascal(name)))
            .collect();
        links.join(last)
    };
    let requests: Vec<_> = class
        .methods
        .iter()
        .filter(|request| request.replies.contains(&method.name))
        .map(|request| request.name.as_str())
        .collect();
    if !method.replies.is_empty() {
        let replies = method.replies.iter().map(String::as_str).collect();
        about.push_str(&format!(" and answered by {}", links(replies, " or ")));
    } else if !requests.is_empty() {
        about.push_str(&format!(" in answer to {}", links(requests, " or ")));
    }
    about.push_str(if method.content {
        "; content follows."
    } else {
        "."
    });
    if method.added {
        about.push_str(&format!(" An extension by {}.", layer.name));
    }
    if method.deprecated {
        about.push_str(" The specification advises against it.");
    }
    with_behaviour(format!("{}\n\n{about}", method.doc), "\n\n", layer, &path)
}

/// What a method's field or a property says.
pub(super) fn field(spec: &Specification, layer: &Layer, path: &str, field: &Field) -> String {
    let mut text = field.doc.clone();
    if field.reserved {
        text.insert_str(0, "Reserved. ");
    }
    let kind = spec.type_of(field);
    let domain = spec
        .domains
        .iter()
        .find(|domain| domain.name == field.domain);
    let rules: Vec<_> = domain
        .into_iter()
        .flat_map(|domain| &domain.assert)
        .chain(&field.assert)
        .map(|assertion| rule(assertion, kind))
        .collect();
    if !rules.is_empty() {
        text.push_str(&format!(" By the specification {}.", rules.join(", ")));
    }
    let path = format!("{path}.{}", field.name);
    let mut text = with_behaviour(text, " ", layer, &path);
    let mut arguments = layer
        .arguments
        .iter()
        .filter(|argument| argument.on.contains(&path))
        .peekable();
    if arguments.peek().is_some() {
        text.push_str(&format!("\n\nWell known to {}:", layer.name));
        for argument in arguments {
            text.push_str(&format!(
                "\n- `{}` ({}): {}",
                argument.key, argument.kind, argument.doc
            ));
        }
    }
    text
}

fn rule(assertion: &Assertion, kind: Option<Type>) -> String {
    match assertion {
        Assertion::NotNull => match kind {
            Some(Type::Shortstr | Type::Longstr | Type::Table) => "not empty".to_owned(),
            _ => "not 0".to_owned(),
        },
        Assertion::MaxLength(octets) => format!("at most {octets} bytes"),
        Assertion::Pattern(pattern) => format!("matching `{pattern}`"),
        Assertion::AtMost(other) => format!("at most that of `{other}`"),
    }
}

fn with_behaviour(mut text: String, separator: &str, layer: &Layer, path: &str) -> String {
    if let Some(behaviour) = layer
        .behaviours
        .iter()
        .find(|behaviour| behaviour.at == path)
    {
        text.push_str(separator);
        text.push_str(&behaviour.text);
    }
    text
}
