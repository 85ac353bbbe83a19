use amqp_client::{ConnectOptions, Uri};

/// Any text as a URI: what is accepted comes back from its own text, and no text but the one that is asked for with the
/// password shows anything of one, errors included.
pub fn uri(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match text.parse::<Uri>() {
        Ok(uri) => check_accepted(&uri),
        Err(error) => {
            // The same text with another user and password is refused with the same words, if it is refused.
            if let Err(other) = with_other_userinfo(text).parse::<Uri>() {
                assert_eq!(format!("{error:?} {error}"), format!("{other:?} {other}"));
            }
        }
    }
}

fn check_accepted(uri: &Uri) {
    let whole = uri.with_password();
    let again: Uri = whole.parse().expect("its own text");
    assert_eq!(again, *uri);
    assert_eq!(again.with_password(), whole);
    assert!(whole.is_ascii());
    assert!(uri.vhost().is_none_or(|vhost| vhost.len() <= 255));
    assert_ne!(uri.port(), Some(0));

    // What is shown depends on everything but what the password is. A `*` of any other part is escaped.
    let shown = uri.to_string();
    let with_password = |password| -> Uri {
        let text = shown.replacen(":***@", password, 1);
        text.parse().expect("its text with another password")
    };
    let (one, two) = (with_password(":first@"), with_password(":second@"));
    assert_eq!(uri.password().is_some(), one != two);
    assert_eq!(one.to_string(), shown);
    assert_eq!(two.to_string(), shown);
    assert_eq!(format!("{one:?}"), format!("{uri:?}"));
    assert_eq!(format!("{two:?}"), format!("{uri:?}"));
    if uri.password().is_none() {
        assert_eq!(whole, shown);
    }

    let options = |uri: &Uri| format!("{:?}", ConnectOptions::from(uri));
    if uri.password().is_some() {
        assert_eq!(options(&one), options(uri));
        assert_eq!(options(&two), options(uri));
    }
    if let Ok(options) = ConnectOptions::try_from(whole.as_str()) {
        assert!(!options.addresses_or_default().is_empty());
    }
}

/// Between the scheme and the last `@`, which is where a password can be, each letter is another one of its kind; those
/// that a percent-encoding consists of stay.
fn with_other_userinfo(text: &str) -> String {
    let start = text.find("://").map_or(0, |at| at + 3);
    let Some(end) = text.rfind('@').filter(|end| *end >= start) else {
        return text.to_owned();
    };
    let other = |c: char| match c {
        'z' => 'g',
        'g'..'z' => char::from(c as u8 + 1),
        'Z' => 'G',
        'G'..'Z' => char::from(c as u8 + 1),
        _ => c,
    };
    let userinfo: String = text[start..end].chars().map(other).collect();
    [&text[..start], &userinfo, &text[end..]].concat()
}
