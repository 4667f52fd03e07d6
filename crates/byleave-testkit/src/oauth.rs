//! A fake MCP server that requires login, and its authorization server, on sockets of this machine. A real one would need a
//! network. It enforces the protocol: registration, PKCE, `resource`, rotated refresh tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// Part of every token and code, and of nothing else.
pub const SECRET: &str = "SECRETSECRET";

/// The two servers. They run until the process ends.
#[derive(Clone)]
pub struct FakeOAuthServers {
    /// The URL of the MCP server.
    pub url: String,
    /// The URL of the authorization server.
    pub issuer: String,
    shared: Arc<Mutex<FakeOAuthState>>,
}

/// The behaviour of the servers, and the requests that they have received.
#[derive(Default)]
pub struct FakeOAuthState {
    /// Overrides for the metadata of the authorization server.
    pub metadata: Map<String, Value>,
    /// Overrides for the metadata of the MCP server.
    pub resource: Map<String, Value>,
    /// The lifetime of tokens.
    pub lasts_s: u64,
    /// The issuer returned with a code, if it differs.
    pub iss: Option<String>,
    /// The response to every token request.
    pub token_answer: Option<(u16, String, String)>,
    /// The valid access tokens.
    pub access: BTreeSet<String>,
    /// The valid refresh tokens. Each can be used once.
    pub refresh: BTreeSet<String>,
    /// All requests.
    pub seen: Vec<SeenRequest>,
    clients: BTreeMap<String, String>,
    codes: BTreeMap<String, AuthorizationCodeGrant>,
    count: usize,
}

struct AuthorizationCodeGrant {
    client: String,
    challenge: String,
    redirect: String,
}

#[derive(Clone, Debug, Default)]
pub struct SeenRequest {
    pub method: String,
    pub path: String,
    pub query: BTreeMap<String, String>,
    pub authorization: Option<String>,
    pub body: String,
}

/// Status, headers and body.
type FakeHttpResponse = (u16, Vec<(String, String)>, String);

impl FakeOAuthServers {
    pub fn start() -> Self {
        let [mcp, auth] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let at = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let (url, issuer) = (format!("{}/mcp", at(&mcp)), at(&auth));
        let shared = Arc::new(Mutex::new(FakeOAuthState { lasts_s: 3_600, ..FakeOAuthState::default() }));
        let fake = Self { url, issuer, shared };
        let (one, other) = (fake.clone(), fake.clone());
        serve(mcp, move |seen| one.noted(seen).mcp(seen));
        serve(auth, move |seen| other.noted(seen).auth(seen));
        fake
    }

    pub fn shared(&self) -> MutexGuard<'_, FakeOAuthState> {
        self.shared.lock().unwrap()
    }

    /// How many times a path was requested.
    pub fn asked(&self, path: &str) -> usize {
        self.shared().seen.iter().filter(|seen| seen.path == path).count()
    }

    fn noted(&self, seen: &SeenRequest) -> &Self {
        self.shared().seen.push(seen.clone());
        self
    }

    fn mcp(&self, seen: &SeenRequest) -> FakeHttpResponse {
        let origin = self.url.trim_end_matches("/mcp");
        if seen.path == "/.well-known/oauth-protected-resource/mcp" {
            let mut about = json!({ "resource": self.url, "authorization_servers": [self.issuer], "scopes_supported": ["tools"] });
            about.as_object_mut().unwrap().extend(self.shared().resource.clone());
            return in_json(200, &about);
        }
        if !seen.path.starts_with("/mcp") {
            return (404, Vec::new(), String::new());
        }
        let token = seen.authorization.as_deref().and_then(|header| header.strip_prefix("Bearer "));
        if !token.is_some_and(|token| self.shared().access.contains(token)) {
            let wanted =
                format!("Bearer resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\"");
            return (401, vec![("WWW-Authenticate".into(), wanted)], String::new());
        }
        if seen.method != "POST" {
            return (405, Vec::new(), String::new());
        }
        let asked: Value = serde_json::from_str(&seen.body).unwrap();
        if asked.get("id").is_none() {
            return (202, Vec::new(), String::new());
        }
        let result = match asked["method"].as_str().unwrap() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "fake", "version": "1" },
            }),
            "tools/list" => {
                json!({ "tools": [{ "name": "hello", "description": "says hello", "inputSchema": { "type": "object" } }] })
            }
            "tools/call" => json!({ "content": [{ "type": "text", "text": "reached" }] }),
            _ => {
                let error = json!({ "code": -32601, "message": "no such method" });
                return in_json(200, &json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error }));
            }
        };
        in_json(200, &json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }))
    }

    fn auth(&self, seen: &SeenRequest) -> FakeHttpResponse {
        match (seen.method.as_str(), seen.path.as_str()) {
            ("GET", "/.well-known/oauth-authorization-server") => {
                let mut about = json!({
                    "issuer": self.issuer,
                    "authorization_endpoint": format!("{}/authorize", self.issuer),
                    "token_endpoint": format!("{}/token", self.issuer),
                    "registration_endpoint": format!("{}/register", self.issuer),
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                    "authorization_response_iss_parameter_supported": true,
                });
                let fields = about.as_object_mut().unwrap();
                fields.extend(self.shared().metadata.clone());
                fields.retain(|_, value| !value.is_null());
                in_json(200, &about)
            }
            ("POST", "/register") => {
                let asked: Value = serde_json::from_str(&seen.body).unwrap();
                let redirect = asked["redirect_uris"][0].as_str().unwrap().to_owned();
                let mut shared = self.shared();
                let client = format!("client-{}", shared.next());
                shared.clients.insert(client.clone(), redirect.clone());
                in_json(201, &json!({ "client_id": client, "redirect_uris": [redirect] }))
            }
            ("GET", "/authorize") => self.authorize(seen),
            ("POST", "/token") => self.token(seen),
            _ => (404, Vec::new(), String::new()),
        }
    }

    /// The person agrees at once.
    fn authorize(&self, seen: &SeenRequest) -> FakeHttpResponse {
        let asked = |name: &str| seen.query.get(name).cloned().unwrap_or_default();
        let mut shared = self.shared();
        let (client, redirect) = (asked("client_id"), asked("redirect_uri"));
        let known =
            shared.clients.get(&client) == Some(&redirect) && redirect.starts_with("http://127.0.0.1:");
        let as_it_must = asked("response_type") == "code" && asked("code_challenge_method") == "S256";
        if !known || !as_it_must || asked("resource") != self.url || asked("state").len() < 16 {
            return (400, Vec::new(), "no".into());
        }
        let code = format!("code-{SECRET}-{}", shared.next());
        let iss = shared.iss.clone().unwrap_or_else(|| self.issuer.clone());
        let back = format!("{redirect}?code={code}&state={}&iss={}", asked("state"), encoded(&iss));
        shared
            .codes
            .insert(code, AuthorizationCodeGrant { client, challenge: asked("code_challenge"), redirect });
        (302, vec![("Location".into(), back)], String::new())
    }

    fn token(&self, seen: &SeenRequest) -> FakeHttpResponse {
        let form = pairs(&seen.body);
        let said = |name: &str| form.get(name).cloned().unwrap_or_default();
        let mut shared = self.shared();
        if let Some((status, location, body)) = shared.token_answer.clone() {
            return (
                status,
                vec![("Location".into(), location), ("Content-Type".into(), "application/json".into())],
                body,
            );
        }
        let good = match said("grant_type").as_str() {
            "authorization_code" => shared.codes.remove(&said("code")).is_some_and(|code| {
                let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(said("code_verifier")));
                code.challenge == challenge
                    && code.redirect == said("redirect_uri")
                    && code.client == said("client_id")
            }),
            "refresh_token" => {
                shared.clients.contains_key(&said("client_id"))
                    && shared.refresh.remove(&said("refresh_token"))
            }
            _ => false,
        };
        if !good || said("resource") != self.url {
            return in_json(400, &json!({ "error": "invalid_grant", "error_description": seen.body }));
        }
        let number = shared.next();
        let (access, refresh) = (format!("access-{SECRET}-{number}"), format!("refresh-{SECRET}-{number}"));
        shared.access.insert(access.clone());
        shared.refresh.insert(refresh.clone());
        let lasts = shared.lasts_s;
        in_json(
            200,
            &json!({ "access_token": access, "token_type": "Bearer", "expires_in": lasts, "refresh_token": refresh, "id_token": format!("id-{SECRET}") }),
        )
    }
}

