//! Tokens of principals. The file contains only their digests; the text of a token is returned once, when it is created.
//!
//! The file is for its owner only. It is read again whenever it has changed, so that a removed token is rejected immediately.
//! If the file cannot be read, or others could have read it, every token is rejected.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use byleave_gate::core::call::Millis;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::id::TenantId;
use byleave_gate::secret::Secret;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::principal::{AccessScope, Principal, PrincipalKind, Slug};
use crate::private_json_file::{FileVersion, PrivateFileError, PrivateJsonFile};
use crate::secure_random;

/// The maximum lifetime of a token.
pub const MAX_LIFETIME_MS: Millis = 366 * 24 * 3_600 * 1_000;
/// The maximum number of tokens in a file.
pub const MAX_TOKENS: usize = 10_000;

/// The prefix of every token, for secret scanners.
const PREFIX: &str = "byl_";
const SECRET_BYTES: usize = 32;

/// A token as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredToken {
    /// Its id in lists.
    pub id: String,
    /// The tenant.
    pub tenant: Slug,
    /// The name of the principal.
    pub name: Slug,
    /// The kind of the principal.
    pub kind: PrincipalKind,
    /// Its permissions with this token.
    pub scopes: BTreeSet<AccessScope>,
    /// The time of creation.
    pub made_at: Millis,
    /// The time from which it is invalid.
    pub expires_at: Millis,
    /// The identity at a provider, for principals that sign in there without a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signs_in: Option<OidcIdentity>,
    /// The digest of its text, or of the identity.
    digest: Digest,
}

/// An identity at an OpenID Connect provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcIdentity {
    /// The provider.
    pub issuer: String,
    /// `sub:` and the subject, or `email:` and an address that the provider has verified.
    pub subject: String,
}

impl OidcIdentity {
    /// Returns the digest in place of a token's. No token text can have it.
    fn digest(&self) -> Digest {
        Digest::compute_parts("byleave.server.identity", &[self.issuer.as_bytes(), self.subject.as_bytes()])
    }
}

/// The parameters of a new token.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// The tenant.
    pub tenant: Slug,
    /// The name of the principal.
    pub name: Slug,
    /// The kind of the principal.
    pub kind: PrincipalKind,
    /// Its permissions with this token.
    pub scopes: BTreeSet<AccessScope>,
    /// Its lifetime.
    pub lifetime_ms: Millis,
}

/// The reason why a token was not created or read.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// The lifetime is too long, or zero.
    #[error("the lifetime of a token must be at least one second and at most 366 days")]
    InvalidLifetime,
    /// It has no scope.
    #[error("a token needs at least one scope")]
    NoScopes,
    /// Agents must not administer.
    #[error("an agent cannot have the scope `administer`; only people can")]
    AgentAdministers,
    /// The scope of workers excludes all others.
    #[error(
        "the scope `work` cannot be combined with other scopes or given to people, because a worker must not make or answer calls"
    )]
    WorkAlone,
    /// Agents cannot sign in.
    #[error("an agent cannot sign in with a provider; create a token for the agent")]
    AgentSignsIn,
    /// The identity is missing.
    #[error("the identity must be `sub:` and a subject, or `email:` and an address")]
    InvalidIdentity,
    /// The identity can sign in already.
    #[error("this identity can already sign in")]
    AlreadyRegistered,
    /// The name is already used by another kind of principal.
    #[error("the name `{name}` is already used by {existing_kind}")]
    OtherKind {
        /// The name.
        name: Slug,
        /// The existing kind.
        existing_kind: &'static str,
    },
    /// There are too many tokens.
    #[error("there are already {MAX_TOKENS} tokens; remove some")]
    TooMany,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenFile {
    tokens: Vec<StoredToken>,
}

type TokensByDigest = Arc<HashMap<Digest, StoredToken>>;

/// The tokens in a file.
pub struct TokenStore {
    file: PrivateJsonFile,
    known: Mutex<Option<(FileVersion, TokensByDigest)>>,
}

impl TokenStore {
    /// Returns the tokens in a file, which need not exist yet.
    pub const fn new(path: PathBuf) -> Self {
        Self { file: PrivateJsonFile::new(path), known: Mutex::new(None) }
    }

    /// Returns the principal of a token text, if the token is valid.
    pub fn find(&self, shown: &str, now: Millis) -> Result<Option<Principal>, TokenError> {
        if !shown.starts_with(PREFIX) {
            return Ok(None);
        }
        self.find_by_digest(&Digest::compute(shown.as_bytes()), now)
    }

