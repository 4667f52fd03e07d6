//! Webhooks that are notified of new questions.
//!
//! The file contains the signing secrets, and the address of a Slack webhook is itself a secret. The file is therefore for
//! its owner only, and only the host of an address is ever shown or logged. A message contains what a list of questions
//! shows, and never contents.

mod deliver;
mod dispatcher;
mod message;
mod sign;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use byleave_gate::core::call::Millis;
use byleave_gate::endpoint::{Endpoint, InvalidEndpointError};
use byleave_gate::secret::Secret;
use serde::{Deserialize, Serialize};
use url::Url;

pub use self::deliver::DeliveryError;
pub(crate) use self::dispatcher::run;
use crate::principal::Slug;
use crate::private_json_file::{PrivateFileError, PrivateJsonFile};
use crate::secure_random;

/// The maximum number of webhooks in a file.
pub const MAX_WEBHOOKS: usize = 100;

/// The prefix of secrets in Standard Webhooks.
const PREFIX: &str = "whsec_";
const SECRET_BYTES: usize = 32;

/// The format of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebhookFormat {
    /// The event as JSON.
    Generic,
    /// A text for the incoming webhooks of Slack.
    Slack,
}

impl WebhookFormat {
    /// Returns the name of the format.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Slack => "slack",
        }
    }
}

/// A webhook as it is stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredWebhook {
    /// Its id in lists.
    pub id: String,
    /// The tenant of the questions.
    pub tenant: Slug,
    /// The format of its messages.
    pub form: WebhookFormat,
    /// The time of creation.
    pub made_at: Millis,
    url: String,
    secret: String,
}

impl StoredWebhook {
    /// Returns its address without possible secrets.
    pub fn origin(&self) -> String {
        Url::parse(&self.url)
            .map_or_else(|_| "…".to_owned(), |url| format!("{}/…", url.origin().ascii_serialization()))
    }

    fn endpoint(&self) -> Result<Endpoint, InvalidEndpointError> {
        Endpoint::new(&self.url)
    }

    /// Returns its signing key; `None` if the stored secret is invalid.
    fn key(&self) -> Option<Secret> {
        let bytes = BASE64_STANDARD.decode(self.secret.strip_prefix(PREFIX)?).ok()?;
        (bytes.len() == SECRET_BYTES).then(|| Secret::new(bytes))
    }
}

impl fmt::Debug for StoredWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, tenant, form, made_at, url: _, secret: _ } = self;
        f.debug_struct("Webhook")
            .field("id", id)
            .field("tenant", tenant)
            .field("form", form)
            .field("made_at", made_at)
            .finish_non_exhaustive()
    }
}

/// The delivery statistics of a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeliveryStatus {
    /// The number of delivered messages.
    pub delivered: u64,
    /// The number of failed attempts.
    pub failed: u64,
    /// The number of dropped messages.
    pub given_up: u64,
    /// The time of the last delivery.
    pub told_at: Option<Millis>,
    /// The time of the last failed attempt.
    pub failed_at: Option<Millis>,
    /// The reason of the last failure.
    pub failure_reason: Option<String>,
}

impl DeliveryStatus {
    /// Checks whether the last attempt succeeded, or there was none.
    pub fn is_healthy(&self) -> bool {
        self.failed_at <= self.told_at
    }
}

