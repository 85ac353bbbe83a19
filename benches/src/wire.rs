//! As much of the protocol as the null broker and the floor client need, written by hand: neither may depend on the
//! codec whose cost is measured against them.

/// What a client sends first.
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";
/// The octet that ends every frame.
pub const FRAME_END: u8 = 0xCE;
/// Octets in front of a frame's payload: type, channel, size.
pub const FRAME_HEADER_LEN: usize = 7;
/// Octets around a frame's payload.
pub const FRAME_OVERHEAD: usize = FRAME_HEADER_LEN + 1;
/// The largest frame either side sends, in octets and with its overhead.
pub const FRAME_MAX: usize = 131_072;

/// Frame types.
pub mod kind {
    #![allow(missing_docs, reason = "names of the specification")]
    pub const METHOD: u8 = 1;
    pub const HEADER: u8 = 2;
    pub const BODY: u8 = 3;
    pub const HEARTBEAT: u8 = 8;
}

/// A method: its class in the high half, its number in the low one, as the four octets on the wire read.
pub mod method {
    #![allow(missing_docs, reason = "names of the specification")]
    pub const CONNECTION_START: u32 = id(10, 10);
    pub const CONNECTION_START_OK: u32 = id(10, 11);
    pub const CONNECTION_TUNE: u32 = id(10, 30);
    pub const CONNECTION_TUNE_OK: u32 = id(10, 31);
    pub const CONNECTION_OPEN: u32 = id(10, 40);
    pub const CONNECTION_OPEN_OK: u32 = id(10, 41);
    pub const CONNECTION_CLOSE: u32 = id(10, 50);
    pub const CONNECTION_CLOSE_OK: u32 = id(10, 51);
    pub const CHANNEL_OPEN: u32 = id(20, 10);
    pub const CHANNEL_OPEN_OK: u32 = id(20, 11);
    pub const CHANNEL_CLOSE: u32 = id(20, 40);
    pub const CHANNEL_CLOSE_OK: u32 = id(20, 41);
    pub const EXCHANGE_DECLARE: u32 = id(40, 10);
    pub const QUEUE_DECLARE: u32 = id(50, 10);
    pub const QUEUE_DECLARE_OK: u32 = id(50, 11);
    pub const QUEUE_BIND: u32 = id(50, 20);
    pub const BASIC_QOS: u32 = id(60, 10);
    pub const BASIC_QOS_OK: u32 = id(60, 11);
    pub const BASIC_CONSUME: u32 = id(60, 20);
    pub const BASIC_CONSUME_OK: u32 = id(60, 21);
    pub const BASIC_CANCEL: u32 = id(60, 30);
    pub const BASIC_CANCEL_OK: u32 = id(60, 31);
    pub const BASIC_PUBLISH: u32 = id(60, 40);
    pub const BASIC_DELIVER: u32 = id(60, 60);
    pub const BASIC_ACK: u32 = id(60, 80);
    pub const BASIC_REJECT: u32 = id(60, 90);
    pub const BASIC_NACK: u32 = id(60, 120);
    pub const CONFIRM_SELECT: u32 = id(85, 10);
    pub const CONFIRM_SELECT_OK: u32 = id(85, 11);

    const fn id(class: u16, method: u16) -> u32 {
        (class as u32) << 16 | method as u32
    }
}

/// One frame of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// One of [`kind`], or whatever was sent.
    pub kind: u8,
    /// The channel.
    pub channel: u16,
    /// What stands between the frame's header and its end.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Octets of the whole frame.
    pub fn len(&self) -> usize {
        self.payload.len() + FRAME_OVERHEAD
    }

    /// Whether there is no payload.
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }

    /// The method's id, with its arguments; of a method frame only.
    #[inline]
    pub fn method(&self) -> Option<(u32, Args<'a>)> {
        let (id, rest) = self.payload.split_first_chunk()?;
        Some((u32::from_be_bytes(*id), Args(rest)))
    }
}

/// The first frame of `input`, or nothing when it is not there as a whole yet.
///
/// # Errors
/// When it is larger than [`FRAME_MAX`] or does not end in [`FRAME_END`].
#[inline]
pub fn first_frame(input: &[u8]) -> Result<Option<Frame<'_>>, Malformed> {
    let Some((header, rest)) = input.split_first_chunk::<FRAME_HEADER_LEN>() else {
        return Ok(None);
    };
    let [kind, c0, c1, s0, s1, s2, s3] = *header;
    let size = u32::from_be_bytes([s0, s1, s2, s3]) as usize;
    if size > FRAME_MAX - FRAME_OVERHEAD {
        return Err(Malformed);
    }
    if rest.len() <= size {
        return Ok(None);
    }
    if rest[size] != FRAME_END {
        return Err(Malformed);
    }
    let channel = u16::from_be_bytes([c0, c1]);
    Ok(Some(Frame {
        kind,
        channel,
        payload: &rest[..size],
    }))
}

/// What was received is no frame, or not what its place calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("malformed or unexpected frame")
    }
}

impl std::error::Error for Malformed {}

