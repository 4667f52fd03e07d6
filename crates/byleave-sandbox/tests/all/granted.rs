//! Exactly the granted access becomes possible.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use byleave_core::effect::{Binding, Effect, Plan};
use byleave_core::git_transport::GitService;
use byleave_core::policy::{self, Layer, PathVariables, Policy, RuleFile, SkipExamples};
use byleave_files::local_listener::LocalListeners;
use byleave_sandbox::confinement::{Confinement, Network};
use byleave_sandbox::from_plan::{CallHostPolicy, GitLending, GrantError, RunEnvironment, build_confinement};
use byleave_sandbox::guarantee::Guarantee;
use byleave_sandbox::launch::{self, IndexCache, RunAs};
use byleave_sandbox::net::egress::{BoxFuture, Egress, HostDecision, HostPolicy, Resolver};
use byleave_sandbox::net::refusal::{ConnectionError, ConnectionRefusedError};
use byleave_sandbox::protected_paths::find_protected_paths;

use crate::launch::{bash, text};
use byleave_testkit::user::unprivileged;

/// A directory with a home, a workspace in it, and a file outside.
struct GrantFixture {
    folder: tempfile::TempDir,
}

impl GrantFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/var/lib").or_else(|_| tempfile::tempdir()).unwrap();
        for file in [
            "home/.ssh/id_ed25519",
            "home/.cargo/bin/tool",
            "home/.cargo/credentials.toml",
            "home/notes.txt",
            "home/w/src/main.rs",
            "home/w/.env",
            "home/w/deep/er/.env.local",
            "home/w/.env.example",
            "home/w/.git/config",
            "home/w/.git/hooks/pre-commit.sample",
            "home/w/.git/index",
            "home/w/.github/workflows/ci.yml",
            "home/state/book.db",
            "outside/a.txt",
            "outside/b.txt",
        ] {
            let file = folder.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        Self { folder }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    fn text(&self, path: &str) -> String {
        self.at(path).to_str().unwrap().to_owned()
    }

    fn policy(&self, rules: &str) -> Arc<Policy> {
        let (workspace, home) = (self.text("home/w"), self.text("home"));
        let places =
            PathVariables { workspace: Some(&workspace), home: Some(&home), ..PathVariables::default() };
        let mut all = policy::builtin_rules(&places).unwrap();
        let file = RuleFile { name: "test", text: rules, layer: Layer::User };
        all.extend(policy::load_rules(&file, &places, &SkipExamples).unwrap().rules);
        Arc::new(Policy::new(all).unwrap())
    }

    fn confined(&self, effects: Vec<Effect>, rules: &str) -> Result<Confinement, GrantError> {
        Ok(looked_through(self.plainly_confined(effects, rules)?))
    }

    fn plainly_confined(&self, effects: Vec<Effect>, rules: &str) -> Result<Confinement, GrantError> {
        self.placed(effects, rules, false)
    }

    fn placed(&self, effects: Vec<Effect>, rules: &str, rehearsing: bool) -> Result<Confinement, GrantError> {
        self.by(&self.policy(rules), effects, rehearsing)
    }

    fn by(
        &self,
        policy: &Arc<Policy>,
        effects: Vec<Effect>,
        rehearsing: bool,
    ) -> Result<Confinement, GrantError> {
        self.planned(policy, &Plan { effects, ..Plan::default() }, rehearsing)
    }

    fn planned(
        &self,
        policy: &Arc<Policy>,
        plan: &Plan,
        rehearsing: bool,
    ) -> Result<Confinement, GrantError> {
        let place = RunEnvironment {
            repository: None,
            workspace: self.at("home/w"),
            cwd: self.at("home/w"),
            home: Some(self.at("home")),
            private_paths: vec![self.at("home/state")],
            run_markers_dir: None,
            environment: BTreeMap::from([
                ("PATH".into(), "/usr/bin".into()),
                ("SECRET_TOKEN".into(), "x".into()),
            ]),
            read_only: false,
            is_rehearsal: rehearsing,
            on_copy: rehearsing,
        };
        build_confinement(plan, policy, &place)
    }

    /// These paths relative to the fixture.
    fn told(&self, paths: &[PathBuf]) -> Vec<String> {
        let root = self.at("");
        let inside = paths.iter().filter_map(|path| path.strip_prefix(&root).ok());
        let mut told: Vec<String> = inside.map(|path| path.to_str().unwrap().to_owned()).collect();
        told.sort();
        told
    }

    fn write(&self, path: &str) -> Effect {
        Effect::Write { path: self.text(path) }
    }

    fn read(&self, path: &str) -> Effect {
        Effect::Read { path: self.text(path) }
    }
}

