use super::*;

fn credentials(username: &str, password: &str) -> Credentials {
    Credentials {
        username: username.to_owned(),
        password: Secret::from(password),
    }
}

fn response(mechanism: Sasl, credentials: &Credentials) -> Vec<u8> {
    let mut login = mechanism
        .login(credentials)
        .expect("expressible credentials");
    login
        .initial_response()
        .expect("one response")
        .reveal()
        .to_vec()
}

#[test]
fn plain_separates_by_nul() {
    assert_eq!(
        response(Sasl::Plain, &credentials("bob", "s3cret")),
        b"\0bob\0s3cret"
    );
    assert_eq!(response(Sasl::Plain, &credentials("", "")), b"\0\0");
    assert_eq!(
        response(Sasl::Plain, &credentials("J\u{f8}rgen", "p")),
        b"\0J\xC3\xB8rgen\0p"
    );
}

#[test]
fn plain_refuses_what_would_shift_its_parts() {
    let error = |credentials| Sasl::Plain.login(&credentials).err();
    assert_eq!(
        error(credentials("a\0b", "c")),
        Some(AuthError::Nul("user name"))
    );
    assert_eq!(
        error(credentials("a", "b\0c")),
        Some(AuthError::Nul("password"))
    );
}

#[test]
fn amqplain_is_a_table_without_its_length() {
    assert_eq!(
        response(Sasl::AmqPlain, &credentials("bob", "s\0t")),
        b"\x05LOGINS\0\0\0\x03bob\x08PASSWORDS\0\0\0\x03s\0t"
    );
}

#[test]
fn external_and_anonymous_say_nothing() {
    for mechanism in [Sasl::External, Sasl::Anonymous] {
        assert_eq!(response(mechanism, &Credentials::default()), b"");
    }
}

#[test]
fn a_second_round_is_refused() {
    for mechanism in Sasl::ALL {
        let mut login = mechanism.login(&Credentials::default()).expect("a login");
        login.initial_response().expect("a response");
        assert_eq!(login.respond(b"more?"), Err(AuthError::UnexpectedChallenge));
    }
}

#[test]
fn the_first_wanted_mechanism_that_is_offered_is_chosen() {
    let wanted: Vec<Arc<dyn Mechanism>> = vec![Arc::new(Sasl::External), Arc::new(Sasl::Plain)];
    let chosen = |offered: &[u8]| choose(&wanted, offered).map(|m| m.name().to_owned());
    assert_eq!(chosen(b"PLAIN AMQPLAIN").as_deref(), Ok("PLAIN"));
    assert_eq!(
        chosen(b"ANONYMOUS PLAIN EXTERNAL").as_deref(),
        Ok("EXTERNAL")
    );
    // Part of another name is no match.
    let none = |offered: &str| {
        Err(AuthError::NoCommonMechanism {
            wanted: vec!["EXTERNAL".to_owned(), "PLAIN".to_owned()],
            offered: offered.to_owned(),
        })
    };
    assert_eq!(chosen(b"AMQPLAIN X-PLAIN"), none("AMQPLAIN X-PLAIN"));
    assert_eq!(chosen(b""), none(""));
}

#[test]
fn offered_mechanisms_may_be_any_bytes() {
    let error = choose(&[], b"\xFF\n")
        .map(|_| ())
        .expect_err("nothing is wanted");
    assert!(error.to_string().contains("\\n"), "escaped: {error}");
}

#[test]
fn debug_output_hides_the_secret() {
    let shown = format!("{:?}", credentials("bob", "hunter2"));
    assert!(
        shown.contains("bob") && !shown.contains("hunter2"),
        "{shown}"
    );
}
