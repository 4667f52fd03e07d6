//! Metrics in the form of Prometheus (A2): what the library counts in this process, for whoever scrapes.

use std::sync::Arc;

use metrics_exporter_prometheus::{BuildError, PrometheusBuilder};

/// Writes all metrics of this process.
pub type MetricsRenderer = Arc<dyn Fn() -> String + Send + Sync>;

/// Collects what this process counts from now on. Once in a process.
pub fn collect() -> Result<MetricsRenderer, BuildError> {
    let handle = PrometheusBuilder::new().install_recorder()?;
    Ok(Arc::new(move || {
        handle.run_upkeep();
        handle.render()
    }))
}
