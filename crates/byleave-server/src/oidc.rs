//! Sign-in with OpenID Connect. The provider identifies the person; the token list maps the identity to a principal.
//!
//! It uses the authorization code flow with PKCE, a state and a nonce. The provider's metadata is requested at every sign-in,
//! so its keys are never outdated. Of the provider's data only the identity is kept. No redirect is followed, and the size of
//! responses is limited.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use byleave_gate::secret::Secret;
use openidconnect::core::{CoreAuthenticationFlow, CoreClient, CoreProviderMetadata};
use openidconnect::{
    AuthorizationCode, ClientId, ClientSecret, CsrfToken, HttpRequest, HttpResponse, IssuerUrl, Nonce,
    PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope, TokenResponse as _,
};
use parking_lot::Mutex;
use url::Url;

use crate::tokens::OidcIdentity;

/// How long a person may take at the provider.
const PENDING: Duration = Duration::from_secs(600);
const PENDING_MAX: usize = 1_000;
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
const LIMIT: Duration = Duration::from_secs(10);

/// An OpenID Connect provider.
pub struct OidcProvider {
    issuer: IssuerUrl,
    client: ClientId,
    secret: Option<ClientSecret>,
    http: reqwest::Client,
    pending: Mutex<HashMap<String, PendingSignIn>>,
}

/// The reason why a sign-in failed.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// The provider cannot be used.
    #[error("cannot use the issuer `{0}`: {1}")]
    Issuer(String, String),
    /// The response of the provider or the browser is invalid.
    #[error("{0}")]
    Refused(String),
}

/// A sign-in that was begun.
struct PendingSignIn {
    at: Instant,
    provider: CoreProviderMetadata,
    redirect: RedirectUrl,
    nonce: Nonce,
    verifier: PkceCodeVerifier,
    next: String,
}

/// The address to redirect to, and the state that must come back.
pub(crate) struct SignInRedirect {
    pub(crate) url: String,
    pub(crate) state: String,
}

/// A verified identity in each form that the token list may contain, and the requested page.
pub(crate) struct VerifiedSignIn {
    pub(crate) identities: Vec<OidcIdentity>,
    pub(crate) next: String,
}

impl OidcProvider {
    /// Creates a provider by its issuer address, which must be https or on this machine.
    pub fn new(issuer: &str, client: String, secret: Option<&Secret>) -> Result<Self, OidcError> {
        let bad = |why: String| OidcError::Issuer(issuer.to_owned(), why);
        let address = Url::parse(issuer).map_err(|error| bad(error.to_string()))?;
        if !may_ask(&address) {
            return Err(bad("the address must use https, or be on this machine".to_owned()));
        }
        let secret = secret.map(|secret| {
            let text = String::from_utf8(secret.expose().to_vec());
            text.map(ClientSecret::new).map_err(|_| bad("the client secret is not UTF-8 text".to_owned()))
        });
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Another caller may have installed the same provider already.
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(LIMIT)
            .build()
            .map_err(|error| bad(error.to_string()))?;
        Ok(Self {
            issuer: IssuerUrl::new(issuer.to_owned()).map_err(|error| bad(error.to_string()))?,
            client: ClientId::new(client),
            secret: secret.transpose()?,
            http,
            pending: Mutex::default(),
        })
    }

