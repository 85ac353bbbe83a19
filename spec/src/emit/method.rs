//! `mod.rs`: the enum over all methods, and what is known of each by its id.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use crate::model::{Class, Layer, Method, Specification};

use super::wire::Typed;
use super::{doc, names};

pub(super) fn module_doc(spec: &Specification, layer: &Layer) -> String {
    let protocol = &spec.protocol;
    format!(
        "The methods of {} {}-{}-{} and of {}.",
        protocol.name, protocol.major, protocol.minor, protocol.revision, layer.name
    )
}

pub(super) fn items(spec: &Specification) -> Vec<TokenStream> {
    let mut items = Vec::new();
    let mut modules: Vec<_> = spec
        .classes
        .iter()
        .map(|class| names::module(&class.name))
        .collect();
    modules.push("constants".to_owned());
    modules.sort_unstable();
    for module in modules {
        let visibility = (module != "constants").then(|| quote!(pub));
        let module = format_ident!("{module}");
        items.push(quote!(#visibility mod #module;));
    }
    items.push(quote!(
        use bytes::BufMut;
    ));
    items.push(quote!(
        use crate::primitive::{Parsed, be_u16, fail, finish};
    ));
    items.push(quote!(
        use crate::{
            DecodeError, DecodeErrorKind, Direction, EncodeError, Limits, MethodFields, MethodId,
        };
    ));
    let entries = entries(spec);
    items.extend(method_enum(&entries));
    items.push(ids(&entries));
    items
}

/// What the generated code needs of one method.
struct Entry<'a> {
    class: &'a Class,
    method: &'a Method,
    borrows: bool,
    limited: bool,
    /// The variant of `Method`.
    variant: Ident,
    /// The payload, as `basic::Publish`.
    path: TokenStream,
    /// The constant of `MethodId`.
    id: Ident,
}

fn entries(spec: &Specification) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    for class in &spec.classes {
        for method in &class.methods {
            let fields = Typed::all(spec, &method.fields);
            entries.push(Entry {
                class,
                method,
                borrows: fields.iter().any(Typed::borrows),
                limited: fields.iter().any(Typed::is_table),
                variant: variant(class, &method.name),
                path: path(class, &method.name),
                id: id(class, &method.name),
            });
        }
    }
    entries
}

fn variant(class: &Class, method: &str) -> Ident {
    format_ident!("{}{}", names::pascal(&class.name), names::pascal(method))
}