impl FakeOAuthState {
    fn next(&mut self) -> usize {
        self.count += 1;
        self.count
    }
}

/// Opens an address as a browser would and follows redirects. Returns the last status and body.
pub fn browse(address: &str) -> (u16, String) {
    let mut address = address.to_owned();
    for _ in 0..5 {
        let (status, headers, body) = fetch(&address);
        let Some(location) = headers.get("location").filter(|_| status == 302) else { return (status, body) };
        address.clone_from(location);
    }
    panic!("it redirects without end")
}

/// Fetches an address of this machine.
pub fn fetch(address: &str) -> (u16, BTreeMap<String, String>, String) {
    let rest = address.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, headers(head), body.to_owned())
}

/// The value of a query parameter of an address.
pub fn in_query(address: &str, name: &str) -> String {
    pairs(address.split_once('?').unwrap().1).remove(name).unwrap()
}

fn serve(listener: TcpListener, answer: impl Fn(&SeenRequest) -> FakeHttpResponse + Send + Sync + 'static) {
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || {
                // A client may disconnect early.
                one(stream, &*answer).unwrap_or_default();
            });
        }
    });
}

fn one(mut stream: TcpStream, answer: &impl Fn(&SeenRequest) -> FakeHttpResponse) -> std::io::Result<()> {
    let mut said = Vec::new();
    let mut piece = [0; 8_192];
    let (head, mut body) = loop {
        let read = stream.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        said.extend_from_slice(&piece[..read]);
        if let Some(end) = said.windows(4).position(|end| end == b"\r\n\r\n") {
            break (String::from_utf8_lossy(&said[..end]).into_owned(), said[end + 4..].to_vec());
        }
    };
    let mut named = headers(&head);
    let length: usize = named.get("content-length").map_or(0, |length| length.parse().unwrap());
    while body.len() < length {
        let read = stream.read(&mut piece)?;
        body.extend_from_slice(&piece[..read]);
    }
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let seen = SeenRequest {
        method: method.into(),
        path: path.into(),
        query: pairs(query),
        authorization: named.remove("authorization"),
        body: String::from_utf8(body).unwrap(),
    };
    let (status, headers, body) = answer(&seen);
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    write!(
        stream,
        "HTTP/1.1 {status} x\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn headers(head: &str) -> BTreeMap<String, String> {
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    lines.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect()
}

fn pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            byte => byte,
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).unwrap()
}

fn encoded(text: &str) -> String {
    let one = |byte: u8| {
        if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(one).collect()
}

fn in_json(status: u16, body: &Value) -> FakeHttpResponse {
    (status, vec![("Content-Type".into(), "application/json".into())], body.to_string())
}