    /// Begins a sign-in that redirects back to this address.
    pub(crate) async fn start_sign_in(
        &self,
        back: String,
        next: String,
    ) -> Result<SignInRedirect, OidcError> {
        let bad = |why: String| OidcError::Issuer(self.issuer.to_string(), why);
        let http = |request| ask(self.http.clone(), request);
        let provider = CoreProviderMetadata::discover_async(self.issuer.clone(), &http).await;
        let provider = provider.map_err(|error| bad(error.to_string()))?;
        let redirect = RedirectUrl::new(back).map_err(|error| bad(error.to_string()))?;
        let client =
            CoreClient::from_provider_metadata(provider.clone(), self.client.clone(), self.secret.clone())
                .set_redirect_uri(redirect.clone());
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let (to, state, nonce) = client
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                CsrfToken::new_random,
                Nonce::new_random,
            )
            .add_scope(Scope::new("email".to_owned()))
            .set_pkce_challenge(challenge)
            .url();
        if !may_ask(&to) {
            return Err(bad("its authorization address does not use https".to_owned()));
        }
        let mut pending = self.pending.lock();
        pending.retain(|_, begun| begun.at.elapsed() < PENDING);
        if pending.len() >= PENDING_MAX {
            return Err(OidcError::Refused("too many sign-ins are in progress; try again later".to_owned()));
        }
        let state = state.secret().clone();
        pending.insert(
            state.clone(),
            PendingSignIn { at: Instant::now(), provider, redirect, nonce, verifier, next },
        );
        Ok(SignInRedirect { url: to.to_string(), state })
    }

    /// Completes a sign-in, once. Exchanges the provider's code for the identity.
    pub(crate) async fn finish_sign_in(
        &self,
        state: &str,
        code: String,
    ) -> Result<VerifiedSignIn, OidcError> {
        let refused = |why: String| OidcError::Refused(why);
        let begun = self.pending.lock().remove(state);
        let begun = begun.filter(|begun| begun.at.elapsed() < PENDING);
        let begun = begun.ok_or_else(|| {
            refused("this sign-in was not started here, or took too long; sign in again".into())
        })?;
        let client =
            CoreClient::from_provider_metadata(begun.provider, self.client.clone(), self.secret.clone())
                .set_redirect_uri(begun.redirect);
        let http = |request| ask(self.http.clone(), request);
        let request = client.exchange_code(AuthorizationCode::new(code));
        let request = request.map_err(|error| refused(error.to_string()))?;
        let given = request.set_pkce_verifier(begun.verifier).request_async(&http).await;
        let given =
            given.map_err(|error| refused(format!("the provider did not accept the code: {error}")))?;
        let token = given.id_token().ok_or_else(|| refused("the provider sent no ID token".into()))?;
        let claims = token.claims(&client.id_token_verifier(), &begun.nonce);
        let claims =
            claims.map_err(|error| refused(format!("the ID token of the provider is not valid: {error}")))?;
        let identity = |who: String| OidcIdentity { issuer: self.issuer.to_string(), subject: who };
        let mut identities = vec![identity(format!("sub:{}", claims.subject().as_str()))];
        if let (Some(email), Some(true)) = (claims.email(), claims.email_verified()) {
            identities.push(identity(format!("email:{}", email.as_str())));
        }
        Ok(VerifiedSignIn { identities, next: begun.next })
    }
}

/// Checks whether requests may be sent to an address. Others must not be able to listen.
fn may_ask(address: &Url) -> bool {
    let host = address.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    address.scheme() == "https" || (address.scheme() == "http" && local)
}

/// The reason why the provider did not answer.
#[derive(Debug, thiserror::Error)]
enum OidcHttpError {
    #[error("the request would not use https")]
    Unprotected,
    #[error("the response is larger than {ANSWER_BYTES_MAX} bytes")]
    TooLarge,
    #[error("{0}")]
    Http(#[from] reqwest::Error),
    #[error("{0}")]
    Nonsense(#[from] axum::http::Error),
}

async fn ask(http: reqwest::Client, request: HttpRequest) -> Result<HttpResponse, OidcHttpError> {
    let request = reqwest::Request::try_from(request)?;
    if !may_ask(request.url()) {
        return Err(OidcHttpError::Unprotected);
    }
    let mut answered = http.execute(request).await?;
    let mut response = axum::http::Response::builder().status(answered.status());
    for (name, value) in answered.headers() {
        response = response.header(name, value);
    }
    let mut body = Vec::new();
    while let Some(chunk) = answered.chunk().await? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(OidcHttpError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(response.body(body)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_others_cannot_hear_is_asked() {
        for (address, good) in [
            ("https://id.example.org", true),
            ("http://127.0.0.1:9000", true),
            ("http://[::1]:9000", true),
            ("http://localhost", true),
            ("http://id.example.org", false),
            ("http://127.0.0.1.example.org", false),
            ("ftp://127.0.0.1", false),
        ] {
            assert_eq!(OidcProvider::new(address, "byleave".into(), None).is_ok(), good, "{address}");
        }
    }
}
