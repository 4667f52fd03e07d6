//! Personas as files: what is read, what goes before what, and what is refused, with its place.

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
        ("model =", "modell =", "line 3, column 1: there is no field `modell`; a persona has `name`"),
        ("name = \"Gardener\"\n", "", "line 1, column 1: the persona has no `name`; add `name = \"…\"`"),
        ("description = \"Prunes.\"\n", "", "the persona has no `description`"),
        ("\"Gardener\"", "7", "line 1, column 8: this is no text; write it in quotes"),
        ("\"Gardener\"", "\" \"", "line 1, column 8: there is nothing in this text"),
        ("\"Gardener\"", &long(65), "line 1, column 8: this text has 65 characters; at most 64 are taken"),
        (
            "\"Prunes.\"",
            "\"\"\"Pru\nnes.\"\"\"",
            "nobody sees, U+000A; write visible characters, on one line",
        ),
        ("\"Prunes.\"", &long(301), "at most 300 are taken"),
        (
            "ollama/library/qwen3:8b",
            "qwen3",
            "line 3, column 9: `qwen3` is no model; write provider and model",
        ),
        ("ollama/library/qwen3:8b", "/x", "`/x` is no model"),
        ("ollama/library/qwen3:8b", "ollama/", "`ollama/` is no model"),
        ("ollama/library/qwen3:8b", "ollama/a b", "`ollama/a b` is no model"),
        ("[\"read_file\", \"todo_*\"]", "\"read_file\"", "line 4, column 9: this is no list; write it as"),
        ("\"todo_*\"", "\"*_write\"", "line 4, column 23: `*_write` names no tool; write a tool's name"),
        ("\"todo_*\"", "\"\"", "line 4, column 23: there is nothing in this text"),
        ("\"todo_*\"", "true", "line 4, column 23: this is no text"),
        ("[\"read_file\", \"todo_*\"]", &many(257), "the list has 257 entries; at most 256 are taken"),
        ("[\"Water first.\"]", &many(65), "the list has 65 entries; at most 64 are taken"),
        ("\"Water first.\"", &long(1_001), "at most 1000 are taken"),
        (
            "Gently",
            "Gently\u{202e}",
            "line 6, column 10: there is a character in it that nobody sees, U+202E; take it out",
        ),
        ("Gently", "Gently\u{e0041}", "U+E0041"),
        ("Gently", &"x".repeat(32_769), "at most 32768 are taken"),
        ("\"Gardener\"", "\"Gardener", "write it as TOML says"),
        ("name = \"Gardener\"", "name = \"Gardener\"\nname = \"Other\"", "line 2, column 1: duplicate key"),
        ("name = \"Gardener\"", "[name]", "line 1, column 1: this is no text"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let fault = Persona::parse("g.toml", &GOOD.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(fault.starts_with("cannot use persona `g.toml`: line "), "{fault}");
        assert!(fault.contains(told), "{told}: {fault}");
    }
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
    // A broken one is not passed over.
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
        "`a b` cannot be the name of a persona",
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
        ("out", "it is a link; put the file itself there"),
        ("within", "it is a link"),
        ("coder", "it is a link"),
        ("directory", "it is not a file"),
        ("pipe", "it is not a file"),
        ("binary", "it is not text in UTF-8"),
        ("large", "it has more than 65536 bytes"),
    ] {
        for asked in [name.to_owned(), at(name).with_extension("toml").to_str().unwrap().to_owned()] {
            let fault = Persona::load(&asked, Some(dir.path())).unwrap_err();
            assert!(matches!(&fault, PersonaLoadError::Unreadable { .. }), "{fault}");
            assert!(fault.to_string().contains(told), "{name}: {fault}");
        }
    }
    assert!(Persona::load("most", Some(dir.path())).is_ok());
}

#[test]
fn names_that_are_none() {
    let none = Persona::load("codr", None).unwrap_err().to_string();
    assert_eq!(none, "there is no persona `codr`; there are clerk, coder, plain, reviewer");
    let long = "x".repeat(65);
    for name in ["", "Coder", "..", "a b", "c\u{f6}der", long.as_str()] {
        let fault = Persona::load(name, Some(Path::new("/"))).unwrap_err();
        assert!(matches!(fault, PersonaLoadError::InvalidName { .. }), "{name}: {fault}");
    }
    let missing = Persona::load("./nowhere.toml", None).unwrap_err().to_string();
    assert_eq!(missing, "cannot read `./nowhere.toml`: there is no such file");
}
