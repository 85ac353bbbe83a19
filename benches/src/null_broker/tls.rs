//! TLS in front of a null broker, which itself knows nothing of it.

use std::io;
use std::net::{self, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Takes TLS connections on a free port of 127.0.0.1 and hands on what they say. Says where; ends with the process.
///
/// # Errors
/// When there is no port, or the files are not what they should be.
pub fn in_front_of(broker: SocketAddr, certificate: &Path, key: &Path) -> io::Result<SocketAddr> {
    let acceptor = TlsAcceptor::from(Arc::new(configuration(certificate, key)?));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let listener = net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        runtime.block_on(async {
            let Ok(listener) = TcpListener::from_std(listener) else {
                return;
            };
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                // The client learns of a failure by the end of its socket.
                tokio::spawn(async move { relay(stream, &acceptor, broker).await });
            }
        });
    });
    Ok(address)
}

async fn relay(stream: TcpStream, acceptor: &TlsAcceptor, broker: SocketAddr) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut client = acceptor.accept(stream).await?;
    let mut broker = TcpStream::connect(broker).await?;
    broker.set_nodelay(true)?;
    copy_bidirectional(&mut client, &mut broker).await?;
    Ok(())
}

fn configuration(certificate: &Path, key: &Path) -> io::Result<ServerConfig> {
    let certificates = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(io::Error::other)?;
    ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(io::Error::other)
}
