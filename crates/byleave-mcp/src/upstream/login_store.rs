//! Stored logins: one file for each server, in a directory that only the person can read.
//!
//! A login is bound to the server's name, its address and its issuer. A definition with another address has no login. Secrets
//! must never appear in the audit log, in a message or in printed output. The writer of a file holds its lock, so that two
//! processes that refresh at once lose no tokens.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::future::Future;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, Instant};

use byleave_files::own;
use rmcp::transport::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};

use super::server_definition::{Launch, ServerDefinition, ServerName};

/// How long to wait for another process that changes the same login: as long as a refresh may take.
const LOCK: Duration = Duration::from_secs(45);
const LOCK_AGAIN: Duration = Duration::from_millis(20);
/// The maximum size of a file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The logins of a person.
#[derive(Clone, Debug)]
pub struct LoginStore {
    directory: PathBuf,
}

/// The login status at a server, as far as it is known locally. Sends no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginStatus {
    /// No login is needed, or none was requested yet.
    NotNeeded,
    /// A login is needed: the server requested one, the stored one has expired, or it was for another address.
    Needed,
    /// There is a login.
    LoggedIn {
        /// The issuer of the login.
        issuer: String,
    },
}

/// The reason why logins could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LoginStoreError {
    /// A system call failed.
    #[error("cannot {operation} the login in `{path}`: {error}", path = path.display())]
    Io {
        /// The operation that failed.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Other users can read the file.
    #[error("cannot use the login in `{}`: other users may have read it; log out and in again", .0.display())]
    Exposed(PathBuf),
    /// Another process holds the lock.
    #[error("cannot change the login in `{}`: another process has been changing it for {} s", .0.display(), LOCK.as_secs())]
    Busy(PathBuf),
}

/// The stored data of a server. It cannot be printed.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredLogin {
    server: ServerName,
    url: String,
    /// Whether the server rejected the current login.
    wanted: bool,
    login: Option<Login>,
}

/// A login. It cannot be printed.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Login {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    /// The resource for which the tokens were requested.
    pub(super) resource: String,
    pub(super) client_secret: Option<String>,
    pub(super) secret_is_posted: bool,
    pub(super) allow_private_network: bool,
    pub(super) credentials: StoredCredentials,
}

/// The lock that the writer of a login holds.
pub(super) struct LoginLock(#[expect(dead_code, reason = "closing the file releases the lock")] File);

impl LoginStore {
    /// Returns the logins in a state directory.
    pub fn in_state_dir(state: &Path) -> Self {
        Self { directory: state.join("mcp-logins") }
    }

    /// Returns the login status at a server.
    pub fn status(&self, definition: &ServerDefinition) -> Result<LoginStatus, LoginStoreError> {
        let Launch::Http { url, .. } = &definition.launch else { return Ok(LoginStatus::NotNeeded) };
        let Some(kept) = self.read(&definition.name)? else { return Ok(LoginStatus::NotNeeded) };
        let login = kept.login.filter(|login| kept.url == *url && !kept.wanted && !login.is_over());
        Ok(login.map_or(LoginStatus::Needed, |login| LoginStatus::LoggedIn { issuer: login.issuer }))
    }

    /// Deletes the login at a server. Returns whether there was one.
    pub fn forget(&self, server: &ServerName) -> Result<bool, LoginStoreError> {
        if !self.directory.exists() {
            return Ok(false);
        }
        let _lock = self.lock(server)?;
        let path = self.path(server);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(fault("remove", &path, error)),
        }
    }

    /// Returns the login at a server, if it is for this address.
    pub(super) fn login(&self, server: &ServerName, url: &str) -> Result<Option<Login>, LoginStoreError> {
        Ok(self.read(server)?.filter(|kept| kept.url == url).and_then(|kept| kept.login))
    }

    /// Stores a new login and replaces any other.
    pub(super) fn store(&self, server: &ServerName, url: &str, login: Login) -> Result<(), LoginStoreError> {
        let _lock = self.lock(server)?;
        self.write(&StoredLogin {
            server: server.clone(),
            url: url.to_owned(),
            wanted: false,
            login: Some(login),
        })
    }

    /// Notes that the server at this address requires a login, or a different one.
    pub(super) fn mark_login_needed(&self, server: &ServerName, url: &str) -> Result<(), LoginStoreError> {
        // The process that holds the lock is about to update the login.
        let Some(_lock) = self.try_lock(server)? else { return Ok(()) };
        let kept = self.read(server)?;
        // A login for another address is kept, because it becomes valid again with that address.
        if kept.as_ref().is_some_and(|kept| kept.url != url && kept.login.is_some()) {
            return Ok(());
        }
        let login = kept.and_then(|kept| kept.login);
        self.write(&StoredLogin { server: server.clone(), url: url.to_owned(), wanted: true, login })
    }

    /// Waits for the lock of a server's login.
    fn lock(&self, server: &ServerName) -> Result<LoginLock, LoginStoreError> {
        let until = Instant::now() + LOCK;
        loop {
            if let Some(lock) = self.try_lock(server)? {
                return Ok(lock);
            }
            if Instant::now() > until {
                return Err(LoginStoreError::Busy(self.path(server)));
            }
            std::thread::sleep(LOCK_AGAIN);
        }
    }

    fn try_lock(&self, server: &ServerName) -> Result<Option<LoginLock>, LoginStoreError> {
        let system = |error| fault("create a directory for", &self.directory, error);
        DirBuilder::new().mode(0o700).recursive(true).create(&self.directory).map_err(system)?;
        let about = fs::symlink_metadata(&self.directory).map_err(system)?;
        if !about.is_dir() {
            return Err(system(io::Error::from(io::ErrorKind::NotADirectory)));
        }
        if about.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(&self.directory, fs::Permissions::from_mode(0o700)).map_err(system)?;
        }
        let path = self.path(server).with_extension("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.map_err(|error| fault("lock", &path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(LoginLock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(fault("lock", &path, error)),
        }
    }

    fn read(&self, server: &ServerName) -> Result<Option<StoredLogin>, LoginStoreError> {
        let path = self.path(server);
        let system = |error| fault("read", &path, error);
        let about = match fs::symlink_metadata(&path) {
            Ok(about) => about,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(system(error)),
        };
        if !about.is_file() || about.len() > FILE_BYTES_MAX {
            return Err(system(io::Error::other("the path is not a regular file, or the file is too large")));
        }
        if about.permissions().mode() & 0o077 != 0 {
            return Err(LoginStoreError::Exposed(path));
        }
        let text = own::read(&path).map_err(system)?;
        // The parse error is not reported, because it could contain a secret.
        let kept: StoredLogin = serde_json::from_slice(&text)
            .map_err(|_| system(io::Error::other("the file cannot be parsed")))?;
        Ok((kept.server == *server).then_some(kept))
    }

    /// Writes the file. The caller must hold the lock.
    fn write(&self, kept: &StoredLogin) -> Result<(), LoginStoreError> {
        let path = self.path(&kept.server);
        let fresh = path.with_extension("new");
        let write = || {
            match fs::remove_file(&fresh) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&fresh)?;
            file.write_all(&serde_json::to_vec(kept)?)?;
            file.sync_all()?;
            fs::rename(&fresh, &path)?;
            own::sync_directory(&self.directory)
        };
        write().map_err(|error| fault("keep", &path, error))
    }

    fn path(&self, server: &ServerName) -> PathBuf {
        self.directory.join(format!("{server}.json"))
    }
}

