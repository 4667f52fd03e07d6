//! `byleave tools`: list, show and search, in every output format.

use crate::world::CliTestWorld;

// req: G1, G3, T9
#[test]
fn tools_are_listed_shown_and_found() {
    let mut world = CliTestWorld::new();
    world.run(&["tools"]);
    world.run(&["tools", "list", "--json"]);
    world.run(&["tools", "show", "append_line"]);
    world.run(&["tools", "show", "apend_line"]);
    world.run(&["tools", "search", "append", "to", "file"]);
    world.run(&["tools", "search", "submarine"]);
    for form in ["openai", "anthropic", "gemini", "mcp"] {
        world.run(&["tools", "schema", "--format", form, "echo"]);
    }
    world.run(&["tools", "schema", "--format", "mcp", "ecko"]);
    world.run(&["tools", "schema"]);
    assert_eq!(world.json(&["tools", "schema", "--format", "mcp"]).as_array().unwrap().len(), 19);
    assert!(!world.state().exists(), "looking at tools opens no book");
    insta::assert_snapshot!(world.transcript());
}
