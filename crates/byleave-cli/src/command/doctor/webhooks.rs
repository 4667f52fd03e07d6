//! The doctor's check of webhooks.

use super::environment::DoctorFinding;
use crate::call_display::format_count;
use crate::command::serve::webhook;
use crate::resolved_options::ResolvedOptions;

/// Checks whether the webhooks were delivered, if there are any.
pub(super) fn webhooks(options: &ResolvedOptions) -> Option<DoctorFinding> {
    let found = match webhook::with_status(options) {
        Ok(found) => found,
        Err(complaint) => {
            let hint = complaint.hint.clone().unwrap_or_default();
            return Some(DoctorFinding::problem("webhooks", complaint.to_string(), hint));
        }
    };
    if let Some((webhook, standing)) = found.iter().find(|(_, standing)| !standing.is_healthy()) {
        let what = format!("{} at {}: {}", webhook.id, webhook.origin(), webhook::format_status(standing));
        let hint = format!("`byleave serve webhook test {}` tries it again", webhook.id);
        return Some(DoctorFinding::problem("webhooks", what, hint));
    }
    let count = u64::try_from(found.len()).unwrap_or(u64::MAX);
    (count > 0)
        .then(|| DoctorFinding::ok("webhooks", format!("{}, all healthy", format_count(count, "webhook"))))
}
