//! A git server on loopback: one repository, served by `git http-backend`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A server of the repository `r.git`, which anybody may fetch from and push to.
pub(crate) struct GitServer {
    pub(crate) port: u16,
    root: Arc<TempDir>,
    /// How many fetches it served.
    pub(crate) fetches: Arc<AtomicUsize>,
}

impl GitServer {
    pub(crate) async fn start() -> Self {
        let root = Arc::new(tempfile::tempdir().unwrap());
        git(root.path(), &["init", "-q", "--bare", "-b", "main", "r.git"]);
        git(&root.path().join("r.git"), &["config", "http.receivepack", "true"]);
        git(root.path(), &["clone", "-q", "r.git", "seed"]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Self { port, root, fetches: Arc::default() };
        server.commit();
        let (root, fetches) = (Arc::clone(&server.root), Arc::clone(&server.fetches));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (root, fetches) = (Arc::clone(&root), Arc::clone(&fetches));
                tokio::spawn(async move { serve(stream, root.path(), &fetches).await });
            }
        });
        server
    }

    /// Adds a commit to the branch `main`.
    pub(crate) fn commit(&self) {
        let seed = self.root.path().join("seed");
        let mut file =
            std::fs::OpenOptions::new().create(true).append(true).open(seed.join("a.txt")).unwrap();
        writeln!(file, "line").unwrap();
        git(&seed, &["add", "a.txt"]);
        git(&seed, &["commit", "-q", "-m", "more"]);
        git(&seed, &["push", "-q", "origin", "HEAD:main"]);
    }

    pub(crate) fn has_branch(&self, name: &str) -> bool {
        let mut command = Command::new("git");
        command.args(["rev-parse", "-q", "--verify", name]).current_dir(self.root.path().join("r.git"));
        command.stdout(Stdio::null()).status().unwrap().success()
    }
}

fn git(directory: &Path, words: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(words).current_dir(directory);
    assert!(command.stderr(Stdio::null()).status().unwrap().success(), "{words:?}");
}

/// Serves one request and closes the connection.
async fn serve(mut stream: TcpStream, root: &Path, fetches: &AtomicUsize) -> Option<()> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let header = |name: &str| {
        head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    let length: usize = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while bytes.len() < end + 4 + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let mut words = head.split_whitespace();
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if path.ends_with("/git-upload-pack") {
        fetches.fetch_add(1, Ordering::SeqCst);
    }
    let mut command = Command::new("git");
    command.arg("http-backend").env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1");
    command.env("REQUEST_METHOD", method).env("PATH_INFO", path).env("QUERY_STRING", query);
    command.env("CONTENT_TYPE", header("content-type").unwrap_or_default());
    command.env("CONTENT_LENGTH", length.to_string());
    command.env("GIT_PROTOCOL", header("git-protocol").unwrap_or_default());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let body = bytes.split_off(end + 4);
    std::thread::spawn(move || stdin.write_all(&body).ok());
    let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await.ok()?.ok()?.stdout;
    let split = output.windows(4).position(|four| four == b"\r\n\r\n")?;
    let fields = String::from_utf8_lossy(&output[..split]).into_owned();
    let status = fields.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK").to_owned();
    let fields: Vec<&str> = fields.lines().filter(|line| !line.starts_with("Status: ")).collect();
    let content = &output[split + 4..];
    let answer = format!(
        "HTTP/1.1 {status}\r\n{}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        fields.join("\r\n"),
        content.len()
    );
    stream.write_all(answer.as_bytes()).await.ok()?;
    stream.write_all(content).await.ok()?;
    stream.shutdown().await.ok()
}
