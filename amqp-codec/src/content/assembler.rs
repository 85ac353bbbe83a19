use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use bytes::{Buf as _, Bytes};
use thiserror::Error;

use super::Whole;
use super::header::{Announced, FIXED};
use crate::basic::Properties;
use crate::{Limits, MethodId, ReplyCode};

/// Puts the contents of one channel and direction together: method, header, bodies.
///
/// `M` is whatever the caller keeps of the method. The order is enforced; what comes out owns its bytes, in one exact
/// allocation up to [`SMALL_BODY`](Self::SMALL_BODY) bytes of body. Memory grows with what has been received, not with
/// what was announced.
#[derive(Debug)]
pub struct Assembler<M> {
    state: State<M>,
    /// Strings and properties of the content in progress, and its body while that is small. Kept for the next one.
    scratch: Vec<u8>,
}

/// Idle -> start -> Header -> header -> Body -> body, as often as needed -> Idle; from Header straight to Idle when the
/// body is empty.
#[derive(Debug)]
enum State<M> {
    Idle,
    Header {
        method: M,
        strings: Strings,
    },
    Body {
        method: M,
        layout: Layout,
        size: u64,
        large: Vec<u8>,
    },
}

/// Where each of the strings ends in the bytes.
type Strings = [u32; MAX_STRINGS];

const MAX_STRINGS: usize = 4;

/// Where the parts are: the strings from the start on, then the properties, then the body.
#[derive(Debug, Clone, Copy)]
struct Layout {
    strings: Strings,
    body: u32,
}

impl Layout {
    fn properties_start(&self) -> usize {
        self.strings[MAX_STRINGS - 1] as usize
    }
}

/// A violation of the order in which method, header and bodies follow each other, or of what the header announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ContentError {
    /// A method where a content header or body had to follow.
    #[error("method within a content")]
    UnexpectedMethod,
    /// A content header without its method, or a second one.
    #[error("content header without a method before it")]
    UnexpectedHeader,
    /// A body without its header, or after the last byte of the body before it.
    #[error("content body without a header before it")]
    UnexpectedBody,
    /// A content header of another class than `basic`.
    #[error("content header of class {0}")]
    WrongClass(u16),
    /// More body than the header announced.
    #[error("content body of {size} bytes or more where {announced} were announced")]
    BodyTooLong {
        /// What would have been received with this frame, in bytes.
        size: u64,
        /// What the header says, in bytes.
        announced: u64,
    },
    /// A body above [`Limits::body_max`], known from the header alone.
    #[error("content body of {size} bytes is above the limit of {max}")]
    TooLarge {
        /// What the header says, in bytes.
        size: u64,
        /// The limit in bytes.
        max: u64,
    },
}

impl ContentError {
    /// The code to close the connection with; for [`TooLarge`](Self::TooLarge) it is the channel that can be closed.
    pub fn reply_code(&self) -> ReplyCode {
        match self {
            Self::UnexpectedMethod
            | Self::UnexpectedHeader
            | Self::UnexpectedBody
            | Self::WrongClass(_) => ReplyCode::UNEXPECTED_FRAME,
            Self::BodyTooLong { .. } => ReplyCode::FRAME_ERROR,
            Self::TooLarge { .. } => ReplyCode::CONTENT_TOO_LARGE,
        }
    }
}

impl<M> Assembler<M> {
    /// The longest body in bytes that shares one allocation with the rest of its content.
    pub const SMALL_BODY: usize = super::SMALL_BODY;

    /// The scratch space that is kept from one content to the next, in bytes.
    const KEPT: usize = 2 * Self::SMALL_BODY;

    /// One that waits for a method. Allocates nothing yet.
    pub const fn new() -> Self {
        Self {
            state: State::Idle,
            scratch: Vec::new(),
        }
    }

    /// Whether no content is in progress, so that a method may come.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// The method of the content in progress, if there is one.
    pub fn method_mut(&mut self) -> Option<&mut M> {
        match &mut self.state {
            State::Idle => None,
            State::Header { method, .. } | State::Body { method, .. } => Some(method),
        }
    }

    /// To be called for each method of the channel.
    ///
    /// # Errors
    /// A content is in progress.
    pub fn expect_method(&self) -> Result<(), ContentError> {
        match self.is_idle() {
            true => Ok(()),
            false => Err(ContentError::UnexpectedMethod),
        }
    }

    /// Begins a content. The strings, four at the most, are copied and come back from [`Content::string`]: the
    /// exchange and key that the method borrows, for instance.
    ///
    /// # Errors
    /// A content is in progress.
    pub fn start<const N: usize>(
        &mut self,
        method: M,
        strings: &[&[u8]; N],
    ) -> Result<(), ContentError> {
        self.expect_method()?;
        self.scratch.clear();
        let strings = gather(strings, &mut self.scratch);
        self.state = State::Header { method, strings };
        Ok(())
    }

