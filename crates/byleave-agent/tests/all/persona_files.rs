//! Personas as files: which files are read, their precedence, and which are refused, with the position of the
//! error.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use byleave_agent::persona::{FILE_BYTES_MAX, ModelName, Persona, PersonaLoadError, PersonaSource};

const GOOD: &str = r#"name = "Gardener"
description = "Prunes."
model = "ollama/library/qwen3:8b"
tools = ["read_file", "todo_*"]
guidelines = ["Water first."]
prompt = """
You prune.
	Gently.
"""
"#;

#[test]
fn a_persona_is_read() {
    let persona = Persona::parse("gardener.toml", GOOD).unwrap();
    let model = ModelName { provider: "ollama".into(), model: "library/qwen3:8b".into() };
    assert_eq!(model.to_string(), "ollama/library/qwen3:8b");
    let expected = Persona {
        name: "Gardener".into(),
        description: "Prunes.".into(),
        model: Some(model),
        hosted: None,
        tools: Some(vec!["read_file".into(), "todo_*".into()]),
        guidelines: vec!["Water first.".into()],
        prompt: "You prune.\n\tGently.".into(),
    };
    assert_eq!(persona, expected);
}

#[test]
fn the_guide_has_a_persona_and_our_numbers() {
    let guide = include_str!("../../../../docs/guide/personas.md");
    let (_, rest) = guide.split_once("\n```toml\n").unwrap();
    let (text, _) = rest.split_once("```\n").unwrap();
    let persona = Persona::parse("docs/guide/personas.md", text).unwrap();
    assert!(persona.model.is_some() && persona.tools.is_some() && !persona.guidelines.is_empty());
    assert!(guide.contains(&format!("{} KiB", FILE_BYTES_MAX >> 10)));
    for found in Persona::load_all(None).unwrap() {
        assert!(guide.contains(&format!("| `{}` |", found.unwrap().key)));
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_what_was_expected() {
    let long = |count: usize| format!("\"{}\"", "x".repeat(count));
    let many = |count: usize| format!("[{}]", "\"x\",".repeat(count));
    for (from, to, told) in [
        (
            "model =",
            "modell =",
            "line 3, column 1: unknown field `modell`; the fields of a persona are `name`",
        ),
        ("name = \"Gardener\"\n", "", "line 1, column 1: the persona has no `name`; add `name = \"…\"`"),
        ("description = \"Prunes.\"\n", "", "the persona has no `description`"),
        ("\"Gardener\"", "7", "line 1, column 8: this is not a text; write it in quotes"),
        ("\"Gardener\"", "\" \"", "line 1, column 8: this text is empty"),
        ("\"Gardener\"", &long(65), "line 1, column 8: this text has 65 characters; at most 64 are allowed"),
        (
            "\"Prunes.\"",
            "\"\"\"Pru\nnes.\"\"\"",
            "invisible character, U+000A; write visible characters, on one line",
        ),
        ("\"Prunes.\"", &long(301), "at most 300 are allowed"),
        (
            "ollama/library/qwen3:8b",
            "qwen3",
            "line 3, column 9: `qwen3` is not a model; write provider and name",
        ),
        ("ollama/library/qwen3:8b", "/x", "`/x` is not a model"),
        ("ollama/library/qwen3:8b", "ollama/", "`ollama/` is not a model"),
        ("ollama/library/qwen3:8b", "ollama/a b", "`ollama/a b` is not a model"),
        ("[\"read_file\", \"todo_*\"]", "\"read_file\"", "line 4, column 9: this is not a list; write it as"),
        (
            "\"todo_*\"",
            "\"*_write\"",
            "line 4, column 23: `*_write` is not a tool name; write the name of a tool",
        ),
        ("\"todo_*\"", "\"\"", "line 4, column 23: this text is empty"),
        ("\"todo_*\"", "true", "line 4, column 23: this is not a text"),
        ("[\"read_file\", \"todo_*\"]", &many(257), "the list has 257 entries; at most 256 are allowed"),
        ("[\"Water first.\"]", &many(65), "the list has 65 entries; at most 64 are allowed"),
        ("\"Water first.\"", &long(1_001), "at most 1000 are allowed"),
        (
            "Gently",
            "Gently\u{202e}",
            "line 6, column 10: the text has an invisible character, U+202E; remove it",
        ),
        ("Gently", "Gently\u{e0041}", "U+E0041"),
        ("Gently", &"x".repeat(32_769), "at most 32768 are allowed"),
        ("\"Gardener\"", "\"Gardener", "write valid TOML"),
        ("name = \"Gardener\"", "name = \"Gardener\"\nname = \"Other\"", "line 2, column 1: duplicate key"),
        ("name = \"Gardener\"", "[name]", "line 1, column 1: this is not a text"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let fault = Persona::parse("g.toml", &GOOD.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(fault.starts_with("cannot use persona `g.toml`: line "), "{fault}");
        assert!(fault.contains(told), "{told}: {fault}");
    }
    let both = GOOD.replacen("model =", "hosted = \"openai/asst-7\"\nmodel =", 1);
    let fault = Persona::parse("g.toml", &both).unwrap_err().to_string();
    assert!(
        fault.contains("line 3, column 1: the persona has a `model` and is `hosted`; remove one"),
        "{fault}"
    );
    let alone = GOOD.replacen("model = \"ollama/library/qwen3:8b\"", "hosted = \"asst-7\"", 1);
    let fault = Persona::parse("g.toml", &alone).unwrap_err().to_string();
    assert!(fault.contains("`asst-7` is not a hosted persona; write provider and name"), "{fault}");
    let several = Persona::parse("g.toml", "model = 1\nnmae = 2").unwrap_err();
    assert_eq!(several.errors.len(), 4, "{several}");
}

#[test]
fn a_file_goes_before_a_built_in_of_the_same_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("coder.toml");
    let builtin = Persona::load("coder", Some(dir.path())).unwrap();
    assert_eq!((builtin.origin, builtin.persona.name.as_str()), (PersonaSource::Builtin, "Coder"));
    fs::write(&path, GOOD).unwrap();
    let own = Persona::load("coder", Some(dir.path())).unwrap();
    assert_eq!((own.key.as_str(), own.persona.name.as_str()), ("coder", "Gardener"));
    assert_eq!(own.origin, PersonaSource::File(path.clone()));
    let by_path = Persona::load(path.to_str().unwrap(), None).unwrap();
    assert_eq!(by_path, own);
    // An invalid file is not skipped.
    fs::write(&path, "name = 1").unwrap();
    assert!(matches!(Persona::load("coder", Some(dir.path())), Err(PersonaLoadError::Invalid(_))));
}

#[test]
fn all_are_listed_with_where_they_came_from() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("gardener.toml", GOOD), ("plain.toml", GOOD), ("a b.toml", GOOD), ("notes.md", "")]
    {
        fs::write(dir.path().join(name), text).unwrap();
    }
    fs::write(dir.path().join("bad.toml"), "nmae = 1").unwrap();
    let seen = Persona::load_all(Some(dir.path())).unwrap().into_iter().map(|found| match found {
        Ok(found) if found.origin == PersonaSource::Builtin => format!("{}, built in", found.key),
        Ok(found) => found.key,
        Err(fault) => {
            fault.to_string().split(": ").next().unwrap().replace(dir.path().to_str().unwrap(), "DIR")
        }
    });
    let expected = [
        "`a b` is not a valid persona name",
        "cannot use persona `DIR/bad.toml`",
        "clerk, built in",
        "coder, built in",
        "gardener",
        "plain",
        "reviewer, built in",
    ];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    let nowhere = dir.path().join("nowhere");
    assert_eq!(Persona::load_all(Some(&nowhere)).unwrap().len(), 4, "a directory need not be there");
}

#[test]
fn files_that_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("real.toml"), GOOD).unwrap();
    symlink("/etc/passwd", at("out.toml")).unwrap();
    symlink("real.toml", at("within.toml")).unwrap();
    symlink("nowhere", at("coder.toml")).unwrap();
    fs::create_dir(at("directory.toml")).unwrap();
    fs::write(at("binary.toml"), b"name = \"\xff\"").unwrap();
    let padded = |bytes: usize| format!("{GOOD}#{}", "x".repeat(bytes - GOOD.len() - 1));
    fs::write(at("large.toml"), padded(FILE_BYTES_MAX + 1)).unwrap();
    fs::write(at("most.toml"), padded(FILE_BYTES_MAX)).unwrap();
    let status = std::process::Command::new("mkfifo").arg(at("pipe.toml")).status().unwrap();
    assert!(status.success());
    for (name, told) in [
        ("out", "the file is a link; put the file itself there"),
        ("within", "the file is a link"),
        ("coder", "the file is a link"),
        ("directory", "the path is not a regular file"),
        ("pipe", "the path is not a regular file"),
        ("binary", "the file is not UTF-8 text"),
        ("large", "the file has more than 65536 bytes"),
    ] {
        for asked in [name.to_owned(), at(name).with_extension("toml").to_str().unwrap().to_owned()] {
            let fault = Persona::load(&asked, Some(dir.path())).unwrap_err();
            assert!(matches!(&fault, PersonaLoadError::Unreadable { .. }), "{fault}");
            assert!(fault.to_string().contains(told), "{name}: {fault}");
        }
    }
    assert!(Persona::load("most", Some(dir.path())).is_ok());
}