    /// Returns the holder of the token with this digest, if it is still valid.
    pub(crate) fn find_by_digest(
        &self,
        digest: &Digest,
        now: Millis,
    ) -> Result<Option<Principal>, TokenError> {
        // The lookup uses a digest that a client cannot control. Its timing therefore reveals nothing about the text.
        let Some(token) = self.all()?.get(digest).cloned() else { return Ok(None) };
        if now >= token.expires_at || now < token.made_at.saturating_sub(MAX_LIFETIME_MS) {
            return Ok(None);
        }
        let Ok(tenant) = TenantId::new(token.tenant.as_str()) else { return Ok(None) };
        Ok(Some(Principal { tenant, name: token.name, kind: token.kind, scopes: token.scopes }))
    }

    /// Returns the principal with this identity and the digest for its session, if the entry is still valid.
    pub(crate) fn find_by_identity(
        &self,
        identity: &OidcIdentity,
        now: Millis,
    ) -> Result<Option<(Digest, Principal)>, TokenError> {
        let digest = identity.digest();
        Ok(self.find_by_digest(&digest, now)?.map(|principal| (digest, principal)))
    }

    /// Returns all tokens, oldest first.
    pub fn list(&self) -> Result<Vec<StoredToken>, TokenError> {
        Ok(self.file.read::<TokenFile>()?.map(|(_, kept)| kept.tokens).unwrap_or_default())
    }

    /// Creates a token. Its text is only in the returned value.
    pub fn add(&self, wanted: NewToken, now: Millis) -> Result<(StoredToken, Secret), TokenError> {
        let (id, text) = fresh().map_err(|why| self.file.io_error(why))?;
        let token = self.keep(wanted, id, Digest::compute(text.as_bytes()), None, now)?;
        Ok((token, Secret::new(text)))
    }

    /// Lets an identity sign in at a provider. There is no token text; the entry can be listed and removed like a token.
    pub fn add_identity(
        &self,
        wanted: NewToken,
        identity: OidcIdentity,
        now: Millis,
    ) -> Result<StoredToken, TokenError> {
        if wanted.kind != PrincipalKind::Person {
            return Err(TokenError::AgentSignsIn);
        }
        let good = |prefix: &str| identity.subject.strip_prefix(prefix).is_some_and(|who| !who.is_empty());
        if !good("sub:") && !good("email:") {
            return Err(TokenError::InvalidIdentity);
        }
        let id = secure_random::hex::<4>().map_err(|why| self.file.io_error(why))?;
        self.keep(wanted, id, identity.digest(), Some(identity), now)
    }

    fn keep(
        &self,
        wanted: NewToken,
        id: String,
        digest: Digest,
        signs_in: Option<OidcIdentity>,
        now: Millis,
    ) -> Result<StoredToken, TokenError> {
        if wanted.lifetime_ms < 1_000 || wanted.lifetime_ms > MAX_LIFETIME_MS {
            return Err(TokenError::InvalidLifetime);
        }
        if wanted.scopes.is_empty() {
            return Err(TokenError::NoScopes);
        }
        if wanted.kind == PrincipalKind::Agent && wanted.scopes.contains(&AccessScope::Administer) {
            return Err(TokenError::AgentAdministers);
        }
        if wanted.scopes.contains(&AccessScope::Work)
            && (wanted.scopes.len() > 1 || wanted.kind == PrincipalKind::Person)
        {
            return Err(TokenError::WorkAlone);
        }
        let token = StoredToken {
            id,
            tenant: wanted.tenant,
            name: wanted.name,
            kind: wanted.kind,
            scopes: wanted.scopes,
            made_at: now,
            expires_at: now.saturating_add(wanted.lifetime_ms),
            signs_in,
            digest,
        };
        let added = token.clone();
        self.file.update(|TokenFile { tokens }: &mut TokenFile| {
            let namesake =
                tokens.iter().find(|known| known.tenant == added.tenant && known.name == added.name);
            if let Some(known) = namesake.filter(|known| known.kind != added.kind) {
                let was = match known.kind {
                    PrincipalKind::Agent => "an agent",
                    PrincipalKind::Person => "a person",
                };
                return Err(TokenError::OtherKind { name: added.name.clone(), existing_kind: was });
            }
            if tokens.len() >= MAX_TOKENS {
                return Err(TokenError::TooMany);
            }
            if tokens.iter().any(|known| known.digest == added.digest) {
                return Err(TokenError::AlreadyRegistered);
            }
            tokens.push(added);
            Ok(())
        })?;
        Ok(token)
    }

    /// Removes a token by its id, and returns it if there was one.
    pub fn remove(&self, id: &str) -> Result<Option<StoredToken>, TokenError> {
        let mut removed = None;
        self.file.update(|TokenFile { tokens }: &mut TokenFile| {
            removed = tokens.iter().position(|token| token.id == id).map(|place| tokens.remove(place));
            Ok::<_, TokenError>(())
        })?;
        Ok(removed)
    }