/// The arguments of a method, read from the front.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a>(pub &'a [u8]);

impl<'a> Args<'a> {
    /// The next `N` octets.
    ///
    /// # Errors
    /// When fewer are left.
    #[inline]
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// A short string.
    ///
    /// # Errors
    /// When it is not all there.
    #[inline]
    pub fn short(&mut self) -> Result<&'a [u8], Malformed> {
        let [len] = self.take()?;
        let (taken, rest) = self.0.split_at_checked(len.into()).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }
}

/// Appends a method frame whose arguments `args` appends.
pub fn put_method(out: &mut Vec<u8>, channel: u16, id: u32, args: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.push(kind::METHOD);
    out.extend(channel.to_be_bytes());
    out.extend([0; 4]);
    out.extend(id.to_be_bytes());
    args(out);
    let size = (out.len() - start - FRAME_HEADER_LEN) as u32;
    out[start + 3..start + FRAME_HEADER_LEN].copy_from_slice(&size.to_be_bytes());
    out.push(FRAME_END);
}

/// Appends a content header without properties, and the body in as many frames as it takes.
pub fn put_content(out: &mut Vec<u8>, channel: u16, body: &[u8]) {
    out.extend_from_slice(&content_header(channel, body.len()));
    for (front, chunk) in body_fronts(channel, body) {
        out.extend_from_slice(&front);
        out.extend_from_slice(chunk);
        out.push(FRAME_END);
    }
}

/// The body in frames: what goes in front of each piece, and the piece. [`FRAME_END`] goes behind each.
pub fn body_fronts(
    channel: u16,
    body: &[u8],
) -> impl Iterator<Item = ([u8; FRAME_HEADER_LEN], &[u8])> {
    body.chunks(FRAME_MAX - FRAME_OVERHEAD)
        .map(move |chunk| (body_front(channel, chunk.len()), chunk))
}

/// Appends a basic.publish with its content. The names of the exchange and of the key are at most 255 octets long; more
/// is cut off.
pub fn put_publish(out: &mut Vec<u8>, channel: u16, exchange: &[u8], key: &[u8], body: &[u8]) {
    out.reserve(exchange.len() + key.len() + 64 + body.len());
    put_publish_method(out, channel, exchange, key);
    put_content(out, channel, body);
}

/// The same without the frames of the body.
pub fn put_publish_front(
    out: &mut Vec<u8>,
    channel: u16,
    exchange: &[u8],
    key: &[u8],
    body_len: usize,
) {
    put_publish_method(out, channel, exchange, key);
    out.extend_from_slice(&content_header(channel, body_len));
}

#[inline]
fn put_publish_method(out: &mut Vec<u8>, channel: u16, exchange: &[u8], key: &[u8]) {
    let exchange = &exchange[..exchange.len().min(255)];
    let key = &key[..key.len().min(255)];
    let mut front = *b"\x01\0\0\0\0\0\0\0\x3c\0\x28\0\0";
    front[1..3].copy_from_slice(&channel.to_be_bytes());
    front[3..7].copy_from_slice(&((9 + exchange.len() + key.len()) as u32).to_be_bytes());
    out.extend_from_slice(&front);
    out.push(exchange.len() as u8);
    out.extend_from_slice(exchange);
    out.push(key.len() as u8);
    out.extend_from_slice(key);
    out.extend_from_slice(&[0, FRAME_END]);
}

#[inline]
fn content_header(channel: u16, body_len: usize) -> [u8; 22] {
    let mut header = *b"\x02\0\0\0\0\0\x0e\0\x3c\0\0\0\0\0\0\0\0\0\0\0\0\xce";
    header[1..3].copy_from_slice(&channel.to_be_bytes());
    header[11..19].copy_from_slice(&(body_len as u64).to_be_bytes());
    header
}

#[inline]
fn body_front(channel: u16, len: usize) -> [u8; FRAME_HEADER_LEN] {
    let mut front = [kind::BODY, 0, 0, 0, 0, 0, 0];
    front[1..3].copy_from_slice(&channel.to_be_bytes());
    front[3..].copy_from_slice(&(len as u32).to_be_bytes());
    front
}

/// The octets of a basic.ack.
#[inline]
pub fn ack(channel: u16, tag: u64, multiple: bool) -> [u8; 21] {
    let mut frame = *b"\x01\0\0\0\0\0\x0d\0\x3c\0\x50\0\0\0\0\0\0\0\0\0\xce";
    frame[1..3].copy_from_slice(&channel.to_be_bytes());
    frame[11..19].copy_from_slice(&tag.to_be_bytes());
    frame[19] = multiple.into();
    frame
}

/// Appends a short string; what is beyond 255 octets is cut off.
pub fn put_short(out: &mut Vec<u8>, text: &[u8]) {
    let text = &text[..text.len().min(255)];
    out.push(text.len() as u8);
    out.extend_from_slice(text);
}

/// Appends a long string or the content of a table, with its length.
pub fn put_long(out: &mut Vec<u8>, text: &[u8]) {
    out.extend((text.len() as u32).to_be_bytes());
    out.extend_from_slice(text);
}
