//! The specification's names in Rust's spelling.

use proc_macro2::Ident;
use quote::format_ident;

/// The module of a class: `basic`.
pub(super) fn module(name: &str) -> String {
    name.replace('-', "_")
}

/// A field: `no-wait` is `no_wait`. `type` is a keyword of Rust and becomes `kind`.
pub(super) fn field(name: &str) -> Ident {
    match name {
        "type" => format_ident!("kind"),
        _ => format_ident!("{}", name.replace('-', "_")),
    }
}

/// A method's struct: `declare-ok` is `DeclareOk`.
pub(super) fn pascal(name: &str) -> String {
    name.split('-')
        .map(|word| {
            let (first, rest) = word.split_at(1);
            first.to_uppercase() + rest
        })
        .collect()
}

/// A constant: `no-route` is `NO_ROUTE`.
pub(super) fn constant(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}