/// Adds to a confinement the paths that the scan at the start of a command would find.
fn looked_through(mut confined: Confinement) -> Confinement {
    let asked = confined.files.path_policy.clone().unwrap();
    for root in &asked.roots {
        let marked = find_protected_paths(root, &*asked.policy).unwrap();
        confined.files.hidden.extend(marked.hidden);
        confined.files.protected.extend(marked.protected);
    }
    confined
}

fn run() -> Effect {
    Effect::Run { program: "/usr/bin/make".into(), argv: vec!["make".into()] }
}

// req: E7
#[test]
fn a_program_that_may_run_may_work_in_the_workspace_and_see_no_secrets() {
    let world = GrantFixture::new();
    let confined = world.confined(vec![run()], "").unwrap();
    let files = &confined.files;
    assert_eq!(world.told(&files.writable), ["home/w"]);
    let hidden = world.told(&files.hidden);
    assert_eq!(
        hidden,
        ["home/.cargo/credentials.toml", "home/state", "home/w/.env", "home/w/deep/er/.env.local", "outside"]
    );
    let protected = world.told(&files.protected);
    for held in ["home/w/.git/config", "home/w/.git/hooks", "home/w/.github"] {
        assert!(protected.contains(&held.to_owned()), "{held}: {protected:?}");
    }
    assert!(!protected.iter().any(|path| path.ends_with("index") || path.ends_with("src")), "{protected:?}");
    assert_eq!(world.told(&files.home_readable), ["home/.cargo", "home/w"]);
    assert_eq!(confined.network, Network::Off);
    assert_eq!(confined.environment.keys().collect::<Vec<_>>(), ["PATH"]);
    assert!(confined.waived.is_empty());
}

// req: E7
#[test]
fn what_only_reads_writes_nothing_and_what_was_granted_can_be_read_and_written() {
    let world = GrantFixture::new();
    let looks = world.confined(vec![world.read("home/w/src/main.rs")], "").unwrap();
    assert!(looks.files.writable.is_empty());
    let granted = vec![run(), world.read("home/notes.txt"), world.write("home/w/.github/workflows/ci.yml")];
    let confined = world.confined(granted, "").unwrap();
    assert!(world.told(&confined.files.home_readable).contains(&"home/notes.txt".to_owned()));
    let protected = world.told(&confined.files.protected);
    assert!(
        !protected.iter().any(|path| path.starts_with("home/w/.github/workflows/ci.yml")),
        "{protected:?}"
    );
}

// req: E7
#[test]
fn a_command_keeps_its_own_temporary_directory_where_a_rule_allows_to_read_everyones() {
    let world = GrantFixture::new();
    let allowed = "[[rule]]\nverdict = \"allow\"\nread = [\"/tmp/\", \"/var/tmp/\"]";
    let confined = world.confined(vec![run()], allowed).unwrap();
    let shown = &confined.files.home_readable;
    assert!(!shown.iter().any(|path| path.ends_with("tmp")), "{shown:?}");
}

