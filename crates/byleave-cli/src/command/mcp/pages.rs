//! The pages of `byleave serve` to which a client of the gateway is sent.

use byleave_mcp::gateway::QuestionPageLookup;

use crate::resolved_options::ResolvedOptions;

/// Returns the pages of a server on the same audit log, if one runs.
#[cfg(feature = "serve")]
pub(super) fn pages(options: &ResolvedOptions) -> Option<QuestionPageLookup> {
    let file = crate::command::serve::serving_file(options);
    Some(std::sync::Arc::new(move |question| {
        let file = file.clone();
        Box::pin(async move {
            byleave_server::server_lock::find_running(&file).await.map(|url| url.question(question))
        })
    }))
}

/// Returns nothing without the feature `serve`.
#[cfg(not(feature = "serve"))]
pub(super) fn pages(_options: &ResolvedOptions) -> Option<QuestionPageLookup> {
    None
}
