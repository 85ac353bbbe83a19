//! Cases of the handshake.

use amqp_client::codec::{MethodId, connection};
use amqp_client::error::{CloseCause, Error, ErrorKind, HandshakeError, Initiator, Step};
use amqp_client::{ConnectOptions, Connection};
use amqp_tests::peer::{Greeting, Peer};
use tokio::io::DuplexStream;
use tokio::time::Instant;

use super::case::{Case, End, Failure, Lost, Reason, Told};
use super::memory::Memory;
use super::open::{self, check_told, lost, plain};
use super::peer::Server;
use super::stage::PIPE;

/// Plays a server's part until the client waits in this step.
async fn play_until(peer: &mut Peer<DuplexStream>, step: Step) {
    let greeting = Greeting::default();
    match step {
        Step::Start => {
            peer.expect_protocol().await;
        }
        Step::Credentials => {
            peer.greet(&greeting).await;
        }
        Step::Open => {
            peer.greet(&greeting).await;
            peer.tune(greeting.tune).await;
            peer.expect::<connection::Open>(0).await;
        }
    }
}

/// Plays the rest of it.
async fn play_from(peer: &mut Peer<DuplexStream>, step: Step) {
    let greeting = Greeting::default();
    match step {
        Step::Start => {
            unreachable!("a case that ends well gets beyond the first step by itself");
        }
        Step::Credentials => {
            peer.tune(greeting.tune).await;
            peer.reply::<connection::Open>(0, connection::OpenOk::default())
                .await;
        }
        Step::Open => peer.send(0, connection::OpenOk::default()).await,
    }
}

pub(crate) async fn run(case: Case, step: Step) {
    let Case {
        name,
        acts,
        end,
        mut told,
        within,
        memory,
        options,
        ..
    } = case;
    let (mut peer, stream) = Peer::in_memory(PIPE);
    let mut opening = Box::pin(Connection::open_over(
        stream,
        options(ConnectOptions::new()),
    ));
    tokio::select! {
        result = &mut opening => panic!("{name}: {result:?} before anything happened"),
        () = play_until(&mut peer, step) => {}
    }
    let mut server = Server::new(peer, case.answers_close);
    let memory = Memory::begin(memory);
    let began = Instant::now();
    let result = {
        let serve = async {
            for act in acts {
                server.act(act).await;
            }
            if end == End::Nothing && !case.answered {
                play_from(server.peer(), step).await;
            }
            server.listen().await;
        };
        tokio::select! {
            result = &mut opening => result,
            () = serve => unreachable!("it listens on"),
        }
    };
    let took = began.elapsed();
    open::attend(&mut server, open::settle()).await;
    memory.end(name);
    assert!(took <= within, "{name}: it took {took:?}");
    drop(opening);
    match end {
        End::Nothing => {
            let connection = result.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(connection.is_open(), "{name}");
        }
        End::NotOpened(expected) => {
            let error = result.expect_err(name);
            assert_eq!(failure(&error), expected, "{name}: {error}");
            // What it says is one line, for people.
            assert!(!error.to_string().contains('\n'), "{name}: {error}");
            told.extend(of_failure(&expected));
            check_told(name, &server, &told);
            if let Failure::Violation(Step::Open, code, _) = expected {
                let close = &server.closes[0];
                assert_eq!(close.code, code, "{name}");
                assert!(!close.text.is_empty(), "{name}");
            }
        }
        other => panic!("{name}: {other:?} is no end of a handshake"),
    }
    drop(server);
    open::no_task_left(name).await;
}

/// What the server is told. Specification 2.2.4: before open is sent, who finds a fault closes the socket and sends
/// nothing.
fn of_failure(failure: &Failure) -> Option<Told> {
    let method = match failure {
        Failure::Violation(Step::Open, ..) => MethodId::CONNECTION_CLOSE,
        Failure::CredentialsRefused | Failure::VirtualHostRefused | Failure::ByServer(..) => {
            MethodId::CONNECTION_CLOSE_OK
        }
        _ => return None,
    };
    Some(Told {
        channel: 0,
        method,
        times: 1,
    })
}

/// The error as the table of cases has it.
fn failure(error: &Error) -> Failure {
    assert_eq!(error.kind(), ErrorKind::Handshake, "{error}");
    match error.handshake().unwrap() {
        HandshakeError::Protocol(header) => Failure::Protocol(*header),
        HandshakeError::TlsExpected => Failure::Tls,
        HandshakeError::NotAmqp(_) => Failure::NotAmqp,
        HandshakeError::Version { major, minor } => Failure::Version(*major, *minor),
        HandshakeError::Authentication(_) => Failure::Authentication,
        HandshakeError::CredentialsRefused(_) => Failure::CredentialsRefused,
        HandshakeError::CredentialsProbablyRefused(_) => Failure::CredentialsProbablyRefused,
        HandshakeError::VirtualHostRefused(_) => Failure::VirtualHostRefused,
        HandshakeError::Tune(_) => Failure::Tune,
        HandshakeError::Closed { step, closed } => match (&closed.initiator, &closed.cause) {
            (Initiator::Library, Some(CloseCause::Violation(violation))) => Failure::Violation(
                *step,
                closed.code,
                Reason::Violation(plain(violation.clone())),
            ),
            (Initiator::Server, None) => Failure::ByServer(*step, closed.code),
            (Initiator::Transport, Some(CloseCause::HandshakeTimeout(_))) => {
                Failure::Lost(*step, Lost::HandshakeTimeout)
            }
            (Initiator::Transport, Some(cause)) => Failure::Lost(*step, lost(cause)),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}
