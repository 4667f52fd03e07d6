//! TLS of the fake internet: an authority of its own, and a certificate for each name that a client asks for.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The file with the authorities that the programs of this machine trust. A machine of [`crate::machine`] has one of its own.
const TRUSTED: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The listener's side of TLS.
#[derive(Debug)]
pub(crate) struct InternetTls(Arc<ServerConfig>);

impl InternetTls {
    /// Creates an authority, and adds it to those that the programs of this machine trust.
    pub(crate) fn trusted_here() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Fake internet");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().pem();
        let mut trusted = std::fs::OpenOptions::new().append(true).open(TRUSTED).unwrap();
        writeln!(trusted, "\n{certificate}").unwrap();
        let resolver = NamedCertificates { issuer: Issuer::new(params, key), made: Mutex::default() };
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self(Arc::new(config))
    }

    /// Opens TLS with a client. Returns the name that it asked for, and the stream inside. `None` if the client does not go on.
    pub(crate) fn accept(
        &self,
        mut stream: TcpStream,
    ) -> Option<(String, StreamOwned<ServerConnection, TcpStream>)> {
        let mut connection = ServerConnection::new(Arc::clone(&self.0)).ok()?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream).ok()?;
        }
        let name = connection.server_name().unwrap_or_default().to_owned();
        Some((name, StreamOwned::new(connection, stream)))
    }
}

/// Certificates by name, made when they are needed.
struct NamedCertificates {
    issuer: Issuer<'static, KeyPair>,
    made: Mutex<BTreeMap<String, Arc<CertifiedKey>>>,
}

impl std::fmt::Debug for NamedCertificates {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("NamedCertificates")
    }
}

impl ResolvesServerCert for NamedCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().unwrap_or("unnamed.example").to_owned();
        let mut made = self.made.lock().unwrap();
        if let Some(known) = made.get(&name) {
            return Some(Arc::clone(known));
        }
        let key = KeyPair::generate().ok()?;
        let params = CertificateParams::new(vec![name.clone()]).ok()?;
        let certificate = params.signed_by(&key, &self.issuer).ok()?;
        let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let signer = ring::default_provider().key_provider.load_private_key(private).ok()?;
        let whole = Arc::new(CertifiedKey::new(vec![certificate.der().clone()], signer));
        made.insert(name, Arc::clone(&whole));
        Some(whole)
    }
}
