//! Intercepts TLS to hosts that have a credential, and to hosts that may only be read.
//!
//! The certificate authority is created in memory for one session. Its key is never written and never inside. Only connections to
//! such hosts are intercepted. Certificates of the hosts are verified as usual.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ServerConfig};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::buffered_stream::BufferedStream;

/// The maximum number of hosts whose certificates are kept.
const HOSTS_MAX: usize = 1024;

/// The TLS interceptor of one session, with its own certificate authority and the settings to verify hosts.
pub struct TlsInterceptor {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    towards: Arc<ClientConfig>,
    made: Mutex<HashMap<String, Arc<ServerConfig>>>,
}

/// The error for an interceptor that cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum TlsInterceptorError {
    /// No certificate could be created.
    #[error("cannot create a certificate for the session: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS cannot be set up, or there are no roots to verify hosts against.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

impl TlsInterceptor {
    /// Creates the interceptor of a session. Hosts are verified against the roots of this machine.
    pub fn new() -> Result<Self, TlsInterceptorError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let towards = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_platform_verifier()?
            .with_no_client_auth();
        Self::towards(towards)
    }

    /// Creates the interceptor of a session. Hosts are verified with this configuration.
    pub fn towards(mut towards: ClientConfig) -> Result<Self, TlsInterceptorError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Byleave, this session only");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?.pem();
        towards.alpn_protocols = vec![b"http/1.1".to_vec()];
        let issuer = Issuer::new(params, key);
        Ok(Self { issuer, certificate, towards: Arc::new(towards), made: Mutex::default() })
    }

    /// Returns the certificate of the authority in PEM, for the programs inside to trust. The key cannot be read.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Opens TLS at both ends. The ClientHello is still buffered and names the host.
    pub(crate) async fn intercept(
        &self,
        host: &str,
        client: BufferedStream,
        upstream: BufferedStream,
        whole: Duration,
    ) -> io::Result<(BufferedStream, BufferedStream)> {
        let opening = async {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            let behind = tokio::io::join(upstream.reader, upstream.writer);
            let behind = TlsConnector::from(Arc::clone(&self.towards)).connect(name, behind).await?;
            let config = self.config(host).map_err(io::Error::other)?;
            let before = tokio::io::join(client.reader, client.writer);
            let before =
                TlsAcceptor::from(config).accept(before).await.map_err(|fault| distrusted(&fault))?;
            Ok((BufferedStream::from_stream(before), BufferedStream::from_stream(behind)))
        };
        tokio::time::timeout(whole, opening).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    fn config(&self, host: &str) -> Result<Arc<ServerConfig>, TlsInterceptorError> {
        if let Some(config) = self.made.lock().get(host) {
            return Ok(Arc::clone(config));
        }
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![host.to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, "Byleave");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = Arc::new(config);
        let mut made = self.made.lock();
        if made.len() >= HOSTS_MAX {
            made.clear();
        }
        made.insert(host.to_owned(), Arc::clone(&config));
        Ok(config)
    }
}

/// Describes why a program did not accept our certificate.
fn distrusted(fault: &io::Error) -> io::Error {
    let why =
        "the program does not trust the certificate of the proxy, which checks what is sent to this host";
    io::Error::new(fault.kind(), format!("{why}: {fault}"))
}