    /// Takes a content header, of which only what it announces is looked at, with the `payload` that it was decoded
    /// from. The content, if the body is empty.
    ///
    /// # Errors
    /// No method came before it, it is of another class than `basic`, or the body is above
    /// [`Limits::body_max`].
    pub fn header(
        &mut self,
        header: impl Into<Announced>,
        payload: &[u8],
        limits: &Limits,
    ) -> Result<Option<Content<M>>, ContentError> {
        let State::Header { .. } = self.state else {
            return Err(ContentError::UnexpectedHeader);
        };
        let Announced {
            class_id,
            body_size: size,
        } = header.into();
        if class_id != MethodId::BASIC_PUBLISH.class {
            return Err(ContentError::WrongClass(class_id));
        }
        let max = limits.body_max;
        if size > max {
            return Err(ContentError::TooLarge { size, max });
        }
        let State::Header { method, strings } = core::mem::replace(&mut self.state, State::Idle)
        else {
            return Err(ContentError::UnexpectedHeader);
        };
        self.scratch
            .extend_from_slice(payload.get(FIXED..).unwrap_or_default());
        let layout = Layout {
            strings,
            body: position(&self.scratch),
        };
        if size == 0 {
            return Ok(Some(self.finish_small(method, layout, &[])));
        }
        self.state = State::Body {
            method,
            layout,
            size,
            large: Vec::new(),
        };
        Ok(None)
    }

    /// Takes the payload of a body frame. The content, if that completes it.
    ///
    /// With the buffer that `payload` lies in as `source`, a body of more than [`SMALL_BODY`](Self::SMALL_BODY) bytes
    /// that came in one frame is not copied but refers to it.
    ///
    /// # Errors
    /// No header came before it, or it goes beyond what that announced.
    pub fn body(
        &mut self,
        payload: &[u8],
        source: Option<&Bytes>,
    ) -> Result<Option<Content<M>>, ContentError> {
        let State::Body {
            layout,
            size,
            large,
            ..
        } = &mut self.state
        else {
            return Err(ContentError::UnexpectedBody);
        };
        let announced = *size;
        let small = announced <= Self::SMALL_BODY as u64;
        #[expect(
            clippy::arithmetic_side_effects,
            reason = "the scratch space has only grown since the header"
        )]
        let before = match small {
            true => self.scratch.len() - layout.body as usize,
            false => large.len(),
        };
        #[expect(
            clippy::arithmetic_side_effects,
            reason = "lengths of what is in memory"
        )]
        let received = before as u64 + payload.len() as u64;
        if received > announced {
            return Err(ContentError::BodyTooLong {
                size: received,
                announced,
            });
        }
        if received < announced {
            match small {
                true => self.scratch.extend_from_slice(payload),
                false => grow(large, payload, announced),
            }
            return Ok(None);
        }
        let State::Body {
            method,
            layout,
            mut large,
            ..
        } = core::mem::replace(&mut self.state, State::Idle)
        else {
            return Err(ContentError::UnexpectedBody);
        };
        if small {
            return Ok(Some(self.finish_small(method, layout, payload)));
        }
        let body = match source.and_then(|source| slice_of(source, payload)) {
            Some(body) if large.is_empty() => body,
            _ => {
                grow(&mut large, payload, announced);
                large.into()
            }
        };
        Ok(Some(Content {
            method,
            bytes: self.take_scratch(&[]),
            layout,
            large: Some(Box::new(body)),
        }))
    }

    /// Gives up the content in progress, as when the channel closes, and what it took.
    pub fn reset(&mut self) {
        self.state = State::Idle;
        self.scratch = Vec::new();
    }

    fn finish_small(&mut self, method: M, layout: Layout, last: &[u8]) -> Content<M> {
        Content {
            method,
            bytes: self.take_scratch(last),
            layout,
            large: None,
        }
    }

    /// What has been gathered and `last`, in one exact allocation.
    fn take_scratch(&mut self, last: &[u8]) -> Bytes {
        let bytes = [self.scratch.as_slice(), last].concat();
        if self.scratch.capacity() > Self::KEPT {
            self.scratch = Vec::new();
        }
        bytes.into()
    }
}

impl<M> Default for Assembler<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// Appends the strings. Where each of them ends.
#[inline]
fn gather<const N: usize>(strings: &[&[u8]; N], bytes: &mut Vec<u8>) -> Strings {
    const { assert!(N <= MAX_STRINGS, "a content keeps at most four strings") };
    let mut ends = [0; MAX_STRINGS];
    for (index, end) in ends.iter_mut().enumerate() {
        if let Some(string) = strings.get(index) {
            bytes.extend_from_slice(string);
        }
        *end = position(bytes);
    }
    ends
}

/// Where what comes next will be.
#[expect(
    clippy::cast_possible_truncation,
    reason = "strings of a method and a header, each within a frame"
)]
fn position(bytes: &[u8]) -> u32 {
    bytes.len() as u32
}

