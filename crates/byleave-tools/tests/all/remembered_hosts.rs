//! A yes to a rule with `remember` counts for its host until the end of the session.

use byleave_gate::core::call::Mode;
use byleave_gate::settings::GateSettings;
use serde_json::json;

use crate::attacks::as_user;
use crate::world::{ToolTestWorld, yes};

const RULES: &str = "[[rule]]\nverdict = \"ask\"\nreach = [\"*.docs.invalid\"]\nremember = true\nreason = \"documentation\"\n";

/// Fetches a page, with a yes, and returns how often a person was asked. The hosts do not exist, so nothing is reached.
async fn asks(world: &ToolTestWorld, session: &str, host: &str, answers: usize) -> usize {
    // A call that a person declined is not asked about again, so each page is another one.
    let page = json!({ "url": format!("https://{host}/{}", uuid::Uuid::new_v4()) });
    let answers = vec![yes(); answers];
    let mode = Mode::ConfirmSensitive;
    world.call_in(session, "web_fetch", page, &answers, mode).await.asked.len()
}

// req: P1
#[test]
fn a_documentation_host_is_asked_about_once_in_a_session() {
    as_user("remembered_hosts::a_documentation_host_is_asked_about_once_in_a_session", async {
        let world = ToolTestWorld::with(RULES, GateSettings::default());
        let one = "one.docs.invalid";
        assert_eq!(asks(&world, "s", one, 0).await, 1, "a no is not remembered");
        assert_eq!(asks(&world, "s", one, 1).await, 1);
        assert_eq!(asks(&world, "s", one, 0).await, 0, "the yes is remembered");
        assert_eq!(asks(&world, "s", "two.docs.invalid", 0).await, 1, "for this host only");
        assert_eq!(asks(&world, "t", one, 0).await, 1, "in this session only");
        assert_eq!(asks(&world, "s", "other.invalid", 1).await, 1);
        assert_eq!(
            asks(&world, "s", "other.invalid", 1).await,
            1,
            "without such a rule each call is asked about"
        );
        // Sending is something else.
        let mode = Mode::ConfirmSensitive;
        let send = json!({ "url": format!("https://{one}/page"), "method": "POST", "body": "x" });
        let sent = world.call_in("s", "web_fetch", send, &[], mode).await;
        assert!(sent.asked.len() == 1 || !sent.result.is_success(), "{}", sent.text());
    });
}
