use amqp_codec::{DecodeErrorKind, Limits, Method};

use crate::encoded;

/// Any payload of a method frame: what is a method encodes to the same bytes, and is none with a byte less or more.
pub fn methods(data: &[u8]) {
    let limits = Limits::default();
    let method = match Method::decode(data, &limits) {
        Ok(method) => method,
        Err(error) => {
            assert!(error.offset <= data.len() as u64, "{error}");
            // The whole connection cannot go on: there is no code for a channel alone.
            assert!(error.reply_code().is_hard(), "{error}");
            return;
        }
    };
    assert_eq!(encoded(|bytes| method.encode(bytes)), data);
    assert_eq!(method.payload_len(), data.len());

    let id = method.id();
    let head = [id.class.to_be_bytes(), id.method.to_be_bytes()].concat();
    assert_eq!(head, data[..4]);
    assert!(id.name().is_some() && id.direction().is_some(), "{id}");
    for reply in id.replies() {
        assert!(reply.name().is_some(), "{id} is answered by {reply}");
    }

    let shown = format!("{method:?}");
    let owned = method.clone().into_owned();
    assert_eq!(owned, method);
    assert_eq!(format!("{owned:?}"), shown);

    assert!(Method::decode(&data[..data.len() - 1], &limits).is_err());
    let longer = [data, &[0]].concat();
    let error = Method::decode(&longer, &limits).expect_err("a byte too many");
    assert_eq!(error.kind, DecodeErrorKind::TrailingBytes);
    assert_eq!(error.offset, data.len() as u64);
}