/// The reason why a webhook was not created or read.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// The address cannot be used.
    #[error("cannot use the address of the webhook: {0}")]
    Endpoint(#[from] InvalidEndpointError),
    /// There are too many webhooks.
    #[error("there are {MAX_WEBHOOKS} webhooks already; remove some")]
    TooMany,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookFile {
    webhooks: Vec<StoredWebhook>,
}

/// The webhooks in a file. Clones are cheap.
#[derive(Clone, Debug)]
pub struct WebhookStore {
    file: PrivateJsonFile,
    /// The delivery statistics in a file beside it. The server writes them, and they contain no secrets.
    standing: PrivateJsonFile,
}

impl WebhookStore {
    /// Returns the webhooks in a file, which need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        let standing = PrivateJsonFile::new(path.with_extension("standing.json"));
        Self { file: PrivateJsonFile::new(path), standing }
    }

    /// Returns all webhooks, oldest first.
    pub fn list(&self) -> Result<Vec<StoredWebhook>, WebhookError> {
        Ok(self.file.read::<WebhookFile>()?.map(|(_, kept)| kept.webhooks).unwrap_or_default())
    }

    /// Returns the delivery statistics of each webhook, by id.
    pub fn statuses(&self) -> Result<BTreeMap<String, DeliveryStatus>, WebhookError> {
        Ok(self.standing.read()?.map(|(_, kept)| kept).unwrap_or_default())
    }

    /// Creates a webhook. Returns the signing secret, for the receiver that verifies the messages.
    pub fn add(
        &self,
        tenant: Slug,
        form: WebhookFormat,
        url: String,
        now: Millis,
    ) -> Result<(StoredWebhook, Secret), WebhookError> {
        Endpoint::new(&url)?;
        let random = || -> std::io::Result<_> {
            Ok((secure_random::hex::<4>()?, BASE64_STANDARD.encode(secure_random::bytes::<SECRET_BYTES>()?)))
        };
        let (id, secret) = random().map_err(|why| self.file.io_error(why))?;
        let secret = format!("{PREFIX}{secret}");
        let webhook = StoredWebhook { id, tenant, form, made_at: now, url, secret: secret.clone() };
        let added = webhook.clone();
        self.file.update(|WebhookFile { webhooks }: &mut WebhookFile| {
            if webhooks.len() >= MAX_WEBHOOKS {
                return Err(WebhookError::TooMany);
            }
            webhooks.push(added);
            Ok(())
        })?;
        Ok((webhook, Secret::new(secret)))
    }

    /// Removes a webhook by its id, and returns it if there was one.
    pub fn remove(&self, id: &str) -> Result<Option<StoredWebhook>, WebhookError> {
        let mut removed = None;
        self.file.update(|WebhookFile { webhooks }: &mut WebhookFile| {
            let place = webhooks.iter().position(|webhook| webhook.id == id);
            removed = place.map(|place| webhooks.remove(place));
            Ok::<_, WebhookError>(())
        })?;
        Ok(removed)
    }

    /// Updates the delivery statistics of a webhook.
    fn note(&self, id: &str, change: impl FnOnce(&mut DeliveryStatus)) -> Result<(), WebhookError> {
        let known: Vec<String> = self.list()?.into_iter().map(|webhook| webhook.id).collect();
        self.standing.update(|all: &mut BTreeMap<String, DeliveryStatus>| {
            all.retain(|id, _| known.contains(id));
            change(all.entry(id.to_owned()).or_default());
            Ok::<_, WebhookError>(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_secret_is_in_the_file_and_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("webhooks.json");
        let webhooks = WebhookStore::new(path.clone());
        let url = "https://hooks.example.org/services/T0/B0/xyz".to_owned();
        let (made, secret) = webhooks.add("local".parse().unwrap(), WebhookFormat::Slack, url, 1).unwrap();
        let secret = String::from_utf8(secret.expose().to_vec()).unwrap();
        assert!(secret.starts_with("whsec_") && secret.len() == 50, "{secret}");
        assert_eq!(made.origin(), "https://hooks.example.org/…");
        let shown = format!("{made:?} {webhooks:?}");
        assert!(!shown.contains("xyz") && !shown.contains(secret.trim_start_matches("whsec_")), "{shown}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(webhooks.list().unwrap(), std::slice::from_ref(&made));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(webhooks.list(), Err(WebhookError::File(PrivateFileError::Exposed(_)))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        webhooks.note(&made.id, |standing| standing.delivered += 1).unwrap();
        assert_eq!(webhooks.statuses().unwrap()[&made.id].delivered, 1);
        assert_eq!(webhooks.remove(&made.id).unwrap(), Some(made.clone()));
        assert_eq!((webhooks.remove(&made.id).unwrap(), webhooks.list().unwrap()), (None, vec![]));
        let open =
            webhooks.add("local".parse().unwrap(), WebhookFormat::Generic, "http://example.org/x".into(), 1);
        assert!(matches!(open, Err(WebhookError::Endpoint(InvalidEndpointError::InsecureScheme))));
    }
}
