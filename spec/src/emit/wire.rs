//! How fields are declared, decoded and encoded.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use crate::model::{Field, Specification, Type};

use super::names;

/// A field of a method as the generated code needs it.
pub(super) struct Typed<'a> {
    pub(super) field: &'a Field,
    pub(super) ident: Ident,
    kind: Type,
}

impl<'a> Typed<'a> {
    /// The fields with their types. Those of an unknown domain, which a checked specification has not, are left out.
    pub(super) fn all(spec: &Specification, fields: &'a [Field]) -> Vec<Self> {
        let typed = |field: &'a Field| {
            let kind = spec.type_of(field)?;
            Some(Self {
                field,
                ident: names::field(&field.name),
                kind,
            })
        };
        fields.iter().filter_map(typed).collect()
    }

    /// Whether its value may borrow.
    pub(super) fn borrows(&self) -> bool {
        matches!(self.kind, Type::Shortstr | Type::Longstr | Type::Table)
    }

    pub(super) fn is_table(&self) -> bool {
        self.kind == Type::Table
    }

    fn is_bit(&self) -> bool {
        self.kind == Type::Bit
    }

    fn is_reply_code(&self) -> bool {
        self.field.domain == "reply-code"
    }

    /// The Rust type, a property's table being a raw one.
    pub(super) fn rust_type(&self, property: bool) -> TokenStream {
        match self.kind {
            Type::Bit => quote!(bool),
            Type::Octet => quote!(u8),
            Type::Short if self.is_reply_code() => quote!(ReplyCode),
            Type::Short => quote!(u16),
            Type::Long => quote!(u32),
            Type::Longlong | Type::Timestamp => quote!(u64),
            Type::Shortstr => quote!(ShortStr<'a>),
            Type::Longstr => quote!(LongStr<'a>),
            Type::Table if property => quote!(RawTable<'a>),
            Type::Table => quote!(Table<'a>),
        }
    }

    /// The parser of its type.
    pub(super) fn parser(&self, property: bool) -> TokenStream {
        match self.kind {
            Type::Bit | Type::Octet => quote!(be_u8),
            Type::Short => quote!(be_u16),
            Type::Long => quote!(be_u32),
            Type::Longlong | Type::Timestamp => quote!(be_u64),
            Type::Shortstr => quote!(short_str),
            Type::Longstr => quote!(long_str),
            Type::Table if property => quote!(raw_table),
            Type::Table => quote!(table(limits)),
        }
    }

    /// Its size in bytes, where that is fixed. Bits are counted by octets elsewhere.
    pub(super) fn fixed_len(&self) -> Option<usize> {
        match self.kind {
            Type::Octet => Some(1),
            Type::Short => Some(2),
            Type::Long => Some(4),
            Type::Longlong | Type::Timestamp => Some(8),
            Type::Bit | Type::Shortstr | Type::Longstr | Type::Table => None,
        }
    }

    /// The statement that writes `value`, a reference if it may borrow.
    pub(super) fn put(&self, value: &TokenStream) -> TokenStream {
        match self.kind {
            Type::Bit => quote!(buf.put_u8(u8::from(#value));),
            Type::Octet => quote!(buf.put_u8(#value);),
            Type::Short if self.is_reply_code() => quote!(buf.put_u16(#value.0);),
            Type::Short => quote!(buf.put_u16(#value);),
            Type::Long => quote!(buf.put_u32(#value);),
            Type::Longlong | Type::Timestamp => quote!(buf.put_u64(#value);),
            Type::Shortstr => quote!(#value.encode(buf);),
            Type::Longstr | Type::Table => quote!(#value.encode(buf)?;),
        }
    }
}

/// Names that the code for these fields uses, of `primitive` and of the crate's root.
pub(super) fn uses(fields: &[Typed<'_>], property: bool) -> (Vec<String>, Vec<String>) {
    let (mut parsers, mut types) = (Vec::new(), Vec::new());
    let head = |tokens: TokenStream| tokens.into_iter().next().map(|token| token.to_string());
    for field in fields {
        parsers.extend(head(field.parser(property)));
        types.extend(
            head(field.rust_type(property))
                .filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase())),
        );
        if field.is_table() {
            types.push("Limits".to_owned());
        }
    }
    (parsers, types)
}

/// Fields as they share or do not share octets: one field, or a run of bits.
fn runs<'f, 'a>(fields: &'f [Typed<'a>]) -> impl Iterator<Item = &'f [Typed<'a>]> {
    fields.chunk_by(|a, b| a.is_bit() && b.is_bit())
}

/// The mask of the bits that no field uses, if there is a bit octet and it has such bits.
pub(super) fn undefined_mask(fields: &[Typed<'_>]) -> Option<Literal> {
    let bits = fields.iter().filter(|field| field.is_bit()).count();
    (1..8).contains(&bits).then(|| mask(u8::MAX << bits))
}

fn mask(bits: u8) -> Literal {
    format!("{bits:#04x}")
        .parse()
        .unwrap_or_else(|_| Literal::u8_unsuffixed(bits))
}

/// The statements that take the fields from `input`, and the expression that makes `Self` of them.
pub(super) fn decode(fields: &[Typed<'_>]) -> (TokenStream, TokenStream) {
    let (mut parse, mut build) = (TokenStream::new(), TokenStream::new());
    for run in runs(fields) {
        let parser = run[0].parser(false);
        if run[0].is_bit() {
            parse.extend(quote!(let (input, bits) = #parser(input)?;));
            for (place, field) in run.iter().enumerate() {
                let (ident, mask) = (&field.ident, mask(1 << place));
                build.extend(quote!(#ident: bits & #mask != 0,));
            }
            continue;
        }
        let ident = &run[0].ident;
        parse.extend(quote!(let (input, #ident) = #parser(input)?;));
        build.extend(match run[0].is_reply_code() {
            true => quote!(#ident: ReplyCode(#ident),),
            false => quote!(#ident,),
        });
    }
    if let Some(mask) = undefined_mask(fields) {
        build.extend(quote!(undefined_bits: bits & #mask,));
    }
    (parse, build)
}

/// The expression for the length of the fields of `self`.
pub(super) fn len(fields: &[Typed<'_>]) -> TokenStream {
    let octets = usize::from(fields.iter().any(Typed::is_bit));
    let fixed: usize = octets + fields.iter().filter_map(Typed::fixed_len).sum::<usize>();
    let variable: Vec<_> = fields
        .iter()
        .filter(|field| field.borrows())
        .map(|f| &f.ident)
        .collect();
    let fixed = (fixed > 0 || variable.is_empty()).then(|| Literal::usize_unsuffixed(fixed));
    let terms = fixed.into_iter().map(|fixed| quote!(#fixed));
    let terms = terms.chain(
        variable
            .iter()
            .map(|ident| quote!(self.#ident.encoded_len())),
    );
    quote!(#(#terms)+*)
}

/// The statements that write the fields of `self`.
pub(super) fn encode(fields: &[Typed<'_>]) -> TokenStream {
    let mut statements = TokenStream::new();
    for run in runs(fields) {
        if !run[0].is_bit() {
            let ident = &run[0].ident;
            statements.extend(run[0].put(&quote!(self.#ident)));
            continue;
        }
        let bits = run.iter().enumerate().map(|(place, field)| {
            let ident = &field.ident;
            match place {
                0 => quote!(u8::from(self.#ident)),
                _ => {
                    let place = Literal::usize_unsuffixed(place);
                    quote!((u8::from(self.#ident) << #place))
                }
            }
        });
        let undefined = undefined_mask(fields).map(|mask| quote!((self.undefined_bits & #mask)));
        let bits = bits.chain(undefined);
        statements.extend(quote!(buf.put_u8(#(#bits)|*);));
    }
    statements
}

/// The expression for `self` with what it borrows made its own, given the name of the struct.
pub(super) fn owned(name: &str, fields: &[Typed<'_>]) -> TokenStream {
    let name = format_ident!("{name}");
    let values = fields.iter().map(|field| {
        let ident = &field.ident;
        match field.borrows() {
            true => quote!(#ident: self.#ident.into_owned(),),
            false => quote!(#ident: self.#ident,),
        }
    });
    let undefined = undefined_mask(fields).map(|_| quote!(undefined_bits: self.undefined_bits,));
    quote!(#name { #(#values)* #undefined })
}
