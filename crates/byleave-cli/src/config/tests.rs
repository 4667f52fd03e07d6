mod reviewers;

use std::fs;

use super::*;

fn load(own: &str, project: &str, variables: &[(&str, &str)]) -> Result<Config> {
    load_layers(&[(Layer::User, own), (Layer::Project, project)], variables)
}

fn load_layers(layers: &[(Layer, &str)], variables: &[(&str, &str)]) -> Result<Config> {
    let dir = tempfile::tempdir().unwrap();
    let file = |(layer, text): &(Layer, &str)| {
        let name = if *layer == Layer::User { "own".to_owned() } else { layer.to_string() };
        let path = dir.path().join(format!("{name}.toml"));
        fs::write(&path, text).unwrap();
        ConfigFile { layer: *layer, path }
    };
    let files: Vec<ConfigFile> = layers.iter().map(file).collect();
    let of =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
    Config::load(files, of)
}

fn held(config: &Config, name: &str) -> (String, &'static str) {
    let held = config.get(name).unwrap();
    (held.value.to_string(), held.origin.as_str())
}

#[test]
fn the_defaults_are_all_there_and_are_the_library_s_own() {
    let config = Config::defaults().unwrap();
    let names: Vec<&str> = config.all().map(|held| held.key.name).collect();
    assert_eq!(names, KEYS.iter().map(|key| key.name).collect::<Vec<_>>());
    assert_eq!(format!("{:?}", config.gate()), format!("{:?}", GateSettings::default()));
    assert_eq!(config.mode(), Mode::default());
    // The file is also the template, and sets nothing by itself.
    check(Path::new("template"), &template(), &[]).unwrap();
    let parsed = file::parse(&own_file(Path::new("template")), &template(), ParseContext::default()).unwrap();
    assert!(parsed.settings.is_empty() && parsed.reviewers.is_empty());
}

#[test]
fn what_counts_is_the_nearest_that_was_said() {
    let own = "color = \"never\"\nmode = \"confirm-all\"\nstate = \"/own\"\n";
    let config = load(own, "", &[("BYLEAVE_STATE", "/variable"), ("BYLEAVE_ALLOW_DELETE", "1")]).unwrap();
    let config = config.with_flag("color", "--color", Some(SettingValue::Text("always".into())));
    assert_eq!(held(&config, "color"), ("\"always\"".into(), "flag"));
    assert_eq!(held(&config, "state"), ("\"/variable\"".into(), "variable"));
    assert_eq!(held(&config, "allow_delete"), ("true".into(), "variable"));
    assert_eq!(held(&config, "mode"), ("\"confirm-all\"".into(), "user"));
    assert_eq!(held(&config, "editor"), ("\"\"".into(), "default"));
    let organisation = "color = \"always\"\nmode = \"confirm-all\"\n";
    let layers = [(Layer::Organisation, organisation), (Layer::User, "color = \"never\"\n")];
    let shared = load_layers(&layers, &[]).unwrap();
    assert_eq!(held(&shared, "color"), ("\"never\"".into(), "user"));
    assert_eq!(held(&shared, "mode"), ("\"confirm-all\"".into(), "organisation"));
    let SettingSource::User(path, line) = &config.get("mode").unwrap().origin else { panic!("{config:?}") };
    assert!(path.ends_with("own.toml"));
    assert_eq!(*line, 2);
}

