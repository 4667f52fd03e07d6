//! The lock file of the server that serves a state directory, with its public address.
//!
//! The server that holds the lock is the one that clients find, and the one that sends notifications. The kernel releases the
//! lock when a process dies, so an outdated file is detected. The file contains no secrets.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use byleave_gate::endpoint::Endpoint;
use serde::{Deserialize, Serialize};

use crate::private_json_file::{PrivateJsonFile, open_private};
use crate::public_url::PublicUrl;

/// How often to check whether another server has ended.
const AGAIN: Duration = Duration::from_millis(500);
const FILE_BYTES_MAX: u64 = 4_096;
/// The timeout for a server to answer.
const THERE: Duration = Duration::from_secs(2);
/// A path that is served to everyone and contains no secrets.
const SERVED: &str = "/assets/";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerLockContent {
    url: String,
}

/// Marks this process as the server of a state directory, until it is dropped.
#[derive(Debug)]
pub(crate) struct ServerLock {
    path: PathBuf,
    /// The lock.
    _file: File,
}

impl ServerLock {
    /// Waits until no other server holds the file, then takes it.
    pub(crate) async fn acquire(path: &Path, url: &PublicUrl) -> Self {
        let mut said = false;
        loop {
            match Self::try_begin(path, url) {
                Ok(Some(serving)) => return serving,
                Ok(None) => {}
                Err(error) if !said => {
                    said = true;
                    tracing::warn!(%error, path = %path.display(), "cannot lock the server file; other commands cannot find this server, and webhooks are not sent");
                }
                Err(_) => {}
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn try_begin(path: &Path, url: &PublicUrl) -> io::Result<Option<Self>> {
        let mut file = open_private(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        // The previous holder may have removed the file that was locked here.
        let (ours, there) = (file.metadata()?, fs::symlink_metadata(path));
        if !there.is_ok_and(|there| there.ino() == ours.ino() && there.dev() == ours.dev()) {
            return Ok(None);
        }
        let text = serde_json::to_string(&ServerLockContent { url: url.to_string() })?;
        file.set_len(0)?;
        file.write_all(text.as_bytes())?;
        Ok(Some(Self { path: path.to_owned(), _file: file }))
    }
}

impl Drop for ServerLock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, "cannot remove the server file");
        }
    }
}

/// Returns the public address of the server of a state directory, if one runs and answers there.
pub async fn find_running(path: &Path) -> Option<PublicUrl> {
    let url = held(path)?;
    let looked = Endpoint::new(&url.to_string()).ok()?.get_status(SERVED, THERE).await;
    match looked {
        Ok(status) if status < 500 => Some(url),
        Ok(status) => {
            tracing::info!(%url, status, "the server of this audit log is not healthy");
            None
        }
        Err(why) => {
            tracing::info!(%url, why, "the server of this audit log does not answer");
            None
        }
    }
}

/// Returns the address in the file, if a server holds its lock.
fn held(path: &Path) -> Option<PublicUrl> {
    let (_, file) = PrivateJsonFile::new(path.to_owned()).open().ok()??;
    if !matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)) {
        return None;
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    serde_json::from_str::<ServerLockContent>(&text).ok()?.url.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_runs_is_believed_and_one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("serving.json");
        let (here, there): (PublicUrl, PublicUrl) =
            ("http://127.0.0.1:1".parse().unwrap(), "http://127.0.0.1:2".parse().unwrap());
        assert_eq!(held(&path), None);
        let serving = ServerLock::try_begin(&path, &here).unwrap().unwrap();
        assert_eq!(held(&path), Some(here.clone()));
        assert!(ServerLock::try_begin(&path, &there).unwrap().is_none());
        assert_eq!(held(&path), Some(here.clone()));
        drop(serving);
        assert!(!path.exists());
        // A file of a killed process: it has content, but no lock.
        fs::write(&path, r#"{"url":"http://127.0.0.1:1"}"#).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(held(&path), None);
        let serving = ServerLock::try_begin(&path, &there).unwrap().unwrap();
        assert_eq!(held(&path), Some(there));
        drop(serving);
    }

    #[tokio::test]
    async fn where_nothing_answers_there_is_no_server() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("serving.json");
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url: PublicUrl = format!("http://{}", socket.local_addr().unwrap()).parse().unwrap();
        drop(socket);
        let _serving = ServerLock::try_begin(&path, &url).unwrap().unwrap();
        assert_eq!((held(&path), find_running(&path).await), (Some(url), None));
    }
}
