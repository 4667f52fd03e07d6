//! OAuth login with a code and PKCE at a server over HTTP. It is split into steps, and a person is shown each step before it
//! is taken.
//!
//! ```text
//! where ─▶ (endpoints looked at; other hosts shown) ─▶ begin ─▶ (address opened) ─▶ finish ─▶ tokens
//! ```
//!
//! Nothing is sent to an endpoint, and no endpoint is passed on, before it was checked. Secrets leave this module only for
//! the login file and for the endpoints that the person was shown.

mod endpoint;
mod http_client;
mod redirect_listener;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::auth::{AuthorizationMetadata, OAuthClientConfig};
use rmcp::transport::{AuthError, AuthorizationManager, CredentialStore as _, InMemoryCredentialStore};
use serde_json::json;
use url::Url;

use self::endpoint::{EndpointPolicy, host_and_port};
use self::http_client::LoginHttpClient;
use self::redirect_listener::RedirectListener;
use super::login_store::{Login, LoginStore, LoginStoreError, ServerCredentialStore};
use super::server_definition::{Launch, ServerDefinition, ServerName};

pub use self::endpoint::EndpointError;

/// How long a server may take to name its login endpoints.
const DISCOVERY: Duration = Duration::from_secs(60);
/// The maximum bytes of a client id and its secret together.
const CLIENT_BYTES_MAX: usize = 2_048;
/// The maximum number of requested scopes.
const SCOPES_MAX: usize = 100;

/// Options of a login.
#[derive(Clone, Debug, Default)]
pub struct LoginOptions {
    /// The client id at the authorization server. Without it, a client is registered.
    pub client_id: Option<String>,
    /// Whether hosts in the person's own network are allowed.
    pub allow_private_network: bool,
}

