//! Reply codes.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::model::{ConstantKind, Specification};

use super::{doc, names};

pub(super) fn items(spec: &Specification) -> Vec<TokenStream> {
    let codes: Vec<_> = spec
        .constants
        .iter()
        .filter(|constant| constant.kind != ConstantKind::Frame)
        .collect();

    let constants = codes.iter().map(|code| {
        let effect = match code.kind {
            ConstantKind::Soft => " Costs the channel.",
            ConstantKind::Hard => " Costs the connection.",
            ConstantKind::Success | ConstantKind::Frame => "",
        };
        let docs = doc::attributes(&format!("{}: {}{effect}", code.value, code.doc), 4);
        let ident = format_ident!("{}", names::constant(&code.name));
        let value = Literal::u16_unsuffixed(code.value);
        quote!(#docs pub const #ident: Self = Self(#value);)
    });
    let named = codes.iter().map(|code| {
        let name = names::constant(&code.name);
        let ident = format_ident!("{name}");
        quote!(Self::#ident => Some(#name),)
    });
    let of_kind = |kind| {
        let idents: Vec<_> = codes
            .iter()
            .filter(|code| code.kind == kind)
            .map(|code| format_ident!("{}", names::constant(&code.name)))
            .collect();
        quote!(matches!(self, #(Self::#idents)|*))
    };
    let (hard, soft) = (of_kind(ConstantKind::Hard), of_kind(ConstantKind::Soft));
    let all = codes
        .iter()
        .map(|code| format_ident!("{}", names::constant(&code.name)));

    let imports = quote!(
        use crate::ReplyCode;
    );
    let implementation = quote! {
        impl ReplyCode {
            #(#constants)*
            /// All codes that have a name.
            pub const ALL: &'static [Self] = &[#(Self::#all),*];

            /// The specification's name, `NO_ROUTE`.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    #(#named)*
                    _ => None,
                }
            }

            /// Whether it is known to stand for an error that costs the whole connection.
            #[must_use]
            pub const fn is_hard(self) -> bool {
                #hard
            }

            /// Whether it is known to stand for an error that costs no more than the channel.
            #[must_use]
            pub const fn is_soft(self) -> bool {
                #soft
            }
        }
    };
    vec![imports, implementation]
}
