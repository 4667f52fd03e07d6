//! The HTTP client for servers. It follows no redirects and uses no proxies.

/// Returns the builder of a client.
pub(super) fn client_builder() -> reqwest::ClientBuilder {
    // Another caller may have installed the same provider already.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    // A redirect would send the request to another party.
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy()
}
