//! The one way in which we speak HTTP to servers: no redirect is followed, and nobody stands between.

/// A client, to be built.
pub(super) fn client() -> reqwest::ClientBuilder {
    // Whoever was first to install one has; it is the same.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    // A redirect would take what is sent to somebody else.
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy()
}