// req: E7
#[test]
fn what_is_granted_outside_is_possible_and_nothing_beside_it() {
    let world = GrantFixture::new();
    let in_place = world.confined(vec![run(), world.write("outside/a.txt")], "").unwrap();
    assert_eq!(world.told(&in_place.files.writable), ["home/w", "outside/a.txt"]);
    let made = world.confined(vec![run(), world.write("outside/new.txt")], "").unwrap();
    assert_eq!(world.told(&made.files.writable), ["home/w", "outside"]);
    let protected = world.told(&made.files.protected);
    assert!(protected.contains(&"outside/a.txt".into()) && protected.contains(&"outside/b.txt".into()));
    // A new file directly in the home directory would require write access to the whole of it.
    let wide = world.confined(vec![run(), world.write("home/new.txt")], "").unwrap_err();
    assert!(matches!(wide, GrantError::TooWide { .. }), "{wide}");
    assert!(wide.to_string().contains("home/new.txt"), "{wide}");
}

// req: E7
#[test]
fn what_rules_deny_is_impossible_by_mount_or_not_writable_at_all() {
    let world = GrantFixture::new();
    let rules = r#"
        [[rule]]
        id = "src"
        verdict = "deny"
        write = "{workspace}/src/*"
        reason = "x"
        [[rule]]
        id = "main"
        verdict = "deny"
        read = "{workspace}/deep/"
        reason = "x"
    "#;
    let confined = world.confined(vec![run()], rules).unwrap();
    let protected = world.told(&confined.files.protected);
    assert!(protected.contains(&"home/w/src".into()), "new files as well: {protected:?}");
    assert!(world.told(&confined.files.hidden).contains(&"home/w/deep".into()));
    let all = r#"
        [[rule]]
        id = "all"
        verdict = "deny"
        write = "{workspace}/"
        reason = "x"
    "#;
    assert!(world.confined(vec![run()], all).unwrap().files.writable.is_empty());
}

// req: E7
#[test]
fn files_that_a_wildcard_denies_outside_are_hidden_with_their_other_names() {
    let world = GrantFixture::new();
    let outside = world.at("outside");
    fs::create_dir_all(outside.join("deep/er")).unwrap();
    fs::write(outside.join("secret.txt"), "").unwrap();
    let rules = format!(
        r#"
        [[rule]]
        id = "outside"
        verdict = "allow"
        read = "{0}/"
        [[rule]]
        id = "secrets"
        verdict = "deny"
        read = "{0}/secret*"
        reason = "x"
    "#,
        outside.display()
    );
    let hidden = || {
        let hidden = world.told(&world.confined(vec![run()], &rules).unwrap().files.hidden);
        hidden.into_iter().filter(|path| path.starts_with("outside")).collect::<Vec<_>>()
    };
    assert_eq!(hidden(), ["outside/secret.txt"]);
    fs::hard_link(outside.join("secret.txt"), outside.join("deep/er/other.txt")).unwrap();
    assert_eq!(hidden(), ["outside/deep/er/other.txt", "outside/secret.txt"]);
}

