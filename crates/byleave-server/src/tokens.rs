//! Tokens: what principals show. A file has only their digests; the text of one is said once, when it is made.
//!
//! The file is for its owner only. It is read again whenever it has changed, so that a token that was removed is refused at
//! once. A file that cannot be read, or that others could have read, lets nobody in.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use byleave::core::call::Millis;
use byleave::core::digest::Digest;
use byleave::core::id::TenantId;
use byleave::secret::Secret;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::principal::{Kind, Name, Principal, Scope};

/// The longest that a token may last.
pub const LASTS_MS_MAX: Millis = 366 * 24 * 3_600 * 1_000;
/// How many tokens a file holds at most.
pub const TOKENS_MAX: usize = 10_000;

/// What every token begins with, so that scanners for lost secrets find it.
const PREFIX: &str = "byl_";
const SECRET_BYTES: usize = 32;
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// What it is called in lists.
    pub id: String,
    /// Whose book.
    pub tenant: Name,
    /// Who shows it.
    pub name: Name,
    /// What kind they are.
    pub kind: Kind,
    /// What they may do with it.
    pub scopes: BTreeSet<Scope>,
    /// When it was made.
    pub made_at: Millis,
    /// It counts no longer from then on.
    pub expires_at: Millis,
    /// The digest of its text.
    digest: Digest,
}

/// A token that is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Whose book.
    pub tenant: Name,
    /// Who shows it.
    pub name: Name,
    /// What kind they are.
    pub kind: Kind,
    /// What they may do with it.
    pub scopes: BTreeSet<Scope>,
    /// How long it lasts.
    pub lasts_ms: Millis,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenFault {
    /// Others may have read the file, or it is not a plain file of ours.
    #[error("cannot use the tokens in `{0}`: it must be a plain file that only its owner can read")]
    Exposed(String),
    /// The file does not hold tokens.
    #[error("cannot use the tokens in `{path}`: {why}")]
    Unreadable {
        /// Which file.
        path: String,
        /// Why.
        why: String,
    },
    /// The system said no.
    #[error("cannot use the tokens in `{path}`: {why}")]
    System {
        /// Which file.
        path: String,
        /// What it said.
        why: io::Error,
    },
    /// It would count for too long, or not at all.
    #[error("a token lasts at least a second and at most 366 days")]
    Lasting,
    /// It could do nothing.
    #[error("a token needs at least one scope")]
    Scopeless,
    /// Agents do not administer.
    #[error("an agent cannot administer: that is for people")]
    AgentAdministers,
    /// There is somebody of that name already, and they are something else.
    #[error("`{name}` is {was} already; one name is one principal")]
    OtherKind {
        /// The name.
        name: Name,
        /// What they are.
        was: &'static str,
    },
    /// There are too many.
    #[error("there are {TOKENS_MAX} tokens already; remove some")]
    TooMany,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    tokens: Vec<Token>,
}

/// Which version of the file was read.
type Stamp = (u64, i64, i64, u64);

type ByDigest = Arc<HashMap<Digest, Token>>;

/// The tokens in a file.
pub struct Tokens {
    path: PathBuf,
    known: Mutex<Option<(Stamp, ByDigest)>>,
}

impl Tokens {
    /// The tokens in a file, which need not be there yet.
    pub const fn at(path: PathBuf) -> Self {
        Self { path, known: Mutex::new(None) }
    }

    /// Who shows this text, if it is the text of a token that counts.
    pub fn find(&self, shown: &str, now: Millis) -> Result<Option<Principal>, TokenFault> {
        if !shown.starts_with(PREFIX) {
            return Ok(None);
        }
        // Found by a digest that nobody can steer, so that the time it takes says nothing about the text.
        let Some(token) = self.all()?.get(&Digest::of(shown.as_bytes())).cloned() else { return Ok(None) };
        if now >= token.expires_at || now < token.made_at.saturating_sub(LASTS_MS_MAX) {
            return Ok(None);
        }
        let Ok(tenant) = TenantId::new(token.tenant.as_str()) else { return Ok(None) };
        Ok(Some(Principal { tenant, name: token.name, kind: token.kind, scopes: token.scopes }))
    }

