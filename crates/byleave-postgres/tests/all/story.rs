//! Legal records, split into the batches of their appends.

use byleave_conformance::ledger::record_script::{CallScript, ScriptSettings};
use byleave_gate::core::id::OwnerId;
use byleave_gate::core::question::Answer;
use byleave_postgres::Ingest;
use uuid::Uuid;

use crate::server::vault;

/// The encrypted entries that the script has added since the last time.
pub(crate) fn taking(script: &mut CallScript) -> Ingest {
    let key = script.key.clone();
    Ingest::seal_batch(&script.batch(), &vault(), Some(&key)).unwrap()
}

/// A call that a person is asked about, that is approved, and that runs to its end: four appends.
pub(crate) fn asked(setting: ScriptSettings) -> (CallScript, Vec<Ingest>) {
    let mut script =
        CallScript::waiting(ScriptSettings { verdict: ScriptSettings::asking().verdict, ..setting }).unwrap();
    let mut takings = vec![taking(&mut script)];
    script.answer(Answer::Yes { note: None }).unwrap();
    takings.push(taking(&mut script));
    script.start(OwnerId::new(Uuid::now_v7())).unwrap();
    takings.push(taking(&mut script));
    script.end().unwrap();
    script.settle().unwrap();
    takings.push(taking(&mut script));
    (script, takings)
}

/// A call that waits for a person: one append.
pub(crate) fn waiting(setting: ScriptSettings) -> (CallScript, Ingest) {
    let mut script =
        CallScript::waiting(ScriptSettings { verdict: ScriptSettings::asking().verdict, ..setting }).unwrap();
    let taking = taking(&mut script);
    (script, taking)
}