// req: E7
#[test]
fn a_link_is_not_covered_but_what_it_leads_to_is_and_what_is_planted_is_found() {
    if !unprivileged("granted::a_link_is_not_covered_but_what_it_leads_to_is_and_what_is_planted_is_found") {
        return;
    }
    let world = GrantFixture::new();
    fs::write(world.at("home/w/prod.txt"), "SECRET").unwrap();
    fs::remove_file(world.at("home/w/.env")).unwrap();
    std::os::unix::fs::symlink("prod.txt", world.at("home/w/.env")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", world.at("home/w/.env.far")).unwrap();
    let mut confined = world.plainly_confined(vec![run()], "").unwrap();
    confined.waived.insert(Guarantee::MemoryLimited);
    let outcome = |script: &str| launch::run(&confined, &bash(script)).unwrap();
    assert_eq!(text(&outcome("cat .env prod.txt; echo read").stdout), "read\n");
    // A name that only a rule has. A path that a rule hides is a secret, not a planted file.
    let planted =
        outcome("mkdir .agent sub; echo > .agent/settings.json; echo > sub/.env; touch key.pem").planted;
    let planted: Vec<_> = planted.iter().map(|one| one.path.clone()).collect();
    assert_eq!(planted, [world.at("home/w/.agent")]);
    assert!(world.at("home/w/sub/.env").exists() && world.at("home/w/key.pem").exists());
}

// req: E7
#[test]
fn what_is_given_up_is_waived_by_name() {
    let world = GrantFixture::new();
    let unconfined = |name: &str| Effect::Unconfined { guarantee: name.into() };
    let confined = world.confined(vec![run(), unconfined("network-confined")], "").unwrap();
    assert_eq!(confined.network, Network::Host);
    assert!(confined.waived.contains(&Guarantee::NetworkConfined));
    let unheard_of = world.confined(vec![run(), unconfined("everything")], "").unwrap_err();
    assert!(matches!(unheard_of, GrantError::UnknownGuarantee(_)), "{unheard_of}");
}

// req: E7
#[test]
fn hosts_are_judged_by_the_rules_and_by_what_was_granted() {
    let world = GrantFixture::new();
    let rules = r#"
        [[rule]]
        id = "hosts"
        verdict = "allow"
        reach = "*.example.org"
        reason = "x"
        [[rule]]
        id = "no"
        verdict = "deny"
        reach = "bad.example.org"
        reason = "not there"
    "#;
    let reach = Effect::Reach { host: "granted.test".into(), port: 443 };
    let plan = Plan { effects: vec![reach.clone()], ..Plan::default() };
    let keeper = CallHostPolicy::new(world.policy(rules), &plan, "s".parse().unwrap(), "a".parse().unwrap());
    assert_eq!(keeper.decide("a.example.org", 443), HostDecision::Granted);
    assert_eq!(keeper.decide("bad.example.org", 443), HostDecision::Refused("not there".into()));
    assert_eq!(keeper.decide("granted.test", 443), HostDecision::Granted);
    assert_eq!(keeper.decide("granted.test", 22), HostDecision::Ask, "another port is another effect");
    assert_eq!(keeper.decide("other.test", 443), HostDecision::Ask);
    assert!(matches!(keeper.decide("169.254.169.254", 80), HostDecision::Refused(_)));
    assert!(keeper.decide_send("a.example.org", 443).is_err(), "an allow of `reach` is for reading");
    assert!(keeper.decide_send("granted.test", 443).is_err());
    let send = Effect::Send { host: "granted.test".into(), port: 443 };
    let plan = Plan { effects: vec![send], ..Plan::default() };
    let keeper = CallHostPolicy::new(world.policy(rules), &plan, "s".parse().unwrap(), "a".parse().unwrap());
    assert_eq!(keeper.decide("granted.test", 443), HostDecision::Granted, "sending includes reaching");
    assert_eq!(keeper.decide_send("granted.test", 443), Ok(()));
    assert!(keeper.decide_send("granted.test", 22).is_err());
    assert_eq!(keeper.decide_send("bad.example.org", 443), Err("not there".into()));
    assert_eq!(world.confined(vec![run(), reach], "").unwrap().network, Network::Proxied);
    assert_eq!(world.confined(vec![run()], rules).unwrap().network, Network::Proxied);
    // A rule that allows a host gives the network only to programs that may need it.
    let unknown = Effect::Unknown { reason: "x".into() };
    let send = Effect::Send { host: "granted.test".into(), port: 443 };
    for (effects, network) in [
        (vec![run()], Network::Off),
        (vec![run(), unknown], Network::Proxied),
        (vec![run(), send], Network::Proxied),
    ] {
        let plan = Plan { effects: effects.clone(), names_all_hosts: true, ..Plan::default() };
        assert_eq!(
            world.planned(&world.policy(rules), &plan, false).unwrap().network,
            network,
            "{effects:?}"
        );
    }
}

// req: E7
#[test]
fn a_git_transport_is_lent_by_a_rule_and_opens_its_host_to_nothing_else() {
    let world = GrantFixture::new();
    let rules = r#"
        [[rule]]
        id = "asks"
        verdict = "ask"
        send = "asked.test"
        lend = ["git"]
        reason = "x"
        [[rule]]
        id = "reads"
        verdict = "allow"
        reach = "read.test"
        lend = ["git"]
        reason = "x"
        [[rule]]
        id = "no"
        verdict = "deny"
        send = "read.test"
        reason = "not there"
        [[rule]]
        id = "other"
        verdict = "allow"
        send = "other.test"
        reason = "x"
    "#;
    let send = |host: &str| Effect::Send { host: host.into(), port: 443 };
    let plan = Plan { effects: vec![send("asked.test"), send("unnamed.test")], ..Plan::default() };
    let keeper = CallHostPolicy::new(world.policy(rules), &plan, "s".parse().unwrap(), "a".parse().unwrap());
    let lending = |host: &str, service| keeper.git_lending(host, 443, service);
    let (fetch, push) = (GitService::UploadPack, GitService::ReceivePack);
    assert_eq!(lending("asked.test", push), GitLending::IfApproved);
    assert_eq!(lending("asked.test", fetch), GitLending::IfApproved);
    assert_eq!(lending("read.test", fetch), GitLending::Allowed);
    assert_eq!(lending("read.test", push), GitLending::Refused("not there".into()));
    for host in ["other.test", "unnamed.test"] {
        assert!(matches!(lending(host, fetch), GitLending::Refused(_)), "{host}");
    }
    // The yes to the plan is for what is lent.
    assert_eq!(keeper.decide("asked.test", 443), HostDecision::Granted);
    let hosts = ["asked.test", "read.test"].map(|host| (host.to_owned(), 443));
    let keeper = keeper.with_lent_hosts(hosts.into());
    assert!(matches!(keeper.decide("asked.test", 443), HostDecision::Refused(_)));
    assert_eq!(keeper.decide("read.test", 443), HostDecision::Granted, "a rule allows reading it");
    assert_eq!(keeper.decide("unnamed.test", 443), HostDecision::Granted);
}

// req: E5
#[test]
fn in_a_rehearsal_what_is_asked_about_can_be_written_and_what_is_denied_cannot() {
    let world = GrantFixture::new();
    let rules = r#"
        [[rule]]
        id = "asked"
        verdict = "ask"
        write = "{workspace}/src/*"
        reason = "x"
        [[rule]]
        id = "denied"
        verdict = "deny"
        write = "{workspace}/deep/*"
        reason = "x"
        [[rule]]
        id = "unread"
        verdict = "ask"
        read = "{workspace}/.github/*"
        reason = "x"
        [[rule]]
        id = "reached"
        verdict = "allow"
        reach = "example.org"
        reason = "x"
    "#;
    let unconfined = Effect::Unconfined { guarantee: "network-confined".into() };
    for effects in [vec![run()], vec![run(), unconfined]] {
        let [plain, rehearsed] = [false, true]
            .map(|rehearsing| looked_through(world.placed(effects.clone(), rules, rehearsing).unwrap()));
        let held = |confined: &Confinement, path: &str| {
            world.told(&confined.files.protected).contains(&path.to_owned())
        };
        assert!(held(&plain, "home/w/src") && held(&plain, "home/w/deep"), "{:?}", plain.files.protected);
        assert!(!held(&rehearsed, "home/w/src") && held(&rehearsed, "home/w/deep"));
        // The built-in rules ask about hooks, and deny no less than before.
        for path in ["home/w/.git/hooks", "home/w/.git/config"] {
            let asked = world.policy(rules).may_deny(&Effect::Write { path: world.text(path) });
            assert_eq!(held(&rehearsed, path), asked, "{path}");
        }
        assert_eq!(world.told(&rehearsed.files.hidden), world.told(&plain.files.hidden));
        assert!(world.told(&rehearsed.files.hidden).contains(&"home/w/.github/workflows".into()));
        assert_eq!(rehearsed.network, Network::Proxied);
        assert!(!rehearsed.waived.contains(&Guarantee::NetworkConfined));
    }
}

/// One-shot commands share the scan results. The grants of one never apply to another.
// req: E5, E7
#[test]
fn what_is_known_already_is_known_of_every_command_and_grants_are_not() {
    if !unprivileged("granted::what_is_known_already_is_known_of_every_command_and_grants_are_not") {
        return;
    }
    let world = GrantFixture::new();
    let policy = world.policy("");
    fs::write(world.at("home/w/.env"), "first").unwrap();
    let warm = IndexCache::new();
    let told = |policy: &Arc<Policy>, effects: Vec<Effect>, script: &str| {
        let mut confined = world.by(policy, effects, false).unwrap();
        confined.waived.insert(Guarantee::MemoryLimited);
        let running = launch::start_with_cache(&confined, &bash(script), RunAs::Caller, None, &warm).unwrap();
        text(&running.finish().unwrap().stdout)
    };
    let all = "cat $(find . -name '.env*' -type f) 2>/dev/null; echo read";
    assert_eq!(told(&policy, vec![run()], all), "read\n");
    // Created since then, and detected all the same.
    fs::write(world.at("home/w/src/.env"), "second").unwrap();
    assert_eq!(told(&policy, vec![run(), world.write("home/w/src/main.rs")], all), "read\n");
    assert_eq!(told(&policy, vec![run(), world.read("home/w/.env")], all), "firstread\n");
    assert_eq!(told(&policy, vec![run()], all), "read\n");
    let hold = "echo x > .git/config; cat .git/config";
    assert_eq!(told(&policy, vec![run(), world.write("home/w/.git/config")], hold), "x\n");
    assert_eq!(told(&policy, vec![run()], "echo y > .git/config; cat .git/config"), "x\n");
    // Other rules give other results.
    let rules = r#"
        [[rule]]
        id = "main"
        verdict = "deny"
        read = "{workspace}/src/main.rs"
        reason = "x"
    "#;
    fs::write(world.at("home/w/src/main.rs"), "main").unwrap();
    assert_eq!(told(&policy, vec![run()], "cat src/main.rs"), "main");
    assert_eq!(told(&world.policy(rules), vec![run()], "cat src/main.rs"), "");
}

/// Resolves every name to one address.
struct FixedResolver(&'static str);

impl Resolver for FixedResolver {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![self.0.parse().unwrap()]) })
    }
}