// req: P8
#[test]
fn what_a_project_tightens_holds_for_everyone_and_it_never_loosens() {
    let project =
        "mode = \"confirm-all\"\ncall_timeout = \"10s\"\nallow_delete = false\nmin_read_time_percent = 150\n";
    let own = "mode = \"yolo\"\nallow_delete = true\ncall_timeout = \"60s\"\n";
    let config = load(own, project, &[]).unwrap();
    let config = config.with_flag("mode", "--mode", Some(SettingValue::Text("confirm-dangerous".into())));
    assert_eq!(held(&config, "mode"), ("\"confirm-all\"".into(), "project"));
    assert_eq!(held(&config, "call_timeout"), ("\"10s\"".into(), "project"));
    assert_eq!(held(&config, "allow_delete"), ("false".into(), "project"));
    assert_eq!(held(&config, "min_read_time_percent"), ("150".into(), "project"));
    // A setting that is loosest by default can only be tightened.
    let config_of = |own, project| held(&load(own, project, &[]).unwrap(), "mcp_elicitation");
    assert_eq!(config_of("mcp_elicitation = true", "mcp_elicitation = false"), ("false".into(), "project"));
    assert_eq!(config_of("mcp_elicitation = false", "mcp_elicitation = true"), ("false".into(), "user"));
    assert_eq!(config.tightened_by_project().count(), 1);
    // A person who is stricter than the project stays so.
    let config = load("mode = \"read-only\"\n", "mode = \"confirm-all\"\n", &[]).unwrap();
    assert_eq!(held(&config, "mode"), ("\"read-only\"".into(), "user"));
    // A project may set a display option, but not override one.
    assert_eq!(held(&load("", "color = \"always\"", &[]).unwrap(), "color").1, "project");
    assert_eq!(held(&load("color = \"never\"", "color = \"always\"", &[]).unwrap(), "color").1, "user");

    let loose = [
        "mode = \"yolo\"",
        "mode = \"confirm-dangerous\"",
        "ask = \"inbox\"",
        "ask = \"terminal\"",
        "unattended = \"allow-with-warning\"",
        "question_expiry = \"2d\"",
        "approver_timeout = \"2d\"",
        "questions_per_minute = 121",
        "rehearse = true",
        "rehearse = false",
        "challenge_when = \"after-answer\"",
        "challenge_replaces_checkpoint = []",
        "challenge_replaces_checkpoint = [\"deploy\"]",
        "call_timeout = \"31s\"",
        "max_concurrent = 9",
        "output_bytes = 102401",
        "kept_bytes = 4194305",
        "file_bytes = 10485761",
        "allow_delete = true",
        "dry_run = true",
        "dry_run = false",
        "waive = []",
        "waive = [\"network-confined\"]",
        "run_on = \"native\"",
        "run_on = \"oci:theirs\"",
        "container = \"trusted\"",
        "container = \"untrusted\"",
        "notify = \"command\"",
        "notify_command = [\"touch\", \"x\"]",
        "editor = \"sh -c true\"",
        "state = \"/tmp\"",
    ];
    for line in loose {
        // Not even if the person has already loosened it.
        let fault =
            load("mode = \"yolo\"\nallow_delete = true\n", &format!("# one\n{line}\n"), &[]).unwrap_err();
        let fault = fault.downcast_ref::<ConfigError>().unwrap_or_else(|| panic!("{line}: {fault}"));
        assert_eq!((fault.diagnostics[0].line, fault.diagnostics[0].column), (2, 1), "{line}");
        assert!(fault.to_string().contains("may only tighten"), "{fault}");
    }
    // Every setting is tried above, or nobody may loosen it.
    for key in KEYS {
        let tried = loose.iter().any(|line| line.starts_with(key.name));
        assert!(
            tried || matches!(key.name, "color" | "min_read_time_percent" | "mcp_elicitation" | "hook_ask"),
            "{}",
            key.name
        );
    }
}

// req: E3, E4, E9, E10, R9
#[test]
fn limits_rehearsals_and_challenges_of_the_gate_follow_the_settings() {
    let own = "max_concurrent = 3\nfile_bytes = 4096\nrehearse = false\nchallenge_when = \"after-answer\"\n\
               challenge_replaces_checkpoint = [\"deploy\", \"mcp_shop_pay\"]\n";
    let config = load(own, "", &[]).unwrap();
    let gate = config.gate();
    assert_eq!((gate.max_concurrent, gate.rehearse, config.file_bytes()), (3, false, 4_096));
    assert_eq!(gate.challenge_when, ChallengeTiming::AfterAnswer);
    assert_eq!(Vec::from_iter(gate.challenge_replaces_checkpoint), ["deploy", "mcp_shop_pay"]);
    // A project lowers limits, and has the person read the challenge.
    let project = "max_concurrent = 1\nfile_bytes = 2048\nchallenge_when = \"before-question\"\n";
    let config = load(own, project, &[]).unwrap();
    let gate = config.gate();
    assert_eq!((gate.max_concurrent, config.file_bytes()), (1, 2_048));
    assert_eq!(gate.challenge_when, ChallengeTiming::BeforeQuestion);
    // Arguments have room for the old and the new text of the largest edit.
    let gate = load("file_bytes = 67108864\n", "", &[]).unwrap().gate();
    assert!(gate.max_argument_bytes > 2 * 67_108_864);
}

