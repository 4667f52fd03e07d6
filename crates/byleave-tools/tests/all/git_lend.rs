//! A Git transport is lent for one call: the gate connects outside, with keys that nothing inside can read, and a push moves only what was
//! approved. With a real `sshd`, and a real `git http-backend` behind TLS.
//!
//! Needs openssh-server and git.

use std::fs;
use std::future::Future;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use byleave_gate::core::git_transport::GitService;
use byleave_gate::core::refusal::Code;
use byleave_gate::core::render::QuestionCard;
use byleave_testkit::user::{UID, passes};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::bashing::soon;
use crate::world::{CallObservation, ToolTestWorld, yes};

/// The host of the tests. It is in the SSH settings of the person, and in the table of hosts.
const HOST: &str = "git.test";

const RULE: &str = "[[rule]]\nid = \"git\"\nverdict = \"ask\"\nsend = \"git.test:*\"\nlend = [\"git\"]\nreason = \"my repositories\"\n";

/// Makes the user known to `ssh` and the host known to this test, and becomes that user.
const AS_USER: &str = r#"
set -eu
exec 9<"$1"; shift
etc=$(mktemp -d)
cp /etc/passwd /etc/hosts "$etc"
echo 'lender:x:61001:61001::/nonexistent:/bin/sh' >>"$etc/passwd"
echo '127.0.0.1 git.test' >>"$etc/hosts"
chmod 644 "$etc"/*
mount --bind "$etc/passwd" /etc/passwd
mount --bind "$etc/hosts" /etc/hosts
rm -r "$etc"
exec setpriv --reuid 61001 --regid 61001 --clear-groups /proc/self/fd/9 "$@"
"#;

fn as_git_user(test: &str, body: impl Future<Output = ()>) {
    if rustix::process::geteuid().as_raw() == 0 {
        assert_eq!(UID, 61_001);
        let mut again = Command::new("unshare");
        again.args(["--mount", "--propagation", "private", "sh", "-c", AS_USER, "sh"]);
        again.arg(std::env::current_exe().unwrap());
        again.args(["--exact", test, "--nocapture", "--include-ignored", "--test-threads=1"]);
        return passes(again.env("TMPDIR", "/tmp").current_dir("/"), test);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(body);
}

fn run(program: &str, arguments: &[&str], directory: &Path) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory).env("HOME", "/nonexistent").stdin(Stdio::null());
    for name in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{name}_NAME"), "ada").env(format!("GIT_{name}_EMAIL"), "ada@git.test");
    }
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap().trim().to_owned()
}

fn git(arguments: &[&str], directory: &Path) -> String {
    run("git", arguments, directory)
}

/// Two repositories on a server, and the private files of the person.
struct Server {
    folder: tempfile::TempDir,
    sshd: Option<Child>,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(sshd) = &mut self.sshd {
            sshd.kill().unwrap();
            sshd.wait().unwrap();
        }
    }
}

impl Server {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let server = Self { folder, sshd: None };
        let seed = server.at("seed");
        fs::create_dir(&seed).unwrap();
        git(&["init", "-q", "-b", "main", "."], &seed);
        fs::write(seed.join("a"), "a\n").unwrap();
        git(&["add", "a"], &seed);
        git(&["commit", "-q", "-m", "a"], &seed);
        for name in ["app.git", "other.git"] {
            git(&["clone", "-q", "--bare", "seed", name], server.folder.path());
        }
        fs::create_dir_all(server.at("person")).unwrap();
        server
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The commit of a ref on the server.
    fn head(&self, repository: &str, name: &str) -> String {
        git(&["for-each-ref", "--format=%(objectname)", &format!("refs/heads/{name}")], &self.at(repository))
    }

    /// A server that takes the person's key.
    fn with_ssh() -> Self {
        let mut server = Self::new();
        for name in ["person/id_lent", "host"] {
            let key = server.at(name);
            run(
                "ssh-keygen",
                &["-q", "-t", "ed25519", "-N", "", "-f", key.to_str().unwrap()],
                Path::new("/"),
            );
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = server.folder.path().display().to_string();
        let settings = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nStrictModes no\nUsePAM no\n\
             AuthorizedKeysFile {folder}/person/id_lent.pub\nPasswordAuthentication no\nAcceptEnv GIT_PROTOCOL\n"
        );
        fs::write(server.at("sshd_config"), settings).unwrap();
        let user = run("id", &["-un"], Path::new("/"));
        let settings = format!(
            "Host {HOST}\nHostName 127.0.0.1\nPort {port}\nUser {user}\nIdentityFile {folder}/person/id_lent\n\
             IdentitiesOnly yes\nUserKnownHostsFile {folder}/person/known\nStrictHostKeyChecking yes\n"
        );
        fs::write(server.at("person/ssh_config"), settings).unwrap();
        let key = fs::read_to_string(server.at("host.pub")).unwrap();
        fs::write(server.at("person/known"), format!("[127.0.0.1]:{port} {key}")).unwrap();
        let own = format!("[core]\n\tsshCommand = ssh -F {folder}/person/ssh_config\n");
        fs::write(server.at("person/.gitconfig"), own).unwrap();
        let mut sshd = Command::new("/usr/sbin/sshd");
        sshd.args(["-D", "-e", "-f", server.at("sshd_config").to_str().unwrap()]);
        server.sshd = Some(sshd.stderr(Stdio::null()).spawn().unwrap());
        soon("sshd listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        server
    }

    /// A server that takes the person's password, over TLS. Returns its port.
    fn with_https() -> (Self, u16) {
        let server = Self::new();
        let made = rcgen::generate_simple_self_signed([HOST.to_owned()]).unwrap();
        fs::write(server.at("person/ca.pem"), made.cert.pem()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config =
            config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (config, root) = (Arc::new(config), server.folder.path().to_path_buf());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (config, root) = (Arc::clone(&config), root.clone());
                std::thread::spawn(move || {
                    let connection = ServerConnection::new(config).unwrap();
                    answer(StreamOwned::new(connection, stream.unwrap()), &root);
                });
            }
        });
        let folder = server.folder.path().display();
        let helper = format!("{folder}/person/helper");
        fs::write(&helper, "#!/bin/sh\n[ \"$1\" = get ] && printf 'username=ada\\npassword=s3cret\\n'\n")
            .unwrap();
        fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
        let own =
            format!("[credential]\n\thelper = {helper}\n[http]\n\tsslCAInfo = {folder}/person/ca.pem\n");
        fs::write(server.at("person/.gitconfig"), own).unwrap();
        (server, port)
    }

    /// A gate for a person with these keys, and a clone of the repository with one more commit in the workspace.
    fn world(&self, url: &str, rule: &str) -> ToolTestWorld {
        let home = self.at("person").to_str().unwrap().to_owned();
        let world = ToolTestWorld::made(rule, Default::default(), |mut workplace| {
            workplace.environment.insert("HOME".into(), home);
            workplace
        });
        let workspace = world.at("");
        git(&["init", "-q", "-b", "main", "."], &workspace);
        git(&["pull", "-q", self.at("app.git").to_str().unwrap(), "main"], &workspace);
        git(&["remote", "add", "origin", url], &workspace);
        world.write("b", "b\n");
        git(&["add", "b"], &workspace);
        git(&["commit", "-q", "-m", "b"], &workspace);
        world
    }

    fn ssh_url(&self, repository: &str) -> String {
        format!("{HOST}:{}", self.at(repository).display())
    }
}

/// Answers one request with `git http-backend`.
fn answer(mut stream: StreamOwned<ServerConnection, TcpStream>, root: &Path) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find_map(|(key, value)| key.eq_ignore_ascii_case(name).then(|| value.to_owned()))
    };
    let expected = format!("Basic {}", STANDARD.encode("ada:s3cret"));
    let mut body = Vec::new();
    match header("content-length") {
        Some(length) => {
            body.resize(length.parse().unwrap(), 0);
            stream.read_exact(&mut body).unwrap();
        }
        None if header("transfer-encoding").is_some() => loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                if stream.read_exact(&mut byte).is_err() {
                    return;
                }
                line.push(byte[0]);
            }
            let length = usize::from_str_radix(str::from_utf8(&line).unwrap().trim(), 16).unwrap();
            let mut part = vec![0; length + 2];
            if stream.read_exact(&mut part).is_err() {
                return;
            }
            body.extend(&part[..length]);
            if length == 0 {
                break;
            }
        },
        None => {}
    }
    if header("authorization") != Some(expected) {
        let refusal = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"git\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        stream.write_all(refusal.as_bytes()).unwrap();
        stream.conn.send_close_notify();
        stream.flush().ok();
        return;
    }
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut backend = Command::new("git");
    backend.arg("http-backend").stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/");
    backend.env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1").env("REMOTE_USER", "ada");
    backend.env("PATH_INFO", path).env("QUERY_STRING", query).env("REQUEST_METHOD", method);
    backend.env("CONTENT_TYPE", header("content-type").unwrap_or_default());
    backend.env("CONTENT_LENGTH", body.len().to_string());
    backend.env("GIT_PROTOCOL", header("git-protocol").unwrap_or_default());
    let mut running = backend.spawn().unwrap();
    let mut input = running.stdin.take().unwrap();
    let fed = std::thread::spawn(move || input.write_all(&body).ok());
    let said = running.wait_with_output().unwrap().stdout;
    fed.join().unwrap();
    let end = said.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let headers = String::from_utf8(said[..end].to_vec()).unwrap();
    let status = headers.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let length = said.len() - end - 4;
    let begin = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n");
    stream.write_all(begin.as_bytes()).unwrap();
    let rest: String = headers
        .lines()
        .filter(|line| !line.starts_with("Status"))
        .map(|line| format!("{line}\r\n"))
        .collect();
    stream.write_all(rest.as_bytes()).unwrap();
    stream.write_all(b"\r\n").unwrap();
    stream.write_all(&said[end + 4..]).ok();
    stream.conn.send_close_notify();
    stream.flush().ok();
}

fn refused(played: &CallObservation) -> bool {
    !played.result.is_success()
}

// req: E7
#[test]
fn a_push_over_ssh_moves_what_the_question_shows() {
    as_git_user("git_lend::a_push_over_ssh_moves_what_the_question_shows", async {
        let server = Server::with_ssh();
        let world = server.world(&server.ssh_url("app.git"), RULE);
        let (old, new) = (server.head("app.git", "main"), git(&["rev-parse", "HEAD"], &world.at("")));
        // A no sends nothing.
        let played = world.bash("git push origin main", &[]).await;
        assert_eq!(played.asked.len(), 1, "{}", played.text());
        assert_eq!(server.head("app.git", "main"), old);
        // The same call would not be asked about again.
        let played = world.bash("git push -v origin main", &[yes()]).await;
        let [lent] = played.seen().git_transports.as_slice() else { panic!("{:?}", played.seen()) };
        let card = QuestionCard::new(&played.asked[0]).to_rendering().to_text();
        assert!(
            card.contains("Pushes to ssh://git.test/") && card.contains("with your SSH key: main "),
            "{card}"
        );
        assert_eq!((lent.service, lent.updates.len()), (GitService::ReceivePack, 1), "{lent:?}");
        let update = &lent.updates[0];
        assert_eq!(update.name, "refs/heads/main");
        assert_eq!((update.old.as_ref(), update.new.as_ref()), (Some(&old), Some(&new)));
        assert!(played.result.is_success(), "{}", played.text());
        assert_eq!(server.head("app.git", "main"), new);
        // The keys of the person do not exist inside.
        let private = server.at("person").display().to_string();
        // The directory is not in the text, because a yes would be for reading what it names.
        world.write("where", &private);
        world.write(
            "look.sh",
            "at=$(cat where); cat $at/*; ls -A $at; env | grep SSH_AUTH; git ls-remote origin",
        );
        let played = world.bash("sh look.sh", &[yes()]).await;
        for secret in ["id_lent", "OPENSSH PRIVATE", "SSH_AUTH", "IdentityFile"] {
            assert!(!played.text().contains(secret), "{secret}: {}", played.text());
        }
        assert!(played.text().contains(&new), "{}", played.text());
    });
}

// req: E7
#[test]
fn another_push_than_the_approved_one_is_not_sent() {
    as_git_user("git_lend::another_push_than_the_approved_one_is_not_sent", async {
        let server = Server::with_ssh();
        let world = server.world(&server.ssh_url("app.git"), RULE);
        let old = server.head("app.git", "main");
        // The commit is another one by the time the call runs.
        let workspace = world.at("");
        world.meanwhile(move || drop(git(&["commit", "-q", "--amend", "-m", "other"], &workspace)));
        let played = world.bash("git push origin main", &[yes()]).await;
        assert!(
            refused(&played) && played.text().contains("not the refs that were approved"),
            "{}",
            played.text()
        );
        assert_eq!(server.head("app.git", "main"), old);
        // The ref on the server is another one.
        let bare = server.at("app.git");
        let moved = git(&["commit-tree", "-m", "c", "main^{tree}"], &bare);
        let to = moved.clone();
        world.meanwhile(move || drop(git(&["update-ref", "refs/heads/main", &to], &bare)));
        let played = world.bash("git push --force origin main", &[yes()]).await;
        assert!(refused(&played), "{}", played.text());
        assert_eq!(server.head("app.git", "main"), moved);
        // A program that pushes more on the second run.
        world.write("push.sh", "git push origin main:refs/heads/extra$(cat more)\n");
        world.write("more", "");
        let more = world.at("more");
        world.meanwhile(move || fs::write(more, "-more").unwrap());
        let played = world.bash("sh push.sh", &[yes()]).await;
        assert!(refused(&played), "{}", played.text());
        assert_eq!(
            (server.head("app.git", "extra"), server.head("app.git", "extra-more")),
            ("".into(), "".into())
        );
    });
}

// req: E7
#[test]
fn settings_and_hooks_of_the_repository_lead_nowhere_else() {
    as_git_user("git_lend::settings_and_hooks_of_the_repository_lead_nowhere_else", async {
        let server = Server::with_ssh();
        let other = server.ssh_url("other.git");
        let world = server.world(&server.ssh_url("app.git"), RULE);
        let (old, untouched) = (server.head("app.git", "main"), server.head("other.git", "main"));
        let settings = fs::read_to_string(world.at(".git/config")).unwrap();
        for redirect in [
            format!("[url \"{other}\"]\n\tinsteadOf = {}\n", server.ssh_url("app.git")),
            format!("[url \"{other}\"]\n\tpushInsteadOf = {}\n", server.ssh_url("app.git")),
            format!("[remote \"origin\"]\n\tpushurl = {other}\n"),
            "[include]\n\tpath = /tmp/more\n".to_owned(),
        ] {
            world.write(".git/config", &format!("{settings}{redirect}"));
            let played = world.bash("git push origin main", &[yes()]).await;
            assert!(refused(&played) && played.asked.is_empty(), "{redirect}: {}", played.text());
            assert!(
                played.text().contains("the settings of the repository"),
                "{redirect}: {}",
                played.text()
            );
        }
        // Programs in the settings run inside, if at all, and the push is the approved one. A hook cannot push more.
        let marker = server.at("person/marker").display().to_string();
        let programs = format!(
            "[core]\n\tsshCommand = touch {marker};\n\tgitProxy = touch {marker};\n\thooksPath = hooks\n[credential]\n\thelper = !touch {marker};\n"
        );
        world.write(".git/config", &format!("{settings}{programs}"));
        let hook = format!(
            "#!/bin/bash\nfor to in {other} origin git://127.0.0.1:9419/1/x ssh://{other}; do git push --no-verify $to HEAD:refs/heads/second; done\n\
             exit 0\n"
        );
        world.write("hooks/pre-push", &hook);
        fs::set_permissions(world.at("hooks/pre-push"), fs::Permissions::from_mode(0o755)).unwrap();
        let new = git(&["rev-parse", "HEAD"], &world.at(""));
        assert_ne!(new, old);
        let played = world.bash("git push origin main", &[yes()]).await;
        assert!(played.result.is_success(), "{}", played.text());
        assert_eq!(played.asked.len(), 1);
        assert_eq!(played.seen().git_transports.len(), 1, "{:?}", played.seen().git_transports);
        assert_eq!(server.head("app.git", "main"), new);
        assert_eq!(server.head("app.git", "second"), "");
        assert_eq!(
            (server.head("other.git", "main"), server.head("other.git", "second")),
            (untouched, "".into())
        );
        assert!(!server.at("person/marker").exists());
    });
}

// req: E7
#[test]
fn a_transport_that_cannot_work_is_refused_before_anybody_is_asked() {
    as_git_user("git_lend::a_transport_that_cannot_work_is_refused_before_anybody_is_asked", async {
        let server = Server::with_ssh();
        let world = server.world(&server.ssh_url("app.git"), RULE);
        for (file, message) in
            [("person/known", "Host key verification failed"), ("person/id_lent", "Permission denied")]
        {
            let kept = server.at("kept");
            fs::rename(server.at(file), &kept).unwrap();
            let played = world.bash("git push origin main", &[yes()]).await;
            assert!(refused(&played) && played.asked.is_empty(), "{file}: {}", played.text());
            assert!(played.text().contains(message), "{file}: {}", played.text());
            fs::rename(kept, server.at(file)).unwrap();
        }
        let missing = server.ssh_url("missing.git");
        let played = world.bash(&format!("git push {missing} main"), &[yes()]).await;
        assert!(refused(&played) && played.asked.is_empty(), "{}", played.text());
        let code = played.result.outcome.refusal().map(|refusal| refusal.code);
        assert_eq!(code, Some(Code::Denied), "{}", played.text());
    });
}

// req: E7
#[test]
fn fetching_over_ssh_is_lent_with_a_yes() {
    as_git_user("git_lend::fetching_over_ssh_is_lent_with_a_yes", async {
        let server = Server::with_ssh();
        let world = server.world(&server.ssh_url("app.git"), RULE);
        fetches(&server, &world, &server.ssh_url("app.git")).await;
        // A rule that lends nothing.
        let world = server.world(&server.ssh_url("app.git"), &RULE.replace("lend = [\"git\"]\n", ""));
        let played = world.bash("git ls-remote origin", &[yes()]).await;
        assert!(refused(&played), "{}", played.text());
        // An allow lends without a question, and for SSH it names the port.
        let allow = RULE.replace("\"ask\"", "\"allow\"").replace(":*", ":22");
        let allow = format!("{allow}[[rule]]\nverdict = \"allow\"\nrun = \"git ls-remote\"\n");
        let world = server.world(&server.ssh_url("app.git"), &allow);
        let played = world.bash(&format!("git ls-remote {}", server.ssh_url("app.git")), &[]).await;
        assert!(played.asked.is_empty() && played.result.is_success(), "{}", played.text());
        assert!(played.text().contains(&server.head("app.git", "main")), "{}", played.text());
        // Without a rehearsal nobody knows what a yes would lend, and the question says so.
        let world = server.world(&server.ssh_url("app.git"), RULE);
        let secret = server.at("person/known").display().to_string();
        let played = world.bash(&format!("cat {secret}; git ls-remote origin"), &[]).await;
        let shown = played.asked.first().map(|view| QuestionCard::new(view).to_rendering().to_text());
        assert!(shown.as_ref().is_some_and(|text| text.contains("no Git transport is lent")), "{shown:?}");
    });
}

/// Uses every command that reads.
async fn fetches(server: &Server, world: &ToolTestWorld, url: &str) {
    let head = server.head("app.git", "main");
    for command in [
        "git ls-remote origin".to_owned(),
        "git fetch origin && git rev-parse origin/main".to_owned(),
        "git pull --no-rebase origin main && git rev-parse FETCH_HEAD".to_owned(),
        "git remote update && git rev-parse origin/main".to_owned(),
        format!(
            "git clone {url} copied && git -C copied rev-parse HEAD && git -C copied config remote.origin.url"
        ),
    ] {
        let played = world.bash(&command, &[yes(), yes()]).await;
        assert!(played.result.is_success(), "{command}: {}", played.text());
        assert!(played.text().contains(&head), "{command}: {}", played.text());
        let [lent] = played.seen().git_transports.as_slice() else {
            panic!("{command}: {:?}", played.seen())
        };
        assert_eq!(lent.service, GitService::UploadPack, "{command}");
        if command.contains("clone") {
            assert!(played.text().contains(url), "{command}: {}", played.text());
        }
    }
}

// req: E7
#[test]
fn a_credential_helper_is_asked_outside_and_a_push_over_https_moves_what_was_approved() {
    as_git_user(
        "git_lend::a_credential_helper_is_asked_outside_and_a_push_over_https_moves_what_was_approved",
        async {
            let (server, port) = Server::with_https();
            let url = format!("https://{HOST}:{port}/app.git");
            let world = server.world(&url, RULE);
            fetches(&server, &world, &url).await;
            let (old, new) = (server.head("app.git", "main"), git(&["rev-parse", "HEAD"], &world.at("")));
            let played = world.bash("git push origin main", &[]).await;
            assert_eq!(
                (played.asked.len(), server.head("app.git", "main")),
                (1, old.clone()),
                "{}",
                played.text()
            );
            let workspace = world.at("");
            world.meanwhile(move || drop(git(&["commit", "-q", "--amend", "-m", "other"], &workspace)));
            let played = world.bash("git push -v origin main", &[yes()]).await;
            assert!(refused(&played), "{}", played.text());
            assert_eq!(server.head("app.git", "main"), old);
            let amended = git(&["rev-parse", "HEAD"], &world.at(""));
            assert_ne!(amended, new);
            let played = world.bash("git push origin main main:refs/heads/two", &[yes()]).await;
            assert_eq!(played.seen().git_transports[0].updates.len(), 2);
            assert_eq!(server.head("app.git", "main"), amended, "{}", played.text());
            assert_eq!(server.head("app.git", "two"), amended);
            // Neither the helper nor what it says is inside.
            let private = server.at("person").display().to_string();
            world.write("where", &private);
            let look = "at=$(cat where); cat $at/*; $at/helper get; git credential fill </dev/null; git ls-remote origin";
            world.write("look.sh", look);
            let played = world.bash("sh look.sh", &[yes()]).await;
            assert!(
                !played.text().contains("s3cret") && !played.text().contains("[credential]"),
                "{}",
                played.text()
            );
            assert!(played.text().contains(&amended), "{}", played.text());
            // A push that only deletes has no pack.
            let played = world.bash("git push origin :refs/heads/two", &[yes()]).await;
            assert_eq!(server.head("app.git", "two"), "", "{}", played.text());
            // A password that the server does not take.
            fs::write(server.at("person/helper"), "#!/bin/sh\nprintf 'username=ada\\npassword=old\\n'\n")
                .unwrap();
            let played = world.bash("git push origin main:refs/heads/three", &[yes()]).await;
            assert!(refused(&played) && played.asked.is_empty(), "{}", played.text());
            assert!(played.text().contains("does not accept your credential"), "{}", played.text());
        },
    );
}
