//! The file of one class: a struct a method, and the properties of its contents.

use std::collections::BTreeSet;

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::model::{Class, Layer, Method, Specification};

use super::wire::{self, Typed};
use super::{doc, names};

pub(super) fn items(spec: &Specification, layer: &Layer, class: &Class) -> Vec<TokenStream> {
    let mut items = imports(spec, class);
    for method in &class.methods {
        let fields = Typed::all(spec, &method.fields);
        items.extend(method_items(spec, layer, class, method, &fields));
    }
    if !class.properties.is_empty() {
        items.extend(properties(spec, layer, class));
    }
    items
}

fn imports(spec: &Specification, class: &Class) -> Vec<TokenStream> {
    let mut parsers = BTreeSet::from(["Parsed".to_owned()]);
    let mut types = BTreeSet::from(["EncodeError", "MethodFields", "MethodId"].map(str::to_owned));
    let mut add = |(more_parsers, more_types): (Vec<String>, Vec<String>)| {
        parsers.extend(more_parsers);
        types.extend(more_types);
    };
    let mut secret = false;
    for method in &class.methods {
        add(wire::uses(&Typed::all(spec, &method.fields), false));
        secret |= method.fields.iter().any(|field| field.secret);
    }
    let properties = Typed::all(spec, &class.properties);
    add(wire::uses(&properties, true));
    if !properties.is_empty() {
        parsers.extend(["be_u16", "fail", "finish"].map(str::to_owned));
        types.extend(["DecodeError", "DecodeErrorKind"].map(str::to_owned));
        if properties.iter().any(Typed::is_table) {
            types.insert("Table".to_owned());
        }
    }
    // As rustfmt orders them: functions after types.
    let idents = |names: BTreeSet<String>| names.into_iter().map(|name| format_ident!("{name}"));
    let (parsers, types) = (idents(parsers), idents(types));
    let mut items = Vec::new();
    if secret {
        items.push(quote!(
            use core::fmt;
        ));
    }
    items.push(quote!(
        use bytes::BufMut;
    ));
    items.push(quote!(use crate::primitive::{#(#parsers),*};));
    items.push(quote!(use crate::{#(#types),*};));
    items
}

fn method_items(
    spec: &Specification,
    layer: &Layer,
    class: &Class,
    method: &Method,
    fields: &[Typed<'_>],
) -> Vec<TokenStream> {
    let path = format!("{}.{}", class.name, method.name);
    let name = names::pascal(&method.name);
    let ident = format_ident!("{name}");
    let id = format_ident!(
        "{}_{}",
        names::constant(&class.name),
        names::constant(&method.name)
    );
    let borrows = fields.iter().any(Typed::borrows);
    let secret = fields.iter().any(|field| field.field.secret);

    let docs = doc::attributes(&doc::method(class, layer, method), 0);
    let copy = (!borrows).then(|| quote!(Copy,));
    let debug = (!secret).then(|| quote!(Debug,));
    let generics = borrows.then(|| quote!(<'a>));
    let elided = borrows.then(|| quote!(<'_>));
    let declared = fields.iter().map(|field| {
        let docs = doc::attributes(&doc::field(spec, layer, &path, field.field), 4);
        let (ident, kind) = (&field.ident, field.rust_type(false));
        quote!(#docs pub #ident: #kind,)
    });
    let undefined = wire::undefined_mask(fields).map(|mask| {
        let docs = doc::attributes(
            "The bits of the octet of flags that have no meaning, as received; normally 0.",
            4,
        );
        // The other bits are the fields' and would not come back.
        let arbitrary = quote!(#[cfg_attr(feature = "arbitrary", arbitrary(with = crate::arbitrary::bits::<#mask>))]);
        quote!(#docs #arbitrary pub undefined_bits: u8,)
    });
    let structure = quote! {
        #docs
        #[derive(#debug Clone, #copy PartialEq, Eq, Default)]
        #[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
        pub struct #ident #generics {
            #(#declared)*
            #undefined
        }
    };

    let (parse, build) = wire::decode(fields);
    let limits = fields
        .iter()
        .any(Typed::is_table)
        .then(|| quote!(, limits: &Limits));
    let (input, parsed) = match borrows {
        true => (quote!(&'a [u8]), quote!(Parsed<'a, Self>)),
        false => (quote!(&[u8]), quote!(Parsed<'_, Self>)),
    };
    let into_owned = borrows.then(|| {
        let owned = wire::owned(&name, fields);
        quote! {
            /// The same with all it borrows copied.
            #[must_use]
            pub fn into_owned(self) -> #ident<'static> {
                #owned
            }
        }
    });
    let implementation = quote! {
        impl #generics #ident #generics {
            #[inline]
            pub(crate) fn decode(input: #input #limits) -> #parsed {
                #parse
                Ok((input, Self { #build }))
            }

            #into_owned
        }
    };

    let len = wire::len(fields);
    let encode = wire::encode(fields);
    let buf = if fields.is_empty() {
        format_ident!("_buf")
    } else {
        format_ident!("buf")
    };
    let method_fields = quote! {
        impl MethodFields for #ident #elided {
            const ID: MethodId = MethodId::#id;

            fn fields_len(&self) -> usize {
                #len
            }

            #[inline]
            fn encode_fields(&self, #buf: &mut impl BufMut) -> Result<(), EncodeError> {
                #encode
                Ok(())
            }
        }
    };

    let mut items = vec![structure];
    if secret {
        items.push(guarded_debug(&name, fields));
    }
    items.extend([implementation, method_fields]);
    items
}

/// A `Debug` that tells no secrets.
fn guarded_debug(name: &str, fields: &[Typed<'_>]) -> TokenStream {
    let ident = format_ident!("{name}");
    let shown = fields.iter().map(|field| {
        let (ident, name) = (&field.ident, field.ident.to_string());
        match field.field.secret {
            true => quote!(.field(#name, &format_args!("<{} bytes>", self.#ident.len()))),
            false => quote!(.field(#name, &self.#ident)),
        }
    });
    let undefined = wire::undefined_mask(fields)
        .map(|_| quote!(.field("undefined_bits", &self.undefined_bits)));
    quote! {
        /// Of secrets only the length is shown.
        impl fmt::Debug for #ident<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(#name) #(#shown)* #undefined .finish()
            }
        }
    }
}

fn properties(spec: &Specification, layer: &Layer, class: &Class) -> Vec<TokenStream> {
    let fields = Typed::all(spec, &class.properties);
    let flag = |place: usize| -> Literal {
        let flag = 0x8000_u16 >> place;
        format!("{flag:#06x}")
            .parse()
            .unwrap_or_else(|_| Literal::u16_unsuffixed(flag))
    };
    let undefined = 0xffff_u16 >> fields.len();
    let undefined: Literal = format!("{undefined:#06x}")
        .parse()
        .unwrap_or_else(|_| Literal::u16_unsuffixed(undefined));
    let idents: Vec<_> = fields.iter().map(|field| &field.ident).collect();

    let docs = doc::attributes(
        &format!(
            "The properties of a message: what a content header of class `{}` carries.",
            class.name
        ),
        0,
    );
    let declared = fields.iter().map(|field| {
        let docs = doc::attributes(&doc::field(spec, layer, &class.name, field.field), 4);
        let (ident, kind) = (&field.ident, field.rust_type(true));
        quote!(#docs pub #ident: Option<#kind>,)
    });
    let structure = quote! {
        #docs
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        #[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
        pub struct Properties<'a> {
            #(#declared)*
        }
    };

    let parse = fields.iter().enumerate().map(|(place, field)| {
        let (ident, flag, parser) = (&field.ident, flag(place), field.parser(true));
        quote! {
            if flags & #flag != 0 {
                let (rest, value) = #parser(input)?;
                (input, self.#ident) = (rest, Some(value));
            }
        }
    });
    let set_flags = fields.iter().enumerate().map(|(place, field)| {
        let (ident, flag) = (&field.ident, flag(place));
        quote!(if self.#ident.is_some() { flags |= #flag; })
    });
    let lens = fields.iter().map(|field| {
        let ident = &field.ident;
        match field.fixed_len().map(Literal::usize_unsuffixed) {
            Some(len) => quote!(if self.#ident.is_some() { len += #len; }),
            None => quote!(if let Some(value) = &self.#ident { len += value.encoded_len(); }),
        }
    });
    let puts = fields.iter().map(|field| {
        let (ident, put) = (&field.ident, field.put(&quote!(value)));
        match field.borrows() {
            true => quote!(if let Some(value) = &self.#ident { #put }),
            false => quote!(if let Some(value) = self.#ident { #put }),
        }
    });
    let owned = fields.iter().map(|field| {
        let (ident, kind) = (&field.ident, field.rust_type(true));
        match field.borrows() {
            true => {
                let kind = kind.into_iter().next();
                quote!(#ident: self.#ident.map(#kind::into_owned),)
            }
            false => quote!(#ident: self.#ident,),
        }
    });
    let tables = fields.iter().filter(|field| field.is_table()).map(|field| {
        let ident = &field.ident;
        let docs = doc::attributes(
            &format!(
                "The table of `{ident}`, if there is one, taken apart.\n\n# Errors\nIt is malformed or above the \
                 limits; the offset is counted from its first entry. The message is whole nevertheless."
            ),
            4,
        );
        quote! {
            #docs
            pub fn #ident(&self, limits: &Limits) -> Result<Option<Table<'_>>, DecodeError> {
                self.#ident.as_ref().map(|table| table.decode(limits)).transpose()
            }
        }
    });
    let implementation = quote! {
        impl<'a> Properties<'a> {
            /// No property at all.
            pub const EMPTY: Properties<'static> = Properties { #(#idents: None,)* };

            /// The properties as a content header holds them, the flags first. Tables are checked to their outer
            /// length only.
            ///
            /// # Errors
            /// Flags that stand for no property, fields that end early, bytes after the last one.
            pub fn decode(input: &'a [u8]) -> Result<Self, DecodeError> {
                let mut properties = Self::EMPTY;
                finish(input, properties.parse(input)).map(|()| properties)
            }

            /// Sets the properties that are there, of empty ones. They are filled where they are: they are large, and
            /// returned by value each caller would copy them.
            #[inline]
            pub(crate) fn parse(&mut self, input: &'a [u8]) -> Parsed<'a, ()> {
                let (rest, flags) = be_u16(input)?;
                if flags & #undefined != 0 {
                    return fail(input, DecodeErrorKind::PropertyFlags(flags & #undefined));
                }
                let mut input = rest;
                #(#parse)*
                Ok((input, ()))
            }

            /// Whether there is no property.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.flags() == 0
            }

            fn flags(&self) -> u16 {
                let mut flags = 0;
                #(#set_flags)*
                flags
            }

            /// How many bytes they take on the wire, the flags included.
            #[must_use]
            pub fn encoded_len(&self) -> usize {
                let mut len = 2;
                #(#lens)*
                len
            }

            /// Writes the flags and the fields. Like all of [`BufMut`], panics when a fixed buffer is too small.
            ///
            /// # Errors
            /// A table over `u32::MAX` bytes. What was written before it stays in `buf`.
            pub fn encode(&self, buf: &mut impl BufMut) -> Result<(), EncodeError> {
                buf.put_u16(self.flags());
                #(#puts)*
                Ok(())
            }

            /// The same with all they borrow copied.
            #[must_use]
            pub fn into_owned(self) -> Properties<'static> {
                Properties { #(#owned)* }
            }

            #(#tables)*
        }
    };
    vec![structure, implementation]
}