/// The reason why a login failed.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The server is not remote, so there is no login.
    #[error("the server `{0}` is a local program and needs no login")]
    NotRemote(ServerName),
    /// A configured header identifies the client already.
    #[error(
        "the server `{0}` already has a configured `Authorization` header; remove that header, then log in"
    )]
    AlreadyAuthorized(ServerName),
    /// The server's own address cannot be used for a login.
    #[error("cannot log in at the address of the server: {0}")]
    InvalidServerUrl(EndpointError),
    /// The server names an endpoint that is not allowed.
    #[error("the server must not be trusted with a login: {0}; nothing was opened")]
    Endpoint(#[from] EndpointError),
    /// The server does not name an authorization server.
    #[error("the server does not name an authorization server: {0}")]
    NoAuthorizationServer(String),
    /// The authorization server does not support a safe login.
    #[error("the authorization server cannot be used: {0}")]
    Unsupported(&'static str),
    /// The authorization server did not register the client.
    #[error("the authorization server did not register this client: {0}")]
    NotRegistered(String),
    /// The returned state does not match the login that was begun.
    #[error("the browser returned a response of another login (different `state`); nothing was exchanged")]
    WrongState,
    /// The person or the authorization server denied the login.
    #[error("the authorization server denied the login: {0}")]
    Denied(String),
    /// The returned code was not accepted.
    #[error("the login was not completed: {0}")]
    NotExchanged(String),
    /// The browser did not come back in time.
    #[error("the login in the browser was not finished within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The login cannot be stored.
    #[error(transparent)]
    Store(#[from] LoginStoreError),
    /// A system call failed.
    #[error("cannot log in: {0}")]
    Io(String),
}

/// The checked endpoints of a login. Nothing was sent to them yet.
pub struct LoginDestination {
    server: ServerName,
    url: String,
    standpoint: EndpointPolicy,
    courier: Arc<LoginHttpClient>,
    manager: AuthorizationManager,
    metadata: AuthorizationMetadata,
    issuer: String,
    endpoints: OAuthEndpoints,
    scopes: Vec<String>,
    client_id: Option<String>,
}

struct OAuthEndpoints {
    authorization: Url,
    token: Url,
    registration: Option<Url>,
    issuer: Url,
}

/// A login that was begun. Its address is for a browser.
pub struct PendingLogin {
    destination: LoginDestination,
    landing: RedirectListener,
    address: String,
    state: String,
    resource: String,
    client: OAuthClientConfig,
}

impl LoginDestination {
    /// Asks a server for its login endpoints, and checks them.
    pub async fn discover(definition: &ServerDefinition, manner: LoginOptions) -> Result<Self, LoginError> {
        let server = definition.name.clone();
        let Launch::Http { url, headers } = &definition.launch else {
            return Err(LoginError::NotRemote(server));
        };
        if names_itself(headers) {
            return Err(LoginError::AlreadyAuthorized(server));
        }
        let parsed = Url::parse(url).map_err(|error| LoginError::Io(error.to_string()))?;
        let standpoint =
            EndpointPolicy { server: parsed, allow_private_network: manner.allow_private_network };
        standpoint.check_endpoint("address", url).map_err(LoginError::InvalidServerUrl)?;
        let courier =
            LoginHttpClient::new(standpoint.clone()).map_err(|error| LoginError::Io(error.to_string()))?;
        let courier = Arc::new(courier);
        let manager = managed(&standpoint.server, &courier).await?;
        let resolved = tokio::time::timeout(DISCOVERY, manager.resolve_metadata()).await;
        let resolved =
            resolved.map_err(|_| LoginError::NoAuthorizationServer("the discovery timed out".into()))?;
        let resolved = resolved.map_err(|error| match courier.refused() {
            Some(unsound) => LoginError::Endpoint(unsound),
            None => LoginError::NoAuthorizationServer(told(&error)),
        })?;
        if !resolved.source.is_discovered() {
            return Err(LoginError::NoAuthorizationServer("the server has no OAuth metadata".into()));
        }
        let metadata = resolved.metadata;
        let (endpoints, issuer) = looked_at(&standpoint, &metadata)?;
        let (client_id, mut this) = (manner.client_id, manager);
        this.set_metadata(metadata.clone());
        let scopes = this.select_initial_scopes(&[]).await;
        if scopes.len() > SCOPES_MAX {
            return Err(LoginError::Unsupported("it asks for too many scopes"));
        }
        let (manager, url) = (this, url.clone());
        Ok(Self { server, url, standpoint, courier, manager, metadata, issuer, endpoints, scopes, client_id })
    }

    /// Returns the issuer of the login.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the scopes that would be requested.
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// Returns the hosts beside the server's own that a login contacts, each with its purpose.
    pub fn other_hosts(&self) -> Vec<(String, String)> {
        let own = host_and_port(&self.standpoint.server);
        let all = [
            ("issues the login", Some(&self.endpoints.issuer)),
            ("is opened in your browser", Some(&self.endpoints.authorization)),
            (
                "registers this client",
                self.endpoints.registration.as_ref().filter(|_| self.client_id.is_none()),
            ),
            ("issues the tokens", Some(&self.endpoints.token)),
        ];
        let mut hosts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (what, url) in all {
            let Some(url) = url else { continue };
            hosts.entry(host_and_port(url)).or_default().push(what);
        }
        hosts.remove(&own);
        hosts.into_iter().map(|(host, what)| (host, what.join(", "))).collect()
    }

    /// Begins the login: registers a client if needed, and creates the address for the browser.
    pub async fn start(mut self) -> Result<PendingLogin, LoginError> {
        let landing = RedirectListener::new().await.map_err(|error| LoginError::Io(error.to_string()))?;
        let registration = self.endpoints.registration.clone();
        self.courier.restrict_to(registration.into_iter().chain([self.endpoints.token.clone()]).collect());
        let scopes: Vec<&str> = self.scopes.iter().map(String::as_str).collect();
        let client = match self.client_id.clone() {
            Some(id) => {
                let client = OAuthClientConfig::new(id, landing.redirect_uri());
                self.manager
                    .configure_client(client.clone())
                    .map_err(|error| LoginError::Io(told(&error)))?;
                client
            }
            None if self.endpoints.registration.is_none() => {
                let why = "it does not support automatic registration; register a client there, and give its id with `--client-id`";
                return Err(LoginError::NotRegistered(why.into()));
            }
            None => {
                let registered =
                    self.manager.register_client("byleave", &landing.redirect_uri(), &scopes).await;
                registered.map_err(|_| LoginError::NotRegistered(self.said()))?
            }
        };
        let secret = client.client_secret.as_deref().unwrap_or_default();
        let told_us = client.client_id.len() + secret.len();
        if client.client_id.is_empty()
            || told_us > CLIENT_BYTES_MAX
            || client.client_id.contains(char::is_control)
        {
            return Err(LoginError::Unsupported("the client id that it issued is not usable"));
        }
        let made = self.manager.get_authorization_url(&scopes).await;
        let address = made.map_err(|error| LoginError::Io(told(&error)))?;
        let opened = self.standpoint.check_redirect_target(&self.endpoints.authorization, &address)?;
        let said = |wanted: &str| {
            let mut found = opened.query_pairs().filter(|(name, _)| name == wanted);
            // If the endpoint already contains one of our parameters, it is ambiguous which one is used.
            found.next().filter(|_| found.next().is_none()).map(|(_, value)| value.into_owned())
        };
        let (state, resource, method) = (said("state"), said("resource"), said("code_challenge_method"));
        let (Some(state), Some(resource), Some("S256")) = (state, resource, method.as_deref()) else {
            return Err(LoginError::Unsupported(
                "its authorization endpoint already contains parameters that only the client may set",
            ));
        };
        Ok(PendingLogin { address: opened.into(), destination: self, landing, state, resource, client })
    }

    /// Returns the error that an endpoint gave.
    fn said(&self) -> String {
        self.courier
            .error_message()
            .map_or_else(|| "it sent an invalid response".into(), |said| format!("it answered {said}"))
    }
}

impl PendingLogin {
    /// Returns the address for a browser: an `https` address in plain characters, or one on this machine.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits until the browser comes back, once. Exchanges the code for tokens and stores the login.
    pub async fn finish(self, wait: Duration, logins: &LoginStore) -> Result<(), LoginError> {
        let Self { destination, landing, state, resource, client, .. } = self;
        let came = tokio::time::timeout(wait, landing.wait_for_redirect(&state)).await;
        let came = came.map_err(|_| LoginError::Timeout(wait))?;
        let came = came.map_err(|error| LoginError::Io(error.to_string()))?;
        if came.state != state {
            return Err(LoginError::WrongState);
        }
        let Some(code) = came.code.filter(|_| came.error.is_none()) else {
            let error = came.error.filter(|error| http_client::is_oauth_error_code(error));
            return Err(LoginError::Denied(error.unwrap_or_else(|| "no reason given".into())));
        };
        let kept = InMemoryCredentialStore::new();
        let mut manager = destination.manager;
        manager.set_credential_store(kept.clone());
        let exchanged =
            manager.exchange_code_for_token_with_issuer(&code, &state, came.issuer.as_deref()).await;
        if let Err(error) = exchanged {
            return Err(LoginError::NotExchanged(match error {
                AuthError::AuthorizationServerMismatch { .. }
                | AuthError::AuthorizationServerMissingIssuer { .. }
                | AuthError::AuthorizationFailed(_) => "the response came from another issuer".into(),
                _ => destination.courier.error_message().map_or_else(
                    || "the token endpoint sent an invalid response".into(),
                    |said| format!("the token endpoint answered {said}"),
                ),
            }));
        }
        let credentials = kept.load().await.ok().flatten();
        let credentials =
            credentials.ok_or_else(|| LoginError::NotExchanged("the response contained no token".into()))?;
        let login = Login {
            issuer: destination.issuer,
            authorization_endpoint: destination.endpoints.authorization.into(),
            token_endpoint: destination.endpoints.token.into(),
            resource,
            client_secret: client.client_secret,
            secret_is_posted: posts_secret(&destination.metadata),
            allow_private_network: destination.standpoint.allow_private_network,
            credentials,
        };
        Ok(logins.store(&destination.server, &destination.url, login)?)
    }
}

/// Returns the manager that supplies and refreshes the login for a server's connection. Without a login it sends none.
pub(super) async fn authorized_client(
    server: &ServerName,
    url: &str,
    headers: &BTreeMap<String, String>,
    logins: &LoginStore,
) -> Result<AuthorizationManager, LoginError> {
    let parsed = Url::parse(url).map_err(|error| LoginError::Io(error.to_string()))?;
    let login = if names_itself(headers) { None } else { logins.login(server, url)? };
    let own_network = login.as_ref().is_some_and(|login| login.allow_private_network);
    // The hosts were shown at login. They are checked again, because the file may have been changed.
    let standpoint = EndpointPolicy { server: parsed, allow_private_network: own_network };
    let courier =
        LoginHttpClient::new(standpoint.clone()).map_err(|error| LoginError::Io(error.to_string()))?;
    let courier = Arc::new(courier);
    let Some(login) = login else { return managed(&standpoint.server, &courier).await };
    standpoint.check_endpoint("address", url).map_err(LoginError::InvalidServerUrl)?;
    let token = standpoint.check_endpoint("token endpoint", &login.token_endpoint)?;
    courier.restrict_to(vec![token]);
    // The tokens are requested for the server as their resource.
    let resource = Url::parse(&login.resource).ok();
    let resource = resource.filter(|resource| resource.origin() == standpoint.server.origin());
    let resource = resource.ok_or(LoginError::Unsupported("the login is for another server"))?;
    let mut manager = managed(&resource, &courier).await?;
    let mut metadata = AuthorizationMetadata::default();
    metadata.authorization_endpoint.clone_from(&login.authorization_endpoint);
    metadata.token_endpoint.clone_from(&login.token_endpoint);
    metadata.issuer = Some(login.issuer.clone());
    if login.secret_is_posted {
        metadata.additional_fields.insert(METHODS.into(), json!([POSTED]));
    }
    manager.set_metadata(metadata);
    let mut client = OAuthClientConfig::new(login.credentials.client_id.clone(), url);
    client.client_secret.clone_from(&login.client_secret);
    manager.configure_client(client).map_err(|error| LoginError::Io(told(&error)))?;
    manager.set_credential_store(ServerCredentialStore::new(
        logins.clone(),
        server.clone(),
        url.to_owned(),
        &login,
    ));
    Ok(manager)
}

const METHODS: &str = "token_endpoint_auth_methods_supported";
const POSTED: &str = "client_secret_post";

fn posts_secret(metadata: &AuthorizationMetadata) -> bool {
    let methods = metadata.additional_fields.get(METHODS).and_then(|methods| methods.as_array());
    methods.is_some_and(|methods| {
        methods.contains(&json!(POSTED)) && !methods.contains(&json!("client_secret_basic"))
    })
}

/// Checks whether the configured headers identify the client. Then no login is sent beside them.
fn names_itself(headers: &BTreeMap<String, String>) -> bool {
    headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
}

async fn managed(base: &Url, courier: &Arc<LoginHttpClient>) -> Result<AuthorizationManager, LoginError> {
    let courier = Arc::clone(courier);
    let manager = AuthorizationManager::new_with_oauth_http_client(base.as_str(), courier).await;
    manager.map_err(|error| LoginError::Io(told(&error)))
}

/// Checks all endpoints that a login would use, before any of them is used.
fn looked_at(
    standpoint: &EndpointPolicy,
    metadata: &AuthorizationMetadata,
) -> Result<(OAuthEndpoints, String), LoginError> {
    let issuer = metadata.issuer.clone().ok_or(LoginError::Unsupported("it does not state its issuer"))?;
    let registration = metadata.registration_endpoint.as_deref();
    let endpoints = OAuthEndpoints {
        authorization: standpoint
            .check_endpoint("authorization endpoint", &metadata.authorization_endpoint)?,
        token: standpoint.check_endpoint("token endpoint", &metadata.token_endpoint)?,
        registration: registration
            .map(|text| standpoint.check_endpoint("registration endpoint", text))
            .transpose()?,
        issuer: standpoint.check_endpoint("issuer", &issuer)?,
    };
    let methods = metadata.code_challenge_methods_supported.as_deref().unwrap_or_default();
    if !methods.iter().any(|method| method == "S256") {
        return Err(LoginError::Unsupported("it does not declare support for PKCE with S256"));
    }
    if metadata.response_types_supported.as_ref().is_some_and(|types| !types.iter().any(|one| one == "code"))
    {
        return Err(LoginError::Unsupported("it does not support the response type `code`"));
    }
    Ok((endpoints, issuer))
}

/// Formats an error in one line, without control characters. Used only where no secret is known yet.
fn told(error: &AuthError) -> String {
    let said = error.to_string();
    said.chars().take(500).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