    /// All tokens, the oldest first.
    pub fn list(&self) -> Result<Vec<Token>, TokenFault> {
        Ok(self.read()?.map(|(_, kept)| kept.tokens).unwrap_or_default())
    }

    /// Makes a token. Its text is in what is returned, and nowhere else.
    pub fn add(&self, wanted: Wanted, now: Millis) -> Result<(Token, Secret), TokenFault> {
        if wanted.lasts_ms < 1_000 || wanted.lasts_ms > LASTS_MS_MAX {
            return Err(TokenFault::Lasting);
        }
        if wanted.scopes.is_empty() {
            return Err(TokenFault::Scopeless);
        }
        if wanted.kind == Kind::Agent && wanted.scopes.contains(&Scope::Administer) {
            return Err(TokenFault::AgentAdministers);
        }
        let (id, text) = fresh().map_err(|why| self.fault(why))?;
        let token = Token {
            id,
            tenant: wanted.tenant,
            name: wanted.name,
            kind: wanted.kind,
            scopes: wanted.scopes,
            made_at: now,
            expires_at: now.saturating_add(wanted.lasts_ms),
            digest: Digest::of(text.as_bytes()),
        };
        let added = token.clone();
        self.change(|tokens| {
            let namesake =
                tokens.iter().find(|known| known.tenant == added.tenant && known.name == added.name);
            if let Some(known) = namesake.filter(|known| known.kind != added.kind) {
                let was = match known.kind {
                    Kind::Agent => "an agent",
                    Kind::Person => "a person",
                };
                return Err(TokenFault::OtherKind { name: added.name.clone(), was });
            }
            if tokens.len() >= TOKENS_MAX {
                return Err(TokenFault::TooMany);
            }
            tokens.push(added);
            Ok(())
        })?;
        Ok((token, Secret::new(text)))
    }

    /// Removes a token by its id; whether there was one.
    pub fn remove(&self, id: &str) -> Result<Option<Token>, TokenFault> {
        let mut removed = None;
        self.change(|tokens| {
            removed = tokens.iter().position(|token| token.id == id).map(|place| tokens.remove(place));
            Ok(())
        })?;
        Ok(removed)
    }

    fn all(&self) -> Result<ByDigest, TokenFault> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.stamp()?;
        if let (Some(now), Some((then, tokens))) = (now, &*known)
            && now == *then
        {
            return Ok(Arc::clone(tokens));
        }
        // What was known counts no longer, whatever comes next.
        *known = None;
        let Some((stamp, kept)) = self.read()? else { return Ok(Arc::default()) };
        let tokens: HashMap<Digest, Token> =
            kept.tokens.into_iter().map(|token| (token.digest, token)).collect();
        let tokens = Arc::new(tokens);
        *known = Some((stamp, Arc::clone(&tokens)));
        Ok(tokens)
    }

    fn stamp(&self) -> Result<Option<Stamp>, TokenFault> {
        match fs::symlink_metadata(&self.path) {
            Ok(found) => self.checked(&found).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.fault(error)),
        }
    }

    fn checked(&self, found: &fs::Metadata) -> Result<Stamp, TokenFault> {
        let private =
            found.is_file() && found.mode() & 0o077 == 0 && found.uid() == rustix::process::getuid().as_raw();
        if !private {
            return Err(TokenFault::Exposed(self.path.display().to_string()));
        }
        Ok((found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
    }

    fn read(&self) -> Result<Option<(Stamp, Kept)>, TokenFault> {
        let nofollow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let file = OpenOptions::new().read(true).custom_flags(nofollow).open(&self.path);
        let file = match file {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.fault(error)),
        };
        let stamp = self.checked(&file.metadata().map_err(|why| self.fault(why))?)?;
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|why| self.fault(why))?;
        let kept = serde_json::from_str(&text).map_err(|error| TokenFault::Unreadable {
            path: self.path.display().to_string(),
            why: error.to_string(),
        })?;
        Ok(Some((stamp, kept)))
    }

    /// Changes the file as a whole; two who do so at once take turns.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<Token>) -> Result<(), TokenFault>,
    ) -> Result<(), TokenFault> {
        let fault = |why| self.fault(why);
        let lock = private(&self.path.with_extension("lock")).map_err(fault)?;
        lock.lock().map_err(fault)?;
        let mut kept = self.read()?.map(|(_, kept)| kept).unwrap_or_default();
        change(&mut kept.tokens)?;
        let text = serde_json::to_string_pretty(&kept).map_err(|error| fault(error.into()))?;
        let fresh = self.path.with_extension("new");
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fault(error)),
            _ => {}
        }
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh).map_err(fault)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(fault)?;
        fs::rename(&fresh, &self.path).map_err(fault)?;
        let above = self.path.parent().unwrap_or(Path::new("."));
        File::open(above).and_then(|dir| dir.sync_all()).map_err(fault)
    }

    fn fault(&self, why: io::Error) -> TokenFault {
        TokenFault::System { path: self.path.display().to_string(), why }
    }
}

fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// An id and a text that nobody can guess.
fn fresh() -> io::Result<(String, String)> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (mut id, mut secret) = ([0_u8; 4], [0_u8; SECRET_BYTES]);
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    let id = hex(&id);
    let text = format!("{PREFIX}{id}_{}", hex(&secret));
    Ok((id, text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn wanted(name: &str, kind: Kind, scopes: &[Scope]) -> Wanted {
        Wanted {
            tenant: "local".parse().unwrap(),
            name: name.parse().unwrap(),
            kind,
            scopes: scopes.iter().copied().collect(),
            lasts_ms: 10_000,
        }
    }

    fn text(secret: &Secret) -> String {
        String::from_utf8(secret.expose().to_vec()).unwrap()
    }

    // req: R5
    #[test]
    fn only_the_digest_is_kept_and_what_expires_or_is_removed_counts_no_longer() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::at(dir.path().join("tokens.json"));
        let (token, secret) = tokens.add(wanted("bot", Kind::Agent, &[Scope::Submit]), 1_000).unwrap();
        let shown = text(&secret);
        let file = fs::read_to_string(dir.path().join("tokens.json")).unwrap();
        assert!(!file.contains(&shown) && !file.contains(shown.get(13..).unwrap()), "{file}");
        let found = tokens.find(&shown, 10_999).unwrap().unwrap();
        assert_eq!((found.name.as_str(), found.kind), ("bot", Kind::Agent));
        assert!(tokens.find(&shown, 11_000).unwrap().is_none(), "expired");
        for wrong in
            ["", "byl_", shown.get(..shown.len() - 1).unwrap(), &shown.to_uppercase(), &format!("{shown}0")]
        {
            assert!(tokens.find(wrong, 2_000).unwrap().is_none(), "{wrong}");
        }
        // Another process removes it.
        let other = Tokens::at(dir.path().join("tokens.json"));
        assert_eq!(other.remove(&token.id).unwrap(), Some(token));
        assert!(tokens.find(&shown, 2_000).unwrap().is_none(), "removed");
    }

    #[test]
    fn what_others_could_have_read_or_put_there_lets_nobody_in() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens.json");
        let tokens = Tokens::at(path.clone());
        let (_, secret) = tokens.add(wanted("bot", Kind::Agent, &[Scope::Submit]), 0).unwrap();
        let shown = text(&secret);
        assert!(tokens.find(&shown, 1).unwrap().is_some());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(tokens.find(&shown, 1), Err(TokenFault::Exposed(_))));
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
        let tokens = Tokens::at(dir.path().join("tokens.json"));
        let refused = |wanted| tokens.add(wanted, 0).unwrap_err().to_string();
        assert!(refused(wanted("bot", Kind::Agent, &[Scope::Administer])).contains("cannot administer"));
        assert!(refused(wanted("bot", Kind::Agent, &[])).contains("at least one scope"));
        assert!(
            refused(Wanted { lasts_ms: 0, ..wanted("bot", Kind::Agent, &[Scope::Read]) }).contains("366")
        );
        tokens.add(wanted("bot", Kind::Agent, &[Scope::Submit]), 0).unwrap();
        tokens.add(wanted("bot", Kind::Agent, &[Scope::Read]), 0).unwrap();
        // A person of the same name could answer what the agent asks, if names were not checked too.
        assert!(refused(wanted("bot", Kind::Person, &[Scope::Answer])).contains("an agent already"));
    }
}