// req: E7
#[test]
fn only_a_rule_lets_a_named_host_lead_to_a_private_address_and_none_to_this_machine() {
    let world = GrantFixture::new();
    let rules = |private: bool| {
        format!(
            "[[rule]]\nid = \"registry\"\nverdict = \"allow\"\nreach = [\"registry.example:4873\", \"localhost:4873\"]\nprivate = {private}\nreason = \"x\"\n"
        )
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let reach = Effect::Reach { host: "registry.example".into(), port: 4873 };
    let plan = Plan { effects: vec![reach], ..Plan::default() };
    let connect = |private: bool, host: &str, leads_to: &'static str| {
        let policy = world.policy(&rules(private));
        let keeper = CallHostPolicy::new(policy, &plan, "s".parse().unwrap(), "a".parse().unwrap());
        assert_eq!(keeper.opens_private("registry.example", 4873), private);
        assert!(
            !keeper.opens_private("registry.example", 443) && !keeper.opens_private("other.example", 4873)
        );
        let egress = Egress::new(Arc::new(keeper)).with_resolver(Arc::new(FixedResolver(leads_to)));
        runtime.block_on(egress.connect_host(host, 4873)).err()
    };
    for address in ["10.1.2.3", "192.168.7.7", "172.20.0.1", "100.64.1.1", "fd00::1"] {
        let refused = connect(false, "registry.example", address);
        let Some(ConnectionError::Refused(refused @ ConnectionRefusedError::Private { .. })) = refused else {
            panic!("{address}: {refused:?}")
        };
        let told = refused.to_string();
        assert!(
            told.contains("private = true") && told.contains("reach = \"registry.example:4873\""),
            "{told}"
        );
    }
    // A name that leads to this machine, to its neighbours or to a cloud's credentials stays closed.
    for address in
        ["127.0.0.1", "::1", "169.254.169.254", "0.0.0.0", "::ffff:10.0.0.1", "fe80::1", "203.0.113.80"]
    {
        let refused = connect(true, "registry.example", address);
        let is_refused =
            matches!(refused, Some(ConnectionError::Refused(ConnectionRefusedError::NotGlobal { .. })));
        assert!(is_refused, "{address}: {refused:?}");
    }
}

