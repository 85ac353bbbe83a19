//! What stands in for TLS in a build without the feature `rustls`: options that ask for it are refused.

use tokio::io::{AsyncRead, AsyncWrite};

use crate::config::{Tls, TlsConfigError};
use crate::error::{CloseCause, TlsError};

/// There is none.
pub(super) enum Connector {}

/// None either.
#[derive(Clone)]
pub(super) enum Name {}

pub(super) struct Secured<S> {
    pub(super) stream: S,
    pub(super) hints: Hints,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Hints;

impl Connector {
    pub(super) async fn new(_tls: Tls) -> Result<Self, TlsConfigError> {
        Err(TlsConfigError::FeatureMissing)
    }

    pub(super) fn server_name(&self, _host: &str) -> Result<Name, TlsConfigError> {
        match *self {}
    }

    pub(super) async fn connect<S>(&self, _stream: S, name: Name) -> Result<Secured<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        match name {}
    }
}

pub(super) fn late_error(_cause: &CloseCause, _hints: Hints) -> Option<TlsError> {
    None
}