    fn all(&self) -> Result<TokensByDigest, TokenError> {
        let mut known = self.known.lock();
        let now = self.file.version()?;
        if let (Some(now), Some((then, tokens))) = (now, &*known)
            && now == *then
        {
            return Ok(Arc::clone(tokens));
        }
        // The cache is invalid, whatever follows.
        *known = None;
        let Some((stamp, kept)) = self.file.read::<TokenFile>()? else { return Ok(Arc::default()) };
        let tokens: HashMap<Digest, StoredToken> =
            kept.tokens.into_iter().map(|token| (token.digest, token)).collect();
        let tokens = Arc::new(tokens);
        *known = Some((stamp, Arc::clone(&tokens)));
        Ok(tokens)
    }
}

/// Returns an id and an unguessable text.
fn fresh() -> io::Result<(String, String)> {
    let id = secure_random::hex::<4>()?;
    let text = format!("{PREFIX}{id}_{}", secure_random::hex::<SECRET_BYTES>()?);
    Ok((id, text))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn wanted(name: &str, kind: PrincipalKind, scopes: &[AccessScope]) -> NewToken {
        NewToken {
            tenant: "local".parse().unwrap(),
            name: name.parse().unwrap(),
            kind,
            scopes: scopes.iter().copied().collect(),
            lifetime_ms: 10_000,
        }
    }

    fn text(secret: &Secret) -> String {
        String::from_utf8(secret.expose().to_vec()).unwrap()
    }

    // req: R5
    #[test]
    fn only_the_digest_is_kept_and_what_expires_or_is_removed_counts_no_longer() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = TokenStore::new(dir.path().join("tokens.json"));
        let (token, secret) =
            tokens.add(wanted("bot", PrincipalKind::Agent, &[AccessScope::Submit]), 1_000).unwrap();
        let shown = text(&secret);
        let file = fs::read_to_string(dir.path().join("tokens.json")).unwrap();
        assert!(!file.contains(&shown) && !file.contains(shown.get(13..).unwrap()), "{file}");
        let found = tokens.find(&shown, 10_999).unwrap().unwrap();
        assert_eq!((found.name.as_str(), found.kind), ("bot", PrincipalKind::Agent));
        assert!(tokens.find(&shown, 11_000).unwrap().is_none(), "expired");
        for wrong in
            ["", "byl_", shown.get(..shown.len() - 1).unwrap(), &shown.to_uppercase(), &format!("{shown}0")]
        {
            assert!(tokens.find(wrong, 2_000).unwrap().is_none(), "{wrong}");
        }
        // Another process removes it.
        let other = TokenStore::new(dir.path().join("tokens.json"));
        assert_eq!(other.remove(&token.id).unwrap(), Some(token));
        assert!(tokens.find(&shown, 2_000).unwrap().is_none(), "removed");
    }

    #[test]
    fn what_others_could_have_read_or_put_there_lets_nobody_in() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens.json");
        let tokens = TokenStore::new(path.clone());
        let (_, secret) = tokens.add(wanted("bot", PrincipalKind::Agent, &[AccessScope::Submit]), 0).unwrap();
        let shown = text(&secret);
        assert!(tokens.find(&shown, 1).unwrap().is_some());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(tokens.find(&shown, 1), Err(TokenError::File(PrivateFileError::Exposed(_)))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(tokens.find(&shown, 1).unwrap().is_some());
        let away = dir.path().join("away.json");
        fs::rename(&path, &away).unwrap();
        std::os::unix::fs::symlink(&away, &path).unwrap();
        assert!(tokens.find(&shown, 1).is_err(), "a link is not the file");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "{").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(tokens.find(&shown, 1).is_err(), "nonsense");
    }

    #[test]
    fn what_makes_no_sense_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = TokenStore::new(dir.path().join("tokens.json"));
        let refused = |wanted| tokens.add(wanted, 0).unwrap_err().to_string();
        assert!(
            refused(wanted("bot", PrincipalKind::Agent, &[AccessScope::Administer]))
                .contains("cannot have the scope `administer`")
        );
        assert!(refused(wanted("bot", PrincipalKind::Agent, &[])).contains("at least one scope"));
        assert!(
            refused(NewToken { lifetime_ms: 0, ..wanted("bot", PrincipalKind::Agent, &[AccessScope::Read]) })
                .contains("366")
        );
        tokens.add(wanted("bot", PrincipalKind::Agent, &[AccessScope::Submit]), 0).unwrap();
        tokens.add(wanted("bot", PrincipalKind::Agent, &[AccessScope::Read]), 0).unwrap();
        // Without a check of names, a person of the same name could answer the agent's questions.
        assert!(
            refused(wanted("bot", PrincipalKind::Person, &[AccessScope::Answer]))
                .contains("already used by an agent")
        );
    }
}