impl Login {
    /// Checks whether the login has expired: the token has expired, and there is no refresh token.
    fn is_over(&self) -> bool {
        let Ok(token) = serde_json::to_value(&self.credentials.token_response) else { return true };
        let lasts = token.get("expires_in").and_then(serde_json::Value::as_u64);
        let over = lasts.zip(self.credentials.token_received_at).is_some_and(|(lasts, since)| {
            let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
            now >= since.saturating_add(lasts)
        });
        let renews = token.get("refresh_token").is_some_and(|token| !token.is_null());
        token.is_null() || over && !renews
    }
}

/// The credential store of one login: for one server at one address, from one issuer.
pub(super) struct ServerCredentialStore {
    logins: LoginStore,
    server: ServerName,
    url: String,
    issuer: String,
    token_endpoint: String,
}

impl ServerCredentialStore {
    pub(super) fn new(logins: LoginStore, server: ServerName, url: String, login: &Login) -> Self {
        let (issuer, token_endpoint) = (login.issuer.clone(), login.token_endpoint.clone());
        Self { logins, server, url, issuer, token_endpoint }
    }

    fn now(&self) -> Result<Option<Login>, AuthError> {
        let login = self.logins.login(&self.server, &self.url).map_err(|fault| broken(&fault))?;
        Ok(login.filter(|login| login.issuer == self.issuer && login.token_endpoint == self.token_endpoint))
    }

    fn changed(&self, credentials: Option<StoredCredentials>) -> Result<(), AuthError> {
        let Some(login) = self.now()? else {
            return Err(AuthError::CredentialStoreError("the login was replaced meanwhile".into()));
        };
        let login = credentials.map(|credentials| Login { credentials, ..login });
        let (server, url, wanted) = (self.server.clone(), self.url.clone(), login.is_none());
        self.logins.write(&StoredLogin { server, url, wanted, login }).map_err(|fault| broken(&fault))
    }

    async fn guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let until = Instant::now() + LOCK;
        loop {
            if let Some(lock) = self.logins.try_lock(&self.server).map_err(|fault| broken(&fault))? {
                return Ok(Some(CredentialRefreshGuard::new(lock)));
            }
            if Instant::now() > until {
                return Err(broken(&LoginStoreError::Busy(self.logins.path(&self.server))));
            }
            tokio::time::sleep(LOCK_AGAIN).await;
        }
    }
}

type AuthFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthError>> + Send + 'a>>;

// Written out as `async_trait` would expand it.
impl CredentialStore for ServerCredentialStore {
    fn load<'a: 'b, 'b>(&'a self) -> AuthFuture<'b, Option<StoredCredentials>>
    where
        Self: 'b,
    {
        Box::pin(async move { Ok(self.now()?.map(|login| login.credentials)) })
    }

    fn save<'a: 'b, 'b>(&'a self, credentials: StoredCredentials) -> AuthFuture<'b, ()>
    where
        Self: 'b,
    {
        Box::pin(async move { self.changed(Some(credentials)) })
    }

    fn clear<'a: 'b, 'b>(&'a self) -> AuthFuture<'b, ()>
    where
        Self: 'b,
    {
        Box::pin(async move { self.changed(None) })
    }

    fn on_refresh_token_rejected<'a: 'c, 'b: 'c, 'c>(
        &'a self,
        _credentials: &'b StoredCredentials,
    ) -> AuthFuture<'c, ()>
    where
        Self: 'c,
    {
        Box::pin(async move { self.changed(None) })
    }

    fn acquire_refresh_guard<'a: 'b, 'b>(&'a self) -> AuthFuture<'b, Option<CredentialRefreshGuard>>
    where
        Self: 'b,
    {
        Box::pin(self.guard())
    }
}

fn broken(fault: &LoginStoreError) -> AuthError {
    AuthError::CredentialStoreError(fault.to_string())
}

fn fault(what: &'static str, path: &Path, error: io::Error) -> LoginStoreError {
    LoginStoreError::Io { operation: what, path: path.to_owned(), error }
}
