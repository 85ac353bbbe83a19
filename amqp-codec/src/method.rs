use core::fmt;

use bytes::BufMut;

use crate::EncodeError;

/// The class and method number that begin a method frame's payload.
///
/// Constants such as `MethodId::BASIC_PUBLISH` and what the specification says about each method come with the
/// generated code; any other pair of numbers can be held too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct MethodId {
    /// The class number, 60 for `basic`.
    pub class: u16,
    /// The method number within its class.
    pub method: u16,
}

/// By its name, `basic.publish`, and an unknown one by its numbers, `60.99`.
impl fmt::Display for MethodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "{}.{}", self.class, self.method),
        }
    }
}

impl fmt::Debug for MethodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Which side may send a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Direction {
    /// Clients send it.
    ToServer,
    /// Servers send it.
    ToClient,
    /// Either side may send it.
    Both,
}

/// The fields of one method, as they follow its id on the wire. Every method's struct has it.
pub trait MethodFields {
    /// The id that goes before the fields.
    const ID: MethodId;

    /// How many bytes the fields take; the four of the id are not counted.
    fn fields_len(&self) -> usize;

    /// Writes the fields; the id is not written.
    ///
    /// # Errors
    /// A long string or table over `u32::MAX` bytes. What was written before it stays in `buf`.
    fn encode_fields(&self, buf: &mut impl BufMut) -> Result<(), EncodeError>;
}
