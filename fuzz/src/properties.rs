use amqp_codec::basic::Properties;
use amqp_codec::content::Announced;
use amqp_codec::{ContentHeader, Limits};

use crate::encoded;
use crate::tables::check_table;

/// Where the properties begin: behind class, weight and body size.
const FIXED: usize = 12;

/// Any payload of a header frame: what is one encodes to the same bytes, its headers are taken apart or refused without
/// harm to the rest, and whoever looks at less of it sees the same.
pub fn properties(data: &[u8]) {
    let limits = Limits::default();
    let announced = Announced::decode(data);
    let header = match ContentHeader::decode(data) {
        Ok(header) => header,
        Err(error) => {
            assert!(error.offset <= data.len() as u64, "{error}");
            assert!(error.reply_code().is_hard(), "{error}");
            assert_eq!(announced, Err(error));
            return;
        }
    };
    assert_eq!(announced, Ok(Announced::from(&header)));
    assert_eq!(encoded(|bytes| header.encode(bytes)), data);
    assert_eq!(header.encoded_len(), data.len());
    assert_eq!(header.clone().into_owned(), header);
    let _ = format!("{header:?}");

    let list = &data[FIXED..];
    let properties = &header.properties;
    assert_eq!(Properties::decode(list).as_ref(), Ok(properties));
    assert_eq!(properties.encoded_len(), list.len());
    assert_eq!(properties.is_empty(), list == [0, 0]);
    assert_eq!(properties.is_empty(), *properties == Properties::EMPTY);

    match (properties.headers(&limits), &properties.headers) {
        (Ok(None), None) => {}
        (Ok(Some(table)), Some(raw)) => {
            assert_eq!(table.as_bytes(), raw.as_bytes());
            check_table(&table);
        }
        (Err(error), Some(raw)) => assert!(error.offset <= raw.as_bytes().len() as u64),
        (headers, raw) => panic!("{headers:?} of {raw:?}"),
    }
}