// req: E7
#[test]
fn a_port_of_this_machine_is_opened_by_its_name_and_number_and_for_the_approved_program() {
    let world = GrantFixture::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let rule = |verdict: &str, reach: &str| {
        format!("[[rule]]\nid = \"r\"\nverdict = \"{verdict}\"\nreach = \"{reach}\"\nreason = \"x\"\n")
    };
    let egress = |rules: &str, plan: &Plan| {
        let keeper =
            CallHostPolicy::new(world.policy(rules), plan, "s".parse().unwrap(), "a".parse().unwrap());
        Egress::new(Arc::new(keeper)).with_resolver(Arc::new(FixedResolver("127.0.0.1")))
    };
    let connects = |rules: &str, plan: &Plan, host: &str, port: u16| {
        runtime.block_on(egress(rules, plan).connect_host(host, port)).map(drop)
    };
    let nothing = Plan::default();
    for reach in [format!("localhost:{port}"), format!("127.0.0.1:{port}")] {
        for host in ["localhost", "127.0.0.1", "LOCALHOST."] {
            let connected = connects(&rule("allow", &reach), &nothing, host, port);
            assert!(connected.is_ok(), "{reach} {host}: {connected:?}");
        }
        let other = port.wrapping_add(1).max(1024);
        assert!(connects(&rule("allow", &reach), &nothing, "localhost", other).is_err(), "another port");
        for host in ["127.0.0.2", "0.0.0.0", "rebound.example", "a.localhost", "::ffff:127.0.0.2"] {
            assert!(connects(&rule("allow", &reach), &nothing, host, port).is_err(), "{reach} {host}");
        }
    }
    for wide in ["*:*", "127.0.0.0/8:*", "0.0.0.0/0:*", "*.localhost:*"] {
        assert!(connects(&rule("allow", wide), &nothing, "localhost", port).is_err(), "{wide}");
    }
    // A name that leads to this machine does not stand for it.
    let named = rule("allow", &format!("rebound.example:{port}"));
    assert!(connects(&named, &nothing, "rebound.example", port).is_err());
    let bound = |program: &str| Plan {
        effects: vec![Effect::Reach { host: "127.0.0.1".into(), port }],
        bindings: vec![Binding::for_local_port(port, program.to_owned())],
        ..Plan::default()
    };
    let here = LocalListeners::find(port).unwrap().describe();
    assert!(connects("", &bound(&here), "localhost", port).is_ok());
    let other =
        connects("", &bound("/usr/bin/other (other) of the user ada"), "localhost", port).unwrap_err();
    assert!(other.to_string().contains("another program listens there"), "{other}");
    let denied = rule("deny", &format!("127.0.0.0/8:{port}"));
    assert!(connects(&denied, &bound(&here), "localhost", port).is_err(), "a deny wins");
    let controlled =
        Plan { effects: vec![Effect::Reach { host: "localhost".into(), port: 2375 }], ..Plan::default() };
    let refused = connects("", &controlled, "localhost", 2375).unwrap_err();
    assert!(refused.to_string().contains("a container engine listens there"), "{refused}");
}