fn path(class: &Class, method: &str) -> TokenStream {
    let (module, name) = (
        format_ident!("{}", names::module(&class.name)),
        format_ident!("{}", names::pascal(method)),
    );
    quote!(#module::#name)
}

fn id(class: &Class, method: &str) -> Ident {
    format_ident!(
        "{}_{}",
        names::constant(&class.name),
        names::constant(method)
    )
}

fn method_enum(entries: &[Entry<'_>]) -> Vec<TokenStream> {
    let variants: Vec<_> = entries.iter().map(|entry| &entry.variant).collect();
    let payloads: Vec<_> = entries
        .iter()
        .map(|Entry { path, borrows, .. }| match borrows {
            true => quote!(#path<'a>),
            false => path.clone(),
        })
        .collect();
    let ids: Vec<_> = entries.iter().map(|entry| &entry.id).collect();

    let declared = entries.iter().zip(&payloads).map(|(entry, payload)| {
        let variant = &entry.variant;
        let docs = doc::attributes(&format!("`{}.{}`", entry.class.name, entry.method.name), 4);
        quote!(#docs #variant(#payload),)
    });
    let structure = quote! {
        /// Any method.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
        pub enum Method<'a> {
            #(#declared)*
        }
    };

    let decoded = entries.iter().map(|Entry { variant, path, id, limited, .. }| {
        let limits = limited.then(|| quote!(, limits));
        quote! {
            MethodId::#id => #path::decode(input #limits).map(|(rest, it)| (rest, Self::#variant(it))),
        }
    });
    let owned = entries.iter().map(
        |Entry {
             variant, borrows, ..
         }| match borrows {
            true => quote!(Self::#variant(it) => Method::#variant(it.into_owned()),),
            false => quote!(Self::#variant(it) => Method::#variant(it),),
        },
    );
    let implementation = quote! {
        impl<'a> Method<'a> {
            /// The method in the payload of a method frame.
            ///
            /// # Errors
            /// The method is unknown, its fields end early, bytes follow them, or a table in it is malformed or above
            /// the limits.
            pub fn decode(payload: &'a [u8], limits: &Limits) -> Result<Self, DecodeError> {
                finish(payload, Self::parse(payload, limits))
            }

            fn parse(payload: &'a [u8], limits: &Limits) -> Parsed<'a, Self> {
                let (input, class) = be_u16(payload)?;
                let (input, method) = be_u16(input)?;
                match (MethodId { class, method }) {
                    #(#decoded)*
                    id => fail(payload, DecodeErrorKind::UnknownMethod(id)),
                }
            }

            /// Which method it is.
            #[must_use]
            pub const fn id(&self) -> MethodId {
                match self {
                    #(Self::#variants(_) => MethodId::#ids,)*
                }
            }

            /// How many bytes its frame's payload has: its id and its fields.
            #[must_use]
            pub fn payload_len(&self) -> usize {
                4 + match self {
                    #(Self::#variants(it) => it.fields_len(),)*
                }
            }

            /// Writes the payload of its frame: its id and its fields. Like all of [`BufMut`], panics when a fixed
            /// buffer is too small.
            ///
            /// # Errors
            /// A long string or table over `u32::MAX` bytes. What was written before it stays in `buf`.
            pub fn encode(&self, buf: &mut impl BufMut) -> Result<(), EncodeError> {
                let id = self.id();
                buf.put_u16(id.class);
                buf.put_u16(id.method);
                match self {
                    #(Self::#variants(it) => it.encode_fields(buf),)*
                }
            }

            /// The same with all it borrows copied.
            #[must_use]
            pub fn into_owned(self) -> Method<'static> {
                match self {
                    #(#owned)*
                }
            }
        }
    };

    let mut items = vec![structure, implementation];
    items.extend(entries.iter().zip(payloads).map(
        |(
            Entry {
                variant, borrows, ..
            },
            payload,
        )| {
            let (generics, lifetime) = match borrows {
                true => (Some(quote!(<'a>)), quote!('a)),
                false => (None, quote!('_)),
            };
            quote! {
                impl #generics From<#payload> for Method<#lifetime> {
                    fn from(method: #payload) -> Self {
                        Self::#variant(method)
                    }
                }

                /// If it is this method; any other is given back.
                impl<'a> TryFrom<Method<'a>> for #payload {
                    type Error = Method<'a>;

                    fn try_from(method: Method<'a>) -> Result<Self, Method<'a>> {
                        match method {
                            Method::#variant(method) => Ok(method),
                            other => Err(other),
                        }
                    }
                }
            }
        },
    ));
    items
}

fn ids(entries: &[Entry<'_>]) -> TokenStream {
    let all = entries.iter().map(|entry| &entry.id);
    let constants = entries.iter().map(
        |Entry {
             class, method, id, ..
         }| {
            let docs = doc::attributes(&format!("`{}.{}`", class.name, method.name), 4);
            let (class, method) = (
                Literal::u16_unsuffixed(class.id),
                Literal::u16_unsuffixed(method.id),
            );
            quote!(#docs pub const #id: Self = Self { class: #class, method: #method };)
        },
    );
    let named = entries.iter().map(
        |Entry {
             class, method, id, ..
         }| {
            let name = format!("{}.{}", class.name, method.name);
            quote!(Self::#id => Some(#name),)
        },
    );
    let such = |test: &dyn Fn(&Method) -> bool| {
        let ids = entries
            .iter()
            .filter(|entry| test(entry.method))
            .map(|entry| &entry.id);
        quote!(#(Self::#ids)|*)
    };
    let (to_server, to_client, both) = (
        such(&|method| method.to_client.is_none()),
        such(&|method| method.to_server.is_none()),
        such(&|method| method.to_server.is_some() && method.to_client.is_some()),
    );
    let (synchronous, content) = (
        such(&|method| method.synchronous),
        such(&|method| method.content),
    );
    let replies = entries
        .iter()
        .filter(|entry| !entry.method.replies.is_empty())
        .map(|entry| {
            let replies = entry
                .method
                .replies
                .iter()
                .map(|reply| id(entry.class, reply));
            let id = &entry.id;
            quote!(Self::#id => &[#(Self::#replies),*],)
        });
    quote! {
        impl MethodId {
            #(#constants)*
            /// All methods that are known.
            pub const ALL: &'static [Self] = &[#(Self::#all),*];

            /// The specification's name, `basic.publish`.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    #(#named)*
                    _ => None,
                }
            }

            /// Which side may send it, if it is known.
            #[must_use]
            pub const fn direction(self) -> Option<Direction> {
                match self {
                    #to_server => Some(Direction::ToServer),
                    #to_client => Some(Direction::ToClient),
                    #both => Some(Direction::Both),
                    _ => None,
                }
            }

            /// Whether its sender waits for an answer, or it is an answer that is waited for. False for a method that
            /// is not known.
            #[must_use]
            pub const fn is_synchronous(self) -> bool {
                matches!(self, #synchronous)
            }

            /// The methods that answer it; none for a method that is not answered or not known.
            #[must_use]
            pub const fn replies(self) -> &'static [Self] {
                match self {
                    #(#replies)*
                    _ => &[],
                }
            }

            /// Whether a content header and a body follow it.
            #[must_use]
            pub const fn carries_content(self) -> bool {
                matches!(self, #content)
            }
        }
    }
}