/// Appends, doubling what is reserved but never beyond what was announced: the last step makes it exact.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "lengths of what is in memory; the target is not below them"
)]
fn grow(body: &mut Vec<u8>, payload: &[u8], announced: u64) {
    let len = body.len() + payload.len();
    if len > body.capacity() {
        let target = len
            .saturating_mul(2)
            .min(usize::try_from(announced).unwrap_or(usize::MAX));
        body.reserve_exact(target.max(len) - body.len());
    }
    body.extend_from_slice(payload);
}

/// The part of `source` that `payload` is, if it is one.
fn slice_of(source: &Bytes, payload: &[u8]) -> Option<Bytes> {
    let (whole, part) = (source.as_ptr_range(), payload.as_ptr_range());
    (whole.start <= part.start && part.end <= whole.end).then(|| source.slice_ref(payload))
}

/// A complete content: the method, its strings, the properties and the body. Owns its bytes.
#[derive(Clone)]
pub struct Content<M> {
    /// What the caller kept of the method.
    pub method: M,
    bytes: Bytes,
    layout: Layout,
    /// The body, if it is not in `bytes`. Boxed, as most have none: the less a content takes, the less is moved with it.
    large: Option<Box<Bytes>>,
}

impl<M> Content<M> {
    /// What an [`Assembler`] makes of the method and strings that it starts with, and of the frames that follow. Whether
    /// no other content is in progress is for the caller to check.
    #[inline]
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "lengths of what is in memory"
    )]
    pub fn from_whole<const N: usize>(method: M, strings: &[&[u8]; N], rest: &Whole<'_>) -> Self {
        let lens = strings.iter().map(|string| string.len());
        let len = lens.sum::<usize>() + rest.properties().len() + rest.body().len();
        let mut bytes = Vec::with_capacity(len);
        let strings = gather(strings, &mut bytes);
        bytes.extend_from_slice(rest.properties());
        let body = position(&bytes);
        bytes.extend_from_slice(rest.body());
        Content {
            method,
            bytes: bytes.into(),
            layout: Layout { strings, body },
            large: None,
        }
    }

    /// The string at `index` of those given to [`Assembler::start`]; empty beyond them.
    pub fn string(&self, index: usize) -> &[u8] {
        let strings = &self.layout.strings;
        let start = match index.checked_sub(1) {
            Some(before) => strings.get(before).copied(),
            None => Some(0),
        };
        start
            .zip(strings.get(index).copied())
            .and_then(|(start, end)| self.bytes.get(start as usize..end as usize))
            .unwrap_or_default()
    }

    /// The properties. Parses them anew at each call.
    pub fn properties(&self) -> Properties<'_> {
        // They were decoded before, as a part of the header.
        Properties::decode(self.encoded_properties()).unwrap_or_default()
    }

    /// The properties as they came, flags first.
    pub fn encoded_properties(&self) -> &[u8] {
        let (start, end) = (self.layout.properties_start(), self.layout.body as usize);
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// How many bytes it holds: strings, properties and body.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "lengths of what is in memory"
    )]
    pub fn size(&self) -> usize {
        self.bytes.len() + self.large.as_ref().map_or(0, |body| body.len())
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        match &self.large {
            Some(body) => body,
            None => self
                .bytes
                .get(self.layout.body as usize..)
                .unwrap_or_default(),
        }
    }

    /// The body, shared with this content rather than copied.
    pub fn to_body(&self) -> Bytes {
        match &self.large {
            Some(body) => Bytes::clone(body),
            None => self
                .bytes
                .slice((self.layout.body as usize).min(self.bytes.len())..),
        }
    }

    /// The body alone, not copied. A small one keeps the bytes of strings and properties alive.
    pub fn into_body(self) -> Bytes {
        match self.large {
            Some(body) => *body,
            None => {
                let mut bytes = self.bytes;
                bytes.advance((self.layout.body as usize).min(bytes.len()));
                bytes
            }
        }
    }

    /// The method, the properties with bytes of their own, and the body.
    pub fn into_parts(self) -> (M, Properties<'static>, Bytes) {
        let properties = self.properties().into_owned();
        let (method, rest) = self.split();
        (method, properties, rest.into_body())
    }

    /// The same content with another method.
    pub fn map<N>(self, method: impl FnOnce(M) -> N) -> Content<N> {
        let (old, rest) = self.split();
        Content {
            method: method(old),
            bytes: rest.bytes,
            layout: rest.layout,
            large: rest.large,
        }
    }

    fn split(self) -> (M, Content<()>) {
        let Self {
            method,
            bytes,
            layout,
            large,
        } = self;
        (
            method,
            Content {
                method: (),
                bytes,
                layout,
                large,
            },
        )
    }
}

/// Without the body, of which only the length is shown.
impl<M: fmt::Debug> fmt::Debug for Content<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content")
            .field("method", &self.method)
            .field("properties", &self.properties())
            .field("body_len", &self.body().len())
            .finish()
    }
}
