//! What users of core could notice.

mod refusals;