// req: E7
#[test]
fn a_container_is_trusted_by_a_file_of_the_organisation_or_the_person_alone() {
    let trusted = "container = \"trusted\"\n";
    assert!(!Config::defaults().unwrap().trusts_container());
    assert!(load_layers(&[(Layer::Organisation, trusted)], &[]).unwrap().trusts_container());
    assert!(load_layers(&[(Layer::User, trusted)], &[]).unwrap().trusts_container());
    // An agent can write the variables of its commands.
    let variable = [("BYLEAVE_CONTAINER", "trusted")];
    assert!(!load_layers(&[], &variable).unwrap().trusts_container());
}

// req: E7
#[test]
fn a_person_or_an_organisation_chooses_where_commands_run() {
    let image = |name: &str| RunOn::Oci(name.into());
    assert_eq!(Config::defaults().unwrap().run_on(), RunOn::Native);
    let organisation = (Layer::Organisation, "run_on = \"oci:theirs:1\"\n");
    assert_eq!(load_layers(&[organisation], &[]).unwrap().run_on(), image("theirs:1"));
    let layers = [organisation, (Layer::User, "run_on = \"oci:mine\"\n")];
    assert_eq!(load_layers(&layers, &[]).unwrap().run_on(), image("mine"));
    let variable = [("BYLEAVE_RUN_ON", "native")];
    assert_eq!(load_layers(&layers, &variable).unwrap().run_on(), RunOn::Native);
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_what_is_meant() {
    let wrong = [
        ("mdoe = \"yolo\"", "did you mean `mode`?"),
        ("mode = \"yollo\"", "did you mean `yolo`?"),
        ("mode = 3", "not a string"),
        ("call_timeout = \"601s\"", "from `1s` to `10m`"),
        ("call_timeout = 30", "not a string"),
        ("min_read_time_percent = 99", "from 100"),
        ("questions_per_minute = 0", "from 1"),
        ("questions_per_minute = -1", "from 1"),
        ("max_concurrent = 0", "from 1 to 64"),
        ("max_concurrent = 65", "from 1 to 64"),
        ("file_bytes = 1023", "from 1024 to 67108864"),
        ("max_concurent = 2", "did you mean `max_concurrent`?"),
        ("challenge_when = \"before\"", "did you mean `before-question`?"),
        ("challenge_replaces_checkpoint = \"deploy\"", "not a list"),
        ("allow_delete = \"yes\"", "without quotes"),
        ("waive = [\"network-confine\"]", "did you mean `network-confined`?"),
        ("waive = \"network-confined\"", "not a list"),
        ("run_on = \"docker\"", "`oci:` and the name of an image"),
        ("run_on = \"oci:--privileged\"", "not the name of an image"),
        ("[mode]\nx = 1", "not a string"),
        ("zzzz = 1", "the settings are mode"),
        ("[[reviewers]]\nname = \"x\"", "did you mean `[[reviewer]]`?"),
        ("mode = ", "TOML"),
        ("mode = \"yolo\"\nmode = \"yolo\"", "TOML"),
    ];
    for (text, told) in wrong {
        let fault = load(text, "", &[]).unwrap_err().to_string();
        assert!(fault.contains(told) && fault.contains("line "), "{text}: {fault}");
    }
    for (name, text) in
        [("BYLEAVE_ALLOW_DELETE", "perhaps"), ("BYLEAVE_WAIVE", "nothing"), ("BYLEAVE_MODE", "x")]
    {
        let fault = load("", "", &[(name, text)]).unwrap_err().to_string();
        assert!(fault.contains(name), "{fault}");
    }
}