// req: L4
#[test]
fn upper_and_lower_case_are_the_same_name() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["coder", "Coder", "CODER"] {
        let found = Persona::load(name, Some(dir.path())).unwrap();
        assert_eq!((found.key.as_str(), found.origin), ("coder", PersonaSource::Builtin));
    }
    // A file of the user's own, in any case, goes before the built-in persona.
    let path = dir.path().join("Coder.toml");
    fs::write(&path, GOOD).unwrap();
    for name in ["coder", "Coder", "cOdEr"] {
        let found = Persona::load(name, Some(dir.path())).unwrap();
        assert_eq!((found.key.as_str(), found.origin), ("coder", PersonaSource::File(path.clone())));
    }
    let all = Persona::load_all(Some(dir.path())).unwrap();
    assert_eq!(all.iter().filter(|found| found.as_ref().is_ok_and(|found| found.key == "coder")).count(), 1);
    // Two files of one name are an error, whichever was meant.
    fs::write(dir.path().join("coder.toml"), GOOD).unwrap();
    let told =
        "several files are the persona `coder`: `Coder.toml`, `coder.toml`; remove or rename all but one";
    for name in ["coder", "Coder", "CODER"] {
        assert_eq!(Persona::load(name, Some(dir.path())).unwrap_err().to_string(), told);
    }
    let all = Persona::load_all(Some(dir.path())).unwrap();
    let faults: Vec<_> = all.into_iter().filter_map(Result::err).map(|fault| fault.to_string()).collect();
    assert_eq!(faults, [told]);
    // Other personas are not affected, and a path names one file.
    assert!(Persona::load("Plain", Some(dir.path())).is_ok());
    assert!(Persona::load(path.to_str().unwrap(), Some(dir.path())).is_ok());
}

#[test]
fn names_that_are_none() {
    let none = Persona::load("codr", None).unwrap_err().to_string();
    assert_eq!(none, "there is no persona `codr`; the personas are clerk, coder, plain, reviewer");
    let long = "x".repeat(65);
    for name in ["", "..", "a b", "CO DER", "c\u{f6}der", long.as_str()] {
        let fault = Persona::load(name, Some(Path::new("/"))).unwrap_err();
        assert!(matches!(fault, PersonaLoadError::InvalidName { .. }), "{name}: {fault}");
    }
    let missing = Persona::load("./nowhere.toml", None).unwrap_err().to_string();
    assert_eq!(missing, "cannot read `./nowhere.toml`: there is no such file");
}
